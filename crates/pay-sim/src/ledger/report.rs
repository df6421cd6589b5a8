//! What the world answers to an auditor: counts per order, per target and overall, and what must never be seen.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::Serialize;

use super::types::{DebitStatus, Target};
use super::world::{CallCounts, Effect, Entry, Order, World};

/// How often an order was really charged, refunded and granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrderLedger {
    /// The order.
    pub trade_order_no: String,
    /// Whether any call ever reached the world under this number.
    pub known: bool,
    /// State of the wallet order, if there is one.
    pub wallet_status: Option<DebitStatus>,
    /// Number of effective charges.
    pub charges: u32,
    /// Sum of the charges, minor units.
    pub charged_amount: i64,
    /// Number of effective refunds, over all refund numbers.
    pub refunds: u32,
    /// Sum of the refunds, minor units.
    pub refunded_amount: i64,
    /// Number of effective grants.
    pub grants: u32,
    /// Who owns the target this order tried, whoever it is.
    pub owner_of_target: Option<String>,
    /// The target this order tried.
    pub target: Option<Target>,
    /// Calls that reached the world, refused and repeated ones included.
    pub calls: CallCounts,
    /// Every effect, in order.
    pub entries: Vec<Entry>,
}

/// A target with every order that tried it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetLedger {
    /// The target.
    pub target: Target,
    /// Who owns it.
    pub owner_order_no: Option<String>,
    /// When it was granted, Unix milliseconds.
    pub granted_at_ms: Option<i64>,
    /// Every order that tried, in order of arrival.
    pub orders: Vec<OrderLedger>,
}

/// Something a contract-keeping world never shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anomaly {
    /// One number, several charges.
    ChargedMoreThanOnce,
    /// One refund number, several refunds.
    RefundedMoreThanOnce,
    /// More given back than taken.
    RefundedMoreThanCharged,
    /// One order, several grants.
    GrantedMoreThanOnce,
    /// The benefit was granted and the money given back.
    GrantedAndRefunded,
    /// The benefit was granted and nothing was taken.
    GrantedWithoutCharge,
}

/// Sums over many orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Orders seen.
    pub orders: u64,
    /// Effective charges.
    pub charges: u64,
    /// Effective refunds.
    pub refunds: u64,
    /// Effective grants.
    pub grants: u64,
    /// Charged minor units by currency.
    pub charged_amount: BTreeMap<String, i128>,
    /// Refunded minor units by currency.
    pub refunded_amount: BTreeMap<String, i128>,
}

impl World {
    /// What really happened to an order; zero counts and `known: false` for a number never heard of.
    #[must_use]
    pub fn ledger(&self, trade_order_no: &str) -> OrderLedger {
        match self.orders.get(trade_order_no) {
            Some(order) => self.order_ledger(trade_order_no, order),
            None => OrderLedger { known: false, ..self.order_ledger(trade_order_no, &Order::default()) },
        }
    }

    /// Every order that tried a target.
    #[must_use]
    pub fn target_ledger(&self, target: &Target) -> TargetLedger {
        let record = self.targets.get(target);
        let owner = record.and_then(|record| record.owner.as_ref());
        TargetLedger {
            target: target.clone(),
            owner_order_no: owner.map(|owner| owner.order_no.clone()),
            granted_at_ms: owner.map(|owner| owner.at_ms),
            orders: record
                .map(|r| r.order_nos.iter().map(|no| self.ledger(no)).collect())
                .unwrap_or_default(),
        }
    }

    /// Up to `limit` orders after this number, in byte order of their numbers: a page of the whole ledger.
    #[must_use]
    pub fn ledgers_after(&self, trade_order_no: Option<&str>, limit: usize) -> Vec<OrderLedger> {
        let start = trade_order_no.map_or(Bound::Unbounded, Bound::Excluded);
        let page = self.orders.range::<str, _>((start, Bound::Unbounded)).take(limit);
        page.map(|(no, order)| self.order_ledger(no, order)).collect()
    }

    fn order_ledger(&self, no: &str, order: &Order) -> OrderLedger {
        let target = order.execution.as_ref().map(|execution| &execution.request.target);
        let owner =
            target.and_then(|target| self.targets.get(target)).and_then(|record| record.owner.as_ref());
        let mut ledger = OrderLedger {
            trade_order_no: no.to_owned(),
            known: true,
            wallet_status: order.debit.as_ref().map(|debit| debit.state.status()),
            charges: 0,
            charged_amount: 0,
            refunds: 0,
            refunded_amount: 0,
            grants: 0,
            owner_of_target: owner.map(|owner| owner.order_no.clone()),
            target: target.cloned(),
            calls: order.calls,
            entries: order.entries.clone(),
        };
        for entry in &order.entries {
            match &entry.effect {
                Effect::Charge { money, .. } => {
                    ledger.charges += 1;
                    ledger.charged_amount = ledger.charged_amount.saturating_add(money.amount);
                }
                Effect::Refund { money, .. } => {
                    ledger.refunds += 1;
                    ledger.refunded_amount = ledger.refunded_amount.saturating_add(money.amount);
                }
                Effect::Grant { .. } => ledger.grants += 1,
            }
        }
        ledger
    }
}

impl OrderLedger {
    /// What is wrong with this order; empty when all is well.
    #[must_use]
    pub fn anomalies(&self) -> Vec<Anomaly> {
        let mut refunds_by_no = BTreeMap::<&str, u32>::new();
        for entry in &self.entries {
            if let Effect::Refund { refund_order_no, .. } = &entry.effect {
                *refunds_by_no.entry(refund_order_no).or_default() += 1;
            }
        }
        let found = [
            (self.charges > 1, Anomaly::ChargedMoreThanOnce),
            (refunds_by_no.values().any(|count| *count > 1), Anomaly::RefundedMoreThanOnce),
            (self.refunded_amount > self.charged_amount, Anomaly::RefundedMoreThanCharged),
            (self.grants > 1, Anomaly::GrantedMoreThanOnce),
            (self.grants > 0 && self.refunds > 0, Anomaly::GrantedAndRefunded),
            (self.grants > 0 && self.charges == 0, Anomaly::GrantedWithoutCharge),
        ];
        found.into_iter().filter_map(|(seen, anomaly)| seen.then_some(anomaly)).collect()
    }
}

impl Totals {
    /// Adds an order.
    pub fn add(&mut self, order: &OrderLedger) {
        self.orders += 1;
        for entry in &order.entries {
            match &entry.effect {
                Effect::Charge { money, .. } => {
                    self.charges += 1;
                    *self.charged_amount.entry(money.currency.clone()).or_default() +=
                        i128::from(money.amount);
                }
                Effect::Refund { money, .. } => {
                    self.refunds += 1;
                    *self.refunded_amount.entry(money.currency.clone()).or_default() +=
                        i128::from(money.amount);
                }
                Effect::Grant { .. } => self.grants += 1,
            }
        }
    }
}
