//! A database that goes away, before, while and after something is recorded.

use flow_core::ids::FlowId;
use flow_core::state::State;
use flow_testkit::mem_store::{StoreFault, StoreOp};

use crate::harness::{Harness, SHOP};

#[tokio::test]
async fn away_before_anything_was_recorded_is_503_with_retry_after() {
    for op in [StoreOp::LookUp, StoreOp::Create] {
        let harness = Harness::new();
        harness.store.fail_next(op, StoreFault::Unavailable);
        let reply = harness.pay("key-1", &harness.body(1), 1).await;
        assert_eq!((reply.status, reply.text("code")), (503, "database_unavailable"), "{op:?}");
        assert_eq!((reply.header("retry-after"), &reply.body["retryable"]), (Some("2"), &true.into()));
        assert_eq!(harness.store.flows(), []);
        assert_eq!(
            harness.pay("key-1", &harness.body(1), 1).await.status,
            201,
            "the same request succeeds later"
        );
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_looked_up() {
    for happened in [true, false] {
        let harness = Harness::new();
        harness.store.fail_next(StoreOp::Create, StoreFault::OutcomeUnknown { happened });
        let reply = harness.pay("key-1", &harness.body(1), 0).await;
        assert!(matches!(reply.status, 200..=202), "{happened}: {:#}", reply.body);
        assert_eq!(reply.text("flow_id"), harness.only_flow().id.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn away_after_the_payment_was_recorded_is_202_and_never_an_error() {
    let harness = Harness::new();
    harness.store.fail_next(StoreOp::Cas, StoreFault::Unavailable);
    let reply = harness.pay("key-1", &harness.body(1), 2).await;
    assert_eq!((reply.status, reply.text("status")), (202, "PROCESSING"), "{:#}", reply.body);
    assert_eq!(harness.only_flow().state, State::WaitPay);
}

#[tokio::test]
async fn reads_without_a_database_are_503() {
    let harness = Harness::new();
    harness.pay("key-1", &harness.body(1), 1).await;
    for (op, path) in [
        (StoreOp::Load, "/payment-flows/1"),
        (StoreOp::Find, "/payment-flows"),
        (StoreOp::Events, "/payment-flows/1/events"),
    ] {
        harness.store.fail_next(op, StoreFault::Unavailable);
        let reply = harness.get(SHOP, path).await;
        assert_eq!((reply.status, reply.text("code")), (503, "database_unavailable"), "{path}");
        assert_eq!(harness.get(SHOP, path).await.status, 200, "{path}");
    }
    assert!(harness.store.flow(FlowId::new(1).unwrap()).is_some());
}

#[tokio::test]
async fn a_panic_is_a_problem_with_the_request_id() {
    let harness = Harness::new();
    harness.store.before_next(StoreOp::Load, |_| panic!("scripted"));
    let reply = harness.get(SHOP, "/payment-flows/1").await;
    assert_eq!((reply.status, reply.text("code")), (500, "internal"));
    assert_eq!(reply.header("x-request-id"), Some(reply.text("request_id")));
}

#[tokio::test]
async fn a_panic_in_the_background_is_a_problem_too() {
    let harness = Harness::new();
    harness.store.before_next(StoreOp::LookUp, |_| panic!("scripted"));
    let reply = harness.pay("key-1", &harness.body(1), 1).await;
    assert_eq!((reply.status, reply.text("code")), (500, "internal"));
    assert_eq!(harness.pay("key-1", &harness.body(1), 1).await.status, 201, "its place was given back");
}

#[tokio::test]
async fn away_while_something_may_have_been_recorded_never_says_that_nothing_was() {
    let harness = Harness::new();
    let lost = StoreFault::OutcomeUnknown { happened: true };
    harness.store.fail_next(StoreOp::Create, lost);
    harness.store.before_next(StoreOp::Create, |store| {
        store.script().push(StoreOp::LookUp, [Some(StoreFault::Unavailable)]);
    });
    let reply = harness.pay("key-1", &harness.body(1), 1).await;
    assert_eq!((reply.status, reply.text("code")), (503, "outcome_unknown"), "{:#}", reply.body);
    assert_eq!((reply.header("retry-after"), &reply.body["retryable"]), (None, &true.into()));
    let again = harness.pay("key-1", &harness.body(1), 1).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")));
    harness.only_flow();
}

/// Each write may have taken the store's whole patience, and a client waits.
#[tokio::test]
async fn writes_that_nobody_answers_are_not_tried_again_and_again() {
    let harness = Harness::new();
    let lost = || StoreFault::OutcomeUnknown { happened: false };
    harness.store.script().push(StoreOp::Create, [Some(lost()), Some(lost()), Some(lost())]);
    let reply = harness.pay("key-1", &harness.body(1), 1).await;
    assert_eq!((reply.status, reply.text("code")), (503, "outcome_unknown"), "{:#}", reply.body);
    assert_eq!(harness.store.calls(StoreOp::Create), 2);
}
