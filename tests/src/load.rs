//! Clients that do not give up: a broken connection, a 503 or a 429 is followed by the same request with the same key,
//! at the next API process.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;
use xtask::stack::{ApiClient, Patience, Payment, Reply};

/// A client application with several API processes to turn to.
#[derive(Debug, Clone)]
pub struct Shop {
    apis: Vec<ApiClient>,
}

/// How a payment request ended for the client.
#[derive(Debug, Clone)]
pub enum Bought {
    /// Recorded: the API named the flow.
    Taken(Reply),
    /// Definitely refused.
    Refused(Reply),
}

/// Between two tries of one client.
const PAUSE: Duration = Duration::from_millis(50);

impl Shop {
    /// A client of these API processes.
    pub fn new(apis: Vec<ApiClient>) -> Shop {
        Shop { apis }
    }

    /// One of the API processes, by turns.
    pub fn api(&self, turn: usize) -> &ApiClient {
        &self.apis[turn % self.apis.len()]
    }

    /// Posts the same payment under one key until the answer is definite.
    ///
    /// # Errors
    /// No definite answer within the time, or a 5xx that is no 503.
    pub async fn pay(
        &self,
        turn: usize,
        key: &str,
        body: &Value,
        wait_s: u32,
        within: Duration,
    ) -> anyhow::Result<Bought> {
        let patience = Patience::of(within);
        let mut tries = 0;
        loop {
            let answer = self.api(turn + tries).pay(key, body, Some(wait_s)).await;
            tries += 1;
            match answer {
                Ok(reply) if matches!(reply.status, 200..=202) => return Ok(Bought::Taken(reply)),
                Ok(reply)
                    if reply.status == 429 || reply.status == 503 || reply.body["retryable"] == true => {}
                Ok(reply) if reply.status < 500 => return Ok(Bought::Refused(reply)),
                Ok(reply) => anyhow::bail!("HTTP {}: {}", reply.status, reply.body),
                Err(error) if patience.is_over() => return Err(error),
                Err(_) => {}
            }
            anyhow::ensure!(
                !patience.is_over(),
                "no definite answer for {key} after {tries} tries in {within:?}"
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Makes all the payments, each under its key, so many at once, willing to wait so long for each end. A deadline
    /// counts from the first try.
    ///
    /// # Errors
    /// As [`Shop::pay`]; the first failure.
    pub async fn pay_all(
        &self,
        payments: &[(String, Payment)],
        at_once: usize,
        wait_s: u32,
        within: Duration,
    ) -> anyhow::Result<Vec<Bought>> {
        let paid = stream::iter(payments.iter().enumerate())
            .map(|(turn, (key, payment))| async move {
                let paid = self.pay(turn, key, &payment.body(), wait_s, within).await;
                paid.with_context(|| format!("payment {key}"))
            })
            .buffered(at_once)
            .collect::<Vec<_>>()
            .await;
        paid.into_iter().collect()
    }
}

impl Bought {
    /// The flow, if the payment was recorded.
    pub fn flow_id(&self) -> Option<&str> {
        match self {
            Bought::Taken(reply) => Some(reply.flow_id()),
            Bought::Refused(_) => None,
        }
    }
}
