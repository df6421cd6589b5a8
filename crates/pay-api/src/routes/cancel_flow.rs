//! `POST /payment-flows/{flow_id}/cancel`

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use flow_core::advance::Cancelled;
use flow_core::flow::{Flow, Trigger};

use super::answer;
use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::{FlowIdParam, RequestId, preferred_wait_ms};
use crate::problem::{Code, Problem, refusals};
use crate::view::{FlowView, rests};

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, FlowNotFound, TooLate, TooManyRequests, Internal,
    DatabaseUnavailable, OutcomeUnknown);

/// Cancel a payment
///
/// Roles `client` (its own flows) and `operator`. Accepted until the charge is confirmed: from then on nothing new is
/// started, and if the charge turns out to have happened it is paid back. Asking again changes nothing. Waits for a
/// final state as long as `Prefer: wait=N` says.
#[utoipa::path(
    post,
    path = "/payment-flows/{flow_id}/cancel",
    tag = "payments",
    operation_id = "cancelPaymentFlow",
    security(("api_key" = [])),
    params(
        ("flow_id" = String, Path, description = "The flow's id"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds for a final state"),
    ),
    responses(
        (status = 200, description = "Cancelling was recorded, now or before, and the flow is final", body = FlowView),
        (status = 202, description = "Cancelling was recorded, now or before; the flow is under way", body = FlowView,
            headers(("Location" = String, description = "The flow"),
                ("Retry-After" = u32, description = "Seconds until asking again is useful"))),
        Refusals,
    ),
)]
pub(super) async fn cancel_flow(
    State(api): State<Arc<Api>>,
    caller: Caller,
    FlowIdParam(flow_id): FlowIdParam,
    RequestId(request_id): RequestId,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(&[Role::Client, Role::Operator])?;
    api.flow_of(flow_id, &caller).await?;
    let trigger = match caller.role {
        Role::Client => Trigger::Sync,
        Role::OnCall | Role::Operator => Trigger::Operator,
    };
    let wait_ms = api.granted_wait_ms(preferred_wait_ms(&headers), api.settings.default_wait_ms);
    let mut started = api.work.cancel(flow_id, caller.actor(), api.work.call(trigger, request_id))?;
    let flow = match started.answer().await?? {
        Cancelled::Recorded(flow) => api.wait_for_rest(flow, started.rest(), wait_ms).await,
        Cancelled::Already(flow) => api.wait_for(flow.clone(), wait_ms, rests).await.unwrap_or(flow),
        // The wish was recorded in time by an earlier request, and is being, or has been, fulfilled.
        Cancelled::TooLate(flow) if flow.cancel.is_some() => flow,
        Cancelled::TooLate(flow) => return Err(too_late(&flow)),
    };
    let status = if flow.state.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(answer::flow(status, &flow, &caller))
}

fn too_late(flow: &Flow) -> Problem {
    let detail = if flow.state.is_terminal() {
        "the flow has ended; nothing was changed"
    } else {
        "the charge is confirmed, and the benefit may have been handed over; nothing was changed"
    };
    Problem::new(Code::TooLate, detail).about(flow.id).in_state(flow.state)
}
