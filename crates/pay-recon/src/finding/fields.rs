//! Where both sides have an entry: do amount, currency, user, transaction and time agree?

use chrono::{DateTime, Utc};
use flow_core::ids::DownstreamRef;
use flow_core::ports::ReconFlow;
use flow_core::recon::FindingKind;
use flow_core::state::State;

use super::{Found, View, shown};
use crate::order::{BillRow, Order, Proof, Rules};

/// What our record says about one kind of entry.
struct Ours<'a> {
    what: &'static str,
    amount_minor: u64,
    at: Option<DateTime<Utc>>,
    transaction: Option<&'a DownstreamRef>,
}

/// Every row against our record.
pub(super) fn compare(order: &Order, view: &View<'_>, rules: &Rules, found: &mut Found<'_>) {
    let Some(flow) = &order.local else { return };
    let charged_minor = flow.money.amount().unsigned_abs();
    let charge = Ours {
        what: "charge",
        amount_minor: charged_minor,
        at: flow.paid_at,
        transaction: flow.wallet_pay_txn.as_ref(),
    };
    compare_rows(order, flow, &charge, &view.payments, rules, found);
    let refund = Ours {
        what: "refund",
        amount_minor: flow.refund_amount.map_or(charged_minor, i64::unsigned_abs),
        at: flow.finished_at.filter(|_| flow.state == State::Refunded),
        transaction: flow.wallet_refund_txn.as_ref(),
    };
    let is_ours = |row: &&BillRow| row.entry_no.as_str() == flow.refund_order_no.as_str();
    let refunds: Vec<&BillRow> = view.refunds.iter().copied().filter(is_ours).collect();
    compare_rows(order, flow, &refund, &refunds, rules, found);
}

fn compare_rows(
    order: &Order,
    flow: &ReconFlow,
    ours: &Ours<'_>,
    rows: &[&BillRow],
    rules: &Rules,
    found: &mut Found<'_>,
) {
    for row in rows {
        amount(order, flow, ours, row, found);
        if row.currency != flow.money.currency().as_str() {
            let detail = format!(
                "{}: the bill says {}, here it is {}",
                ours.what,
                row.currency,
                flow.money.currency()
            );
            found.add(FindingKind::CurrencyDiffers, detail);
        }
        if let Some(user) = row.user.as_ref().filter(|_| rules.compares_users) {
            let user_id = flow.target.user_id.to_string();
            if *user != user_id {
                let detail = format!("{}: the bill says {user}, here it is {user_id}", ours.what);
                found.add(FindingKind::UserDiffers, detail);
            }
        }
        time(ours, row, rules, found);
    }
    reference(ours, rows, rules, found);
}

fn amount(order: &Order, flow: &ReconFlow, ours: &Ours<'_>, row: &BillRow, found: &mut Found<'_>) {
    if row.amount_minor == ours.amount_minor {
        return;
    }
    let currency = flow.money.currency().as_str();
    let is_refund_above =
        ours.what == "refund" && row.amount_minor > ours.amount_minor && row.currency == currency;
    if is_refund_above {
        // Said where refunds are added up.
        return;
    }
    let lies_across = row.carried_from.is_some() || ours.at.is_some_and(|at| !order.day.contains(at));
    let kind = if lies_across { FindingKind::CarriedAmountDiffers } else { FindingKind::AmountDiffers };
    let (by_bill, here) = (shown(row.amount_minor, &row.currency), shown(ours.amount_minor, currency));
    let detail = format!("{}: the bill says {by_bill}, here it is {here}", ours.what);
    found.add_for(kind, detail, row.amount_minor.abs_diff(ours.amount_minor), currency);
}

/// Whole seconds in the text: sides that round alike say the same every time.
fn time(ours: &Ours<'_>, row: &BillRow, rules: &Rules, found: &mut Found<'_>) {
    let Some(at) = ours.at.filter(|_| row.proof == Proof::Settled) else { return };
    let apart_ms = (row.at - at).num_milliseconds().unsigned_abs();
    if apart_ms > rules.time_gap_limit_ms {
        let text = |at: DateTime<Utc>| at.format("%FT%TZ");
        let detail = format!("{}: the bill says {}, here it is {}", ours.what, text(row.at), text(at));
        found.add(FindingKind::TimeGap, detail);
    }
}

/// One of the bill's transactions must be ours. Where it has several, the surplus is said elsewhere.
fn reference(ours: &Ours<'_>, rows: &[&BillRow], rules: &Rules, found: &mut Found<'_>) {
    let Some(transaction) = ours.transaction.filter(|_| rules.compares_references) else { return };
    let named: Vec<&str> = rows.iter().filter_map(|row| row.channel_ref.as_deref()).collect();
    if let Some(first) = named.first().filter(|_| !named.contains(&transaction.as_str())) {
        let detail = format!("{}: the bill says {first}, here it is {transaction}", ours.what);
        found.add(FindingKind::ReferenceDiffers, detail);
    }
}
