//! The in-memory outbox passes the outbox's suite.

use std::sync::Arc;

use async_trait::async_trait;
use flow_testkit::clock::ManualClock;
use flow_testkit::conformance::outbox::{OutboxBench, OutboxFactory, Pass};
use flow_testkit::mem_store::MemStore;

struct InMemory;

struct ByHand(ManualClock);

#[async_trait]
impl Pass for ByHand {
    async fn pass_ms(&self, ms: u64) {
        self.0.advance_ms(ms);
    }
}

#[async_trait]
impl OutboxFactory for InMemory {
    async fn fresh(&self) -> OutboxBench {
        let clock = ManualClock::new();
        let store = MemStore::new(clock.clone());
        OutboxBench {
            store: Arc::new(store.clone()),
            second: Arc::new(store.clone()),
            outbox: Arc::new(store),
            pass: Arc::new(ByHand(clock)),
            keep: Box::new(()),
        }
    }
}

flow_testkit::outbox_conformance!(InMemory);
