//! What clients and people on call are shown.

mod event;
mod flow;
mod notification;
mod ticket;

pub use event::{EventPage, EventView};
pub use flow::{FlowList, FlowView, Polling, rests};
pub use notification::{AttemptPage, AttemptView, NotificationList, NotificationView};
pub use ticket::{FindingView, ProposalView, TicketList, TicketView, TrailLineView, TrailPage};
