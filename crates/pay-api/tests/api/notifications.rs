//! What people see of notifications, and the resend.

use chrono::TimeDelta;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::flow::{HoldReason, Trigger};
use flow_core::notify::{DeliveryAnswer, NextStep};
use flow_core::ports::{CasOutcome, ClaimPage, Created, NotifiedCaller, Outbox as _, Settlement};
use flow_testkit::samples;

use crate::harness::{Harness, ON_CALL, OPERATOR, SHOP};

const DEAD: NextStep = NextStep::Dead;

/// A flow of the shop's with a notification that was given up after one attempt; its event id.
async fn given_up(harness: &Harness, user: i64) -> String {
    let caller = samples::caller_named("shop");
    let named = NotifiedCaller { caller: caller.clone(), is_enabled: true };
    harness.store.set_callers(&[named]).await.unwrap();
    let mut new = samples::new_flow(user, harness.clock.now() + TimeDelta::minutes(10));
    new.caller = caller.clone();
    let Created::Inserted(seen) = harness.store.create_now(new) else { panic!("not created") };
    let flow = seen.value;
    let hold = CasWrite {
        flow_id: flow.id,
        from: flow.state,
        version: flow.version,
        change: Change::Hold { reason: HoldReason::Operator, by: samples::actor("alice") },
        evidence: WriteEvidence::of(Trigger::Operator),
    };
    assert_eq!(harness.store.cas_now(&hold).unwrap(), CasOutcome::Applied);
    let page = ClaimPage { caller, limit_rows: 1, claim_ms: 1_000 };
    let claimed = harness.store.claim_due(page).await.unwrap().remove(0);
    let settlement = Settlement {
        id: claimed.notification.id,
        claim: claimed.claim,
        answer: DeliveryAnswer::Status { code: 500, retry_after_ms: None },
        latency_ms: 12,
        next: DEAD,
    };
    harness.store.settle(settlement).await.unwrap();
    claimed.notification.id.to_string()
}

#[tokio::test]
async fn dead_letters_are_listed_looked_at_and_sent_again() {
    let harness = Harness::new();
    let id = given_up(&harness, 1).await;
    let list = harness.get(ON_CALL, "/notifications?delivery=DEAD").await;
    assert_eq!(list.status, 200, "{:#}", list.body);
    let told = &list.body["notifications"][0];
    assert_eq!(told["event_id"], id.as_str());
    assert_eq!((&told["type"], &told["status"]), (&"payment_flow.held".into(), &"MANUAL_REVIEW".into()));
    assert_eq!((&told["delivery"], &told["attempts"]), (&"DEAD".into(), &1.into()));
    assert_eq!((&told["last_answer"], &told["last_http_status"]), (&"FAILED".into(), &500.into()));
    assert!(told.get("next_attempt_at").is_none(), "{told:#}");

    let attempts = harness.get(ON_CALL, &format!("/notifications/{id}/attempts")).await;
    let line = &attempts.body["attempts"][0];
    assert_eq!((&line["attempt_no"], &line["answer"]), (&1.into(), &"FAILED".into()));
    assert_eq!((&line["http_status"], &line["latency_ms"]), (&500.into(), &12.into()));

    let resend = format!("/notifications/{id}/resend");
    for _ in 0..2 {
        let again = harness.post(OPERATOR, &resend).await;
        assert_eq!((again.status, again.text("delivery")), (200, "PENDING"), "{:#}", again.body);
        assert_eq!(again.text("resent_by"), "bob");
        assert!(again.body["next_attempt_at"].is_string());
    }
    let dead = harness.get(OPERATOR, "/notifications?delivery=DEAD").await;
    assert_eq!(dead.body["notifications"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn pages_follow_each_other() {
    let harness = Harness::new();
    let mut ids = Vec::new();
    for user in 1..=3 {
        ids.push(given_up(&harness, user).await);
    }
    ids.reverse();
    let first = harness.get(ON_CALL, "/notifications?limit=2&caller=shop").await;
    assert_eq!(first.body["has_more"], true);
    let second =
        harness.get(ON_CALL, &format!("/notifications?limit=2&cursor={}", first.text("cursor"))).await;
    assert_eq!((&second.body["has_more"], second.body.get("cursor")), (&false.into(), None));
    let found: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page.body["notifications"].as_array().unwrap())
        .map(|told| told["event_id"].as_str().unwrap())
        .collect();
    assert_eq!(found, ids);
    let none = harness.get(ON_CALL, "/notifications?caller=game").await;
    assert_eq!(none.body["notifications"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn clients_see_none_and_only_operators_resend() {
    let harness = Harness::new();
    let id = given_up(&harness, 1).await;
    for path in ["/notifications".to_owned(), format!("/notifications/{id}/attempts")] {
        assert_eq!(harness.get(SHOP, &path).await.text("code"), "forbidden", "{path}");
        assert_eq!(harness.get("", &path).await.text("code"), "unauthenticated", "{path}");
    }
    for key in [SHOP, ON_CALL] {
        assert_eq!(harness.post(key, &format!("/notifications/{id}/resend")).await.text("code"), "forbidden");
    }
    for path in ["/notifications/evt_9_9/attempts", "/notifications/evt_1_0/attempts"] {
        assert_eq!(harness.get(ON_CALL, path).await.text("code"), "notification_not_found", "{path}");
    }
    let unknown = harness.post(OPERATOR, "/notifications/evt_9_9/resend").await;
    assert_eq!((unknown.status, unknown.text("code")), (404, "notification_not_found"));
    let wrong = harness.post(OPERATOR, "/notifications/evt_01_1/resend").await;
    assert_eq!((wrong.status, wrong.text("field")), (400, "event_id"));
}
