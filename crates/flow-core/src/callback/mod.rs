//! Callbacks: what a channel says of its own accord. An event is kept before it is answered, then the flow it names is
//! advanced like by any other entrance: the wallet's own record is asked, and it alone decides. The event's payload is
//! held against the row afterwards, and moves nothing.
//!
//! [`event`] and [`verdict`] are pure; [`process`] knows ports and `advance`.

mod event;
mod process;
mod verdict;

pub use event::{Claim, EventKey, EventType, NewEvent, Statement};
pub use process::{CallbackSettings, Callbacks, Came};
pub use verdict::{Contradiction, Verdict, judge};
