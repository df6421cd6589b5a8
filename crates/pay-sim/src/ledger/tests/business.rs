//! Execute and fact, the mutant, and the auditor's views.

use super::*;

fn fact_of(world: &mut World, key: &str) -> (FactStatus, Option<String>) {
    let fact = world.fact(&target(key), T0);
    (fact.status, fact.owner_order_no)
}

#[test]
fn an_execution_grants_once_however_often_it_comes() {
    let mut world = World::new();
    assert_eq!(fact_of(&mut world, "k"), (FactStatus::NotDone, None), "never heard of is not done");
    for now_ms in [T0, T0 + 1, T0 + 99] {
        let done = world.execute(&execution("a", "k", T0 + 2), now_ms).unwrap();
        assert_eq!(
            (done.status, done.owner_order_no.as_deref()),
            (FactStatus::Done, Some("a")),
            "also after not_after"
        );
    }
    let fact = world.fact(&target("k"), T0);
    assert_eq!(fact.finished_at_ms, Some(T0));
    assert_eq!(counts(&world, "a"), (0, 0, 1));
    assert_eq!(world.ledger("a").calls.execute, 3);
    assert_eq!(world.ledger("a").anomalies(), [Anomaly::GrantedWithoutCharge]);
}

#[test]
fn nothing_is_granted_at_or_after_not_after() {
    for (now_ms, granted) in [(T0 + 9, true), (T0 + 10, false), (T0 + 11, false)] {
        let mut world = World::new();
        let answer = world.execute(&execution("a", "k", T0 + 10), now_ms);
        assert_eq!(answer.is_ok(), granted);
        assert_eq!(fact_of(&mut world, "k").0 == FactStatus::Done, granted);
        if !granted {
            assert_eq!(answer, Err(ExecuteRefusal::DeadlinePassed));
            assert_eq!(world.fact(&target("k"), T0).finished_at_ms, None);
        }
    }
}

#[test]
fn a_target_has_one_owner() {
    let mut world = World::new();
    world.execute(&execution("a", "k", T0 + 10), T0).unwrap();
    let owned = Err(ExecuteRefusal::OwnedByOther { owner_order_no: "a".to_owned() });
    assert_eq!(world.execute(&execution("b", "k", T0 + 10), T0), owned);
    assert_eq!(world.execute(&execution("b", "k", T0 + 10), T0 + 10), owned, "named also after not_after");
    assert_eq!(counts(&world, "b"), (0, 0, 0));
    assert_eq!(world.ledger("b").owner_of_target.as_deref(), Some("a"));
    world.execute(&execution("c", "K", T0 + 10), T0).unwrap();
    assert_eq!(fact_of(&mut world, "K").1.as_deref(), Some("c"), "keys are compared byte by byte");
}

#[test]
fn a_number_is_bound_to_its_first_execution() {
    let other_user =
        Execution { target: Target { user_id: 8, ..target("k") }, ..execution("a", "k", T0 + 10) };
    let other_scene =
        Execution { target: Target { scene: "x".to_owned(), ..target("k") }, ..execution("a", "k", T0 + 10) };
    let others = [execution("a", "other", T0 + 10), execution("a", "k", T0 + 11), other_user, other_scene];
    for first_at_ms in [T0, T0 + 10] {
        let mut world = World::new();
        drop(world.execute(&execution("a", "k", T0 + 10), first_at_ms));
        let before = world.ledger("a").entries;
        for other in &others {
            assert_eq!(world.execute(other, T0), Err(ExecuteRefusal::ExecutionConflict), "{other:?}");
        }
        assert_eq!(world.ledger("a").entries, before);
        assert_eq!(fact_of(&mut world, "other"), (FactStatus::NotDone, None));
    }
}

#[test]
fn a_refused_execution_may_be_tried_again() {
    let refuse = Course::Refuse { code: "SOLD_OUT".to_owned() };
    let mut world = World::new();
    let refused = world.execute_as(&execution("a", "k", T0 + 10), &refuse, T0).unwrap();
    assert_eq!((refused.status, refused.refusal_code.as_deref()), (FactStatus::NotDone, Some("SOLD_OUT")));
    assert_eq!(world.execute(&execution("a", "k", T0 + 10), T0).unwrap().status, FactStatus::Done);
    assert_eq!(
        world.execute_as(&execution("a", "k", T0 + 10), &refuse, T0).unwrap().status,
        FactStatus::Done
    );
    assert_eq!(counts(&world, "a"), (0, 0, 1));
}

#[test]
fn a_deferred_execution_checks_not_after_when_it_is_carried_out() {
    let until = |at_ms| Course::Defer(Deferral::UntilMs(at_ms));
    for (due_ms, granted) in [(T0 + 9, 1), (T0 + 10, 0)] {
        let mut world = World::new();
        let answer = world.execute_as(&execution("a", "k", T0 + 10), &until(due_ms), T0).unwrap();
        assert_eq!(answer.status, FactStatus::NotDone);
        assert_eq!(
            world.execute(&execution("a", "k", T0 + 10), T0).unwrap().status,
            FactStatus::NotDone,
            "under way"
        );
        assert!(!world.fact_settles(&target("k"), T0));
        world.settle("a", due_ms);
        assert_eq!(counts(&world, "a"), (0, 0, granted));
    }
    let mut world = World::new();
    world.execute_as(&execution("a", "k", T0 + 10), &Course::Defer(Deferral::NextQuery), T0).unwrap();
    assert!(world.fact_settles(&target("k"), T0));
    assert_eq!(fact_of(&mut world, "k").1.as_deref(), Some("a"));
    let late = world.execute_as(&execution("b", "j", T0), &Course::Defer(Deferral::NextQuery), T0);
    assert_eq!(late, Err(ExecuteRefusal::DeadlinePassed), "nothing late is accepted for later");
}

/// The delayed message: refunded after the deadline, and only then the execution arrives.
fn late_execution_after_refund(switches: Switches) -> (u32, Vec<Anomaly>) {
    let mut world = World::new();
    world.set_switches(switches);
    world.debit(&debit("a", 7, 100), T0).unwrap();
    world.refund(&refund("r", "a", 7, 100), T0 + 20).unwrap();
    drop(world.execute(&execution("a", "k", T0 + 10), T0 + 30));
    (world.ledger("a").grants, world.ledger("a").anomalies())
}

#[test]
fn without_the_check_of_not_after_a_late_execution_loses_money() {
    assert_eq!(late_execution_after_refund(Switches::default()), (0, vec![]));
    let mutant = Switches { ignore_not_after: true, ..Switches::default() };
    assert_eq!(late_execution_after_refund(mutant), (1, vec![Anomaly::GrantedAndRefunded]));
}

#[test]
fn the_ledger_pages_sums_and_lists_a_targets_orders() {
    let mut world = World::new();
    for no in ["a", "b", "c"] {
        world.debit(&debit(no, 7, 100), T0).unwrap();
        drop(world.execute(&execution(no, "k", T0 + 10), T0));
    }
    world.refund(&refund("r", "b", 7, 30), T0).unwrap();
    let first = world.ledgers_after(None, 2);
    let rest = world.ledgers_after(Some("b"), 2);
    let numbers: Vec<_> = first.iter().chain(&rest).map(|order| order.trade_order_no.as_str()).collect();
    assert_eq!(numbers, ["a", "b", "c"]);
    let mut totals = Totals::default();
    first.iter().chain(&rest).for_each(|order| totals.add(order));
    assert_eq!((totals.orders, totals.charges, totals.refunds, totals.grants), (3, 3, 1, 1));
    assert_eq!((totals.charged_amount["CNY"], totals.refunded_amount["CNY"]), (300, 30));
    let of_target = world.target_ledger(&target("k"));
    assert_eq!(of_target.owner_order_no.as_deref(), Some("a"));
    assert_eq!(of_target.orders.len(), 3);
    let unknown = world.ledger("nope");
    assert!(!unknown.known && world.ledger("a").known);
    assert_eq!(unknown.charges, 0);
    let subject = world.order_subject("a");
    assert_eq!((subject.user_id, subject.biz_key.as_deref()), (Some(7), Some("k")));
    assert_eq!(world.refunded_order("r"), Some("b"));
}

#[test]
fn ids_are_canonical_decimal_strings() {
    for (text, id) in [("0", Some(0)), ("42", Some(42)), ("18446744073709551615", Some(u64::MAX))] {
        assert_eq!(decimal_id::parse(text), id);
    }
    for text in ["", "-1", "+1", "01", " 1", "1.0", "1e3", "18446744073709551616", "٣"] {
        assert_eq!(decimal_id::parse(text), None, "{text:?}");
    }
}
