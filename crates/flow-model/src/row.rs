//! A flow's row without what grows for ever: what two rows must differ in to be decided upon differently.
//!
//! Versions: a copy of a row is either current or it is not, and once it is not it never is again, because versions
//! only grow. So the row always has [`CURRENT`], and an old copy [`OUTDATED`]. Times are the moments that they belong
//! to, and only where a decision looks at them.

use chrono::{DateTime, Utc};
use flow_core::decide::Rules;
use flow_core::flow::{CancelRequest, Flow, Hold, HoldReason, RefundReason, RefundTerms, Trigger};
use flow_core::ids::Version;
use flow_core::state::State;
use flow_testkit::samples;

use crate::time::Moment;

/// The version of every row.
pub const CURRENT: Version = Version(7);
/// The version of every copy whose row has changed since.
pub const OUTDATED: Version = Version(3);

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Row {
    /// Where it stands.
    pub state: State,
    /// Somebody asked to cancel it.
    pub cancelled: bool,
    /// People must look at it.
    pub hold: Option<HoldReason>,
    /// Why it is refunded.
    pub refund: Option<RefundReason>,
    /// Counted tries, where they are looked at, and no further than they are.
    pub tries: u32,
    /// When it came to its state, where that is looked at.
    pub entered: Moment,
}

impl Row {
    /// As it is created.
    pub const FRESH: Row = Row {
        state: State::WaitPay,
        cancelled: false,
        hold: None,
        refund: None,
        tries: 0,
        entered: Moment::Start,
    };

    /// Whether nothing automatic happens to it any more.
    pub fn rests(&self) -> bool {
        self.state.is_terminal() || self.hold.is_some()
    }

    /// As the decisions see it. `base` has everything that never changes.
    pub fn to_flow(self, base: &Flow, version: Version) -> Flow {
        let start = Moment::Start.at();
        let mut flow = base.clone();
        flow.state = self.state;
        flow.version = version;
        // Asked for before whoever reads it could read it: decisions compare the time of asking with later ones only.
        flow.cancel = self.cancelled.then(|| CancelRequest { at: start, by: samples::actor("client") });
        flow.hold = self.hold.map(|reason| Hold { reason, since: start, by: samples::actor("system") });
        flow.refund = self.refund.map(|reason| RefundTerms {
            amount: base.money.amount(),
            reason,
            source: Trigger::Scanner,
        });
        flow.retry_count = self.tries;
        flow.state_entered_at = self.entered.at();
        flow
    }

    /// What matters of a row as written.
    pub fn of(flow: &Flow, rules: &Rules, settled: DateTime<Utc>) -> Row {
        // How long a fact has been unreadable is counted from the later of the two.
        let late_entry = flow.state == State::Payed && flow.state_entered_at > settled;
        Row {
            state: flow.state,
            cancelled: flow.cancel.is_some(),
            hold: flow.hold.as_ref().map(|hold| hold.reason),
            refund: flow.refund.as_ref().map(|terms| terms.reason),
            tries: if flow.state == State::Refunding {
                flow.retry_count.min(rules.refund_tries_before_hold)
            } else {
                0
            },
            entered: if late_entry { Moment::of(flow.state_entered_at) } else { Moment::Start },
        }
    }
}
