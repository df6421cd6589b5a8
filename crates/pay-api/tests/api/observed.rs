//! What is logged and counted about requests, and what never is.

use std::cell::RefCell;
use std::io::Write;
use std::sync::LazyLock;

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use crate::harness::{EXPIRED, Harness, SHOP, request};

thread_local! {
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what each test's thread logs. One subscriber for the process: one per test would race for the call sites.
static SUBSCRIBED: LazyLock<()> = LazyLock::new(|| {
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(|| ThreadLines)
        .finish();
    tracing::subscriber::set_global_default(subscriber).expect("nobody else sets one");
});

pub(crate) fn keep_log_lines() {
    LazyLock::force(&SUBSCRIBED);
}

struct ThreadLines;

impl Write for ThreadLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_request_is_one_line_without_bodies_and_keys() {
    let harness = Harness::new();
    let mut body = harness.body(38_922);
    body["context"] = json!("a-private-context");
    let mut request_of_ours = harness.pay_request(SHOP, "a-private-idempotency-key", &body, 1);
    request_of_ours.headers_mut().insert("x-request-id", "req-42".parse().unwrap());
    harness.send(request_of_ours).await;
    harness.get(EXPIRED, "/payment-flows/1?wait=1&since_version=7654321").await;

    let text = String::from_utf8(LINES.take()).unwrap();
    for secret in [SHOP, EXPIRED, "a-private-context", "a-private-idempotency-key", "7654321"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let requests: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"].clone())
        .filter(|fields| fields["message"] == "request")
        .collect();
    assert_eq!(requests.len(), 2, "{text}");
    assert_eq!(requests[0]["request_id"], "req-42");
    assert_eq!((&requests[0]["route"], &requests[0]["status"]), (&json!("/payments"), &json!(201)));
    assert_eq!((&requests[0]["caller"], &requests[0]["flow_id"]), (&json!("shop"), &json!(1)));
    assert_eq!(
        (&requests[1]["route"], &requests[1]["code"]),
        (&json!("/payment-flows/{flow_id}"), &json!("unauthenticated"))
    );
}

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_path() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let harness = Harness::new();
    harness.pay("key-1", &harness.body(1), 1).await;
    harness.get(SHOP, "/payment-flows/1").await;
    harness.get(SHOP, "/payment-flows/2").await;
    harness.get(SHOP, "/some/path/of/the/clients/choice").await;
    harness.send(request("BREW", "/payments", SHOP, &[], axum::body::Body::empty())).await;
    let text = handle.render();
    for line in [
        r#"http_requests_total{route="/payments",method="POST",status="201"} 1"#,
        r#"http_requests_total{route="/payment-flows/{flow_id}",method="GET",status="200"} 1"#,
        r#"http_requests_total{route="/payment-flows/{flow_id}",method="GET",status="404"} 1"#,
        r#"http_requests_total{route="unmatched",method="GET",status="404"} 1"#,
        r#"http_requests_total{route="/payments",method="OTHER",status="405"} 1"#,
        r#"http_request_ms_count{route="/payments",method="POST"} 1"#,
        "http_requests_in_flight 0",
        "api_work_in_flight 0",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    assert!(!text.contains("choice"));
}
