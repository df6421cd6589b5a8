//! `GET /recon/tickets`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flow_core::ids::{Actor, ChannelName, OrderRef, TicketId};
use flow_core::ports::TicketFilter;
use flow_core::recon::{FindingKind, TicketState};

use super::list_flows::{not_ours, read_limit};
use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::Query;
use crate::problem::{Problem, refusals};
use crate::view::TicketList;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, Internal, DatabaseUnavailable);

/// Find reconciliation tickets
///
/// Role `on_call` or `operator`. Newest first; `open=true` lists what somebody still has to look at.
#[utoipa::path(
    get,
    path = "/recon/tickets",
    tag = "operators",
    operation_id = "listTickets",
    security(("api_key" = [])),
    params(
        ("channel" = Option<String>, Query, description = "Of this channel"),
        ("order_no" = Option<String>, Query, description = "Of this order"),
        ("state" = Option<String>, Query, description = "In this state"),
        ("open" = Option<bool>, Query, description = "Still to be looked at, or not"),
        ("kind" = Option<String>, Query, description = "With such a difference"),
        ("assigned_to" = Option<String>, Query, description = "Given to this person"),
        ("limit" = Option<u32>, Query, description = "Most tickets of the page"),
        ("cursor" = Option<String>, Query, description = "From the previous page; opaque"),
    ),
    responses((status = 200, description = "A page of tickets", body = TicketList), Refusals),
)]
pub(super) async fn list_tickets(
    State(api): State<Arc<Api>>,
    caller: Caller,
    mut query: Query,
) -> Result<Json<TicketList>, Problem> {
    caller.require(&[Role::OnCall, Role::Operator])?;
    let limit_rows = read_limit(&mut query, &api.settings)?;
    let filter = TicketFilter {
        id: None,
        channel: query.take::<ChannelName>("channel")?,
        order_no: query.take::<OrderRef>("order_no")?,
        state: query.take_with("state", |text| {
            TicketState::parse(text).ok_or_else(|| "state is not one that a ticket has".to_owned())
        })?,
        open: query.take_flag("open")?,
        kind: query.take_with("kind", |text| {
            FindingKind::parse(text).ok_or_else(|| "kind is not one that a difference has".to_owned())
        })?,
        assigned_to: query.take::<Actor>("assigned_to")?,
    };
    let before =
        query.take_with("cursor", |text| text.parse::<TicketId>().map_err(|_| not_ours("cursor")))?;
    query.finish()?;
    let page = api.recon.find_tickets(&filter, before, limit_rows).await?;
    Ok(Json(TicketList {
        cursor: page.tickets.last().filter(|_| page.has_more).map(|ticket| ticket.id.to_string()),
        has_more: page.has_more,
        tickets: page.tickets.into_iter().map(Into::into).collect(),
    }))
}
