//! A server as a child process: signals, waiting, and never outliving its owner.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::guard::Guard;

/// How long a killed process may take to be gone before it is signalled once more.
const KILLED_LIMIT: Duration = Duration::from_secs(30);

/// A running (or ended, not yet taken down) server process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct ServerProcess {
    pid: Pid,
    /// `None` while a waiter thread has it, and after it was reaped.
    child: Option<Child>,
    guard: Option<Guard>,
    reaped: bool,
}

impl ServerProcess {
    /// Starts `command` in a process group of its own, with all it says going to `log`.
    pub(super) fn spawn(mut command: Command, log: File) -> io::Result<Self> {
        let child =
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        let mut process = Self { pid, child: Some(child), guard: None, reaped: false };
        // From here on a failure drops `process`, which kills the child.
        process.guard = Some(Guard::over_process(process.id())?);
        Ok(process)
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    /// Sends `signal`.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        kill_process(self.pid, signal).map_err(io::Error::from)
    }

    /// How it ended, if it has.
    pub(super) fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let status = child.try_wait()?;
        if status.is_some() {
            self.mark_reaped();
        }
        Ok(status)
    }

    /// Waits up to `limit` for it to end and SIGKILLs it then. Returns whether it ended by itself.
    pub(super) async fn wait_or_kill(&mut self, limit: Duration) -> io::Result<bool> {
        let Some(mut child) = self.child.take() else { return Ok(true) };
        // A thread, not the runtime's child handling: a server may be stopped from another runtime than it was started on.
        let mut waiter = tokio::task::spawn_blocking(move || child.wait());
        let in_time = tokio::time::timeout(limit, &mut waiter).await;
        let by_itself = in_time.is_ok();
        let joined = match in_time {
            Ok(joined) => joined,
            Err(_elapsed) => {
                self.signal(Signal::KILL)?;
                waiter.await
            }
        };
        joined.map_err(io::Error::other)??;
        self.mark_reaped();
        Ok(by_itself)
    }

    /// SIGKILL, and waits until it is gone.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.signal(Signal::KILL)?;
        self.wait_or_kill(KILLED_LIMIT).await.map(drop)
    }

    /// The process id is no longer ours: nothing may signal it from here on.
    fn mark_reaped(&mut self) {
        self.reaped = true;
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // Gone already is as good.
        let _ = self.signal(Signal::KILL);
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }
}
