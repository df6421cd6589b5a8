//! The simulator as a process: flags, logging, signals.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use pay_sim::http::{Options, start};
use pay_sim::sim::Durability;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// A simulated wallet and business system with scripted faults. Not for production.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// Address of everything: both contracts and the admin surface. Port 0 takes a free port, printed as JSON.
    #[arg(long, env = "PAY_SIM_LISTEN", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// A further port for the wallet alone, which a `refused` outage really closes.
    #[arg(long, env = "PAY_SIM_WALLET_LISTEN")]
    wallet_listen: Option<SocketAddr>,
    /// A further port for the business system alone, which a `refused` outage really closes.
    #[arg(long, env = "PAY_SIM_BUSINESS_LISTEN")]
    business_listen: Option<SocketAddr>,
    /// Journal file; made when missing, replayed when there.
    #[arg(long, env = "PAY_SIM_JOURNAL", default_value = "pay-sim.journal", conflicts_with = "memory")]
    journal: PathBuf,
    /// Wait for the disk before each answer: survives a power cut too, not only a killed process.
    #[arg(long, conflicts_with = "memory")]
    fsync: bool,
    /// Write nothing: for benchmarks.
    #[arg(long)]
    memory: bool,
    /// What every call waits before anything happens, in milliseconds.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let coloured = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(coloured).with_writer(std::io::stderr).init();
    let mut terminate = signal(SignalKind::terminate()).context("can not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("can not listen for SIGINT")?;

    let durability = if flags.memory {
        Durability::Memory
    } else {
        Durability::File { path: flags.journal, fsync: flags.fsync }
    };
    let running = start(Options {
        listen: flags.listen,
        wallet_listen: flags.wallet_listen,
        business_listen: flags.business_listen,
        durability,
        latency: Duration::from_millis(flags.latency_ms),
    })
    .await?;
    let line = serde_json::json!({
        "listening": running.addr,
        "wallet": running.wallet_addr,
        "business": running.business_addr,
    });
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("can not tell the address on stdout")?;

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
    running.stop().await;
    Ok(())
}
