//! `POST /payment-flows/{flow_id}/advance`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flow_core::advance::{Advanced, End};
use flow_core::flow::Trigger;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::{FlowIdParam, RequestId};
use crate::problem::{Problem, refusals};
use crate::view::FlowView;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, FlowNotFound, TooManyRequests, Internal,
    DatabaseUnavailable, OutcomeUnknown);

/// What an advance came to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Advanced)]
pub(super) struct AdvancedView {
    /// `TERMINAL`, `HELD`, `WAITING`, `GATE_CLOSED`, `BUDGET_SPENT`, `OVERTAKEN` or `CONTRADICTED`.
    end: &'static str,
    /// Whether the state changed.
    moved: bool,
    /// Steps taken.
    steps: u32,
    /// When waiting: tried again after so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_in_ms: Option<u64>,
    /// The flow afterwards.
    flow: FlowView,
}

impl AdvancedView {
    fn of(advanced: &Advanced, caller: &Caller) -> AdvancedView {
        let (end, next_in_ms) = match advanced.end {
            End::Terminal => ("TERMINAL", None),
            End::Held => ("HELD", None),
            End::Waiting { next_in_ms } => ("WAITING", Some(next_in_ms)),
            End::GateClosed { retry_in_ms } => ("GATE_CLOSED", Some(retry_in_ms)),
            End::BudgetSpent => ("BUDGET_SPENT", None),
            End::Overtaken => ("OVERTAKEN", None),
            End::Contradicted => ("CONTRADICTED", None),
        };
        let flow = FlowView::of(&advanced.flow, caller);
        AdvancedView { end, moved: advanced.moved, steps: advanced.steps, next_in_ms, flow }
    }
}

/// Push a payment now
///
/// Role `operator`. Does what any entrance does, now instead of when the flow is due: it decides on nothing itself.
#[utoipa::path(
    post,
    path = "/payment-flows/{flow_id}/advance",
    tag = "operators",
    operation_id = "advancePaymentFlow",
    security(("api_key" = [])),
    params(("flow_id" = String, Path, description = "The flow's id")),
    responses((status = 200, description = "Where the flow got to", body = AdvancedView), Refusals),
)]
pub(super) async fn advance_flow(
    State(api): State<Arc<Api>>,
    caller: Caller,
    FlowIdParam(flow_id): FlowIdParam,
    RequestId(request_id): RequestId,
) -> Result<Json<AdvancedView>, Problem> {
    caller.require(&[Role::Operator])?;
    let mut started = api.work.advance(flow_id, api.work.call(Trigger::Operator, request_id))?;
    let advanced = started.answer().await??;
    Ok(Json(AdvancedView::of(&advanced, &caller)))
}
