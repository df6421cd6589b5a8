//! What every request passes through, whatever it is about: request id, access line, metrics, problem rendering, and
//! the strict reading of headers, parameters and bodies. Nothing here knows what a payment is.

mod body;
mod headers;
mod observe;
mod params;
mod request_id;

pub(crate) use body::{take_bytes, take_json};
pub(crate) use headers::only;
pub use headers::{idempotency_key, preferred_wait_ms};
pub(crate) use observe::{observe, panicked};
pub(crate) use params::{EventIdParam, FlowIdParam, Query, TicketIdParam};
pub(crate) use request_id::{RequestId, RequestNotes};
