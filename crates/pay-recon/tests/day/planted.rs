//! A day with a known number of each kind planted: found exactly, twice, in any order of rows, over one part and over four.

use std::collections::{BTreeMap, BTreeSet};

use flow_bills::{BillEntry, EntryKind, Proof};
use flow_core::answer::FactAnswer;
use flow_core::recon::{FindingKind, Partition};
use flow_core::state::State;
use flow_testkit::samples;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::rig::{Rig, payment, refund, today};

type Expected = BTreeMap<String, BTreeSet<FindingKind>>;

/// Plants one difference of a kind; gives the order that must have it.
fn plant(rig: &mut Rig, kind: FindingKind) -> String {
    use FindingKind as K;
    let flow = match kind {
        K::WalletPaidLocalOpen => {
            let flow = rig.agreeing(State::Paying);
            let row = payment(&flow, rig.clock.now());
            rig.row(today(), row);
            flow
        }
        K::WalletPaidLocalPayFail => {
            let flow = rig.agreeing(State::PayFail);
            let row = payment(&flow, rig.clock.now());
            rig.row(today(), row);
            flow
        }
        K::WalletPaidNoFlow => {
            let flow = rig.agreeing(State::BizSuccess);
            let number = format!("foreign-{}", flow.id);
            let row = BillEntry { order_no: number.clone(), ..payment(&flow, rig.clock.now()) };
            rig.row(today(), row);
            return number;
        }
        K::LocalPaidWalletNothing => dropped(rig, State::Payed),
        K::LocalSuccessWalletNothing => dropped(rig, State::BizSuccess),
        K::LocalRefundedWalletOpen => dropped(rig, State::Refunded),
        K::WalletRefundedLocalRefunding => back(rig, State::Refunding),
        K::WalletRefundedLocalSuccess => back(rig, State::BizSuccess),
        K::WalletRefundedUnasked => back(rig, State::Payed),
        K::RefundWithoutPayment => back(rig, State::PayFail),
        K::RefundAbovePayment => edited(rig, State::Refunded, |row| row.amount_minor += 1),
        K::RefundOfAnotherPayment => {
            edited(rig, State::Refunded, |row| row.trade_order_no = Some("h2r_1_1".to_owned()))
        }
        K::AmountDiffers => edited(rig, State::BizSuccess, |row| row.amount_minor -= 1),
        K::CurrencyDiffers => edited(rig, State::BizSuccess, |row| row.currency = "USD".to_owned()),
        K::UserDiffers => edited(rig, State::BizSuccess, |row| row.user = Some("999".to_owned())),
        K::ReferenceDiffers => {
            edited(rig, State::BizSuccess, |row| row.channel_ref = Some("elsewhere".to_owned()))
        }
        K::TimeGap => edited(rig, State::BizSuccess, |row| row.at += chrono::TimeDelta::minutes(11)),
        K::DuplicateBillRow => again(rig, |_| {}),
        K::TwoCharges => again(rig, |row| row.channel_ref = Some("second".to_owned())),
        K::TwoAttemptsCharged => {
            let first = rig.agreeing(State::PayFail);
            let second = rig.flow(first.target.clone(), State::BizSuccess);
            rig.bill(&second);
            rig.owns(&first, &second);
            // The first attempt was charged after all.
            let row = payment(&first, rig.clock.now());
            rig.row(today(), row);
            first
        }
        K::BenefitWithoutPayment => {
            let flow = rig.agreeing(State::PayFail);
            rig.owns(&flow, &flow);
            flow
        }
        K::BenefitOwnedByOther => {
            let (flow, other) = (rig.agreeing(State::BizSuccess), rig.agreeing(State::PayFail));
            rig.owns(&flow, &other);
            flow
        }
        K::PayedBenefitUnattributed => says(rig, State::Payed, FactAnswer::Contradiction),
        K::SuccessWithoutBenefit => says(rig, State::BizSuccess, FactAnswer::NotDone),
        K::CarriedAmountDiffers | K::FactUnreadable => unreachable!("planted by tests of their own"),
    };
    flow.trade_order_no.to_string()
}

fn dropped(rig: &mut Rig, state: State) -> flow_core::flow::Flow {
    let flow = rig.agreeing(state);
    rig.bills.get_mut(&today()).unwrap().pop();
    flow
}

fn back(rig: &mut Rig, state: State) -> flow_core::flow::Flow {
    let flow = rig.agreeing(state);
    let row = refund(&flow, rig.clock.now());
    rig.row(today(), row);
    flow
}

fn edited(rig: &mut Rig, state: State, edit: impl FnOnce(&mut BillEntry)) -> flow_core::flow::Flow {
    let flow = rig.agreeing(state);
    edit(rig.last_row());
    flow
}

fn again(rig: &mut Rig, edit: impl FnOnce(&mut BillEntry)) -> flow_core::flow::Flow {
    let flow = rig.agreeing(State::BizSuccess);
    let mut row = rig.last_row().clone();
    edit(&mut row);
    rig.row(today(), row);
    flow
}

fn says(rig: &mut Rig, state: State, fact: FactAnswer) -> flow_core::flow::Flow {
    let flow = rig.agreeing(state);
    rig.says(&flow, fact);
    flow
}

/// The kinds that a bill and a business system of one day can bring about.
fn plantable() -> impl Iterator<Item = FindingKind> {
    let elsewhere = [FindingKind::CarriedAmountDiffers, FindingKind::FactUnreadable];
    FindingKind::ALL.iter().copied().filter(move |kind| !elsewhere.contains(kind))
}

/// What comes with a kind where it is planted as it happens.
fn kinds_of(kind: FindingKind) -> BTreeSet<FindingKind> {
    let mut kinds = BTreeSet::from([kind]);
    if kind == FindingKind::TwoAttemptsCharged {
        kinds.insert(FindingKind::WalletPaidLocalPayFail);
    }
    kinds
}

/// A busy day with so many of each kind.
fn planted(each: usize, rng: &mut StdRng) -> (Rig, Expected) {
    let mut rig = Rig::new();
    let mut kinds: Vec<Option<FindingKind>> = plantable().flat_map(|kind| vec![Some(kind); each]).collect();
    kinds.extend([None; 150]);
    kinds.shuffle(rng);
    let mut expected = Expected::new();
    for kind in kinds {
        match kind {
            Some(kind) => {
                let order_no = plant(&mut rig, kind);
                expected.insert(order_no, kinds_of(kind));
            }
            None => {
                let state = State::ALL[rng.random_range(0..State::ALL.len())];
                rig.agreeing(state);
            }
        }
    }
    (rig, expected)
}

#[tokio::test]
async fn every_planted_difference_is_found_once_and_nothing_else_twice_in_a_row() {
    let mut rng = StdRng::seed_from_u64(1);
    let (rig, expected) = planted(3, &mut rng);
    let first = rig.run(today()).await;
    assert_eq!(rig.found(), expected);
    assert_eq!(first.tally.differing_orders, u64::try_from(expected.len()).unwrap());
    assert_eq!(first.tally.tickets.opened, first.tally.differing_orders);
    let tickets = rig.store.tickets();
    let mut rows = rig.entries(today());
    rows.shuffle(&mut rng);
    let second = rig.try_run(today(), Partition::WHOLE, rows).await.unwrap();
    assert_eq!(rig.store.tickets(), tickets, "nothing was written");
    assert_eq!(second.tally.by_kind, first.tally.by_kind);
    assert_eq!(second.tally.sums, first.tally.sums);
    assert_eq!((second.tally.tickets.opened, second.tally.held_flows, second.tally.woken_flows), (0, 0, 0));
    assert!(first.tally.held_flows > 0 && first.tally.woken_flows > 0);
}

#[tokio::test]
async fn four_parts_find_what_one_finds() {
    let mut rng = StdRng::seed_from_u64(2);
    let (rig, expected) = planted(2, &mut rng);
    let mut tally = flow_core::recon::Tally::default();
    for index in 0..4 {
        let part = Partition::new(index, 4).unwrap();
        let report = rig.try_run(today(), part, rig.entries(today())).await.unwrap();
        tally.add(&report.tally);
    }
    assert_eq!(rig.found(), expected);
    let (whole, of_whole) = planted(2, &mut StdRng::seed_from_u64(2));
    assert_eq!(of_whole, expected);
    let one = whole.run(today()).await;
    assert_eq!(
        (tally.by_kind, tally.sums, tally.orders),
        (one.tally.by_kind, one.tally.sums, one.tally.orders)
    );
}

#[tokio::test]
async fn a_day_without_a_fault_is_clean_and_any_one_wrong_field_is_named_by_one_ticket() {
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut rig = Rig::new();
        for _ in 0..30 {
            rig.agreeing(State::ALL[rng.random_range(0..State::ALL.len())]);
        }
        // So that there is a row to spoil.
        rig.agreeing(State::Refunded);
        let clean = rig.run(today()).await;
        assert!(clean.is_clean() && rig.store.tickets().is_empty(), "seed {seed}: {:?}", rig.found());
        let mut rows = rig.entries(today());
        let number = rng.random_range(0..rows.len());
        let order_no = spoil(&mut rows[number], &mut rng);
        rig.try_run(today(), Partition::WHOLE, rows).await.unwrap();
        let found = rig.found();
        assert_eq!(found.keys().collect::<Vec<_>>(), [&order_no], "seed {seed}: {found:?}");
        // The bill is corrected, and the ticket closes itself.
        rig.run(today()).await;
        assert!(rig.found().is_empty(), "seed {seed}");
        assert_eq!(rig.store.tickets().len(), 1, "seed {seed}");
    }
}

/// Spoils one field; gives the order that the row belongs to.
pub(crate) fn spoil(row: &mut BillEntry, rng: &mut StdRng) -> String {
    let is_refund = row.kind == EntryKind::Refund;
    let order_no = row.trade_order_no.clone().unwrap_or_else(|| row.order_no.clone());
    match rng.random_range(0..if is_refund { 7 } else { 6 }) {
        0 => row.amount_minor += rng.random_range(1..100),
        1 => row.currency = "USD".to_owned(),
        2 => row.user = Some("424242".to_owned()),
        3 => row.channel_ref = Some("elsewhere".to_owned()),
        4 => row.at += chrono::TimeDelta::minutes(20),
        5 => row.proof = Proof::Accepted,
        _ => row.trade_order_no = Some("h2r_1_1".to_owned()),
    }
    order_no
}

#[test]
fn targets_of_agreeing_flows_are_their_own() {
    let mut rig = Rig::new();
    let (one, other) = (rig.agreeing(State::BizSuccess), rig.agreeing(State::BizSuccess));
    assert_ne!(one.target, other.target);
    assert_eq!(one.wallet, samples::wallet_name());
}
