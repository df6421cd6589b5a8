//! A simulator in this process and a client that speaks to it.

use std::net::SocketAddr;
use std::sync::Once;
use std::time::Duration;

use pay_sim::http::{Options, Running, start};
use pay_sim::sim::{Durability, now_ms};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

static PROVIDER: Once = Once::new();

pub(crate) struct Rig {
    pub(crate) running: Running,
    pub(crate) client: Client,
}

#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
}

pub(crate) fn options() -> Options {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Options {
        listen: any,
        wallet_listen: Some(any),
        business_listen: Some(any),
        durability: Durability::Memory,
        latency: Duration::ZERO,
    }
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(options()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let running = start(options).await.unwrap();
        let client = Client::new(running.addr);
        Self { running, client }
    }

    /// Adds a fault rule and returns its id.
    pub(crate) async fn fault(&self, rule: Value) -> u64 {
        let (status, body) = self.client.post("/faults", &rule).await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{rule}: {body}");
        body["id"].as_u64().unwrap()
    }
}

impl Client {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        PROVIDER.call_once(|| {
            // The simulator has one installed already, where it was started first.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let http = reqwest::Client::builder().timeout(Duration::from_secs(20)).no_proxy().build().unwrap();
        Self { http, base: format!("http://{addr}") }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::Result<reqwest::Response> {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match body {
            Some(body) => request.json(body).send().await,
            None => request.send().await,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Result<(StatusCode, Value)> {
        split(self.send(Method::GET, path, None).await?).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> reqwest::Result<(StatusCode, Value)> {
        split(self.send(Method::POST, path, Some(body)).await?).await
    }

    pub(crate) async fn debit(&self, no: &str) -> reqwest::Result<(StatusCode, Value)> {
        self.post("/wallet/v1/debits", &debit(no, 100)).await
    }

    pub(crate) async fn refund(&self, no: &str) -> reqwest::Result<(StatusCode, Value)> {
        self.post("/wallet/v1/refunds", &refund(no, 100)).await
    }

    pub(crate) async fn query(&self, no: &str) -> reqwest::Result<(StatusCode, Value)> {
        self.get(&format!("/wallet/v1/debits/{no}")).await
    }

    pub(crate) async fn close(&self, no: &str) -> reqwest::Result<(StatusCode, Value)> {
        self.post(&format!("/wallet/v1/debits/{no}/close"), &json!({})).await
    }

    pub(crate) async fn query_refund(&self, no: &str) -> reqwest::Result<(StatusCode, Value)> {
        self.get(&format!("/wallet/v1/refunds/r_{no}")).await
    }

    pub(crate) async fn execute(&self, no: &str, not_after_ms: i64) -> reqwest::Result<(StatusCode, Value)> {
        self.post("/business/v1/executions", &execution(no, not_after_ms)).await
    }

    pub(crate) async fn fact(&self, no: &str) -> reqwest::Result<(StatusCode, Value)> {
        self.get(&format!("/business/v1/facts?user_id=7&scene=renewal&biz_key=key-{no}")).await
    }

    /// Waits until the world has seen so many calls.
    pub(crate) async fn wait(&self, query: &str) {
        let (status, body) = self.get(&format!("/wait?{query}")).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{query}: {body}");
    }

    /// (charges, refunds, grants)
    pub(crate) async fn counts(&self, no: &str) -> (u64, u64, u64) {
        let (_, ledger) = self.get(&format!("/ledger/{no}")).await.unwrap();
        let count = |name: &str| ledger[name].as_u64().unwrap();
        (count("charges"), count("refunds"), count("grants"))
    }
}

async fn split(response: reqwest::Response) -> reqwest::Result<(StatusCode, Value)> {
    let status = response.status();
    let bytes = response.bytes().await?;
    Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
}

pub(crate) fn debit(no: &str, amount: i64) -> Value {
    json!({"trade_order_no": no, "user_id": "7", "money": {"amount": amount, "currency": "CNY"}})
}

pub(crate) fn refund(no: &str, amount: i64) -> Value {
    json!({"refund_order_no": format!("r_{no}"), "trade_order_no": no, "user_id": "7",
           "money": {"amount": amount, "currency": "CNY"}, "reason": "BIZ_NOT_DONE"})
}

pub(crate) fn execution(no: &str, not_after_ms: i64) -> Value {
    let not_after = chrono::DateTime::from_timestamp_millis(not_after_ms).unwrap();
    json!({"trade_order_no": no, "user_id": "7", "scene": "renewal", "biz_key": format!("key-{no}"),
           "not_after": not_after.to_rfc3339(), "context": "{\"any\":\"thing\"}"})
}

pub(crate) fn in_an_hour() -> i64 {
    now_ms() + 3_600_000
}
