//! Entries near a midnight, whose counterpart may lie in the neighbouring day's records: they wait before they become tickets.
//! And rows whose payment belongs to another day: that day is told of them. Pure.

use chrono::{NaiveDate, TimeDelta};
use flow_core::ids::OrderRef;
use flow_core::ports::{CarryKey, CarrySide, EntryKind, ReconFlow};
use flow_core::recon::{DiffResult, Finding, FindingKind};
use flow_core::state::State;

use crate::calendar::Calendar;
use crate::order::{BillRow, Order, Proof};
use crate::record::Waiting;

/// What is known about the neighbouring days.
#[derive(Debug, Clone, Copy)]
pub struct Neighbours {
    /// The channel's calendar.
    pub calendar: Calendar,
    /// How close to midnight an entry must be to wait.
    pub within: TimeDelta,
    /// Whether the day before was compared to the end.
    pub before_is_done: bool,
    /// Whether the day after was.
    pub after_is_done: bool,
}

/// What one order comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// For its ticket.
    pub result: DiffResult,
    /// What waits from now on, all of it.
    pub waiting: Vec<Waiting>,
}

impl Neighbours {
    /// The neighbouring day for which something of this moment is to wait.
    fn awaited_day(&self, order: &Order, at: chrono::DateTime<chrono::Utc>) -> Option<NaiveDate> {
        let neighbour = order.day.neighbour_of(at, self.within)?;
        let is_done = if neighbour < order.day.date { self.before_is_done } else { self.after_is_done };
        (!is_done).then_some(neighbour)
    }
}

/// Sorts findings into those that wait, those of this day and those of others, and lists what waits.
pub fn settle(order: &Order, found: Vec<Finding>, neighbours: &Neighbours) -> Settled {
    let today = order.day.date;
    let mut waiting = Vec::new();
    let mut explained = Vec::new();
    if let Some(flow) = &order.local {
        for row in order.rows.iter().filter(|row| row.carried_from.is_none()) {
            tell_its_day(order, flow, row, neighbours, &mut waiting, &mut explained);
        }
    }
    let mut result = DiffResult { day: today, found: Vec::new(), carried: Vec::new(), explained };
    for finding in found {
        if finding.day != today {
            result.carried.push(finding);
            continue;
        }
        let waits = waits(order, &finding, neighbours);
        if waits.is_empty() {
            result.found.push(finding);
        } else {
            waiting.extend(waits);
        }
    }
    waiting.sort_by(|a, b| a.key.cmp(&b.key));
    waiting.dedup_by(|a, b| a.key == b.key);
    Settled { result, waiting }
}

/// The day of the bill that must have a row of this kind for our flow.
fn own_day(flow: &ReconFlow, row: &BillRow, calendar: Calendar) -> Option<NaiveDate> {
    match row.kind {
        EntryKind::Payment => flow.paid_at.map(|at| calendar.date_of(at)),
        EntryKind::Refund => {
            let ours = row.entry_no.as_str() == flow.refund_order_no.as_str();
            let ended = flow.finished_at.filter(|_| ours && flow.state == State::Refunded);
            ended.map(|at| calendar.date_of(at))
        }
    }
}

/// A settled row in this bill, whose payment counts on another day: it waits for that day's batch, and what that day may
/// have missed is explained.
fn tell_its_day(
    order: &Order,
    flow: &ReconFlow,
    row: &BillRow,
    neighbours: &Neighbours,
    waiting: &mut Vec<Waiting>,
    explained: &mut Vec<(NaiveDate, FindingKind)>,
) {
    let own_day = own_day(flow, row, neighbours.calendar).filter(|day| *day != order.day.date);
    let Some(own_day) = own_day.filter(|_| row.proof == Proof::Settled) else { return };
    let absences: &[FindingKind] = match row.kind {
        EntryKind::Payment => &[FindingKind::LocalPaidWalletNothing, FindingKind::LocalSuccessWalletNothing],
        EntryKind::Refund => &[FindingKind::LocalRefundedWalletOpen],
    };
    explained.extend(absences.iter().map(|kind| (own_day, *kind)));
    waiting.extend(of_row(order, row, own_day));
}

fn of_row(order: &Order, row: &BillRow, waits_for: NaiveDate) -> Option<Waiting> {
    let key = CarryKey {
        order_no: order.order_no.clone(),
        side: CarrySide::Bill,
        kind: row.kind,
        entry_no: row.entry_no.clone(),
    };
    let kept = BillRow { carried_from: Some(order.day.date), ..row.clone() };
    let record = serde_json::to_string(&kept).ok()?;
    Some(Waiting { key, day: order.day.date, waits_for, record })
}

fn of_ours(order: &Order, kind: EntryKind, entry_no: &str, waits_for: NaiveDate) -> Option<Waiting> {
    let entry_no = OrderRef::new(entry_no).ok()?;
    let key = CarryKey { order_no: order.order_no.clone(), side: CarrySide::Local, kind, entry_no };
    Some(Waiting { key, day: order.day.date, waits_for, record: "{}".to_owned() })
}

/// What lets a finding wait; empty if it is one now.
fn waits(order: &Order, finding: &Finding, neighbours: &Neighbours) -> Vec<Waiting> {
    let rows = |kind: EntryKind| {
        let todays = order.rows.iter().filter(move |row| row.kind == kind && row.carried_from.is_none());
        let waits =
            todays.map(|row| neighbours.awaited_day(order, row.at).and_then(|day| of_row(order, row, day)));
        // One that does not wait is enough to speak of it now.
        waits.collect::<Option<Vec<Waiting>>>().unwrap_or_default()
    };
    let ours = |kind: EntryKind| {
        let flow = order.local.as_ref()?;
        let (at, number) = match kind {
            EntryKind::Payment => (flow.paid_at, flow.trade_order_no.as_str()),
            EntryKind::Refund => (flow.finished_at, flow.refund_order_no.as_str()),
        };
        of_ours(order, kind, number, neighbours.awaited_day(order, at?)?)
    };
    match finding.kind {
        FindingKind::LocalPaidWalletNothing | FindingKind::LocalSuccessWalletNothing => {
            ours(EntryKind::Payment).into_iter().collect()
        }
        FindingKind::LocalRefundedWalletOpen
            if order.rows.iter().all(|row| row.kind == EntryKind::Payment) =>
        {
            ours(EntryKind::Refund).into_iter().collect()
        }
        FindingKind::WalletPaidNoFlow => rows(EntryKind::Payment),
        FindingKind::RefundWithoutPayment if order.local.is_none() => rows(EntryKind::Refund),
        FindingKind::LocalRefundedWalletOpen
        | FindingKind::RefundWithoutPayment
        | FindingKind::WalletPaidLocalOpen
        | FindingKind::WalletPaidLocalPayFail
        | FindingKind::WalletRefundedLocalRefunding
        | FindingKind::WalletRefundedLocalSuccess
        | FindingKind::WalletRefundedUnasked
        | FindingKind::RefundAbovePayment
        | FindingKind::RefundOfAnotherPayment
        | FindingKind::AmountDiffers
        | FindingKind::CarriedAmountDiffers
        | FindingKind::CurrencyDiffers
        | FindingKind::UserDiffers
        | FindingKind::ReferenceDiffers
        | FindingKind::DuplicateBillRow
        | FindingKind::TwoCharges
        | FindingKind::TwoAttemptsCharged
        | FindingKind::BenefitWithoutPayment
        | FindingKind::BenefitOwnedByOther
        | FindingKind::PayedBenefitUnattributed
        | FindingKind::SuccessWithoutBenefit
        | FindingKind::FactUnreadable
        | FindingKind::TimeGap => Vec::new(),
    }
}
