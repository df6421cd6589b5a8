//! What the core needs from the outside, as traits that the core owns.
//!
//! Every port has a fake and a conformance suite in `flow-testkit`; the fake and every real adapter pass the same
//! suite. No trait here names a technology.

mod business;
mod clock;
mod entry;
mod inbox;
mod outbox;
mod recon;
mod store;
mod wake;
mod wallet;

pub use business::{Business, Execution};
pub use clock::{Clock, Jitter, SystemClock, SystemJitter};
pub use entry::{Entered, EntryLock, EntryTicket, OpenEntrance};
pub use inbox::{Inbox, InboxChange, InboxEvent, InboxPage, InboxState, InboxSummary, InboxWrite, Recorded};
pub use outbox::{
    ClaimPage, Claimed, DeliveryAttempt, NotifiedCaller, Outbox, OutboxFilter, OutboxPage, OutboxRow,
    OutboxSummary, Receiver, Resent, Settled, Settlement,
};
pub use recon::{
    Batch, BatchBill, BatchClaim, BatchPage, Carry, CarryKey, CarrySide, ClaimPart, EndedFlowsPage,
    EntryKind, NewTicket, OpenFlowsPage, Opened, PartClaimed, PartEnd, ReconFlow, ReconStore, TicketFilter,
    TicketPage, TicketRecords, TicketSummary, TicketWrite, TrailLine,
};
pub use store::{
    Bound, CasOutcome, CasWrite, Change, Created, DueFlow, FlowEvent, FlowFilter, FlowPage, FlowStore,
    KeyBinding, Lookup, NewFlow, PartitionLease, RequestRecord, ScanPage, Seen, StateSummary, StoreError,
    WriteEvidence,
};
pub use wake::{Awaken, Awoken, WakeError, WakeQueue, WakeUp};
pub use wallet::{ChargeOrder, RefundOrder, Wallet};
