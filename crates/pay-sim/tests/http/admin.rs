//! Balances, ledgers, waiting, resetting, bad input.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rig::{Rig, debit, in_an_hour};

#[tokio::test]
async fn a_balance_bounds_what_can_be_charged() {
    let rig = Rig::start().await;
    let set = rig.client.post("/accounts/7", &json!({"currency": "CNY", "amount": 150})).await.unwrap();
    assert_eq!(set.0, StatusCode::NO_CONTENT);
    assert_eq!(rig.client.debit("a").await.unwrap().1["status"], "SUCCESS");
    let (_, failed) = rig.client.debit("b").await.unwrap();
    assert_eq!(
        (&failed["status"], &failed["failure_code"]),
        (&json!("FAILED"), &json!("INSUFFICIENT_FUNDS"))
    );
    for (path, body) in [
        ("/accounts/x", json!({"currency": "CNY", "amount": 1})),
        ("/accounts/7", json!({"currency": "CNY", "amount": -1})),
        ("/accounts/7", json!({"currency": "CNY", "amount": 1.5})),
        ("/accounts/7", json!({"currency": "CNY", "amount": 1, "typo": 1})),
    ] {
        assert_eq!(rig.client.post(path, &body).await.unwrap().0, StatusCode::BAD_REQUEST, "{path} {body}");
    }
}

#[tokio::test]
async fn the_ledger_is_read_by_order_by_target_as_a_summary_and_as_a_dump() {
    let rig = Rig::start().await;
    for n in 0..1_201 {
        assert_eq!(rig.client.debit(&format!("o{n:04}")).await.unwrap().0, StatusCode::OK);
    }
    rig.client.execute("o0001", in_an_hour()).await.unwrap();
    let (_, of_target) = rig.client.get("/ledger?user_id=7&scene=renewal&biz_key=key-o0001").await.unwrap();
    assert_eq!(of_target["owner_order_no"], "o0001");
    assert_eq!(of_target["orders"][0]["entries"][0]["effect"], "charge");
    assert_eq!(of_target["orders"][0]["entries"][1]["target"]["user_id"], "7");
    assert_eq!(rig.client.get("/ledger?user_id=7&scene=renewal").await.unwrap().0, StatusCode::BAD_REQUEST);
    assert_eq!(rig.client.get("/ledger/nope").await.unwrap().1["known"], false);

    let (_, clean) = rig.client.get("/ledger/summary").await.unwrap();
    assert_eq!((&clean["totals"]["charges"], &clean["anomaly_count"]), (&json!(1_201), &json!(0)));
    assert_eq!(clean["totals"]["charged_amount"]["CNY"], 120_100);
    assert_eq!(clean["calls"]["debit"], 1_201);
    rig.client.post("/mutants", &json!({"double_charge": true})).await.unwrap();
    rig.client.debit("o0001").await.unwrap();
    rig.client.refund("o0001").await.unwrap();
    let (_, bad) = rig.client.get("/ledger/summary").await.unwrap();
    assert_eq!(bad["anomaly_count"], 1);
    let found = json!({"trade_order_no": "o0001", "charges": 2, "refunds": 1, "grants": 1,
        "anomalies": ["charged_more_than_once", "granted_and_refunded"]});
    assert_eq!(bad["anomalies"], json!([found]));

    let dump = rig.client.send(Method::GET, "/ledger/dump", None).await.unwrap().text().await.unwrap();
    let numbers: Vec<String> = dump
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["trade_order_no"].as_str().unwrap().to_owned()
        })
        .collect();
    let expected: Vec<String> = (0..1_201).map(|n| format!("o{n:04}")).collect();
    assert_eq!(numbers, expected);
}

#[tokio::test]
async fn a_wait_ends_when_the_count_is_reached_or_its_time_is_up() {
    let rig = Rig::start().await;
    let (status, body) = rig.client.get("/wait?call=debit&timeout_ms=20").await.unwrap();
    assert_eq!((status, &body["code"]), (StatusCode::REQUEST_TIMEOUT, &json!("WAIT_TIMEOUT")));
    let waiting = {
        let client = rig.client.clone();
        tokio::spawn(async move { client.get("/wait?call=debit&trade_order_no=a&count=3").await.unwrap() })
    };
    for _ in 0..2 {
        rig.client.debit("a").await.unwrap();
        rig.client.debit("b").await.unwrap();
    }
    assert!(!waiting.is_finished(), "two are not three");
    rig.client.debit("a").await.unwrap();
    assert_eq!(waiting.await.unwrap(), (StatusCode::OK, json!({"count": 3})));
    rig.client.wait("call=debit&count=5").await;
    rig.client.refund("a").await.unwrap();
    rig.client.query_refund("a").await.unwrap();
    rig.client.fact("a").await.unwrap();
    rig.client.wait("call=refund&trade_order_no=a").await;
    rig.client.wait("call=query_refund&refund_order_no=r_a").await;
    rig.client.wait("call=fact&user_id=7&scene=renewal&biz_key=key-a").await;
    for bad in
        ["call=nope", "call=debit&trade_order_no=a&refund_order_no=b", "call=fact&user_id=7", "count=1"]
    {
        assert_eq!(
            rig.client.get(&format!("/wait?{bad}")).await.unwrap().0,
            StatusCode::BAD_REQUEST,
            "{bad}"
        );
    }
}

#[tokio::test]
async fn a_reset_forgets_everything_and_loses_what_is_on_its_way() {
    let rig = Rig::start().await;
    rig.client.debit("a").await.unwrap();
    rig.fault(json!({"times": 1, "trade_order_no": "late", "fault": {"kind": "late", "after_ms": 400}}))
        .await;
    rig.client.debit("late").await.unwrap_err();
    let reset = rig.client.send(Method::POST, "/reset", None).await.unwrap();
    assert_eq!(reset.status(), StatusCode::NO_CONTENT);
    assert_eq!(rig.client.query("a").await.unwrap().0, StatusCode::NOT_FOUND);
    assert_eq!(rig.client.get("/faults").await.unwrap().1, json!({"faults": []}));
    let (status, _) = rig.client.get("/wait?call=debit&trade_order_no=late&timeout_ms=700").await.unwrap();
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT, "the late one belongs to the old world");
}

#[tokio::test]
async fn bad_rules_are_refused_with_the_reason() {
    let rig = Rig::start().await;
    for (rule, status) in [
        (json!({"fault": {"kind": "nope"}}), StatusCode::BAD_REQUEST),
        (json!({"call": "debit", "fault": {"kind": "drop"}}), StatusCode::BAD_REQUEST),
        (json!({"calls": ["fact"], "fault": {"kind": "processing"}}), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({"fault": {"kind": "status", "status": 200}}), StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let (got, body) = rig.client.post("/faults", &rule).await.unwrap();
        assert_eq!(got, status, "{rule}: {body}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    }
    for path in ["/faults/1", "/faults/x"] {
        let gone = rig.client.send(Method::DELETE, path, None).await.unwrap();
        assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    }
    assert_eq!(rig.client.post("/mutants", &json!({"typo": true})).await.unwrap().0, StatusCode::BAD_REQUEST);
    assert_eq!(rig.client.get("/mutants").await.unwrap().1["ignore_not_after"], false);
}

#[tokio::test]
async fn request_ids_are_echoed_or_made_up() {
    let rig = Rig::start().await;
    for (given, echoed) in [("x-request-id: mine-1\r\n", Some("x-request-id: mine-1")), ("", None)] {
        let mut stream = tokio::net::TcpStream::connect(rig.running.addr).await.unwrap();
        let head = format!("GET /wallet/v1/debits/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{given}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.contains(echoed.unwrap_or("x-request-id: sim-")), "{text}");
    }
}

#[tokio::test]
async fn stopping_lets_requests_under_way_finish() {
    let rig = Rig::start().await;
    rig.fault(json!({"calls": ["debit"], "fault": {"kind": "delay", "ms": 80}})).await;
    let client = rig.client.clone();
    let under_way = tokio::spawn(async move { client.debit("a").await });
    rig.client.wait("call=debit&at=arrived").await;
    rig.running.stop().await;
    assert_eq!(under_way.await.unwrap().unwrap().1["status"], "SUCCESS");
    assert!(rig.client.post("/wallet/v1/debits", &debit("b", 1)).await.unwrap_err().is_connect());
}
