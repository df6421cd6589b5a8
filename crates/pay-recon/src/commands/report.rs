//! `pay-recon report`: a day's page, table or JSON, on standard output.

use chrono::NaiveDate;
use clap::ValueEnum;
use flow_config::Config;
use flow_core::ids::ChannelName;
use flow_core::ports::{Batch, ReconStore, StoreError, TicketFilter};
use flow_core::recon::{BatchState, Ticket};
use pay_recon::report::{as_csv, as_html, as_json};
use pay_runtime::shutdown::Exit;

use super::{failed, parts_once};

/// Tickets read at once, and most of them in a report.
const PAGE_ROWS: u32 = 500;
const MOST_TICKETS: usize = 100_000;

/// How a report is written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A page for people.
    Html,
    /// A table of tickets.
    Csv,
    /// Everything.
    Json,
}

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The channel.
    #[arg(long)]
    channel: ChannelName,
    /// The business day.
    #[arg(long)]
    date: NaiveDate,
    /// How it is written.
    #[arg(long, value_enum, default_value = "html")]
    format: Format,
}

/// Writes the report.
pub(crate) async fn run(config: Config, arguments: Arguments) -> Exit {
    let (parts, _stop) = match parts_once(&config).await {
        Ok(parts) => parts,
        Err(exit) => return exit,
    };
    let read = read(&*parts.recon, &arguments.channel, arguments.date).await;
    parts.close(config.recon.shutdown_drain_ms).await;
    match read {
        Err(error) => failed("the report could not be read", &error),
        Ok(None) => {
            tracing::error!(channel = %arguments.channel, day = %arguments.date, "there is no batch of this day");
            Exit::Failed
        }
        Ok(Some((batch, tickets))) => {
            let text = match arguments.format {
                Format::Html => as_html(&batch, &tickets),
                Format::Csv => as_csv(&tickets),
                Format::Json => format!("{:#}\n", as_json(&batch, &tickets)),
            };
            print(&text);
            if batch.state == BatchState::Done && batch.tally.is_clean() {
                Exit::Done
            } else {
                Exit::Differences
            }
        }
    }
}

#[allow(clippy::print_stdout, reason = "the answer to the command")]
fn print(text: &str) {
    print!("{text}");
}

/// The batch, and the channel's tickets that have a difference of the day.
async fn read(
    store: &dyn ReconStore,
    channel: &ChannelName,
    day: NaiveDate,
) -> Result<Option<(Batch, Vec<Ticket>)>, StoreError> {
    let Some(batch) = store.batch(channel, day).await? else { return Ok(None) };
    let filter = TicketFilter { channel: Some(channel.clone()), ..TicketFilter::default() };
    let (mut tickets, mut before) = (Vec::new(), None);
    loop {
        let page = store.find_tickets(&filter, before, PAGE_ROWS).await?;
        before = page.tickets.last().map(|ticket| ticket.id);
        let of_day = |ticket: &Ticket| ticket.findings.iter().any(|finding| finding.day == day);
        tickets.extend(page.tickets.into_iter().filter(of_day));
        if !page.has_more || tickets.len() >= MOST_TICKETS {
            return Ok(Some((batch, tickets)));
        }
    }
}
