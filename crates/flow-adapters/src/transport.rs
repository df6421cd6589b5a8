//! Carries one request to a downstream system and its answer back, within limits of time and size.
//!
//! Knows HTTP and nothing of payments, but for the one question that matters when a call fails: may the request have
//! left, or surely not? Nothing is ever sent twice here; repeating is the core's decision.

use std::time::Duration;

use flow_config::TransportConfig;
use flow_core::answer::{Answered, NoAnswer, UnavailableCause, UnknownCause};
use flow_core::ids::DownstreamRef;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, Method, redirect};
use url::Url;
use uuid::Uuid;

use crate::classify::Reply;

/// Longest body that is read; a longer one is no answer.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// Idle connections are given up before usual servers close theirs, so that a request rarely meets a closing one.
const IDLE_LIMIT: Duration = Duration::from_secs(15);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Why no client could be made from a configuration.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The bearer token has characters that no header may have.
    #[error("the bearer token is not usable as a header; correct the configuration")]
    BearerToken,
    /// TLS or the resolver could not be set up, e.g. because no CA certificates are installed.
    #[error("the HTTP client could not be set up; are CA certificates installed?")]
    Client(#[source] reqwest::Error),
}

/// A client for one downstream system.
#[derive(Debug, Clone)]
pub struct Transport {
    client: Client,
    base_url: Url,
}

/// What is sent.
pub(crate) struct Call<'a> {
    /// `GET` or `POST`.
    pub(crate) method: Method,
    /// Segments behind the base URL; each is escaped as needed.
    pub(crate) path: &'a [&'a str],
    /// Query parameters; escaped as needed.
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// A JSON body.
    pub(crate) body: Option<Vec<u8>>,
}

struct Received {
    status: u16,
    retry_after_ms: Option<u64>,
    body: Vec<u8>,
}

impl Transport {
    /// Makes the client; connects to nothing.
    ///
    /// # Errors
    /// [`TransportError`] when the configuration or the machine does not allow for one.
    pub fn new(config: &TransportConfig) -> Result<Transport, TransportError> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &config.bearer_token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
                .map_err(|_| TransportError::BearerToken)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let limits = ClientLimits {
            connect_timeout_ms: config.connect_timeout_ms,
            timeout_ms: config.timeout_ms,
            max_idle_connections: config.max_idle_connections,
        };
        let builder = client_builder(&config.base_url, limits).default_headers(headers);
        let client = builder.build().map_err(TransportError::Client)?;
        Ok(Transport { client, base_url: config.base_url.clone() })
    }

    /// Makes the call and has its answer classified.
    pub(crate) async fn exchange<A>(
        &self,
        call: Call<'_>,
        classify: impl FnOnce(Reply<'_>) -> A,
        none: impl FnOnce(NoAnswer) -> A,
    ) -> Answered<A> {
        // Names the request in both sides' logs from before it is sent, so that a lost answer has a name too.
        let mut request_id = DownstreamRef::new(Uuid::new_v4().to_string()).ok();
        match self.send(call, &mut request_id).await {
            Ok(Received { status, retry_after_ms, body }) => {
                Answered { answer: classify(Reply { status, retry_after_ms, body: &body }), request_id }
            }
            Err(no_answer @ NoAnswer::Unavailable { .. }) => Answered::bare(none(no_answer)),
            Err(no_answer @ NoAnswer::Unknown(_)) => Answered { answer: none(no_answer), request_id },
        }
    }

    async fn send(
        &self,
        call: Call<'_>,
        request_id: &mut Option<DownstreamRef>,
    ) -> Result<Received, NoAnswer> {
        let mut request = self.client.request(call.method, url_of(&self.base_url, call.path, call.query));
        if let Some(id) = request_id {
            request = request.header(REQUEST_ID, id.as_str());
        }
        if let Some(body) = call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let mut response = request.send().await.map_err(no_answer)?;
        if let Some(theirs) =
            header_text(response.headers(), &REQUEST_ID).and_then(|id| DownstreamRef::new(id).ok())
        {
            *request_id = Some(theirs);
        }
        let retry_after_ms = header_text(response.headers(), &RETRY_AFTER).and_then(whole_seconds_ms);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(no_answer)? {
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(NoAnswer::Unknown(UnknownCause::Unparsable));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Received { status: response.status().as_u16(), retry_after_ms, body })
    }
}

/// What a client may take, and keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientLimits {
    /// For making a connection, in milliseconds.
    pub(crate) connect_timeout_ms: u64,
    /// For the whole call, in milliseconds.
    pub(crate) timeout_ms: u64,
    /// Idle connections that are kept.
    pub(crate) max_idle_connections: usize,
}

/// How every client of this crate is made: nothing is sent twice, no redirect is followed, nobody is between.
///
/// For plain HTTP no trust roots are loaded: it must work where none are installed. As redirects are not followed,
/// such a client never speaks TLS.
pub(crate) fn client_builder(base_url: &Url, limits: ClientLimits) -> ClientBuilder {
    // Fails only if this process has a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .http1_only()
        .no_proxy()
        .referer(false)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_millis(limits.connect_timeout_ms))
        .timeout(Duration::from_millis(limits.timeout_ms))
        .pool_idle_timeout(IDLE_LIMIT)
        .pool_max_idle_per_host(limits.max_idle_connections);
    if base_url.scheme() == "https" { builder } else { builder.tls_certs_only([]) }
}

fn url_of(base_url: &Url, path: &[&str], query: &[(&str, &str)]) -> Url {
    let mut url = base_url.clone();
    // Only URLs like `mailto:` have no path; the configuration takes http and https alone.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

pub(crate) fn header_text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// `Retry-After` as a number of seconds; the other form, a date, would need their clock.
pub(crate) fn whole_seconds_ms(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().map(|seconds| seconds.saturating_mul(1000))
}

/// How surely a call that failed was not made.
fn no_answer(error: reqwest::Error) -> NoAnswer {
    let class = if error.is_connect() {
        NoAnswer::Unavailable { cause: UnavailableCause::NotConnected, retry_after_ms: None }
    } else if error.is_timeout() {
        NoAnswer::Unknown(UnknownCause::TimedOut)
    } else {
        NoAnswer::Unknown(UnknownCause::ConnectionLost)
    };
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    tracing::debug!(class = class.as_str(), %cause, "no answer");
    class
}
