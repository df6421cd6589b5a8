//! What reconciliation talks about: kinds of difference, tickets and their life, batches. Pure data and pure rules; how a
//! day is compared is `pay-recon`'s, where this lies in tables is the store's.

mod batch;
mod finding;
mod ticket;

pub use batch::{BatchState, CurrencySums, Day, Partition, PartitionError, Tally, TicketCounts};
pub use finding::{Finding, FindingKind, Remedy, Stake};
pub use ticket::{
    AfterDiff, DiffResult, Next, Proposal, Ticket, TicketAction, TicketRefusal, TicketState, TrailKind,
    after_diff, by_person, needs_second_person,
};
