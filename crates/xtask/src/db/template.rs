//! Initialised, empty data directories: made once per server version, then copied for every new server.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Flavor;
use super::cache::{self, beside, create_dir, remove_dir};
use super::command;
use super::error::SourceError;
use super::installed::{Installed, joined};
use crate::progress::Phase;

/// Raised when templates are made differently, so that older ones are no longer used.
const FORMAT: u32 = 1;

/// The root account, without a password, over TCP from this machine alone: the server listens on 127.0.0.1 only and
/// holds nothing but test data.
const MYSQL_ROOT_ACCOUNT: &str = "\
CREATE USER 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
";

/// Fills `data` (which must not exist) with a fresh data directory for `installed`.
pub(super) fn new_data_directory(installed: &Installed, data: &Path) -> Result<(), SourceError> {
    let name = format!("{}-{}-{FORMAT}", installed.flavor.slug(), installed.version);
    let entry = cache::root()?.join("templates").join(name);
    cache::get_or_build(&entry, |staging| {
        let phase = Phase::start(format!("initialising {} {}", installed.flavor, installed.version));
        match installed.flavor {
            Flavor::MySql => initialise_mysql(installed, &staging.join("data"))?,
            Flavor::MariaDb => initialise_mariadb(installed, &staging.join("data"))?,
        }
        phase.done();
        Ok::<(), SourceError>(())
    })?;
    // Never leave a half copy that looks like a data directory.
    let partial = beside(data, ".partial");
    remove_dir(&partial)?;
    copy(&entry.join("data"), &partial)?;
    fs::rename(&partial, data).map_err(SourceError::io("move the data directory to", data))
}

/// The argument a server wants before it runs as root, and only then.
pub(super) fn user_argument() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}

fn initialise_mysql(installed: &Installed, data: &Path) -> Result<(), SourceError> {
    let accounts = beside(data, ".sql");
    fs::write(&accounts, MYSQL_ROOT_ACCOUNT).map_err(SourceError::io("write", &accounts))?;
    let mut command = installed.command();
    command
        .arg(joined("--datadir=", data))
        .arg("--initialize-insecure")
        .arg(joined("--init-file=", &accounts))
        // Small files copy fast; a running server grows its redo log to the size it is configured with.
        .args(["--innodb-redo-log-capacity=16M", "--secure-file-priv=NULL", "--auto-generate-certs=OFF"])
        .args(user_argument());
    command::run(&mut command)?;
    // Holds the server's UUID; without it every copy makes its own.
    let identity = data.join("auto.cnf");
    fs::remove_file(&identity).map_err(SourceError::io("remove", &identity))
}

/// Feeds the system tables to a bootstrapping server. `mariadb-install-db` does the same by way of a shell, a
/// configuration and an installed client.
fn initialise_mariadb(installed: &Installed, data: &Path) -> Result<(), SourceError> {
    create_dir(data)?;
    let mut script = "create database mysql;\nuse mysql;\n".to_owned();
    for part in ["system_tables", "performance_tables", "system_tables_data"] {
        // The last one creates root without a password for 127.0.0.1.
        let file = system_sql(installed, part)?;
        script.push_str(&fs::read_to_string(&file).map_err(SourceError::io("read", &file))?);
    }
    let script_file = beside(data, ".sql");
    fs::write(&script_file, script).map_err(SourceError::io("write", &script_file))?;
    let input = File::open(&script_file).map_err(SourceError::io("open", &script_file))?;
    let mut command = installed.command();
    command
        .arg(joined("--datadir=", data))
        .args(["--bootstrap", "--innodb-log-file-size=8M"])
        .args(user_argument())
        .stdin(Stdio::from(input));
    let output = command.output().map_err(SourceError::io("run", Path::new(command.get_program())))?;
    command::check(&command, output).map(drop)
}

/// One of MariaDB's own SQL files; the prefix changed from `mysql_` to `mariadb_` with version 11.
fn system_sql(installed: &Installed, part: &str) -> Result<PathBuf, SourceError> {
    let folders = installed.share_folders();
    let names = [format!("mysql_{part}.sql"), format!("mariadb_{part}.sql")];
    folders
        .iter()
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|file| file.is_file())
        .ok_or_else(|| SourceError::Incomplete {
            what: "the SQL of the system tables",
            path: folders.first().cloned().unwrap_or_default(),
        })
}

/// Copies a folder, sharing blocks where the file system can.
fn copy(from: &Path, to: &Path) -> Result<(), SourceError> {
    let mut command = Command::new("cp");
    command.arg("-R");
    if cfg!(target_os = "linux") {
        command.arg("--reflink=auto");
    }
    command::run(command.arg(from).arg(to)).map(drop)
}
