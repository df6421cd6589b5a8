//! Programs that run beside the database in tests and demo, fetched the way the database is: a named binary, Debian
//! packages unpacked into the cache folder, the machine's own installation.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::db::SourceError;
use crate::db::packages::{self, Suite};

/// Names what cannot be had on this machine, comma-separated: suites skip what needs it, and only that.
pub const MISSING_VARIABLE: &str = "PAY_TEST_MISSING";

/// Whether the test runner has found that what goes by this name cannot be had here.
pub fn is_missing(slug: &str) -> bool {
    std::env::var(MISSING_VARIABLE).is_ok_and(|missing| missing.split(',').any(|name| name == slug))
}

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A Redis or Valkey server.
    Redis,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 1] = [Program::Redis];

    /// The name used in folders, variables and messages.
    pub fn slug(self) -> &'static str {
        match self {
            Program::Redis => "redis",
        }
    }

    /// The environment variable that names a binary to use instead of looking for one.
    pub fn override_variable(self) -> &'static str {
        match self {
            Program::Redis => "PAY_REDIS_SERVER",
        }
    }

    /// The Debian package of the machine's own release.
    fn package(self) -> &'static str {
        match self {
            Program::Redis => "redis-server",
        }
    }

    /// File names of the program; the first is the package's.
    fn binaries(self) -> &'static [&'static str] {
        match self {
            Program::Redis => &["redis-server", "valkey-server"],
        }
    }

    /// Whether the test runner has found that it cannot be had here.
    pub fn is_missing(self) -> bool {
        is_missing(self.slug())
    }
}

/// How a program is started: the words before its own arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// What is executed.
    pub binary: PathBuf,
    /// Its first arguments.
    pub args: Vec<OsString>,
}

/// A program cannot be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "no {} could be had. Tried: Debian packages: {unpacked}; the machine's installation: not on PATH. Install it, or point {} at a binary.",
    program.slug(), program.override_variable()
)]
pub struct NoProgram {
    program: Program,
    unpacked: SourceError,
}

/// Finds or fetches a program. The first call may download a few megabytes. Blocks.
///
/// # Errors
/// What was tried.
pub fn provide(program: Program) -> Result<CommandLine, NoProgram> {
    let named = std::env::var_os(program.override_variable()).filter(|value| !value.is_empty());
    if let Some(binary) = named {
        return Ok(CommandLine { binary: PathBuf::from(binary), args: Vec::new() });
    }
    match unpacked(program) {
        Ok(command) => Ok(command),
        Err(unpacked) => match program.binaries().iter().find_map(|name| packages::on_path(name)) {
            Some(binary) => Ok(CommandLine { binary, args: Vec::new() }),
            None => Err(NoProgram { program, unpacked }),
        },
    }
}

fn unpacked(program: Program) -> Result<CommandLine, SourceError> {
    let root = packages::unpacked(Suite::OwnRelease, program.slug(), program.package(), |root| {
        // An install that cannot run must not stay in the cache.
        let CommandLine { binary, args } = command_in(program, root)?;
        packages::run(Command::new(binary).args(args).arg("--version")).map(drop)
    })?;
    command_in(program, &root)
}

/// Through the unpacked folder's own dynamic loader, so that the machine's libraries do not matter.
fn command_in(program: Program, root: &Path) -> Result<CommandLine, SourceError> {
    let name = program.binaries()[0];
    let folders = ["usr/bin", "usr/sbin"];
    let binary = folders.iter().map(|folder| root.join(folder).join(name)).find(|path| path.exists());
    let binary = binary.ok_or_else(|| SourceError::Incomplete { what: name, path: root.to_path_buf() })?;
    // Debian's redis-server is a link to redis-check-rdb, which tells by its name what it is to be.
    let (loader, library_path) = packages::loader(root)?;
    let args = vec![
        OsString::from("--library-path"),
        OsString::from(library_path),
        OsString::from("--argv0"),
        OsString::from(name),
        binary.into_os_string(),
    ];
    Ok(CommandLine { binary: loader, args })
}
