//! Every kind has a row of the table that brings it about alone, and a day without differences has none.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use flow_core::ids::{AttemptNo, OrderRef, RefundOrderNo, TradeOrderNo, Version};
use flow_core::ports::{EntryKind, ReconFlow};
use flow_core::recon::{Day, FindingKind};
use flow_core::state::State;
use flow_testkit::samples;
use proptest::prelude::*;

use super::findings;
use crate::order::{BillRow, Due, Fact, Order, Proof, Rules};

const RULES: Rules = Rules { time_gap_limit_ms: 600_000, compares_users: true, compares_references: true };

fn noon() -> DateTime<Utc> {
    "2026-03-02T12:00:00Z".parse().unwrap()
}

fn date(number: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 3, number).unwrap()
}

fn day() -> Day {
    let from = "2026-03-02T00:00:00Z".parse().unwrap();
    Day { date: date(2), from, until: from + TimeDelta::days(1) }
}

fn number() -> TradeOrderNo {
    TradeOrderNo::derive(samples::user(7), samples::flow_id(9))
}

fn flow(state: State) -> ReconFlow {
    let was_paid = matches!(state, State::Payed | State::BizSuccess | State::Refunding | State::Refunded);
    let refund = matches!(state, State::Refunding | State::Refunded);
    ReconFlow {
        id: samples::flow_id(9),
        target: samples::target(7, "R:7:1"),
        attempt_no: AttemptNo::FIRST,
        trade_order_no: number(),
        refund_order_no: RefundOrderNo::derive(&number()),
        state,
        version: Version(4),
        money: samples::cny(1_990),
        wallet: samples::wallet_name(),
        business: samples::business_name(),
        wallet_pay_txn: was_paid.then(|| samples::reference("txn-1")),
        wallet_refund_txn: (state == State::Refunded).then(|| samples::reference("back-1")),
        refund_amount: refund.then_some(1_990),
        paid_at: was_paid.then(|| noon() + TimeDelta::seconds(1)),
        finished_at: state.is_terminal().then(|| noon() + TimeDelta::seconds(2)),
        is_held: false,
    }
}

fn row(kind: EntryKind) -> BillRow {
    let (entry_no, reference) = match kind {
        EntryKind::Payment => (number().to_string(), "txn-1"),
        EntryKind::Refund => (format!("r_{}", number()), "back-1"),
    };
    BillRow {
        kind,
        entry_no: OrderRef::new(entry_no).unwrap(),
        trade_order_no: (kind == EntryKind::Refund).then(|| number().to_string()),
        amount_minor: 1_990,
        currency: "CNY".to_owned(),
        user: Some("7".to_owned()),
        channel_ref: Some(reference.to_owned()),
        at: noon(),
        proof: Proof::Settled,
        line: 2,
        raw: "raw".to_owned(),
        carried_from: None,
    }
}

fn paid() -> BillRow {
    row(EntryKind::Payment)
}

fn back() -> BillRow {
    row(EntryKind::Refund)
}

/// An order whose three sides agree.
fn agreeing(state: State) -> Order {
    let local = flow(state);
    let rows = match state {
        State::WaitPay | State::Paying | State::PayFail => vec![],
        State::Payed | State::BizSuccess | State::Refunding => vec![paid()],
        State::Refunded => vec![paid(), back()],
    };
    let due = |is_due| if is_due { Due::Today } else { Due::No };
    Order {
        order_no: OrderRef::new(number().to_string()).unwrap(),
        day: day(),
        payment_due: due(local.paid_at.is_some()),
        refund_due: due(state == State::Refunded),
        local: Some(local),
        rows,
        rows_left_out: 0,
        fact: if state == State::BizSuccess { Fact::DoneForThis } else { Fact::NotDone },
    }
}

fn with(state: State, edit: impl FnOnce(&mut Order)) -> Order {
    let mut order = agreeing(state);
    edit(&mut order);
    order
}

fn without_flow(rows: Vec<BillRow>) -> Order {
    Order {
        local: None,
        payment_due: Due::No,
        refund_due: Due::No,
        rows,
        fact: Fact::NotAsked,
        ..agreeing(State::BizSuccess)
    }
}

fn kinds(order: &Order) -> Vec<FindingKind> {
    findings(order, &RULES).into_iter().map(|finding| finding.kind).collect()
}

fn other_owner(owner_was_charged: bool) -> Fact {
    Fact::DoneForOther { owner: "h2r_7_a".to_owned(), owner_was_charged }
}

/// Each brings about one kind, and nothing else.
fn table() -> Vec<(FindingKind, Order)> {
    use FindingKind as K;
    use State::{BizSuccess, PayFail, Payed, Paying, Refunded, Refunding, WaitPay};
    vec![
        (K::WalletPaidLocalOpen, with(Paying, |order| order.rows = vec![paid()])),
        (K::WalletPaidLocalOpen, with(WaitPay, |order| order.rows = vec![paid()])),
        (K::WalletPaidLocalPayFail, with(PayFail, |order| order.rows = vec![paid()])),
        (K::WalletPaidNoFlow, without_flow(vec![paid()])),
        (K::LocalPaidWalletNothing, with(Payed, |order| order.rows = vec![])),
        (K::LocalPaidWalletNothing, with(Refunding, |order| order.rows = vec![])),
        (K::LocalPaidWalletNothing, with(Refunded, |order| order.rows = vec![back()])),
        (K::LocalPaidWalletNothing, with(Payed, |order| order.rows[0].proof = Proof::Accepted)),
        (K::LocalSuccessWalletNothing, with(BizSuccess, |order| order.rows = vec![])),
        (K::WalletRefundedLocalRefunding, with(Refunding, |order| order.rows.push(back()))),
        (K::WalletRefundedLocalSuccess, with(BizSuccess, |order| order.rows.push(back()))),
        (K::LocalRefundedWalletOpen, with(Refunded, |order| order.rows = vec![paid()])),
        (K::LocalRefundedWalletOpen, with(Refunded, |order| order.rows[1].proof = Proof::Accepted)),
        (K::WalletRefundedUnasked, with(Payed, |order| order.rows.push(back()))),
        (
            K::WalletRefundedUnasked,
            with(Refunding, |order| {
                order.rows.push(BillRow { entry_no: OrderRef::new("foreign").unwrap(), ..back() });
            }),
        ),
        (K::RefundWithoutPayment, without_flow(vec![back()])),
        (K::RefundWithoutPayment, with(PayFail, |order| order.rows = vec![back()])),
        (K::RefundAbovePayment, with(Refunded, |order| order.rows[1].amount_minor = 1_991)),
        (
            K::RefundOfAnotherPayment,
            with(Refunded, |order| order.rows[1].trade_order_no = Some("h2r_1_1".to_owned())),
        ),
        (K::AmountDiffers, with(BizSuccess, |order| order.rows[0].amount_minor = 1_989)),
        (K::AmountDiffers, with(Refunded, |order| order.rows[1].amount_minor = 1_989)),
        (
            K::CarriedAmountDiffers,
            with(BizSuccess, |order| {
                (order.rows[0].amount_minor, order.rows[0].carried_from) = (1, Some(date(1)));
            }),
        ),
        (K::CurrencyDiffers, with(BizSuccess, |order| order.rows[0].currency = "USD".to_owned())),
        (K::CurrencyDiffers, with(Refunded, |order| order.rows[1].currency = "USD".to_owned())),
        (K::UserDiffers, with(BizSuccess, |order| order.rows[0].user = Some("8".to_owned()))),
        (K::ReferenceDiffers, with(BizSuccess, |order| order.rows[0].channel_ref = Some("txn-2".to_owned()))),
        (K::ReferenceDiffers, with(Refunded, |order| order.rows[1].channel_ref = Some("back-2".to_owned()))),
        (K::DuplicateBillRow, with(BizSuccess, |order| order.rows.push(paid()))),
        (K::DuplicateBillRow, with(Refunded, |order| order.rows.push(back()))),
        (K::DuplicateBillRow, with(BizSuccess, |order| order.rows_left_out = 3)),
        (
            K::TwoCharges,
            with(BizSuccess, |order| {
                order.rows.push(BillRow { channel_ref: Some("txn-2".to_owned()), ..paid() });
            }),
        ),
        (K::TwoAttemptsCharged, with(Payed, |order| order.fact = other_owner(true))),
        (K::BenefitOwnedByOther, with(BizSuccess, |order| order.fact = other_owner(false))),
        (K::BenefitWithoutPayment, with(PayFail, |order| order.fact = Fact::DoneForThis)),
        (K::BenefitWithoutPayment, with(Refunded, |order| order.fact = Fact::DoneForThis)),
        (K::PayedBenefitUnattributed, with(Payed, |order| order.fact = Fact::Contradiction)),
        (K::PayedBenefitUnattributed, with(Payed, |order| order.fact = Fact::DoneForThis)),
        (K::SuccessWithoutBenefit, with(BizSuccess, |order| order.fact = Fact::NotDone)),
        (K::SuccessWithoutBenefit, with(BizSuccess, |order| order.fact = Fact::Contradiction)),
        (K::FactUnreadable, with(BizSuccess, |order| order.fact = Fact::Unreadable("UNKNOWN.TIMED_OUT"))),
        (K::TimeGap, with(BizSuccess, |order| order.rows[0].at = noon() - TimeDelta::seconds(600))),
        (K::TimeGap, with(Refunded, |order| order.rows[1].at = noon() + TimeDelta::seconds(603))),
    ]
}

#[test]
fn every_kind_is_brought_about_alone() {
    let mut seen = BTreeSet::new();
    for (number, (kind, order)) in table().into_iter().enumerate() {
        assert_eq!(kinds(&order), [kind], "row {number}: {:?}", findings(&order, &RULES));
        seen.insert(kind);
    }
    let missing: Vec<&FindingKind> = FindingKind::ALL.iter().filter(|kind| !seen.contains(kind)).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}

#[test]
fn what_agrees_has_no_finding_in_any_state() {
    for state in State::ALL {
        assert_eq!(findings(&agreeing(state), &RULES), [], "{state}");
    }
    // A benefit that another attempt owns is nothing to one that was not charged, or is paid back.
    for state in [State::WaitPay, State::Paying, State::PayFail, State::Refunding, State::Refunded] {
        for owner_was_charged in [true, false] {
            let order = with(state, |order| order.fact = other_owner(owner_was_charged));
            assert_eq!(findings(&order, &RULES), [], "{state}");
        }
    }
}

#[test]
fn what_is_not_due_is_not_missed() {
    for state in [State::Payed, State::BizSuccess, State::Refunding, State::Refunded] {
        let order = with(state, |order| {
            (order.payment_due, order.refund_due, order.rows) = (Due::No, Due::No, vec![]);
        });
        assert_eq!(findings(&order, &RULES), [], "{state}");
    }
}

#[test]
fn what_waited_in_vain_is_a_finding_of_its_own_day() {
    let order = with(State::BizSuccess, |order| {
        (order.payment_due, order.rows) = (Due::WaitedFrom(date(1)), vec![]);
    });
    let found = findings(&order, &RULES);
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((finding.kind, finding.day), (FindingKind::LocalSuccessWalletNothing, date(1)));
    let foreign = without_flow(vec![BillRow { carried_from: Some(date(1)), ..paid() }]);
    assert_eq!(findings(&foreign, &RULES)[0].day, date(1));
}

#[test]
fn two_refunds_under_numbers_of_their_own_are_two_and_not_a_double() {
    let order = with(State::Refunded, |order| {
        order.rows[1].amount_minor = 990;
        let other = OrderRef::new("foreign").unwrap();
        order.rows.push(BillRow { entry_no: other, amount_minor: 1_000, ..back() });
    });
    assert_eq!(kinds(&order), [FindingKind::WalletRefundedUnasked, FindingKind::AmountDiffers]);
}

#[test]
fn several_differences_of_one_order_are_all_named() {
    let order = with(State::Payed, |order| {
        order.rows[0].amount_minor = 5;
        order.rows[0].user = Some("8".to_owned());
        order.fact = other_owner(true);
    });
    let found = findings(&order, &RULES);
    assert_eq!(
        kinds(&order),
        [FindingKind::AmountDiffers, FindingKind::UserDiffers, FindingKind::TwoAttemptsCharged]
    );
    assert!(found[0].detail.contains("5 CNY") && found[0].detail.contains("1990 CNY"), "{}", found[0].detail);
    assert_eq!(found[0].stake.amount_minor, 1_985);
}

#[test]
fn what_a_channel_does_not_tell_is_not_compared() {
    let lax = Rules { compares_users: false, compares_references: false, ..RULES };
    let order = with(State::BizSuccess, |order| {
        order.rows[0].user = Some("open-id".to_owned());
        order.rows[0].channel_ref = Some("another".to_owned());
    });
    assert_eq!(findings(&order, &lax), []);
    let silent =
        with(State::BizSuccess, |order| (order.rows[0].user, order.rows[0].channel_ref) = (None, None));
    assert_eq!(findings(&silent, &RULES), []);
}

fn any_row() -> impl Strategy<Value = BillRow> {
    let kind = prop_oneof![Just(EntryKind::Payment), Just(EntryKind::Refund)];
    let reference = prop_oneof![Just(None), Just(Some("txn-1")), Just(Some("txn-2"))];
    (kind, 1_u64..4, reference, any::<bool>(), 0_i64..3, prop::sample::select(vec!["CNY", "USD"]), 1_u64..99)
        .prop_map(|(kind, amount_minor, reference, is_settled, minutes, currency, line)| BillRow {
            amount_minor,
            channel_ref: reference.map(str::to_owned),
            proof: if is_settled { Proof::Settled } else { Proof::Accepted },
            at: noon() + TimeDelta::minutes(minutes * 9),
            currency: currency.to_owned(),
            line,
            ..row(kind)
        })
}

proptest! {
    #[test]
    fn the_order_of_the_rows_does_not_matter(
        state in prop::sample::select(State::ALL.to_vec()),
        has_flow in any::<bool>(),
        (rows, shuffled) in prop::collection::vec(any_row(), 0..6)
            .prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
    ) {
        let order = |rows| {
            if has_flow { with(state, |order| order.rows = rows) } else { without_flow(rows) }
        };
        prop_assert_eq!(findings(&order(rows), &RULES), findings(&order(shuffled), &RULES));
    }

    /// Of what agrees, any one field of the bill's row changed is named.
    #[test]
    fn a_single_wrong_field_never_passes(
        state in prop::sample::select(vec![State::Payed, State::BizSuccess, State::Refunding, State::Refunded]),
        field in 0_usize..6, by in 1_u64..1_000,
    ) {
        let order = with(state, |order| {
            let last = order.rows.last_mut().unwrap();
            match field {
                0 => last.amount_minor += by,
                1 => last.currency = "XXX".to_owned(),
                2 => last.user = Some((7 + by).to_string()),
                3 => last.channel_ref = Some(format!("other-{by}")),
                4 => last.at += TimeDelta::minutes(11) + TimeDelta::seconds(i64::try_from(by).unwrap()),
                _ => last.proof = Proof::Accepted,
            }
        });
        let expects = !(field == 5 && state == State::Refunding && order.rows.len() > 1);
        prop_assert_eq!(!findings(&order, &RULES).is_empty(), expects);
    }
}
