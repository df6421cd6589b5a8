//! The outermost layer: gives the request its id, counts and times it, writes one line about it, and renders
//! problems. Bodies, keys and query strings are never logged.

use std::any::Any;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use flow_core::ports::Clock;
use metrics::{counter, gauge, histogram};

use super::request_id::{RequestId, RequestNotes, X_REQUEST_ID};
use crate::problem::{Code, Problem};

/// Route label of requests that match no route: the path itself is the client's choice, and unbounded.
const UNMATCHED: &str = "unmatched";

/// Wraps every request.
pub(crate) async fn observe(
    State(clock): State<Arc<dyn Clock>>,
    mut request: Request,
    next: Next,
) -> Response {
    let request_id = RequestId::of(request.headers());
    let notes = RequestNotes::default();
    let mut line = AccessLine::begin(&request, request_id.clone(), notes.clone(), clock);
    request.extensions_mut().insert(request_id.clone());
    request.extensions_mut().insert(notes.clone());

    let mut response = next.run(request).await;
    let problem = response.extensions_mut().remove::<Problem>();
    if let Some(problem) = &problem {
        if let Some(flow_id) = problem.flow_id() {
            notes.note_flow(flow_id);
        }
        response = problem.render(response, &request_id.0);
    }
    if let Ok(value) = HeaderValue::from_str(request_id.0.as_str()) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    line.end(response.status().as_u16(), problem.map(|problem| problem.code()));
    response
}

/// What a panic in a handler is answered with. The panic hook has logged where it happened.
pub(crate) fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    Problem::new(
        Code::Internal,
        "a defect of this service ended the request; what it recorded is carried on; tell us the request_id",
    )
    .into_response()
}

/// One request's line in log and metrics; written at the latest when the request's future is dropped.
struct AccessLine {
    method: &'static str,
    route: String,
    request_id: RequestId,
    notes: RequestNotes,
    clock: Arc<dyn Clock>,
    started_ms: u64,
    ended: bool,
}

impl AccessLine {
    fn begin(
        request: &Request,
        request_id: RequestId,
        notes: RequestNotes,
        clock: Arc<dyn Clock>,
    ) -> AccessLine {
        gauge!("http_requests_in_flight").increment(1);
        let route =
            request.extensions().get::<MatchedPath>().map_or(UNMATCHED, MatchedPath::as_str).to_owned();
        let started_ms = clock.monotonic_ms();
        AccessLine {
            method: method_label(request.method()),
            route,
            request_id,
            notes,
            clock,
            started_ms,
            ended: false,
        }
    }

    fn latency_ms(&self) -> u64 {
        self.clock.monotonic_ms().saturating_sub(self.started_ms)
    }

    fn end(&mut self, status: u16, code: Option<Code>) {
        self.ended = true;
        let latency_ms = self.latency_ms();
        counter!(
            "http_requests_total",
            "route" => self.route.clone(), "method" => self.method, "status" => status.to_string(),
        )
        .increment(1);
        // A histogram takes f64; a latency in whole milliseconds is far below 2^53.
        histogram!("http_request_ms", "route" => self.route.clone(), "method" => self.method)
            .record(latency_ms as f64);
        tracing::info!(
            request_id = %self.request_id.0, method = self.method, route = self.route, status, latency_ms,
            code = code.map(Code::as_str), caller = self.notes.caller().map(|caller| caller.as_str()),
            flow_id = self.notes.flow_id().map(|id| id.get()), "request",
        );
    }
}

impl Drop for AccessLine {
    fn drop(&mut self) {
        gauge!("http_requests_in_flight").decrement(1);
        if self.ended {
            return;
        }
        counter!("http_requests_abandoned_total", "route" => self.route.clone(), "method" => self.method)
            .increment(1);
        tracing::info!(
            request_id = %self.request_id.0, method = self.method, route = self.route,
            latency_ms = self.latency_ms(), caller = self.notes.caller().map(|caller| caller.as_str()),
            flow_id = self.notes.flow_id().map(|id| id.get()), "the client went away; its work goes on",
        );
    }
}

/// Methods are a client's choice too: only those that some route knows get a label of their own.
fn method_label(method: &Method) -> &'static str {
    [("GET", Method::GET), ("HEAD", Method::HEAD), ("POST", Method::POST)]
        .into_iter()
        .find_map(|(label, known)| (known == *method).then_some(label))
        .unwrap_or("OTHER")
}
