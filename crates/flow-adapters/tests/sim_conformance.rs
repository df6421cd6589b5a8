//! Both adapters against the simulator over HTTP: the same suites as the fakes.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use flow_adapters::{HttpBusiness, HttpWallet};
use flow_config::TransportConfig;
use flow_core::ids::{TradeOrderNo, UserId};
use flow_core::money::Money;
use flow_core::ports::{Business, Wallet};
use flow_testkit::conformance::far_side::{FarSide, FarSideFactory};
use flow_testkit::ledger_check::OrderFacts;
use pay_sim::http::{Options, Running};
use pay_sim::ledger::Command;
use pay_sim::sim::{Durability, now_ms};

struct SimFactory;

struct SimFarSide {
    running: Running,
    wallet: HttpWallet,
    business: HttpBusiness,
}

#[async_trait]
impl FarSideFactory for SimFactory {
    async fn fresh(&self) -> Box<dyn FarSide> {
        let options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            wallet_listen: None,
            business_listen: None,
            durability: Durability::Memory,
            latency: Duration::ZERO,
        };
        let running = pay_sim::http::start(options).await.unwrap();
        let config = TransportConfig {
            base_url: format!("http://{}", running.addr).parse().unwrap(),
            timeout_ms: 10_000,
            connect_timeout_ms: 5_000,
            max_idle_connections: 8,
            bearer_token: None,
        };
        let (wallet, business) = (HttpWallet::new(&config).unwrap(), HttpBusiness::new(&config).unwrap());
        Box::new(SimFarSide { running, wallet, business })
    }
}

#[async_trait]
impl FarSide for SimFarSide {
    fn wallet(&self) -> &dyn Wallet {
        &self.wallet
    }

    fn business(&self) -> &dyn Business {
        &self.business
    }

    async fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(now_ms()).unwrap()
    }

    async fn set_balance(&self, user_id: UserId, balance: &Money) {
        let command = Command::SetBalance {
            user_id: user_id.get().unsigned_abs(),
            currency: balance.currency().to_string(),
            amount: balance.amount(),
        };
        self.running.sim.command(&command).await.unwrap();
    }

    async fn facts(&self, trade_order_no: &TradeOrderNo) -> OrderFacts {
        self.running.sim.read(|world| OrderFacts::from(&world.ledger(trade_order_no.as_str())))
    }
}

mod wallet {
    flow_testkit::wallet_conformance!(super::SimFactory);
}

mod business {
    flow_testkit::business_conformance!(super::SimFactory);
}
