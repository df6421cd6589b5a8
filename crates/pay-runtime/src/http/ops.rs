//! `/healthz`, `/readyz` and `/metrics` for binaries that have no web framework.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::{Drained, HttpLimits, RequestBody, serve};
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
}

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
        OpsService { ready: Arc::new(move || Box::pin(ready())), metrics }
    }
}

/// Serves the three routes until `shutdown` fires.
pub async fn serve_ops(
    listener: TcpListener,
    service: OpsService,
    limits: HttpLimits,
    shutdown: CancellationToken,
) -> Drained {
    serve(listener, service, limits, shutdown).await
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
        if method != Method::GET && method != Method::HEAD {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".to_owned());
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match path {
            "/healthz" => text(StatusCode::OK, "live\n".to_owned()),
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
            _ => text(StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics\n".to_owned()),
        }
    }
}

fn text(status: StatusCode, words: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(words)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
