//! The three downstream calls of one payment, made bare: what any program that does this job over HTTP must make.

use std::time::Duration;

use serde_json::{Value, json};

/// Longest call, in seconds.
const CALL_LIMIT_S: u64 = 5;
/// The deadline that every order and execution carries.
const NOT_AFTER: &str = "2037-01-01T00:00:00.000Z";

/// A client of the simulator's wallet and business system.
#[derive(Clone)]
pub(super) struct Calls {
    client: reqwest::Client,
    url: String,
}

impl Calls {
    pub(super) fn new(sim_url: String) -> Calls {
        Calls { client: xtask::stack::http_client(Duration::from_secs(CALL_LIMIT_S)), url: sim_url }
    }

    /// Charges the order.
    pub(super) async fn debit(&self, trade_order_no: &str, user: i64) -> anyhow::Result<()> {
        let body = json!({
            "trade_order_no": trade_order_no,
            "user_id": user.to_string(),
            "money": { "amount": 1_990, "currency": "CNY" },
            "not_after": NOT_AFTER,
        });
        let answer = self.post("/wallet/v1/debits", &body).await?;
        anyhow::ensure!(answer["status"] == "SUCCESS", "a debit was answered {answer}");
        Ok(())
    }

    /// Has the benefit granted, then reads that it was.
    pub(super) async fn execute_then_read_fact(
        &self,
        trade_order_no: &str,
        user: i64,
        biz_key: &str,
    ) -> anyhow::Result<()> {
        let user = user.to_string();
        let body = json!({
            "trade_order_no": trade_order_no,
            "user_id": user,
            "scene": "renew",
            "biz_key": biz_key,
            "not_after": NOT_AFTER,
        });
        self.post("/business/v1/executions", &body).await?;
        // Nothing here needs escaping.
        let fact_url = format!("{}/business/v1/facts?user_id={user}&scene=renew&biz_key={biz_key}", self.url);
        let reading = self.client.get(fact_url).send();
        let fact: Value = reading.await?.error_for_status()?.json().await?;
        anyhow::ensure!(fact["owner_order_no"] == trade_order_no, "a fact was answered {fact}");
        Ok(())
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let sending = self.client.post(format!("{}{path}", self.url)).json(body).send();
        Ok(sending.await?.error_for_status()?.json().await?)
    }
}
