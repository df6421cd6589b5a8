//! What makes one world differ from another.

use flow_core::decide::Rules;

use crate::row::Row;
use crate::state::{Attempt, Snapshot};
use crate::time::{Deadline, GRACE_MS, Moment, SETTLE_MARGIN_MS, UNREADABLE_HOLD_MS};

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A caller gives up; its request arrives later, or never. So does an answer that is lost.
    TimedOut,
    /// A request arrives, and arrives again.
    Twice,
    /// A process dies.
    Crash,
    /// A question is not answered.
    ReadLost,
    /// A call is surely not executed: refused for load, breaker open.
    Unavailable,
    /// Wallet or business accept now and carry out later.
    Deferred,
    /// Wallet or business refuse what they would do another time: a refund, an execution.
    Refused,
    /// A connection breaks during a write.
    WriteUnknown,
    /// The wallet charges another amount; the business contradicts itself.
    Lie,
    /// Another order takes the benefit.
    Rival,
    /// An operator holds a flow, to release it some time.
    Hold,
}

/// Whether a wallet can bar an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// It can.
    Offered,
    /// It cannot, and the configuration says so.
    NotOffered,
    /// It cannot, and the configuration says it can.
    PromisedOnly,
}

/// A small world.
#[derive(Debug, Clone)]
pub struct World {
    /// On command lines and in tables.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// How many processes advance flows at the same time.
    pub processes: usize,
    /// How many clients ask for payments of the target. Without any, the first attempt is there from the start.
    pub clients: usize,
    /// How often they ask, together; with an attempt there from the start: how often for a second one.
    pub requests: u8,
    /// Whether the first attempt is there from the start.
    pub first_exists: bool,
    /// Whether somebody may cancel, once, at any time.
    pub cancel: bool,
    /// How many faults strike at most.
    pub faults: u8,
    /// Of which kinds.
    pub kinds: &'static [Fault],
    /// What the wallet can do.
    pub closing: Closing,
    /// Whether the user's balance may not cover a charge.
    pub poor: bool,
    /// Whether the business refuses every execution.
    pub failing: bool,
    /// The deadline of a second attempt.
    pub second: Deadline,
    /// Where time stops.
    pub last: Moment,
    /// How many refused refunds lead to a hold.
    pub refund_tries: u32,
}

impl World {
    /// One attempt, two processes, a wallet that can close, nothing that goes wrong.
    pub const CALM: World = World {
        name: "calm",
        about: "two processes, nothing goes wrong",
        processes: 2,
        clients: 0,
        requests: 0,
        first_exists: true,
        cancel: false,
        faults: 0,
        kinds: &[],
        closing: Closing::Offered,
        poor: false,
        failing: false,
        second: Deadline::First,
        last: Moment::Settled,
        refund_tries: 2,
    };

    /// Whether this may happen now.
    pub fn may(&self, state: &Snapshot, fault: Fault) -> bool {
        state.faults_left > 0 && self.kinds.contains(&fault)
    }

    /// The deadline of an attempt.
    pub const fn deadline(&self, attempt: Attempt) -> Deadline {
        match attempt {
            Attempt::First => Deadline::First,
            Attempt::Second => self.second,
        }
    }

    /// What the decisions go by.
    pub fn rules(&self) -> Rules {
        Rules {
            wallet_can_close: match self.closing {
                Closing::Offered | Closing::PromisedOnly => true,
                Closing::NotOffered => false,
            },
            wallet_in_flight_grace_ms: GRACE_MS,
            settle_margin_ms: SETTLE_MARGIN_MS,
            business_unreadable_hold_ms: UNREADABLE_HOLD_MS,
            refund_tries_before_hold: self.refund_tries,
        }
    }

    /// How it begins.
    pub fn start(&self) -> Snapshot {
        let mut state = Snapshot::quiet(self.processes, self.clients);
        state.rows[0] = self.first_exists.then_some(Row::FRESH);
        state.faults_left = self.faults;
        state.requests_left = self.requests;
        state.cancel_left = self.cancel;
        state
    }
}
