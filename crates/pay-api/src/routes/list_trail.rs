//! `GET /recon/tickets/{ticket_id}/trail`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flow_core::ids::Version;

use super::list_flows::{not_ours, read_limit};
use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::{Query, TicketIdParam};
use crate::problem::{Problem, refusals};
use crate::view::TrailPage;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, TicketNotFound, Internal, DatabaseUnavailable);

/// Read the trail of a reconciliation ticket
///
/// Role `on_call` or `operator`. Oldest first: who, when, what, why. Written by the database together with the ticket.
#[utoipa::path(
    get,
    path = "/recon/tickets/{ticket_id}/trail",
    tag = "operators",
    operation_id = "listTicketTrail",
    security(("api_key" = [])),
    params(
        ("ticket_id" = String, Path, description = "The ticket's id"),
        ("limit" = Option<u32>, Query, description = "Most lines of the page"),
        ("cursor" = Option<String>, Query, description = "From the previous page; opaque"),
    ),
    responses((status = 200, description = "A page of the trail", body = TrailPage), Refusals),
)]
pub(super) async fn list_trail(
    State(api): State<Arc<Api>>,
    caller: Caller,
    TicketIdParam(ticket_id): TicketIdParam,
    mut query: Query,
) -> Result<Json<TrailPage>, Problem> {
    caller.require(&[Role::OnCall, Role::Operator])?;
    let limit_rows = read_limit(&mut query, &api.settings)?;
    let after = query.take_with("cursor", |text| version(text).ok_or_else(|| not_ours("cursor")))?;
    query.finish()?;
    api.ticket(ticket_id).await?;
    // One row more than the page: whether it is there says whether more follow.
    let mut lines = api.recon.ticket_trail(ticket_id, after, limit_rows.saturating_add(1)).await?;
    let page_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
    let has_more = lines.len() > page_rows;
    lines.truncate(page_rows);
    Ok(Json(TrailPage {
        cursor: lines.last().filter(|_| has_more).map(|line| line.version.0.to_string()),
        has_more,
        lines: lines.into_iter().map(Into::into).collect(),
    }))
}

/// The version that a cursor names, in its one spelling.
fn version(text: &str) -> Option<Version> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text).map(Version)
}
