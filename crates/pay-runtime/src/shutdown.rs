//! The end of a process: who asks for it, how long the rest may take, and what it is called.

use std::future::Future;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How a process ends, as its exit code says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what it was started for, or stopped when it was told to.
    Done,
    /// It failed; what it logged last says why.
    Failed,
    /// It did what it was started for, and found what people must look at.
    Differences,
    /// Its configuration is wrong: starting it again will not help.
    BadConfig,
    /// The database is not one it may work on (settings, schema): an operator must act.
    Refused,
}

impl Exit {
    /// The number: 0, 1, 3, and for the two that an operator must act on those of `sysexits.h`.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Differences => 3,
            Exit::Refused => 69,
            Exit::BadConfig => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A token that fires at the first SIGTERM or SIGINT. A second signal ends the process at once: whatever was under way
/// is the scanner's.
///
/// # Errors
/// The signals cannot be listened to.
pub fn on_signals() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let fired = token.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping: no new work; a second signal stops at once");
        fired.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::warn!("second signal: stopping at once");
        std::process::exit(i32::from(Exit::Failed.code()));
    });
    Ok(token)
}

/// Awaits the rest of some work for a bounded time; `None` when the time was over and the rest was dropped.
pub async fn bounded<F: Future>(drain_ms: u64, what: &'static str, rest: F) -> Option<F::Output> {
    match tokio::time::timeout(Duration::from_millis(drain_ms), rest).await {
        Ok(output) => Some(output),
        Err(_) => {
            tracing::warn!(what, drain_ms, "did not finish in time; leaving the rest to the scanner");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rest_that_never_ends_is_left() {
        assert_eq!(bounded(5, "nothing", std::future::pending::<()>()).await, None);
        assert_eq!(bounded(5, "something", async { 7 }).await, Some(7));
    }
}
