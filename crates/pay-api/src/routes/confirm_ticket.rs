//! `POST /recon/tickets/{ticket_id}/confirm`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flow_core::recon::TicketAction;

use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::TicketIdParam;
use crate::problem::{Problem, refusals};
use crate::view::TicketView;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, TicketNotFound,
    NothingProposed, SecondPersonNeeded, TicketClosed, Contended, Internal, DatabaseUnavailable,
    OutcomeUnknown);

/// Confirm the end of a reconciliation ticket
///
/// Role `on_call` or `operator`, and another person than the one who proposed it.
#[utoipa::path(
    post,
    path = "/recon/tickets/{ticket_id}/confirm",
    tag = "operators",
    operation_id = "confirmTicket",
    security(("api_key" = [])),
    params(("ticket_id" = String, Path, description = "The ticket's id")),
    responses((status = 200, description = "The ticket as it is now", body = TicketView), Refusals),
)]
pub(super) async fn confirm_ticket(
    State(api): State<Arc<Api>>,
    caller: Caller,
    TicketIdParam(ticket_id): TicketIdParam,
) -> Result<Json<TicketView>, Problem> {
    caller.require(&[Role::OnCall, Role::Operator])?;
    Ok(Json(api.act_on_ticket(ticket_id, TicketAction::Confirm, &caller.actor()).await?.into()))
}
