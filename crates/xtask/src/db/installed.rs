//! A server program that can be run: where it lies, what it is, and the command line that starts it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Flavor;
use super::command;
use super::error::SourceError;

/// A server program ready to run.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Which server.
    pub flavor: Flavor,
    /// As the program reports it, such as `9.7.4-2`; the image's tag for Docker.
    pub version: String,
    /// Where it came from.
    pub origin: Origin,
    pub(super) launch: Launch,
}

/// Where a server program came from, in the order they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `PAY_MYSQLD` or `PAY_MARIADBD`.
    Override,
    /// Debian packages unpacked into the cache folder.
    Unpacked,
    /// The machine's own installation (its program, not its data or configuration).
    Machine,
    /// The official image.
    Docker,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Override => "the named binary",
            Self::Unpacked => "Debian packages",
            Self::Machine => "the machine's installation",
            Self::Docker => "Docker",
        })
    }
}

/// How to run it.
#[derive(Debug, Clone)]
pub(super) enum Launch {
    /// Through the unpacked folder's own dynamic loader, so that the machine's libraries don't matter.
    Unpacked { root: PathBuf, loader: PathBuf, library_path: String },
    /// As it is.
    Native { binary: PathBuf },
    /// In a container.
    Docker { image: String },
}

impl Installed {
    /// A server from Debian packages unpacked into `root`.
    pub(super) fn unpacked(flavor: Flavor, root: &Path) -> Result<Self, SourceError> {
        let folders = library_folders(root);
        let loader = folders.iter().find_map(|folder| find_loader(folder)).ok_or_else(|| {
            SourceError::Incomplete { what: "the dynamic loader (ld-linux)", path: root.to_path_buf() }
        })?;
        let library_path =
            folders.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>().join(":");
        let launch = Launch::Unpacked { root: root.to_path_buf(), loader, library_path };
        Self::probe(flavor, Origin::Unpacked, launch)
    }

    /// A server program of the machine.
    pub(super) fn native(flavor: Flavor, origin: Origin, binary: &Path) -> Result<Self, SourceError> {
        Self::probe(flavor, origin, Launch::Native { binary: binary.to_path_buf() })
    }

    /// Asks the program who it is.
    fn probe(flavor: Flavor, origin: Origin, launch: Launch) -> Result<Self, SourceError> {
        let mut installed = Self { flavor, version: String::new(), origin, launch };
        let mut ask = installed.command();
        let said = command::run(ask.arg("--version"))?;
        match parse_version(&said) {
            Some((found, version)) if found == flavor => {
                installed.version = version.to_owned();
                Ok(installed)
            }
            Some(_) | None => Err(SourceError::WrongProgram {
                path: installed.binary(),
                wanted: flavor,
                said: said.trim().to_owned(),
            }),
        }
    }

    /// The command that runs the server program, up to and including its first argument, `--no-defaults`.
    ///
    /// For [`Launch::Docker`] there is no such program; the container module builds its own command.
    pub(super) fn command(&self) -> Command {
        match &self.launch {
            Launch::Unpacked { root, loader, library_path } => {
                let usr = root.join("usr");
                let mut command = Command::new(loader);
                command.arg("--library-path").arg(library_path).arg(self.binary()).arg("--no-defaults");
                command.arg(joined("--basedir=", &usr));
                command.arg(joined("--lc-messages-dir=", &usr.join("share/mysql")));
                let plugins = ["lib/mysql/plugin", "lib64/mysql/plugin"];
                if let Some(folder) = plugins.iter().map(|name| usr.join(name)).find(|path| path.is_dir()) {
                    command.arg(joined("--plugin-dir=", &folder));
                }
                command
            }
            Launch::Native { binary } => {
                let mut command = Command::new(binary);
                command.arg("--no-defaults");
                command
            }
            Launch::Docker { image } => {
                let mut command = Command::new("docker");
                command.args(["run", "--rm", image, "--no-defaults"]);
                command
            }
        }
    }

    /// Folders that may hold the SQL files a MariaDB data directory is made from.
    pub(super) fn share_folders(&self) -> Vec<PathBuf> {
        let prefix = match &self.launch {
            Launch::Unpacked { root, .. } => root.join("usr"),
            Launch::Native { binary } => {
                let real = binary.canonicalize().unwrap_or_else(|_| binary.clone());
                real.ancestors().nth(2).unwrap_or(Path::new("/usr")).to_path_buf()
            }
            Launch::Docker { .. } => return Vec::new(),
        };
        ["share/mysql", "share/mariadb", "share"].iter().map(|name| prefix.join(name)).collect()
    }

    fn binary(&self) -> PathBuf {
        match &self.launch {
            Launch::Unpacked { root, .. } => root.join("usr/sbin").join(self.flavor.daemon()),
            Launch::Native { binary } => binary.clone(),
            Launch::Docker { image } => PathBuf::from(image),
        }
    }
}

/// `--name=` followed by a path, without going through text.
pub(super) fn joined(name: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(name);
    argument.push(path);
    argument
}

/// The folders of an unpacked root that hold shared libraries, whatever the architecture's name.
pub(super) fn library_folders(root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for parent in ["usr/lib", "lib"] {
        let Ok(entries) = fs::read_dir(root.join(parent)) else { continue };
        let found = entries.filter_map(|entry| Some(entry.ok()?.path()));
        folders.extend(found.filter(|path| path.is_dir() && path.to_string_lossy().contains("-linux-")));
    }
    folders.push(root.join("usr/lib/mysql/private"));
    folders.retain(|folder| folder.is_dir());
    folders
}

pub(super) fn find_loader(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux")) && path.is_file()
    })
}

/// Takes `mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))` apart.
fn parse_version(said: &str) -> Option<(Flavor, &str)> {
    let version = said.split("Ver ").nth(1)?.split_whitespace().next()?;
    let flavor = if said.contains("MariaDB") { Flavor::MariaDb } else { Flavor::MySql };
    Some((flavor, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_lines_of_both() {
        let mysql = "/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n";
        assert_eq!(parse_version(mysql), Some((Flavor::MySql, "9.7.4-2")));
        let maria = "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)";
        assert_eq!(parse_version(maria), Some((Flavor::MariaDb, "10.11.19-MariaDB-0+deb12u1")));
        assert_eq!(parse_version("GNU bash, version 5"), None);
    }

    #[test]
    fn a_binary_of_another_kind_is_refused_with_what_it_said() {
        let error = Installed::native(Flavor::MySql, Origin::Override, Path::new("/bin/echo")).unwrap_err();
        assert!(matches!(error, SourceError::WrongProgram { .. }), "{error}");
    }
}
