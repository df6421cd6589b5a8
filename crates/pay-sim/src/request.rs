//! The seven calls as one value each, so that a fault can hold one back, repeat it or deliver it late.

use crate::faults::{Call, Subject};
use crate::ledger::{
    CloseRefusal, Command, Course, Debit, DebitRefusal, DebitView, ExecuteRefusal, Execution, ExecutionView,
    FactView, Refund, RefundRefusal, RefundView, Target, World,
};
use crate::signals::Topic;

/// A call that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Take money.
    Debit(Debit),
    /// Read a wallet order.
    Query {
        /// The order.
        trade_order_no: String,
    },
    /// Close a wallet order.
    Close {
        /// The order.
        trade_order_no: String,
    },
    /// Give money back.
    Refund(Refund),
    /// Read a refund.
    QueryRefund {
        /// The refund.
        refund_order_no: String,
    },
    /// Grant a benefit.
    Execute(Execution),
    /// Read a business fact.
    Fact(Target),
}

/// What the world answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a debit.
    Debit(Result<DebitView, DebitRefusal>),
    /// To a query; none is not found.
    Query(Option<DebitView>),
    /// To a close.
    Close(Result<DebitView, CloseRefusal>),
    /// To a refund.
    Refund(Result<RefundView, RefundRefusal>),
    /// To a refund query; none is not found.
    QueryRefund(Option<RefundView>),
    /// To an execution.
    Execute(Result<ExecutionView, ExecuteRefusal>),
    /// To a fact query.
    Fact {
        /// What was asked for.
        target: Target,
        /// What the world knows of it.
        view: FactView,
    },
}

impl Request {
    /// Which call this is.
    #[must_use]
    pub fn call(&self) -> Call {
        match self {
            Self::Debit(_) => Call::Debit,
            Self::Query { .. } => Call::Query,
            Self::Close { .. } => Call::Close,
            Self::Refund(_) => Call::Refund,
            Self::QueryRefund { .. } => Call::QueryRefund,
            Self::Execute(_) => Call::Execute,
            Self::Fact(_) => Call::Fact,
        }
    }

    /// The order it names, if it names one.
    #[must_use]
    pub fn trade_order_no(&self) -> Option<&str> {
        match self {
            Self::Debit(debit) => Some(&debit.trade_order_no),
            Self::Query { trade_order_no } | Self::Close { trade_order_no } => Some(trade_order_no),
            Self::Refund(refund) => Some(&refund.trade_order_no),
            Self::Execute(execution) => Some(&execution.trade_order_no),
            Self::QueryRefund { .. } | Self::Fact(_) => None,
        }
    }

    /// What to count it under.
    #[must_use]
    pub fn topics(&self) -> Vec<Topic> {
        let mut topics: Vec<_> =
            self.trade_order_no().map(|no| Topic::Order(no.to_owned())).into_iter().collect();
        match self {
            Self::Refund(refund) => topics.push(Topic::Refund(refund.refund_order_no.clone())),
            Self::QueryRefund { refund_order_no } => topics.push(Topic::Refund(refund_order_no.clone())),
            Self::Execute(execution) => topics.push(Topic::Target(execution.target.clone())),
            Self::Fact(target) => topics.push(Topic::Target(target.clone())),
            Self::Debit(_) | Self::Query { .. } | Self::Close { .. } => {}
        }
        topics
    }

    /// What fault rules can match it by: what it says itself, completed by what the world knows.
    #[must_use]
    pub fn subject(&self, world: &World) -> Subject {
        let (refund_order_no, user_id, biz_key) = match self {
            Self::Debit(debit) => (None, Some(debit.user_id), None),
            Self::Query { .. } | Self::Close { .. } => (None, None, None),
            Self::Refund(refund) => (Some(refund.refund_order_no.clone()), Some(refund.user_id), None),
            Self::QueryRefund { refund_order_no } => (Some(refund_order_no.clone()), None, None),
            Self::Execute(execution) => {
                (None, Some(execution.target.user_id), Some(execution.target.biz_key.clone()))
            }
            Self::Fact(target) => (None, Some(target.user_id), Some(target.biz_key.clone())),
        };
        let recorded = refund_order_no.as_deref().and_then(|no| world.refunded_order(no));
        let trade_order_no = self.trade_order_no().or(recorded).map(ToOwned::to_owned);
        let known = trade_order_no.as_deref().map(|no| world.order_subject(no)).unwrap_or_default();
        Subject {
            call: self.call(),
            trade_order_no,
            refund_order_no,
            user_id: user_id.or(known.user_id),
            biz_key: biz_key.or(known.biz_key),
        }
    }

    /// What must be journalled before [`Request::apply`]; none when it changes nothing.
    #[must_use]
    pub fn command(&self, course: &Course, world: &World, now_ms: i64) -> Option<Command> {
        let course = course.clone();
        match self {
            Self::Debit(debit) => Some(Command::Debit { debit: debit.clone(), course }),
            Self::Close { trade_order_no } => Some(Command::Close { trade_order_no: trade_order_no.clone() }),
            Self::Refund(refund) => Some(Command::Refund { refund: refund.clone(), course }),
            Self::Execute(execution) => Some(Command::Execute { execution: execution.clone(), course }),
            Self::Query { trade_order_no } => world
                .query_settles(trade_order_no, now_ms)
                .then(|| Command::Query { trade_order_no: trade_order_no.clone() }),
            Self::QueryRefund { refund_order_no } => world
                .query_refund_settles(refund_order_no, now_ms)
                .then(|| Command::QueryRefund { refund_order_no: refund_order_no.clone() }),
            Self::Fact(target) => {
                world.fact_settles(target, now_ms).then(|| Command::Fact { target: target.clone() })
            }
        }
    }

    /// Lets the world carry it out. The course matters to debit, refund and execute alone.
    pub fn apply(&self, course: &Course, world: &mut World, now_ms: i64) -> Answer {
        match self {
            Self::Debit(debit) => Answer::Debit(world.debit_as(debit, course, now_ms)),
            Self::Query { trade_order_no } => Answer::Query(world.query(trade_order_no, now_ms)),
            Self::Close { trade_order_no } => Answer::Close(world.close(trade_order_no, now_ms)),
            Self::Refund(refund) => Answer::Refund(world.refund_as(refund, course, now_ms)),
            Self::QueryRefund { refund_order_no } => {
                Answer::QueryRefund(world.query_refund(refund_order_no, now_ms))
            }
            Self::Execute(execution) => Answer::Execute(world.execute_as(execution, course, now_ms)),
            Self::Fact(target) => Answer::Fact { target: target.clone(), view: world.fact(target, now_ms) },
        }
    }
}
