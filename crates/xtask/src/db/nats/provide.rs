//! Where the broker's program comes from: a named binary, an unpacked Debian package, the machine's installation.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::command;
use super::super::error::SourceError;
use super::super::packages::{self, Suite};

/// Names a binary to use instead of looking for one.
const OVERRIDE_VARIABLE: &str = "PAY_NATS_SERVER";
const DAEMON: &str = "nats-server";
/// The first version that delivers scheduled messages.
const LEAST_VERSION: (u32, u32) = (2, 12);

/// A `nats-server` ready to run.
#[derive(Debug, Clone)]
pub struct NatsProgram {
    /// As the program reports it, such as `2.15.2`.
    pub version: String,
    /// The program, and what comes before its own arguments.
    words: Vec<PathBuf>,
}

impl NatsProgram {
    /// The command that runs it, without arguments of its own.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    fn probe(words: Vec<PathBuf>) -> Result<NatsProgram, SourceError> {
        let mut program = NatsProgram { version: String::new(), words };
        let said = command::run(program.command().arg("--version"))?;
        program.version = parse_version(&said).ok_or_else(|| program.wrong(&said))?.to_owned();
        if !is_new_enough(&program.version) {
            return Err(program.wrong(&said));
        }
        Ok(program)
    }

    fn wrong(&self, said: &str) -> SourceError {
        let path = self.words.last().cloned().unwrap_or_default();
        let (major, minor) = LEAST_VERSION;
        let wanted = format!("{DAEMON} {major}.{minor} or newer");
        SourceError::WrongBroker { path, wanted, said: said.trim().to_owned() }
    }
}

/// No program could be had: what was tried, and why it failed.
#[derive(Debug)]
pub struct NoNats(Vec<(&'static str, SourceError)>);

impl std::error::Error for NoNats {}

impl fmt::Display for NoNats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no {DAEMON} could be had. Tried:")?;
        for (origin, error) in &self.0 {
            writeln!(f, "  - {origin}: {error}")?;
        }
        let (major, minor) = LEAST_VERSION;
        write!(f, "Install {DAEMON} {major}.{minor} or newer, or point {OVERRIDE_VARIABLE} at its binary.")
    }
}

/// Gets the program. The first call may download (some 20 MB); later calls take milliseconds. Blocks.
///
/// Order: the binary named by `PAY_NATS_SERVER` (and nothing else if it is set), the Debian package of `sid` unpacked into
/// the cache folder, the machine's installation.
///
/// # Errors
/// When nothing works: every attempt and its reason.
pub fn provide_nats() -> Result<NatsProgram, NoNats> {
    if let Some(binary) = std::env::var_os(OVERRIDE_VARIABLE).filter(|value| !value.is_empty()) {
        let named = NatsProgram::probe(vec![PathBuf::from(binary)]);
        return named.map_err(|error| NoNats(vec![(OVERRIDE_VARIABLE, error)]));
    }
    let mut tried = Vec::new();
    for (origin, attempt) in
        [("Debian package", unpacked as fn() -> _), ("the machine's installation", machine as fn() -> _)]
    {
        match attempt() {
            Ok(program) => return Ok(program),
            Err(error) => tried.push((origin, error)),
        }
    }
    Err(NoNats(tried))
}

fn unpacked() -> Result<NatsProgram, SourceError> {
    // An install that cannot run must not stay in the cache.
    let folder = packages::unpacked(Suite::Sid, "nats", DAEMON, |root| in_folder(root).map(drop))?;
    in_folder(&folder)
}

/// As it is, if it needs nothing of the machine; otherwise through the unpacked folder's own dynamic loader.
fn in_folder(root: &Path) -> Result<NatsProgram, SourceError> {
    let binaries = ["usr/sbin", "usr/bin"].map(|folder| root.join(folder).join(DAEMON));
    let binary = binaries.into_iter().find(|path| path.is_file());
    let binary = binary.ok_or_else(|| SourceError::Incomplete { what: DAEMON, path: root.to_owned() })?;
    let plain = match NatsProgram::probe(vec![binary.clone()]) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let Ok((loader, path)) = packages::loader(root) else { return Err(plain) };
    NatsProgram::probe(vec![loader, PathBuf::from("--library-path"), PathBuf::from(path), binary])
}

fn machine() -> Result<NatsProgram, SourceError> {
    let usual = [PathBuf::from("/usr/sbin").join(DAEMON), PathBuf::from("/usr/local/bin").join(DAEMON)];
    let found = command::on_path(DAEMON).into_iter().chain(usual).find(|path| path.is_file());
    NatsProgram::probe(vec![found.ok_or(SourceError::NotInstalled { daemon: DAEMON })?])
}

/// Takes `nats-server: v2.15.2` apart.
fn parse_version(said: &str) -> Option<&str> {
    let version = said.split("nats-server: v").nth(1)?.split_whitespace().next()?;
    (!version.is_empty()).then_some(version)
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= LEAST_VERSION,
        (Some(_) | None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_old_ones_refused() {
        assert_eq!(parse_version("nats-server: v2.15.2\n"), Some("2.15.2"));
        assert_eq!(parse_version("mysqld  Ver 9.7.4-2"), None);
        for (version, expected) in [
            ("2.12.0", true),
            ("2.15.2-1", true),
            ("3.0.1", true),
            ("2.11.9", false),
            ("1.99", false),
            ("x", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }

    #[test]
    fn another_program_is_refused_with_what_it_said() {
        let error = NatsProgram::probe(vec![PathBuf::from("/bin/echo")]).unwrap_err();
        let text = NoNats(vec![("the machine's installation", error)]).to_string();
        assert!(text.contains("/bin/echo is not nats-server 2.12 or newer; it says `echo"), "{text}");
        assert!(text.contains("point PAY_NATS_SERVER at its binary"), "{text}");
    }
}
