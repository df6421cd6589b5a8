//! `create` over a store that races, fails and loses answers: one attempt per target, and nobody is told a lie.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::TimeDelta;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::create::{CreateError, PaymentRequest, Taken, create};
use flow_core::decide::Transition;
use flow_core::flow::{Flow, Trigger};
use flow_core::ids::{AttemptNo, FlowId};
use flow_core::ports::{CasOutcome, StoreError};
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::mem_store::{MemStore, StoreFault, StoreOp};
use flow_testkit::samples;
use tokio::task::JoinSet;

fn store() -> MemStore {
    MemStore::new(ManualClock::new())
}

fn request(store: &MemStore, number: i64) -> PaymentRequest {
    samples::request(number, store.clock().now() + TimeDelta::minutes(10))
}

fn with_key(request: &PaymentRequest, key: &str) -> PaymentRequest {
    PaymentRequest { key: samples::key(key), ..request.clone() }
}

fn taken(taken: &Taken) -> (&'static str, FlowId) {
    match taken {
        Taken::Created(seen) => ("created", seen.value.id),
        Taken::Replayed(seen) => ("replayed", seen.value.id),
        Taken::Joined(seen) => ("joined", seen.value.id),
    }
}

fn move_on(store: &MemStore, flow_id: FlowId, transition: Transition) -> Flow {
    let flow = store.flow(flow_id).expect("the row exists");
    let change = Change::Move { transition, next_in_ms: 0 };
    let evidence = WriteEvidence::of(Trigger::Scanner);
    let write = CasWrite { flow_id, from: flow.state, version: flow.version, change, evidence };
    assert_eq!(store.cas_now(&write).expect("a legal write"), CasOutcome::Applied);
    store.flow(flow_id).expect("the row exists")
}

fn fail(store: &MemStore, flow_id: FlowId) {
    move_on(store, flow_id, Transition::EnterPaying);
    move_on(store, flow_id, Transition::FailPayment(flow_core::answer::ErrorCode::clean("NO_FUNDS")));
}

#[tokio::test]
async fn a_request_is_created_then_replayed_then_joined() {
    let store = store();
    let first = request(&store, 1);
    let created = create(&store, &first).await.unwrap();
    let (how, id) = taken(&created);
    assert_eq!(how, "created");
    move_on(&store, id, Transition::EnterPaying);
    let replayed = create(&store, &first).await.unwrap();
    assert_eq!(taken(&replayed), ("replayed", id));
    let Taken::Replayed(seen) = replayed else { panic!("{replayed:?}") };
    assert_eq!(seen.value.state, State::Paying, "the flow as it is now");
    let second = with_key(&first, "another-key");
    assert_eq!(taken(&create(&store, &second).await.unwrap()), ("joined", id));
    assert_eq!(
        taken(&create(&store, &second).await.unwrap()),
        ("replayed", id),
        "the key stands for it from now on"
    );
    assert_eq!(store.flows().len(), 1);
}

#[tokio::test]
async fn a_failed_attempt_is_followed_by_the_next_one_and_old_keys_keep_their_flow() {
    let store = store();
    let first = request(&store, 1);
    let (_, id) = taken(&create(&store, &first).await.unwrap());
    fail(&store, id);
    let second = with_key(&first, "second-key");
    let created = create(&store, &second).await.unwrap();
    let Taken::Created(seen) = &created else { panic!("{created:?}") };
    assert_eq!(seen.value.attempt_no, AttemptNo(2));
    assert_eq!(taken(&create(&store, &first).await.unwrap()), ("replayed", id));
}

#[tokio::test]
async fn refusals_write_nothing() {
    let store = store();
    let first = request(&store, 1);
    let (_, id) = taken(&create(&store, &first).await.unwrap());
    let reused = PaymentRequest { fingerprint: request(&store, 9).fingerprint, ..first.clone() };
    let refused = create(&store, &reused).await;
    assert!(matches!(refused, Err(CreateError::KeyReused { flow_id }) if flow_id == id), "{refused:?}");
    let dearer = PaymentRequest { money: samples::cny(101), ..with_key(&first, "k2") };
    let refused = create(&store, &dearer).await;
    assert!(
        matches!(refused, Err(CreateError::OpenAttemptDiffers { flow_id }) if flow_id == id),
        "{refused:?}"
    );
    let foreign = PaymentRequest { caller: samples::caller_named("other-shop"), ..first.clone() };
    assert!(matches!(create(&store, &foreign).await, Err(CreateError::TargetOfOtherCaller)));
    let late = samples::request(2, store.clock().now());
    assert!(matches!(create(&store, &late).await, Err(CreateError::DeadlinePassed)));
    let far = samples::request(3, store.clock().now() + TimeDelta::days(2));
    let horizon_ms = far.deadline_horizon_ms;
    let refused = create(&store, &far).await;
    assert!(matches!(refused, Err(CreateError::DeadlineTooFar { horizon_ms: told }) if told == horizon_ms));
    assert_eq!((store.flows().len(), store.all_events().len()), (1, 1));
    // Nor did a refusal use up its key.
    let again = PaymentRequest { key: samples::key("k2"), ..request(&store, 4) };
    assert_eq!(taken(&create(&store, &again).await.unwrap()).0, "created");
}

#[tokio::test]
async fn a_creation_whose_answer_was_lost_is_found_again() {
    let store = store();
    store.fail_next(StoreOp::Create, StoreFault::OutcomeUnknown { happened: true });
    let found = create(&store, &request(&store, 1)).await.unwrap();
    assert_eq!(taken(&found).0, "replayed");
    assert_eq!(store.flows().len(), 1);
}

#[tokio::test]
async fn a_creation_that_was_lost_is_made_again() {
    let store = store();
    store.fail_next(StoreOp::Create, StoreFault::OutcomeUnknown { happened: false });
    let made = create(&store, &request(&store, 1)).await.unwrap();
    assert_eq!(taken(&made).0, "created");
    assert_eq!(store.flows().len(), 1);
}

#[tokio::test]
async fn a_binding_with_a_lost_answer_ends_the_same_either_way() {
    for happened in [true, false] {
        let store = store();
        let first = request(&store, 1);
        let (_, id) = taken(&create(&store, &first).await.unwrap());
        store.fail_next(StoreOp::BindKey, StoreFault::OutcomeUnknown { happened });
        let second = with_key(&first, "second-key");
        let (how, joined) = taken(&create(&store, &second).await.unwrap());
        assert_eq!((how, joined), (if happened { "replayed" } else { "joined" }, id));
        assert_eq!(taken(&create(&store, &second).await.unwrap()), ("replayed", id));
    }
}

#[tokio::test]
async fn an_unavailable_store_is_reported_and_writes_nothing() {
    for op in [StoreOp::LookUp, StoreOp::Create] {
        let store = store();
        store.fail_next(op, StoreFault::Unavailable);
        let failed = create(&store, &request(&store, 1)).await;
        let Err(CreateError::Store(error)) = failed else { panic!("{failed:?}") };
        assert!(matches!(error, StoreError::Unavailable { .. }) && error.retryable(), "{error:?}");
        assert_eq!(store.flows().len(), 0);
    }
}

#[tokio::test]
async fn nothing_recorded_is_never_said_once_a_write_may_have_happened() {
    for happened in [true, false] {
        let store = store();
        store.fail_next(StoreOp::Create, StoreFault::OutcomeUnknown { happened });
        // The second look, the one that would tell, finds the database away.
        store.before_next(StoreOp::Create, |store| store.fail_next(StoreOp::LookUp, StoreFault::Unavailable));
        let failed = create(&store, &request(&store, 1)).await;
        let Err(CreateError::Store(StoreError::OutcomeUnknown)) = failed else { panic!("{failed:?}") };
        assert_eq!(store.flows().len(), usize::from(happened));
    }
}

#[tokio::test]
async fn a_race_lost_between_look_and_insert_joins_the_winner() {
    let store = store();
    let mine = request(&store, 1);
    let theirs = with_key(&mine, "their-key");
    let new = flow_core::ports::NewFlow { key: theirs.key.clone(), ..samples::new_flow(1, mine.deadline) };
    store.before_next(StoreOp::Create, move |store| drop(store.create_now(new)));
    let (how, id) = taken(&create(&store, &mine).await.unwrap());
    assert_eq!(how, "joined");
    assert_eq!(taken(&create(&store, &theirs).await.unwrap()), ("replayed", id));
    assert_eq!(store.flows().len(), 1);
}

#[tokio::test]
async fn endless_contention_ends_with_a_refusal_that_wrote_nothing() {
    let store = store();
    let mine = request(&store, 1);
    // Before each of our inserts somebody else's attempt at the target is made, and it fails before we look again.
    for round in 0..50_u32 {
        let new = flow_core::ports::NewFlow {
            key: samples::key(&format!("their-key-{round}")),
            attempt_no: AttemptNo(round + 1),
            ..samples::new_flow(1, mine.deadline)
        };
        store.before_next(StoreOp::Create, move |store| {
            if let flow_core::ports::Created::Inserted(seen) = store.create_now(new) {
                fail(store, seen.value.id);
            }
        });
    }
    let refused = create(&store, &mine).await;
    assert!(matches!(refused, Err(CreateError::Contended)), "{refused:?}");
    assert!(store.flows().iter().all(|flow| flow.state == State::PayFail), "nothing of ours was written");
    assert!(store.calls(StoreOp::LookUp) <= 8, "bounded");
}

#[tokio::test]
async fn writes_that_are_lost_again_and_again_are_never_called_a_refusal() {
    let store = store();
    let lost = || Some(StoreFault::OutcomeUnknown { happened: false });
    store.script().push(StoreOp::Create, (0..20).map(|_| lost()));
    let failed = create(&store, &request(&store, 1)).await;
    assert!(matches!(failed, Err(CreateError::Store(StoreError::OutcomeUnknown))), "{failed:?}");
    // Each of them may have taken the store's whole patience, and a client waits.
    assert_eq!((store.calls(StoreOp::Create), store.calls(StoreOp::LookUp)), (2, 3));
}

#[tokio::test]
async fn contention_after_a_write_in_doubt_is_no_refusal() {
    let store = store();
    let mine = request(&store, 1);
    store.fail_next(StoreOp::Create, StoreFault::OutcomeUnknown { happened: false });
    // From the second insert on, somebody else's attempt is made right before it, and fails before we look again.
    store.before_next(StoreOp::Create, |_| {});
    for round in 0..50_u32 {
        let new = flow_core::ports::NewFlow {
            key: samples::key(&format!("their-key-{round}")),
            attempt_no: AttemptNo(round + 1),
            ..samples::new_flow(1, mine.deadline)
        };
        store.before_next(StoreOp::Create, move |store| {
            if let flow_core::ports::Created::Inserted(seen) = store.create_now(new) {
                fail(store, seen.value.id);
            }
        });
    }
    let failed = create(&store, &mine).await;
    assert!(matches!(failed, Err(CreateError::Store(StoreError::OutcomeUnknown))), "{failed:?}");
}

#[tokio::test]
async fn a_write_that_took_long_to_be_lost_is_not_tried_again_while_the_client_waits() {
    let store = store();
    store.fail_next(StoreOp::Create, StoreFault::OutcomeUnknown { happened: false });
    store.before_next(StoreOp::Create, |store| store.clock().advance_ms(2_500));
    let failed = create(&store, &request(&store, 1)).await;
    assert!(matches!(failed, Err(CreateError::Store(StoreError::OutcomeUnknown))), "{failed:?}");
    assert_eq!(store.calls(StoreOp::Create), 1);
    // The same request, made again, is carried out.
    assert_eq!(taken(&create(&store, &request(&store, 1)).await.unwrap()).0, "created");
}

#[tokio::test]
async fn a_deadline_that_passes_while_a_write_is_in_doubt_is_no_refusal() {
    let store = store();
    store.fail_next(StoreOp::Create, StoreFault::OutcomeUnknown { happened: false });
    store.before_next(StoreOp::Create, |store| store.clock().advance_ms(11 * 60_000));
    let failed = create(&store, &request(&store, 1)).await;
    assert!(matches!(failed, Err(CreateError::Store(StoreError::OutcomeUnknown))), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_clients_with_one_key_all_get_one_flow() {
    let store = Arc::new(store());
    let request = request(&store, 1);
    let outcomes = all(&store, std::iter::repeat_n(request, 64)).await;
    let ids: HashSet<FlowId> = outcomes.iter().map(|(_, id)| *id).collect();
    assert_eq!((ids.len(), store.flows().len()), (1, 1));
    assert_eq!(outcomes.iter().filter(|(how, _)| *how == "created").count(), 1);
    assert_eq!(outcomes.iter().filter(|(how, _)| *how == "replayed").count(), 63);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_clients_with_keys_of_their_own_all_get_one_flow() {
    let store = Arc::new(store());
    let first = request(&store, 1);
    let outcomes = all(&store, (0..64).map(|n| with_key(&first, &format!("client-{n}")))).await;
    let ids: HashSet<FlowId> = outcomes.iter().map(|(_, id)| *id).collect();
    assert_eq!((ids.len(), store.flows().len()), (1, 1));
    assert_eq!(outcomes.iter().filter(|(how, _)| *how == "created").count(), 1);
    assert_eq!(outcomes.iter().filter(|(how, _)| *how == "joined").count(), 63);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_clients_racing_after_a_failure_all_get_the_second_attempt() {
    let store = Arc::new(store());
    let first = request(&store, 1);
    let (_, id) = taken(&create(&*store, &first).await.unwrap());
    fail(&store, id);
    let outcomes = all(&store, (0..64).map(|n| with_key(&first, &format!("client-{n}")))).await;
    let ids: HashSet<FlowId> = outcomes.iter().map(|(_, id)| *id).collect();
    assert_eq!((ids.len(), store.flows().len()), (1, 2));
    let second = store.flow(*ids.iter().next().unwrap()).unwrap();
    assert_eq!(second.attempt_no, AttemptNo(2));
}

async fn all(
    store: &Arc<MemStore>,
    requests: impl IntoIterator<Item = PaymentRequest>,
) -> Vec<(&'static str, FlowId)> {
    let mut tasks = JoinSet::new();
    for request in requests {
        let store = Arc::clone(store);
        tasks.spawn(async move { taken(&create(&*store, &request).await.expect("no loser is refused")) });
    }
    tasks.join_all().await
}
