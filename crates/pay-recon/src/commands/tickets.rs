//! `pay-recon tickets`: what people do about differences, on the command line.

use clap::Subcommand;
use flow_config::Config;
use flow_core::ids::{Actor, ChannelName, OrderRef, TicketId};
use flow_core::ports::{CasOutcome, ReconStore, StoreError, TicketFilter, TicketRecords, TicketWrite};
use flow_core::recon::{FindingKind, Ticket, TicketAction, TicketRefusal, TicketState, by_person};
use pay_recon::report::ticket_json;
use pay_runtime::shutdown::Exit;

use super::{failed, parts_once};

/// How often a ticket that others write, too, is tried.
const MAX_TRIES: u32 = 8;
/// Lines of a trail that are shown.
const TRAIL_LINES: u32 = 1_000;

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show tickets, newest first.
    List {
        /// Only of this channel.
        #[arg(long)]
        channel: Option<ChannelName>,
        /// Only in this state: OPEN, ASSIGNED, AUTO_FIXED, RESOLVED, IGNORED.
        #[arg(long, value_parser = state)]
        state: Option<TicketState>,
        /// Only with this kind of difference.
        #[arg(long, value_parser = kind)]
        kind: Option<FindingKind>,
        /// Only of this order.
        #[arg(long)]
        order_no: Option<OrderRef>,
        /// Those that are closed, too.
        #[arg(long)]
        all: bool,
        /// Most tickets.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one ticket with both records and its trail.
    Show {
        /// Which.
        id: TicketId,
    },
    /// Give a ticket to a person.
    Assign {
        /// Which.
        id: TicketId,
        /// To whom.
        #[arg(long)]
        to: Actor,
        /// Who does.
        #[arg(long)]
        by: Actor,
    },
    /// Settle a ticket; what moves money waits for a second person.
    Resolve {
        /// Which.
        id: TicketId,
        /// How it was settled.
        #[arg(long)]
        reason: String,
        /// Who does.
        #[arg(long)]
        by: Actor,
    },
    /// Leave a ticket; what moves money waits for a second person.
    Ignore {
        /// Which.
        id: TicketId,
        /// Why it does not matter.
        #[arg(long)]
        reason: String,
        /// Who does.
        #[arg(long)]
        by: Actor,
    },
    /// Confirm what another person proposed.
    Confirm {
        /// Which.
        id: TicketId,
        /// Who does.
        #[arg(long)]
        by: Actor,
    },
}

fn state(text: &str) -> Result<TicketState, String> {
    TicketState::parse(text).ok_or_else(|| "there is no such state".to_owned())
}

fn kind(text: &str) -> Result<FindingKind, String> {
    FindingKind::parse(text).ok_or_else(|| "there is no such kind of difference".to_owned())
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum NotDone {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Refused(#[from] TicketRefusal),
    #[error("there is no ticket {0}")]
    NotFound(TicketId),
    #[error("others kept writing the ticket; nothing was done; try again")]
    Busy,
}

/// Shows or does it.
pub(crate) async fn run(config: Config, arguments: Arguments) -> Exit {
    let (parts, _stop) = match parts_once(&config).await {
        Ok(parts) => parts,
        Err(exit) => return exit,
    };
    let done = carry_out(&*parts.recon, arguments.command).await;
    parts.close(config.recon.shutdown_drain_ms).await;
    match done {
        Ok(()) => Exit::Done,
        Err(error) => failed("not done", &error),
    }
}

async fn carry_out(store: &dyn ReconStore, command: Command) -> Result<(), NotDone> {
    match command {
        Command::List { channel, state, kind, order_no, all, limit } => {
            let open = (!all && state.is_none()).then_some(true);
            let filter = TicketFilter { channel, state, kind, order_no, open, ..TicketFilter::default() };
            let page = store.find_tickets(&filter, None, limit).await?;
            page.tickets.iter().for_each(line);
            Ok(())
        }
        Command::Show { id } => show(store, id).await,
        Command::Assign { id, to, by } => act(store, id, TicketAction::Assign { to }, &by).await,
        Command::Resolve { id, reason, by } => act(store, id, TicketAction::Resolve { reason }, &by).await,
        Command::Ignore { id, reason, by } => act(store, id, TicketAction::Ignore { reason }, &by).await,
        Command::Confirm { id, by } => act(store, id, TicketAction::Confirm, &by).await,
    }
}

async fn load(store: &dyn ReconStore, id: TicketId) -> Result<Ticket, NotDone> {
    let filter = TicketFilter { id: Some(id), ..TicketFilter::default() };
    let page = store.find_tickets(&filter, None, 1).await?;
    page.tickets.into_iter().next().ok_or(NotDone::NotFound(id))
}

async fn act(store: &dyn ReconStore, id: TicketId, action: TicketAction, by: &Actor) -> Result<(), NotDone> {
    for _ in 0..MAX_TRIES {
        let ticket = load(store, id).await?;
        let next = by_person(&ticket, action.clone(), by)?;
        let write = TicketWrite {
            id,
            version: ticket.version,
            next,
            flow_id: None,
            records: TicketRecords::default(),
            actor: by.clone(),
        };
        if store.write_ticket(&write).await? == CasOutcome::Applied {
            line(&load(store, id).await?);
            return Ok(());
        }
    }
    Err(NotDone::Busy)
}

#[allow(clippy::print_stdout, reason = "the answer to the command")]
fn line(ticket: &Ticket) {
    let kinds: Vec<&str> = ticket.findings.iter().map(|finding| finding.kind.as_str()).collect();
    let stake = ticket.stake().map(|stake| format!("{} {}", stake.amount_minor, stake.currency));
    let waits = ticket.proposal.as_ref().filter(|_| ticket.state.is_open());
    let waits = waits.map(|proposal| format!("{} proposed by {}", proposal.state.as_str(), proposal.by));
    println!(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}",
        ticket.id,
        ticket.state.as_str(),
        ticket.channel,
        ticket.order_no,
        stake.unwrap_or_default(),
        kinds.join(","),
        waits.unwrap_or_default()
    );
}

#[allow(clippy::print_stdout, reason = "the answer to the command")]
async fn show(store: &dyn ReconStore, id: TicketId) -> Result<(), NotDone> {
    println!("{:#}", ticket_json(&load(store, id).await?));
    for entry in store.ticket_trail(id, None, TRAIL_LINES).await? {
        println!(
            "{}\t{}\t{}\t{}\t{}\t{}",
            entry.at.to_rfc3339(),
            entry.kind,
            entry.actor,
            entry.to.as_str(),
            entry.kinds,
            entry.note.unwrap_or_default()
        );
    }
    Ok(())
}
