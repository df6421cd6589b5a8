//! Tells one application over HTTP: signed by Standard Webhooks, to a permitted address, once.
//!
//! Redirects are not followed: they would lead past the check of the address, and a 3xx is no acceptance. The answer's
//! body is read up to a bound, so that the connection can be kept, and ignored.

mod sign;
mod target;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use flow_config::{ApplicationConfig, SigningSecret};
use flow_core::answer::Answered;
use flow_core::notify::{DeliveryAnswer, Notification};
use flow_core::ports::Receiver;
use reqwest::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, USER_AGENT};
use reqwest::{Client, Response};
use url::Url;

pub use target::TargetPolicy;

use crate::transport::{ClientLimits, TransportError, client_builder, header_text, whole_seconds_ms};
use target::{Forbidden, GuardedResolver};

/// Most bytes of an answer's body that are read, and thrown away.
const MAX_IGNORED_BYTES: usize = 16 * 1024;
/// Longest time for them; the answer is known before.
const IGNORED_LIMIT: Duration = Duration::from_secs(1);

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// The time that a signature carries: receivers refuse old ones by their own clock. Nothing is decided by it here.
pub type WallTime = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// The machine's wall clock.
#[allow(clippy::disallowed_methods, reason = "this is the system implementation of a wall clock")]
pub fn system_wall_time() -> WallTime {
    Arc::new(Utc::now)
}

/// Where one application is told.
pub struct HttpReceiver {
    client: Client,
    url: Url,
    secrets: Vec<SigningSecret>,
    policy: Arc<TargetPolicy>,
    wall_time: WallTime,
}

impl HttpReceiver {
    /// Makes the client; connects to nothing.
    ///
    /// # Errors
    /// [`TransportError`] when the machine does not allow for one.
    pub fn new(
        config: &ApplicationConfig,
        policy: Arc<TargetPolicy>,
        wall_time: WallTime,
    ) -> Result<HttpReceiver, TransportError> {
        let limits = ClientLimits {
            connect_timeout_ms: config.connect_timeout_ms,
            timeout_ms: config.timeout_ms,
            max_idle_connections: usize::try_from(config.limits.max_concurrent_calls).unwrap_or(usize::MAX),
        };
        let client = client_builder(&config.url, limits)
            .dns_resolver(GuardedResolver(Arc::clone(&policy)))
            .build()
            .map_err(TransportError::Client)?;
        let secrets = [Some(config.secret.clone()), config.previous_secret.clone()];
        Ok(HttpReceiver {
            client,
            url: config.url.clone(),
            secrets: secrets.into_iter().flatten().collect(),
            policy,
            wall_time,
        })
    }

    async fn tell(&self, notification: &Notification) -> DeliveryAnswer {
        if !self.policy.permits_url(&self.url) {
            return DeliveryAnswer::ForbiddenTarget;
        }
        let Ok(body) = notification.body() else { return DeliveryAnswer::NotConnected };
        let (id, timestamp_s) = (notification.id.to_string(), (self.wall_time)().timestamp());
        let signature = sign::signatures(self.secrets.iter(), &id, timestamp_s, &body);
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "pay-scanner")
            .header(ID, id)
            .header(TIMESTAMP, timestamp_s)
            .header(SIGNATURE, signature)
            .body(body);
        match request.send().await {
            Ok(response) => {
                let code = response.status().as_u16();
                let retry_after_ms = header_text(response.headers(), &RETRY_AFTER).and_then(whole_seconds_ms);
                ignore(response).await;
                DeliveryAnswer::Status { code, retry_after_ms }
            }
            Err(error) => no_answer(error),
        }
    }
}

#[async_trait]
impl Receiver for HttpReceiver {
    async fn notify(&self, notification: &Notification) -> Answered<DeliveryAnswer> {
        Answered::bare(self.tell(notification).await)
    }
}

/// Reads a short body to its end, so that the connection may serve the next call; leaves a long or slow one.
async fn ignore(mut response: Response) {
    let reading = async {
        let mut read_bytes = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            read_bytes += chunk.len();
            if read_bytes > MAX_IGNORED_BYTES {
                break;
            }
        }
    };
    // Whatever comes of it, the status has been heard.
    let _ = tokio::time::timeout(IGNORED_LIMIT, reading).await;
}

fn no_answer(error: reqwest::Error) -> DeliveryAnswer {
    // The URL may carry a token.
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    let mut is_forbidden = false;
    while let Some(source) = cause.source() {
        cause = source;
        is_forbidden = is_forbidden || cause.is::<Forbidden>();
    }
    let class = if is_forbidden {
        DeliveryAnswer::ForbiddenTarget
    } else if error.is_connect() {
        DeliveryAnswer::NotConnected
    } else if error.is_timeout() {
        DeliveryAnswer::TimedOut
    } else {
        DeliveryAnswer::ConnectionLost
    };
    tracing::debug!(class = class.class(), %cause, "a notification got no answer");
    class
}
