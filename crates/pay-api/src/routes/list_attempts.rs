//! `GET /notifications/{event_id}/attempts`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::list_flows::{not_ours, read_limit};
use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::{EventIdParam, Query};
use crate::problem::{Problem, refusals};
use crate::view::AttemptPage;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, NotificationNotFound, Internal, DatabaseUnavailable);

/// Read a notification's attempts
///
/// Role `on_call` or `operator`. Oldest first: when each was made, and what the receiver answered. An attempt that died
/// with its process has no line.
#[utoipa::path(
    get,
    path = "/notifications/{event_id}/attempts",
    tag = "operators",
    operation_id = "listNotificationAttempts",
    security(("api_key" = [])),
    params(
        ("event_id" = String, Path, description = "The event's id"),
        ("limit" = Option<u32>, Query, description = "Most attempts of the page"),
        ("cursor" = Option<String>, Query, description = "From the previous page; opaque"),
    ),
    responses((status = 200, description = "A page of attempts", body = AttemptPage), Refusals),
)]
pub(super) async fn list_attempts(
    State(api): State<Arc<Api>>,
    caller: Caller,
    EventIdParam(event_id): EventIdParam,
    mut query: Query,
) -> Result<Json<AttemptPage>, Problem> {
    caller.require(&[Role::OnCall, Role::Operator])?;
    let limit_rows = read_limit(&mut query, &api.settings)?;
    let after = query.take_with("cursor", |text| attempt_cursor(text).ok_or_else(|| not_ours("cursor")))?;
    query.finish()?;
    api.notification(event_id).await?;
    // One row more than the page: whether it is there says whether more follow.
    let mut rows = api.outbox.attempts(event_id, after.unwrap_or(0), limit_rows.saturating_add(1)).await?;
    let page_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
    let has_more = rows.len() > page_rows;
    rows.truncate(page_rows);
    Ok(Json(AttemptPage {
        cursor: rows.last().filter(|_| has_more).map(|attempt| attempt.attempt_no.to_string()),
        has_more,
        attempts: rows.into_iter().map(Into::into).collect(),
    }))
}

/// The attempt that a cursor names, in its one spelling.
fn attempt_cursor(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|number| *number > 0 && number.to_string() == text)
}
