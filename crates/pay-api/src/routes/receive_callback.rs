//! `POST /callbacks/{channel}`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use flow_adapters::callback::{Acknowledgement, Channel, Refused, Told};
use flow_core::callback::{EventKey, NewEvent};
use flow_core::ids::{ChannelName, TraceId};
use flow_core::ports::{InboxState, Recorded, StoreError};
use metrics::counter;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::http::{RequestId, RequestNotes, take_bytes};
use crate::problem::{Code, Problem, refusals};

refusals!(Refusals: InvalidBody, BodyUnreadable, SignatureInvalid, ChannelNotFound, RequestTimeout, BodyTooLarge,
    Internal, DatabaseUnavailable, OutcomeUnknown);

/// What became of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallbackResult {
    /// It is news, and is kept.
    Recorded,
    /// It was kept before, and is being worked on.
    AlreadyRecorded,
    /// It was kept before, and is done with.
    AlreadyProcessed,
}

impl CallbackResult {
    const fn of(recorded: &Recorded) -> CallbackResult {
        match recorded {
            Recorded::Stored(_) => CallbackResult::Recorded,
            Recorded::Known(InboxState::New) => CallbackResult::AlreadyRecorded,
            Recorded::Known(InboxState::Processed | InboxState::Contradicted | InboxState::GivenUp) => {
                CallbackResult::AlreadyProcessed
            }
        }
    }
}

/// A callback that was taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallbackTaken)]
pub(super) struct CallbackTaken {
    /// What became of it. A channel has nothing to do in any case.
    result: CallbackResult,
}

/// Tell of an event
///
/// For channels. Signed as the channel's scheme says, over the raw bytes; no API key. The body is an event of
/// `contracts/callbacks.yaml`. A 2xx says that the event is kept; a repetition of it is answered with 2xx, too. Nothing
/// in an event decides on a payment: it makes this service ask the wallet.
#[utoipa::path(
    post,
    path = "/callbacks/{channel}",
    tag = "channels",
    operation_id = "receiveCallback",
    params(
        ("channel" = String, Path, description = "The channel's configured name"),
        ("webhook-id" = Option<String>, Header, description = "Standard Webhooks: the event's id"),
        ("webhook-timestamp" = Option<String>, Header, description = "Standard Webhooks: seconds since 1970"),
        ("webhook-signature" = Option<String>, Header, description = "Standard Webhooks: `v1,` and the signature; \
            several are separated by blanks"),
    ),
    request_body(content = Object, content_type = "application/json", description = "An event of \
        `contracts/callbacks.yaml`; a channel of the sorted-form layout sends a form"),
    responses(
        (status = 200, description = "Kept; channels of the sorted-form layout get the word `success` as plain text",
            body = CallbackTaken),
        Refusals,
    ),
)]
pub(super) async fn receive_callback(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    RequestId(request_id): RequestId,
    notes: RequestNotes,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let known = ChannelName::new(name).ok().and_then(|name| api.channels.get_key_value(&name));
    let Some((name, channel)) = known else {
        counter!("callback_refused_total", "channel" => "unknown", "why" => "unknown_channel").increment(1);
        return Err(Problem::new(
            Code::ChannelNotFound,
            "no channel of this name is configured; nothing was recorded",
        ));
    };
    let bytes = take_bytes(&headers, body, api.settings.max_body_bytes).await?;
    let told = channel
        .read(&headers, &bytes, api.wall_clock.now())
        .map_err(|refused| refusal(name, &request_id, refused))?;
    if let Some((_, flow_id)) = told.order_no.parts() {
        notes.note_flow(flow_id);
    }
    let event = event(name, told, bytes.to_vec(), request_id);
    let recorded = api.callbacks.record(event).await.map_err(not_kept)?;
    let result = CallbackResult::of(&recorded);
    if let Recorded::Stored(event) = recorded {
        // As much as may be is under way: the scanner finds the event when its claim ends.
        if api.work.callback(&api.callbacks, event).is_err() {
            counter!("callback_left_to_scanner_total", "channel" => name.to_string()).increment(1);
        }
    }
    Ok(acknowledged(channel, result))
}

fn event(name: &ChannelName, told: Told, raw: Vec<u8>, request_id: TraceId) -> NewEvent {
    NewEvent {
        key: EventKey {
            order_no: told.order_no,
            event_type: told.event_type,
            channel: name.clone(),
            event_id: told.event_id,
        },
        claim: told.claim,
        money: told.money,
        raw,
        trace_id: Some(request_id),
    }
}

fn not_kept(error: StoreError) -> Problem {
    match error {
        StoreError::OutcomeUnknown => Problem::new(
            Code::OutcomeUnknown,
            "the database was lost while the event was being kept; it may or may not have been; tell of it again, with \
             the same id: it will not be taken for news",
        ),
        error @ (StoreError::Unavailable { .. }
        | StoreError::Guarded { .. }
        | StoreError::Corrupt { .. }
        | StoreError::Unexpected(_)) => error.into(),
    }
}

fn refusal(name: &ChannelName, request_id: &TraceId, refused: Refused) -> Problem {
    let (why, problem) = match refused {
        // What is wrong is for our log: whoever tries to forge is told nothing.
        Refused::Forged(forged) => {
            tracing::warn!(channel = %name, %request_id, %forged, "a callback is not its channel's; nothing was kept");
            let detail = "the signature is missing, too old, or not this channel's; nothing was recorded";
            (forged.as_str(), Problem::new(Code::SignatureInvalid, detail))
        }
        Refused::NotAnEvent(no) => {
            tracing::warn!(channel = %name, %request_id, field = no.field, "a signed callback is no event of the contract");
            ("not_an_event", Problem::new(Code::InvalidBody, no.to_string()).at(no.field))
        }
    };
    counter!("callback_refused_total", "channel" => name.to_string(), "why" => why).increment(1);
    problem
}

fn acknowledged(channel: &Channel, result: CallbackResult) -> Response {
    match channel.acknowledgement() {
        Acknowledgement::AnySuccess => Json(CallbackTaken { result }).into_response(),
        Acknowledgement::WordSuccess => {
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], "success").into_response()
        }
    }
}
