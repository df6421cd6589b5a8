//! A byte stream whose writes must come to an end, and which goes on reading for a moment after its last write.
//!
//! Knows no HTTP.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Most bytes that are read and thrown away after the last answer.
const MAX_LINGER_BYTES: usize = 2 << 20;

/// Bytes thrown away in one read.
const LINGER_CHUNK_BYTES: usize = 4 << 10;

/// A stream with a write deadline and a lingering close.
///
/// The write deadline starts when the peer's window and our buffer are full, and ends with a flush: everything that is
/// waiting must be taken within it. A peer that takes a byte now and then does not extend it.
#[derive(Debug)]
pub(super) struct BoundedStream<S> {
    inner: S,
    write_timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    linger: Duration,
    closing: Closing,
}

/// How far the close has come.
#[derive(Debug)]
enum Closing {
    /// Not begun.
    Open,
    /// Our side is shut; the peer may still be sending.
    Lingering { until: Pin<Box<Sleep>>, left_bytes: usize },
    /// Both sides are done.
    Done,
}

impl<S> BoundedStream<S> {
    pub(super) fn new(inner: S, write_timeout_ms: u64, linger_ms: u64) -> BoundedStream<S> {
        BoundedStream {
            inner,
            write_timeout: Duration::from_millis(write_timeout_ms),
            stalled: None,
            linger: Duration::from_millis(linger_ms),
            closing: Closing::Open,
        }
    }

    /// Passes a write's outcome on, unless the peer has stalled for too long.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_pending() && self.stalled.is_none() {
            self.stalled = Some(Box::pin(tokio::time::sleep(self.write_timeout)));
        }
        if let Some(stalled) = &mut self.stalled
            && stalled.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client did not take its answer",
            )));
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.bounded(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.bounded(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// hyper flushes once its own buffer is empty: a flush that succeeds means that the peer has caught up.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        let outcome = self.bounded(cx, outcome);
        if outcome.is_ready() {
            self.stalled = None;
        }
        outcome
    }

    /// Shuts our side, then reads and throws away what the peer still sends, within bounds: a socket closed over
    /// unread bytes is reset, and a reset can destroy an answer (413, say) that the peer has not read yet.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.closing {
                Closing::Open => {
                    ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
                    this.closing = Closing::Lingering {
                        until: Box::pin(tokio::time::sleep(this.linger)),
                        left_bytes: MAX_LINGER_BYTES,
                    };
                }
                Closing::Lingering { until, left_bytes } => {
                    let mut space = [MaybeUninit::<u8>::uninit(); LINGER_CHUNK_BYTES];
                    let mut chunk = ReadBuf::uninit(&mut space);
                    let over = until.as_mut().poll(cx).is_ready();
                    if over {
                        this.closing = Closing::Done;
                        continue;
                    }
                    match ready!(Pin::new(&mut this.inner).poll_read(cx, &mut chunk)) {
                        Ok(()) if !chunk.filled().is_empty() && chunk.filled().len() < *left_bytes => {
                            *left_bytes -= chunk.filled().len();
                        }
                        // The peer's end, the bound, or a reset: there is nobody left to be polite to.
                        Ok(()) | Err(_) => this.closing = Closing::Done,
                    }
                }
                Closing::Done => return Poll::Ready(Ok(())),
            }
        }
    }
}
