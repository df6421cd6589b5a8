//! `POST /payment-flows/{flow_id}/release`

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

/// Release a frozen payment
///
/// Role `operator`. The flow is due at once and is carried on in the background. Asking again changes nothing.
#[utoipa::path(
    post,
    path = "/payment-flows/{flow_id}/release",
    tag = "operators",
    operation_id = "releasePaymentFlow",
    security(("api_key" = [])),
    params(("flow_id" = String, Path, description = "The flow's id")),
    responses((status = 200, description = "The flow is not held any more", body = FlowView), Refusals),
)]
pub(super) async fn release_flow(
    State(api): State<Arc<Api>>,
    caller: Caller,
    FlowIdParam(flow_id): FlowIdParam,
    RequestId(request_id): RequestId,
) -> Result<Response, Problem> {
    caller.require(&[Role::Operator])?;
    let mut started =
        api.work.release(flow_id, caller.actor(), api.work.call(Trigger::Operator, request_id))?;
    match started.answer().await?? {
        Handled::Done(flow) | Handled::Already(flow) => Ok(answer::flow(StatusCode::OK, &flow, &caller)),
        Handled::Ended(flow) => Err(Problem::new(
            Code::FlowEnded,
            "the flow has ended: there is nothing to release; nothing was changed",
        )
        .about(flow.id)
        .in_state(flow.state)),
    }
}
