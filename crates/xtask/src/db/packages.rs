//! Debian packages of other programs than database servers, unpacked into the same cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt;
pub(crate) use super::apt::Suite;
use super::error::SourceError;
use super::installed::{find_loader, library_folders};
use super::{cache, command};

/// The folder that holds a package with all it depends on; `check` sees it before it is kept.
pub(crate) fn unpacked(
    suite: Suite,
    name: &str,
    package: &str,
    check: impl FnOnce(&Path) -> Result<(), SourceError>,
) -> Result<PathBuf, SourceError> {
    let folder = cache::root()?.join("programs").join(name);
    cache::get_or_build(&folder, |staging| {
        apt::unpack(suite, package, staging)?;
        check(staging)
    })?;
    Ok(folder)
}

/// The dynamic loader of an unpacked folder, and the folders that it looks for libraries in.
pub(crate) fn loader(root: &Path) -> Result<(PathBuf, String), SourceError> {
    let folders = library_folders(root);
    let loader = folders.iter().find_map(|folder| find_loader(folder)).ok_or_else(|| {
        SourceError::Incomplete { what: "the dynamic loader (ld-linux)", path: root.to_path_buf() }
    })?;
    Ok((loader, folders.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>().join(":")))
}

/// Whether `program` is an executable file on PATH.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    command::on_path(program)
}

/// Runs a command to its end.
pub(crate) fn run(program: &mut Command) -> Result<String, SourceError> {
    command::run(program)
}
