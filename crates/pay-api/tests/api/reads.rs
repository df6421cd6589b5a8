//! Lists, pages, audit log, health.

use axum::body::Body;
use pay_api::{Late, late_router};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::downstreams::Mood;
use crate::harness::{Harness, ON_CALL, SHOP, read, request};

async fn ids(harness: &Harness, query: &str) -> Vec<String> {
    let reply = harness.get(ON_CALL, &format!("/payment-flows?{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {:#}", reply.body);
    let flows = reply.body["flows"].as_array().unwrap();
    flows.iter().map(|flow| flow["flow_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn filters_hold_together() {
    let harness = Harness::new();
    for user in 1..=3 {
        harness.pay(&format!("key-{user}"), &harness.body(user), 1).await;
    }
    harness.wallet.set_mood(Mood::StaysSilent);
    harness.clock.advance_ms(10_000);
    harness.pay("key-4", &harness.body(4), 0).await;
    harness.api.work.drained().await;
    let flows = harness.store.flows();
    assert_eq!(ids(&harness, "").await, ["4", "3", "2", "1"], "newest first");
    assert_eq!(ids(&harness, "user_id=2").await, ["2"]);
    assert_eq!(ids(&harness, "user_id=2&biz_key=R:3").await, Vec::<String>::new());
    assert_eq!(ids(&harness, "scene=renew&biz_key=R%3A3").await, ["3"]);
    assert_eq!(ids(&harness, &format!("trade_order_no={}", flows[0].trade_order_no)).await, ["1"]);
    assert_eq!(ids(&harness, &format!("refund_order_no={}", flows[1].refund_order_no)).await, ["2"]);
    assert_eq!(ids(&harness, "open=true").await, ["4"]);
    assert_eq!(ids(&harness, "open=false&limit=2").await, ["3", "2"]);
    assert_eq!(ids(&harness, "state=PAYING").await, ["4"]);
    assert_eq!(ids(&harness, "held=true").await, Vec::<String>::new());
    assert_eq!(ids(&harness, "min_age_ms=10000").await, ["3", "2", "1"]);
}

#[tokio::test]
async fn pages_follow_one_another_without_gap_or_overlap() {
    let harness = Harness::new();
    for user in 1..=12 {
        harness.pay(&format!("key-{user}"), &harness.body(user), 1).await;
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = harness.get(SHOP, &format!("/payment-flows?limit=5{cursor}")).await;
        let flows = page.body["flows"].as_array().unwrap();
        seen.extend(flows.iter().map(|flow| flow["user_id"].as_str().unwrap().parse::<i64>().unwrap()));
        if page.body["has_more"] == false {
            assert!(page.body.get("cursor").is_none());
            break;
        }
        assert_eq!(flows.len(), 5);
        cursor = format!("&cursor={}", page.text("cursor"));
    }
    assert_eq!(seen, (1..=12).rev().collect::<Vec<_>>());
    let capped = harness.get(SHOP, "/payment-flows?limit=100000").await;
    assert_eq!(capped.body["flows"].as_array().unwrap().len(), 10, "a page is bounded whatever is asked for");
}

#[tokio::test]
async fn the_audit_log_is_paged_oldest_first() {
    let harness = Harness::new();
    let flow = harness.pay("key-1", &harness.body(1), 1).await.text("flow_id").to_owned();
    let path = format!("/payment-flows/{flow}/events");
    let whole = harness.get(SHOP, &format!("{path}?limit=10")).await;
    let whole = whole.body["events"].as_array().unwrap().clone();
    let states: Vec<&str> = whole.iter().map(|event| event["to"].as_str().unwrap()).collect();
    assert_eq!(states, ["WAIT_PAY", "PAYING", "PAYED", "BIZ_SUCCESS"]);
    assert!(whole[0].get("from").is_none());
    let mut seen: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = harness.get(SHOP, &format!("{path}?limit=2{cursor}")).await;
        seen.extend(page.body["events"].as_array().unwrap().iter().cloned());
        let Some(next) = page.body["cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, whole);
}

#[tokio::test]
async fn health_readiness_and_metrics_ask_for_no_key() {
    let harness = Harness::new();
    assert_eq!(harness.get("", "/healthz").await.text("status"), "live");
    assert_eq!(harness.get("", "/readyz").await.text("status"), "ready");
    let metrics = harness.get("", "/metrics").await;
    assert_eq!(metrics.body, "flow_open 0\n");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"));

    *harness.ready.0.lock().unwrap() = Some("the schema is of another version".to_owned());
    let reply = harness.get("", "/readyz").await;
    assert_eq!((reply.status, reply.text("code")), (503, "not_ready"));
    assert!(reply.text("detail").contains("another version"));
    assert_eq!(harness.get("", "/healthz").await.status, 200, "restarting would not mend it");
}

#[tokio::test]
async fn head_is_answered_like_get() {
    let harness = Harness::new();
    let reply = harness.send(request("HEAD", "/healthz", "", &[], Body::empty())).await;
    assert_eq!((reply.status, reply.body), (200, Value::String(String::new())));
}

#[tokio::test]
async fn while_the_database_is_not_reached_the_process_is_live_and_not_ready() {
    let harness = Harness::new();
    *harness.ready.0.lock().unwrap() = Some("the database is not reached yet".to_owned());
    let late = Late::default();
    let clock = std::sync::Arc::clone(&harness.api.clock);
    let front = late_router(late.clone(), harness.api.ops.clone(), clock);
    let send = async |request| read(front.clone().oneshot(request).await.unwrap()).await;
    let get = |path| request("GET", path, SHOP, &[], Body::empty());
    assert_eq!(send(get("/healthz")).await.status, 200);
    assert_eq!(send(get("/metrics")).await.status, 200);
    assert!(send(get("/readyz")).await.text("detail").contains("not reached yet"));
    for early in [get("/payment-flows/1"), harness.pay_request(SHOP, "k", &harness.body(1), 1)] {
        let reply = send(early).await;
        assert_eq!(
            (reply.status, reply.text("code"), reply.header("retry-after")),
            (503, "not_ready", Some("1"))
        );
        assert_eq!(reply.header("x-request-id"), Some(reply.text("request_id")));
    }
    *harness.ready.0.lock().unwrap() = None;
    late.open(harness.router.clone());
    assert_eq!(send(get("/readyz")).await.status, 200);
    assert_eq!(send(harness.pay_request(SHOP, "k", &harness.body(1), 1)).await.status, 201);
}
