//! The simulator's test surface: faults, balances, the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

/// What really happened to one order, by the simulator's own books.
#[derive(Debug, Clone, Deserialize)]
pub struct OrderLedger {
    /// The order.
    pub trade_order_no: String,
    /// Effective charges.
    pub charges: u32,
    /// Sum of the charges, in minor units.
    pub charged_amount: i64,
    /// Effective refunds.
    pub refunds: u32,
    /// Sum of the refunds, in minor units.
    pub refunded_amount: i64,
    /// Effective grants.
    pub grants: u32,
    /// Who owns the target.
    pub owner_of_target: Option<String>,
    /// Calls that reached the world, refused and repeated ones included.
    #[serde(default)]
    pub calls: OrderCalls,
}

/// How often an order was called about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct OrderCalls {
    /// Debits.
    pub debit: u32,
    /// Refunds.
    pub refund: u32,
    /// Executions.
    pub execute: u32,
}

/// A client of the simulator.
#[derive(Debug, Clone)]
pub struct SimClient {
    http: reqwest::Client,
    base: String,
}

impl SimClient {
    /// Speaks to the simulator at `base`.
    pub fn new(base: impl Into<String>) -> SimClient {
        SimClient { http: super::http_client(Duration::from_secs(70)), base: base.into() }
    }

    /// Base URL.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Adds a fault rule; its id.
    ///
    /// # Errors
    /// The simulator refuses the rule.
    pub async fn fault(&self, rule: Value) -> anyhow::Result<u64> {
        let response = self.http.post(format!("{}/faults", self.base)).json(&rule).send().await?;
        let status = response.status();
        let body: Value = response.json().await.unwrap_or(Value::Null);
        anyhow::ensure!(status.is_success(), "the simulator refuses the fault {rule}: {body}");
        body["id"].as_u64().context("the simulator gave no id")
    }

    /// Removes every fault.
    ///
    /// # Errors
    /// No answer.
    pub async fn clear_faults(&self) -> anyhow::Result<()> {
        self.http.delete(format!("{}/faults", self.base)).send().await?.error_for_status()?;
        Ok(())
    }

    /// Removes one fault.
    ///
    /// # Errors
    /// No such fault.
    pub async fn remove_fault(&self, id: u64) -> anyhow::Result<()> {
        self.http.delete(format!("{}/faults/{id}", self.base)).send().await?.error_for_status()?;
        Ok(())
    }

    /// Switches the simulator's own safety off (`{"ignore_not_after": true}`), to show what it is for.
    ///
    /// # Errors
    /// Unknown switch.
    pub async fn mutants(&self, switches: Value) -> anyhow::Result<()> {
        self.http.post(format!("{}/mutants", self.base)).json(&switches).send().await?.error_for_status()?;
        Ok(())
    }

    /// Has the wallet tell of charges and refunds by itself.
    ///
    /// # Errors
    /// The simulator refuses the plan.
    pub async fn callbacks(&self, plan: Value) -> anyhow::Result<()> {
        self.http.post(format!("{}/callbacks", self.base)).json(&plan).send().await?.error_for_status()?;
        Ok(())
    }

    /// What became of its callbacks so far.
    ///
    /// # Errors
    /// No answer.
    pub async fn callback_counts(&self) -> anyhow::Result<Value> {
        let response = self.http.get(format!("{}/callbacks", self.base)).send().await?;
        let body: Value = response.error_for_status()?.json().await?;
        Ok(body["counts"].clone())
    }

    /// The wallet's bill for a day in the product's own layout, in a named zone.
    ///
    /// # Errors
    /// No such bill.
    pub async fn bill(&self, day: chrono::NaiveDate, zone: &str) -> anyhow::Result<Vec<u8>> {
        let url = format!("{}/bills/{day}?format=ledger-csv&zone={zone}", self.base);
        Ok(self.http.get(url).send().await?.error_for_status()?.bytes().await?.to_vec())
    }

    /// Makes bills wrong from now on, in one more way.
    ///
    /// # Errors
    /// The simulator refuses the fault.
    pub async fn bill_fault(&self, fault: &Value) -> anyhow::Result<()> {
        let response = self.http.post(format!("{}/bills/faults", self.base)).json(fault).send().await?;
        anyhow::ensure!(response.status().is_success(), "the simulator refuses the fault {fault}");
        Ok(())
    }

    /// Back to bills that are right.
    ///
    /// # Errors
    /// No answer.
    pub async fn clear_bill_faults(&self) -> anyhow::Result<()> {
        self.http.delete(format!("{}/bills/faults", self.base)).send().await?.error_for_status()?;
        Ok(())
    }

    /// Grants a benefit in the name of an order, as whoever calls the business system may.
    ///
    /// # Errors
    /// It is not granted.
    pub async fn execute(&self, execution: &Value) -> anyhow::Result<()> {
        let url = format!("{}/business/v1/executions", self.base);
        let response = self.http.post(url).json(execution).send().await?.error_for_status()?;
        let answer: Value = response.json().await?;
        anyhow::ensure!(answer["status"] == "DONE", "not granted: {answer}");
        Ok(())
    }

    /// Sets a user's balance.
    ///
    /// # Errors
    /// Refused.
    pub async fn balance(&self, user_id: u64, currency: &str, amount: i64) -> anyhow::Result<()> {
        let body = json!({ "currency": currency, "amount": amount });
        let url = format!("{}/accounts/{user_id}", self.base);
        self.http.post(url).json(&body).send().await?.error_for_status()?;
        Ok(())
    }

    /// The books of one order.
    ///
    /// # Errors
    /// No answer.
    pub async fn ledger(&self, trade_order_no: &str) -> anyhow::Result<OrderLedger> {
        let url = format!("{}/ledger/{trade_order_no}", self.base);
        Ok(self.http.get(url).send().await?.error_for_status()?.json().await?)
    }

    /// The books of every order.
    ///
    /// # Errors
    /// No answer.
    pub async fn all_ledgers(&self) -> anyhow::Result<Vec<OrderLedger>> {
        let text = self
            .http
            .get(format!("{}/ledger/dump", self.base))
            .send()
            .await?
            .error_for_status()?
            .text()
            .await?;
        text.lines()
            .map(|line| serde_json::from_str(line).context("a line of the ledger is no JSON"))
            .collect()
    }

    /// How many calls of each kind have reached the simulator so far.
    ///
    /// # Errors
    /// No answer.
    pub async fn call_totals(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let url = format!("{}/ledger/summary", self.base);
        let summary: Value = self.http.get(url).send().await?.error_for_status()?.json().await?;
        serde_json::from_value(summary["calls"].clone()).context("the summary counts no calls")
    }

    /// Waits until the simulator has seen so many calls of an order.
    ///
    /// # Errors
    /// Not within the time.
    pub async fn wait_for_calls(
        &self,
        call: &str,
        trade_order_no: &str,
        count: u32,
        within: Duration,
    ) -> anyhow::Result<()> {
        let url = format!(
            "{}/wait?call={call}&trade_order_no={trade_order_no}&count={count}&timeout_ms={}",
            self.base,
            within.as_millis()
        );
        let response = self.http.get(url).send().await?;
        anyhow::ensure!(
            response.status().is_success(),
            "the simulator has not seen {count} {call} calls of {trade_order_no} within {within:?}"
        );
        Ok(())
    }

    /// Waits until so many calls of a kind have reached the simulator, of whatever order; a fault may still strike them.
    ///
    /// # Errors
    /// Not within the time.
    pub async fn wait_for_arrivals(&self, call: &str, count: u32, within: Duration) -> anyhow::Result<()> {
        self.wait_for_any(call, "arrived", count, within).await
    }

    /// Waits until so many calls of a kind have taken effect, of whatever order.
    ///
    /// # Errors
    /// Not within the time.
    pub async fn wait_for_applied(&self, call: &str, count: u32, within: Duration) -> anyhow::Result<()> {
        self.wait_for_any(call, "applied", count, within).await
    }

    async fn wait_for_any(
        &self,
        call: &str,
        moment: &str,
        count: u32,
        within: Duration,
    ) -> anyhow::Result<()> {
        let timeout_ms = within.as_millis();
        let url = format!("{}/wait?call={call}&at={moment}&count={count}&timeout_ms={timeout_ms}", self.base);
        let response = self.http.get(url).send().await?;
        anyhow::ensure!(response.status().is_success(), "fewer than {count} {call} calls within {within:?}");
        Ok(())
    }

    /// Waits until the simulator has seen a call of any order of a target.
    ///
    /// # Errors
    /// Not within the time.
    pub async fn wait_for_target_call(
        &self,
        call: &str,
        user_id: u64,
        biz_key: &str,
        count: u32,
        within: Duration,
    ) -> anyhow::Result<()> {
        let query = [
            ("call", call.to_owned()),
            ("user_id", user_id.to_string()),
            ("scene", "renew".to_owned()),
            ("biz_key", biz_key.to_owned()),
            ("count", count.to_string()),
            ("timeout_ms", within.as_millis().to_string()),
        ];
        let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let response = self.http.get(format!("{}/wait?{}", self.base, pairs.join("&"))).send().await?;
        anyhow::ensure!(response.status().is_success(), "no {call} call for {biz_key} within {within:?}");
        Ok(())
    }
}
