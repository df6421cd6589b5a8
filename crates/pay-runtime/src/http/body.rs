//! A request's body with a time limit of its own: hyper bounds the header's time, nobody else the body's.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

/// Why a body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The client was too slow. The connection is closed after the answer.
    #[error("the request body did not arrive within {limit_ms} ms; send it again, faster")]
    TimedOut {
        /// The limit that was passed.
        limit_ms: u64,
    },
    /// The connection broke, or what came over it was not HTTP.
    #[error("the request body broke off")]
    Broken(#[source] hyper::Error),
}

/// The body of a request handed to the service.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    limit_ms: u64,
    /// Started by the first read that had to wait.
    deadline: Option<Pin<Box<Sleep>>>,
    end: BodyEnd,
}

/// Whether a body was read to its end; outlives the body.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyEnd(Arc<AtomicBool>);

impl BodyEnd {
    /// Whether nothing of the body is left to be read.
    pub(super) fn was_reached(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn reach(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, limit_ms: u64) -> RequestBody {
        let end = BodyEnd::default();
        if incoming.is_end_stream() {
            end.reach();
        }
        RequestBody { incoming, limit_ms, deadline: None, end }
    }

    /// Tells, also after the body is gone, whether its end was reached.
    pub(super) fn end(&self) -> BodyEnd {
        self.end.clone()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        // The deadline is looked at even when a frame is ready: a client that drips bytes always has one ready.
        if let Some(deadline) = &mut this.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(Err(BodyError::TimedOut { limit_ms: this.limit_ms })));
        }
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                if frame.is_none() || this.incoming.is_end_stream() {
                    this.end.reach();
                }
                Poll::Ready(frame.map(|result| result.map_err(BodyError::Broken)))
            }
            Poll::Pending => {
                if this.deadline.is_none() {
                    let mut deadline = Box::pin(tokio::time::sleep(Duration::from_millis(this.limit_ms)));
                    // Polled once so that it wakes this task; a limit of zero would be over at once.
                    if deadline.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Some(Err(BodyError::TimedOut { limit_ms: this.limit_ms })));
                    }
                    this.deadline = Some(deadline);
                }
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
