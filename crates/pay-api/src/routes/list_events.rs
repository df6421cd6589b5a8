//! `GET /payment-flows/{flow_id}/events`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flow_core::ids::Version;

use super::list_flows::{not_ours, read_limit};
use crate::api::Api;
use crate::auth::Caller;
use crate::http::{FlowIdParam, Query};
use crate::problem::{Problem, refusals};
use crate::view::{EventPage, EventView};

refusals!(Refusals: InvalidParameter, Unauthenticated, FlowNotFound, Internal, DatabaseUnavailable);

/// Read a payment's audit log
///
/// Any role; a client sees its own flows. Oldest first: one line for every write, as the database kept it.
#[utoipa::path(
    get,
    path = "/payment-flows/{flow_id}/events",
    tag = "payments",
    operation_id = "listPaymentFlowEvents",
    security(("api_key" = [])),
    params(
        ("flow_id" = String, Path, description = "The flow's id"),
        ("limit" = Option<u32>, Query, description = "Most lines of the page"),
        ("cursor" = Option<String>, Query, description = "From the previous page; opaque"),
    ),
    responses((status = 200, description = "A page of the audit log", body = EventPage), Refusals),
)]
pub(super) async fn list_events(
    State(api): State<Arc<Api>>,
    caller: Caller,
    FlowIdParam(flow_id): FlowIdParam,
    mut query: Query,
) -> Result<Json<EventPage>, Problem> {
    let limit_rows = read_limit(&mut query, &api.settings)?;
    let after = query.take_with("cursor", |text| version_cursor(text).ok_or_else(|| not_ours("cursor")))?;
    query.finish()?;
    api.flow_of(flow_id, &caller).await?;
    // One row more than the page: whether it is there says whether more follow.
    let mut rows = api.store.events(flow_id, after, limit_rows.saturating_add(1)).await?;
    let page_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
    let has_more = rows.len() > page_rows;
    rows.truncate(page_rows);
    Ok(Json(EventPage {
        cursor: rows.last().filter(|_| has_more).map(|event| event.version.0.to_string()),
        has_more,
        events: rows.into_iter().map(|event| EventView::of(event, &caller)).collect(),
    }))
}

/// The version that a cursor names. One has a single spelling, which `u64::from_str` alone would not insist on: it takes
/// a sign and leading zeros.
fn version_cursor(text: &str) -> Option<Version> {
    text.parse::<u64>().ok().filter(|version| version.to_string() == text).map(Version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_has_one_spelling() {
        assert_eq!(version_cursor("0"), Some(Version(0)));
        assert_eq!(version_cursor("18446744073709551615"), Some(Version(u64::MAX)));
        for wrong in ["", "+1", "01", "-1", "1.0", " 1", "18446744073709551616"] {
            assert_eq!(version_cursor(wrong), None, "{wrong:?}");
        }
    }
}
