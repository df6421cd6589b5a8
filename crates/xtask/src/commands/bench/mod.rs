//! `cargo xtask bench`: what the product does on this machine, always beside a reference taken on the same server in the
//! same run. Prints tables and keeps a JSON. Ratios carry over to other machines; absolute figures do not.

mod calls;
mod group_commit;
mod load;
mod memory;
mod recon;
mod scan;
mod statements;
mod throughput;

use anyhow::Context as _;
use xtask::db::{Flavor, Server, ServerOptions};
use xtask::progress::Phase;
use xtask::stack::{Profile, utc_now};

use crate::cargo;

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which database server.
    #[arg(long, value_enum, default_value = "mysql")]
    flavor: Flavor,
    /// Which parts to run.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "throughput,scan,memory,recon")]
    parts: Vec<Part>,
    /// How long each load runs, in seconds.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Terminal rows that the scanner's pages are measured against.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Orders of the two files that are compared, one run per number.
    #[arg(long, value_delimiter = ',', default_value = "1000000,5000000,10000000")]
    orders: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Payments a second through the API, beside the same statements in a bare loop and in shared commits.
    Throughput,
    /// A page of the scanner with millions of terminal rows present.
    Scan,
    /// Memory of each binary at rest and under load.
    Memory,
    /// A bill against our flows, beside DuckDB.
    Recon,
}

/// Runs the chosen parts and writes the JSON.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    cargo::run(
        "cargo build --release --bins",
        cargo::command(cargo::RELEASE_BINARIES).env("SQLX_OFFLINE", "true"),
    )
    .await?;
    if cfg!(debug_assertions) {
        // The load shares the cores with what is measured, so it runs optimised as well.
        let status = tokio::process::Command::new(PROFILE.binary("xtask"))
            .args(std::env::args_os().skip(1))
            .status()
            .await
            .context("can not run the optimised xtask")?;
        anyhow::ensure!(status.success(), "the benchmark failed ({status})");
        return Ok(());
    }
    let mut report = serde_json::Map::new();
    report.insert("at".to_owned(), utc_now().to_rfc3339().into());
    report.insert("flavor".to_owned(), arguments.flavor.slug().into());
    if arguments.parts.contains(&Part::Throughput) || arguments.parts.contains(&Part::Memory) {
        let server = start_server(arguments.flavor, 512).await?;
        let measured = throughput::run(&server, arguments.seconds).await?;
        report.insert("throughput".to_owned(), measured.throughput);
        report.insert("memory".to_owned(), measured.memory);
        stop_server(server).await?;
    }
    if arguments.parts.contains(&Part::Scan) {
        let server = start_server(arguments.flavor, 4_096).await?;
        report.insert("scan".to_owned(), scan::run(&server, arguments.rows).await?);
        stop_server(server).await?;
    }
    if arguments.parts.contains(&Part::Recon) {
        report.insert("recon".to_owned(), recon::run(&arguments.orders).await?);
    }
    let dir = xtask::workspace_root().join("bench-results");
    std::fs::create_dir_all(&dir)?;
    let file = dir.join(format!("{}-{}.json", arguments.flavor.slug(), utc_now().format("%Y%m%dT%H%M%SZ")));
    std::fs::write(&file, serde_json::to_string_pretty(&report)?)
        .with_context(|| format!("can not write {}", file.display()))?;
    println!("\nKept in {}", file.display());
    Ok(())
}

async fn start_server(flavor: Flavor, buffer_pool_mib: u32) -> anyhow::Result<Server> {
    let phase = Phase::start(format!("starting a private {flavor} server"));
    let mut options = ServerOptions::new(flavor);
    options.buffer_pool_mib = buffer_pool_mib;
    let server = Server::start(options).await?;
    phase.done();
    Ok(server)
}

async fn stop_server(mut server: Server) -> anyhow::Result<()> {
    Ok(server.stop().await?)
}

/// The build that is measured.
const PROFILE: Profile = Profile::Release;
