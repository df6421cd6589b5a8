//! `GET /recon/tickets/{ticket_id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::TicketIdParam;
use crate::problem::{Problem, refusals};
use crate::view::TicketView;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, TicketNotFound, Internal, DatabaseUnavailable);

/// Read a reconciliation ticket
///
/// Role `on_call` or `operator`. With both sides' records as they were last compared.
#[utoipa::path(
    get,
    path = "/recon/tickets/{ticket_id}",
    tag = "operators",
    operation_id = "getTicket",
    security(("api_key" = [])),
    params(("ticket_id" = String, Path, description = "The ticket's id")),
    responses((status = 200, description = "The ticket", body = TicketView), Refusals),
)]
pub(super) async fn get_ticket(
    State(api): State<Arc<Api>>,
    caller: Caller,
    TicketIdParam(ticket_id): TicketIdParam,
) -> Result<Json<TicketView>, Problem> {
    caller.require(&[Role::OnCall, Role::Operator])?;
    Ok(Json(api.ticket(ticket_id).await?.into()))
}
