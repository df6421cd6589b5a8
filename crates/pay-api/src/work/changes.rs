//! Who waits for a change of which flow, within a bound. Being told is a courtesy that spares time: a change made by
//! another process is told to nobody here, so that every waiter also looks into the database now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use flow_core::ids::FlowId;
use metrics::gauge;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The waiters of this process.
#[derive(Debug)]
pub struct Changes {
    waiting: Mutex<Waiting>,
    max_waiters: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    flows: HashMap<FlowId, Flow>,
    waiters: usize,
}

#[derive(Debug, Default)]
struct Flow {
    bell: Arc<Notify>,
    waiters: usize,
}

/// A place among the waiters; given back when dropped.
#[derive(Debug)]
pub struct Watch {
    changes: Arc<Changes>,
    flow_id: FlowId,
    bell: Arc<Notify>,
}

impl Changes {
    /// Nobody waits; at most `max_waiters` may.
    pub fn new(max_waiters: usize) -> Changes {
        Changes { waiting: Mutex::default(), max_waiters }
    }

    /// Tells everybody who waits for this flow to look again.
    pub fn announce(&self, flow_id: FlowId) {
        if let Some(flow) = self.lock().flows.get(&flow_id) {
            flow.bell.notify_waiters();
        }
    }

    /// A place among the waiters; `None` when all are taken.
    pub fn watch(self: &Arc<Self>, flow_id: FlowId) -> Option<Watch> {
        let mut waiting = self.lock();
        if waiting.waiters >= self.max_waiters {
            return None;
        }
        waiting.waiters += 1;
        let flow = waiting.flows.entry(flow_id).or_default();
        flow.waiters += 1;
        let bell = Arc::clone(&flow.bell);
        gauge!("api_flow_waiters").increment(1);
        Some(Watch { changes: Arc::clone(self), flow_id, bell })
    }

    /// How many wait.
    pub fn waiters(&self) -> usize {
        self.lock().waiters
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder of this lock panics")
    }
}

impl Watch {
    /// Completes with the next announcement after this call was polled or enabled.
    pub fn next_change(&self) -> Notified<'_> {
        self.bell.notified()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiting = self.changes.lock();
        waiting.waiters -= 1;
        if let Some(flow) = waiting.flows.get_mut(&self.flow_id) {
            flow.waiters -= 1;
            if flow.waiters == 0 {
                waiting.flows.remove(&self.flow_id);
            }
        }
        gauge!("api_flow_waiters").decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let changes = Arc::new(Changes::new(2));
        let id = FlowId::new(1).unwrap();
        let one = changes.watch(id).unwrap();
        let two = changes.watch(FlowId::new(2).unwrap()).unwrap();
        assert!(changes.watch(id).is_none());
        drop((one, two));
        assert_eq!(changes.waiters(), 0);
        assert!(changes.lock().flows.is_empty());
        assert!(changes.watch(id).is_some());
    }

    #[tokio::test]
    async fn an_announcement_reaches_every_waiter_of_the_flow() {
        let changes = Arc::new(Changes::new(8));
        let id = FlowId::new(1).unwrap();
        let (one, two) = (changes.watch(id).unwrap(), changes.watch(id).unwrap());
        let (mut first, mut second) = (Box::pin(one.next_change()), Box::pin(two.next_change()));
        first.as_mut().enable();
        second.as_mut().enable();
        changes.announce(FlowId::new(2).unwrap());
        changes.announce(id);
        tokio::join!(first, second);
    }
}
