//! `cargo xtask sqlx`: the committed metadata (`.sqlx`) from which `query!` is checked without a database.
//!
//! sqlx's macros write one file per query when they expand against a live server, so: a MySQL with the migrations
//! applied, every crate that uses sqlx compiled anew, and what was written compared with what is committed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use sqlx::Connection as _;
use sqlx::migrate::Migrator;
use xtask::db::{Flavor, Server, ServerOptions};

use crate::cargo;

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail if .sqlx is not what the code and the migrations ask for.
    #[arg(long)]
    check: bool,
}

/// The metadata names the schema it was made in; always the same, so that it changes only when a query does.
const SCHEMA: &str = "query_metadata";

/// File name to content.
type Metadata = BTreeMap<String, String>;

/// Regenerates or checks.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let root = xtask::workspace_root();
    let committed = root.join(".sqlx");
    let fresh = regenerate(&root).await?;
    let difference = difference(&read_metadata(&committed)?, &fresh);
    if difference.is_empty() {
        eprintln!("✓ .sqlx is up to date ({} queries)", fresh.len());
        return Ok(());
    }
    for line in &difference {
        eprintln!("  {line}");
    }
    anyhow::ensure!(!arguments.check, ".sqlx is out of date; run `cargo xtask sqlx` and commit the result");
    write_metadata(&committed, &fresh)?;
    eprintln!("✓ .sqlx rewritten ({} queries); commit it", fresh.len());
    Ok(())
}

/// The metadata of every query in the workspace, from a server with the migrations applied.
async fn regenerate(root: &Path) -> anyhow::Result<Metadata> {
    let mut server = Server::start(ServerOptions::new(Flavor::MySql)).await?;
    let url = server.create_schema(SCHEMA).await?;
    migrate(&url, &root.join("migrations")).await?;

    let staging = xtask::target_dir().join("sqlx-metadata");
    if staging.is_dir() {
        fs::remove_dir_all(&staging).context("could not empty the staging folder of the query metadata")?;
    }
    fs::create_dir_all(&staging).context("could not create the staging folder of the query metadata")?;
    touch_crate_roots().await?;
    let mut check = cargo::command(&["check", "--workspace", "--all-targets"]);
    check.env("DATABASE_URL", &url).env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", &staging);
    cargo::run("cargo check --workspace --all-targets (expanding queries against MySQL)", &mut check).await?;
    server.stop().await?;
    read_metadata(&staging)
}

/// Applies the migrations from their folder. Not through `flow-core`, which need not compile at this point.
async fn migrate(url: &str, folder: &Path) -> anyhow::Result<()> {
    let migrator =
        Migrator::new(folder).await.with_context(|| format!("could not read {}", folder.display()))?;
    let mut connection = sqlx::MySqlConnection::connect(url).await?;
    migrator.run(&mut connection).await.context("a migration failed on an empty schema")?;
    connection.close().await?;
    Ok(())
}

#[derive(Deserialize)]
struct Workspace {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

/// Makes cargo compile every target that may hold a query anew: a macro that is not expanded writes nothing.
async fn touch_crate_roots() -> anyhow::Result<()> {
    let mut command = cargo::command(&["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.output().await.context("could not run cargo metadata")?;
    anyhow::ensure!(output.status.success(), "cargo metadata failed ({})", output.status);
    let workspace: Workspace =
        serde_json::from_slice(&output.stdout).context("cargo metadata answered something else")?;
    let now = now();
    let with_queries = |package: &Package| package.dependencies.iter().any(|found| found.name == "sqlx");
    for target in workspace.packages.into_iter().filter(with_queries).flat_map(|package| package.targets) {
        let touched =
            File::options().append(true).open(&target.src_path).and_then(|file| file.set_modified(now));
        touched.with_context(|| format!("could not touch {}", target.src_path.display()))?;
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a file's modification time, for cargo")]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

fn read_metadata(folder: &Path) -> anyhow::Result<Metadata> {
    let mut metadata = Metadata::new();
    if !folder.is_dir() {
        return Ok(metadata);
    }
    let context = || format!("could not read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_query_file(&name) {
            metadata.insert(name, fs::read_to_string(&path).with_context(context)?);
        }
    }
    Ok(metadata)
}

fn write_metadata(folder: &Path, fresh: &Metadata) -> anyhow::Result<()> {
    let context = || format!("could not write {}", folder.display());
    fs::create_dir_all(folder).with_context(context)?;
    for stale in read_metadata(folder)?.keys().filter(|name| !fresh.contains_key(*name)) {
        fs::remove_file(folder.join(stale)).with_context(context)?;
    }
    for (name, content) in fresh {
        fs::write(folder.join(name), content).with_context(context)?;
    }
    Ok(())
}

fn is_query_file(name: &str) -> bool {
    name.starts_with("query-") && name.ends_with(".json")
}

/// One line per file that is not as it should be.
fn difference(committed: &Metadata, fresh: &Metadata) -> Vec<String> {
    let query = |content: &str| {
        let parsed: Option<serde_json::Value> = serde_json::from_str(content).ok();
        let sql = parsed.as_ref().and_then(|value| value.get("query")?.as_str()).unwrap_or("unreadable");
        let words: Vec<&str> = sql.split_whitespace().take(12).collect();
        words.join(" ")
    };
    let gone = committed.iter().filter(|(name, _)| !fresh.contains_key(*name));
    let mut lines: Vec<String> =
        gone.map(|(_, content)| format!("no longer used: {} …", query(content))).collect();
    for (name, content) in fresh {
        match committed.get(name) {
            Some(old) if old == content => {}
            Some(_) => lines.push(format!("changed: {} …", query(content))),
            None => lines.push(format!("missing: {} …", query(content))),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(files: &[(&str, &str)]) -> Metadata {
        let named = |(name, query): &(&str, &str)| {
            (format!("query-{name}.json"), format!(r#"{{"query": "{query}"}}"#))
        };
        files.iter().map(named).collect()
    }

    #[test]
    fn differences_name_the_query() {
        let committed = metadata(&[("a", "SELECT 1"), ("b", "SELECT 2"), ("c", "SELECT 3")]);
        let fresh = metadata(&[("b", "SELECT 2"), ("c", "SELECT 33"), ("d", "SELECT 4")]);
        assert_eq!(
            difference(&committed, &fresh),
            ["no longer used: SELECT 1 …", "changed: SELECT 33 …", "missing: SELECT 4 …"]
        );
        assert!(difference(&fresh, &fresh).is_empty());
    }

    #[test]
    fn writing_removes_what_is_stale_and_leaves_other_files() {
        let folder = tempfile::tempdir().unwrap();
        write_metadata(folder.path(), &metadata(&[("a", "SELECT 1")])).unwrap();
        fs::write(folder.path().join("README"), "kept").unwrap();
        let fresh = metadata(&[("b", "SELECT 2")]);
        write_metadata(folder.path(), &fresh).unwrap();
        assert_eq!(read_metadata(folder.path()).unwrap(), fresh);
        assert!(folder.path().join("README").is_file());
    }
}
