//! Debit, query, close, refund, query refund.

use super::*;

#[test]
fn a_debit_charges_once_however_often_it_comes() {
    let mut world = World::new();
    assert_eq!(world.query("a", T0), None, "not accepted so far");
    let first = world.debit(&debit("a", 7, 100), T0).unwrap();
    assert_eq!(first.status, DebitStatus::Success);
    assert_eq!(first.finished_at_ms, Some(T0));
    for later in 1..5 {
        assert_eq!(world.debit(&debit("a", 7, 100), T0 + later), Ok(first.clone()));
    }
    assert_eq!(world.query("a", T0 + 9), Some(first));
    assert_eq!(counts(&world, "a"), (1, 0, 0));
    assert_eq!(world.ledger("a").calls.debit, 5);
    assert_eq!(world.query("A", T0), None, "numbers are compared byte by byte");
}

#[test]
fn a_known_number_with_other_parameters_conflicts_and_changes_nothing() {
    let other_currency =
        Debit { money: Money { amount: 100, currency: "cny".to_owned() }, ..debit("a", 7, 100) };
    for (what, other) in
        [("user", debit("a", 8, 100)), ("amount", debit("a", 7, 101)), ("currency", other_currency)]
    {
        for course in
            [Course::Normal, Course::Defer(Deferral::NextQuery), Course::Refuse { code: "X".to_owned() }]
        {
            let mut world = World::new();
            let before = world.debit_as(&debit("a", 7, 100), &course, T0).unwrap();
            assert_eq!(world.debit(&other, T0), Err(DebitRefusal::OrderConflict), "{what}");
            assert_eq!(world.debit_view("a"), Some(before), "{what}");
        }
    }
}

#[test]
fn only_positive_amounts_are_charged_or_refunded() {
    let mut world = World::new();
    for amount in [0, -1, i64::MIN] {
        assert_eq!(world.debit(&debit("a", 7, amount), T0), Err(DebitRefusal::InvalidAmount));
        assert_eq!(world.refund(&refund("r", "a", 7, amount), T0), Err(RefundRefusal::InvalidAmount));
    }
    assert_eq!(world.query("a", T0), None);
    assert_eq!(world.debit(&debit("a", 7, i64::MAX), T0).unwrap().status, DebitStatus::Success);
}

#[test]
fn a_failed_number_never_succeeds_later_and_a_new_one_may() {
    let mut world = World::new();
    world.set_balance(7, "CNY", 99);
    let failed = world.debit(&debit("a", 7, 100), T0).unwrap();
    assert_eq!(
        (failed.status, failed.failure_code.as_deref()),
        (DebitStatus::Failed, Some("INSUFFICIENT_FUNDS"))
    );
    assert_eq!(world.balance(7, "CNY"), Some(99));
    world.set_balance(7, "CNY", 1_000);
    assert_eq!(world.debit(&debit("a", 7, 100), T0 + 1), Ok(failed.clone()));
    assert_eq!(world.close("a", T0 + 2), Ok(failed));
    assert_eq!(counts(&world, "a"), (0, 0, 0));
    assert_eq!(world.debit(&debit("b", 7, 1_000), T0).unwrap().status, DebitStatus::Success, "down to zero");
    assert_eq!(world.balance(7, "CNY"), Some(0));
}

#[test]
fn a_balance_is_of_one_user_and_currency() {
    let mut world = World::new();
    world.set_balance(7, "CNY", 0);
    assert_eq!(world.debit(&debit("a", 7, 1), T0).unwrap().status, DebitStatus::Failed);
    assert_eq!(world.debit(&debit("b", 8, 1), T0).unwrap().status, DebitStatus::Success);
    let usd = Debit { money: Money { amount: 1, currency: "USD".to_owned() }, ..debit("c", 7, 1) };
    assert_eq!(world.debit(&usd, T0).unwrap().status, DebitStatus::Success);
}

#[test]
fn a_debit_takes_no_effect_at_or_after_its_deadline() {
    for (now_ms, status) in [(T0 + 9, DebitStatus::Success), (T0 + 10, DebitStatus::Failed)] {
        let mut world = World::new();
        let timed = Debit { not_after_ms: Some(T0 + 10), ..debit("a", 7, 100) };
        assert_eq!(world.debit(&timed, now_ms).unwrap().status, status);
        let mut world = World::new();
        world.debit_as(&timed, &Course::Defer(Deferral::NextQuery), T0).unwrap();
        assert_eq!(world.query("a", now_ms).unwrap().status, status, "also when it was accepted in time");
    }
}

#[test]
fn a_refused_debit_is_final_and_an_earlier_charge_is_not_refused() {
    let refuse = Course::Refuse { code: "RISK".to_owned() };
    let mut world = World::new();
    let failed = world.debit_as(&debit("a", 7, 100), &refuse, T0).unwrap();
    assert_eq!(failed.failure_code.as_deref(), Some("RISK"));
    assert_eq!(world.debit(&debit("a", 7, 100), T0), Ok(failed));
    let charged = world.debit(&debit("b", 7, 100), T0).unwrap();
    assert_eq!(world.debit_as(&debit("b", 7, 100), &refuse, T0), Ok(charged));
}

#[test]
fn a_deferred_debit_is_charged_when_its_time_comes_or_it_is_queried() {
    let mut world = World::new();
    let until = Course::Defer(Deferral::UntilMs(T0 + 10));
    assert_eq!(world.debit_as(&debit("a", 7, 1), &until, T0).unwrap().status, DebitStatus::Processing);
    assert_eq!(world.timed_deferrals(), [("a".to_owned(), T0 + 10)]);
    assert_eq!(world.query("a", T0 + 9).unwrap().status, DebitStatus::Processing);
    assert_eq!(world.close("a", T0 + 9).unwrap().status, DebitStatus::Processing, "can not say yet");
    assert!(!world.query_settles("a", T0 + 9) && world.query_settles("a", T0 + 10));
    world.settle("a", T0 + 10);
    assert_eq!(counts(&world, "a"), (1, 0, 0));
    assert_eq!(world.close("a", T0 + 11).unwrap().status, DebitStatus::Success, "charged is not closed");

    world.debit_as(&debit("b", 7, 1), &Course::Defer(Deferral::NextQuery), T0).unwrap();
    world.settle("b", T0 + 1_000_000);
    assert_eq!(world.debit(&debit("b", 7, 1), T0).unwrap().status, DebitStatus::Processing);
    assert_eq!(world.query("b", T0).unwrap().status, DebitStatus::Success);
    assert_eq!(counts(&world, "b"), (1, 0, 0));
}

#[test]
fn close_leaves_a_tombstone_and_spares_a_charge() {
    let mut world = World::new();
    let tombstone = world.close("a", T0).unwrap();
    assert_eq!((tombstone.status, tombstone.user_id), (DebitStatus::Closed, None));
    assert_eq!(
        world.debit(&debit("a", 7, 100), T0 + 1),
        Ok(tombstone.clone()),
        "the debit that came too late"
    );
    assert_eq!(world.close("a", T0 + 2), Ok(tombstone.clone()));
    assert_eq!(world.query("a", T0 + 2), Some(tombstone));
    assert_eq!(counts(&world, "a"), (0, 0, 0));

    let charged = world.debit(&debit("b", 7, 100), T0).unwrap();
    assert_eq!(world.close("b", T0), Ok(charged));

    world.set_switches(Switches { close_unsupported: true, ..Switches::default() });
    assert_eq!(world.close("c", T0), Err(CloseRefusal::Unsupported));
    assert_eq!(world.debit(&debit("c", 7, 100), T0).unwrap().status, DebitStatus::Success);
}

#[test]
fn a_refund_gives_back_once_however_often_it_comes() {
    let mut world = World::new();
    world.set_balance(7, "CNY", 100);
    world.debit(&debit("a", 7, 100), T0).unwrap();
    assert_eq!(world.query_refund("r", T0), None);
    let first = world.refund(&refund("r", "a", 7, 100), T0).unwrap();
    assert_eq!(first.status, RefundStatus::Success);
    assert_eq!(world.refund(&refund("r", "a", 7, 100), T0 + 1), Ok(first.clone()));
    assert_eq!(world.query_refund("r", T0 + 1), Some(first));
    assert_eq!(counts(&world, "a"), (1, 1, 0));
    assert_eq!(world.balance(7, "CNY"), Some(100));
}

#[test]
fn refunds_that_can_not_be_are_refused_and_move_nothing() {
    let usd = Refund { money: Money { amount: 1, currency: "USD".to_owned() }, ..refund("x", "a", 7, 1) };
    let cases = [
        ("unknown order", refund("x", "nope", 7, 1), RefundRefusal::OrderNotCharged),
        ("failed order", refund("x", "failed", 7, 1), RefundRefusal::OrderNotCharged),
        ("closed order", refund("x", "closed", 7, 1), RefundRefusal::OrderNotCharged),
        ("pending order", refund("x", "pending", 7, 1), RefundRefusal::OrderNotCharged),
        ("more than the charge", refund("x", "a", 7, 101), RefundRefusal::RefundExceedsCharge),
        ("more than is left", refund("x", "a", 7, 41), RefundRefusal::RefundExceedsCharge),
        ("sum overflows", refund("x", "a", 7, i64::MAX), RefundRefusal::RefundExceedsCharge),
        ("other user", refund("x", "a", 8, 1), RefundRefusal::RefundConflict),
        ("other currency", usd, RefundRefusal::RefundConflict),
        ("same number, other amount", refund("r", "a", 7, 61), RefundRefusal::RefundConflict),
        ("same number, other order", refund("r", "b", 7, 60), RefundRefusal::RefundConflict),
    ];
    let mut world = World::new();
    world.debit(&debit("a", 7, 100), T0).unwrap();
    world.debit(&debit("b", 7, 100), T0).unwrap();
    world.debit_as(&debit("failed", 7, 100), &Course::Refuse { code: "X".to_owned() }, T0).unwrap();
    world.debit_as(&debit("pending", 7, 100), &Course::Defer(Deferral::NextQuery), T0).unwrap();
    world.close("closed", T0).unwrap();
    // 60 of 100 are on their way out, though not out yet.
    world.refund_as(&refund("r", "a", 7, 60), &Course::Defer(Deferral::NextQuery), T0).unwrap();
    for (what, bad, refusal) in cases {
        assert_eq!(world.refund(&bad, T0), Err(refusal), "{what}");
        assert_eq!(world.query_refund("x", T0), None, "{what}");
    }
    assert_eq!(counts(&world, "a"), (1, 0, 0));
    assert_eq!(
        world.refund(&refund("x", "a", 7, 40), T0).unwrap().status,
        RefundStatus::Success,
        "all that is left"
    );
    assert_eq!(world.query_refund("r", T0).unwrap().status, RefundStatus::Success);
    assert_eq!(world.ledger("a").refunded_amount, 100);
}

#[test]
fn a_failed_refund_may_be_tried_again_and_then_succeed() {
    let mut world = World::new();
    world.debit(&debit("a", 7, 100), T0).unwrap();
    let refuse = Course::Refuse { code: "BANK_CLOSED".to_owned() };
    let failed = world.refund_as(&refund("r", "a", 7, 100), &refuse, T0).unwrap();
    assert_eq!((failed.status, failed.failure_code.as_deref()), (RefundStatus::Failed, Some("BANK_CLOSED")));
    assert_eq!(world.query_refund("r", T0), Some(failed));
    assert_eq!(counts(&world, "a"), (1, 0, 0));
    assert_eq!(world.refund(&refund("r", "a", 7, 99), T0), Err(RefundRefusal::RefundConflict), "still bound");
    let done = world.refund(&refund("r", "a", 7, 100), T0 + 1).unwrap();
    assert_eq!(done.status, RefundStatus::Success);
    assert_eq!(world.refund_as(&refund("r", "a", 7, 100), &refuse, T0 + 2), Ok(done), "success is final");
    assert_eq!(counts(&world, "a"), (1, 1, 0));
}

#[test]
fn a_deferred_refund_is_posted_when_its_time_comes() {
    let mut world = World::new();
    world.debit(&debit("a", 7, 100), T0).unwrap();
    let until = Course::Defer(Deferral::UntilMs(T0 + 10));
    for _ in 0..2 {
        let view = world.refund_as(&refund("r", "a", 7, 100), &until, T0).unwrap();
        assert_eq!(view.status, RefundStatus::Processing);
    }
    assert_eq!(world.query_refund("r", T0 + 9).unwrap().status, RefundStatus::Processing);
    assert!(!world.query_refund_settles("r", T0 + 9) && world.query_refund_settles("r", T0 + 10));
    world.settle("a", T0 + 10);
    assert_eq!(counts(&world, "a"), (1, 1, 0));
}

#[test]
fn a_wallet_that_forgets_its_idempotency_is_seen_in_the_ledger() {
    let mut world = World::new();
    world.debit(&debit("a", 7, 100), T0).unwrap();
    assert_eq!(world.ledger("a").anomalies(), []);
    world.set_switches(Switches { double_charge: true, ..Switches::default() });
    world.debit(&debit("a", 7, 100), T0).unwrap();
    let ledger = world.ledger("a");
    assert_eq!((ledger.charges, ledger.charged_amount), (2, 200));
    assert_eq!(ledger.anomalies(), [Anomaly::ChargedMoreThanOnce]);
}

#[test]
fn a_wallet_that_pays_back_twice_is_seen_in_the_ledger() {
    for (double_refund, refunds, anomalies) in
        [(false, 1, vec![]), (true, 2, vec![Anomaly::RefundedMoreThanOnce, Anomaly::RefundedMoreThanCharged])]
    {
        let mut world = World::new();
        world.set_switches(Switches { double_refund, ..Switches::default() });
        world.debit(&debit("a", 7, 100), T0).unwrap();
        let first = world.refund(&refund("r", "a", 7, 100), T0).unwrap();
        let again = world.refund(&refund("r", "a", 7, 100), T0).unwrap();
        assert_eq!(first, again, "both answers tell of one refund");
        let ledger = world.ledger("a");
        assert_eq!((ledger.refunds, ledger.anomalies()), (refunds, anomalies));
    }
}
