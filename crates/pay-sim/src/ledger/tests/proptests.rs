//! Whatever sequence of calls arrives: the promises of the contracts hold, and the commands replay to the same world.

use proptest::prelude::*;

use super::*;

const NUMBERS: [&str; 3] = ["a", "b", "c"];
const REFUNDS: [&str; 4] = ["ra", "rb", "rc", "rd"];
const KEYS: [&str; 2] = ["k", "l"];

fn course() -> impl Strategy<Value = Course> {
    prop_oneof![
        6 => Just(Course::Normal),
        1 => (0..60_i64).prop_map(|ms| Course::Defer(Deferral::UntilMs(T0 + ms))),
        1 => Just(Course::Defer(Deferral::NextQuery)),
        1 => Just(Course::Refuse { code: "REFUSED".to_owned() }),
    ]
}

fn number() -> impl Strategy<Value = String> {
    prop::sample::select(&NUMBERS[..]).prop_map(ToOwned::to_owned)
}

fn refund_number() -> impl Strategy<Value = String> {
    prop::sample::select(&REFUNDS[..]).prop_map(ToOwned::to_owned)
}

fn command() -> impl Strategy<Value = Command> {
    let key = || prop::sample::select(&KEYS[..]);
    let user = || 7..9_u64;
    prop_oneof![
        4 => (number(), user(), 1..4_i64, prop::option::of(0..60_i64), course()).prop_map(
            |(no, user_id, amount, not_after, course)| Command::Debit {
                debit: Debit { not_after_ms: not_after.map(|ms| T0 + ms), ..debit(&no, user_id, amount) },
                course,
            }
        ),
        4 => (refund_number(), number(), user(), 1..4_i64, course()).prop_map(
            |(refund_no, no, user_id, amount, course)| Command::Refund {
                refund: refund(&refund_no, &no, user_id, amount),
                course,
            }
        ),
        4 => (number(), key(), 0..60_i64, course()).prop_map(|(no, key, not_after, course)| Command::Execute {
            execution: execution(&no, key, T0 + not_after),
            course,
        }),
        1 => number().prop_map(|trade_order_no| Command::Query { trade_order_no }),
        1 => number().prop_map(|trade_order_no| Command::Close { trade_order_no }),
        1 => number().prop_map(|trade_order_no| Command::Settle { trade_order_no }),
        1 => refund_number().prop_map(|refund_order_no| Command::QueryRefund { refund_order_no }),
        1 => key().prop_map(|key| Command::Fact { target: target(key) }),
        1 => (user(), 0..5_i64).prop_map(|(user_id, amount)| Command::SetBalance {
            user_id,
            currency: "CNY".to_owned(),
            amount,
        }),
    ]
}

/// Commands at times that never run backwards.
fn history() -> impl Strategy<Value = Vec<(Command, i64)>> {
    prop::collection::vec((command(), 0..3_i64), 0..80).prop_map(|steps| {
        let mut now_ms = T0;
        let timed = steps.into_iter().map(|(command, gap_ms)| {
            now_ms += gap_ms;
            (command, now_ms)
        });
        timed.collect()
    })
}

fn check_order(world: &World, no: &str) {
    let ledger = world.ledger(no);
    assert!(ledger.charges <= 1, "charged twice: {ledger:?}");
    assert!(ledger.grants <= 1, "granted twice: {ledger:?}");
    assert!(ledger.refunded_amount <= ledger.charged_amount, "gave back too much: {ledger:?}");
    assert_eq!(ledger.charges == 1, ledger.wallet_status == Some(DebitStatus::Success), "{ledger:?}");
    assert_eq!(ledger.grants == 1, ledger.owner_of_target.as_deref() == Some(no), "{ledger:?}");
    for refund_no in REFUNDS {
        let posted = |entry: &&Entry| match &entry.effect {
            Effect::Refund { refund_order_no, .. } => refund_order_no == refund_no,
            Effect::Charge { .. } | Effect::Grant { .. } => false,
        };
        assert!(ledger.entries.iter().filter(posted).count() <= 1, "refunded twice: {ledger:?}");
    }
}

/// What may never be taken back: final debits, done refunds, owners.
fn finals(world: &World) -> Vec<String> {
    let mut world = world.clone();
    let mut finals = Vec::new();
    for no in NUMBERS {
        finals.extend(
            world.debit_view(no).filter(|v| v.status != DebitStatus::Processing).map(|v| format!("{v:?}")),
        );
    }
    for no in REFUNDS {
        // At the beginning of time no deferred refund is due by time; those that wait for a query are filtered below.
        if !world.query_refund_settles(no, i64::MIN) {
            let view = world.query_refund(no, i64::MIN).filter(|v| v.status == RefundStatus::Success);
            finals.extend(view.map(|v| format!("{v:?}")));
        }
    }
    for key in KEYS {
        let ledger = world.target_ledger(&target(key));
        finals.extend(ledger.owner_order_no.map(|owner| format!("{key} {owner} {:?}", ledger.granted_at_ms)));
    }
    finals
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn promises_hold_after_every_call(history in history()) {
        let mut world = World::new();
        let mut before = Vec::new();
        for (command, now_ms) in &history {
            world.replay(command, *now_ms);
            NUMBERS.iter().for_each(|no| check_order(&world, no));
            let after = finals(&world);
            for fact in &before {
                prop_assert!(after.contains(fact), "{fact} was taken back by {command:?}: {after:?}");
            }
            before = after;
        }
    }

    #[test]
    fn commands_replay_to_the_same_world_through_json(history in history()) {
        let (mut lived, mut replayed) = (World::new(), World::new());
        for (command, now_ms) in &history {
            lived.replay(command, *now_ms);
            let line = serde_json::to_string(command).unwrap();
            replayed.replay(&serde_json::from_str(&line).unwrap(), *now_ms);
        }
        prop_assert_eq!(lived, replayed);
    }

    #[test]
    fn queries_that_are_not_journalled_change_nothing(history in history()) {
        let mut world = World::new();
        for (command, now_ms) in &history {
            let settles = match command {
                Command::Query { trade_order_no } => world.query_settles(trade_order_no, *now_ms),
                Command::QueryRefund { refund_order_no } => world.query_refund_settles(refund_order_no, *now_ms),
                Command::Fact { target } => world.fact_settles(target, *now_ms),
                Command::Debit { .. } | Command::Close { .. } | Command::Refund { .. } => true,
                Command::Execute { .. } | Command::Settle { .. } => true,
                Command::SetBalance { .. } | Command::SetSwitches(_) => true,
            };
            let before = world.clone();
            world.replay(command, *now_ms);
            prop_assert!(settles || before == world, "{command:?} changed the world unrecorded");
        }
    }
}
