//! `POST /payment-flows/{flow_id}/hold`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use flow_core::advance::Handled;
use flow_core::flow::Trigger;

use super::answer;
use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::{FlowIdParam, RequestId};
use crate::problem::{Code, Problem, refusals};
use crate::view::FlowView;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, FlowNotFound, FlowEnded, TooManyRequests, Internal,
    DatabaseUnavailable, OutcomeUnknown);

/// Freeze a payment
///
/// Role `operator`. The flow keeps its state, and nothing moves it until it is released. Asking again changes nothing.
#[utoipa::path(
    post,
    path = "/payment-flows/{flow_id}/hold",
    tag = "operators",
    operation_id = "holdPaymentFlow",
    security(("api_key" = [])),
    params(("flow_id" = String, Path, description = "The flow's id")),
    responses((status = 200, description = "The flow is held", body = FlowView), Refusals),
)]
pub(super) async fn hold_flow(
    State(api): State<Arc<Api>>,
    caller: Caller,
    FlowIdParam(flow_id): FlowIdParam,
    RequestId(request_id): RequestId,
) -> Result<Response, Problem> {
    caller.require(&[Role::Operator])?;
    let mut started = api.work.hold(flow_id, caller.actor(), api.work.call(Trigger::Operator, request_id))?;
    match started.answer().await?? {
        Handled::Done(flow) | Handled::Already(flow) => Ok(answer::flow(StatusCode::OK, &flow, &caller)),
        Handled::Ended(flow) => Err(Problem::new(
            Code::FlowEnded,
            "the flow has ended: there is nothing to hold; nothing was changed",
        )
        .about(flow.id)
        .in_state(flow.state)),
    }
}
