//! Callbacks: what is told, to whom, and as badly as the plan says.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use pay_sim::callbacks::Secret;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::rig::Rig;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A delivery as it arrived.
#[derive(Clone, Debug)]
struct Arrived {
    id: String,
    is_genuine: bool,
    event: Value,
}

/// Takes what is signed as it should be, after refusing so many deliveries.
struct Receiver {
    url: String,
    arrived: watch::Sender<Vec<Arrived>>,
}

#[derive(Clone)]
struct Inside {
    arrived: watch::Sender<Vec<Arrived>>,
    refuses: usize,
}

impl Receiver {
    async fn start(refuses: usize) -> Receiver {
        let arrived = watch::Sender::new(Vec::new());
        let inside = Arc::new(Inside { arrived: arrived.clone(), refuses });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let router = Router::new().route("/hook", post(take)).with_state(inside);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Receiver { url, arrived }
    }

    /// Waits for so many deliveries.
    async fn deliveries(&self, count: usize) -> Vec<Arrived> {
        let mut seen = self.arrived.subscribe();
        seen.wait_for(|arrived| arrived.len() >= count).await.unwrap().clone()
    }
}

async fn take(State(inside): State<Arc<Inside>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let id = header("webhook-id");
    let text = std::str::from_utf8(&body).unwrap();
    let signature = Secret::parse(SECRET).unwrap().sign(&id, &header("webhook-timestamp"), text);
    let is_genuine = signature == header("webhook-signature");
    let event = serde_json::from_slice(&body).unwrap();
    let mut is_early = false;
    inside.arrived.send_modify(|arrived| {
        is_early = arrived.len() < inside.refuses;
        arrived.push(Arrived { id, is_genuine, event });
    });
    if !is_genuine {
        StatusCode::UNAUTHORIZED
    } else if is_early {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    }
}

async fn plan(rig: &Rig, plan: Value) -> (StatusCode, Value) {
    let (status, body) = rig.client.post("/callbacks", &plan).await.unwrap();
    (StatusCode::from_u16(status.as_u16()).unwrap(), body)
}

#[tokio::test]
async fn charges_and_refunds_are_told_in_the_contracts_words() {
    let (rig, receiver) = (Rig::start().await, Receiver::start(0).await);
    rig.client.debit("h2r_1_1").await.unwrap();
    let set = plan(&rig, json!({ "url": receiver.url, "secret": SECRET })).await;
    assert_eq!(set.0, StatusCode::NO_CONTENT, "{}", set.1);
    rig.client.debit("h2r_1_2").await.unwrap();
    rig.client.refund("h2r_1_2").await.unwrap();
    let arrived = receiver.deliveries(2).await;
    assert!(arrived.iter().all(|one| one.is_genuine), "{arrived:?}");
    let of = |kind: &str| arrived.iter().find(|one| one.event["type"] == kind).unwrap().clone();
    let (paid, refunded) = (of("payment"), of("refund"));
    assert_eq!(paid.id, paid.event["id"].as_str().unwrap());
    let money = json!({ "amount": 100, "currency": "CNY" });
    assert_eq!(
        paid.event["data"],
        json!({ "trade_order_no": "h2r_1_2", "status": "SUCCESS", "money": money })
    );
    let data = json!({
        "trade_order_no": "h2r_1_2", "refund_order_no": "r_h2r_1_2", "status": "SUCCESS", "money": money,
    });
    assert_eq!(refunded.event["data"], data, "nothing is told of what came before the plan");
}

#[tokio::test]
async fn deliveries_are_doubled_forged_and_made_again_until_taken() {
    let (rig, receiver) = (Rig::start().await, Receiver::start(1).await);
    let bad = json!({
        "url": receiver.url, "secret": SECRET, "copies": 3, "shuffle_ms": 50, "forged_permille": 1_000, "seed": 1,
    });
    plan(&rig, bad).await;
    rig.client.debit("h2r_1_1").await.unwrap();
    let arrived = receiver.deliveries(4).await;
    let forged: Vec<&Arrived> = arrived.iter().filter(|one| !one.is_genuine).collect();
    assert_eq!(forged.len(), 1, "{arrived:?}");
    assert_eq!(forged[0].event["data"]["money"]["amount"], 1, "it lies");
    let counts = loop {
        let (_, shown) = rig.client.get("/callbacks").await.unwrap();
        if shown["counts"]["under_way"] == 0 {
            assert_eq!(shown["plan"]["copies"], 3);
            assert!(shown["plan"].get("secret").is_none(), "{shown}");
            break shown["counts"].clone();
        }
        tokio::task::yield_now().await;
    };
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((count("events"), count("accepted"), count("forged")), (1, 3, 1), "{counts}");
    assert_eq!((count("forged_accepted"), count("lost")), (0, 0), "{counts}");
}

#[tokio::test]
async fn a_callback_can_come_before_the_calls_own_answer() {
    let (rig, receiver) = (Rig::start().await, Receiver::start(0).await);
    plan(&rig, json!({ "url": receiver.url, "secret": SECRET, "before_response": true })).await;
    rig.client.debit("h2r_1_1").await.unwrap();
    assert_eq!(receiver.arrived.borrow().len(), 1, "it was there when the answer came");
    rig.client.send(Method::DELETE, "/callbacks", None).await.unwrap();
    rig.client.debit("h2r_1_2").await.unwrap();
    let (_, shown) = rig.client.get("/callbacks").await.unwrap();
    assert_eq!((&shown["plan"], &shown["counts"]["events"]), (&Value::Null, &json!(1)));
}

#[tokio::test]
async fn plans_that_make_no_sense_are_refused() {
    let rig = Rig::start().await;
    let good = json!({ "url": "http://127.0.0.1:1/x", "secret": SECRET });
    let with = |name: &str, value: Value| {
        let mut plan = good.clone();
        plan[name] = value;
        plan
    };
    for (bad, status) in [
        (with("url", json!("ftp://x/y")), StatusCode::UNPROCESSABLE_ENTITY),
        (with("url", json!("here")), StatusCode::UNPROCESSABLE_ENTITY),
        (with("secret", json!("plain")), StatusCode::UNPROCESSABLE_ENTITY),
        (with("copies", json!(0)), StatusCode::UNPROCESSABLE_ENTITY),
        (with("forged_permille", json!(1_001)), StatusCode::UNPROCESSABLE_ENTITY),
        (with("delay_ms", json!(3_600_001)), StatusCode::UNPROCESSABLE_ENTITY),
        (with("surprise", json!(1)), StatusCode::BAD_REQUEST),
    ] {
        let (found, body) = plan(&rig, bad.clone()).await;
        assert_eq!(found, status, "{bad}: {body}");
    }
    let (_, shown) = rig.client.get("/callbacks").await.unwrap();
    assert_eq!(shown["plan"], Value::Null);
}
