//! `GET /notifications`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flow_core::ids::CallerId;
use flow_core::notify::{Delivery, EventId};
use flow_core::ports::OutboxFilter;

use super::list_flows::{not_ours, read_limit};
use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::Query;
use crate::problem::{Problem, refusals};
use crate::view::NotificationList;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, Internal, DatabaseUnavailable);

/// Find notifications
///
/// Role `on_call` or `operator`. Newest flow first; `delivery=DEAD` lists what was given up.
#[utoipa::path(
    get,
    path = "/notifications",
    tag = "operators",
    operation_id = "listNotifications",
    security(("api_key" = [])),
    params(
        ("delivery" = Option<String>, Query, description = "So far come, as in `delivery` of a notification"),
        ("caller" = Option<String>, Query, description = "For this application"),
        ("limit" = Option<u32>, Query, description = "Most notifications of the page"),
        ("cursor" = Option<String>, Query, description = "From the previous page; opaque"),
    ),
    responses((status = 200, description = "A page of notifications", body = NotificationList), Refusals),
)]
pub(super) async fn list_notifications(
    State(api): State<Arc<Api>>,
    caller: Caller,
    mut query: Query,
) -> Result<Json<NotificationList>, Problem> {
    caller.require(&[Role::OnCall, Role::Operator])?;
    let limit_rows = read_limit(&mut query, &api.settings)?;
    let filter = OutboxFilter {
        id: None,
        delivery: query.take_with("delivery", |text| {
            Delivery::parse(text).ok_or_else(|| "delivery is not PENDING, DELIVERED or DEAD".to_owned())
        })?,
        caller: query.take::<CallerId>("caller")?,
    };
    let before = query.take_with("cursor", |text| text.parse::<EventId>().map_err(|_| not_ours("cursor")))?;
    query.finish()?;
    let page = api.outbox.find_notifications(&filter, before, limit_rows).await?;
    Ok(Json(NotificationList {
        cursor: page.rows.last().filter(|_| page.has_more).map(|row| row.notification.id.to_string()),
        has_more: page.has_more,
        notifications: page.rows.into_iter().map(Into::into).collect(),
    }))
}
