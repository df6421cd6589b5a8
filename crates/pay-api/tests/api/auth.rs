//! API keys and roles.

use axum::body::Body;

use crate::harness::{EXPIRED, GAME, Harness, ON_CALL, OPERATOR, SHOP, request};

const ACTIONS: [(&str, &str); 7] = [
    ("POST", "/payments"),
    ("GET", "/payment-flows"),
    ("GET", "/payment-flows/1"),
    ("GET", "/payment-flows/1/events"),
    ("POST", "/payment-flows/1/cancel"),
    ("POST", "/payment-flows/1/hold"),
    ("POST", "/payment-flows/1/advance"),
];

#[tokio::test]
async fn without_a_valid_key_nothing_is_answered() {
    let harness = Harness::new();
    for (method, path) in ACTIONS {
        for authorization in
            ["", "Bearer", "Bearer ", "Bearer nonsense", "Basic dTpw", SHOP, &format!("Bearer {EXPIRED}")]
        {
            let headers = [("authorization", authorization)];
            let reply = harness.send(request(method, path, "", &headers, Body::empty())).await;
            assert_eq!(
                (reply.status, reply.text("code")),
                (401, "unauthenticated"),
                "{method} {path} {authorization}"
            );
            assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"pay-api\""));
        }
    }
    assert_eq!(harness.store.flows(), []);
}

/// Whoever stands in front may have judged the one, and we the other.
#[tokio::test]
async fn of_two_that_may_be_given_once_none_counts() {
    let harness = Harness::new();
    let (shop, game) = (format!("Bearer {SHOP}"), format!("Bearer {GAME}"));
    for (one, other) in [(&shop, &shop), (&shop, &game), (&game, &shop), (&shop, &"Basic dTpw".to_owned())] {
        for (method, path) in ACTIONS {
            let headers = [("authorization", one.as_str()), ("authorization", other.as_str())];
            let reply = harness.send(request(method, path, "", &headers, Body::empty())).await;
            assert_eq!((reply.status, reply.text("code")), (401, "unauthenticated"), "{method} {path}");
        }
    }
    let types =
        [("idempotency-key", "k"), ("content-type", "application/json"), ("content-type", "text/plain")];
    let body = Body::from(harness.body(1).to_string());
    let reply = harness.send(request("POST", "/payments", SHOP, &types, body)).await;
    assert_eq!((reply.status, reply.text("code")), (415, "unsupported_media_type"));
    assert_eq!(harness.store.flows(), []);
}

#[tokio::test]
async fn a_key_ends_while_the_process_runs() {
    let harness = Harness::new();
    assert_eq!(harness.get(GAME, "/payment-flows").await.status, 200);
    harness.clock.advance_ms(86_400_000);
    assert_eq!(harness.get(GAME, "/payment-flows").await.status, 401);
    assert_eq!(harness.get(SHOP, "/payment-flows").await.status, 200);
}

#[tokio::test]
async fn every_role_may_do_its_own() {
    let harness = Harness::new();
    let flow = harness.pay("k", &harness.body(1), 1).await.text("flow_id").to_owned();
    let path = |rest: &str| format!("/payment-flows/{flow}{rest}");
    for (method, path, shop, on_call, operator) in [
        ("POST", "/payments".to_owned(), 400, 403, 403),
        ("GET", "/payment-flows".to_owned(), 200, 200, 200),
        ("GET", path(""), 200, 200, 200),
        ("GET", path("/events"), 200, 200, 200),
        ("POST", path("/cancel"), 409, 403, 409),
        ("POST", path("/hold"), 403, 403, 409),
        ("POST", path("/release"), 403, 403, 409),
        ("POST", path("/advance"), 403, 403, 200),
    ] {
        for (token, status) in [(SHOP, shop), (ON_CALL, on_call), (OPERATOR, operator)] {
            let headers = [("content-type", "application/json")];
            let reply = harness.send(request(method, &path, token, &headers, Body::empty())).await;
            assert_eq!(reply.status, status, "{method} {path} {token}: {:#}", reply.body);
        }
    }
}

#[tokio::test]
async fn a_client_sees_its_own_flows_alone() {
    let harness = Harness::new();
    let flow = harness.pay("k", &harness.body(1), 1).await.text("flow_id").to_owned();
    for (method, rest) in [("GET", ""), ("GET", "?wait=5"), ("GET", "/events"), ("POST", "/cancel")] {
        let path = format!("/payment-flows/{flow}{rest}");
        let theirs = harness.send(request(method, &path, GAME, &[], Body::empty())).await;
        assert_eq!((theirs.status, theirs.text("code")), (404, "flow_not_found"), "{method} {path}");
        let nobodys = path.replace(&flow, "999");
        let nobodys = harness.send(request(method, &nobodys, GAME, &[], Body::empty())).await;
        assert_eq!(nobodys.body["detail"], theirs.body["detail"], "the two are not told apart");
    }
    let listed = |token: &'static str, query: &'static str| {
        let harness = &harness;
        async move {
            harness.get(token, &format!("/payment-flows{query}")).await.body["flows"]
                .as_array()
                .unwrap()
                .len()
        }
    };
    assert_eq!(listed(SHOP, "").await, 1);
    assert_eq!(listed(GAME, "").await, 0);
    assert_eq!(listed(GAME, "?user_id=1").await, 0);
    assert_eq!(listed(GAME, "?caller=shop").await, 0);
    assert_eq!(listed(ON_CALL, "?caller=shop").await, 1);
    assert_eq!(listed(ON_CALL, "?caller=game").await, 0);
}

#[tokio::test]
async fn what_is_for_people_inside_is_shown_to_them_alone() {
    let harness = Harness::new();
    let flow = harness.pay("k", &harness.body(1), 1).await.text("flow_id").to_owned();
    let path = format!("/payment-flows/{flow}");
    assert!(harness.get(SHOP, &path).await.body.get("on_call").is_none());
    for token in [ON_CALL, OPERATOR] {
        let reply = harness.get(token, &path).await;
        assert_eq!(reply.body["on_call"]["caller"], "shop");
        assert_eq!(reply.body["on_call"]["wallet"], "wallet");
    }
}
