//! The world's state and the few functions that post an effect. Wallet and business rules are in their own files.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::types::{DebitStatus, Deferral, Execution, Money, Refund, Switches, Target};

/// Everything both systems know. Clone and compare freely; see the module for what it must not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    pub(super) orders: BTreeMap<String, Order>,
    pub(super) refunds: HashMap<String, RefundRecord>,
    pub(super) targets: HashMap<Target, TargetRecord>,
    pub(super) balances: HashMap<u64, HashMap<String, i64>>,
    pub(super) switches: Switches,
    transactions: u64,
}

/// One effective change of money or benefit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// What moved.
    #[serde(flatten)]
    pub effect: Effect,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// What moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Money was taken.
    Charge {
        /// How much.
        money: Money,
        /// The wallet's own number.
        transaction_id: String,
    },
    /// Money was given back.
    Refund {
        /// Under which refund number.
        refund_order_no: String,
        /// How much.
        money: Money,
        /// The wallet's own number.
        transaction_id: String,
    },
    /// The benefit was handed over.
    Grant {
        /// To which target.
        target: Target,
    },
}

/// How often each changing call reached the world for one order, repeats and refused ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Debits.
    pub debit: u32,
    /// Closes.
    pub close: u32,
    /// Refunds, over all refund numbers of the order.
    pub refund: u32,
    /// Executions.
    pub execute: u32,
}

/// What a fault rule can be matched by besides the number itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderSubject {
    /// The user of the order, once a debit or execution arrived.
    pub user_id: Option<u64>,
    /// The target's key, once an execution arrived.
    pub biz_key: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) debit: Option<DebitRecord>,
    pub(super) refund_nos: Vec<String>,
    pub(super) execution: Option<ExecutionRecord>,
    pub(super) entries: Vec<Entry>,
    pub(super) calls: CallCounts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DebitRecord {
    /// None for a tombstone: closed before any debit arrived.
    pub(super) terms: Option<DebitTerms>,
    pub(super) state: DebitState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DebitTerms {
    pub(super) user_id: u64,
    pub(super) money: Money,
    pub(super) not_after_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DebitState {
    Pending(Deferral),
    Charged { transaction_id: String, at_ms: i64 },
    Failed { code: String, at_ms: i64 },
    Closed { at_ms: i64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefundRecord {
    pub(super) request: Refund,
    pub(super) state: RefundState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RefundState {
    Pending(Deferral),
    Refunded { transaction_id: String, at_ms: i64 },
    Failed { code: String, at_ms: i64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExecutionRecord {
    pub(super) request: Execution,
    pub(super) pending: Option<Deferral>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TargetRecord {
    pub(super) owner: Option<Owner>,
    /// Every order that tried, in order of arrival.
    pub(super) order_nos: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) order_no: String,
    pub(super) at_ms: i64,
}

/// Who touches a deferred call: a query also carries out what waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Any,
    Query,
}

impl DebitState {
    pub(super) fn status(&self) -> DebitStatus {
        match self {
            Self::Pending(_) => DebitStatus::Processing,
            Self::Charged { .. } => DebitStatus::Success,
            Self::Failed { .. } => DebitStatus::Failed,
            Self::Closed { .. } => DebitStatus::Closed,
        }
    }
}

impl Deferral {
    pub(super) fn is_due(&self, touch: Touch, now_ms: i64) -> bool {
        match self {
            Self::UntilMs(due_ms) => now_ms >= *due_ms,
            Self::NextQuery => touch == Touch::Query,
        }
    }
}

impl World {
    /// An empty world: unlimited balances, nothing granted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what the user holds in a currency. Until then the balance is unlimited.
    pub fn set_balance(&mut self, user_id: u64, currency: &str, amount: i64) {
        self.balances.entry(user_id).or_default().insert(currency.to_owned(), amount);
    }

    /// What the user holds in a currency; none means unlimited.
    #[must_use]
    pub fn balance(&self, user_id: u64, currency: &str) -> Option<i64> {
        self.balances.get(&user_id)?.get(currency).copied()
    }

    /// Replaces the mutants and missing abilities.
    pub fn set_switches(&mut self, switches: Switches) {
        self.switches = switches;
    }

    /// The mutants and missing abilities in force.
    #[must_use]
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// Carries out whatever of this order was deferred to a time that has come.
    pub fn settle(&mut self, trade_order_no: &str, now_ms: i64) {
        self.settle_debit(trade_order_no, Touch::Any, now_ms);
        self.settle_refunds(trade_order_no, now_ms);
        self.settle_execution(trade_order_no, Touch::Any, now_ms);
    }

    /// The orders with something deferred to a time, and that time: what a host re-arms its timers from after a replay.
    #[must_use]
    pub fn timed_deferrals(&self) -> Vec<(String, i64)> {
        fn due_ms(deferral: &Deferral) -> Option<i64> {
            match deferral {
                Deferral::UntilMs(due_ms) => Some(*due_ms),
                Deferral::NextQuery => None,
            }
        }
        let mut timed = Vec::new();
        for (no, order) in &self.orders {
            if let Some(DebitRecord { state: DebitState::Pending(deferral), .. }) = &order.debit {
                timed.extend(due_ms(deferral).map(|due| (no.clone(), due)));
            }
            if let Some(deferral) = order.execution.as_ref().and_then(|e| e.pending.as_ref()) {
                timed.extend(due_ms(deferral).map(|due| (no.clone(), due)));
            }
            for refund in order.refund_nos.iter().filter_map(|refund_no| self.refunds.get(refund_no)) {
                if let RefundState::Pending(deferral) = &refund.state {
                    timed.extend(due_ms(deferral).map(|due| (no.clone(), due)));
                }
            }
        }
        timed
    }

    /// User and target key of an order, as far as the world has heard of them.
    #[must_use]
    pub fn order_subject(&self, trade_order_no: &str) -> OrderSubject {
        let Some(order) = self.orders.get(trade_order_no) else { return OrderSubject::default() };
        let charged_user = order.debit.as_ref().and_then(|d| d.terms.as_ref()).map(|terms| terms.user_id);
        let target = order.execution.as_ref().map(|e| &e.request.target);
        OrderSubject {
            user_id: charged_user.or(target.map(|t| t.user_id)),
            biz_key: target.map(|t| t.biz_key.clone()),
        }
    }

    /// The charge a recorded refund gives back.
    #[must_use]
    pub fn refunded_order(&self, refund_order_no: &str) -> Option<&str> {
        self.refunds.get(refund_order_no).map(|refund| refund.request.trade_order_no.as_str())
    }

    /// The record of an order, made on first use.
    pub(super) fn order_mut(&mut self, trade_order_no: &str) -> &mut Order {
        if !self.orders.contains_key(trade_order_no) {
            self.orders.insert(trade_order_no.to_owned(), Order::default());
        }
        self.orders.get_mut(trade_order_no).expect("inserted above when it was missing")
    }

    /// Takes the money and posts the charge, or says that the balance does not cover it.
    pub(super) fn post_charge(
        &mut self,
        no: &str,
        user_id: u64,
        money: &Money,
        now_ms: i64,
    ) -> Option<String> {
        if let Some(balance) = self.balances.get_mut(&user_id).and_then(|b| b.get_mut(&money.currency)) {
            *balance = balance.checked_sub(money.amount).filter(|rest| *rest >= 0)?;
        }
        let transaction_id = self.next_transaction_id();
        let effect = Effect::Charge { money: money.clone(), transaction_id: transaction_id.clone() };
        self.order_mut(no).entries.push(Entry { effect, at_ms: now_ms });
        Some(transaction_id)
    }

    /// Gives the money back and posts the refund.
    pub(super) fn post_refund(&mut self, refund: &Refund, now_ms: i64) -> String {
        let money = &refund.money;
        if let Some(balance) = self.balances.get_mut(&refund.user_id).and_then(|b| b.get_mut(&money.currency))
        {
            *balance = balance.saturating_add(money.amount);
        }
        let transaction_id = self.next_transaction_id();
        let effect = Effect::Refund {
            refund_order_no: refund.refund_order_no.clone(),
            money: money.clone(),
            transaction_id: transaction_id.clone(),
        };
        self.order_mut(&refund.trade_order_no).entries.push(Entry { effect, at_ms: now_ms });
        transaction_id
    }

    /// Makes the order the owner of the target and posts the grant.
    pub(super) fn post_grant(&mut self, no: &str, target: &Target, now_ms: i64) {
        let owner = Owner { order_no: no.to_owned(), at_ms: now_ms };
        self.targets.entry(target.clone()).or_default().owner = Some(owner);
        let effect = Effect::Grant { target: target.clone() };
        self.order_mut(no).entries.push(Entry { effect, at_ms: now_ms });
    }

    fn next_transaction_id(&mut self) -> String {
        self.transactions += 1;
        format!("wtx-{}", self.transactions)
    }
}
