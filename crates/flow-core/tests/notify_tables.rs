//! What follows from a receiver's answer, as tables; and what it is told, byte for byte.

#![allow(clippy::unwrap_used, reason = "tests")]

use chrono::{DateTime, Utc};
use flow_core::answer::Classified as _;
use flow_core::ids::Version;
use flow_core::notify::{
    Delivery, DeliveryAnswer, EventId, NextStep, Notification, NotifiedChange, RetryPlan, judge,
};
use flow_core::retry::JitterPermille;
use flow_core::state::State;
use flow_testkit::samples;

const DAY_MS: u64 = 86_400_000;

fn plan() -> RetryPlan {
    RetryPlan::new(RetryPlan::DEFAULT_MS.to_vec(), DAY_MS).unwrap()
}

const fn status(code: u16) -> DeliveryAnswer {
    DeliveryAnswer::Status { code, retry_after_ms: None }
}

const fn asks(code: u16, seconds: u64) -> DeliveryAnswer {
    DeliveryAnswer::Status { code, retry_after_ms: Some(seconds * 1_000) }
}

/// Everything that is no 2xx.
const FAILURES: [DeliveryAnswer; 14] = [
    status(100),
    status(199),
    status(301),
    status(302),
    status(308),
    status(400),
    status(404),
    status(410),
    status(429),
    status(500),
    status(599),
    DeliveryAnswer::TimedOut,
    DeliveryAnswer::ConnectionLost,
    DeliveryAnswer::NotConnected,
];

#[test]
fn only_2xx_is_delivered_whatever_the_try() {
    for code in 200..=299 {
        for tries in [0, 3, 6, 100] {
            assert_eq!(
                judge(status(code), tries, &plan(), JitterPermille::NONE),
                NextStep::Delivered,
                "{code}"
            );
        }
    }
    for answer in FAILURES.into_iter().chain([DeliveryAnswer::ForbiddenTarget]) {
        assert_ne!(judge(answer, 0, &plan(), JitterPermille::NONE), NextStep::Delivered, "{answer:?}");
    }
}

#[test]
fn the_schedule_is_the_documented_one_and_then_people_must_look() {
    let expected_s = [60, 300, 1_800, 7_200, 21_600, 86_400];
    assert_eq!(plan().max_tries(), 7);
    for answer in FAILURES.into_iter().chain([DeliveryAnswer::ForbiddenTarget]) {
        for (tries, seconds) in (0..).zip(expected_s) {
            let next = judge(answer, tries, &plan(), JitterPermille::NONE);
            assert_eq!(next, NextStep::Retry { in_ms: seconds * 1_000 }, "{answer:?} after {tries}");
        }
        for tries in [6, 7, u32::MAX] {
            assert_eq!(
                judge(answer, tries, &plan(), JitterPermille::NONE),
                NextStep::Dead,
                "{answer:?} {tries}"
            );
        }
    }
}

#[test]
fn jitter_adds_up_to_a_quarter_and_takes_nothing() {
    for permille in 0..1_000 {
        let NextStep::Retry { in_ms } = judge(status(500), 1, &plan(), JitterPermille::new(permille)) else {
            panic!("not tried again")
        };
        assert!((300_000..=375_000).contains(&in_ms), "{in_ms}");
    }
}

#[test]
fn retry_after_makes_it_later_never_sooner_and_not_for_ever() {
    let in_ms = |answer, tries| judge(answer, tries, &plan(), JitterPermille::NONE);
    assert_eq!(in_ms(asks(429, 10), 0), NextStep::Retry { in_ms: 60_000 }, "the schedule's is longer");
    assert_eq!(in_ms(asks(429, 90), 0), NextStep::Retry { in_ms: 90_000 });
    assert_eq!(in_ms(asks(503, 3_600), 2), NextStep::Retry { in_ms: 3_600_000 });
    assert_eq!(in_ms(asks(503, u64::MAX / 1_000), 0), NextStep::Retry { in_ms: DAY_MS }, "bounded");
    assert_eq!(in_ms(asks(503, 1), 6), NextStep::Dead, "it gives no further try");
    assert_eq!(in_ms(asks(200, 60), 0), NextStep::Delivered);
}

#[test]
fn what_our_own_gate_kept_back_counts_nothing() {
    for tries in [0, 6, 100] {
        let next = judge(DeliveryAnswer::NotSent { wait_ms: 250 }, tries, &plan(), JitterPermille::NONE);
        assert_eq!(next, NextStep::Postponed { in_ms: 250 });
    }
}

#[test]
fn classes_and_what_the_breaker_makes_of_them() {
    // Class, and whether it speaks for a receiver that is not there.
    let table = [
        (status(200), "ACCEPTED", false),
        (status(302), "REDIRECTED", false),
        (status(404), "REJECTED", false),
        (status(429), "THROTTLED", false),
        (status(500), "FAILED", true),
        (status(503), "FAILED", true),
        (status(100), "FAILED", false),
        (DeliveryAnswer::TimedOut, "TIMED_OUT", true),
        (DeliveryAnswer::ConnectionLost, "CONNECTION_LOST", true),
        (DeliveryAnswer::NotConnected, "NOT_CONNECTED", true),
        (DeliveryAnswer::ForbiddenTarget, "FORBIDDEN_TARGET", true),
        (DeliveryAnswer::NotSent { wait_ms: 1 }, "NOT_SENT", true),
    ];
    for (answer, class, is_failure) in table {
        assert_eq!((answer.class(), answer.no_answer().is_some()), (class, is_failure), "{answer:?}");
        assert!(class.len() <= 32, "fits its column");
    }
}

#[test]
fn an_event_id_has_one_spelling() {
    let id = EventId { flow_id: samples::flow_id(81), version: Version(5) };
    assert_eq!((id.to_string().as_str(), "evt_81_5".parse()), ("evt_81_5", Ok(id)));
    for wrong in [
        "",
        "evt_",
        "evt_81",
        "evt_81_",
        "evt_0_5",
        "evt_081_5",
        "evt_81_05",
        "evt_+81_5",
        "evt_81_+5",
        "evt_81_-1",
        "EVT_81_5",
        "evt_81_5 ",
        "evt_81_5_6",
        "evt_9223372036854775808_0",
        "evt_1_9223372036854775808",
    ] {
        assert!(wrong.parse::<EventId>().is_err(), "{wrong}");
    }
    assert!("evt_9223372036854775807_9223372036854775807".parse::<EventId>().is_ok());
}

#[test]
fn a_notification_is_thin_and_always_the_same_bytes() {
    let at: DateTime<Utc> = "2026-02-03T04:05:06.078Z".parse().unwrap();
    let flow = samples::flow(7, State::BizSuccess, at);
    let told = |change, state| Notification {
        id: EventId { flow_id: flow.id, version: Version(5) },
        caller: flow.caller.clone(),
        change,
        state,
        at,
        user_id: flow.target.user_id,
        scene: flow.target.scene.clone(),
        biz_key: flow.target.biz_key.clone(),
        trade_order_no: flow.trade_order_no.clone(),
    };
    let ended = told(NotifiedChange::Ended, State::BizSuccess);
    let text = String::from_utf8(ended.body().unwrap()).unwrap();
    let expected = format!(
        "{{\"type\":\"payment_flow.ended\",\"timestamp\":\"2026-02-03T04:05:06.078Z\",\"data\":{{\
         \"event_id\":\"evt_{id}_5\",\"flow_id\":\"{id}\",\"version\":5,\"status\":\"BIZ_SUCCESS\",\
         \"state\":\"BIZ_SUCCESS\",\"user_id\":\"{user}\",\"scene\":\"{scene}\",\"biz_key\":\"{biz_key}\",\
         \"trade_order_no\":\"{order}\"}}}}",
        id = flow.id,
        user = flow.target.user_id,
        scene = flow.target.scene,
        biz_key = flow.target.biz_key,
        order = flow.trade_order_no,
    );
    assert_eq!(text, expected);
    assert_eq!(ended.body().unwrap(), told(NotifiedChange::Ended, State::BizSuccess).body().unwrap());
    let status = |change, state| told(change, state).client_state().as_str();
    assert_eq!(status(NotifiedChange::Held, State::Payed), "MANUAL_REVIEW");
    assert_eq!(status(NotifiedChange::Released, State::Payed), "PROCESSING");
    assert_eq!(status(NotifiedChange::Ended, State::Refunded), "REFUNDED");
}

#[test]
fn words_are_read_as_they_are_written() {
    for delivery in Delivery::ALL {
        assert_eq!(Delivery::parse(delivery.as_str()), Some(*delivery));
    }
    for change in NotifiedChange::ALL {
        assert_eq!(NotifiedChange::parse(change.as_str()), Some(*change));
    }
    assert_eq!((Delivery::parse("pending"), NotifiedChange::parse("ENDED ")), (None, None));
}
