//! The published contracts: they parse, every operation in them is served, and answers have the documented statuses and codes.

use std::path::Path;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Rig, debit, execution, in_an_hour, refund};

fn contract(name: &str) -> (String, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let value = serde_yaml_ng::from_str(&text).unwrap();
    (text, value)
}

/// Follows a reference within the document.
fn resolve<'a>(document: &'a Value, node: &'a Value) -> &'a Value {
    match node.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
            resolve(document, target.unwrap_or_else(|| panic!("dangling {reference}")))
        }
        None => node,
    }
}

/// Every reference in the document leads somewhere.
fn check_references(document: &Value, node: &Value) {
    resolve(document, node);
    match node {
        Value::Object(members) => members.values().for_each(|member| check_references(document, member)),
        Value::Array(items) => items.iter().for_each(|item| check_references(document, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The members that the documented schema requires of this status are there.
fn check_answer(document: &Value, operation: &Value, status: StatusCode, body: &Value) {
    let response = operation.pointer(&format!("/responses/{}", status.as_u16()));
    let response =
        resolve(document, response.unwrap_or_else(|| panic!("{status} is not documented: {body}")));
    let schema = resolve(document, &response["content"]["application/json"]["schema"]);
    for member in schema["required"].as_array().unwrap() {
        assert!(body.get(member.as_str().unwrap()).is_some(), "{member} is missing in {body}");
    }
    for (member, value) in body.as_object().unwrap() {
        let property = schema["properties"].get(member);
        let property =
            resolve(document, property.unwrap_or_else(|| panic!("{member} is not documented: {body}")));
        if let Some(allowed) = property["enum"].as_array() {
            assert!(allowed.contains(value), "{member}: {value}");
        }
    }
}

#[tokio::test]
async fn every_documented_operation_is_served_as_documented() {
    let rig = Rig::start().await;
    let mut served = Vec::new();
    for name in ["wallet.yaml", "business.yaml"] {
        let (_, document) = contract(name);
        assert_eq!(document["openapi"], "3.1.0");
        check_references(&document, &document);
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let method: Method = method.to_uppercase().parse().unwrap();
                let url = path
                    .replace("{trade_order_no}", "h2r_rs_p1")
                    .replace("{refund_order_no}", "r_h2r_rs_p1")
                    .replace("/facts", "/facts?user_id=1000&scene=renewal&biz_key=card-77");
                let example = operation.pointer("/requestBody/content/application~1json/example").cloned();
                let example = example.map(|mut body| {
                    if body.get("not_after").is_some() {
                        body["not_after"] = execution("x", in_an_hour())["not_after"].clone();
                    }
                    body
                });
                let response = rig.client.send(method.clone(), &url, example.as_ref()).await.unwrap();
                assert!(response.headers().contains_key("x-request-id"));
                let status = response.status();
                let body: Value = response.json().await.unwrap();
                assert_eq!(status, StatusCode::OK, "{method} {path}: {body}");
                check_answer(&document, operation, status, &body);
                let outage = json!({"kind": "unavailable", "not_executed": true});
                rig.fault(json!({"times": 1, "fault": outage})).await;
                let response = rig.client.send(method.clone(), &url, example.as_ref()).await.unwrap();
                let status = response.status();
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
                check_answer(&document, operation, status, &response.json().await.unwrap());
                served.push(format!("{method} {path}"));
            }
        }
    }
    assert_eq!(served.len(), 7, "{served:?}");
}

#[tokio::test]
async fn every_refusal_is_documented_with_its_status_and_code() {
    let rig = Rig::start().await;
    let client = &rig.client;
    let past = 1_000;
    client.debit("a").await.unwrap();
    client.execute("own", in_an_hour()).await.unwrap();
    let mut other = execution("other", in_an_hour());
    other["biz_key"] = json!("key-own");
    let debits = "/wallet/v1/debits";
    let refunds = "/wallet/v1/refunds";
    let executions = "/business/v1/executions";
    let cases = [
        (debits, client.post(debits, &debit("a", 99)).await, 409, "ORDER_CONFLICT"),
        (debits, client.post(debits, &debit("z", 0)).await, 400, "INVALID_REQUEST"),
        ("/wallet/v1/debits/{trade_order_no}", client.query("z").await, 404, "ORDER_NOT_FOUND"),
        (refunds, client.post(refunds, &refund("z", 1)).await, 422, "ORDER_NOT_CHARGED"),
        (refunds, client.post(refunds, &refund("a", 101)).await, 422, "REFUND_EXCEEDS_CHARGE"),
        (refunds, client.post(refunds, &refund("a", 60)).await, 200, ""),
        (refunds, client.post(refunds, &refund("a", 61)).await, 409, "REFUND_CONFLICT"),
        ("/wallet/v1/refunds/{refund_order_no}", client.query_refund("z").await, 404, "REFUND_NOT_FOUND"),
        (executions, client.execute("late", past).await, 409, "DEADLINE_PASSED"),
        (executions, client.post(executions, &other).await, 409, "OWNED_BY_OTHER"),
        (executions, client.execute("own", past).await, 409, "EXECUTION_CONFLICT"),
        ("/business/v1/facts", client.get("/business/v1/facts?user_id=7").await, 400, "INVALID_REQUEST"),
    ];
    for (path, answer, status, code) in cases {
        let (text, document) =
            contract(if path.starts_with("/wallet") { "wallet.yaml" } else { "business.yaml" });
        let (got, body) = answer.unwrap();
        assert_eq!(got.as_u16(), status, "{path}: {body}");
        assert_eq!(body["code"].as_str().unwrap_or_default(), code, "{path}: {body}");
        assert!(text.contains(code), "{code} is not documented");
        let item = &document["paths"][path];
        check_answer(&document, item.get("post").or(item.get("get")).unwrap(), got, &body);
    }
    client.post("/mutants", &json!({"close_unsupported": true})).await.unwrap();
    let (status, body) = client.close("z").await.unwrap();
    assert_eq!((status, &body["code"]), (StatusCode::NOT_IMPLEMENTED, &json!("CLOSE_UNSUPPORTED")));
}

#[tokio::test]
async fn malformed_requests_are_refused_and_record_nothing() {
    let rig = Rig::start().await;
    let with = |pointer: &str, value: Value| {
        let mut body = debit("a", 100);
        *body.pointer_mut(pointer).unwrap() = value;
        body
    };
    let long = "x".repeat(65);
    for body in [
        with("/user_id", json!(7)),
        with("/user_id", json!("-7")),
        with("/user_id", json!("18446744073709551616")),
        with("/money/amount", json!("100")),
        with("/money/amount", json!(1.5)),
        with("/money/amount", json!(-1)),
        with("/money/amount", json!(9_223_372_036_854_775_808_u64)),
        with("/money/currency", json!("")),
        with("/trade_order_no", json!("")),
        with("/trade_order_no", json!(long)),
        with("/trade_order_no", json!("a b")),
        with("/trade_order_no", json!("é")),
        json!({"trade_order_no": "a"}),
        json!([]),
    ] {
        let (status, answer) = rig.client.post("/wallet/v1/debits", &body).await.unwrap();
        assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!("INVALID_REQUEST")), "{body}");
    }
    let mut no_time = execution("a", in_an_hour());
    for bad in [json!("tomorrow"), json!(1_700_000_000), json!("2026-01-31 12:00:00"), json!(null)] {
        no_time["not_after"] = bad.clone();
        let (status, _) = rig.client.post("/business/v1/executions", &no_time).await.unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
    let mut huge = execution("a", in_an_hour());
    huge["context"] = json!("x".repeat(70_000));
    let (status, answer) = rig.client.post("/business/v1/executions", &huge).await.unwrap();
    assert_eq!((status, &answer["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("BODY_TOO_LARGE")));
    assert_eq!(rig.client.get("/ledger/a").await.unwrap().1["known"], false);
}

#[tokio::test]
async fn ids_beyond_the_reach_of_json_numbers_come_back_whole() {
    let rig = Rig::start().await;
    let mut body = debit("a", i64::MAX);
    body["user_id"] = json!(u64::MAX.to_string());
    let (_, answer) = rig.client.post("/wallet/v1/debits", &body).await.unwrap();
    assert_eq!(answer["user_id"], u64::MAX.to_string());
    assert_eq!(answer["money"]["amount"], i64::MAX);
}

#[test]
fn the_callback_contract_holds_together() {
    let (_, document) = contract("callbacks.yaml");
    check_references(&document, &document);
    let event = &document["components"]["schemas"]["Event"];
    let example = &document["paths"]["/callbacks/{channel}"]["post"]["requestBody"]["content"]["application/json"]
        ["example"];
    for member in event["required"].as_array().unwrap() {
        assert!(example.get(member.as_str().unwrap()).is_some(), "{member} is missing in {example}");
    }
}
