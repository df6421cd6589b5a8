//! The seven states, the six edges between them, and what clients are shown of them.
//!
//! Pure: knows nothing of storage, downstream systems or time. The same table is enforced a second time by the
//! database's guard triggers (`migrations/`), and a test compares the two over all 49 pairs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of one payment attempt, spelled in the database exactly as [`State::as_str`] gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum State {
    /// The row exists; the wallet has not heard of it.
    WaitPay,
    /// A debit may have been sent; the wallet's order is the authority.
    Paying,
    /// Terminal: the charge definitely did not and will not happen.
    PayFail,
    /// The charge is confirmed; whether the benefit was handed over is not known yet.
    Payed,
    /// Terminal: the benefit is owned by this attempt. Never refunded by any automatic path.
    BizSuccess,
    /// The refund is decided and has its fixed number; whether it was paid out is not known yet.
    Refunding,
    /// Terminal: the whole charge was paid back.
    Refunded,
}

impl State {
    /// All seven, in the order of the happy path.
    pub const ALL: [State; 7] = [
        State::WaitPay,
        State::Paying,
        State::PayFail,
        State::Payed,
        State::BizSuccess,
        State::Refunding,
        State::Refunded,
    ];

    /// The spelling used in the database, in logs and over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::WaitPay => "WAIT_PAY",
            State::Paying => "PAYING",
            State::PayFail => "PAY_FAIL",
            State::Payed => "PAYED",
            State::BizSuccess => "BIZ_SUCCESS",
            State::Refunding => "REFUNDING",
            State::Refunded => "REFUNDED",
        }
    }

    /// The state spelled so, or `None`: spelling is exact, case included.
    pub fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether no trigger may ever change the state again (invariant I6).
    pub const fn is_terminal(self) -> bool {
        match self {
            State::PayFail | State::BizSuccess | State::Refunded => true,
            State::WaitPay | State::Paying | State::Payed | State::Refunding => false,
        }
    }

    /// Whether the attempt has definitely failed, so that the next attempt at its target may be made (I8).
    pub const fn frees_target(self) -> bool {
        match self {
            State::PayFail | State::Refunded => true,
            State::WaitPay | State::Paying | State::Payed | State::BizSuccess | State::Refunding => false,
        }
    }

    /// Whether `self` can be reached from `from` over zero or more edges.
    ///
    /// Used after a lost compare-and-swap: a row that moved on *through* the state we wanted to write confirms us,
    /// a row from which our state can no longer be reached contradicts us.
    pub fn is_at_or_after(self, from: State) -> bool {
        self == from || Edge::ALL.iter().any(|edge| edge.from() == from && self.is_at_or_after(edge.to()))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One of the six legal state changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edge {
    /// `WAIT_PAY -> PAYING`: written before the wallet hears of the payment.
    EnterPaying,
    /// `PAYING -> PAY_FAIL`: the wallet definitely refused or closed the order.
    PaymentFailed,
    /// `PAYING -> PAYED`: the wallet confirmed the charge.
    PaymentConfirmed,
    /// `PAYED -> BIZ_SUCCESS`: the business fact names this attempt as the owner.
    BusinessConfirmed,
    /// `PAYED -> REFUNDING`: the benefit is not, and can no longer be, owned by this attempt.
    RefundDecided,
    /// `REFUNDING -> REFUNDED`: the wallet confirmed the refund in full.
    RefundConfirmed,
}

impl Edge {
    /// All six.
    pub const ALL: [Edge; 6] = [
        Edge::EnterPaying,
        Edge::PaymentFailed,
        Edge::PaymentConfirmed,
        Edge::BusinessConfirmed,
        Edge::RefundDecided,
        Edge::RefundConfirmed,
    ];

    /// The state the edge leaves.
    pub const fn from(self) -> State {
        match self {
            Edge::EnterPaying => State::WaitPay,
            Edge::PaymentFailed | Edge::PaymentConfirmed => State::Paying,
            Edge::BusinessConfirmed | Edge::RefundDecided => State::Payed,
            Edge::RefundConfirmed => State::Refunding,
        }
    }

    /// The state the edge enters.
    pub const fn to(self) -> State {
        match self {
            Edge::EnterPaying => State::Paying,
            Edge::PaymentFailed => State::PayFail,
            Edge::PaymentConfirmed => State::Payed,
            Edge::BusinessConfirmed => State::BizSuccess,
            Edge::RefundDecided => State::Refunding,
            Edge::RefundConfirmed => State::Refunded,
        }
    }

    /// The edge between two states; `None` for the 43 pairs that are refused.
    pub fn between(from: State, to: State) -> Option<Edge> {
        Edge::ALL.into_iter().find(|edge| edge.from() == from && edge.to() == to)
    }
}

/// What a client is shown of a flow: fewer words than the states, with a hold folded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClientState {
    /// Charge and benefit are both confirmed.
    BizSuccess,
    /// Definitely not charged; a new attempt may be made.
    PayFail,
    /// Not decided yet: ask again.
    Processing,
    /// Charged, benefit not delivered, paid back in full.
    Refunded,
    /// Automatic processing stopped for want of evidence; people are looking at it.
    ManualReview,
}

impl ClientState {
    /// The projection of a state; `held` says whether people froze the flow or the system did.
    pub const fn of(state: State, held: bool) -> ClientState {
        match (state, held) {
            (State::BizSuccess, true | false) => ClientState::BizSuccess,
            (State::PayFail, true | false) => ClientState::PayFail,
            (State::Refunded, true | false) => ClientState::Refunded,
            (State::WaitPay | State::Paying | State::Payed | State::Refunding, true) => {
                ClientState::ManualReview
            }
            (State::WaitPay | State::Paying | State::Payed | State::Refunding, false) => {
                ClientState::Processing
            }
        }
    }

    /// The spelling used over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClientState::BizSuccess => "BIZ_SUCCESS",
            ClientState::PayFail => "PAY_FAIL",
            ClientState::Processing => "PROCESSING",
            ClientState::Refunded => "REFUNDED",
            ClientState::ManualReview => "MANUAL_REVIEW",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `docs`: written out here a second time on purpose, so that an edit of one is seen.
    const LEGAL: [(&str, &str); 6] = [
        ("WAIT_PAY", "PAYING"),
        ("PAYING", "PAY_FAIL"),
        ("PAYING", "PAYED"),
        ("PAYED", "BIZ_SUCCESS"),
        ("PAYED", "REFUNDING"),
        ("REFUNDING", "REFUNDED"),
    ];

    #[test]
    fn of_49_pairs_exactly_six_are_edges() {
        let mut accepted = 0;
        let mut refused = 0;
        for from in State::ALL {
            for to in State::ALL {
                let legal = LEGAL.contains(&(from.as_str(), to.as_str()));
                assert_eq!(Edge::between(from, to).is_some(), legal, "{from} -> {to}");
                if legal {
                    accepted += 1;
                } else {
                    refused += 1;
                }
            }
        }
        assert_eq!((accepted, refused), (6, 43));
    }

    #[test]
    fn a_terminal_state_has_no_way_out_and_every_other_has_one() {
        for state in State::ALL {
            assert_eq!(state.is_terminal(), !Edge::ALL.iter().any(|edge| edge.from() == state), "{state}");
        }
    }

    #[test]
    fn order_along_the_branches() {
        assert!(State::BizSuccess.is_at_or_after(State::Paying));
        assert!(State::Refunded.is_at_or_after(State::Payed));
        assert!(State::Payed.is_at_or_after(State::Payed));
        assert!(!State::Refunding.is_at_or_after(State::BizSuccess));
        assert!(!State::BizSuccess.is_at_or_after(State::Refunding));
        assert!(!State::PayFail.is_at_or_after(State::Payed));
        assert!(!State::Paying.is_at_or_after(State::Payed));
    }

    #[test]
    fn spelling_is_exact_and_round_trips() {
        for state in State::ALL {
            assert_eq!(State::parse(state.as_str()), Some(state));
            assert_eq!(State::parse(&state.as_str().to_lowercase()), None);
            assert_eq!(State::parse(&format!("{state} ")), None);
        }
    }
}
