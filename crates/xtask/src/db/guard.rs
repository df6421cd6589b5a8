//! A small companion process that ends a server when its owner is gone without having stopped it, SIGKILL included.
//!
//! It waits on a pipe whose other end only the owner holds: the kernel closes that end however the owner dies. (A
//! parent-death signal would need unsafe code, and it fires when the *thread* that started the server ends.)

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits for a line (all is well) or the end of the pipe (the owner is gone).
const SCRIPT: &str = r#"trap '' HUP INT TERM; if read -r _; then exit 0; fi; "$@""#;

/// The running companion. Dropping it without [`Guard::dismiss`] sets it off.
#[derive(Debug)]
pub(super) struct Guard {
    companion: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// SIGKILLs the process `pid` when this process is gone.
    pub(super) fn over_process(pid: u32) -> io::Result<Self> {
        Self::start(&["kill", "-s", "KILL", &pid.to_string()])
    }

    /// Removes the container `name` when this process is gone.
    pub(super) fn over_container(name: &str) -> io::Result<Self> {
        Self::start(&["docker", "rm", "--force", "--volumes", name])
    }

    fn start(action: &[&str]) -> io::Result<Self> {
        let mut companion = Command::new("sh")
            .args(["-c", SCRIPT, "guard"])
            .args(action)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Away from the terminal's Ctrl-C and from whoever ends the owner's whole group.
            .process_group(0)
            .spawn()?;
        let pipe = companion.stdin.take();
        Ok(Self { companion, pipe })
    }

    /// Tells the companion that the server is in good hands, before its process id is given back.
    pub(super) fn dismiss(mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // If it cannot be told, it is gone already.
            let _ = pipe.write_all(b"done\n");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // Either way it ends at once; waiting keeps it from lingering as a zombie.
        let _ = self.companion.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("300").spawn().unwrap()
    }

    #[test]
    fn a_dropped_guard_kills() {
        let mut child = sleeper();
        drop(Guard::over_process(child.id()).unwrap());
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn a_dismissed_guard_does_not() {
        let mut child = sleeper();
        Guard::over_process(child.id()).unwrap().dismiss();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
