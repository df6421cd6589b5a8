//! Turns a decision to stay into a number of milliseconds.

use chrono::{DateTime, Utc};

use crate::decide::Pace;
use crate::flow::Flow;
use crate::retry::{JitterPermille, Schedule, postpone_ms};
use crate::state::State;

/// How a process advances flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvanceSettings {
    /// Retry schedule in `PAYING`.
    pub paying: Schedule,
    /// Retry schedule in `PAYED`.
    pub payed: Schedule,
    /// Retry schedule in `REFUNDING`.
    pub refunding: Schedule,
    /// How long the other entrances leave a flow alone after a state change, in milliseconds: the time that the call
    /// which wrote it needs for its next step. A call that dies is found after that.
    pub claim_ms: u64,
    /// Over how long postponed flows are spread when their downstream is back, in milliseconds.
    pub postpone_spread_ms: u64,
    /// Most steps of one call.
    pub max_steps: u32,
}

impl Default for AdvanceSettings {
    fn default() -> AdvanceSettings {
        AdvanceSettings {
            paying: Schedule::default(),
            payed: Schedule::default(),
            refunding: Schedule::default(),
            claim_ms: 15_000,
            postpone_spread_ms: 30_000,
            max_steps: 12,
        }
    }
}

/// When a flow that stays is due again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextTry {
    pub(super) next_in_ms: u64,
    pub(super) retry_count: u32,
}

impl AdvanceSettings {
    fn schedule(&self, state: State) -> &Schedule {
        match state {
            State::WaitPay | State::Paying | State::PayFail => &self.paying,
            State::Payed | State::BizSuccess => &self.payed,
            State::Refunding | State::Refunded => &self.refunding,
        }
    }

    /// When a call that our gate refused is worth another try by the same process, in milliseconds from now.
    pub(super) fn spread_ms(&self, retry_after_ms: Option<u64>, jitter: JitterPermille) -> u64 {
        postpone_ms(retry_after_ms.unwrap_or(0), self.postpone_spread_ms, jitter)
    }

    pub(super) fn next_try(
        &self,
        flow: &Flow,
        pace: Pace,
        wake_by: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
        jitter: JitterPermille,
    ) -> NextTry {
        let schedule = self.schedule(flow.state);
        let (delay_ms, retry_count) = match pace {
            Pace::Counted => {
                (schedule.delay_ms(flow.retry_count, jitter), flow.retry_count.saturating_add(1))
            }
            Pace::Postponed { retry_after_ms: Some(wait_ms) } => {
                (postpone_ms(wait_ms, self.postpone_spread_ms, jitter), flow.retry_count)
            }
            Pace::Postponed { retry_after_ms: None } => {
                (schedule.delay_ms(flow.retry_count, jitter), flow.retry_count)
            }
        };
        let until_ms = wake_by.and_then(|moment| u64::try_from((moment - now).num_milliseconds() + 1).ok());
        let next_in_ms = until_ms.map_or(delay_ms, |until_ms| delay_ms.min(until_ms.max(1)));
        NextTry { next_in_ms, retry_count }
    }
}
