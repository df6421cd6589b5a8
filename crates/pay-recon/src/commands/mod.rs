//! The subcommands, and what they share: the parts of the process, a channel from the configuration, a bill from its file.

pub(crate) mod daemon;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod tickets;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveDate;
use flow_bills::{BillRules, read_bill};
use flow_config::{Config, DATE_MARK, ReconChannelConfig};
use flow_core::ids::{Actor, ChannelName};
use pay_recon::calendar::Calendar;
use pay_recon::evidence;
use pay_recon::order::Rules;
use pay_recon::run::{Bill, Channel, RunSettings, Runner};
use pay_runtime::process::explain;
use pay_runtime::shutdown::{self, Exit};
use pay_runtime::wire::{Parts, Patience, Ready, WakeChoice, wire};
use tokio_util::sync::CancellationToken;

/// Who signs what no person did.
const ACTOR: &str = "pay-recon";

/// No subcommand was given, and no check was asked for.
#[allow(clippy::print_stderr, reason = "the answer to a wrong command line")]
pub(crate) async fn nothing_asked() -> Exit {
    eprintln!("say what to do: run, daemon, tickets or report; --help tells more");
    Exit::Failed
}

fn failed(what: &str, error: &dyn std::error::Error) -> Exit {
    tracing::error!(error = explain(error), "{what}");
    Exit::Failed
}

/// The parts of a process that works once.
async fn parts_once(config: &Config) -> Result<(Parts, CancellationToken), Exit> {
    let stop = shutdown::on_signals().map_err(|error| failed("signals cannot be listened to", &error))?;
    match wire(config, WakeChoice::Nobody, Patience::OneTry, &Ready::default(), &stop).await {
        Ok(parts) => Ok((parts, stop)),
        Err(error) => {
            failed("not started", &error);
            Err(error.exit())
        }
    }
}

fn runner(config: &Config, parts: &Parts) -> Result<Runner, Exit> {
    let recon = &config.recon;
    let settings = RunSettings {
        claim_ms: recon.claim_ms,
        page_rows: recon.page_rows,
        max_parallel_facts: recon.max_parallel_facts,
        max_unreadable_facts: recon.max_unreadable_facts,
        sort_buffer_bytes: recon.sort_buffer_bytes,
        folder: recon.spill_folder.clone(),
        advance_budget_ms: recon.budget_ms,
        actor: Actor::new(ACTOR).map_err(|error| failed("not started", &error))?,
    };
    Ok(Runner::new(Arc::clone(&parts.recon), Arc::clone(&parts.store), Arc::clone(&parts.advancer), settings))
}

fn channel(name: &ChannelName, config: &ReconChannelConfig) -> Channel {
    Channel {
        name: name.clone(),
        wallet: config.wallet.clone(),
        calendar: Calendar::new(config.zone),
        rules: Rules {
            time_gap_limit_ms: config.time_gap_limit_ms,
            compares_users: config.compares_users,
            compares_references: config.compares_references,
        },
        near_midnight_ms: config.near_midnight_ms,
    }
}

/// Where a day's bill lies.
fn bill_path(config: &ReconChannelConfig, day: NaiveDate) -> PathBuf {
    PathBuf::from(config.file.replace(DATE_MARK, &day.to_string()))
}

/// The bill in a file: kept first, then read as it is kept.
async fn bill(
    config: &Config,
    name: &ChannelName,
    channel: &ReconChannelConfig,
    day: NaiveDate,
    path: &Path,
) -> std::io::Result<Bill> {
    let (folder, name, from) = (config.recon.evidence_folder.clone(), name.clone(), path.to_owned());
    let keeping = tokio::task::spawn_blocking(move || evidence::keep(&folder, &name, day, &from));
    let kept = keeping.await.map_err(std::io::Error::other)??;
    tracing::info!(%day, sha256 = kept.sha256, bytes = kept.bytes, kept = %kept.path.display(), "bill kept");
    let rules = BillRules { day: Some(day), ..BillRules::new(channel.zone, channel.exponents.clone()) };
    let format = channel.format.clone();
    let read = move |sink: &mut dyn flow_bills::BillSink| {
        let file = File::open(&kept.path).map_err(flow_bills::BillError::Io)?;
        read_bill(&format, &rules, file, sink)
    };
    Ok(Bill { source: path.display().to_string(), read: Box::new(read) })
}
