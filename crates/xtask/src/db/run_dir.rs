//! The folder a server lives in: `data/`, `server.log`, and the marks by which a later run recognises what an earlier
//! one left behind.
//!
//! The owner holds a lock on `owner.lock` for its whole life; the kernel releases it however the owner ends. A folder
//! whose lock is free has no owner: whatever still runs there is ended and, unless it was asked for by name, removed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::cache::{self, create_dir, remove_dir};
use super::error::SourceError;

/// How long a killed left-over may take to be gone.
const LEFT_OVER_POLL: Duration = Duration::from_millis(20);
const LEFT_OVER_POLLS: u32 = 500;

/// A claimed folder.
#[derive(Debug)]
pub(super) struct RunDir {
    path: PathBuf,
    /// Removed at the end; a folder given by the caller stays.
    temporary: bool,
    _owner: File,
}

impl RunDir {
    /// A new folder below cargo's target directory, named after what kind of server it is for; removes those without an
    /// owner first.
    pub(super) fn temporary(kind: &str) -> Result<Self, SourceError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let base = crate::target_dir().join("private-db");
        create_dir(&base)?;
        // Held while folders are made and swept, so that nobody sweeps a folder between its creation and its lock.
        let _sweep = cache::lock(&base.join("sweep.lock"))?;
        sweep(&base)?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{kind}-{}-{number}", std::process::id()));
        Self::claim(path, true)
    }

    /// The caller's folder, which may hold the data of an earlier server.
    pub(super) fn named(path: &Path) -> Result<Self, SourceError> {
        create_dir(path)?;
        let path = path.canonicalize().map_err(SourceError::io("resolve", path))?;
        Self::claim(path, false)
    }

    fn claim(path: PathBuf, temporary: bool) -> Result<Self, SourceError> {
        create_dir(&path)?;
        let lock = cache::try_lock(&path.join("owner.lock"))?;
        let owner = lock.ok_or_else(|| SourceError::InUse { path: path.clone() })?;
        let claimed = Self { path, temporary, _owner: owner };
        end_left_over(&claimed.path);
        Ok(claimed)
    }

    /// The server's data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Where the server's output goes.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("server.log")
    }

    /// A name no other server of this machine has.
    pub(super) fn container_name(&self) -> String {
        format!("payment-consistency-{}", self.path.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Leaves word of the running process for a later run.
    pub(super) fn record_process(&self, pid: u32) -> Result<(), SourceError> {
        let path = self.path.join("server.pid");
        fs::write(&path, pid.to_string()).map_err(SourceError::io("write", &path))
    }

    /// Leaves word of the container for a later run.
    pub(super) fn record_container(&self) -> Result<(), SourceError> {
        let path = self.path.join("container");
        fs::write(&path, self.container_name()).map_err(SourceError::io("write", &path))
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed now is swept by the next run.
            let _ = remove_dir(&self.path);
        }
    }
}

fn sweep(base: &Path) -> Result<(), SourceError> {
    let entries = fs::read_dir(base).map_err(SourceError::io("list", base))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()) {
        if let Some(_lock) = cache::try_lock(&path.join("owner.lock"))? {
            end_left_over(&path);
            remove_dir(&path)?;
        }
    }
    Ok(())
}

/// Ends what an owner that is gone left running in `path`. The guard has usually done so already.
fn end_left_over(path: &Path) {
    if let Ok(name) = fs::read_to_string(path.join("container")) {
        let mut command = Command::new("docker");
        command.args(["rm", "--force", "--volumes", name.trim()]);
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    let Some(pid) = left_over_process(path) else { return };
    if kill_process(pid, Signal::KILL).is_ok() {
        let mut polls = 0;
        while polls < LEFT_OVER_POLLS && test_kill_process(pid).is_ok() {
            std::thread::sleep(LEFT_OVER_POLL);
            polls += 1;
        }
    }
}

/// The recorded process, if it still runs and is a server over this very folder: process ids are given out again.
fn left_over_process(path: &Path) -> Option<Pid> {
    let recorded = fs::read_to_string(path.join("server.pid")).ok()?;
    let id: i32 = recorded.trim().parse().ok()?;
    let command_line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
    let data = path.join("data");
    String::from_utf8_lossy(&command_line).contains(&*data.to_string_lossy()).then_some(())?;
    Pid::from_raw(id)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_named_folder_has_one_owner_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let owner = RunDir::named(&path).unwrap();
        assert!(matches!(RunDir::named(&path), Err(SourceError::InUse { .. })));
        drop(owner);
        assert!(path.is_dir());
        RunDir::named(&path).unwrap();
    }

    #[test]
    fn a_temporary_folder_goes_with_its_owner() {
        let owner = RunDir::temporary("mysql").unwrap();
        let path = owner.path.clone();
        let other = RunDir::temporary("mysql").unwrap();
        assert!(path.is_dir(), "a second run swept a folder that has an owner");
        assert_ne!(path, other.path);
        drop(owner);
        assert!(!path.exists());
    }

    #[test]
    fn the_sweep_ends_an_orphan_and_removes_its_folder() {
        let base = tempfile::tempdir().unwrap();
        let orphan = base.path().join("mysql-1-0");
        create_dir(&orphan.join("data")).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "echo up; read -r _"])
            .arg(orphan.join("data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let _open = child.stdin.take();
        // Until it speaks, its command line may not be in place yet.
        child.stdout.take().unwrap().read_exact(&mut [0; 3]).unwrap();
        fs::write(orphan.join("server.pid"), child.id().to_string()).unwrap();
        // Reaps the child, so that the sweep sees it gone.
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        sweep(base.path()).unwrap();
        assert!(!reaper.join().unwrap().success());
        assert!(!orphan.exists());
    }

    #[test]
    fn another_process_with_a_recorded_id_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let orphan = base.path().join("mysql-1-0");
        create_dir(&orphan).unwrap();
        let mut child = Command::new("sleep").arg("300").spawn().unwrap();
        fs::write(orphan.join("server.pid"), child.id().to_string()).unwrap();
        sweep(base.path()).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
