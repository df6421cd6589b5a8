//! The per-user folder that keeps what is slow to get: unpacked servers and initialised data directories.
//!
//! An entry is built beside its final place and renamed into it, under a file lock: a cut-off download never looks like
//! an install, and two runs never build the same entry twice. Removing the folder is always safe while nothing runs.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::error::SourceError;
use crate::progress::Phase;

/// The cache folder: `PAY_CACHE_DIR`, or `payment-consistency` below the user's cache folder.
pub(super) fn root() -> Result<PathBuf, SourceError> {
    root_from(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn root_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, SourceError> {
    variable("PAY_CACHE_DIR")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("payment-consistency")))
        .or_else(|| Some(variable("HOME")?.join(".cache/payment-consistency")))
        .ok_or(SourceError::NoCacheFolder)
}

/// Returns the folder `entry`, after `build` filled it if it was not there yet. `build` gets an empty folder to fill.
pub(super) fn get_or_build<E: From<SourceError>>(
    entry: &Path,
    build: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    if entry.is_dir() {
        return Ok(());
    }
    let parent = entry.parent().unwrap_or(Path::new("."));
    create_dir(parent)?;
    let _lock = lock(&beside(entry, ".lock"))?;
    if entry.is_dir() {
        return Ok(());
    }
    let staging = beside(entry, ".partial");
    remove_dir(&staging)?;
    create_dir(&staging)?;
    build(&staging)?;
    fs::rename(&staging, entry).map_err(SourceError::io("move the finished folder to", entry))?;
    Ok(())
}

/// `path` with `suffix` after its name. (`with_extension` would cut a version number at its last dot.)
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Takes the exclusive lock on `path`, and says so when it has to wait. Held until the file is dropped.
pub(super) fn lock(path: &Path) -> Result<File, SourceError> {
    let file = open_lock(path)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(SourceError::io("lock", path)(error)),
    }
    let phase = Phase::start("waiting for another run that prepares the same database server");
    file.lock().map_err(SourceError::io("lock", path))?;
    phase.done();
    Ok(file)
}

/// Takes the exclusive lock on `path` if nobody has it.
pub(super) fn try_lock(path: &Path) -> Result<Option<File>, SourceError> {
    let file = open_lock(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(SourceError::io("lock", path)(error)),
    }
}

fn open_lock(path: &Path) -> Result<File, SourceError> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(SourceError::io("open the lock file", path))
}

/// `mkdir -p`.
pub(super) fn create_dir(path: &Path) -> Result<(), SourceError> {
    fs::create_dir_all(path).map_err(SourceError::io("create the folder", path))
}

/// `rm -rf`; a folder that is not there is fine.
pub(super) fn remove_dir(path: &Path) -> Result<(), SourceError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SourceError::io("remove the folder", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_follows_the_environment_in_order() {
        let all = |name: &str| match name {
            "PAY_CACHE_DIR" => Some(PathBuf::from("/a")),
            "XDG_CACHE_HOME" => Some(PathBuf::from("/b")),
            _ => Some(PathBuf::from("/c")),
        };
        assert_eq!(root_from(all).unwrap(), Path::new("/a"));
        assert_eq!(
            root_from(|name| all(name).filter(|_| name != "PAY_CACHE_DIR")).unwrap(),
            Path::new("/b/payment-consistency")
        );
        assert_eq!(
            root_from(|name| all(name).filter(|_| name == "HOME")).unwrap(),
            Path::new("/c/.cache/payment-consistency")
        );
        assert!(matches!(root_from(|_| None), Err(SourceError::NoCacheFolder)));
    }

    #[test]
    fn a_failed_build_leaves_no_entry_and_the_next_one_starts_clean() {
        let folder = tempfile::tempdir().unwrap();
        let entry = folder.path().join("thing");
        let failed: Result<(), SourceError> = get_or_build(&entry, |staging| {
            fs::write(staging.join("half"), "x").unwrap();
            Err(SourceError::NoCacheFolder)
        });
        assert!(failed.is_err());
        assert!(!entry.exists());

        get_or_build::<SourceError>(&entry, |staging| {
            assert!(!staging.join("half").exists(), "the staging folder was not emptied");
            fs::write(staging.join("whole"), "x").unwrap();
            Ok(())
        })
        .unwrap();
        assert!(entry.join("whole").is_file());

        get_or_build::<SourceError>(&entry, |_| panic!("a finished entry is not built again")).unwrap();
    }

    #[test]
    fn a_lock_is_exclusive_until_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = lock(&path).unwrap();
        assert!(try_lock(&path).unwrap().is_none());
        drop(held);
        assert!(try_lock(&path).unwrap().is_some());
    }
}
