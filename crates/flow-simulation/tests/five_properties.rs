//! The five properties of the requirements (section fifteen of the first seed), each a test by its own name, over random
//! arrangements of payment answers, completion by the business, refunds, doubled and late messages and scans: the
//! shipped `advance`, creation, timer and scanner's rounds in simulated worlds.
//!
//! Each property is written down here, from the raw rows and the raw books alone, and looked at after every step: every
//! read and write of a row, every insert, everything that happens at the wallet or the business system. The
//! simulation's own judgement is silent meanwhile. What `met` counts is how often a property was really at stake.
//!
//! Each has its negative twins: a wallet or business system that breaks its contract, or a deliberate fault in the
//! product, of which the same look says that this property is broken, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use flow_core::flow::Flow;
use flow_core::ids::FlowId;
use flow_core::state::State;
use flow_simulation::onlooker::{Moment, Step};
use flow_simulation::run::{Setup, run_before};
use flow_testkit::fakes::Switches;
use flow_testkit::mutants::{Mutant, Subject};
use pay_sim::ledger::{Effect, OrderLedger};

/// How many seeds each of the two ranges has, the fixed one and the fresh one.
const SEEDS: u64 = 200;

/// How often a property must have been at stake in each range for its test to mean anything.
const LEAST_MET: usize = 10;

/// Within how many seeds a twin must be found.
const SEEDS_PER_TWIN: u64 = 400;

/// The five.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Property {
    /// `charge_count(trade_order_no) <= 1`
    One,
    /// `refund_count(refund_order_no) <= 1`
    Two,
    /// `status == BIZ_SUCCESS => refund_count == 0`
    Three,
    /// `status == REFUNDED => charge_success && business_not_owned_by_this_attempt`
    Four,
    /// `terminal(status) => ordinary_trigger_cannot_change_status`
    Five,
}

/// Somebody who looks at every step of one run, and remembers what is needed for it.
#[derive(Debug, Default)]
struct Look {
    steps: u64,
    /// Rows that have ended, and how.
    ended: BTreeMap<FlowId, State>,
    /// What put each property to the test.
    met: BTreeMap<Property, BTreeSet<String>>,
    broken: BTreeMap<Property, String>,
}

impl Look {
    fn at(&mut self, moment: &Moment) -> Result<(), String> {
        self.steps += 1;
        self.property_1(moment);
        self.property_2(moment);
        self.property_3(moment);
        self.property_4(moment);
        self.property_5(moment);
        if self.broken.is_empty() { Ok(()) } else { Err(format!("{:?}", self.broken)) }
    }

    /// `charge_count(trade_order_no) <= 1`. An attempt has one number, its row's: a charge under any other is a second
    /// one in the making, that nobody would ever ask about.
    fn property_1(&mut self, moment: &Moment) {
        for order in &moment.wallet {
            let number = &order.trade_order_no;
            let charges = charges(order);
            if charges > 1 {
                self.breaks(Property::One, format!("{charges} charges under {number}"));
            }
            let is_a_rows = moment.rows.iter().any(|row| row.trade_order_no.as_str() == number);
            if charges > 0 && !is_a_rows {
                self.breaks(Property::One, format!("a charge under {number}, which is no row's"));
            }
            if charges > 0 && order.calls.debit > 1 {
                self.meets(Property::One, number);
            }
        }
    }

    /// `refund_count(refund_order_no) <= 1`, over the whole of the wallet's books. For a refund under a number that is
    /// not its row's the same goes as for a charge.
    fn property_2(&mut self, moment: &Moment) {
        let mut refunds: BTreeMap<&str, u32> = BTreeMap::new();
        for order in &moment.wallet {
            let row = moment.rows.iter().find(|row| row.trade_order_no.as_str() == order.trade_order_no);
            for number in refund_numbers(order) {
                *refunds.entry(number).or_default() += 1;
                if row.is_none_or(|row| row.refund_order_no.as_str() != number) {
                    self.breaks(Property::Two, format!("a refund under {number}, which is not its row's"));
                }
                if order.calls.refund > 1 {
                    self.meets(Property::Two, number);
                }
            }
        }
        for (number, count) in refunds.into_iter().filter(|(_, count)| *count > 1) {
            self.breaks(Property::Two, format!("{count} refunds under {number}"));
        }
    }

    /// `status == BIZ_SUCCESS => refund_count == 0`
    fn property_3(&mut self, moment: &Moment) {
        for row in rows_in(moment, State::BizSuccess) {
            let refunds = order_of(row, &moment.wallet).map_or(0, |order| refund_numbers(order).count());
            if refunds > 0 {
                self.breaks(
                    Property::Three,
                    format!("flow {} is BIZ_SUCCESS with {refunds} refunds", row.id),
                );
            }
            if moment.step == Step::Read(row.id) {
                self.meets(Property::Three, row.trade_order_no.as_str());
            }
        }
    }

    /// `status == REFUNDED => charge_success && business_not_owned_by_this_attempt`
    fn property_4(&mut self, moment: &Moment) {
        for row in rows_in(moment, State::Refunded) {
            let number = row.trade_order_no.as_str();
            let charge_success = order_of(row, &moment.wallet).is_some_and(|order| charges(order) == 1);
            let tried = order_of(row, &moment.business);
            let owned = tried.is_some_and(|order| order.owner_of_target.as_deref() == Some(number));
            let granted = tried.is_some_and(|order| grants(order) > 0);
            if !charge_success || owned || granted {
                let seen = format!("charged: {charge_success}, owner: {owned}, granted: {granted}");
                self.breaks(Property::Four, format!("flow {} is REFUNDED; {seen}", row.id));
            }
            if tried.is_some() {
                self.meets(Property::Four, number);
            }
        }
    }

    /// `terminal(status) => ordinary_trigger_cannot_change_status`. Every entrance of a simulated world is an ordinary
    /// trigger: request, replay, cancel, timer, scanner, the operator's push, hold and release. It is at stake where one
    /// of them reads or tries to write a row that has ended.
    fn property_5(&mut self, moment: &Moment) {
        for row in &moment.rows {
            match self.ended.get(&row.id) {
                Some(ended) if *ended != row.state => {
                    let ended = *ended;
                    self.breaks(Property::Five, format!("flow {} was {ended} and is {}", row.id, row.state));
                }
                Some(_) if matches!(moment.step, Step::Read(id) | Step::Written(id) if id == row.id) => {
                    self.meets(Property::Five, row.trade_order_no.as_str());
                }
                Some(_) => {}
                None if row.state.is_terminal() => drop(self.ended.insert(row.id, row.state)),
                None => {}
            }
        }
    }

    fn breaks(&mut self, property: Property, seen: String) {
        self.broken.entry(property).or_insert(seen);
    }

    fn meets(&mut self, property: Property, subject: &str) {
        self.met.entry(property).or_default().insert(subject.to_owned());
    }
}

fn charges(order: &OrderLedger) -> usize {
    order.entries.iter().filter(|entry| matches!(entry.effect, Effect::Charge { .. })).count()
}

fn grants(order: &OrderLedger) -> usize {
    order.entries.iter().filter(|entry| matches!(entry.effect, Effect::Grant { .. })).count()
}

fn refund_numbers(order: &OrderLedger) -> impl Iterator<Item = &str> {
    order.entries.iter().filter_map(|entry| match &entry.effect {
        Effect::Refund { refund_order_no, .. } => Some(refund_order_no.as_str()),
        Effect::Charge { .. } | Effect::Grant { .. } => None,
    })
}

fn order_of<'a>(row: &Flow, books: &'a [OrderLedger]) -> Option<&'a OrderLedger> {
    books.iter().find(|order| order.trade_order_no == row.trade_order_no.as_str())
}

fn rows_in(moment: &Moment, state: State) -> impl Iterator<Item = &Flow> {
    moment.rows.iter().filter(move |row| row.state == state)
}

const ALONE: &str = "a run has one thread";

/// Runs one world before this look.
fn looked_at(setup: &Setup) -> Look {
    let look = Arc::new(Mutex::new(Look::default()));
    let eyes = Arc::clone(&look);
    run_before(setup, Box::new(move |moment| eyes.lock().expect(ALONE).at(moment)));
    let mut look = look.lock().expect(ALONE);
    std::mem::take(&mut *look)
}

/// What many runs came to.
#[derive(Debug)]
struct Seen {
    seeds: Range<u64>,
    steps: u64,
    met: BTreeMap<Property, usize>,
    /// The seeds that broke something, and what.
    broken: BTreeMap<u64, BTreeMap<Property, String>>,
}

/// In every other world each call that changes something arrives twice.
fn is_doubled(seed: u64) -> bool {
    seed % 2 == 1
}

fn look_at_all(seeds: Range<u64>) -> Seen {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = |thread: usize| seeds.clone().skip(thread).step_by(threads);
    let looks: Vec<(u64, Look)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let seeds = share(thread);
                let setup = |seed| Setup { seed, doubled: is_doubled(seed), ..Setup::default() };
                let look = move |seed| (seed, looked_at(&setup(seed)));
                scope.spawn(move || seeds.map(look).collect::<Vec<_>>())
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().expect("a look that panics has said why"))
            .collect()
    });
    let mut seen = Seen { seeds, steps: 0, met: BTreeMap::new(), broken: BTreeMap::new() };
    for (seed, look) in looks {
        seen.steps += look.steps;
        for (property, subjects) in look.met {
            *seen.met.entry(property).or_default() += subjects.len();
        }
        if !look.broken.is_empty() {
            seen.broken.insert(seed, look.broken);
        }
    }
    seen
}

/// The product in its worlds, fixed seeds and fresh ones. Looked at once for all five.
fn the_product() -> &'static [Seen; 2] {
    static SEEN: OnceLock<[Seen; 2]> = OnceLock::new();
    SEEN.get_or_init(|| {
        let fresh = RandomState::new().build_hasher().finish() >> 1;
        [look_at_all(0..SEEDS), look_at_all(fresh..fresh + SEEDS)]
    })
}

/// The product keeps this property, and it was at stake often enough.
fn holds(property: Property) {
    for seen in the_product() {
        let met = seen.met.get(&property).copied().unwrap_or(0);
        println!("{property:?}: seeds {:?}, {} steps, at stake {met} times", seen.seeds, seen.steps);
        let mut broken = seen.broken.iter().filter(|(_, broken)| broken.contains_key(&property));
        if let Some((seed, what)) = broken.next() {
            let twice = if is_doubled(*seed) { " --doubled" } else { "" };
            panic!("seed {seed}: {what:?}\nreplay: cargo xtask sim --seed {seed} --story{twice}");
        }
        assert!(met >= LEAST_MET, "{property:?} was at stake only {met} times");
    }
}

/// Of a product or far side with this fault, the same look says that this property is broken, and no other.
fn is_all_that_breaks(property: Property, what: &str, subject: Subject, far_side: &Switches, from: u64) {
    for seed in from..from + SEEDS_PER_TWIN {
        let setup = Setup { seed, subject, far_side: far_side.clone(), ..Setup::default() };
        let broken = looked_at(&setup).broken;
        if let Some((first, seen)) = broken.first_key_value() {
            println!("{what}: seed {seed}: {seen}");
            assert_eq!((*first, broken.len()), (property, 1), "{what}, seed {seed}: {broken:?}");
            return;
        }
    }
    panic!("{what}: nothing is broken within {SEEDS_PER_TWIN} seeds from {from}");
}

fn is_broken_by_far_side(property: Property, what: &str, far_side: &Switches, from: u64) {
    is_all_that_breaks(property, what, Subject::SHIPPED, far_side, from);
}

fn is_broken_by(property: Property, mutant: Mutant, from: u64) {
    let (what, subject) = (mutant.name(), Subject::with(mutant));
    is_all_that_breaks(property, what, subject, &Switches::default(), from);
}

#[test]
fn property_1_at_most_one_charge_per_trade_order_no() {
    holds(Property::One);
}

#[test]
fn property_1_is_broken_by_a_wallet_that_charges_a_doubled_message() {
    let far_side = Switches { double_charge: true, ..Switches::default() };
    is_broken_by_far_side(Property::One, "double charge", &far_side, 0);
}

#[test]
fn property_1_is_broken_by_a_retry_under_a_new_number() {
    is_broken_by(Property::One, Mutant::NewTradeNumber, 0);
}

#[test]
fn property_2_at_most_one_refund_per_refund_order_no() {
    holds(Property::Two);
}

#[test]
fn property_2_is_broken_by_a_wallet_that_pays_a_doubled_message_back() {
    let far_side = Switches { double_refund: true, ..Switches::default() };
    is_broken_by_far_side(Property::Two, "double refund", &far_side, 0);
}

#[test]
fn property_2_is_broken_by_a_refund_under_a_new_number() {
    is_broken_by(Property::Two, Mutant::NewRefundNumber, 0);
}

#[test]
fn property_3_biz_success_has_no_refund() {
    holds(Property::Three);
}

#[test]
fn property_3_is_broken_by_a_deadline_that_pays_a_success_back() {
    is_broken_by(Property::Three, Mutant::SuccessRefunded, 0);
}

#[test]
fn property_4_refunded_was_charged_and_is_not_owned_by_this_attempt() {
    holds(Property::Four);
}

#[test]
fn property_4_is_broken_by_a_business_that_takes_late_executions() {
    let far_side = Switches { ignore_not_after: true, ..Switches::default() };
    // Such a message must arrive in the right seconds: rare, and near here.
    is_broken_by_far_side(Property::Four, "ignored not_after", &far_side, 200);
}

#[test]
fn property_4_is_broken_by_a_refund_that_does_not_read_the_fact() {
    is_broken_by(Property::Four, Mutant::RefundUnread, 0);
}

/// The decisions and the compare-and-swap keep it here. That the database keeps it as well, whoever writes, is shown by
/// `of_49_raw_updates_six_are_accepted` in `crates/flow-core/tests/store/guards.rs`: raw `UPDATE`s between all 49 pairs
/// of states, on both servers.
#[test]
fn property_5_no_ordinary_trigger_changes_a_terminal_state() {
    holds(Property::Five);
}

#[test]
fn property_5_is_broken_by_a_database_that_compares_and_guards_nothing() {
    is_broken_by(Property::Five, Mutant::CasById, 0);
}
