//! The entry lock in memory against the port's suite.

use std::sync::Arc;

use async_trait::async_trait;
use flow_core::ports::EntryLock;
use flow_testkit::conformance::entry::EntryFactory;
use flow_testkit::mem_entry::MemEntryLock;

struct InMemory;

#[async_trait]
impl EntryFactory for InMemory {
    async fn pair(&self, ttl_ms: u64) -> [Arc<dyn EntryLock>; 2] {
        let server = MemEntryLock::new(ttl_ms);
        [Arc::new(server.clone()), Arc::new(server)]
    }
}

flow_testkit::entry_conformance!(InMemory);
