//! The third side: what the business system says, for every order that has a flow.
//!
//! For all of them, and not only where the money disagrees: a benefit without a payment, or one that another order owns,
//! shows nowhere else. Through this process's own gates, so many at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flow_core::answer::{FactAnswer, NoAnswer};
use flow_core::ids::{FlowId, Target};
use flow_core::ports::ReconFlow;
use flow_core::state::State;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Run, RunError};
use crate::order::Fact;

/// How often a record is asked for.
const MAX_TRIES: u32 = 4;
/// Pause before it is asked for once more, where nobody says for how long; and the longest that somebody may say.
const PAUSE_MS: u64 = 50;
const LONGEST_PAUSE_MS: u64 = 2_000;
/// Attempts at one target that are looked through for the owner.
const MAX_ATTEMPTS: u32 = 100;

impl Run<'_> {
    /// The facts of these flows, by flow.
    pub(super) async fn facts(&mut self, flows: &[&ReconFlow]) -> Result<HashMap<FlowId, Fact>, RunError> {
        let turns = Arc::new(Semaphore::new(self.runner.settings.max_parallel_facts.max(1)));
        let mut asked = JoinSet::new();
        for flow in flows {
            let (advancer, turns) = (Arc::clone(&self.runner.advancer), Arc::clone(&turns));
            let (id, business, target) = (flow.id, flow.business.clone(), flow.target.clone());
            asked.spawn(async move {
                let _turn = turns.acquire_owned().await;
                let mut tries = 1;
                loop {
                    let answer = advancer.fact_to_compare(&business, &target).await;
                    let FactAnswer::None(no_answer) = answer else { return (id, answer) };
                    if tries >= MAX_TRIES {
                        return (id, answer);
                    }
                    tries += 1;
                    let pause_ms = match no_answer {
                        NoAnswer::Unavailable { retry_after_ms, .. } => retry_after_ms.unwrap_or(PAUSE_MS),
                        NoAnswer::Unknown(_) => PAUSE_MS,
                    };
                    tokio::time::sleep(Duration::from_millis(pause_ms.min(LONGEST_PAUSE_MS))).await;
                }
            });
        }
        let mut answers = HashMap::with_capacity(flows.len());
        while let Some(answered) = asked.join_next().await {
            let (id, answer) =
                answered.map_err(|_| std::io::Error::other("a read of a fact ended in a panic"))?;
            answers.insert(id, answer);
        }
        let mut facts = HashMap::with_capacity(flows.len());
        for flow in flows {
            let answer = answers.remove(&flow.id).unwrap_or(FactAnswer::Contradiction);
            facts.insert(flow.id, self.fact(flow, answer).await?);
        }
        // Before anything is written of these orders.
        let unreadable = self.tally.facts_unreadable;
        if unreadable > self.runner.settings.max_unreadable_facts {
            return Err(RunError::FactsUnreadable { orders: unreadable });
        }
        Ok(facts)
    }

    async fn fact(&mut self, flow: &ReconFlow, answer: FactAnswer) -> Result<Fact, RunError> {
        self.tally.facts_read += 1;
        Ok(match answer {
            FactAnswer::None(no_answer) => {
                self.tally.facts_read -= 1;
                self.tally.facts_unreadable += 1;
                Fact::Unreadable(no_answer.as_str())
            }
            FactAnswer::NotDone => Fact::NotDone,
            FactAnswer::Contradiction => Fact::Contradiction,
            FactAnswer::Done { owner } if owner.as_str() == flow.trade_order_no.as_str() => Fact::DoneForThis,
            FactAnswer::Done { owner } => {
                let owner = owner.to_string();
                let owner_was_charged = self.was_charged(&flow.target, &owner).await?;
                Fact::DoneForOther { owner, owner_was_charged }
            }
        })
    }

    /// Whether an order is an attempt at the target that was charged, and not paid back.
    async fn was_charged(&self, target: &Target, order_no: &str) -> Result<bool, RunError> {
        let attempts = self.runner.store.target_flows(target, MAX_ATTEMPTS).await?;
        let owner = attempts.iter().find(|attempt| attempt.trade_order_no.as_str() == order_no);
        Ok(owner.is_some_and(|owner| match owner.state {
            State::Payed | State::BizSuccess => true,
            State::WaitPay | State::Paying | State::PayFail | State::Refunding | State::Refunded => false,
        }))
    }
}
