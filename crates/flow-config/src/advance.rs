//! `[advance]`

use flow_core::retry::Schedule;

use crate::reader::Table;

/// How flows are brought forward.
#[derive(Debug, Clone)]
pub struct AdvanceConfig {
    /// Delays between tries in `PAYING`.
    pub paying_retry: Schedule,
    /// Delays between tries in `PAYED`.
    pub payed_retry: Schedule,
    /// Delays between tries in `REFUNDING`.
    pub refunding_retry: Schedule,
    /// How long the other entrances leave a flow alone after a state change, so that the call which wrote it can take
    /// its next step; a call that dies is found after that.
    pub claim_ms: u64,
    /// Over how long the flows come back that an outage postponed.
    pub postpone_spread_ms: u64,
    /// Most steps of one call.
    pub max_steps: u32,
    /// Tries in `REFUNDING` that a refusing wallet gets before the flow is held.
    pub refund_tries_before_hold: u32,
    /// Tries in one state after which the flow counts for people.
    pub attention_after_tries: u32,
    /// Time budget of the advance that a request starts; it goes on when the request's wait has ended.
    pub sync_budget_ms: u64,
    /// How long after a flow's creation the in-process timer keeps advancing it; afterwards it is the scanner's.
    pub timer_bound_ms: u64,
    /// Most flows that the timer holds; more are the scanner's.
    pub timer_queue_flows: usize,
    /// Most flows that the timer advances at once.
    pub timer_max_parallel_flows: usize,
    /// How long after its creation the scanner may find a flow: the creating request goes first.
    pub first_due_in_ms: u64,
}

impl AdvanceConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<AdvanceConfig> {
        let paying_retry = table.schedule("paying_retry_ms");
        let payed_retry = table.schedule("payed_retry_ms");
        let refunding_retry = table.schedule("refunding_retry_ms");
        let claim_ms = table.whole("claim_ms", 100..=600_000);
        let postpone_spread_ms = table.whole("postpone_spread_ms", 0..=3_600_000);
        let max_steps = table.whole("max_steps", 1..=1_000);
        let refund_tries_before_hold = table.whole("refund_tries_before_hold", 1..=100_000);
        let attention_after_tries = table.whole("attention_after_tries", 1..=100_000);
        let sync_budget_ms = table.whole("sync_budget_ms", 100..=120_000);
        let timer_bound_ms = table.whole("timer_bound_ms", 0..=86_400_000);
        let timer_queue_flows = table.whole("timer_queue_flows", 1..=10_000_000);
        let timer_max_parallel_flows = table.whole("timer_max_parallel_flows", 1..=10_000);
        let first_due_in_ms = table.whole("first_due_in_ms", 0..=600_000);
        Some(AdvanceConfig {
            paying_retry: paying_retry?,
            payed_retry: payed_retry?,
            refunding_retry: refunding_retry?,
            claim_ms: claim_ms?,
            postpone_spread_ms: postpone_spread_ms?,
            max_steps: max_steps?,
            refund_tries_before_hold: refund_tries_before_hold?,
            attention_after_tries: attention_after_tries?,
            sync_budget_ms: sync_budget_ms?,
            timer_bound_ms: timer_bound_ms?,
            timer_queue_flows: timer_queue_flows?,
            timer_max_parallel_flows: timer_max_parallel_flows?,
            first_due_in_ms: first_due_in_ms?,
        })
    }
}
