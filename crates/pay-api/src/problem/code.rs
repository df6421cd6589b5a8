//! Every way a request can be refused, in one table.
//!
//! A code is part of the contract: it is never renamed and never given another status. The OpenAPI document lists
//! them all from this enum.

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// Stable machine-readable name of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProblemCode)]
pub enum Code {
    /// The body is not JSON in UTF-8.
    MalformedJson,
    /// The body is JSON of another shape than documented; `field` names the place.
    InvalidBody,
    /// The body could not be read to its end.
    BodyUnreadable,
    /// A path or query parameter is not of its form; `field` names it.
    InvalidParameter,
    /// `Idempotency-Key` is missing.
    IdempotencyKeyMissing,
    /// `Idempotency-Key` is not of its form.
    IdempotencyKeyInvalid,
    /// No valid API key was given.
    Unauthenticated,
    /// A callback is not signed by its channel, or was signed too long ago.
    SignatureInvalid,
    /// The API key's role may not do this.
    Forbidden,
    /// There is no such resource.
    RouteNotFound,
    /// There is no such flow, or it is another application's.
    FlowNotFound,
    /// There is no such notification.
    NotificationNotFound,
    /// There is no such reconciliation ticket.
    TicketNotFound,
    /// No channel of this name is configured.
    ChannelNotFound,
    /// The resource exists, the method does not.
    MethodNotAllowed,
    /// The request did not arrive in time.
    RequestTimeout,
    /// The target has an open attempt for another amount or currency.
    OpenAttemptDiffers,
    /// The target belongs to another application's payment.
    TargetOfOtherCaller,
    /// The flow is too far on to be cancelled.
    TooLate,
    /// The flow has ended: there is nothing left to hold or release.
    FlowEnded,
    /// The ticket is closed: a difference that returns opens it again.
    TicketClosed,
    /// No end of the ticket was proposed that could be confirmed.
    NothingProposed,
    /// What moves money is confirmed by another person than the one who proposed it.
    SecondPersonNeeded,
    /// The flow changed under the request again and again.
    Contended,
    /// The body is larger than accepted.
    BodyTooLarge,
    /// The body's media type is not JSON.
    UnsupportedMediaType,
    /// The key was used before for something else.
    IdempotencyKeyReused,
    /// No scene of this name is configured.
    SceneUnknown,
    /// The scene does not take this currency.
    CurrencyNotAllowed,
    /// The amount is outside the scene's limits.
    AmountOutOfRange,
    /// The deadline has passed.
    DeadlinePassed,
    /// The deadline lies further ahead than the scene allows.
    DeadlineTooFar,
    /// The context is longer than accepted.
    ContextTooLong,
    /// As much work as this process may carry is under way.
    TooManyRequests,
    /// A defect, or a state of things that needs people.
    Internal,
    /// This process is not ready to serve.
    NotReady,
    /// The database is away, and nothing was recorded.
    DatabaseUnavailable,
    /// A write was under way when the database was lost: it may have happened.
    OutcomeUnknown,
}

/// What a code means to HTTP and to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// HTTP status, the same for every occurrence.
    pub status: StatusCode,
    /// Whether the very same request may succeed later without anything being changed.
    pub retryable: bool,
    /// Short summary, the same for every occurrence.
    pub title: &'static str,
}

const fn meaning(status: StatusCode, retryable: bool, title: &'static str) -> Meaning {
    Meaning { status, retryable, title }
}

impl Code {
    /// All codes, in the order of their statuses.
    pub const ALL: [Code; 38] = [
        Code::MalformedJson,
        Code::InvalidBody,
        Code::BodyUnreadable,
        Code::InvalidParameter,
        Code::IdempotencyKeyMissing,
        Code::IdempotencyKeyInvalid,
        Code::Unauthenticated,
        Code::SignatureInvalid,
        Code::Forbidden,
        Code::RouteNotFound,
        Code::FlowNotFound,
        Code::NotificationNotFound,
        Code::TicketNotFound,
        Code::ChannelNotFound,
        Code::MethodNotAllowed,
        Code::RequestTimeout,
        Code::OpenAttemptDiffers,
        Code::TargetOfOtherCaller,
        Code::TooLate,
        Code::FlowEnded,
        Code::TicketClosed,
        Code::NothingProposed,
        Code::SecondPersonNeeded,
        Code::Contended,
        Code::BodyTooLarge,
        Code::UnsupportedMediaType,
        Code::IdempotencyKeyReused,
        Code::SceneUnknown,
        Code::CurrencyNotAllowed,
        Code::AmountOutOfRange,
        Code::DeadlinePassed,
        Code::DeadlineTooFar,
        Code::ContextTooLong,
        Code::TooManyRequests,
        Code::Internal,
        Code::NotReady,
        Code::DatabaseUnavailable,
        Code::OutcomeUnknown,
    ];

    /// The table.
    pub const fn meaning(self) -> Meaning {
        use StatusCode as S;
        match self {
            Code::MalformedJson => meaning(S::BAD_REQUEST, false, "The body is not JSON"),
            Code::InvalidBody => meaning(S::BAD_REQUEST, false, "The body has another shape than documented"),
            Code::BodyUnreadable => meaning(S::BAD_REQUEST, true, "The body ended early"),
            Code::InvalidParameter => meaning(S::BAD_REQUEST, false, "A parameter is not of its form"),
            Code::IdempotencyKeyMissing => meaning(S::BAD_REQUEST, false, "Idempotency-Key is missing"),
            Code::IdempotencyKeyInvalid => {
                meaning(S::BAD_REQUEST, false, "Idempotency-Key is not of its form")
            }
            Code::Unauthenticated => meaning(S::UNAUTHORIZED, false, "No valid API key"),
            Code::SignatureInvalid => meaning(S::UNAUTHORIZED, false, "Not signed by the channel"),
            Code::Forbidden => meaning(S::FORBIDDEN, false, "The API key's role may not do this"),
            Code::RouteNotFound => meaning(S::NOT_FOUND, false, "No such resource"),
            Code::FlowNotFound => meaning(S::NOT_FOUND, false, "No such flow"),
            Code::NotificationNotFound => meaning(S::NOT_FOUND, false, "No such notification"),
            Code::TicketNotFound => meaning(S::NOT_FOUND, false, "No such ticket"),
            Code::ChannelNotFound => meaning(S::NOT_FOUND, false, "No such channel"),
            Code::MethodNotAllowed => meaning(S::METHOD_NOT_ALLOWED, false, "No such method here"),
            Code::RequestTimeout => meaning(S::REQUEST_TIMEOUT, true, "The request took too long to arrive"),
            Code::OpenAttemptDiffers => meaning(S::CONFLICT, false, "An open attempt differs"),
            Code::TargetOfOtherCaller => meaning(S::CONFLICT, false, "The target is another application's"),
            Code::TooLate => meaning(S::CONFLICT, false, "Too late to cancel"),
            Code::FlowEnded => meaning(S::CONFLICT, false, "The flow has ended"),
            Code::TicketClosed => meaning(S::CONFLICT, false, "The ticket is closed"),
            Code::NothingProposed => meaning(S::CONFLICT, false, "Nothing was proposed"),
            Code::SecondPersonNeeded => meaning(S::CONFLICT, false, "Another person must confirm"),
            Code::Contended => meaning(S::CONFLICT, true, "Others changed the same thing at once"),
            Code::BodyTooLarge => meaning(S::PAYLOAD_TOO_LARGE, false, "The body is too large"),
            Code::UnsupportedMediaType => meaning(S::UNSUPPORTED_MEDIA_TYPE, false, "The body must be JSON"),
            Code::IdempotencyKeyReused => {
                meaning(S::UNPROCESSABLE_ENTITY, false, "Idempotency-Key was reused")
            }
            Code::SceneUnknown => meaning(S::UNPROCESSABLE_ENTITY, false, "Unknown scene"),
            Code::CurrencyNotAllowed => meaning(S::UNPROCESSABLE_ENTITY, false, "Currency not taken"),
            Code::AmountOutOfRange => meaning(S::UNPROCESSABLE_ENTITY, false, "Amount out of range"),
            Code::DeadlinePassed => meaning(S::UNPROCESSABLE_ENTITY, false, "The deadline has passed"),
            Code::DeadlineTooFar => meaning(S::UNPROCESSABLE_ENTITY, false, "The deadline is too far ahead"),
            Code::ContextTooLong => meaning(S::UNPROCESSABLE_ENTITY, false, "The context is too long"),
            Code::TooManyRequests => meaning(S::TOO_MANY_REQUESTS, true, "Too much work is under way"),
            Code::Internal => meaning(S::INTERNAL_SERVER_ERROR, false, "Internal error"),
            Code::NotReady => meaning(S::SERVICE_UNAVAILABLE, true, "Not ready"),
            Code::DatabaseUnavailable => meaning(S::SERVICE_UNAVAILABLE, true, "The database is away"),
            Code::OutcomeUnknown => meaning(S::SERVICE_UNAVAILABLE, true, "The outcome is not known"),
        }
    }

    /// The spelling on the wire and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::MalformedJson => "malformed_json",
            Code::InvalidBody => "invalid_body",
            Code::BodyUnreadable => "body_unreadable",
            Code::InvalidParameter => "invalid_parameter",
            Code::IdempotencyKeyMissing => "idempotency_key_missing",
            Code::IdempotencyKeyInvalid => "idempotency_key_invalid",
            Code::Unauthenticated => "unauthenticated",
            Code::SignatureInvalid => "signature_invalid",
            Code::Forbidden => "forbidden",
            Code::RouteNotFound => "route_not_found",
            Code::FlowNotFound => "flow_not_found",
            Code::NotificationNotFound => "notification_not_found",
            Code::TicketNotFound => "ticket_not_found",
            Code::ChannelNotFound => "channel_not_found",
            Code::MethodNotAllowed => "method_not_allowed",
            Code::RequestTimeout => "request_timeout",
            Code::OpenAttemptDiffers => "open_attempt_differs",
            Code::TargetOfOtherCaller => "target_of_other_caller",
            Code::TooLate => "too_late",
            Code::FlowEnded => "flow_ended",
            Code::TicketClosed => "ticket_closed",
            Code::NothingProposed => "nothing_proposed",
            Code::SecondPersonNeeded => "second_person_needed",
            Code::Contended => "contended",
            Code::BodyTooLarge => "body_too_large",
            Code::UnsupportedMediaType => "unsupported_media_type",
            Code::IdempotencyKeyReused => "idempotency_key_reused",
            Code::SceneUnknown => "scene_unknown",
            Code::CurrencyNotAllowed => "currency_not_allowed",
            Code::AmountOutOfRange => "amount_out_of_range",
            Code::DeadlinePassed => "deadline_passed",
            Code::DeadlineTooFar => "deadline_too_far",
            Code::ContextTooLong => "context_too_long",
            Code::TooManyRequests => "too_many_requests",
            Code::Internal => "internal",
            Code::NotReady => "not_ready",
            Code::DatabaseUnavailable => "database_unavailable",
            Code::OutcomeUnknown => "outcome_unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_agrees_with_the_serialised_form_and_is_unique() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert!(seen.insert(code.as_str()), "{}", code.as_str());
        }
    }

    #[test]
    fn every_meaning_is_an_error() {
        for code in Code::ALL {
            let status = code.meaning().status;
            assert!(status.is_client_error() || status.is_server_error(), "{}", code.as_str());
        }
    }
}
