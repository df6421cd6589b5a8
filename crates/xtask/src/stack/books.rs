//! The simulator's books moved by hand, past the product, and its bill with what is wrong about it.

use chrono::{NaiveDate, TimeDelta};
use serde_json::{Value, json};

use super::clock::utc_now;
use super::sim::SimClient;

impl SimClient {
    /// Charges a user, whoever asked for it; the wallet's own number of the charge.
    ///
    /// # Errors
    /// The wallet does not charge.
    pub async fn charge(
        &self,
        trade_order_no: &str,
        user_id: u64,
        amount: i64,
        currency: &str,
    ) -> anyhow::Result<String> {
        let order = json!({
            "trade_order_no": trade_order_no, "user_id": user_id.to_string(),
            "money": { "amount": amount, "currency": currency },
        });
        self.moved("/wallet/v1/debits", &order).await
    }

    /// Pays back CNY of a charge; the wallet's own number of the refund.
    ///
    /// # Errors
    /// The wallet does not pay back.
    pub async fn pay_back(
        &self,
        refund_order_no: &str,
        trade_order_no: &str,
        user_id: u64,
        amount: i64,
    ) -> anyhow::Result<String> {
        let refund = json!({
            "refund_order_no": refund_order_no, "trade_order_no": trade_order_no, "user_id": user_id.to_string(),
            "money": { "amount": amount, "currency": "CNY" }, "reason": "by hand",
        });
        self.moved("/wallet/v1/refunds", &refund).await
    }

    async fn moved(&self, path: &str, order: &Value) -> anyhow::Result<String> {
        let answer = self.told(path, order).await?;
        let transaction = answer["transaction_id"].as_str().filter(|_| answer["status"] == "SUCCESS");
        let transaction = transaction.map(str::to_owned);
        transaction.ok_or_else(|| anyhow::anyhow!("the wallet moved nothing for {order}: {answer}"))
    }

    /// Hands the benefit of a target in the scene `renew` over for an order.
    ///
    /// # Errors
    /// The business system does not.
    pub async fn hand_over(&self, trade_order_no: &str, user_id: u64, biz_key: &str) -> anyhow::Result<()> {
        let not_after = utc_now() + TimeDelta::hours(1);
        let execution = json!({
            "trade_order_no": trade_order_no, "user_id": user_id.to_string(), "scene": "renew", "biz_key": biz_key,
            "not_after": not_after.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        });
        let answer = self.told("/business/v1/executions", &execution).await?;
        anyhow::ensure!(answer["status"] == "DONE", "nothing was handed over for {execution}: {answer}");
        Ok(())
    }

    async fn told(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let response = self.http().post(format!("{}{path}", self.url())).json(body).send().await?;
        let status = response.status();
        let answer: Value = response.json().await.unwrap_or(Value::Null);
        anyhow::ensure!(status.is_success(), "the simulator refuses {body}: HTTP {status} {answer}");
        Ok(answer)
    }

    /// The wallet's bill of a day of a zone, in the layout `ledger-csv`.
    ///
    /// # Errors
    /// There is no such bill.
    pub async fn bill(&self, day: NaiveDate, zone: &str) -> anyhow::Result<Vec<u8>> {
        let request =
            self.http().get(format!("{}/bills/{day}?zone={}", self.url(), zone.replace('+', "%2B")));
        Ok(request.send().await?.error_for_status()?.bytes().await?.to_vec())
    }

    /// Makes something wrong with every bill from now on.
    ///
    /// # Errors
    /// The simulator refuses the fault.
    pub async fn bill_fault(&self, fault: &Value) -> anyhow::Result<()> {
        let request = self.http().post(format!("{}/bills/faults", self.url())).json(fault);
        request.send().await?.error_for_status()?;
        Ok(())
    }

    /// The wallet keeps to itself what it charges and pays back.
    ///
    /// # Errors
    /// No answer.
    pub async fn clear_callbacks(&self) -> anyhow::Result<()> {
        let request = self.http().delete(format!("{}/callbacks", self.url()));
        request.send().await?.error_for_status()?;
        Ok(())
    }

    /// Back to bills that are right.
    ///
    /// # Errors
    /// No answer.
    pub async fn clear_bill_faults(&self) -> anyhow::Result<()> {
        let request = self.http().delete(format!("{}/bills/faults", self.url()));
        request.send().await?.error_for_status()?;
        Ok(())
    }
}
