//! Answers that several routes give.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flow_core::advance::AdvanceError;
use flow_core::flow::Flow;

use crate::auth::Caller;
use crate::problem::{BUSY_RETRY_S, Code, Problem};
use crate::view::{FlowView, Polling};
use crate::work::{Busy, Vanished};

pub(super) const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// A flow with this status; `Location` always, `Retry-After` while there is something to wait for.
pub(super) fn flow(status: StatusCode, flow: &Flow, caller: &Caller) -> Response {
    let mut response = (status, Json(FlowView::of(flow, caller))).into_response();
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&format!("/payment-flows/{}", flow.id)) {
        headers.insert(header::LOCATION, location);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(polling) = Polling::of(flow) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(polling.after_s()));
    }
    response
}

impl From<Busy> for Problem {
    fn from(busy: Busy) -> Problem {
        Problem::new(Code::TooManyRequests, busy.to_string()).retry_after(BUSY_RETRY_S)
    }
}

impl From<Vanished> for Problem {
    fn from(vanished: Vanished) -> Problem {
        Problem::new(Code::Internal, vanished.to_string())
    }
}

impl From<AdvanceError> for Problem {
    fn from(error: AdvanceError) -> Problem {
        match error {
            AdvanceError::NotFound { flow_id } => Problem::no_such_flow().about(flow_id),
            AdvanceError::Store(error) => error.into(),
        }
    }
}
