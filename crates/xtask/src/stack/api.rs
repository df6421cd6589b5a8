//! The API as a client application sees it.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::clock::{Patience, utc_now};

/// What a client asks to pay.
#[derive(Debug, Clone)]
pub struct Payment {
    /// The paying user.
    pub user_id: u64,
    /// The business goal.
    pub biz_key: String,
    /// Minor units.
    pub amount: i64,
    /// Currency code.
    pub currency: String,
    /// How far ahead the deadline lies, in milliseconds.
    pub deadline_in_ms: i64,
}

impl Payment {
    /// 19.90 CNY in the scene `renew`, an hour to go.
    pub fn new(user_id: u64, biz_key: impl Into<String>) -> Payment {
        Payment {
            user_id,
            biz_key: biz_key.into(),
            amount: 1_990,
            currency: "CNY".to_owned(),
            deadline_in_ms: 3_600_000,
        }
    }

    /// The request body. The deadline is computed when this is called: keep the value for a replay.
    pub fn body(&self) -> Value {
        let deadline = utc_now() + chrono::TimeDelta::milliseconds(self.deadline_in_ms);
        json!({
            "user_id": self.user_id.to_string(),
            "scene": "renew",
            "biz_key": self.biz_key,
            "money": { "amount": self.amount, "currency": self.currency },
            "deadline": deadline.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        })
    }
}

/// An answer of the API.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body, `null` when it is no JSON.
    pub body: Value,
}

impl Reply {
    /// A member of the body as text; empty when it is not there.
    pub fn text(&self, member: &str) -> &str {
        self.body[member].as_str().unwrap_or_default()
    }

    /// The client's state, e.g. `PROCESSING`.
    pub fn status_word(&self) -> &str {
        self.text("status")
    }

    /// The flow's id.
    pub fn flow_id(&self) -> &str {
        self.text("flow_id")
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A client application.
#[derive(Debug, Clone)]
pub struct ApiClient {
    http: reqwest::Client,
    base: String,
    key: String,
}

impl ApiClient {
    /// Speaks to the API at `base` with this API key.
    pub fn new(base: impl Into<String>, key: impl Into<String>) -> ApiClient {
        ApiClient { http: super::http_client(Duration::from_secs(40)), base: base.into(), key: key.into() }
    }

    /// The same client with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> ApiClient {
        ApiClient { key: key.to_owned(), ..self.clone() }
    }

    /// The same client towards another API process.
    #[must_use]
    pub fn at(&self, base: impl Into<String>) -> ApiClient {
        ApiClient { base: base.into(), ..self.clone() }
    }

    /// `POST /payments`. `wait_s` is the `Prefer: wait` in seconds.
    ///
    /// # Errors
    /// No HTTP answer came.
    pub async fn pay(&self, key: &str, body: &Value, wait_s: Option<u32>) -> anyhow::Result<Reply> {
        let mut request = self
            .http
            .post(format!("{}/payments", self.base))
            .bearer_auth(&self.key)
            .header("Idempotency-Key", key)
            .json(body);
        if let Some(seconds) = wait_s {
            request = request.header("Prefer", format!("wait={seconds}"));
        }
        self.send(request).await
    }

    /// `GET` of a path with its query.
    ///
    /// # Errors
    /// No HTTP answer came.
    pub async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(self.http.get(format!("{}{path}", self.base)).bearer_auth(&self.key)).await
    }

    /// `GET` of a path that answers with plain text.
    ///
    /// # Errors
    /// No HTTP answer came, or one that says that something is wrong.
    pub async fn get_text(&self, path: &str) -> anyhow::Result<String> {
        let response = self.http.get(format!("{}{path}", self.base)).bearer_auth(&self.key).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }

    /// `POST` to a path without a body.
    ///
    /// # Errors
    /// No HTTP answer came.
    pub async fn post(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(self.http.post(format!("{}{path}", self.base)).bearer_auth(&self.key)).await
    }

    /// `POST path` with a body.
    ///
    /// # Errors
    /// No answer.
    pub async fn post_json(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.send(self.http.post(format!("{}{path}", self.base)).bearer_auth(&self.key).json(body)).await
    }

    /// Any request; the caller sets everything but the address.
    ///
    /// # Errors
    /// No HTTP answer came.
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> anyhow::Result<Reply> {
        self.send(self.http.request(method, format!("{}{path}", self.base)).headers(headers).body(body)).await
    }

    /// Base URL of the API process it speaks to.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// The API key it shows.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Long-polls a flow until its client state is one of those that end, or the time is over.
    ///
    /// # Errors
    /// The time is over, or the API answers with an error.
    pub async fn wait_for_end(&self, flow_id: &str, within: Duration) -> anyhow::Result<Reply> {
        let patience = Patience::of(within);
        loop {
            match self.get(&format!("/payment-flows/{flow_id}?wait=2")).await {
                Ok(reply) if reply.status == 200 && reply.status_word() != "PROCESSING" => return Ok(reply),
                Ok(reply) if reply.status != 200 && reply.status < 500 => {
                    anyhow::bail!("flow {flow_id}: HTTP {}: {}", reply.status, reply.body);
                }
                // The API may be down in the middle of a test; whoever polls keeps polling.
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
            anyhow::ensure!(!patience.is_over(), "flow {flow_id} has not ended after {within:?}");
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Reply> {
        let response = request.send().await.context("no answer from the API")?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let bytes = response.bytes().await.context("the API's answer broke off")?;
        Ok(Reply { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
    }
}
