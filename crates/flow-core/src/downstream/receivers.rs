//! Where applications are told, each behind a gate of its own: one that is dead, slow or flooded delays no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Gate, Limits, Turn};
use crate::answer::NoAnswer;
use crate::crash::Spot;
use crate::ids::CallerId;
use crate::notify::{DeliveryAnswer, Notification};
use crate::ports::{Clock, Receiver};

struct Entry {
    port: Arc<dyn Receiver>,
    gate: Gate,
}

/// The configured receivers, by application.
pub struct Receivers {
    clock: Arc<dyn Clock>,
    entries: BTreeMap<CallerId, Entry>,
}

impl Receivers {
    /// None yet.
    pub fn new(clock: Arc<dyn Clock>) -> Receivers {
        Receivers { clock, entries: BTreeMap::new() }
    }

    /// Adds one; an application given twice keeps the last.
    #[must_use]
    pub fn with(mut self, caller: CallerId, port: Arc<dyn Receiver>, limits: Limits) -> Receivers {
        let gate = Gate::new(format!("receiver {caller}"), limits, Arc::clone(&self.clock));
        self.entries.insert(caller, Entry { port, gate });
        self
    }

    /// Who is told, with the most calls at once that each bears.
    pub fn callers(&self) -> Vec<(CallerId, u32)> {
        let limit = |entry: &Entry| entry.gate.limits.max_concurrent_calls.max(1);
        self.entries.iter().map(|(caller, entry)| (caller.clone(), limit(entry))).collect()
    }

    /// How many calls may be begun now, at most `wanted`; or how long none may, in milliseconds. Books nothing.
    ///
    /// # Errors
    /// The waiting time while the breaker is open or the budget is spent.
    pub fn room(&self, caller: &CallerId, wanted: u32) -> Result<u32, u64> {
        let Some(Entry { gate, port: _ }) = self.entries.get(caller) else { return Err(NOT_CONFIGURED_MS) };
        let now_ms = self.clock.monotonic_ms();
        gate.with_breaker(|breaker| {
            breaker.peek(now_ms)?;
            // A breaker that wants to see one answer is given one call to see.
            Ok(if breaker.is_open() { 1 } else { wanted })
        })
        .and_then(|room| match gate.with_budget(|budget| budget.wait_ms(now_ms)) {
            0 => Ok(room),
            wait_ms => Err(wait_ms),
        })
    }

    /// Tells an application through its gate, between the crash points of the call. Gives the answer and the call's time
    /// in milliseconds; [`DeliveryAnswer::NotSent`] when the gate let nothing out.
    pub async fn notify(&self, notification: &Notification) -> (DeliveryAnswer, u32) {
        let Some(Entry { gate, port }) = self.entries.get(&notification.caller) else {
            return (DeliveryAnswer::NotSent { wait_ms: NOT_CONFIGURED_MS }, 0);
        };
        let told = gate.call(Spot::Notify, "notify", Turn::Eager, || port.notify(notification)).await;
        match told {
            Ok((answered, took_ms)) => (answered.answer, took_ms),
            Err(NoAnswer::Unavailable { cause: _, retry_after_ms }) => {
                (DeliveryAnswer::NotSent { wait_ms: retry_after_ms.unwrap_or(0) }, 0)
            }
            // A gate never answers so.
            Err(NoAnswer::Unknown(_)) => (DeliveryAnswer::NotSent { wait_ms: 0 }, 0),
        }
    }
}

/// How long what nobody here can send is left alone, in milliseconds.
const NOT_CONFIGURED_MS: u64 = 60_000;
