//! Fetches a server package with all it depends on and unpacks it into a folder, through an apt state of its own: the
//! machine's package lists, cache and installed packages are neither read (beyond the source entries) nor written, and
//! no special rights are needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::apt_sources::{self, Source};
use super::cache::{create_dir, remove_dir};
use super::command;
use super::error::SourceError;
use crate::progress::Phase;

/// How often the size of a running download is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Which package lists to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// Debian's `sid`, at the archive the machine already uses.
    Sid,
    /// Whatever the machine's own apt sources offer.
    OwnRelease,
}

/// Fetches `package` from `suite` and unpacks it with its dependencies into `target`, an empty folder.
pub(super) fn unpack(suite: Suite, package: &str, target: &Path) -> Result<(), SourceError> {
    for program in ["apt-get", "dpkg-deb"] {
        if command::on_path(program).is_none() {
            return Err(SourceError::NotDebianLike { program });
        }
    }
    let state = PrivateApt::create(target.join("apt"), suite)?;

    let phase = Phase::start(format!("reading package lists for {package}"));
    let updated = state.apt_get(&["update"], &phase);
    // With the machine's own sources one unreachable third party must not matter: the install decides.
    if suite == Suite::Sid {
        updated?;
    }
    phase.done();

    let phase = Phase::start(format!("fetching {package}"));
    state.apt_get(&["install", "--download-only", "-y", "--no-install-recommends", package], &phase)?;
    phase.done();

    let phase = Phase::start(format!("unpacking {package}"));
    for archive in state.archives()? {
        command::run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(target))?;
    }
    remove_dir(&state.root)?;
    phase.done();
    Ok(())
}

/// An apt state directory of our own.
struct PrivateApt {
    root: PathBuf,
    suite: Suite,
}

impl PrivateApt {
    fn create(root: PathBuf, suite: Suite) -> Result<Self, SourceError> {
        for folder in ["state/lists/partial", "cache/archives/partial", "parts", "preferences"] {
            create_dir(&root.join(folder))?;
        }
        write(&root.join("status"), "")?;
        if suite == Suite::Sid {
            write(&root.join("parts/sid.sources"), &sid_stanza()?)?;
        }
        Ok(Self { root, suite })
    }

    fn apt_get(&self, arguments: &[&str], phase: &Phase) -> Result<(), SourceError> {
        let mut command = Command::new("apt-get");
        let mut option = |name: &str, path: &str| {
            command.arg("-o").arg(format!("{name}={}", self.root.join(path).display()));
        };
        option("Dir::State", "state");
        // Empty: nothing counts as installed, so that every dependency down to libc is fetched.
        option("Dir::State::status", "status");
        option("Dir::Cache", "cache");
        if self.suite == Suite::Sid {
            option("Dir::Etc::SourceParts", "parts");
            // The machine's pinning speaks of its own release.
            option("Dir::Etc::PreferencesParts", "preferences");
            command.args(["-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::Preferences=/dev/null"]);
        }
        // The sandbox user could not write into a private folder.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "APT::Keep-Downloaded-Packages=true", "-qq"]);
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        self.run_showing_size(&mut command, phase)
    }

    /// Runs apt and shows how much has arrived.
    fn run_showing_size(&self, command: &mut Command, phase: &Phase) -> Result<(), SourceError> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(SourceError::io("run", Path::new("apt-get")))?;
        // -qq keeps apt's output far below a pipe's capacity, so nothing needs to drain it meanwhile.
        while child.try_wait().map_err(SourceError::io("wait for", Path::new("apt-get")))?.is_none() {
            phase.note(&format!("{} MB", self.size_bytes() / 1_000_000));
            std::thread::sleep(PROGRESS_INTERVAL);
        }
        let output = child.wait_with_output().map_err(SourceError::io("wait for", Path::new("apt-get")))?;
        command::check(command, output).map(drop)
    }

    /// What apt has stored so far.
    fn size_bytes(&self) -> u64 {
        ["state/lists/partial", "state/lists", "cache/archives/partial", "cache/archives"]
            .iter()
            .filter_map(|folder| fs::read_dir(self.root.join(folder)).ok())
            .flat_map(|entries| entries.filter_map(Result::ok))
            .filter_map(|entry| entry.metadata().ok())
            .filter(fs::Metadata::is_file)
            .map(|metadata| metadata.len())
            .sum()
    }

    fn archives(&self) -> Result<Vec<PathBuf>, SourceError> {
        let folder = self.root.join("cache/archives");
        let archives = files_with_extension(&folder, "deb")?;
        if archives.is_empty() {
            return Err(SourceError::Incomplete { what: "every package", path: folder });
        }
        Ok(archives)
    }
}

/// The machine's Debian archive, with `sid` for its suite.
fn sid_stanza() -> Result<String, SourceError> {
    let os_release = read(Path::new("/etc/os-release"))?;
    if apt_sources::os_release_value(&os_release, "ID").as_deref() != Some("debian") {
        return Err(SourceError::NoDebianArchive);
    }
    let codename = apt_sources::os_release_value(&os_release, "VERSION_CODENAME").unwrap_or_default();
    let sources = machine_sources()?;
    let archive = apt_sources::debian_archive(&sources, &codename).ok_or(SourceError::NoDebianArchive)?;
    Ok(apt_sources::sid_stanza(archive))
}

/// Every enabled entry in /etc/apt, in apt's order.
fn machine_sources() -> Result<Vec<Source>, SourceError> {
    let mut sources = Vec::new();
    let list = Path::new("/etc/apt/sources.list");
    if list.is_file() {
        sources.extend(apt_sources::parse_one_line_style(&read(list)?));
    }
    let parts = Path::new("/etc/apt/sources.list.d");
    if parts.is_dir() {
        for file in files_with_extension(parts, "list")? {
            sources.extend(apt_sources::parse_one_line_style(&read(&file)?));
        }
        for file in files_with_extension(parts, "sources")? {
            sources.extend(apt_sources::parse_deb822_style(&read(&file)?));
        }
    }
    Ok(sources)
}

fn files_with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, SourceError> {
    let entries = fs::read_dir(folder).map_err(SourceError::io("list", folder))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String, SourceError> {
    fs::read_to_string(path).map_err(SourceError::io("read", path))
}

fn write(path: &Path, text: &str) -> Result<(), SourceError> {
    fs::write(path, text).map_err(SourceError::io("write", path))
}
