//! The shell around the decisions (`advance`) and what it hands to the ports, shipped or with a fault.

use chrono::{DateTime, Utc};
use flow_core::answer::FactAnswer;
use flow_core::ids::{FlowId, RefundOrderNo, TradeOrderNo};
use flow_core::ports::{ChargeOrder, Execution, RefundOrder};

use super::{Mutant, Subject};

/// What a process hears of its compare-and-swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteHeard {
    /// Written.
    Applied,
    /// Not written: the row is another one by now.
    Lost,
    /// The connection broke: it may have been written.
    Unknown,
}

/// Numbers that a mutant invents lie this far from those of real flows.
const INVENTED: i64 = 1_000_000;

impl Subject {
    /// The order that a debit carries. `again`: this debit follows a query that found no order.
    pub fn charge_order(self, shipped: ChargeOrder, again: bool) -> ChargeOrder {
        if !(again && self.is(Mutant::NewTradeNumber)) {
            return shipped;
        }
        let invented = invented(&shipped.trade_order_no);
        ChargeOrder { trade_order_no: TradeOrderNo::derive(shipped.user_id, invented), ..shipped }
    }

    /// The order that a refund carries. `again`: this refund follows a query that found none, or a refused one.
    pub fn refund_order(self, shipped: RefundOrder, again: bool) -> RefundOrder {
        if !(again && self.is(Mutant::NewRefundNumber)) {
            return shipped;
        }
        let number = TradeOrderNo::derive(shipped.user_id, invented(&shipped.trade_order_no));
        RefundOrder { refund_order_no: RefundOrderNo::derive(&number), ..shipped }
    }

    /// The execution that is sent.
    pub fn execution(self, shipped: Execution) -> Execution {
        if self.is(Mutant::NoNotAfter) {
            Execution { not_after: DateTime::<Utc>::MAX_UTC, ..shipped }
        } else {
            shipped
        }
    }

    /// The fact as it is classified.
    pub fn fact_answer(self, shipped: FactAnswer) -> FactAnswer {
        let none = matches!(shipped, FactAnswer::None(_));
        if none && self.is(Mutant::UnavailableIsNotDone) { FactAnswer::NotDone } else { shipped }
    }

    /// The time that an answer is judged by.
    pub fn judged_at(self, asked: DateTime<Utc>, heard: DateTime<Utc>) -> DateTime<Utc> {
        if self.is(Mutant::HearingClock) { heard } else { asked }
    }

    /// Whether a debit that follows a query is dropped if the time for it has passed meanwhile.
    pub fn rechecks_before_following(self) -> bool {
        !self.is(Mutant::LateFollow)
    }

    /// What a process makes of the outcome of its compare-and-swap.
    pub fn heard(self, shipped: WriteHeard) -> WriteHeard {
        match shipped {
            WriteHeard::Applied => WriteHeard::Applied,
            WriteHeard::Lost if self.is(Mutant::LostIsWon) => WriteHeard::Applied,
            WriteHeard::Lost => WriteHeard::Lost,
            WriteHeard::Unknown if self.is(Mutant::UnknownIsWritten) => WriteHeard::Applied,
            WriteHeard::Unknown => WriteHeard::Unknown,
        }
    }
}

fn invented(trade_order_no: &TradeOrderNo) -> FlowId {
    let (_, flow_id) = trade_order_no.parts().expect("a flow's number has its parts");
    FlowId::new(flow_id.get() + INVENTED).expect("far below the end of the range")
}
