//! A call of the far side as a value, so that it can be late, doubled or lost; and what comes back.
#![allow(clippy::wildcard_enum_match_arm, reason = "a question that a fault does not concern goes through")]

use chrono::DateTime;
use flow_core::answer::{Answered, ChargeAnswer, ExecuteAnswer, FactAnswer, NoAnswer, RefundAnswer};
use flow_core::ids::{RefundOrderNo, Target, TradeOrderNo};
use flow_core::ports::{Business as _, ChargeOrder, Execution, RefundOrder, Wallet as _};
use flow_testkit::fakes::{Call, Fault};

use crate::dice::Topic;
use crate::site::{Site, flow_of_number};

/// A call.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    Debit(ChargeOrder),
    Query(TradeOrderNo),
    Close(TradeOrderNo),
    Refund(RefundOrder),
    QueryRefund(RefundOrderNo),
    Execute(Execution),
    Fact(Target),
}

/// What comes back.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Charge(Answered<ChargeAnswer>),
    Refund(Answered<RefundAnswer>),
    Execute(Answered<ExecuteAnswer>),
    Fact(Answered<FactAnswer>),
}

/// The number of a target: its key is made from it.
pub(crate) fn target_number(target: &Target) -> i64 {
    target.biz_key.as_str().rsplit(':').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

impl Message {
    /// Which call, about which flow (the fact: about which target).
    pub(crate) fn about(&self) -> (Topic, i64) {
        match self {
            Message::Debit(order) => (Topic::Debit, flow_of_number(order.trade_order_no.as_str())),
            Message::Query(number) => (Topic::Query, flow_of_number(number.as_str())),
            Message::Close(number) => (Topic::Close, flow_of_number(number.as_str())),
            Message::Refund(order) => (Topic::Refund, flow_of_number(order.trade_order_no.as_str())),
            Message::QueryRefund(number) => (Topic::QueryRefund, flow_of_number(number.as_str())),
            Message::Execute(execution) => {
                (Topic::Execute, flow_of_number(execution.trade_order_no.as_str()))
            }
            Message::Fact(target) => (Topic::Fact, target_number(target)),
        }
    }

    /// The charge it is about, if it names one.
    pub(crate) fn trade_order_no(&self) -> Option<&str> {
        match self {
            Message::Debit(order) => Some(order.trade_order_no.as_str()),
            Message::Query(number) | Message::Close(number) => Some(number.as_str()),
            Message::Refund(order) => Some(order.trade_order_no.as_str()),
            Message::QueryRefund(number) => number.as_str().strip_prefix("r_"),
            Message::Execute(execution) => Some(execution.trade_order_no.as_str()),
            Message::Fact(_) => None,
        }
    }

    /// Takes effect on the far side.
    pub(crate) async fn arrive(&self, site: &Site, fault: Option<Fault>) -> Reply {
        if let Some(fault) = fault {
            let call = self.call();
            let books =
                if matches!(call, Call::Execute | Call::Fact) { &site.business } else { &site.wallet };
            books.fail_next(call, fault);
        }
        let (wallet, business) = (site.wallet.wallet(), site.business.business());
        match self {
            Message::Debit(order) if site.plan.wallet_honours_not_after => {
                Reply::Charge(wallet.debit(order).await)
            }
            Message::Debit(order) => {
                let order = ChargeOrder { not_after: DateTime::<chrono::Utc>::MAX_UTC, ..order.clone() };
                Reply::Charge(wallet.debit(&order).await)
            }
            Message::Query(number) => Reply::Charge(wallet.query(number).await),
            Message::Close(number) => Reply::Charge(wallet.close(number).await),
            Message::Refund(order) => Reply::Refund(wallet.refund(order).await),
            Message::QueryRefund(number) => Reply::Refund(wallet.query_refund(number).await),
            Message::Execute(execution) => Reply::Execute(business.execute(execution).await),
            Message::Fact(target) => Reply::Fact(business.fact(target).await),
        }
    }

    fn call(&self) -> Call {
        match self {
            Message::Debit(_) => Call::Debit,
            Message::Query(_) => Call::Query,
            Message::Close(_) => Call::Close,
            Message::Refund(_) => Call::Refund,
            Message::QueryRefund(_) => Call::QueryRefund,
            Message::Execute(_) => Call::Execute,
            Message::Fact(_) => Call::Fact,
        }
    }
}

const KIND: &str = "a call is answered by a reply of its own kind";

impl Reply {
    /// No answer to this call.
    pub(crate) fn none(topic: Topic, no_answer: NoAnswer) -> Reply {
        match topic {
            Topic::Refund | Topic::QueryRefund => {
                Reply::Refund(Answered::bare(RefundAnswer::None(no_answer)))
            }
            Topic::Execute => Reply::Execute(Answered::bare(ExecuteAnswer::None(no_answer))),
            Topic::Fact => Reply::Fact(Answered::bare(FactAnswer::None(no_answer))),
            _ => Reply::Charge(Answered::bare(ChargeAnswer::None(no_answer))),
        }
    }

    pub(crate) fn charge(self) -> Answered<ChargeAnswer> {
        match self {
            Reply::Charge(answered) => answered,
            Reply::Refund(_) | Reply::Execute(_) | Reply::Fact(_) => panic!("{KIND}"),
        }
    }

    pub(crate) fn refund(self) -> Answered<RefundAnswer> {
        match self {
            Reply::Refund(answered) => answered,
            Reply::Charge(_) | Reply::Execute(_) | Reply::Fact(_) => panic!("{KIND}"),
        }
    }

    pub(crate) fn execute(self) -> Answered<ExecuteAnswer> {
        match self {
            Reply::Execute(answered) => answered,
            Reply::Charge(_) | Reply::Refund(_) | Reply::Fact(_) => panic!("{KIND}"),
        }
    }

    pub(crate) fn fact(self) -> Answered<FactAnswer> {
        match self {
            Reply::Fact(answered) => answered,
            Reply::Charge(_) | Reply::Refund(_) | Reply::Execute(_) => panic!("{KIND}"),
        }
    }
}
