//! Writes that share a commit: they mean the same as alone, and one bad row fails alone.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use chrono::{DateTime, Utc};
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::decide::{Action, Transition};
use flow_core::flow::{Flow, HoldReason, RefundReason, Trigger};
use flow_core::ids::{TraceId, Version};
use flow_core::ports::{Bound, CasOutcome, Created, FlowStore as _, KeyBinding, StoreError};
use flow_core::state::State;
use flow_core::store::MySqlStore;
use flow_testkit::samples;
use sqlx::{AssertSqlSafe, Executor as _};

use crate::harness::{
    Schema, created, created_in, loaded, moving, new_flow, on_both_servers, rescheduling, writing,
};

on_both_servers!(
    every_write_means_what_apply_says_alone_and_in_a_batch,
    two_writes_of_one_flow_in_one_batch_follow_each_other,
    bad_rows_fail_alone,
    creations_in_a_batch_are_whole,
);

/// Futures that were started, to be awaited later.
type Started<'a, T> = Vec<Pin<Box<dyn Future<Output = T> + Send + 'a>>>;

/// Starts every future, which hands its write over, and returns them.
async fn start<'a, T>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'a>,
) -> Started<'a, T> {
    let mut started: Started<'a, T> = Vec::new();
    for future in futures {
        let mut future: Pin<Box<dyn Future<Output = T> + Send + 'a>> = Box::pin(future);
        poll_fn(|context| {
            assert!(
                future.as_mut().poll(context).is_pending(),
                "a write is answered by the store's own tasks"
            );
            Poll::Ready(())
        })
        .await;
        started.push(future);
    }
    started
}

async fn all<T>(started: Started<'_, T>) -> Vec<T> {
    let mut results = Vec::new();
    for future in started {
        results.push(future.await);
    }
    results
}

/// Makes sure that writes share a commit: the one committer is held up by a locked row until they have all queued up.
struct HeldUp {
    root: sqlx::MySqlConnection,
    flow: Flow,
}

impl HeldUp {
    /// Locks the flow's row and waits until the committer waits for it.
    async fn on<'a>(
        schema: &Schema,
        store: &'a MySqlStore,
        flow: Flow,
    ) -> (HeldUp, Started<'a, Result<CasOutcome, StoreError>>) {
        let mut root = schema.root().await;
        root.execute("BEGIN").await.unwrap();
        let lock = format!("SELECT id FROM internal_pay_flow WHERE id = {} FOR UPDATE", flow.id);
        root.execute(AssertSqlSafe(lock)).await.unwrap();
        let waiting = start([store.cas(rescheduling(&flow))]).await;
        let held_up = HeldUp { root, flow };
        let mut looker = schema.root().await;
        let statement = "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.processlist \
                         WHERE db = DATABASE() AND info LIKE 'UPDATE internal_pay_flow SET%'";
        loop {
            let waiting: i64 = sqlx::query_scalar(statement).fetch_one(&mut looker).await.unwrap();
            if waiting > 0 {
                break;
            }
        }
        (held_up, waiting)
    }

    async fn release(mut self) -> Flow {
        self.root.execute("ROLLBACK").await.unwrap();
        self.flow
    }
}

/// Runs the writes of these futures in one batch.
async fn together<'a, T>(
    schema: &Schema,
    store: &'a MySqlStore,
    blocker: Flow,
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'a>,
) -> Vec<T> {
    let (held_up, first) = HeldUp::on(schema, store, blocker).await;
    let started = start(futures).await;
    held_up.release().await;
    assert_eq!(all(first).await.remove(0).unwrap(), CasOutcome::Applied);
    all(started).await
}

/// When the version that a write made was recorded: one time for everything in one statement.
async fn recorded_at(store: &MySqlStore, flow: &Flow, version: Version) -> DateTime<Utc> {
    let events = store.events(flow.id, None, 100).await.unwrap();
    events.into_iter().find(|event| event.version == version).unwrap().at
}

fn evidence(number: i64) -> WriteEvidence {
    WriteEvidence {
        trigger: Trigger::Callback,
        action: Some(Action::QueryCharge),
        outcome: Some("SUCCESS"),
        request_id: Some(samples::reference(&format!("request-{number}"))),
        latency_ms: Some(u32::MAX),
        trace_id: Some(TraceId::new(format!("trace-{number}")).unwrap()),
        actor: Some(samples::actor("somebody")),
    }
}

/// What to do with a flow that is ready for it.
type ToChange = Box<dyn Fn(&Flow) -> Change>;

/// One write of every kind, with and without evidence, each for a flow of its own that is ready for it.
async fn one_of_each(store: &MySqlStore, first_number: i64) -> Vec<(Flow, CasWrite)> {
    let receipt = |flow: &Flow| samples::receipt_for(flow);
    let bare_receipt = |flow: &Flow| {
        let mut receipt = samples::receipt_for(flow);
        receipt.transaction = None;
        receipt
    };
    let by = samples::actor("ops");
    let code = ErrorCode::clean("UNKNOWN.TIMED_OUT");
    let changes: Vec<(State, ToChange)> = vec![
        (State::WaitPay, Box::new(|_| due(Transition::EnterPaying, 0))),
        (State::Paying, Box::new(|_| due(Transition::FailPayment(ErrorCode::clean("NO_FUNDS")), 10))),
        (State::Paying, Box::new(move |flow| due(Transition::ConfirmPayment(receipt(flow)), 86_400_000))),
        (State::Paying, Box::new(move |flow| due(Transition::ConfirmPayment(bare_receipt(flow)), 1))),
        (State::Payed, Box::new(|_| due(Transition::ConfirmBusiness, 0))),
        (State::Payed, Box::new(|_| due(Transition::DecideRefund(RefundReason::OwnedByOther), 0))),
        (State::Refunding, Box::new(move |flow| due(Transition::ConfirmRefund(receipt(flow)), 0))),
        (State::Paying, {
            let code = code.clone();
            Box::new(move |_| Change::Reschedule {
                next_in_ms: 123_456_789,
                retry_count: 77,
                code: code.clone(),
            })
        }),
        (
            State::Refunding,
            Box::new(move |_| Change::Reschedule { next_in_ms: 1, retry_count: 0, code: code.clone() }),
        ),
        (State::Payed, {
            let by = by.clone();
            Box::new(move |_| Change::Hold { reason: HoldReason::BusinessContradiction, by: by.clone() })
        }),
        (State::Payed, Box::new(|_| Change::Release)),
        (State::WaitPay, Box::new(move |_| Change::RequestCancel { by: by.clone() })),
    ];
    let mut writes = Vec::new();
    for (number, (state, change)) in (first_number..).zip(changes) {
        let mut flow = created_in(store, number, state).await;
        if number % 2 == 0 && !matches!(state, State::WaitPay) {
            // Something to be kept, or replaced.
            let mut write = rescheduling(&flow);
            write.evidence = evidence(1_000 + number);
            assert_eq!(store.cas(write).await.unwrap(), CasOutcome::Applied);
            flow = loaded(store, &flow).await;
        }
        let change = change(&flow);
        if matches!(change, Change::Release) {
            let hold = Change::Hold { reason: HoldReason::Operator, by: samples::actor("ops") };
            assert_eq!(store.cas(writing(&flow, hold)).await.unwrap(), CasOutcome::Applied);
            flow = loaded(store, &flow).await;
        }
        let mut write = writing(&flow, change);
        if number % 3 == 0 {
            write.evidence = evidence(number);
        }
        writes.push((flow, write));
    }
    writes
}

fn due(transition: Transition, next_in_ms: u64) -> Change {
    Change::Move { transition, next_in_ms }
}

/// Every time that a write sets is the same moment, so that the row must equal `apply` at that moment, to the column.
async fn assert_as_apply_says(store: &MySqlStore, before: &Flow, write: &CasWrite) {
    let after = loaded(store, before).await;
    assert_eq!(after, write.apply(before, after.updated_at), "{write:?}");
    let events = store.events(before.id, Some(before.version), 10).await.unwrap();
    assert_eq!(events.len(), 1, "{write:?}");
    let (event, told) = (&events[0], &write.evidence);
    assert_eq!((event.from, event.to, event.version), (Some(write.from), write.to(), after.version));
    assert_eq!((event.trigger.as_str(), event.at), (told.trigger.as_str(), after.updated_at));
    assert_eq!(event.action.as_deref(), told.action.map(Action::as_str));
    assert_eq!(event.outcome.as_deref(), told.outcome);
    assert_eq!(event.request_id.as_deref(), told.request_id.as_ref().map(|id| id.as_str()));
    assert_eq!(event.latency_ms, told.latency_ms);
    assert_eq!(event.trace_id.as_deref(), told.trace_id.as_ref().map(|id| id.as_str()));
    assert_eq!(event.actor.as_deref(), told.actor.as_ref().map(|actor| actor.as_str()));
    assert_eq!(event.error_code.as_deref(), after.last_error_code.as_ref().map(ErrorCode::as_str));
}

async fn every_write_means_what_apply_says_alone_and_in_a_batch(schema: Schema) {
    let store = schema.store().await;
    for (before, write) in one_of_each(&store, 100).await {
        assert_eq!(store.cas(write.clone()).await.unwrap(), CasOutcome::Applied);
        assert_as_apply_says(&store, &before, &write).await;
    }
    let blocker = created(&store, 1).await;
    for first_number in [201, 302] {
        let writes = one_of_each(&store, first_number).await;
        let blocker = loaded(&store, &blocker).await;
        let outcomes =
            together(&schema, &store, blocker, writes.iter().map(|(_, write)| store.cas(write.clone())))
                .await;
        assert!(outcomes.into_iter().all(|outcome| outcome.unwrap() == CasOutcome::Applied));
        let mut times = Vec::new();
        for (before, write) in &writes {
            assert_as_apply_says(&store, before, write).await;
            times.push(recorded_at(&store, before, before.version.next()).await);
        }
        times.dedup();
        assert_eq!(times.len(), 1, "one statement: {times:?}");
    }
}

async fn two_writes_of_one_flow_in_one_batch_follow_each_other(schema: Schema) {
    let store = schema.store().await;
    let blocker = created(&store, 1).await;
    let flow = created(&store, 2).await;
    let other = created(&store, 3).await;
    let first = moving(&flow, Transition::EnterPaying);
    let second = rescheduling(&first.apply(&flow, flow.updated_at));
    let late = rescheduling(&flow);
    let writes = [first, second, late, moving(&other, Transition::EnterPaying)];
    let outcomes = together(&schema, &store, blocker, writes.map(|write| store.cas(write))).await;
    let outcomes: Vec<CasOutcome> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes, [CasOutcome::Applied, CasOutcome::Applied, CasOutcome::Lost, CasOutcome::Applied]);
    let flow = loaded(&store, &flow).await;
    assert_eq!((flow.state, flow.version, flow.retry_count), (State::Paying, Version(2), 1));
}

/// What was asked for, and what came of it.
#[derive(Debug)]
enum Outcome {
    Cas(Result<CasOutcome, StoreError>),
    Create(Box<Result<Created, StoreError>>),
    Bind(Result<Bound, StoreError>),
}

async fn bad_rows_fail_alone(schema: Schema) {
    let store = schema.store().await;
    let blocker = created(&store, 1).await;
    let mut good = Vec::new();
    for number in 10..20 {
        good.push(created(&store, number).await);
    }
    let stale = created(&store, 30).await;
    assert_eq!(store.cas(rescheduling(&stale)).await.unwrap(), CasOutcome::Applied);
    let mut missing = stale.clone();
    missing.id = samples::flow_id(1_000_000);
    let mut same_key = new_flow(&store, 40).await;
    same_key.key = samples::key("key-10");
    let mut same_target = new_flow(&store, 11).await;
    same_target.key = samples::key("new");
    let mut too_long = new_flow(&store, 41).await;
    too_long.context = Some("长".repeat(4097));
    let mut far_too_long = new_flow(&store, 42).await;
    far_too_long.context = Some("x".repeat(100_000));
    let mut just_fits = new_flow(&store, 43).await;
    just_fits.context = Some("😀".repeat(4096));
    let binding = |key: &str| KeyBinding {
        caller: samples::caller(),
        key: samples::key(key),
        fingerprint: same_key.fingerprint,
        flow_id: good[0].id,
    };
    let (bind_good, bind_bad) = (binding("further"), binding("key-12"));

    let store_ref: &MySqlStore = &store;
    type Write<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;
    let cas =
        |write: CasWrite| -> Write<'_> { Box::pin(async move { Outcome::Cas(store_ref.cas(write).await) }) };
    let create = |new| -> Write<'_> {
        Box::pin(async move { Outcome::Create(Box::new(store_ref.create(new).await)) })
    };
    let bind = |key| -> Write<'_> { Box::pin(async move { Outcome::Bind(store_ref.bind_key(key).await) }) };
    let mut writes: Vec<Write<'_>> = vec![cas(rescheduling(&stale)), cas(rescheduling(&missing))];
    writes.extend(good.iter().map(|flow| cas(moving(flow, Transition::EnterPaying))));
    writes.extend([same_key, same_target, too_long, far_too_long, just_fits].map(create));
    writes.extend([bind_good, bind_bad].map(bind));
    let outcomes = together(&schema, &store, blocker, writes).await;

    let told: Vec<&str> = outcomes.iter().map(name_of).collect();
    let mut expected = vec!["lost", "lost"];
    expected.extend(["applied"; 10]);
    expected.extend(["key", "target", "guarded", "failed", "inserted", "bound", "key"]);
    assert_eq!(told, expected, "{outcomes:?}");
    for flow in &good {
        assert_eq!(loaded(&store, flow).await.state, State::Paying);
    }
    // Those that could be written shared a commit, though others could not.
    let first = recorded_at(&store, &good[0], Version(1)).await;
    assert_eq!(recorded_at(&store, &good[9], Version(1)).await, first);
}

fn name_of(outcome: &Outcome) -> &'static str {
    let error = match outcome {
        Outcome::Cas(Ok(CasOutcome::Applied)) => return "applied",
        Outcome::Cas(Ok(CasOutcome::Lost)) => return "lost",
        Outcome::Bind(Ok(Bound::Bound)) => return "bound",
        Outcome::Bind(Ok(Bound::KeyTaken)) => return "key",
        Outcome::Cas(Err(error)) | Outcome::Bind(Err(error)) => error,
        Outcome::Create(created) => match created.as_ref() {
            Ok(Created::Inserted(_)) => return "inserted",
            Ok(Created::KeyTaken) => return "key",
            Ok(Created::TargetTaken) => return "target",
            Err(error) => error,
        },
    };
    match error {
        StoreError::Guarded { .. } => "guarded",
        StoreError::Unexpected(_) => "failed",
        StoreError::Unavailable { .. } => "unavailable",
        StoreError::OutcomeUnknown => "unknown",
        StoreError::Corrupt { .. } => "corrupt",
    }
}

async fn creations_in_a_batch_are_whole(schema: Schema) {
    let store = schema.store().await;
    let blocker = created(&store, 1).await;
    let mut new = Vec::new();
    for number in 10..40 {
        let mut flow = new_flow(&store, number).await;
        flow.context = (number % 3 != 0).then(|| format!("\"quotes\" \\ ünïcödé 😀 \n\t{number}"));
        flow.money = samples::money(i64::MAX - number, "POINTS");
        flow.trace_id = (number % 2 == 0).then(|| TraceId::new(format!("t{number}")).unwrap());
        flow.first_due_in_ms = 60_000;
        new.push(flow);
    }
    let outcomes = together(&schema, &store, blocker, new.iter().map(|new| store.create(new.clone()))).await;
    let mut ids = Vec::new();
    for (new, outcome) in new.iter().zip(outcomes) {
        let Created::Inserted(seen) = outcome.unwrap() else { panic!("{new:?}") };
        let mut returned = seen.value;
        let stored = loaded(&store, &returned).await;
        // The times alone are estimates, and never ahead of the real ones by more than the answer took.
        assert!((stored.created_at - returned.created_at).abs().num_milliseconds() < 1_000);
        assert_eq!((stored.next_retry_time - stored.created_at).num_milliseconds(), 60_000);
        returned.created_at = stored.created_at;
        returned.updated_at = stored.updated_at;
        returned.state_entered_at = stored.state_entered_at;
        returned.next_retry_time = stored.next_retry_time;
        assert_eq!(returned, stored);
        let known = store.look_up(&new.caller, &new.key, &new.target).await.unwrap().value;
        assert_eq!(known.request.unwrap().fingerprint, new.fingerprint);
        assert_eq!(known.latest.unwrap(), stored);
        let events = store.events(stored.id, None, 10).await.unwrap();
        assert_eq!((events.len(), events[0].kind.as_str(), events[0].from), (1, "CREATED", None));
        assert_eq!(events[0].trace_id.as_deref(), new.trace_id.as_ref().map(|trace| trace.as_str()));
        ids.push(stored.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), new.len());
}
