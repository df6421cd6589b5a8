//! `POST /callbacks/{channel}`: who is believed to be the channel, what is kept, and that nothing said decides anything.

use std::collections::BTreeMap;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::TimeDelta;
use flow_adapters::callback::Channel;
use flow_config::{ChannelConfig, SchemeConfig};
use flow_core::ids::ChannelName;
use flow_core::ports::InboxState;
use flow_core::state::State;
use flow_testkit::mem_inbox::StoredEvent;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::downstreams::Mood;
use crate::harness::{Harness, OPERATOR, Reply, SHOP, request, settings};

const SECRET: &[u8] = b"the-secret-of-the-main-channel";

/// One channel, `main`.
pub(crate) fn channels() -> BTreeMap<ChannelName, Channel> {
    let secret = format!("whsec_{}", STANDARD.encode(SECRET)).parse().unwrap();
    let scheme = SchemeConfig::StandardWebhooks { secrets: vec![secret] };
    let channel = Channel::new(&ChannelConfig { scheme, tolerance_s: 300 }).unwrap();
    BTreeMap::from([(ChannelName::new("main").unwrap(), channel)])
}

fn charged(order_no: &str, amount: i64) -> Value {
    json!({
        "type": "payment",
        "timestamp": "2026-01-01T00:00:00Z",
        "data": {
            "trade_order_no": order_no, "status": "SUCCESS",
            "money": { "amount": amount, "currency": "CNY" },
        },
    })
}

impl Harness {
    async fn tell_as(&self, channel: &str, id: &str, body: &[u8], secret: &[u8], seconds: i64) -> Reply {
        let timestamp = (self.clock.now() + TimeDelta::seconds(seconds)).timestamp().to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let headers =
            [("webhook-id", id), ("webhook-timestamp", &timestamp), ("webhook-signature", &signature)];
        let path = format!("/callbacks/{channel}");
        self.send(request("POST", &path, "", &headers, Body::from(body.to_vec()))).await
    }

    async fn tell(&self, id: &str, body: &Value) -> Reply {
        self.tell_as("main", id, body.to_string().as_bytes(), SECRET, 0).await
    }

    /// Lets the work that requests left come to its end.
    async fn at_rest(&self) {
        while self.api.work.under_way() > 0 {
            tokio::task::yield_now().await;
        }
    }

    fn only_event(&self) -> StoredEvent {
        let mut events = self.inbox.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// A payment that the wallet has not decided on; its order number.
    async fn undecided(&self) -> String {
        self.wallet.set_mood(Mood::StaysSilent);
        let reply = self.pay("key-1", &self.body(38_922), 0).await;
        assert_eq!(reply.status, 202, "{:#}", reply.body);
        self.at_rest().await;
        assert_eq!(self.only_flow().state, State::Paying);
        reply.text("trade_order_no").to_owned()
    }
}

#[tokio::test]
async fn an_event_is_kept_and_the_wallet_is_asked() {
    let harness = Harness::new();
    let order_no = harness.undecided().await;
    harness.wallet.settle(&harness.only_flow());
    let body = charged(&order_no, 1_200);
    let reply = harness.tell("evt-1", &body).await;
    assert_eq!((reply.status, reply.text("result")), (200, "recorded"), "{:#}", reply.body);
    harness.at_rest().await;
    let event = harness.only_event();
    assert_eq!((event.state, event.raw), (InboxState::Processed, body.to_string().into_bytes()));
    assert_eq!(event.event.trace_id.unwrap().as_str(), reply.header("x-request-id").unwrap());
    let flow = harness.only_flow();
    assert_eq!(flow.state, State::BizSuccess);
    let events = harness.store.events_of(flow.id);
    let paid = events.iter().find(|event| event.to == State::Payed).unwrap();
    assert_eq!(
        (paid.trigger.as_str(), paid.action.as_deref()),
        ("CALLBACK", Some("QUERY_CHARGE")),
        "the query decides"
    );
}

#[tokio::test]
async fn what_is_claimed_moves_nothing_that_the_wallet_does_not_confirm() {
    let harness = Harness::new();
    let order_no = harness.undecided().await;
    let reply = harness.tell("evt-1", &charged(&order_no, 1_200)).await;
    assert_eq!(reply.status, 200);
    harness.at_rest().await;
    let flow = harness.only_flow();
    assert_eq!((flow.state, flow.paid_at), (State::Paying, None), "a claim is no charge");
    let event = harness.only_event();
    assert_eq!((event.state, event.note), (InboxState::New, Some("NOT_CONFIRMED")), "it is tried again");
}

#[tokio::test]
async fn a_repetition_is_known_and_starts_no_work() {
    let harness = Harness::new();
    let order_no = harness.undecided().await;
    harness.wallet.settle(&harness.only_flow());
    let body = charged(&order_no, 1_200);
    harness.tell("evt-1", &body).await;
    harness.at_rest().await;
    let version = harness.only_flow().version;
    for _ in 0..3 {
        let again = harness.tell("evt-1", &body).await;
        assert_eq!((again.status, again.text("result")), (200, "already_processed"));
    }
    assert_eq!(harness.only_flow().version, version);
    harness.only_event();
    // Before it is done with, it is known as well.
    let unknown = charged("h2r_1_77", 5);
    assert_eq!(harness.tell("evt-2", &unknown).await.text("result"), "recorded");
    harness.at_rest().await;
    assert_eq!(harness.tell("evt-2", &unknown).await.text("result"), "already_recorded");
    assert_eq!(harness.inbox.events().len(), 2);
}

#[tokio::test]
async fn an_event_whose_order_is_not_there_is_kept() {
    let harness = Harness::new();
    let reply = harness.tell("evt-1", &charged("h2r_u16_1", 1_200)).await;
    assert_eq!((reply.status, reply.text("result")), (200, "recorded"));
    harness.at_rest().await;
    let event = harness.only_event();
    assert_eq!((event.state, event.note), (InboxState::New, Some("ORDER_UNKNOWN")));
}

#[tokio::test]
async fn what_contradicts_is_recorded_and_changes_nothing() {
    let harness = Harness::new();
    let order_no = harness.undecided().await;
    let before = harness.only_flow();
    let reply = harness.tell("evt-1", &charged(&order_no, 1)).await;
    assert_eq!(reply.status, 200, "the channel has nothing to do about it");
    harness.at_rest().await;
    let event = harness.only_event();
    assert_eq!((event.state, event.note), (InboxState::Contradicted, Some("OTHER_AMOUNT")));
    assert_eq!(harness.only_flow(), before);
}

#[tokio::test]
async fn forged_and_expired_callbacks_are_refused_and_leave_nothing() {
    let harness = Harness::new();
    let order_no = harness.undecided().await;
    let body = charged(&order_no, 1_200).to_string();
    let body = body.as_bytes();
    let refused = [
        harness.tell_as("main", "evt-1", body, b"another-secret-of-somebody-else", 0).await,
        harness.tell_as("main", "evt-1", body, SECRET, -301).await,
        harness.tell_as("main", "evt-1", body, SECRET, 301).await,
        harness.send(request("POST", "/callbacks/main", "", &[], Body::from(body.to_vec()))).await,
        // An API key is no signature, whoever's it is.
        harness.send(request("POST", "/callbacks/main", OPERATOR, &[], Body::from(body.to_vec()))).await,
    ];
    for reply in refused {
        assert_eq!((reply.status, reply.text("code")), (401, "signature_invalid"), "{:#}", reply.body);
        assert_eq!(reply.body["retryable"], false);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    }
    harness.at_rest().await;
    assert_eq!(harness.inbox.events(), []);
    assert_eq!(harness.only_flow().state, State::Paying);
}

#[tokio::test]
async fn channels_that_are_not_configured_and_bodies_that_are_no_events_are_told_apart() {
    let harness = Harness::new();
    let good = charged("h2r_1_1", 1_200).to_string();
    for channel in ["other", "MAIN", "a%2Fb", "main%20"] {
        let reply = harness.tell_as(channel, "evt-1", good.as_bytes(), SECRET, 0).await;
        assert_eq!((reply.status, reply.text("code")), (404, "channel_not_found"), "{channel}");
    }
    let no_event = harness.tell("evt-1", &json!({ "type": "payment" })).await;
    assert_eq!((no_event.status, no_event.text("code")), (400, "invalid_body"));
    let large = vec![b' '; settings().max_body_bytes + 1];
    let large = harness.tell_as("main", "evt-1", &large, SECRET, 0).await;
    assert_eq!((large.status, large.text("code")), (413, "body_too_large"));
    assert_eq!(harness.get(SHOP, "/callbacks/main").await.status, 405);
    assert_eq!(harness.inbox.events(), []);
}

#[tokio::test]
async fn without_a_database_the_channel_must_come_again() {
    let harness = Harness::new();
    harness.inbox.set_away(true);
    let body = charged("h2r_u16_1", 1_200);
    let reply = harness.tell("evt-1", &body).await;
    assert_eq!((reply.status, reply.text("code")), (503, "database_unavailable"));
    assert!(reply.header("retry-after").is_some(), "nothing was recorded");
    harness.inbox.set_away(false);
    assert_eq!(harness.tell("evt-1", &body).await.text("result"), "recorded");
    harness.at_rest().await;
}

#[tokio::test]
async fn a_full_process_keeps_the_event_for_the_scanner() {
    let harness = Harness::with(pay_api::Settings { max_in_flight: 0, ..settings() });
    let reply = harness.tell("evt-1", &charged("h2r_u16_1", 1_200)).await;
    assert_eq!((reply.status, reply.text("result")), (200, "recorded"));
    let event = harness.only_event();
    assert_eq!((event.state, event.event.tries, event.note), (InboxState::New, 0, None));
}
