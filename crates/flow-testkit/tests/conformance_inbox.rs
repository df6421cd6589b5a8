//! The in-memory inbox passes the inbox's suite.

use std::sync::Arc;

use async_trait::async_trait;
use flow_testkit::clock::ManualClock;
use flow_testkit::conformance::inbox::{InboxBench, InboxFactory};
use flow_testkit::mem_inbox::MemInbox;
use flow_testkit::mem_store::MemStore;

struct InMemory;

#[async_trait]
impl InboxFactory for InMemory {
    async fn fresh(&self) -> InboxBench {
        let clock = ManualClock::new();
        let inbox = MemInbox::new(clock.clone());
        InboxBench {
            second: Arc::new(inbox.clone()),
            inbox: Arc::new(inbox),
            clock: Arc::new(MemStore::new(clock)),
            keep: Box::new(()),
        }
    }
}

flow_testkit::inbox_conformance!(InMemory);
