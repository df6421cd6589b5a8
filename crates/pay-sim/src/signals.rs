//! Counts of calls that tests wait for instead of sleeping. Volatile: they start at zero with the process and with a reset.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use tokio::sync::Notify;

use crate::faults::Call;
use crate::ledger::Target;

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The call reached the simulator; a fault may still keep it from the world.
    Arrived,
    /// The world has seen it and, if it was to be committed, it is.
    #[default]
    Applied,
}

/// Whose calls are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// All of them.
    Any,
    /// One wallet order's (debit, query, close, refund) or execution's.
    Order(String),
    /// One refund's (refund, query_refund).
    Refund(String),
    /// One target's (execute, fact).
    Target(Target),
}

/// One topic's counts, by moment and call: one small row each, for a benchmark leaves many topics behind.
#[derive(Clone, Copy, Debug, Default)]
struct Row([[u32; Call::ALL.len()]; 2]);

impl Row {
    fn cell(&mut self, moment: Moment, call: Call) -> &mut u32 {
        &mut self.0[moment as usize][call as usize]
    }
}

/// The counts and those who wait for them.
#[derive(Debug, Default)]
pub struct Signals {
    counts: Mutex<HashMap<Topic, Row>>,
    changed: Notify,
    waiting: AtomicUsize,
}

impl Signals {
    /// Counts one call under each topic (and under [`Topic::Any`]), at each of the moments, and wakes whoever waits.
    pub fn count(&self, moments: &[Moment], call: Call, topics: impl IntoIterator<Item = Topic>) {
        {
            let mut counts = self.lock();
            for topic in topics.into_iter().chain([Topic::Any]) {
                let row = counts.entry(topic).or_default();
                for moment in moments {
                    *row.cell(*moment, call) += 1;
                }
            }
        }
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.changed.notify_waiters();
        }
    }

    /// The count so far.
    #[must_use]
    pub fn seen(&self, moment: Moment, call: Call, topic: &Topic) -> u32 {
        self.lock().get_mut(topic).map_or(0, |row| *row.cell(moment, call))
    }

    /// Returns the count once it is at least `wanted`. Never ends by itself otherwise: give it a time limit.
    pub async fn reach(&self, moment: Moment, call: Call, topic: &Topic, wanted: u32) -> u32 {
        let _guard = Waiting::enter(&self.waiting);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let seen = self.seen(moment, call, topic);
            if seen >= wanted {
                return seen;
            }
            changed.await;
        }
    }

    /// Back to zero.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Topic, Row>> {
        self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Counts a waiter for as long as it lives, also when its future is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
