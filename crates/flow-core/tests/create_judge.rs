//! `judge` as tables: what a request is answered, given what is known of its key and its target.

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::create::{PaymentRequest, Verdict, judge};
use flow_core::flow::Flow;
use flow_core::ids::{AttemptNo, Fingerprint};
use flow_core::ports::{Lookup, RequestRecord};
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::samples;
use proptest::prelude::*;
use proptest::sample::select;

const HORIZON_MS: i64 = 24 * 60 * 60 * 1000;

fn now() -> DateTime<Utc> {
    ManualClock::new().now()
}

/// A request for the target and money of `samples::flow(1, …)`, with ten minutes to go.
fn request() -> PaymentRequest {
    samples::request(1, now() + TimeDelta::minutes(10))
}

fn latest(state: State) -> Flow {
    Flow { attempt_no: AttemptNo(3), ..samples::flow(1, state, now()) }
}

fn knowing(latest: Flow) -> Lookup {
    Lookup { request: None, latest: Some(latest) }
}

fn keyed(fingerprint: Fingerprint, flow: Flow) -> Lookup {
    Lookup { request: Some(RequestRecord { fingerprint, flow: flow.clone() }), latest: Some(flow) }
}

#[test]
fn a_target_without_attempts_gets_the_first() {
    let nothing = Lookup { request: None, latest: None };
    assert_eq!(judge(&request(), &nothing, now()), Verdict::Insert(AttemptNo(1)));
}

#[test]
fn the_latest_attempt_decides_whether_there_is_a_next_one() {
    for state in State::ALL {
        let flow = latest(state);
        let known = knowing(flow.clone());
        let expected = match state {
            State::PayFail | State::Refunded => Verdict::Insert(AttemptNo(4)),
            State::WaitPay | State::Paying | State::Payed | State::BizSuccess | State::Refunding => {
                Verdict::Join(&flow)
            }
        };
        assert_eq!(judge(&request(), &known, now()), expected, "{state}");
    }
}

#[test]
fn an_open_attempt_for_other_money_is_a_conflict_and_a_successful_one_is_not() {
    for other in [samples::cny(101), samples::money(100, "JPY")] {
        for state in State::ALL {
            let flow = Flow { money: other.clone(), ..latest(state) };
            let known = knowing(flow.clone());
            let expected = match state {
                State::PayFail | State::Refunded => Verdict::Insert(AttemptNo(4)),
                State::BizSuccess => Verdict::Join(&flow),
                State::WaitPay | State::Paying | State::Payed | State::Refunding => {
                    Verdict::OpenAttemptDiffers(flow.id)
                }
            };
            assert_eq!(judge(&request(), &known, now()), expected, "{state} for {other}");
        }
    }
}

#[test]
fn another_application_sees_nothing_of_an_attempt_that_is_not_its_own() {
    for state in State::ALL {
        let known = knowing(Flow { caller: samples::caller_named("other-shop"), ..latest(state) });
        let expected = match state {
            State::PayFail | State::Refunded => Verdict::Insert(AttemptNo(4)),
            State::WaitPay | State::Paying | State::Payed | State::BizSuccess | State::Refunding => {
                Verdict::TargetOfOtherCaller
            }
        };
        assert_eq!(judge(&request(), &known, now()), expected, "{state}");
        let differs = knowing(Flow {
            caller: samples::caller_named("other-shop"),
            money: samples::cny(5),
            ..latest(State::Paying)
        });
        assert_eq!(judge(&request(), &differs, now()), Verdict::TargetOfOtherCaller, "nor what it is for");
    }
}

#[test]
fn a_used_key_returns_its_own_flow_whatever_happened_since() {
    for state in State::ALL {
        let flow = latest(state);
        let known = keyed(request().fingerprint, flow.clone());
        assert_eq!(judge(&request(), &known, now()), Verdict::Replay(&flow), "{state}");
        // Also long after the deadline, and although the target has gone on to a later attempt.
        let later = Flow { attempt_no: AttemptNo(9), id: samples::flow_id(9), ..latest(State::Paying) };
        let moved_on = Lookup { latest: Some(later), ..known.clone() };
        let expired = now() + TimeDelta::days(400);
        assert_eq!(judge(&request(), &moved_on, expired), Verdict::Replay(&flow), "{state}");
    }
}

#[test]
fn a_key_used_for_something_else_is_refused_whatever_the_target_says() {
    for state in State::ALL {
        let flow = latest(state);
        let known = keyed(Fingerprint::of(&[b"something else"]), flow.clone());
        assert_eq!(judge(&request(), &known, now()), Verdict::KeyReused(flow.id), "{state}");
        let elsewhere = Lookup { latest: None, ..known };
        assert_eq!(judge(&request(), &elsewhere, now()), Verdict::KeyReused(flow.id), "{state}");
    }
}

#[test]
fn a_new_attempt_needs_a_deadline_ahead_and_within_the_horizon() {
    let nothing = Lookup { request: None, latest: None };
    let insert = Verdict::Insert(AttemptNo(1));
    let ahead_ms_and_verdict = [
        (-HORIZON_MS, Verdict::DeadlinePassed),
        (-1, Verdict::DeadlinePassed),
        (0, Verdict::DeadlinePassed),
        (1, insert.clone()),
        (HORIZON_MS - 1, insert.clone()),
        (HORIZON_MS, insert),
        (HORIZON_MS + 1, Verdict::DeadlineTooFar),
        (1_000 * HORIZON_MS, Verdict::DeadlineTooFar),
    ];
    for (ahead_ms, verdict) in ahead_ms_and_verdict {
        let request = samples::request(1, now() + TimeDelta::milliseconds(ahead_ms));
        assert_eq!(judge(&request, &nothing, now()), verdict, "{ahead_ms} ms ahead");
        let failed = knowing(latest(State::PayFail));
        let second = judge(&request, &failed, now());
        assert_eq!(
            matches!(second, Verdict::Insert(_)),
            matches!(verdict, Verdict::Insert(_)),
            "{ahead_ms} ms ahead"
        );
    }
}

#[test]
fn an_open_attempt_is_joined_even_after_the_deadline() {
    let late = samples::request(1, now() - TimeDelta::minutes(1));
    let flow = latest(State::Payed);
    assert_eq!(judge(&late, &knowing(flow.clone()), now()), Verdict::Join(&flow));
}

proptest! {
    #[test]
    fn a_new_attempt_is_only_made_where_the_last_one_failed_and_time_is_left(
        state in proptest::option::of(select(&State::ALL[..])),
        used_key in proptest::option::of(any::<bool>()),
        ahead_ms in -HORIZON_MS..3 * HORIZON_MS,
        same_money in any::<bool>(),
        same_caller in any::<bool>(),
    ) {
        let request = samples::request(1, now() + TimeDelta::milliseconds(ahead_ms));
        let latest = state.map(|state| {
            let mut flow = latest(state);
            if !same_money {
                flow.money = samples::cny(7);
            }
            if !same_caller {
                flow.caller = samples::caller_named("other-shop");
            }
            flow
        });
        let record = used_key.map(|same| RequestRecord {
            fingerprint: if same { request.fingerprint } else { Fingerprint::of(&[b"else"]) },
            flow: samples::flow(7, State::Paying, now()),
        });
        let known = Lookup { request: record, latest };
        if let Verdict::Insert(attempt_no) = judge(&request, &known, now()) {
            prop_assert!(known.request.is_none(), "a used key never creates");
            prop_assert!(known.latest.as_ref().is_none_or(|flow| flow.state.frees_target()));
            let last = known.latest.as_ref().map_or(0, |flow| flow.attempt_no.0);
            prop_assert_eq!(attempt_no, AttemptNo(last + 1));
            prop_assert!((1..=HORIZON_MS).contains(&ahead_ms));
        }
    }
}
