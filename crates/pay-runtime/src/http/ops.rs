//! `/healthz`, `/readyz` and `/metrics` for binaries that have no web framework.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use tower::Service;

use super::RequestBody;
use crate::metrics::Metrics;

/// Whether a process can do its work right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// It cannot, and this is why, in words for people.
    NotReady(String),
}

type ReadyFuture = Pin<Box<dyn Future<Output = Readiness> + Send>>;

/// The three routes, as a tower service.
#[derive(Clone)]
pub struct OpsService {
    ready: Arc<dyn Fn() -> ReadyFuture + Send + Sync>,
    metrics: Metrics,
    others: Others,
}

/// What every other route is answered.
#[derive(Debug, Clone, Copy)]
enum Others {
    /// 404: there is nothing else.
    NotThere,
    /// 503: there will be.
    NotYet,
}

/// The answer to a request that came before there was anybody to serve it.
const STARTING: &str = "{\"type\":\"about:blank\",\"title\":\"Starting\",\"status\":503,\"code\":\"NOT_READY\",\
    \"retryable\":true,\"detail\":\"The service is starting. Nothing was recorded; try again in a second.\"}";

impl std::fmt::Debug for OpsService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpsService").finish_non_exhaustive()
    }
}

impl OpsService {
    /// `ready` is asked on every `/readyz` and must answer within bounds of its own.
    pub fn new<F, R>(metrics: Metrics, ready: R) -> OpsService
    where
        R: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Readiness> + Send + 'static,
    {
        OpsService { ready: Arc::new(move || Box::pin(ready())), metrics, others: Others::NotThere }
    }

    /// Answers every other route 503 instead of 404: for [`serve_until`](super::serve_until) in front of a service
    /// that is still being put together.
    #[must_use]
    pub fn while_starting(self) -> OpsService {
        OpsService { others: Others::NotYet, ..self }
    }
}

impl Service<Request<RequestBody>> for OpsService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request.method(), request.uri().path()).await) })
    }
}

impl OpsService {
    async fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        match (self.others, path) {
            (Others::NotYet | Others::NotThere, "/healthz" | "/readyz" | "/metrics") => {}
            (Others::NotYet, _) => return starting(),
            (Others::NotThere, _) => {
                return text(StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics\n".to_owned());
            }
        }
        if method != Method::GET && method != Method::HEAD {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".to_owned());
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match path {
            "/readyz" => match (self.ready)().await {
                Readiness::Ready => text(StatusCode::OK, "ready\n".to_owned()),
                Readiness::NotReady(why) => {
                    text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"))
                }
            },
            "/metrics" => {
                let mut answer = text(StatusCode::OK, self.metrics.render());
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(Metrics::CONTENT_TYPE));
                answer
            }
            _ => text(StatusCode::OK, "live\n".to_owned()),
        }
    }
}

fn starting() -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, STARTING.to_owned());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn text(status: StatusCode, words: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(words)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
