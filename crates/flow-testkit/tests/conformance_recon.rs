//! What reconciliation keeps in memory passes the suite.

use std::sync::Arc;

use async_trait::async_trait;
use flow_testkit::clock::ManualClock;
use flow_testkit::conformance::recon::{ReconBench, ReconFactory};
use flow_testkit::mem_recon::MemRecon;
use flow_testkit::mem_store::MemStore;

struct InMemory;

#[async_trait]
impl ReconFactory for InMemory {
    async fn fresh(&self) -> ReconBench {
        let clock = ManualClock::new();
        let flows = MemStore::new(clock.clone());
        let store = MemRecon::new(flows.clone(), clock);
        ReconBench {
            second: Arc::new(store.clone()),
            store: Arc::new(store),
            flows: Arc::new(flows),
            keep: Box::new(()),
        }
    }
}

flow_testkit::recon_conformance!(InMemory);
