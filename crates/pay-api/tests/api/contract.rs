//! The OpenAPI document against the router and the table of codes.

use std::collections::BTreeSet;

use axum::body::Body;
use expect_test::expect;
use pay_api::openapi;
use pay_api::problem::Code;
use serde_json::Value;

use crate::harness::{Harness, SHOP, request};

pub(crate) fn document() -> Value {
    serde_json::to_value(openapi()).unwrap()
}

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            found.push((method.to_uppercase(), path.clone(), operation));
        }
    }
    found
}

/// A path with its parameters.
fn filled(path: &str) -> String {
    path.replace("{flow_id}", "1")
        .replace("{event_id}", "evt_1_1")
        .replace("{channel}", "main")
        .replace("{ticket_id}", "1")
}

#[test]
fn the_routes_are_these() {
    let document = document();
    let mut lines: Vec<String> = operations(&document)
        .into_iter()
        .map(|(method, path, operation)| {
            let key = if operation.get("security").is_some() { "key" } else { "   " };
            format!("{method:4} {key} {path}")
        })
        .collect();
    lines.sort();
    expect![[r#"
        GET      /docs
        GET      /healthz
        GET      /metrics
        GET      /openapi.json
        GET      /readyz
        GET  key /notifications
        GET  key /notifications/{event_id}/attempts
        GET  key /payment-flows
        GET  key /payment-flows/{flow_id}
        GET  key /payment-flows/{flow_id}/events
        GET  key /recon/tickets
        GET  key /recon/tickets/{ticket_id}
        GET  key /recon/tickets/{ticket_id}/trail
        POST     /callbacks/{channel}
        POST key /notifications/{event_id}/resend
        POST key /payment-flows/{flow_id}/advance
        POST key /payment-flows/{flow_id}/cancel
        POST key /payment-flows/{flow_id}/hold
        POST key /payment-flows/{flow_id}/release
        POST key /payments
        POST key /recon/tickets/{ticket_id}/assign
        POST key /recon/tickets/{ticket_id}/confirm
        POST key /recon/tickets/{ticket_id}/ignore
        POST key /recon/tickets/{ticket_id}/resolve"#]]
    .assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn the_router_and_the_document_know_the_same_paths() {
    let harness = Harness::new();
    let document = document();
    for (method, path, _) in operations(&document) {
        let reply = harness.send(request(&method, &filled(&path), SHOP, &[], Body::empty())).await;
        let code = reply.body["code"].as_str().unwrap_or_default();
        assert!(!matches!(code, "route_not_found" | "method_not_allowed"), "{method} {path}: {code}");
        let other = if method == "GET" { "PATCH" } else { "GET" };
        let wrong = harness.send(request(other, &filled(&path), SHOP, &[], Body::empty())).await;
        if !operations(&document).iter().any(|(m, p, _)| *m == other && *p == path) {
            assert_eq!(wrong.status, 405, "{other} {path}");
        }
    }
    // The router prints its paths; there is no other way to ask it. "/" is where it keeps its fallback.
    assert_eq!(harness.get(SHOP, "/").await.body["code"], "route_not_found");
    let printed = format!("{:?}", harness.router);
    let in_router: BTreeSet<&str> = printed
        .split('"')
        .filter(|text| text.starts_with('/') && text.len() > 1 && !text.contains("__private__axum"))
        .collect();
    let in_document: BTreeSet<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(in_router, in_document);
}

#[test]
fn the_document_knows_every_code_and_every_code_belongs_to_a_route_or_to_all() {
    let document = document();
    let listed: BTreeSet<&str> = document["components"]["schemas"]["ProblemCode"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| code.as_str().unwrap())
        .collect();
    let all: BTreeSet<&str> = Code::ALL.into_iter().map(Code::as_str).collect();
    assert_eq!(listed, all);

    let of_no_route = [Code::RouteNotFound, Code::MethodNotAllowed];
    let paths = document["paths"].to_string();
    for code in Code::ALL {
        let mentioned = paths.contains(&format!("`{}`", code.as_str()));
        assert_eq!(mentioned, !of_no_route.contains(&code), "{}", code.as_str());
    }
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    let document = document();
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    assert_eq!(document["openapi"], "3.1.0");
    for (method, path, operation) in operations(&document) {
        assert!(operation["summary"].is_string(), "{method} {path}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            let kinds: Vec<_> = response["content"].as_object().unwrap().keys().collect();
            if status.starts_with('4') || status.starts_with('5') {
                assert_eq!(kinds, ["application/problem+json"], "{method} {path} {status}");
            }
        }
    }
}

#[tokio::test]
async fn document_and_page_are_served() {
    let harness = Harness::new();
    assert_eq!(harness.get("", "/openapi.json").await.body, document());
    let page = harness.get("", "/docs").await;
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.body.as_str().unwrap().contains("/payment-flows/{flow_id}/cancel"));
}

#[tokio::test]
async fn a_payment_looks_like_this() {
    let harness = Harness::new();
    let reply = harness.pay("key-1", &harness.body(38_922), 1).await;
    expect![[r#"
        {
          "attempt_no": 1,
          "biz_key": "R:38922",
          "created_at": "2026-01-01T00:00:00Z",
          "deadline": "2026-01-01T00:10:00Z",
          "finished_at": "2026-01-01T00:00:00Z",
          "flow_id": "1",
          "money": {
            "amount": 1200,
            "currency": "CNY"
          },
          "paid_at": "2026-01-01T00:00:00Z",
          "refund_order_no": "r_h2r_u16_1",
          "scene": "renew",
          "state": "BIZ_SUCCESS",
          "state_entered_at": "2026-01-01T00:00:00Z",
          "status": "BIZ_SUCCESS",
          "terminal": true,
          "trade_order_no": "h2r_u16_1",
          "updated_at": "2026-01-01T00:00:00Z",
          "user_id": "38922",
          "version": 3
        }"#]]
    .assert_eq(&format!("{:#}", reply.body));
}
