//! Notifications and their attempts as JSON.

use chrono::{DateTime, Utc};
use flow_core::notify::Delivery;
use flow_core::ports::{DeliveryAttempt, OutboxRow};
use serde::Serialize;
use utoipa::ToSchema;

/// What an application is told of one change of a flow, and how far that has come.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Notification)]
pub struct NotificationView {
    /// The event's id, as its receiver sees it in `webhook-id`.
    event_id: String,
    /// The event's type.
    #[serde(rename = "type")]
    event_type: &'static str,
    /// The flow.
    flow_id: String,
    /// The flow's version that it tells of.
    version: u64,
    /// The application.
    caller: String,
    /// The flow's `status` that it tells of.
    status: &'static str,
    /// The flow's state that it tells of.
    state: &'static str,
    /// When the change was.
    at: DateTime<Utc>,
    /// `PENDING`, `DELIVERED` or `DEAD`.
    #[schema(pattern = "^(PENDING|DELIVERED|DEAD)$")]
    delivery: &'static str,
    /// Attempts so far.
    attempts: u32,
    /// When the next attempt is due; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<DateTime<Utc>>,
    /// When the last attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_attempt_at: Option<DateTime<Utc>>,
    /// Class of the last answer, as in an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_answer: Option<String>,
    /// HTTP status of the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_http_status: Option<u16>,
    /// When the receiver accepted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<DateTime<Utc>>,
    /// When it was last resent by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    resent_at: Option<DateTime<Utc>>,
    /// By whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    resent_by: Option<String>,
}

impl From<OutboxRow> for NotificationView {
    fn from(row: OutboxRow) -> NotificationView {
        let told = &row.notification;
        NotificationView {
            event_id: told.id.to_string(),
            event_type: told.change.event_type(),
            flow_id: told.id.flow_id.to_string(),
            version: told.id.version.0,
            caller: told.caller.to_string(),
            status: told.client_state().as_str(),
            state: told.state.as_str(),
            at: told.at,
            delivery: row.delivery.as_str(),
            attempts: row.attempts,
            next_attempt_at: Some(row.next_attempt_at).filter(|_| row.delivery == Delivery::Pending),
            last_attempt_at: row.last_attempt_at,
            last_answer: row.last_answer,
            last_http_status: row.last_http_status,
            delivered_at: row.delivered_at,
            resent_at: row.resent_at,
            resent_by: row.resent_by,
        }
    }
}

/// One page of notifications, newest flow first.
#[derive(Debug, Serialize, ToSchema)]
pub struct NotificationList {
    /// The notifications.
    pub notifications: Vec<NotificationView>,
    /// Whether more follow.
    pub has_more: bool,
    /// Give it as `cursor` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One attempt at telling.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NotificationAttempt)]
pub struct AttemptView {
    /// Ordinal, from 1.
    attempt_no: u32,
    /// When it began.
    at: DateTime<Utc>,
    /// `ACCEPTED`, `REDIRECTED`, `REJECTED`, `THROTTLED`, `FAILED`, `TIMED_OUT`, `CONNECTION_LOST`, `NOT_CONNECTED` or
    /// `FORBIDDEN_TARGET`.
    answer: String,
    /// HTTP status, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    /// How long it took, in milliseconds.
    latency_ms: u32,
}

impl From<DeliveryAttempt> for AttemptView {
    fn from(attempt: DeliveryAttempt) -> AttemptView {
        AttemptView {
            attempt_no: attempt.attempt_no,
            at: attempt.at,
            answer: attempt.answer,
            http_status: attempt.http_status,
            latency_ms: attempt.latency_ms,
        }
    }
}

/// One page of attempts, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptPage {
    /// The attempts.
    pub attempts: Vec<AttemptView>,
    /// Whether more follow.
    pub has_more: bool,
    /// Give it as `cursor` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
