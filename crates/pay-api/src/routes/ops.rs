//! `GET /healthz`, `GET /readyz`, `GET /metrics`: for the machinery around the process. They ask for no API key: keep
//! them from the public, by the address that is listened on or by the proxy in front.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use pay_runtime::http::Readiness;
use pay_runtime::metrics::Metrics;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Ops;
use crate::problem::{BUSY_RETRY_S, Code, Problem, refusals};

refusals!(Refusals: NotReady);

/// How the process is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct HealthView {
    /// `live` or `ready`.
    status: &'static str,
}

/// Is the process alive?
///
/// Answers whatever the state of the database: restarting the process would not mend that.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operations",
    operation_id = "healthz",
    responses((status = 200, description = "It is", body = HealthView)),
)]
pub(super) async fn healthz() -> Json<HealthView> {
    Json(HealthView { status: "live" })
}

/// Can the process serve?
///
/// Fails while the database is away, while its schema is not the one that this program was built for, and once the
/// process is stopping.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    operation_id = "readyz",
    responses((status = 200, description = "It can", body = HealthView), Refusals),
)]
pub(super) async fn readyz(State(ops): State<Ops>) -> Result<Json<HealthView>, Problem> {
    match ops.ready.check().await {
        Readiness::Ready => Ok(Json(HealthView { status: "ready" })),
        Readiness::NotReady(why) => Err(not_ready(&why)),
    }
}

pub(super) fn not_ready(why: &str) -> Problem {
    Problem::new(Code::NotReady, format!("not ready: {why}")).retry_after(BUSY_RETRY_S)
}

/// Metrics
///
/// Prometheus text.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    operation_id = "metrics",
    responses((status = 200, description = "Every metric", body = String, content_type = "text/plain")),
)]
pub(super) async fn metrics(State(ops): State<Ops>) -> Response {
    let mut response = (ops.metrics_text)().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(Metrics::CONTENT_TYPE));
    response
}
