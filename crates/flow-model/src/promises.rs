//! The promises I1 to I9 in one state, judged by the books of wallet and business: a row is a claim, not a proof.

use std::fmt;

use flow_core::state::State;

use crate::model::PaymentModel;
use crate::row::Row;
use crate::state::{Attempt, Books, ChargeRecord, Misstep, Owner, RefundRecord, Snapshot};

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// At most one effective charge, of the flow's amount, and only once the row says so.
    I1,
    /// At most one effective refund.
    I2,
    /// `BIZ_SUCCESS` was charged, is owned, and is never refunded.
    I3,
    /// `REFUNDED` was charged and paid back, and the benefit is not owned, then or later.
    I4,
    /// No charge ends without a benefit or a refund.
    I5,
    /// A terminal row never changes its state.
    I6,
    /// An open row is due some day.
    I7,
    /// One open or successful attempt per target.
    I8,
    /// Every write has its evidence and adds one version.
    I9,
    /// No two processes have evidence for opposite things.
    Agreement,
    /// When nothing goes wrong any more, every row becomes terminal or is held.
    Rest,
}

impl Promise {
    /// Whether it is one of I1 to I9.
    const fn is_numbered(self) -> bool {
        match self {
            Promise::I1
            | Promise::I2
            | Promise::I3
            | Promise::I4
            | Promise::I5
            | Promise::I6
            | Promise::I7
            | Promise::I8
            | Promise::I9 => true,
            Promise::Agreement | Promise::Rest => false,
        }
    }
}

/// What a search looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// I1 to I9 as they stand in the state itself.
    Numbered,
    /// Everything, and how it ends if nothing goes wrong any more.
    Everything,
}

/// A promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub promise: Promise,
    /// What is wrong.
    pub seen: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.seen)
    }
}

/// What really happened for an attempt.
struct Facts {
    charges: usize,
    wrong_amount: bool,
    refunds: usize,
    owned: bool,
    heard_of: bool,
}

impl Facts {
    fn of(books: &Books, owner: Owner, attempt: Attempt) -> Facts {
        let charged = |record: &&ChargeRecord| matches!(record, ChargeRecord::Charged { .. });
        Facts {
            charges: books.charge.iter().filter(charged).count(),
            wrong_amount: books.charge.contains(&ChargeRecord::Charged { wrong: true }),
            refunds: books.refund.iter().filter(|record| **record == RefundRecord::Paid).count(),
            owned: owner == Owner::Attempt(attempt),
            heard_of: books.charge.iter().any(|record| *record != ChargeRecord::None),
        }
    }
}

impl PaymentModel {
    /// The first promise that this state breaks, of those that are looked for.
    pub fn broken_promise(&self, state: &Snapshot) -> Option<Broken> {
        match self.watch {
            Watch::Numbered => self.broken_now(state).filter(|broken| broken.promise.is_numbered()),
            Watch::Everything => self.broken_now(state).or_else(|| self.broken_in_the_calm(state)),
        }
    }

    pub(crate) fn broken_now(&self, state: &Snapshot) -> Option<Broken> {
        if let Some(misstep) = state.misstep {
            return Some(of_misstep(misstep));
        }
        let [first, second] = state.rows;
        let holding = [first, second].into_iter().flatten().filter(|row| !row.state.frees_target()).count();
        require(holding <= 1, Promise::I8, "two attempts are open or successful")
            .or(require(second.is_none() || first.is_some(), Promise::I8, "a second attempt without a first"))
            .or_else(|| {
                Attempt::ALL.into_iter().find_map(|attempt| {
                    let facts = Facts::of(&state.books[attempt.index()], state.owner, attempt);
                    check(state.rows[attempt.index()], &facts)
                })
            })
    }

    /// What must be true once nothing is left to be done.
    pub(crate) fn broken_at_rest(&self, state: &Snapshot) -> Option<Broken> {
        self.broken_now(state).or_else(|| {
            Attempt::ALL.into_iter().find_map(|attempt| {
                let row = state.rows[attempt.index()]?;
                let facts = Facts::of(&state.books[attempt.index()], state.owner, attempt);
                let balanced = facts.charges == usize::from(facts.owned) + facts.refunds;
                require(
                    row.hold.is_some() || balanced,
                    Promise::I5,
                    "at rest, charged, and neither benefit nor refund",
                )
            })
        })
    }
}

fn require(holds: bool, promise: Promise, seen: &'static str) -> Option<Broken> {
    (!holds).then_some(Broken { promise, seen })
}

fn of_misstep(misstep: Misstep) -> Broken {
    let (promise, seen) = match misstep {
        Misstep::TerminalMoved => (Promise::I6, "a terminal row changed its state"),
        Misstep::IllegalWrite => (Promise::I6, "a write was decided on that the table must refuse"),
        Misstep::VersionSkipped => (Promise::I9, "a write did not add exactly one version"),
        Misstep::NoEvidence => (Promise::I9, "a write has no evidence"),
        Misstep::NeverDue => (Promise::I7, "an open row is never due again"),
        Misstep::Contradicted => (Promise::Agreement, "two processes have evidence for opposite things"),
    };
    Broken { promise, seen }
}

fn check(row: Option<Row>, facts: &Facts) -> Option<Broken> {
    let in_every_state = require(facts.charges <= 1, Promise::I1, "charged twice")
        .or(require(facts.refunds <= 1, Promise::I2, "refunded twice"))
        .or(require(facts.refunds == 0 || !facts.owned, Promise::I4, "refunded, and the benefit is owned"));
    in_every_state.or_else(|| match row {
        None => require(!facts.heard_of, Promise::I1, "charged without a row"),
        Some(row) => check_claim(row.state, facts),
    })
}

/// What a state claims.
fn check_claim(state: State, facts: &Facts) -> Option<Broken> {
    let charged = facts.charges == 1;
    let amount = || require(!facts.wrong_amount, Promise::I1, "another amount was charged and taken as ours");
    match state {
        State::WaitPay => require(!facts.heard_of, Promise::I1, "WAIT_PAY, and the wallet has heard of it"),
        State::Paying => require(facts.refunds == 0, Promise::I4, "PAYING, and refunded").or(require(
            !facts.owned,
            Promise::I4,
            "PAYING, and the benefit is owned",
        )),
        State::PayFail => require(facts.charges == 0, Promise::I5, "PAY_FAIL, and charged").or(require(
            !facts.owned,
            Promise::I5,
            "PAY_FAIL, and the benefit is owned",
        )),
        State::Payed => require(charged, Promise::I1, "PAYED, and not charged")
            .or(require(facts.refunds == 0, Promise::I4, "PAYED, and refunded"))
            .or_else(amount),
        State::BizSuccess => require(facts.refunds == 0, Promise::I3, "BIZ_SUCCESS, and refunded")
            .or(require(facts.owned, Promise::I3, "BIZ_SUCCESS, and the benefit is not owned"))
            .or(require(charged, Promise::I3, "BIZ_SUCCESS, and not charged"))
            .or_else(amount),
        State::Refunding => require(charged, Promise::I4, "REFUNDING, and not charged")
            .or(require(!facts.owned, Promise::I4, "REFUNDING, and the benefit is owned"))
            .or_else(amount),
        State::Refunded => require(charged, Promise::I4, "REFUNDED, and not charged")
            .or(require(facts.refunds == 1, Promise::I4, "REFUNDED, and not paid back"))
            .or(require(!facts.owned, Promise::I4, "REFUNDED, and the benefit is owned"))
            .or_else(amount),
    }
}
