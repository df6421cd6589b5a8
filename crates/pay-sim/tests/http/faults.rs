//! Every kind of fault, seen from the caller's side and in the ledger.

use std::time::Duration;

use pay_sim::sim::now_ms;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rig::{Rig, debit, in_an_hour, options};

/// A fault that withholds or spoils the answer, at both stages: what the ledger says tells the stages apart.
async fn at_both_stages(fault: Value, check: impl Fn(reqwest::Result<(StatusCode, Value)>)) {
    let rig = Rig::start().await;
    for (stage, charges) in [("before", 0), ("after", 1)] {
        rig.fault(
            json!({"calls": ["debit"], "trade_order_no": stage, "stage": stage, "times": 1, "fault": fault}),
        )
        .await;
        check(rig.client.debit(stage).await);
        assert_eq!(rig.client.counts(stage).await, (charges, 0, 0), "{fault} {stage}");
        let (status, body) = rig.client.debit(stage).await.unwrap();
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("SUCCESS")), "spent: {body}");
        assert_eq!(rig.client.counts(stage).await, (1, 0, 0));
    }
}

#[tokio::test]
async fn drop_closes_the_connection_without_an_answer() {
    at_both_stages(json!({"kind": "drop"}), |answer| {
        let error = answer.unwrap_err();
        assert!(!error.is_timeout() && !error.is_connect(), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_answer_leaves_not_one_byte() {
    let rig = Rig::start().await;
    rig.fault(json!({"fault": {"kind": "drop"}})).await;
    let mut stream = TcpStream::connect(rig.running.addr).await.unwrap();
    stream.write_all(b"GET /wallet/v1/debits/a HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"");
}

#[tokio::test]
async fn a_server_error_says_nothing_about_the_effect() {
    at_both_stages(json!({"kind": "status", "status": 502}), |answer| {
        let (status, body) = answer.unwrap();
        assert_eq!((status.as_u16(), &body["code"]), (502, &json!("INTERNAL")));
    })
    .await;
}

#[tokio::test]
async fn throttling_has_no_effect_and_says_when_to_come_back() {
    let rig = Rig::start().await;
    rig.fault(json!({"fault": {"kind": "status", "status": 429, "retry_after_s": 3}})).await;
    let response =
        rig.client.send(reqwest::Method::POST, "/wallet/v1/debits", Some(&debit("a", 1))).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "3");
    assert_eq!(rig.client.counts("a").await, (0, 0, 0));
}

#[tokio::test]
async fn a_503_promises_no_effect_only_when_asked_to_and_then_has_none() {
    let rig = Rig::start().await;
    for (fault, code) in [
        (json!({"kind": "status", "status": 503, "retry_after_s": 1}), "UNAVAILABLE"),
        (json!({"kind": "unavailable"}), "UNAVAILABLE"),
        (json!({"kind": "status", "status": 503, "retry_after_s": 1, "not_executed": true}), "NOT_EXECUTED"),
        (json!({"kind": "unavailable", "not_executed": true}), "NOT_EXECUTED"),
    ] {
        let id = rig.fault(json!({"fault": fault})).await;
        let (debits, body) = ("/wallet/v1/debits", debit("a", 1));
        let response = rig.client.send(reqwest::Method::POST, debits, Some(&body)).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.json::<Value>().await.unwrap()["code"], code, "{fault}");
        let (status, body) = rig.client.execute("a", in_an_hour()).await.unwrap();
        assert_eq!((status, &body["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(code)), "{fault}");
        assert_eq!(rig.client.counts("a").await, (0, 0, 0), "{fault}");
        let (_, listed) = rig.client.get("/faults").await.unwrap();
        let promised = &listed["faults"][0]["rule"]["fault"]["not_executed"];
        assert_eq!(promised.as_bool().unwrap_or_default(), code == "NOT_EXECUTED", "{listed}");
        rig.client.send(reqwest::Method::DELETE, &format!("/faults/{id}"), None).await.unwrap();
    }
}

#[tokio::test]
async fn garbage_is_no_document_or_whatever_was_asked_for() {
    at_both_stages(json!({"kind": "garbage"}), |answer| {
        assert_eq!(answer.unwrap(), (StatusCode::OK, Value::Null))
    })
    .await;
    at_both_stages(json!({"kind": "garbage", "body": "{\"status\": 7}"}), |answer| {
        assert_eq!(answer.unwrap(), (StatusCode::OK, json!({"status": 7})));
    })
    .await;
}

#[tokio::test]
async fn a_delayed_call_reaches_the_world_though_the_caller_gave_up() {
    let rig = Rig::start().await;
    for (stage, charges_at_arrival) in [("before", 0), ("after", 1)] {
        let delay = json!({"kind": "delay", "ms": 1_000});
        rig.fault(json!({"trade_order_no": stage, "calls": ["debit"], "stage": stage, "fault": delay})).await;
        let gave_up = tokio::time::timeout(Duration::from_millis(60), rig.client.debit(stage)).await;
        assert!(gave_up.is_err(), "the answer must not come before its delay");
        let seen = if stage == "before" { "arrived" } else { "applied" };
        rig.client.wait(&format!("call=debit&trade_order_no={stage}&at={seen}")).await;
        assert_eq!(rig.client.counts(stage).await, (charges_at_arrival, 0, 0), "{stage}");
        rig.client.wait(&format!("call=debit&trade_order_no={stage}")).await;
        assert_eq!(rig.client.counts(stage).await, (1, 0, 0), "{stage}");
    }
}

#[tokio::test]
async fn processing_completes_on_the_next_query() {
    let rig = Rig::start().await;
    rig.fault(json!({"calls": ["debit", "refund", "execute"], "fault": {"kind": "processing"}})).await;
    assert_eq!(rig.client.debit("a").await.unwrap().1["status"], "PROCESSING");
    assert_eq!(rig.client.counts("a").await, (0, 0, 0));
    assert_eq!(rig.client.query("a").await.unwrap().1["status"], "SUCCESS");
    assert_eq!(rig.client.refund("a").await.unwrap().1["status"], "PROCESSING");
    assert_eq!(rig.client.counts("a").await, (1, 0, 0));
    assert_eq!(rig.client.query_refund("a").await.unwrap().1["status"], "SUCCESS");
    assert_eq!(rig.client.execute("b", in_an_hour()).await.unwrap().1["status"], "NOT_DONE");
    assert_eq!(
        rig.client.fact("b").await.unwrap().1,
        json!({"user_id": "7", "scene": "renewal", "biz_key": "key-b", "status": "DONE", "owner_order_no": "b",
        "finished_at": rig.client.fact("b").await.unwrap().1["finished_at"]})
    );
    assert_eq!(rig.client.counts("a").await, (1, 1, 0));
}

#[tokio::test]
async fn processing_completes_after_a_while_though_nobody_asks() {
    let rig = Rig::start().await;
    rig.fault(json!({"calls": ["debit"], "fault": {"kind": "processing", "after_ms": 30}})).await;
    let (_, accepted) = rig.client.debit("a").await.unwrap();
    assert_eq!(accepted["status"], "PROCESSING");
    assert!(accepted.get("transaction_id").is_none() && accepted.get("finished_at").is_none());
    let charged = async {
        // The ledger only reads: it is the timer that carries the debit out.
        while rig.client.counts("a").await != (1, 0, 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), charged).await.unwrap();
}

#[tokio::test]
async fn a_reader_that_does_not_know_yet_changes_nothing() {
    let rig = Rig::start().await;
    rig.client.debit("a").await.unwrap();
    rig.client.refund("a").await.unwrap();
    let id = rig.fault(json!({"fault": {"kind": "processing"}})).await;
    for answer in
        [rig.client.query("a").await, rig.client.close("a").await, rig.client.query_refund("a").await]
    {
        let (status, body) = answer.unwrap();
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("PROCESSING")));
        assert!(body.get("transaction_id").is_none(), "{body}");
    }
    assert_eq!(
        rig.client.close("new").await.unwrap().1,
        json!({"trade_order_no": "new", "status": "PROCESSING"})
    );
    let removed = rig.client.send(reqwest::Method::DELETE, &format!("/faults/{id}"), None).await.unwrap();
    assert_eq!(removed.status(), StatusCode::NO_CONTENT);
    assert_eq!(rig.client.query("new").await.unwrap().0, StatusCode::NOT_FOUND, "nothing was promised");
}

#[tokio::test]
async fn a_refusal_is_definite() {
    let rig = Rig::start().await;
    rig.client.debit("paid").await.unwrap();
    let refuse = json!({"kind": "refuse", "code": "RISK"});
    let id = rig.fault(json!({"fault": refuse})).await;
    let (_, failed) = rig.client.debit("a").await.unwrap();
    assert_eq!((&failed["status"], &failed["failure_code"]), (&json!("FAILED"), &json!("RISK")));
    let (_, not_refunded) = rig.client.refund("paid").await.unwrap();
    assert_eq!((&not_refunded["status"], &not_refunded["failure_code"]), (&json!("FAILED"), &json!("RISK")));
    let (_, not_done) = rig.client.execute("a", in_an_hour()).await.unwrap();
    assert_eq!(not_done, json!({"status": "NOT_DONE", "refusal_code": "RISK"}));
    rig.client.send(reqwest::Method::DELETE, &format!("/faults/{id}"), None).await.unwrap();
    assert_eq!(rig.client.debit("a").await.unwrap().1["status"], "FAILED", "sticky");
    assert_eq!(rig.client.refund("paid").await.unwrap().1["status"], "SUCCESS", "may be tried again");
    assert_eq!(
        rig.client.execute("a", in_an_hour()).await.unwrap().0,
        StatusCode::CONFLICT,
        "another not_after"
    );
}

#[tokio::test]
async fn a_duplicate_reaches_the_world_twice_and_has_one_effect() {
    let rig = Rig::start().await;
    for (no, after_ms) in [("a", 0), ("b", 20)] {
        let duplicate = json!({"kind": "duplicate", "second_after_ms": after_ms});
        rig.fault(json!({"trade_order_no": no, "fault": duplicate})).await;
        assert_eq!(rig.client.debit(no).await.unwrap().1["status"], "SUCCESS");
        rig.client.wait(&format!("call=debit&trade_order_no={no}&count=2")).await;
        let (_, ledger) = rig.client.get(&format!("/ledger/{no}")).await.unwrap();
        assert_eq!((&ledger["charges"], &ledger["calls"]["debit"]), (&json!(1), &json!(2)));
    }
}

/// The delayed message: its caller has lost the connection, the deadline passes, the money goes back, and then it arrives.
async fn late_execution(mutants: Value) -> (u64, u64, u64) {
    let rig = Rig::start().await;
    assert_eq!(rig.client.post("/mutants", &mutants).await.unwrap().0, StatusCode::NO_CONTENT);
    rig.fault(json!({"calls": ["execute"], "times": 1, "fault": {"kind": "late", "after_ms": 400}})).await;
    rig.client.debit("a").await.unwrap();
    let error = rig.client.execute("a", now_ms() + 200).await.unwrap_err();
    assert!(!error.is_timeout(), "lost at once: {error:?}");
    assert_eq!(
        rig.client.fact("a").await.unwrap().1,
        json!({"user_id": "7", "scene": "renewal", "biz_key": "key-a", "status": "NOT_DONE"})
    );
    rig.client.refund("a").await.unwrap();
    rig.client.wait("call=execute&trade_order_no=a").await;
    rig.client.counts("a").await
}

#[tokio::test]
async fn a_late_execution_is_refused_and_grants_money_away_without_the_check() {
    assert_eq!(late_execution(json!({})).await, (1, 1, 0));
    assert_eq!(late_execution(json!({"ignore_not_after": true})).await, (1, 1, 1));
}

#[tokio::test]
async fn a_late_debit_meets_the_tombstone() {
    let rig = Rig::start().await;
    rig.fault(json!({"calls": ["debit"], "fault": {"kind": "late", "after_ms": 500}})).await;
    rig.client.debit("a").await.unwrap_err();
    rig.client.wait("call=debit&trade_order_no=a&at=arrived").await;
    assert_eq!(rig.client.close("a").await.unwrap().1["status"], "CLOSED");
    rig.client.wait("call=debit&trade_order_no=a").await;
    assert_eq!(rig.client.counts("a").await, (0, 0, 0));
    assert_eq!(rig.client.query("a").await.unwrap().1["status"], "CLOSED");
}

#[tokio::test]
async fn a_wrong_answer_is_wrong_in_one_member_and_the_world_is_right() {
    let rig = Rig::start().await;
    let right = rig.client.debit("a").await.unwrap().1;
    rig.client.refund("a").await.unwrap();
    let cases = [
        ("wrong_amount", "/money/amount", json!(101)),
        ("wrong_currency", "/money/currency", json!("XXX")),
        ("wrong_user", "/user_id", json!("1")),
    ];
    for (kind, pointer, wrong) in cases {
        let id = rig.fault(json!({"fault": {"kind": kind}})).await;
        let mut answer = rig.client.query("a").await.unwrap().1;
        assert_eq!(answer.pointer(pointer), Some(&wrong), "{kind}");
        assert_eq!(rig.client.query_refund("a").await.unwrap().1.pointer(pointer), Some(&wrong), "{kind}");
        *answer.pointer_mut(pointer).unwrap() = right.pointer(pointer).unwrap().clone();
        assert_eq!(answer, right, "{kind} changes nothing else");
        rig.client.send(reqwest::Method::DELETE, &format!("/faults/{id}"), None).await.unwrap();
        assert_eq!(rig.client.query("a").await.unwrap().1, right);
    }
}

#[tokio::test]
async fn a_contradictory_fact_contradicts_itself_in_the_way_asked_for() {
    let rig = Rig::start().await;
    rig.fault(json!({"times": 1, "fault": {"kind": "contradict", "shape": "not_done_with_owner"}})).await;
    let (_, fact) = rig.client.fact("a").await.unwrap();
    assert_eq!(fact["status"], "NOT_DONE");
    assert!(fact["owner_order_no"].is_string());
    rig.client.execute("a", in_an_hour()).await.unwrap();
    rig.fault(json!({"times": 1, "fault": {"kind": "contradict", "shape": "done_without_owner"}})).await;
    let (_, fact) = rig.client.fact("a").await.unwrap();
    assert_eq!((&fact["status"], fact.get("owner_order_no")), (&json!("DONE"), None));
    assert_eq!(rig.client.fact("a").await.unwrap().1["owner_order_no"], "a");
}

#[tokio::test]
async fn base_latency_holds_every_call_back_and_loses_none() {
    let rig = Rig::with(pay_sim::http::Options { latency: Duration::from_millis(500), ..options() }).await;
    let gave_up = tokio::time::timeout(Duration::from_millis(30), rig.client.debit("a")).await;
    assert!(gave_up.is_err());
    rig.client.wait("call=debit&trade_order_no=a").await;
    assert_eq!(rig.client.counts("a").await, (1, 0, 0));
}
