//! The suites that every store, every inbox and every outbox pass, here as the run-time account of `docs/grants.sql`: what it may do is enough.

use std::sync::Arc;

use async_trait::async_trait;
use flow_core::store::{MySqlStore, StoreOptions};
use flow_testkit::conformance::inbox::{InboxBench, InboxFactory};
use flow_testkit::conformance::outbox::{OutboxBench, OutboxFactory, Pass};
use flow_testkit::conformance::recon::{ReconBench, ReconFactory};
use flow_testkit::conformance::store::{StoreBench, StoreFactory};

use crate::harness::{Flavor, Schema};

struct OnServer(Flavor);

#[async_trait]
impl StoreFactory for OnServer {
    async fn fresh(&self) -> StoreBench {
        let mut schema = Schema::fresh(self.0).await.expect("asked for only where there is a server");
        let url = schema.run_account_url().await;
        let store = Arc::new(MySqlStore::connect(StoreOptions::new(url.clone())).await.unwrap());
        let second = Arc::new(MySqlStore::connect(StoreOptions::new(url)).await.unwrap());
        StoreBench { store, second, keep: Box::new(schema) }
    }
}

struct RealTime;

#[async_trait]
impl Pass for RealTime {
    async fn pass_ms(&self, ms: u64) {
        tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
    }
}

#[async_trait]
impl OutboxFactory for OnServer {
    async fn fresh(&self) -> OutboxBench {
        let mut schema = Schema::fresh(self.0).await.expect("asked for only where there is a server");
        let url = schema.run_account_url().await;
        let store = Arc::new(MySqlStore::connect(StoreOptions::new(url.clone())).await.unwrap());
        let second = Arc::new(MySqlStore::connect(StoreOptions::new(url)).await.unwrap());
        OutboxBench {
            store: Arc::clone(&store) as _,
            outbox: store,
            second,
            pass: Arc::new(RealTime),
            keep: Box::new(schema),
        }
    }
}

#[async_trait]
impl InboxFactory for OnServer {
    async fn fresh(&self) -> InboxBench {
        let mut schema = Schema::fresh(self.0).await.expect("asked for only where there is a server");
        let url = schema.run_account_url().await;
        let inbox = Arc::new(MySqlStore::connect(StoreOptions::new(url.clone())).await.unwrap());
        let second = Arc::new(MySqlStore::connect(StoreOptions::new(url)).await.unwrap());
        InboxBench { clock: Arc::<MySqlStore>::clone(&inbox), inbox, second, keep: Box::new(schema) }
    }
}

#[async_trait]
impl ReconFactory for OnServer {
    async fn fresh(&self) -> ReconBench {
        let mut schema = Schema::fresh(self.0).await.expect("asked for only where there is a server");
        let url = schema.run_account_url().await;
        let store = Arc::new(MySqlStore::connect(StoreOptions::new(url.clone())).await.unwrap());
        let second = Arc::new(MySqlStore::connect(StoreOptions::new(url)).await.unwrap());
        ReconBench { flows: Arc::<MySqlStore>::clone(&store), store, second, keep: Box::new(schema) }
    }
}

mod mysql {
    mod recon {
        flow_testkit::recon_conformance!(super::super::OnServer(super::super::Flavor::MySql));
    }
    mod inbox {
        flow_testkit::inbox_conformance!(super::super::OnServer(super::super::Flavor::MySql));
    }
    flow_testkit::store_conformance!(super::OnServer(super::Flavor::MySql));
    flow_testkit::outbox_conformance!(super::OnServer(super::Flavor::MySql));
}

mod mariadb {
    mod recon {
        flow_testkit::recon_conformance!(super::super::OnServer(super::super::Flavor::MariaDb));
    }
    mod inbox {
        flow_testkit::inbox_conformance!(super::super::OnServer(super::super::Flavor::MariaDb));
    }
    flow_testkit::store_conformance!(super::OnServer(super::Flavor::MariaDb));
    flow_testkit::outbox_conformance!(super::OnServer(super::Flavor::MariaDb));
}
