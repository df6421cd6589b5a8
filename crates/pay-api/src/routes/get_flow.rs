//! `GET /payment-flows/{flow_id}`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::answer;
use crate::api::Api;
use crate::auth::Caller;
use crate::http::{FlowIdParam, Query};
use crate::problem::{Problem, refusals};
use crate::view::{FlowView, rests};

refusals!(Refusals: InvalidParameter, Unauthenticated, FlowNotFound, Internal, DatabaseUnavailable);

/// Longest wait that can be written down, in seconds; the configured one is shorter.
pub(super) const MAX_WAIT_S: u64 = 3_600;

/// Read a payment
///
/// Any role; a client sees its own flows. With `wait=N` the answer comes when the flow has changed, or after N seconds:
/// changed against `since_version` if that is given, else against the flow as it was when the request came. A flow
/// that has come to rest is answered at once, and so is everybody while too many wait already.
#[utoipa::path(
    get,
    path = "/payment-flows/{flow_id}",
    tag = "payments",
    operation_id = "getPaymentFlow",
    security(("api_key" = [])),
    params(
        ("flow_id" = String, Path, description = "The flow's id"),
        ("wait" = Option<u32>, Query, description = "Wait up to so many seconds for a change"),
        ("since_version" = Option<u64>, Query, description = "The version that the client knows"),
    ),
    responses(
        (status = 200, description = "The flow", body = FlowView,
            headers(("Retry-After" = Option<u32>, description = "Seconds until asking again is useful"))),
        Refusals,
    ),
)]
pub(super) async fn get_flow(
    State(api): State<Arc<Api>>,
    caller: Caller,
    FlowIdParam(flow_id): FlowIdParam,
    mut query: Query,
) -> Result<Response, Problem> {
    let wait_s = query.take_whole("wait", MAX_WAIT_S)?;
    let since = query.take_whole("since_version", u64::MAX)?;
    query.finish()?;
    let flow = api.flow_of(flow_id, &caller).await?;
    let known = since.unwrap_or(flow.version.0);
    let wait_ms = api.granted_wait_ms(wait_s.map(|seconds| seconds * 1_000), 0);
    let flow = api.wait_for(flow, wait_ms, |flow| rests(flow) || flow.version.0 != known).await?;
    Ok(answer::flow(StatusCode::OK, &flow, &caller))
}
