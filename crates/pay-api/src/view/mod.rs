//! What clients and people on call are shown.

mod event;
mod flow;

pub use event::{EventPage, EventView};
pub use flow::{FlowList, FlowView, Polling, rests};
