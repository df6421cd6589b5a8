//! Cancelling, holding, releasing, pushing.

use flow_core::state::State;
use flow_testkit::mem_store::{StoreFault, StoreOp};

use crate::downstreams::Mood;
use crate::harness::{Harness, ON_CALL, OPERATOR, SHOP};

/// A flow in `PAYING` whose wallet has not decided.
async fn undecided(harness: &Harness) -> String {
    harness.wallet.set_mood(Mood::StaysSilent);
    let reply = harness.pay("key-1", &harness.body(1), 0).await;
    assert_eq!(reply.status, 202);
    harness.api.work.drained().await;
    assert_eq!(harness.only_flow().state, State::Paying);
    format!("/payment-flows/{}", harness.only_flow().id)
}

#[tokio::test(start_paused = true)]
async fn a_client_cancels_its_own_payment_once() {
    let harness = Harness::new();
    let path = undecided(&harness).await;
    let reply = harness.post(SHOP, &format!("{path}/cancel")).await;
    assert_eq!(reply.status, 202, "{:#}", reply.body);
    assert_eq!(reply.header("location"), Some(path.as_str()));
    assert!(reply.body["cancel_requested_at"].is_string());
    let cancel = harness.only_flow().cancel.unwrap();
    assert_eq!(cancel.by.as_str(), "shop");

    let again = harness.post(OPERATOR, &format!("{path}/cancel")).await;
    assert_eq!(again.status, 202, "asking again changes nothing");
    assert_eq!(harness.only_flow().cancel.unwrap(), cancel);
    let shown = harness.get(ON_CALL, &path).await;
    assert_eq!(shown.body["on_call"]["cancel"]["by"], "shop");
}

#[tokio::test]
async fn cancelling_comes_too_late_after_the_end() {
    let harness = Harness::new();
    let paid = harness.pay("key-1", &harness.body(1), 1).await;
    let reply = harness.post(SHOP, &format!("/payment-flows/{}/cancel", paid.text("flow_id"))).await;
    assert_eq!((reply.status, reply.text("code")), (409, "too_late"));
    assert_eq!((reply.text("state"), reply.text("flow_id")), ("BIZ_SUCCESS", paid.text("flow_id")));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_payment_that_was_charged_all_the_same_is_paid_back() {
    let harness = Harness::new();
    let path = undecided(&harness).await;
    harness.wallet.settle(&harness.only_flow());
    let reply = harness.post(SHOP, &format!("{path}/cancel")).await;
    assert_eq!((reply.status, reply.text("status")), (200, "REFUNDED"), "{:#}", reply.body);
    assert_eq!(reply.text("reason"), "CANCELLED");
    let again = harness.post(SHOP, &format!("{path}/cancel")).await;
    assert_eq!((again.status, again.text("status")), (200, "REFUNDED"), "the wish had been recorded in time");
}

/// Each write may have taken the store's whole patience, and a person waits.
#[tokio::test(start_paused = true)]
async fn an_operator_hears_in_bounded_time_that_a_write_is_in_doubt() {
    let harness = Harness::new();
    let path = undecided(&harness).await;
    let lost = || Some(StoreFault::OutcomeUnknown { happened: false });
    harness.store.script().push(StoreOp::Cas, [lost(), lost(), lost()]);
    let before = harness.store.calls(StoreOp::Cas);
    let reply = harness.post(OPERATOR, &format!("{path}/hold")).await;
    assert_eq!((reply.status, reply.text("code")), (503, "outcome_unknown"), "{:#}", reply.body);
    assert_eq!(harness.store.calls(StoreOp::Cas) - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_held_flow_waits_for_people() {
    let harness = Harness::new();
    let path = undecided(&harness).await;
    for _ in 0..2 {
        let held = harness.post(OPERATOR, &format!("{path}/hold")).await;
        assert_eq!((held.status, held.text("status")), (200, "MANUAL_REVIEW"), "{:#}", held.body);
        assert_eq!(held.body["on_call"]["hold"]["by"], "bob");
        assert_eq!(held.body["on_call"]["hold"]["reason"], "OPERATOR");
        assert_eq!(held.header("retry-after"), None);
    }
    harness.wallet.settle(&harness.only_flow());
    let pushed = harness.post(OPERATOR, &format!("{path}/advance")).await;
    assert_eq!((pushed.status, pushed.text("end")), (200, "HELD"));
    assert_eq!(harness.only_flow().state, State::Paying);
    let shown = harness.get(SHOP, &format!("{path}?wait=30")).await;
    assert_eq!(shown.text("status"), "MANUAL_REVIEW");
    assert!(shown.body.get("poll_after_ms").is_none());

    let released = harness.post(OPERATOR, &format!("{path}/release")).await;
    assert_eq!((released.status, released.text("status")), (200, "PROCESSING"));
    harness.api.work.drained().await;
    assert_eq!(harness.only_flow().state, State::BizSuccess);
    let ended = harness.post(OPERATOR, &format!("{path}/hold")).await;
    assert_eq!((ended.status, ended.text("code"), ended.text("state")), (409, "flow_ended", "BIZ_SUCCESS"));
}

#[tokio::test(start_paused = true)]
async fn an_operator_pushes_a_flow() {
    let harness = Harness::new();
    let path = undecided(&harness).await;
    harness.wallet.settle(&harness.only_flow());
    let pushed = harness.post(OPERATOR, &format!("{path}/advance")).await;
    assert_eq!((pushed.status, pushed.text("end"), &pushed.body["moved"]), (200, "TERMINAL", &true.into()));
    assert_eq!(pushed.body["flow"]["status"], "BIZ_SUCCESS");
    let missing = harness.post(OPERATOR, "/payment-flows/999/advance").await;
    assert_eq!((missing.status, missing.text("code")), (404, "flow_not_found"));
    let events = harness.get(ON_CALL, &format!("{path}/events?limit=10")).await;
    let events = events.body["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["trigger"], "OPERATOR");
}
