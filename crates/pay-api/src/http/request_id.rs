//! The id that correlates a request with its log lines and with the writes that follow from it.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, HeaderName, request::Parts};
use flow_core::ids::{CallerId, FlowId, TraceId};
use uuid::Uuid;

/// Header that carries the id, in both directions.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The request's id: the caller's, if it is of the accepted form, else one of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestId(pub(crate) TraceId);

impl RequestId {
    pub(crate) fn of(headers: &HeaderMap) -> RequestId {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok());
        RequestId(given.and_then(|text| TraceId::new(text).ok()).unwrap_or_else(fresh))
    }
}

fn fresh() -> TraceId {
    TraceId::new(Uuid::now_v7().to_string()).expect("a UUID is made of hexadecimal digits and '-'")
}

impl<S: Send + Sync> FromRequestParts<S> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestId, Infallible> {
        Ok(parts.extensions.get::<RequestId>().cloned().unwrap_or_else(|| RequestId(fresh())))
    }
}

/// What a request's access line should say beyond method, route and status: filled in along the way, so that it is
/// known even when the client hangs up half way.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestNotes {
    inner: Arc<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    caller: OnceLock<CallerId>,
    flow_id: OnceLock<FlowId>,
}

impl RequestNotes {
    /// Notes who is calling; the first note stands.
    pub(crate) fn note_caller(&self, caller: &CallerId) {
        let _ = self.inner.caller.set(caller.clone());
    }

    /// Notes which flow it is about; the first note stands.
    pub(crate) fn note_flow(&self, flow_id: FlowId) {
        let _ = self.inner.flow_id.set(flow_id);
    }

    pub(crate) fn caller(&self) -> Option<&CallerId> {
        self.inner.caller.get()
    }

    pub(crate) fn flow_id(&self) -> Option<FlowId> {
        self.inner.flow_id.get().copied()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestNotes {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestNotes, Infallible> {
        Ok(parts.extensions.get::<RequestNotes>().cloned().unwrap_or_default())
    }
}
