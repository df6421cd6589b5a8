//! `pay-recon run`: one day by hand, with a progress bar and a verdict.

use std::path::PathBuf;

use chrono::NaiveDate;
use flow_config::Config;
use flow_core::ids::ChannelName;
use flow_core::recon::{FindingKind, Partition};
use indicatif::{ProgressBar, ProgressStyle};
use pay_recon::run::{Phase, Progress, RunReport, Task};
use pay_runtime::shutdown::Exit;

use super::{bill, bill_path, channel, failed, parts_once, runner};

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The channel, as [recon.channels] names it.
    #[arg(long)]
    channel: ChannelName,
    /// The business day, e.g. 2026-01-31.
    #[arg(long)]
    date: NaiveDate,
    /// The day's bill; without it, the file that the configuration names.
    #[arg(long, value_name = "FILE")]
    bill: Option<PathBuf>,
    /// Write nothing, wake and hold nothing: only say what differs.
    #[arg(long)]
    dry_run: bool,
    /// Only the orders of part i of n; all parts together make the batch.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    partition: Partition,
}

/// Compares, and says what came of it on standard output.
pub(crate) async fn run(config: Config, arguments: Arguments) -> Exit {
    let Some(of_channel) = config.recon.channels.get(&arguments.channel) else {
        tracing::error!(channel = %arguments.channel, "there is no such section under [recon.channels]; nothing was done");
        return Exit::BadConfig;
    };
    let path = arguments.bill.unwrap_or_else(|| bill_path(of_channel, arguments.date));
    let bill = match bill(&config, &arguments.channel, of_channel, arguments.date, &path).await {
        Ok(bill) => bill,
        Err(error) => return failed(&format!("the bill {} cannot be read or kept", path.display()), &error),
    };
    let (parts, stop) = match parts_once(&config).await {
        Ok(parts) => parts,
        Err(exit) => return exit,
    };
    let task = Task { day: arguments.date, partition: arguments.partition, is_dry: arguments.dry_run };
    let bar = Bar::new();
    let outcome = match runner(&config, &parts) {
        Ok(runner) => runner.run(&channel(&arguments.channel, of_channel), task, bill, &bar, &stop).await,
        Err(exit) => return exit,
    };
    bar.0.finish_and_clear();
    parts.close(config.recon.shutdown_drain_ms).await;
    match outcome {
        Ok(report) => {
            say(&report);
            if report.is_clean() { Exit::Done } else { Exit::Differences }
        }
        Err(error) => failed("the day was not compared", &error),
    }
}

#[allow(clippy::print_stdout, reason = "the answer to the command")]
fn say(report: &RunReport) {
    let tally = &report.tally;
    match &report.batch {
        Some(batch) => println!("batch {batch}"),
        None => println!("dry run: nothing was written"),
    }
    println!(
        "bill: {} payments, {} refunds, {} rows not readable; here: {} flows; {} orders compared",
        tally.bill_payment_rows,
        tally.bill_refund_rows,
        tally.quarantined_rows,
        tally.local_rows,
        tally.orders
    );
    for (currency, sums) in &tally.sums {
        println!(
            "{currency}: paid {} by the bill, {} here; refunded {} by the bill, {} here",
            sums.bill_paid_minor, sums.local_paid_minor, sums.bill_refunded_minor, sums.local_refunded_minor
        );
    }
    for kind in FindingKind::ALL {
        if let Some(count) = tally.by_kind.get(kind.as_str()) {
            println!("{count:>8} {}", kind.as_str());
        }
    }
    for row in &report.quarantined {
        println!("line {}: {}", row.line, row.reason);
    }
    println!(
        "{} orders differ; {} entries wait for a neighbouring day; tickets: {} opened, {} changed, {} reopened, {} gone; \
         flows: {} woken, {} held",
        tally.differing_orders,
        tally.waiting_entries,
        tally.tickets.opened,
        tally.tickets.changed,
        tally.tickets.reopened,
        tally.tickets.gone,
        tally.woken_flows,
        tally.held_flows
    );
}

/// The bar; nothing is drawn where there is no terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{msg:8} {wide_bar} {pos}/{len} {per_sec} {elapsed}")
        {
            bar.set_style(style);
        }
        Bar(bar)
    }
}

impl Progress for Bar {
    fn phase(&self, phase: Phase) {
        self.0.set_position(0);
        match phase {
            Phase::Reading => self.0.set_message("reading"),
            Phase::Orders { records } => {
                self.0.set_message("orders");
                self.0.set_length(records);
            }
        }
    }

    fn step(&self, records: u64) {
        self.0.inc(records);
    }
}
