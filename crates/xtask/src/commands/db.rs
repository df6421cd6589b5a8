//! `cargo xtask db`: a private server to try things on.

use std::path::PathBuf;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use xtask::db::{Flavor, Server, ServerOptions, provide, provide_reference};
use xtask::progress::{Phase, warn_loudly};

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which server [default: mysql, or mariadb with a warning where MySQL can't be had].
    #[arg(long)]
    flavor: Option<Flavor>,
    /// The port on 127.0.0.1 [default: a free one].
    #[arg(long)]
    port: Option<u16>,
    /// Keep the data in this folder, and take it up again from there [default: gone with the server].
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// More server arguments, after `--`.
    #[arg(last = true)]
    server_args: Vec<String>,
}

/// Starts the server and holds it until Ctrl-C or SIGTERM.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let chosen = arguments.flavor;
    let installed = tokio::task::spawn_blocking(move || match chosen {
        Some(flavor) => provide(flavor),
        None => provide_reference().map(|provided| {
            if let Some(reason) = provided.instead_of_reference {
                warn_loudly(&format!("The reference MySQL cannot be had; this is MariaDB.\n{reason}"));
            }
            provided.installed
        }),
    })
    .await??;

    let mut server = Server::start(ServerOptions {
        port: arguments.port,
        data_dir: arguments.data_dir,
        extra_args: arguments.server_args,
        ..ServerOptions::with_installed(installed)
    })
    .await?;

    // Only now: until here a signal ends this process as usual, and the server's guard the server.
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    println!("{}", server.root_url());
    eprintln!("root has no password; the server listens on 127.0.0.1 only. Ctrl-C stops it.");
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    let phase = Phase::start("stopping the server");
    server.stop().await?;
    phase.done();
    Ok(())
}
