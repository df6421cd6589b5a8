//! `POST /payments`: created, replayed, joined, refused.

use serde_json::json;

use crate::downstreams::Mood;
use crate::harness::{GAME, Harness, SHOP};

#[tokio::test]
async fn a_payment_that_ends_within_the_wait_is_201() {
    let harness = Harness::new();
    let reply = harness.pay("key-1", &harness.body(38_922), 1).await;
    assert_eq!(reply.status, 201, "{:#}", reply.body);
    let flow = harness.only_flow();
    let location = format!("/payment-flows/{}", flow.id);
    assert_eq!(reply.header("location"), Some(location.as_str()));
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(reply.header("idempotent-replayed"), None);
    assert_eq!(reply.text("status"), "BIZ_SUCCESS");
    assert_eq!(reply.text("flow_id"), flow.id.to_string());
    assert_eq!(reply.text("trade_order_no"), flow.trade_order_no.as_str());
    assert_eq!(reply.body["money"], json!({"amount": 1200, "currency": "CNY"}));
    assert_eq!(reply.body["terminal"], true);
    assert!(reply.body.get("poll_after_ms").is_none());
}

#[tokio::test]
async fn the_request_id_becomes_the_trace_of_the_writes() {
    let harness = Harness::new();
    let mut request = harness.pay_request(SHOP, "key-1", &harness.body(1), 1);
    request.headers_mut().insert("x-request-id", "checkout-77".parse().unwrap());
    let reply = harness.send(request).await;
    assert_eq!(reply.header("x-request-id"), Some("checkout-77"));
    let events = harness.store.all_events();
    assert!(events.len() >= 4, "{events:?}");
    for event in events {
        assert_eq!(event.trace_id.as_deref(), Some("checkout-77"), "{event:?}");
    }
    let mut request = harness.pay_request(SHOP, "key-2", &harness.body(2), 1);
    request.headers_mut().insert("x-request-id", "not an id; at all".parse().unwrap());
    let reply = harness.send(request).await;
    assert_eq!(reply.header("x-request-id").map(str::len), Some(36), "an id of our own replaces an odd one");
}

#[tokio::test]
async fn the_same_key_replays_in_either_spelling_and_any_form_of_the_same_body() {
    let harness = Harness::new();
    let body = harness.body(1);
    let first = harness.pay("key-1", &body, 1).await;
    let mut reworded = body.clone();
    reworded["deadline"] = json!(body["deadline"].as_str().unwrap().replace("+00:00", "Z"));
    reworded["context"] = json!(null);
    for (key, body) in [("key-1", &body), ("\"key-1\"", &body), ("key-1", &reworded)] {
        let again = harness.pay(key, body, 1).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")), "{key}");
        assert_eq!(again.body, first.body);
    }
    // Whatever has happened since, the deadline included: a replay is a replay.
    harness.clock.advance_ms(3_600_000);
    assert_eq!(harness.pay("key-1", &body, 1).await.status, 200);
    assert_eq!(harness.wallet.debits(), 1);
}

#[tokio::test]
async fn a_used_key_answers_with_its_flow_though_its_scene_is_gone() {
    let harness = Harness::new();
    let body = harness.body(1);
    let first = harness.pay("key-1", &body, 1).await;
    let later = harness.without_scenes();
    let again = later.pay("key-1", &body, 1).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(again.text("flow_id"), first.text("flow_id"));
    let reused = later.pay("key-1", &harness.body(2), 1).await;
    assert_eq!((reused.status, reused.text("code")), (422, "idempotency_key_reused"));
    let fresh = later.pay("key-2", &body, 1).await;
    assert_eq!((fresh.status, fresh.text("code")), (422, "scene_unknown"));
    harness.only_flow();
}

#[tokio::test]
async fn the_same_key_for_something_else_is_refused_and_names_its_flow() {
    let harness = Harness::new();
    let first = harness.pay("key-1", &harness.body(1), 1).await;
    let mut dearer = harness.body(1);
    dearer["money"]["amount"] = json!(1201);
    let mut with_context = harness.body(1);
    with_context["context"] = json!("x");
    for other in [dearer, with_context, harness.body(2)] {
        let reply = harness.pay("key-1", &other, 1).await;
        assert_eq!((reply.status, reply.text("code")), (422, "idempotency_key_reused"));
        assert_eq!((reply.text("field"), reply.text("flow_id")), ("Idempotency-Key", first.text("flow_id")));
    }
    harness.only_flow();
}

#[tokio::test]
async fn keys_belong_to_their_application() {
    let harness = Harness::new();
    assert_eq!(harness.pay("key-1", &harness.body(1), 1).await.status, 201);
    let theirs = harness.send(harness.pay_request(GAME, "key-1", &harness.body(2), 1)).await;
    assert_eq!(theirs.status, 201);
    let same_target = harness.send(harness.pay_request(GAME, "key-2", &harness.body(1), 1)).await;
    assert_eq!((same_target.status, same_target.text("code")), (409, "target_of_other_caller"));
    assert!(same_target.body.get("flow_id").is_none(), "another application's flow is not named");
}

#[tokio::test]
async fn another_key_joins_an_open_or_successful_attempt() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let first = harness.pay("key-1", &harness.body(1), 0).await;
    assert_eq!(first.status, 202);
    let joined = harness.pay("key-2", &harness.body(1), 0).await;
    assert_eq!((joined.status, joined.header("idempotent-replayed")), (200, None));
    assert_eq!(joined.text("flow_id"), first.text("flow_id"));
    assert_eq!(joined.text("status"), "PROCESSING");
    let replayed = harness.pay("key-2", &harness.body(1), 0).await;
    assert_eq!(
        replayed.header("idempotent-replayed"),
        Some("true"),
        "the second key stands for the flow now"
    );

    harness.wallet.open_gate();
    harness.api.work.drained().await;
    let after = harness.pay("key-3", &harness.body(1), 1).await;
    assert_eq!((after.status, after.text("status")), (200, "BIZ_SUCCESS"));
    harness.only_flow();
    assert_eq!(harness.wallet.debits(), 1);
}

#[tokio::test]
async fn an_open_attempt_for_another_amount_is_a_conflict() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let first = harness.pay("key-1", &harness.body(1), 0).await;
    let mut dearer = harness.body(1);
    dearer["money"]["amount"] = json!(1300);
    let reply = harness.pay("key-2", &dearer, 0).await;
    assert_eq!((reply.status, reply.text("code")), (409, "open_attempt_differs"));
    assert_eq!(reply.text("flow_id"), first.text("flow_id"));
    assert_eq!(reply.body["retryable"], false);
    harness.wallet.open_gate();
}

#[tokio::test]
async fn after_a_definite_failure_a_new_key_makes_a_second_attempt() {
    let harness = Harness::new();
    harness.wallet.set_mood(Mood::Refuses);
    let first = harness.pay("key-1", &harness.body(1), 1).await;
    assert_eq!((first.status, first.text("status")), (201, "PAY_FAIL"));
    assert_eq!(first.text("reason"), "INSUFFICIENT_BALANCE");
    harness.wallet.set_mood(Mood::Charges);
    let second = harness.pay("key-2", &harness.body(1), 1).await;
    assert_eq!((second.status, second.text("status")), (201, "BIZ_SUCCESS"));
    assert_eq!(second.body["attempt_no"], 2);
    let replay = harness.pay("key-1", &harness.body(1), 1).await;
    assert_eq!((replay.status, replay.text("status")), (200, "PAY_FAIL"), "a key keeps its own flow");
}

#[tokio::test]
async fn many_at_once_with_one_key_or_one_target_make_one_payment() {
    let harness = Harness::new();
    let bodies = harness.body(1);
    let requests: Vec<_> = (0..16)
        .map(|i| {
            let key = if i % 2 == 0 { "same".to_owned() } else { format!("key-{i}") };
            let request = harness.pay_request(SHOP, &key, &bodies, 5);
            let router = harness.router.clone();
            tokio::spawn(async move {
                use tower::ServiceExt as _;
                crate::harness::read(router.oneshot(request).await.unwrap()).await
            })
        })
        .collect();
    let mut created = 0;
    for request in requests {
        let reply = request.await.unwrap();
        assert!(matches!(reply.status, 200 | 201), "{}: {:#}", reply.status, reply.body);
        assert_eq!(reply.text("status"), "BIZ_SUCCESS");
        created += u32::from(reply.status == 201);
    }
    assert_eq!(created, 1);
    harness.only_flow();
    assert_eq!(harness.wallet.debits(), 1);
}
