//! What somebody sees who looks at a run at every step: the raw rows and the raw books of both systems, without the
//! judgement of [`crate::watch`].

use std::sync::{Mutex, PoisonError};

use flow_core::flow::Flow;
use flow_core::ids::FlowId;
use flow_testkit::fakes::FakeWorld;
use pay_sim::ledger::OrderLedger;

use crate::site::Site;

/// Orders read from the books at once; more than any run makes.
pub(crate) const ALL_ORDERS: usize = 10_000;

/// What has just happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A process has read this row: one of the entrances came upon it.
    Read(FlowId),
    /// Somebody tried to write this row, with or without success.
    Written(FlowId),
    /// This row was inserted.
    Created(FlowId),
    /// Something happened at the wallet or at the business system: a message arrived, or what they had put off was done.
    Arrived,
}

/// Everything, right after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Virtual time since the start, in milliseconds.
    pub at_ms: u64,
    /// What has just happened.
    pub step: Step,
    /// Every row, by id.
    pub rows: Vec<Flow>,
    /// The wallet's books, every order that it ever heard of.
    pub wallet: Vec<OrderLedger>,
    /// The business system's books, the same.
    pub business: Vec<OrderLedger>,
}

/// Looks at a moment, and says what is wrong with it.
pub type Onlooker = dyn FnMut(&Moment) -> Result<(), String> + Send;

/// The onlooker of a run, if there is one.
pub(crate) struct Seat(Option<Mutex<Box<Onlooker>>>);

impl Seat {
    pub(crate) fn of(onlooker: Option<Box<Onlooker>>) -> Seat {
        Seat(onlooker.map(Mutex::new))
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.0.is_some()
    }
}

impl Site {
    /// Shows the world to the onlooker. The run ends at the first objection.
    pub(crate) fn show(&self, step: Step) {
        let Some(onlooker) = self.onlooker.0.as_ref().filter(|_| !self.is_broken()) else { return };
        let books = |books: &FakeWorld| books.with(|world, _| world.ledgers_after(None, ALL_ORDERS));
        let moment = Moment {
            at_ms: self.time.now_ms(),
            step,
            rows: self.store.flows(),
            wallet: books(&self.wallet),
            business: books(&self.business),
        };
        let verdict = onlooker.lock().unwrap_or_else(PoisonError::into_inner)(&moment);
        if let Err(objection) = verdict {
            self.end_with(objection);
        }
    }
}
