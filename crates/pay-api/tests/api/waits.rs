//! Waiting, polling, hanging up, being full, and the timer that carries on.

#![allow(
    clippy::disallowed_methods,
    reason = "the runtime's own paused clock is what these tests measure by"
)]

use std::time::Duration;

use flow_core::flow::Trigger;
use flow_core::state::State;
use serde_json::json;
use tower::ServiceExt as _;

use crate::downstreams::Mood;
use crate::harness::{Harness, SHOP, read, settings};

#[tokio::test(start_paused = true)]
async fn a_slow_wallet_is_202_and_the_payment_goes_on() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let reply = harness.pay("key-1", &harness.body(1), 2).await;
    assert_eq!(reply.status, 202, "{:#}", reply.body);
    let path = reply.header("location").unwrap().to_owned();
    assert!(reply.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    assert_eq!(reply.text("status"), "PROCESSING");
    assert!(reply.body["poll_after_ms"].as_u64().unwrap() >= 500);
    assert_eq!(reply.body["poll_until"], reply.body["deadline"]);
    assert_eq!(harness.get(SHOP, &path).await.text("state"), "PAYING");

    harness.wallet.open_gate();
    harness.api.work.drained().await;
    let after = harness.get(SHOP, &path).await;
    assert_eq!((after.status, after.text("status")), (200, "BIZ_SUCCESS"));
    assert_eq!(after.header("retry-after"), None);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_payment_does() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let request = harness.router.clone().oneshot(harness.pay_request(SHOP, "key-1", &harness.body(1), 30));
    let opened = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        harness.wallet.open_gate();
    };
    let (reply, ()) = tokio::join!(request, opened);
    let reply = read(reply.unwrap()).await;
    assert_eq!((reply.status, reply.text("status")), (201, "BIZ_SUCCESS"));
}

#[tokio::test(start_paused = true)]
async fn the_wait_has_a_default_and_a_cap() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let began = tokio::time::Instant::now();
    let mut unsaid = harness.pay_request(SHOP, "key-1", &harness.body(1), 0);
    unsaid.headers_mut().remove("prefer");
    assert_eq!(harness.send(unsaid).await.status, 202);
    assert_eq!(began.elapsed().as_millis(), 1_000);
    assert_eq!(harness.pay("key-2", &harness.body(2), 3_600).await.status, 202);
    assert_eq!(began.elapsed().as_millis(), 31_000);
    harness.wallet.open_gate();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_stops_nothing() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let request = harness.router.clone().oneshot(harness.pay_request(SHOP, "key-1", &harness.body(1), 30));
    tokio::time::timeout(Duration::from_secs(1), request).await.expect_err("the wallet is silent");
    assert_eq!(harness.only_flow().state, State::Paying);
    harness.wallet.open_gate();
    harness.api.work.drained().await;
    assert_eq!(harness.only_flow().state, State::BizSuccess);
    assert_eq!(harness.wallet.debits(), 1);
    assert_eq!(harness.api.changes.waiters(), 0);
}

#[tokio::test]
async fn a_client_may_hang_up_at_any_moment() {
    for polls in 0..40 {
        let harness = Harness::new();
        let mut request =
            Box::pin(harness.router.clone().oneshot(harness.pay_request(SHOP, "k", &harness.body(1), 30)));
        for _ in 0..polls {
            if poll_once(&mut request).await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(request);
        harness.api.work.drained().await;
        for flow in harness.store.flows() {
            assert_eq!(flow.state, State::BizSuccess, "after {polls} polls");
        }
        assert!(harness.wallet.debits() <= 1);
        assert_eq!(harness.api.changes.waiters(), 0);
    }
}

/// Polls once; whether it is done.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_ready()))
        .await
}

#[tokio::test(start_paused = true)]
async fn a_full_process_says_so_and_records_nothing() {
    let harness = Harness::with(pay_api::Settings { max_in_flight: 1, ..settings() });
    harness.wallet.shut_gate();
    assert_eq!(harness.pay("key-1", &harness.body(1), 0).await.status, 202);
    let refused = harness.pay("key-2", &harness.body(2), 0).await;
    assert_eq!((refused.status, refused.text("code")), (429, "too_many_requests"));
    assert_eq!((refused.header("retry-after"), &refused.body["retryable"]), (Some("1"), &json!(true)));
    harness.only_flow();
    harness.wallet.open_gate();
    harness.api.work.drained().await;
    assert_eq!(harness.pay("key-2", &harness.body(2), 1).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_answers_with_the_change() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let first = harness.pay("key-1", &harness.body(1), 0).await;
    let path = first.header("location").unwrap().to_owned();
    let now = harness.get(SHOP, &path).await;
    let version = now.body["version"].as_u64().unwrap();

    let began = tokio::time::Instant::now();
    let unchanged = harness.get(SHOP, &format!("{path}?wait=2")).await;
    assert_eq!(unchanged.body["version"], version);
    assert_eq!(began.elapsed().as_millis(), 2_000);
    let old = harness.get(SHOP, &format!("{path}?wait=2&since_version={}", version - 1)).await;
    assert_eq!(old.body["version"], version);
    assert_eq!(began.elapsed().as_millis(), 2_000, "what has changed already is answered at once");

    let since = path_with(&path, version);
    let poll = harness.get(SHOP, &since);
    let opened = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        harness.wallet.open_gate();
    };
    let (reply, ()) = tokio::join!(poll, opened);
    assert!(reply.body["version"].as_u64().unwrap() > version, "{:#}", reply.body);
    harness.api.work.drained().await;
    let at_rest = harness.get(SHOP, &format!("{path}?wait=30")).await;
    assert_eq!(at_rest.text("status"), "BIZ_SUCCESS");
    assert!(began.elapsed().as_secs() < 10, "a flow at rest is answered at once");
}

fn path_with(path: &str, version: u64) -> String {
    format!("{path}?wait=20&since_version={version}")
}

#[tokio::test(start_paused = true)]
async fn a_change_by_another_process_is_seen_within_the_polling_pace() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let first = harness.pay("key-1", &harness.body(1), 0).await;
    let path = format!("{}?wait=30", first.header("location").unwrap());
    let began = tokio::time::Instant::now();
    let store = harness.store.clone();
    let elsewhere = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let flow = store.flows().remove(0);
        store.write_by_hand(flow.id, |flow| flow.version = flow.version.next()).unwrap();
    };
    let (_, ()) = tokio::join!(harness.get(SHOP, &path), elsewhere);
    assert!(began.elapsed() <= Duration::from_secs(7), "{:?}", began.elapsed());
    harness.wallet.open_gate();
}

#[tokio::test(start_paused = true)]
async fn waiters_are_bounded_and_the_rest_is_answered_at_once() {
    let harness = Harness::with(pay_api::Settings { max_waiters: 1, ..settings() });
    harness.wallet.shut_gate();
    let path = harness.pay("key-1", &harness.body(1), 0).await.header("location").unwrap().to_owned();
    let path = format!("{path}?wait=10");
    let began = tokio::time::Instant::now();
    let both = async { tokio::join!(harness.get(SHOP, &path), harness.get(SHOP, &path)) };
    let (one, other) = both.await;
    assert_eq!((one.status, other.status), (200, 200));
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(harness.api.changes.waiters(), 0);
    harness.wallet.open_gate();
}

#[tokio::test(start_paused = true)]
async fn stopping_answers_everybody_who_waits() {
    let harness = Harness::new();
    harness.wallet.shut_gate();
    let path = harness.pay("key-1", &harness.body(1), 0).await.header("location").unwrap().to_owned();
    let path = format!("{path}?wait=30");
    let began = tokio::time::Instant::now();
    let stop = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        harness.stopping.cancel();
    };
    let body = harness.body(2);
    let (poll, pay, ()) = tokio::join!(harness.get(SHOP, &path), harness.pay("key-2", &body, 30), stop);
    assert_eq!((poll.status, pay.status), (200, 202));
    assert_eq!(began.elapsed().as_millis(), 100);
    harness.wallet.open_gate();
    harness.api.work.drained().await;
    assert!(harness.store.flows().iter().all(|flow| flow.state == State::BizSuccess));
}

#[tokio::test(start_paused = true)]
async fn the_timer_carries_on_and_tells_those_who_wait() {
    let mut harness = Harness::new();
    let timer = harness.run_timer();
    harness.wallet.set_mood(Mood::StaysSilent);
    let first = harness.pay("key-1", &harness.body(1), 0).await;
    assert_eq!(first.status, 202);
    harness.api.work.drained().await;
    assert_eq!((harness.only_flow().state, harness.timer.flows()), (State::Paying, 1));

    // The wallet decides meanwhile: the query that the timer makes after a second finds the charge.
    harness.wallet.settle(&harness.only_flow());
    let began = tokio::time::Instant::now();
    let version = harness.only_flow().version.0;
    let reply = harness.get(SHOP, &path_with(first.header("location").unwrap(), version)).await;
    assert_ne!(reply.text("state"), "PAYING", "{:#}", reply.body);
    assert!(began.elapsed() <= Duration::from_millis(1_100), "{:?}", began.elapsed());
    harness.stopping.cancel();
    timer.await.unwrap();
    assert_eq!(harness.only_flow().state, State::BizSuccess);
    let last = harness.store.all_events().pop().unwrap();
    assert_eq!(last.trigger, Trigger::Timer.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_post_is_answered_by_the_timers_work() {
    let mut harness = Harness::new();
    let _timer = harness.run_timer();
    harness.wallet.set_mood(Mood::StaysSilent);
    let body = harness.body(1);
    let settled = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        harness.wallet.settle(&harness.only_flow());
    };
    let (reply, ()) = tokio::join!(harness.pay("key-1", &body, 5), settled);
    assert_eq!((reply.status, reply.text("status")), (201, "BIZ_SUCCESS"), "{:#}", reply.body);
}
