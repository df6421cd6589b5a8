//! The audit log of a flow as JSON.

use chrono::{DateTime, Utc};
use flow_core::ports::FlowEvent;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Caller;

/// One line of the audit log.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowEvent)]
pub struct EventView {
    /// The version that the write produced.
    version: u64,
    /// `CREATED`, `STATE`, `RESCHEDULE`, `HOLD`, `RELEASE` or `CANCEL`.
    kind: String,
    /// State before; absent for the creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'static str>,
    /// State after.
    to: &'static str,
    /// Which entrance; `BY_HAND` for a write that no program made.
    trigger: String,
    /// The downstream action that it followed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    /// The class of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// The reason code that was kept on the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    /// How long the downstream call took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<u32>,
    /// The `request_id` that it followed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// When.
    at: DateTime<Utc>,
    /// The downstream's request id; shown to people on call and operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_request_id: Option<String>,
    /// The person, where one acted; shown to people on call and operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
}

/// One page of the audit log, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventPage {
    /// The lines.
    pub events: Vec<EventView>,
    /// Whether more follow.
    pub has_more: bool,
    /// Give it as `cursor` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl EventView {
    /// The line as this caller may see it.
    pub fn of(event: FlowEvent, caller: &Caller) -> EventView {
        let inside = caller.sees_only().is_none();
        EventView {
            version: event.version.0,
            kind: event.kind,
            from: event.from.map(|state| state.as_str()),
            to: event.to.as_str(),
            trigger: event.trigger,
            action: event.action,
            outcome: event.outcome,
            error_code: event.error_code,
            latency_ms: event.latency_ms,
            request_id: event.trace_id,
            at: event.at,
            channel_request_id: event.request_id.filter(|_| inside),
            actor: event.actor.filter(|_| inside),
        }
    }
}
