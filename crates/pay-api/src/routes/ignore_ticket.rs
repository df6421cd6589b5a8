//! `POST /recon/tickets/{ticket_id}/ignore`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use flow_core::recon::TicketAction;

use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::{TicketIdParam, take_json};
use crate::problem::{Problem, refusals};
use crate::ticket::ReasonBody;
use crate::view::TicketView;

refusals!(Refusals: MalformedJson, InvalidBody, BodyUnreadable, InvalidParameter, Unauthenticated, Forbidden, TicketNotFound,
    RequestTimeout, BodyTooLarge, UnsupportedMediaType, TicketClosed, Contended, Internal, DatabaseUnavailable,
    OutcomeUnknown);

/// Leave a reconciliation ticket
///
/// Role `on_call` or `operator`. Where a difference moves money, this proposes the end: another person confirms it.
#[utoipa::path(
    post,
    path = "/recon/tickets/{ticket_id}/ignore",
    tag = "operators",
    operation_id = "ignoreTicket",
    security(("api_key" = [])),
    params(("ticket_id" = String, Path, description = "The ticket's id")),
    request_body = ReasonBody,
    responses((status = 200, description = "The ticket as it is now", body = TicketView), Refusals),
)]
pub(super) async fn ignore_ticket(
    State(api): State<Arc<Api>>,
    caller: Caller,
    TicketIdParam(ticket_id): TicketIdParam,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<TicketView>, Problem> {
    caller.require(&[Role::OnCall, Role::Operator])?;
    let body = ReasonBody::parse(&take_json(&headers, body, api.settings.max_body_bytes).await?)?;
    Ok(Json(
        api.act_on_ticket(ticket_id, TicketAction::Ignore { reason: body.reason }, &caller.actor())
            .await?
            .into(),
    ))
}
