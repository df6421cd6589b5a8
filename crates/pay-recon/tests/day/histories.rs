//! Histories as the simulator makes them, with lost, doubled, late and early messages, dead processes and operators: the
//! wallet's books as bills, the business system's as facts, our rows as they ended. They reconcile clean; and where any one
//! field of any one record is spoilt, one ticket names it and closes when it is mended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, NaiveDate, TimeDelta};
use chrono_tz::Tz;
use flow_bills::{BillEntry, EntryKind, Proof};
use flow_core::answer::FactAnswer;
use flow_core::flow::Flow;
use flow_core::ids::{OrderRef, Target};
use flow_core::money::{Currency, Money};
use flow_core::recon::FindingKind;
use flow_core::state::State;
use flow_simulation::onlooker::Moment;
use flow_simulation::run::{Setup, run_before};
use flow_testkit::clock::ManualClock;
use flow_testkit::samples;
use pay_recon::calendar::Calendar;
use pay_sim::ledger::{Effect, OrderLedger};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::rig::Rig;

/// How far both sides' times may lie apart here: a row is written when an answer comes, and in these worlds the first one that
/// does may take most of a day.
const TIME_GAP_LIMIT: TimeDelta = TimeDelta::hours(24);
/// More than that.
const FAR: TimeDelta = TimeDelta::hours(49);
/// Midnights of these fall into histories that begin at midnight in UTC and take hours.
const ZONES: [Tz; 3] = [Tz::UTC, Tz::Asia__Shanghai, Tz::America__New_York];
/// Days that are compared beyond the last on which something happened: what was spoilt may point so far.
const DAYS_BEYOND: i64 = 4;

/// How a history ended.
struct History {
    rows: Vec<Flow>,
    wallet: Vec<OrderLedger>,
    business: Vec<OrderLedger>,
}

impl History {
    fn of(seed: u64) -> History {
        let last = Arc::new(Mutex::new(None::<Moment>));
        let seen = Arc::clone(&last);
        let look = move |moment: &Moment| {
            *seen.lock().unwrap() = Some(moment.clone());
            Ok(())
        };
        let ran = run_before(&Setup { seed, ..Setup::default() }, Box::new(look));
        assert_eq!(ran.broken, None, "seed {seed}");
        let moment = last.lock().unwrap().take();
        let (rows, wallet, business) =
            moment.map(|moment| (moment.rows, moment.wallet, moment.business)).unwrap_or_default();
        History { rows, wallet, business }
    }

    /// Orders that wait for people: what they wait for may be a difference. Nothing else is left open.
    fn held(&self) -> BTreeSet<String> {
        let open: Vec<&Flow> = self.rows.iter().filter(|flow| !flow.state.is_terminal()).collect();
        let stuck: Vec<&&Flow> = open.iter().filter(|flow| flow.hold.is_none()).collect();
        assert!(stuck.is_empty(), "neither ended nor held: {stuck:#?}");
        open.iter().map(|flow| flow.trade_order_no.to_string()).collect()
    }

    fn row_of(&self, order_no: &str) -> Option<&Flow> {
        self.rows.iter().find(|flow| flow.trade_order_no.as_str() == order_no)
    }

    /// What the wallet's books say happened, as rows of its bills.
    fn bill_rows(&self) -> Vec<BillEntry> {
        let entries = |order: &OrderLedger| {
            let user = self.row_of(&order.trade_order_no).map(|flow| flow.target.user_id.to_string());
            let row = |entry: &pay_sim::ledger::Entry| bill_row(&order.trade_order_no, user.clone(), entry);
            order.entries.iter().filter_map(row).collect::<Vec<_>>()
        };
        self.wallet.iter().flat_map(entries).collect()
    }

    /// Who owns each target.
    fn facts(&self) -> BTreeMap<(i64, String, String), String> {
        let owned = self
            .business
            .iter()
            .filter_map(|order| Some((order.target.as_ref()?, order.owner_of_target.clone()?)));
        let key = |target: &pay_sim::ledger::Target| {
            (i64::try_from(target.user_id).unwrap(), target.scene.clone(), target.biz_key.clone())
        };
        owned.map(|(target, owner)| (key(target), owner)).collect()
    }
}

fn bill_row(order_no: &str, user: Option<String>, entry: &pay_sim::ledger::Entry) -> Option<BillEntry> {
    let (kind, number, money, transaction) = match &entry.effect {
        Effect::Charge { money, transaction_id } => (EntryKind::Payment, order_no, money, transaction_id),
        Effect::Refund { refund_order_no, money, transaction_id } => {
            (EntryKind::Refund, refund_order_no.as_str(), money, transaction_id)
        }
        Effect::Grant { .. } => return None,
    };
    Some(BillEntry {
        kind,
        order_no: number.to_owned(),
        trade_order_no: (kind == EntryKind::Refund).then(|| order_no.to_owned()),
        amount_minor: u64::try_from(money.amount).unwrap(),
        currency: money.currency.clone(),
        user,
        channel_ref: Some(transaction.clone()),
        at: DateTime::from_timestamp_millis(entry.at_ms).unwrap(),
        proof: Proof::Settled,
        line: 0,
        raw: format!("{number},{transaction}"),
    })
}

/// A history laid out to be reconciled.
struct Laid {
    rig: Rig,
    days: Vec<NaiveDate>,
}

impl Laid {
    fn out(history: &History, zone: Tz) -> Laid {
        let mut rig = Rig::at(ManualClock::new());
        rig.channel.calendar = Calendar::new(zone);
        rig.channel.rules.time_gap_limit_ms = u64::try_from(TIME_GAP_LIMIT.num_milliseconds()).unwrap();
        let mut happened: BTreeSet<NaiveDate> = BTreeSet::new();
        let calendar = rig.channel.calendar;
        for flow in &history.rows {
            rig.flows.put_as_is(flow.clone());
            happened.extend(
                [flow.paid_at, flow.finished_at].into_iter().flatten().map(|at| calendar.date_of(at)),
            );
        }
        for row in history.bill_rows() {
            let day = calendar.date_of(row.at);
            happened.insert(day);
            rig.row(day, row);
        }
        let facts = history.facts();
        for flow in &history.rows {
            let Target { user_id, scene, biz_key } = &flow.target;
            let owner = facts.get(&(user_id.get(), scene.to_string(), biz_key.to_string()));
            if let Some(owner) = owner {
                rig.says(flow, FactAnswer::Done { owner: OrderRef::new(owner.as_str()).unwrap() });
            }
        }
        let (first, last) = (happened.first().copied(), happened.last().copied());
        let days = first
            .zip(last)
            .map(|(first, last)| days(first - TimeDelta::days(1), last + TimeDelta::days(DAYS_BEYOND)));
        Laid { rig, days: days.unwrap_or_default() }
    }

    /// Compares every day, in order.
    async fn reconcile(&self) {
        for day in &self.days {
            self.rig.run(*day).await;
        }
    }

    /// Orders with tickets that have differences.
    fn found(&self) -> BTreeSet<String> {
        self.rig.found().into_keys().collect()
    }
}

fn days(first: NaiveDate, last: NaiveDate) -> Vec<NaiveDate> {
    first.iter_days().take_while(|day| *day <= last).collect()
}

/// What is spoilt.
enum Spoilt {
    Row(NaiveDate, usize),
    Flow(usize),
    Fact(usize),
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happened_reconciles_clean_and_any_one_spoilt_record_is_named_by_one_ticket() {
    let (mut flows, mut spoilt_orders, mut held_orders) = (0, 0, 0);
    for seed in 0..120 {
        let history = tokio::task::spawn_blocking(move || History::of(seed)).await.unwrap();
        let mut rng = StdRng::seed_from_u64(seed);
        let zone = *ZONES.choose(&mut rng).unwrap();
        let laid = Laid::out(&history, zone);
        laid.reconcile().await;
        let held = history.held();
        let unexpected: Vec<_> =
            laid.rig.found().into_iter().filter(|(order, _)| !held.contains(order)).collect();
        assert!(unexpected.is_empty(), "seed {seed}, {zone}: {unexpected:#?}");
        flows += history.rows.len();
        held_orders += held.len();
        println!("seed {seed}");
        if held.is_empty()
            && let Some(order_no) = spoil_something(laid, &history, zone, &mut rng).await
        {
            assert!(!order_no.is_empty());
            spoilt_orders += 1;
        }
    }
    println!("{flows} flows of 120 histories, {held_orders} of them held; {spoilt_orders} records spoilt");
    assert!(flows > 250 && spoilt_orders > 60, "{flows} flows, {spoilt_orders} spoilt");
}

/// Spoils one field of one record, looks for its ticket, mends it and looks again. Gives the order that was spoilt, if the
/// history has one.
async fn spoil_something(mut laid: Laid, history: &History, zone: Tz, rng: &mut StdRng) -> Option<String> {
    let rows =
        laid.rig.bills.iter().flat_map(|(day, rows)| (0..rows.len()).map(|row| Spoilt::Row(*day, row)));
    let flows =
        (0..history.rows.len()).filter(|flow| history.rows[*flow].paid_at.is_some()).map(Spoilt::Flow);
    let facts = (0..history.rows.len())
        .filter(|flow| history.rows[*flow].state == State::BizSuccess)
        .map(Spoilt::Fact);
    let all: Vec<Spoilt> = rows.chain(flows).chain(facts).collect();
    let (bills, order_no, what) = match all.choose(rng)? {
        Spoilt::Row(day, row) => {
            let before = laid.rig.bills.clone();
            let (order_no, what) = spoil_row(laid.rig.bills.get_mut(day)?, *row, rng);
            (Some(before), order_no, what)
        }
        Spoilt::Flow(flow) => {
            let flow = &history.rows[*flow];
            let (spoilt, what) = spoil_flow(flow, rng);
            laid.rig.flows.put_as_is(spoilt);
            (None, flow.trade_order_no.to_string(), what)
        }
        Spoilt::Fact(flow) => {
            let flow = &history.rows[*flow];
            let foreign = FactAnswer::Done { owner: OrderRef::new("somebody-elses").unwrap() };
            let fact = if rng.random_bool(0.5) { FactAnswer::NotDone } else { foreign };
            laid.rig.says(flow, fact);
            (None, flow.trade_order_no.to_string(), "fact")
        }
    };
    laid.reconcile().await;
    let found = laid.rig.found();
    let kinds = found.get(&order_no).cloned().unwrap_or_default();
    assert!(kinds.iter().any(|kind| names(what).contains(kind)), "{what} in {zone} is called {kinds:?}");
    assert_eq!(laid.found(), [order_no.clone()].into(), "{what} in {zone}: {found:#?}");
    if let Some(before) = bills {
        laid.rig.bills = before;
    }
    let mended = Laid::out(history, zone);
    for flow in &history.rows {
        laid.rig.flows.put_as_is(flow.clone());
    }
    *laid.rig.business.facts.lock().unwrap() = mended.rig.business.facts.lock().unwrap().clone();
    laid.reconcile().await;
    assert!(laid.found().is_empty(), "{what} in {zone}, mended: {:#?}", laid.rig.found());
    assert_eq!(laid.rig.store.tickets().len(), 1, "{what} in {zone}");
    Some(order_no)
}

/// Spoils a row, takes it away or doubles it. Its number is left: that would be two orders.
fn spoil_row(rows: &mut Vec<BillEntry>, number: usize, rng: &mut StdRng) -> (String, &'static str) {
    let row = &mut rows[number];
    let is_refund = row.kind == EntryKind::Refund;
    let order_no = row.trade_order_no.clone().unwrap_or_else(|| row.order_no.clone());
    let what = match rng.random_range(0..if is_refund { 9 } else { 8 }) {
        0 => {
            rows.remove(number);
            "row taken away"
        }
        1 => {
            rows.push(rows[number].clone());
            "row doubled"
        }
        2 => {
            row.amount_minor += rng.random_range(1..100);
            "row's amount"
        }
        3 => {
            row.currency = "USD".to_owned();
            "row's currency"
        }
        4 => {
            row.user = Some("424242".to_owned());
            "row's user"
        }
        5 => {
            row.channel_ref = Some("elsewhere".to_owned());
            "row's transaction"
        }
        6 => {
            row.at += FAR;
            "row's time"
        }
        7 => {
            row.proof = Proof::Accepted;
            "row's proof"
        }
        _ => {
            row.trade_order_no = Some("h2r_1_1".to_owned());
            "row's payment"
        }
    };
    (order_no, what)
}

/// Spoils a row of ours that was paid. A state only into another terminal one: others are woken, and mend themselves.
fn spoil_flow(flow: &Flow, rng: &mut StdRng) -> (Flow, &'static str) {
    let mut spoilt = flow.clone();
    let (amount, currency) = (flow.money.amount(), flow.money.currency().clone());
    let what = match rng.random_range(0..5) {
        0 => {
            spoilt.money = Money::new(amount + 1, currency).unwrap();
            "flow's amount"
        }
        1 => {
            spoilt.money = Money::new(amount, Currency::new("USD").unwrap()).unwrap();
            "flow's currency"
        }
        2 => {
            spoilt.wallet_pay_txn = Some(samples::reference("elsewhere"));
            "flow's transaction"
        }
        3 => {
            spoilt.paid_at = flow.paid_at.map(|at| at + FAR);
            "flow's time"
        }
        _ => {
            spoilt.state = match flow.state {
                State::BizSuccess => State::Refunded,
                State::Refunded => State::BizSuccess,
                other @ (State::WaitPay
                | State::Paying
                | State::PayFail
                | State::Payed
                | State::Refunding) => {
                    panic!("only what was paid and has ended is spoilt, not {other}")
                }
            };
            "flow's state"
        }
    };
    (spoilt, what)
}

/// What a ticket may call it.
fn names(what: &str) -> &'static [FindingKind] {
    use FindingKind as K;
    match what {
        "row taken away" | "row's proof" => {
            &[K::LocalPaidWalletNothing, K::LocalSuccessWalletNothing, K::LocalRefundedWalletOpen]
        }
        "row doubled" => &[K::DuplicateBillRow],
        "row's amount" | "flow's amount" => {
            &[K::AmountDiffers, K::CarriedAmountDiffers, K::RefundAbovePayment]
        }
        "row's currency" | "flow's currency" => &[K::CurrencyDiffers],
        "row's user" => &[K::UserDiffers],
        "row's transaction" | "flow's transaction" => &[K::ReferenceDiffers],
        "row's time" | "flow's time" => &[K::TimeGap],
        "row's payment" => &[K::RefundOfAnotherPayment],
        "flow's state" => &[K::LocalRefundedWalletOpen, K::WalletRefundedLocalSuccess],
        "fact" => &[K::SuccessWithoutBenefit, K::BenefitOwnedByOther],
        other => panic!("nobody says what {other} is called"),
    }
}
