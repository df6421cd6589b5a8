//! What differs about one order: one total function over what the three sides say. Pure, and blind to the order in which
//! the bill lists its rows.

mod benefit;
mod fields;
mod money;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::NaiveDate;
use flow_core::ports::EntryKind;
use flow_core::recon::{Finding, FindingKind, Stake};

use crate::order::{BillRow, Order, Proof, Rules};

/// Everything that differs, one finding per kind and day, in a fixed order.
pub fn findings(order: &Order, rules: &Rules) -> Vec<Finding> {
    let view = View::of(order);
    let mut found = Found::new(order, &view);
    money::charge(order, &view, &mut found);
    money::refund(order, &view, &mut found);
    money::totals(order, &view, &mut found);
    fields::compare(order, &view, rules, &mut found);
    benefit::compare(order, &view, &mut found);
    found.into_findings()
}

/// What a bill says about a movement of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// Nothing.
    Nothing,
    /// That it was asked for.
    Accepted,
    /// That it happened.
    Settled,
}

/// The bill's rows, sorted out.
struct View<'a> {
    /// Every row of a charge, by content.
    payments: Vec<&'a BillRow>,
    /// Every row of a refund, by content.
    refunds: Vec<&'a BillRow>,
    /// Charges that happened, one row per transaction.
    charges: Vec<&'a BillRow>,
    /// Refunds, one row per refund and transaction.
    paid_back: Vec<&'a BillRow>,
}

impl<'a> View<'a> {
    fn of(order: &'a Order) -> View<'a> {
        let mut rows: Vec<&BillRow> = order.rows.iter().collect();
        rows.sort_by_cached_key(|row| row.content());
        let of_kind = |kind| rows.iter().copied().filter(|row| row.kind == kind).collect::<Vec<_>>();
        let (payments, refunds) = (of_kind(EntryKind::Payment), of_kind(EntryKind::Refund));
        let settled = payments.iter().copied().filter(|row| row.proof == Proof::Settled);
        let charges = each_movement_once(settled);
        let paid_back = each_movement_once(refunds.iter().copied());
        View { payments, refunds, charges, paid_back }
    }

    fn charge_word(&self) -> Word {
        match (self.charges.is_empty(), self.payments.is_empty()) {
            (false, true | false) => Word::Settled,
            (true, false) => Word::Accepted,
            (true, true) => Word::Nothing,
        }
    }
}

fn each_movement_once<'a>(rows: impl Iterator<Item = &'a BillRow>) -> Vec<&'a BillRow> {
    let mut once: Vec<&BillRow> = Vec::new();
    for row in rows {
        if !once.iter().any(|known| known.movement() == row.movement()) {
            once.push(row);
        }
    }
    once
}

/// Findings as they come up.
struct Found<'a> {
    day: NaiveDate,
    /// What a finding is about that names nothing else: the amount of our flow or, without one, of the bill's first row.
    whole: (u64, &'a str),
    by_kind: BTreeMap<(NaiveDate, FindingKind), (Vec<String>, Stake)>,
}

impl<'a> Found<'a> {
    fn new(order: &'a Order, view: &View<'a>) -> Found<'a> {
        let of_bill = view.payments.first().or(view.refunds.first());
        let of_bill = of_bill.map(|row| (row.amount_minor, row.currency.as_str()));
        let of_flow = order.local.as_ref().map(|flow| &flow.money);
        let of_flow = of_flow.map(|money| (money.amount().unsigned_abs(), money.currency().as_str()));
        Found { day: order.day.date, whole: of_flow.or(of_bill).unwrap_or((0, "")), by_kind: BTreeMap::new() }
    }

    /// A difference of the compared day, about the whole amount.
    fn add(&mut self, kind: FindingKind, detail: String) {
        self.add_on(self.day, kind, detail, None);
    }

    /// A difference about this much.
    fn add_for(&mut self, kind: FindingKind, detail: String, amount_minor: u64, currency: &str) {
        let stake = Stake { amount_minor, currency: currency.to_owned() };
        self.add_on(self.day, kind, detail, Some(stake));
    }

    /// A difference of a given day.
    fn add_on(&mut self, day: NaiveDate, kind: FindingKind, detail: String, stake: Option<Stake>) {
        let (amount_minor, currency) = self.whole;
        let stake = stake.unwrap_or_else(|| Stake { amount_minor, currency: currency.to_owned() });
        let (details, largest) =
            self.by_kind.entry((day, kind)).or_insert_with(|| (Vec::new(), stake.clone()));
        if !details.contains(&detail) {
            details.push(detail);
        }
        if stake.amount_minor > largest.amount_minor {
            *largest = stake;
        }
    }

    fn into_findings(self) -> Vec<Finding> {
        let finding =
            |((day, kind), (mut details, stake)): ((NaiveDate, FindingKind), (Vec<String>, Stake))| {
                details.sort();
                Finding { day, kind, detail: details.join("; "), stake }
            };
        self.by_kind.into_iter().map(finding).collect()
    }
}

/// An amount as findings write it.
fn shown(amount_minor: u64, currency: &str) -> String {
    format!("{amount_minor} {currency}")
}
