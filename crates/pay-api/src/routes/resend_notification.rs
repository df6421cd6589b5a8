//! `POST /notifications/{event_id}/resend`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flow_core::ports::Resent;

use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::EventIdParam;
use crate::problem::{Problem, refusals};
use crate::view::NotificationView;

refusals!(Refusals: InvalidParameter, Unauthenticated, Forbidden, NotificationNotFound, Internal, DatabaseUnavailable,
    OutcomeUnknown);

/// Send a notification again
///
/// Role `operator`. One that was given up, or delivered, is due now and has the whole schedule before it. One that is
/// pending is left as it is, so that asking again changes nothing.
#[utoipa::path(
    post,
    path = "/notifications/{event_id}/resend",
    tag = "operators",
    operation_id = "resendNotification",
    security(("api_key" = [])),
    params(("event_id" = String, Path, description = "The event's id")),
    responses((status = 200, description = "The notification is pending", body = NotificationView), Refusals),
)]
pub(super) async fn resend_notification(
    State(api): State<Arc<Api>>,
    caller: Caller,
    EventIdParam(event_id): EventIdParam,
) -> Result<Json<NotificationView>, Problem> {
    caller.require(&[Role::Operator])?;
    let actor = caller.actor();
    match api.outbox.resend(event_id, &actor).await? {
        Resent::Queued => tracing::info!(%event_id, %actor, "a notification is sent again on request"),
        Resent::Pending => {}
        Resent::NotFound => return Err(Problem::no_such_notification()),
    }
    Ok(Json(api.notification(event_id).await?.into()))
}
