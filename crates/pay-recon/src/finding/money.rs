//! Did the money move as our records say, once, and back no more than it came?

use std::collections::BTreeMap;

use flow_core::ports::ReconFlow;
use flow_core::recon::FindingKind;
use flow_core::state::State;

use super::{Found, View, Word, shown};
use crate::order::{BillRow, Due, Order, Proof};

/// Charge against state.
pub(super) fn charge(order: &Order, view: &View<'_>, found: &mut Found<'_>) {
    let Some(flow) = &order.local else { return charge_without_flow(order, view, found) };
    let state = flow.state;
    match (state, view.charge_word()) {
        (State::WaitPay | State::Paying, Word::Settled) => {
            found.add(FindingKind::WalletPaidLocalOpen, format!("the bill has it paid, here it is {state}"));
        }
        (State::PayFail, Word::Settled) => {
            found.add(
                FindingKind::WalletPaidLocalPayFail,
                format!("the bill has it paid, here it is {state}"),
            );
        }
        (State::Payed | State::Refunding | State::Refunded, Word::Nothing | Word::Accepted) => {
            missing(order, order.payment_due, FindingKind::LocalPaidWalletNothing, state, found);
        }
        (State::BizSuccess, Word::Nothing | Word::Accepted) => {
            missing(order, order.payment_due, FindingKind::LocalSuccessWalletNothing, state, found);
        }
        (State::WaitPay | State::Paying | State::PayFail, Word::Nothing | Word::Accepted)
        | (State::Payed | State::BizSuccess | State::Refunding | State::Refunded, Word::Settled) => {}
    }
}

fn charge_without_flow(order: &Order, view: &View<'_>, found: &mut Found<'_>) {
    for row in &view.charges {
        let day = row.carried_from.unwrap_or(order.day.date);
        let detail = format!("the bill has {} paid", shown(row.amount_minor, &row.currency));
        found.add_on(day, FindingKind::WalletPaidNoFlow, detail, None);
    }
}

/// The bill has not what our record says, if a bill that was looked at must have it.
fn missing(order: &Order, due: Due, kind: FindingKind, state: State, found: &mut Found<'_>) {
    let day = match due {
        Due::No => return,
        Due::Today => order.day.date,
        Due::WaitedFrom(day) => day,
    };
    found.add_on(day, kind, format!("here it is {state}, the bill of the day has nothing"), None);
}

fn is_ours(row: &BillRow, flow: &ReconFlow) -> bool {
    row.entry_no.as_str() == flow.refund_order_no.as_str()
}

/// Refund against state.
pub(super) fn refund(order: &Order, view: &View<'_>, found: &mut Found<'_>) {
    let Some(flow) = &order.local else { return };
    if flow.paid_at.is_none() && view.charges.is_empty() {
        // Said by `totals`: there is nothing that could have been paid back.
        return;
    }
    let ours = || view.paid_back.iter().filter(|row| is_ours(row, flow));
    let word = if ours().any(|row| row.proof == Proof::Settled) {
        Word::Settled
    } else if ours().next().is_some() {
        Word::Accepted
    } else {
        Word::Nothing
    };
    let state = flow.state;
    match (state, word) {
        (State::Refunding, Word::Settled) => {
            let detail = format!("the bill has the refund paid, here it is {state}");
            found.add(FindingKind::WalletRefundedLocalRefunding, detail);
        }
        (State::BizSuccess, Word::Settled | Word::Accepted) => {
            let detail = format!("the bill has a refund, here it is {state}");
            found.add(FindingKind::WalletRefundedLocalSuccess, detail);
        }
        (State::Refunded, Word::Nothing) => {
            missing(order, order.refund_due, FindingKind::LocalRefundedWalletOpen, state, found);
        }
        (State::Refunded, Word::Accepted) => {
            let detail = format!("here it is {state}, the bill has the refund accepted and not paid");
            found.add(FindingKind::LocalRefundedWalletOpen, detail);
        }
        (State::WaitPay | State::Paying | State::PayFail | State::Payed, Word::Settled | Word::Accepted) => {
            let detail = format!("the bill has a refund, here it is {state}");
            found.add(FindingKind::WalletRefundedUnasked, detail);
        }
        (State::Refunding, Word::Nothing | Word::Accepted)
        | (State::Refunded, Word::Settled)
        | (
            State::WaitPay | State::Paying | State::PayFail | State::Payed | State::BizSuccess,
            Word::Nothing,
        ) => {}
    }
    unasked(flow, view, found);
}

/// Refunds of this payment under numbers that are not its own.
fn unasked(flow: &ReconFlow, view: &View<'_>, found: &mut Found<'_>) {
    for row in view.paid_back.iter().filter(|row| !is_ours(row, flow)) {
        let kind = match flow.state {
            State::BizSuccess => FindingKind::WalletRefundedLocalSuccess,
            State::WaitPay
            | State::Paying
            | State::PayFail
            | State::Payed
            | State::Refunding
            | State::Refunded => FindingKind::WalletRefundedUnasked,
        };
        let detail = format!(
            "the bill has a refund of {} under number {}",
            shown(row.amount_minor, &row.currency),
            row.entry_no
        );
        found.add(kind, detail);
    }
}

/// What does not add up within the bill, or with what was charged.
pub(super) fn totals(order: &Order, view: &View<'_>, found: &mut Found<'_>) {
    doubled("charge", &view.payments, &view.charges, found);
    doubled("refund", &view.refunds, &view.paid_back, found);
    if view.charges.len() > 1 {
        let count = view.charges.len();
        let extra: u64 = view.charges[1..].iter().map(|row| row.amount_minor).sum();
        let detail = format!("the bill has {count} transactions that charged this number");
        found.add_for(FindingKind::TwoCharges, detail, extra, &view.charges[0].currency);
    }
    if order.rows_left_out > 0 {
        let detail = format!("{} further rows of this order", order.rows_left_out);
        found.add(FindingKind::DuplicateBillRow, detail);
    }
    for row in &view.refunds {
        if let Some(named) = row.trade_order_no.as_deref().filter(|named| *named != order.order_no.as_str()) {
            let detail = format!("refund {} is booked against {named}", row.entry_no);
            found.add(FindingKind::RefundOfAnotherPayment, detail);
        }
    }
    above_payment(order, view, found);
}

fn doubled(what: &str, rows: &[&BillRow], once: &[&BillRow], found: &mut Found<'_>) {
    for row in once {
        let same = rows.iter().filter(|other| other.movement() == row.movement()).count();
        if same > 1 {
            let reference = row.channel_ref.as_deref().unwrap_or("without a number of its own");
            let detail = format!("the bill has the {what} {reference} {same} times");
            found.add_for(FindingKind::DuplicateBillRow, detail, row.amount_minor, &row.currency);
        }
    }
}

fn above_payment(order: &Order, view: &View<'_>, found: &mut Found<'_>) {
    let mut back: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &view.paid_back {
        let sum = back.entry(row.currency.as_str()).or_default();
        *sum = sum.saturating_add(row.amount_minor);
    }
    let charged = order.local.as_ref().filter(|flow| flow.paid_at.is_some()).map(|flow| &flow.money);
    for (currency, back_minor) in back {
        let by_bill = view.charges.iter().filter(|row| row.currency == currency);
        let by_bill = by_bill.map(|row| row.amount_minor).reduce(u64::saturating_add);
        let here = charged.filter(|money| money.currency().as_str() == currency);
        let here = here.map(|money| money.amount().unsigned_abs());
        match by_bill.or(here) {
            Some(paid_minor) if back_minor > paid_minor => {
                let (back, paid) = (shown(back_minor, currency), shown(paid_minor, currency));
                let extra = back_minor - paid_minor;
                let detail = format!("{back} paid back of {paid}");
                found.add_for(FindingKind::RefundAbovePayment, detail, extra, currency);
            }
            Some(_) => {}
            None if charged.is_some() || !view.charges.is_empty() => {
                // Paid back in a currency that nothing was charged in: said where fields are compared.
            }
            None => {
                for row in view.paid_back.iter().filter(|row| row.currency == currency) {
                    let day = row.carried_from.unwrap_or(order.day.date);
                    let detail = format!("{} paid back, nothing charged", shown(row.amount_minor, currency));
                    found.add_on(day, FindingKind::RefundWithoutPayment, detail, None);
                }
            }
        }
    }
}
