//! Matching, dosing, repeatability, and rules that make no sense.

use super::*;

const T0: i64 = 1_000;

fn rule(json: serde_json::Value) -> Rule {
    serde_json::from_value(json).unwrap()
}

fn subject(call: Call, no: &str) -> Subject {
    Subject {
        call,
        trade_order_no: Some(no.to_owned()),
        refund_order_no: None,
        user_id: Some(7),
        biz_key: Some("k".to_owned()),
    }
}

fn set(rules: impl IntoIterator<Item = serde_json::Value>) -> FaultSet {
    let mut set = FaultSet::default();
    for json in rules {
        let rule = rule(json);
        FaultSet::check(&rule).unwrap();
        set.add(rule, T0).unwrap();
    }
    set
}

#[test]
fn each_filter_must_match() {
    let cases = [
        (serde_json::json!({"fault": {"kind": "drop"}}), true),
        (serde_json::json!({"calls": ["debit", "query"], "fault": {"kind": "drop"}}), true),
        (serde_json::json!({"calls": ["close"], "fault": {"kind": "drop"}}), false),
        (serde_json::json!({"trade_order_no": "a", "fault": {"kind": "drop"}}), true),
        (serde_json::json!({"trade_order_no": "A", "fault": {"kind": "drop"}}), false),
        (serde_json::json!({"user_id": "7", "fault": {"kind": "drop"}}), true),
        (serde_json::json!({"user_id": "8", "fault": {"kind": "drop"}}), false),
        (serde_json::json!({"biz_key": "k", "fault": {"kind": "drop"}}), true),
        (serde_json::json!({"biz_key": "l", "fault": {"kind": "drop"}}), false),
        (serde_json::json!({"refund_order_no": "r", "fault": {"kind": "drop"}}), false),
        (serde_json::json!({"trade_order_no": "a", "user_id": "8", "fault": {"kind": "drop"}}), false),
        (serde_json::json!({"fault": {"kind": "contradict", "shape": "done_without_owner"}}), false),
    ];
    for (json, matches) in cases {
        let hit = set([json.clone()]).strike(&subject(Call::Debit, "a"), T0);
        assert_eq!(hit.is_some(), matches, "{json}");
    }
}

#[test]
fn skip_times_and_duration_bound_a_rule() {
    let mut bounded = set([serde_json::json!({"skip": 1, "times": 2, "fault": {"kind": "drop"}})]);
    let hits: Vec<_> = (0..5).map(|_| bounded.strike(&subject(Call::Debit, "a"), T0).is_some()).collect();
    assert_eq!(hits, [false, true, true, false, false]);
    let report = bounded.report(T0).remove(0);
    assert_eq!((report.hits, report.matched, report.active), (2, 3, false));

    let mut timed = set([serde_json::json!({"for_ms": 10, "fault": {"kind": "unavailable"}})]);
    let hits: Vec<_> =
        [0, 9, 10].map(|ms| timed.strike(&subject(Call::Debit, "a"), T0 + ms).is_some()).into();
    assert_eq!(hits, [true, true, false]);
}

#[test]
fn the_oldest_rule_that_strikes_wins_and_deletion_ends_it() {
    let mut set = set([
        serde_json::json!({"times": 1, "stage": "after", "fault": {"kind": "drop"}}),
        serde_json::json!({"fault": {"kind": "status", "status": 500}}),
    ]);
    assert_eq!(set.strike(&subject(Call::Debit, "a"), T0), Some((Fault::Drop, Stage::After)));
    let second = Fault::Status { status: 500, retry_after_s: None, not_executed: false };
    assert_eq!(set.strike(&subject(Call::Debit, "a"), T0), Some((second, Stage::Before)));
    assert!(set.remove(2) && !set.remove(2));
    assert_eq!(set.strike(&subject(Call::Debit, "a"), T0), None);
    set.clear();
    assert!(set.is_empty());
    assert_eq!(
        set.add(rule(serde_json::json!({"fault": {"kind": "drop"}})), T0),
        Ok(3),
        "ids are never used twice"
    );
}

#[test]
fn draws_depend_on_seed_call_number_and_repetition_alone() {
    let hits = |seed: u64, numbers: &[String]| -> Vec<String> {
        let mut set = set([serde_json::json!({"probability": 0.3, "seed": seed, "fault": {"kind": "drop"}})]);
        let struck = |no: &&String| set.strike(&subject(Call::Debit, no), T0).is_some();
        let mut hits: Vec<_> = numbers.iter().filter(struck).cloned().collect();
        hits.sort();
        hits
    };
    let numbers: Vec<_> = (0..3_000).map(|n| format!("h2r_{}", n % 1_000)).collect();
    let reversed: Vec<_> = numbers.iter().rev().cloned().collect();
    let one = hits(1, &numbers);
    assert_eq!(one, hits(1, &reversed), "whatever the order of arrival");
    assert_ne!(one, hits(2, &numbers));
    assert!((750..1_050).contains(&one.len()), "about 30 %: {}", one.len());
    for (probability, always) in [(0.0, false), (1.0, true)] {
        let mut set = set([serde_json::json!({"probability": probability, "fault": {"kind": "drop"}})]);
        assert_eq!(set.strike(&subject(Call::Debit, "a"), T0).is_some(), always);
    }
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let cases = [
        (
            serde_json::json!({"calls": ["fact"], "fault": {"kind": "processing"}}),
            BadRule::CallMismatch(Call::Fact),
        ),
        (
            serde_json::json!({"calls": ["query"], "fault": {"kind": "refuse", "code": "X"}}),
            BadRule::CallMismatch(Call::Query),
        ),
        (
            serde_json::json!({"calls": ["execute"], "fault": {"kind": "wrong_user"}}),
            BadRule::CallMismatch(Call::Execute),
        ),
        (
            serde_json::json!({"stage": "after", "fault": {"kind": "late", "after_ms": 1}}),
            BadRule::StageMismatch,
        ),
        (
            serde_json::json!({"stage": "after", "fault": {"kind": "status", "status": 429}}),
            BadRule::StageMismatch,
        ),
        (serde_json::json!({"fault": {"kind": "status", "status": 404}}), BadRule::Status(404)),
        (
            serde_json::json!({"fault": {"kind": "status", "status": 502, "not_executed": true}}),
            BadRule::NotExecuted,
        ),
        (
            serde_json::json!({"stage": "after", "fault": {"kind": "status", "status": 503, "not_executed": true}}),
            BadRule::NotExecuted,
        ),
        (
            serde_json::json!({"fault": {"kind": "unavailable", "mode": "refused", "not_executed": true}}),
            BadRule::NotExecuted,
        ),
        (serde_json::json!({"probability": 1.1, "fault": {"kind": "drop"}}), BadRule::Probability),
        (serde_json::json!({"fault": {"kind": "delay", "ms": 3_600_001}}), BadRule::TooLong),
        (serde_json::json!({"user_id": "x", "fault": {"kind": "drop"}}), BadRule::UserId),
    ];
    for (json, bad) in cases {
        assert_eq!(FaultSet::check(&rule(json.clone())), Err(bad), "{json}");
    }
    for typo in [
        serde_json::json!({"call": "debit", "fault": {"kind": "drop"}}),
        serde_json::json!({"fault": {"kind": "dorp"}}),
        serde_json::json!({"fault": {"kind": "delay", "after_ms": 1}}),
        serde_json::json!({"fault": {"kind": "delay", "ms": 1, "stage": "after"}}),
        serde_json::json!({}),
    ] {
        assert!(serde_json::from_value::<Rule>(typo.clone()).is_err(), "{typo}");
    }
}

#[test]
fn the_set_is_bounded() {
    let mut full = FaultSet::default();
    let drop_all = rule(serde_json::json!({"fault": {"kind": "drop"}}));
    while full.add(drop_all.clone(), T0).is_ok() {}
    assert_eq!(full.report(T0).len(), 1_000);
}

#[test]
fn only_a_whole_systems_outage_closes_its_port() {
    let refused = serde_json::json!({"kind": "unavailable", "mode": "refused"});
    let cases = [
        (serde_json::json!({"fault": refused}), true, true),
        (serde_json::json!({"calls": ["execute", "fact"], "fault": refused}), false, true),
        (serde_json::json!({"calls": ["execute"], "fault": refused}), false, false),
        (serde_json::json!({"user_id": "7", "fault": refused}), false, false),
        (serde_json::json!({"fault": {"kind": "unavailable"}}), false, false),
    ];
    for (json, wallet, business) in cases {
        let set = set([json.clone()]);
        assert_eq!(set.refuses_connections(System::Wallet, T0), wallet, "{json}");
        assert_eq!(set.refuses_connections(System::Business, T0), business, "{json}");
    }
    let timed = set([serde_json::json!({"for_ms": 10, "fault": refused})]);
    assert_eq!(timed.next_end_ms(System::Wallet, T0), Some(T0 + 10));
    assert!(!timed.refuses_connections(System::Wallet, T0 + 10));
}
