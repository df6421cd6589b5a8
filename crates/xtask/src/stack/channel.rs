//! A channel that sends callbacks to the API, as its owner would: signed by the Standard Webhooks scheme.

use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::api::Reply;
use super::clock::utc_now;

/// Known to everybody: the stack listens on 127.0.0.1 only and holds no money.
const SECRET: &[u8] = b"local-channel-secret-4b7d19";
const FORGERS_SECRET: &[u8] = b"somebody-else's-secret-0000";

/// The channel `main` of the stack.
#[derive(Debug, Clone)]
pub struct Channel {
    http: reqwest::Client,
}

impl Channel {
    /// A client of its own.
    pub fn new() -> Channel {
        Channel { http: super::http_client(Duration::from_secs(40)) }
    }

    /// Where its callbacks go, at the API at `base`.
    pub fn url(base: &str) -> String {
        format!("{base}/callbacks/main")
    }

    /// Its secret, as configuration and simulator take it.
    pub fn secret() -> String {
        format!("whsec_{}", STANDARD.encode(SECRET))
    }

    /// Its section of the configuration file.
    pub fn table() -> String {
        format!("[channels.main]\nscheme = \"standard-webhooks\"\nsecrets = [\"{}\"]\n\n", Channel::secret())
    }

    /// An event about a charge of the default amount.
    pub fn payment(trade_order_no: &str, status: &str) -> Value {
        json!({
            "type": "payment",
            "timestamp": utc_now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            "data": {
                "trade_order_no": trade_order_no, "status": status,
                "money": { "amount": 1_990, "currency": "CNY" },
            },
        })
    }

    /// Tells the API at `base` of an event.
    ///
    /// # Errors
    /// No HTTP answer came.
    pub async fn tell(&self, base: &str, id: &str, event: &Value) -> anyhow::Result<Reply> {
        self.send(base, id, event, SECRET).await
    }

    /// The same, signed by somebody else.
    ///
    /// # Errors
    /// No HTTP answer came.
    pub async fn tell_forged(&self, base: &str, id: &str, event: &Value) -> anyhow::Result<Reply> {
        self.send(base, id, event, FORGERS_SECRET).await
    }

    async fn send(&self, base: &str, id: &str, event: &Value, secret: &[u8]) -> anyhow::Result<Reply> {
        let (body, timestamp) = (event.to_string(), utc_now().timestamp().to_string());
        let mac = Hmac::<Sha256>::new_from_slice(secret).context("a secret of an accepted length")?;
        let mac = mac.chain_update(format!("{id}.{timestamp}.{body}"));
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let request = self
            .http
            .post(Channel::url(base))
            .header("Content-Type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(body);
        let response = request.send().await.context("no answer from the API")?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.context("the API's answer broke off")?;
        Ok(Reply { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
    }
}

impl Default for Channel {
    fn default() -> Channel {
        Channel::new()
    }
}
