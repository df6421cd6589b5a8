//! The in-memory store passes the store's suite.

use async_trait::async_trait;
use flow_testkit::clock::ManualClock;
use flow_testkit::conformance::store::{StoreBench, StoreFactory};
use flow_testkit::mem_store::MemStore;
use std::sync::Arc;

struct InMemory;

#[async_trait]
impl StoreFactory for InMemory {
    async fn fresh(&self) -> StoreBench {
        let store = MemStore::new(ManualClock::new());
        StoreBench { second: Arc::new(store.clone()), store: Arc::new(store), keep: Box::new(()) }
    }
}

flow_testkit::store_conformance!(InMemory);
