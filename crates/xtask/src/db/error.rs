//! Everything that can go wrong between "I need a server" and "it answers", each with what was tried and what to do.
//!
//! Messages are whole: a reason is part of the text, and therefore not a `source` that a reporter would print again.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::{Flavor, Origin};

/// No server program could be had.
#[derive(Debug, thiserror::Error)]
pub enum ProvideError {
    /// The operator named a binary, and it can't be used. Nothing else was tried.
    #[error("{variable} names a {flavor} server that cannot be used: {reason}. Correct or unset {variable}.")]
    Override {
        /// The environment variable.
        variable: &'static str,
        /// The wanted flavour.
        flavor: Flavor,
        /// Why not.
        reason: SourceError,
    },
    /// The cache folder could not be worked with.
    #[error(
        "the cache of database servers cannot be used: {reason}. Set PAY_CACHE_DIR to a writable folder."
    )]
    Cache {
        /// What failed.
        reason: SourceError,
    },
    /// Neither the reference nor its substitute.
    #[error("{reference}\n{substitute}")]
    Neither {
        /// Why no MySQL.
        reference: Box<ProvideError>,
        /// Why no MariaDB either.
        substitute: Box<ProvideError>,
    },
    /// Every source was tried.
    #[error("no {flavor} server could be had. Tried:\n{}\n{}", Attempts(.attempts), advice(*.flavor))]
    Exhausted {
        /// The wanted flavour.
        flavor: Flavor,
        /// What was tried, in order.
        attempts: Vec<Attempt>,
    },
}

/// One source that was tried in vain.
#[derive(Debug)]
pub struct Attempt {
    /// Where it was looked for.
    pub origin: Origin,
    /// Why it gave nothing.
    pub error: SourceError,
}

struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.0.iter().enumerate() {
            let end = if index + 1 == self.0.len() { "" } else { "\n" };
            write!(f, "  - {}: {}{end}", attempt.origin, attempt.error)?;
        }
        Ok(())
    }
}

fn advice(flavor: Flavor) -> String {
    format!(
        "Install {daemon}, start Docker, or point {variable} at a {daemon} binary.",
        daemon = flavor.daemon(),
        variable = flavor.override_variable()
    )
}

/// Why one source of server programs gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The package route works on Debian-like systems alone.
    #[error("this is not a Debian-like system ({program} is not installed)")]
    NotDebianLike {
        /// The missing program.
        program: &'static str,
    },
    /// The machine's apt configuration has no Debian archive to derive an entry from.
    #[error("no enabled Debian `main` archive for this release in /etc/apt (sources.list, sources.list.d)")]
    NoDebianArchive,
    /// A program ended badly.
    #[error("`{program}` ended with {status}: {stderr}")]
    Command {
        /// The program and its leading arguments.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote.
        stderr: String,
    },
    /// The file system refused.
    #[error("could not {doing} {}: {reason}", path.display())]
    Io {
        /// A verb phrase.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        reason: io::Error,
    },
    /// Not installed.
    #[error("{daemon} is neither on PATH nor in the usual folders")]
    NotInstalled {
        /// The program looked for.
        daemon: &'static str,
    },
    /// A binary answers with another product's version line.
    #[error("{} is not {wanted}; it says `{said}`", path.display())]
    WrongProgram {
        /// The binary.
        path: PathBuf,
        /// The wanted flavour.
        wanted: Flavor,
        /// Its version line.
        said: String,
    },
    /// A binary that is no broker, or too old a one.
    #[error("{} is not {wanted}; it says `{said}`", path.display())]
    WrongBroker {
        /// The binary.
        path: PathBuf,
        /// What it should be.
        wanted: String,
        /// Its version line.
        said: String,
    },
    /// What was unpacked or installed lacks a part.
    #[error("{what} is missing under {}", path.display())]
    Incomplete {
        /// The missing part.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Another run works in that folder.
    #[error("{} belongs to a server of another run that is still alive; stop that run or choose another folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// No home to derive a cache folder from.
    #[error("neither PAY_CACHE_DIR, XDG_CACHE_HOME nor HOME is set")]
    NoCacheFolder,
}

impl SourceError {
    /// For `map_err`: keeps what was being done, and on what.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::Io { doing, path: path.to_path_buf(), reason }
    }
}

/// A private server could not be started, reached, stopped or asked.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No program to run.
    #[error(transparent)]
    Provide(#[from] ProvideError),
    /// Preparing the data directory, or a command around the server, failed. No server is running.
    #[error(transparent)]
    Prepare(#[from] SourceError),
    /// No port of the private range is free.
    #[error(
        "no free port on 127.0.0.1 between {first} and {last}; name one with --port, or stop what uses them"
    )]
    NoFreePort {
        /// First port tried.
        first: u16,
        /// Last port tried.
        last: u16,
    },
    /// The server ended before it answered.
    #[error("the {flavor} server ended with {status} before it answered. Its log ({}) ends:\n{log_tail}", log.display())]
    EndedEarly {
        /// Which server.
        flavor: Flavor,
        /// How it ended, in words.
        status: String,
        /// The log file.
        log: PathBuf,
        /// Its last lines.
        log_tail: String,
    },
    /// It runs and does not answer; it has been killed.
    #[error("the {flavor} server on port {port} did not answer within {waited_s} s and was killed. Last answer: {last}. Its log is {}", log.display())]
    NotReady {
        /// Which server.
        flavor: Flavor,
        /// Its port.
        port: u16,
        /// The bound, in seconds.
        waited_s: u64,
        /// What the last attempt to connect said.
        last: Box<sqlx::Error>,
        /// The log file.
        log: PathBuf,
    },
    /// A graceful stop took too long; the server has been killed.
    #[error(
        "the {flavor} server did not stop within {waited_s} s of SIGTERM and was killed; its data directory will need crash recovery"
    )]
    StopTimedOut {
        /// Which server.
        flavor: Flavor,
        /// The bound, in seconds.
        waited_s: u64,
    },
    /// The call needs a running server.
    #[error("the {flavor} server is not running; call restart() first")]
    NotRunning {
        /// Which server.
        flavor: Flavor,
    },
    /// A signal could not be delivered.
    #[error("could not signal the {flavor} server: {reason}")]
    Signal {
        /// Which server.
        flavor: Flavor,
        /// The system's answer.
        reason: io::Error,
    },
    /// A schema name that would need quoting rules.
    #[error("`{name}` is not a usable schema name: 1 to 64 of a-z, 0-9 and _ are")]
    BadSchemaName {
        /// What was given.
        name: String,
    },
    /// The server refused a statement.
    #[error("could not {doing}: {reason}")]
    Sql {
        /// A verb phrase.
        doing: &'static str,
        /// The server's answer.
        reason: sqlx::Error,
    },
}
