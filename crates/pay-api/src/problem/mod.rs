//! Refusals as RFC 9457 problem documents.
//!
//! A handler returns a [`Problem`]; its body is rendered by the outermost layer (`http::observe`), which alone knows
//! the request's id. Nothing here knows why a domain error arose, only what it means to a client.

mod code;
mod from_domain;
mod openapi;

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flow_core::ids::{FlowId, TraceId};
use flow_core::state::State;
use serde::Serialize;
use utoipa::ToSchema;

pub use code::{Code, Meaning};
pub(crate) use from_domain::BUSY_RETRY_S;
pub(crate) use openapi::{refusals, responses};

/// Media type of every refusal.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A refusal, before it knows the request it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    detail: Cow<'static, str>,
    field: Option<Cow<'static, str>>,
    flow_id: Option<FlowId>,
    state: Option<State>,
    retry_after_s: Option<u32>,
}

impl Problem {
    /// A refusal; `detail` says what happened, what state things are in and what to do.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem { code, detail: detail.into(), field: None, flow_id: None, state: None, retry_after_s: None }
    }

    /// A parameter that is not of its form.
    pub fn parameter(name: &'static str, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(Code::InvalidParameter, detail).at(name)
    }

    /// No such flow, or not the caller's: the two are not told apart.
    pub fn no_such_flow() -> Problem {
        Problem::new(Code::FlowNotFound, "no flow of yours has this id")
    }

    /// No such notification.
    pub fn no_such_notification() -> Problem {
        Problem::new(Code::NotificationNotFound, "no notification has this event id")
    }

    /// No such ticket.
    pub fn no_such_ticket() -> Problem {
        Problem::new(Code::TicketNotFound, "no ticket has this id")
    }

    /// Names the offending place, as a path into the body (`money.amount`) or a parameter's or header's name.
    #[must_use]
    pub fn at(mut self, field: impl Into<Cow<'static, str>>) -> Problem {
        self.field = Some(field.into());
        self
    }

    /// Names the flow that it is about.
    #[must_use]
    pub fn about(mut self, flow_id: FlowId) -> Problem {
        self.flow_id = Some(flow_id);
        self
    }

    /// Tells the state of the flow that it is about.
    #[must_use]
    pub fn in_state(mut self, state: State) -> Problem {
        self.state = Some(state);
        self
    }

    /// Promises that nothing was recorded, and says after how many seconds to come back.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The flow that it is about.
    pub fn flow_id(&self) -> Option<FlowId> {
        self.flow_id
    }

    /// The document for one request.
    pub fn document(&self, request_id: &TraceId) -> ProblemDocument {
        let Meaning { status, retryable, title } = self.code.meaning();
        ProblemDocument {
            r#type: format!("/docs#{}", self.code.as_str()),
            title,
            status: status.as_u16(),
            detail: self.detail.clone(),
            code: self.code,
            retryable,
            request_id: request_id.to_string(),
            flow_id: self.flow_id.map(|id| id.to_string()),
            state: self.state.map(State::as_str),
            field: self.field.clone(),
        }
    }

    /// Puts the document into a response that [`IntoResponse`] made, keeping the headers it has gained since.
    pub fn render(&self, response: Response, request_id: &TraceId) -> Response {
        let (mut parts, _) = response.into_parts();
        // Strings, numbers and plain enums always serialise.
        let body = serde_json::to_vec(&self.document(request_id)).unwrap_or_default();
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        Response::from_parts(parts, Body::from(body))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.meaning().status.into_response();
        if self.code == Code::Unauthenticated {
            let challenge = HeaderValue::from_static("Bearer realm=\"pay-api\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Why a request was refused (RFC 9457), `application/problem+json`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument {
    /// Where the code is explained, relative to this service.
    #[schema(example = "/docs#invalid_body")]
    r#type: String,
    /// Summary of the code, the same for every occurrence.
    title: &'static str,
    /// The HTTP status.
    #[schema(example = 400)]
    status: u16,
    /// What happened this time, what state things are in, what to do.
    #[schema(value_type = String)]
    detail: Cow<'static, str>,
    /// Stable name to program against.
    code: Code,
    /// Whether the very same request (with the same `Idempotency-Key`) may succeed later.
    retryable: bool,
    /// Correlates with the service's logs; also in the `X-Request-Id` header.
    request_id: String,
    /// The flow that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_id: Option<String>,
    /// The state that the flow is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// The offending place: a path into the body, or the name of a parameter or header.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    field: Option<Cow<'static, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_shape_of_a_problem() {
        let problem = Problem::new(Code::TooLate, "the charge is confirmed; nothing was changed")
            .about(FlowId::new(9_007_199_254_740_993).unwrap())
            .in_state(State::Payed)
            .at("flow_id");
        let document = problem.document(&TraceId::new("req-1").unwrap());
        expect![[r#"
            {
              "type": "/docs#too_late",
              "title": "Too late to cancel",
              "status": 409,
              "detail": "the charge is confirmed; nothing was changed",
              "code": "too_late",
              "retryable": false,
              "request_id": "req-1",
              "flow_id": "9007199254740993",
              "state": "PAYED",
              "field": "flow_id"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&document).unwrap());
    }

    #[test]
    fn what_does_not_apply_is_left_out() {
        let document =
            Problem::new(Code::RouteNotFound, "there is nothing here").document(&TraceId::new("r").unwrap());
        expect![[r#"
            {
              "type": "/docs#route_not_found",
              "title": "No such resource",
              "status": 404,
              "detail": "there is nothing here",
              "code": "route_not_found",
              "retryable": false,
              "request_id": "r"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&document).unwrap());
    }
}
