//! Where a server program comes from: a named binary, unpacked Debian packages, the machine's installation, Docker.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Flavor;
use super::apt::{self, Suite};
use super::cache;
use super::command;
use super::container;
use super::error::{Attempt, ProvideError, SourceError};
use super::installed::{Installed, Launch, Origin};
use crate::progress::Phase;

/// Folders that hold server programs and are seldom on a user's PATH.
const DAEMON_FOLDERS: [&str; 5] =
    ["/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin", "/opt/homebrew/bin"];

/// What [`provide_reference`] came back with.
#[derive(Debug)]
pub struct Provided {
    /// The server program.
    pub installed: Installed,
    /// Why it is MariaDB and not the reference MySQL. `None`: it is the reference. To be said loudly.
    pub instead_of_reference: Option<ProvideError>,
}

/// Gets a server program of the given flavour. The first call may download (15 to 60 MB) and then takes seconds to
/// minutes; later calls take milliseconds. Blocks.
///
/// Order: the binary named by `PAY_MYSQLD` or `PAY_MARIADBD` (and nothing else if it is set), Debian packages unpacked
/// into the cache folder (MySQL from `sid`, MariaDB from the machine's own release), the machine's installation, Docker.
///
/// # Errors
/// When nothing works: every attempt and its reason.
pub fn provide(flavor: Flavor) -> Result<Installed, ProvideError> {
    let variable = flavor.override_variable();
    if let Some(binary) = std::env::var_os(variable).filter(|value| !value.is_empty()) {
        return Installed::native(flavor, Origin::Override, Path::new(&binary))
            .map_err(|reason| ProvideError::Override { variable, flavor, reason });
    }
    let root = cache::root().map_err(|reason| ProvideError::Cache { reason })?;
    let mut attempts = Vec::new();
    for origin in [Origin::Unpacked, Origin::Machine, Origin::Docker] {
        let found = match origin {
            Origin::Override => continue, // Dealt with above.
            Origin::Unpacked => unpacked(flavor, &root),
            Origin::Machine => machine(flavor),
            Origin::Docker => docker(flavor),
        };
        match found {
            Ok(installed) => return Ok(installed),
            Err(error) => attempts.push(Attempt { origin, error }),
        }
    }
    Err(ProvideError::Exhausted { flavor, attempts })
}

/// Gets the reference MySQL, or MariaDB where MySQL cannot be had; the answer says which and why.
///
/// # Errors
/// When neither can be had: why, for both.
pub fn provide_reference() -> Result<Provided, ProvideError> {
    match provide(Flavor::MySql) {
        Ok(installed) => Ok(Provided { installed, instead_of_reference: None }),
        Err(reference) => match provide(Flavor::MariaDb) {
            Ok(installed) => Ok(Provided { installed, instead_of_reference: Some(reference) }),
            Err(substitute) => Err(ProvideError::Neither {
                reference: Box::new(reference),
                substitute: Box::new(substitute),
            }),
        },
    }
}

fn unpacked(flavor: Flavor, cache_root: &Path) -> Result<Installed, SourceError> {
    let (suite, package) = match flavor {
        Flavor::MySql => (Suite::Sid, "mysql-server-core"),
        Flavor::MariaDb => (Suite::OwnRelease, "mariadb-server-core"),
    };
    let folder = cache_root.join("servers").join(flavor.slug());
    cache::get_or_build(&folder, |staging| {
        apt::unpack(suite, package, staging)?;
        // An install that cannot run must not stay in the cache.
        Installed::unpacked(flavor, staging).map(drop)
    })?;
    Installed::unpacked(flavor, &folder)
}

fn machine(flavor: Flavor) -> Result<Installed, SourceError> {
    let mut last = SourceError::NotInstalled { daemon: flavor.daemon() };
    // Old MariaDB installs its server as mysqld, so a wrong first find does not end the search.
    for binary in machine_binaries(flavor) {
        match Installed::native(flavor, Origin::Machine, &binary) {
            Ok(installed) => return Ok(installed),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn machine_binaries(flavor: Flavor) -> Vec<PathBuf> {
    let names: &[&str] = match flavor {
        Flavor::MySql => &["mysqld"],
        Flavor::MariaDb => &["mariadbd", "mysqld"],
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&path).chain(DAEMON_FOLDERS.iter().map(PathBuf::from)).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .filter(|binary| binary.is_file())
        .collect()
}

fn docker(flavor: Flavor) -> Result<Installed, SourceError> {
    // Answers only if the engine runs, not merely the client.
    command::run(Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]))?;
    let image = container::image(flavor);
    if command::run(Command::new("docker").args(["image", "inspect", image])).is_err() {
        let phase = Phase::start(format!("pulling the image {image}"));
        command::run(Command::new("docker").args(["pull", "--quiet", image]))?;
        phase.done();
    }
    let version = image.rsplit(':').next().unwrap_or_default().to_owned();
    Ok(Installed {
        flavor,
        version,
        origin: Origin::Docker,
        launch: Launch::Docker { image: image.to_owned() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_lists_every_attempt_and_ends_with_advice() {
        let error = ProvideError::Exhausted {
            flavor: Flavor::MySql,
            attempts: vec![
                Attempt { origin: Origin::Unpacked, error: SourceError::NoDebianArchive },
                Attempt { origin: Origin::Docker, error: SourceError::NotInstalled { daemon: "mysqld" } },
            ],
        };
        let text = error.to_string();
        assert!(text.contains("  - Debian packages: no enabled Debian"), "{text}");
        assert!(text.contains("  - Docker: mysqld is neither"), "{text}");
        assert!(text.ends_with("point PAY_MYSQLD at a mysqld binary."), "{text}");
    }
}
