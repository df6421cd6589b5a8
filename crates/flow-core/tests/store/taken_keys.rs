//! Unique keys: every way to run into one, alone and among others, and the races.

use std::sync::Arc;

use flow_core::flow::Flow;
use flow_core::ids::{AttemptNo, FlowId};
use flow_core::ports::{Bound, Created, FlowStore as _, KeyBinding, StoreError};
use flow_core::state::State;
use flow_core::store::MySqlStore;
use flow_testkit::samples;
use sqlx::{AssertSqlSafe, Executor as _};

use crate::harness::{Schema, created, created_in, new_flow, on_both_servers};

on_both_servers!(
    every_taken_key_has_its_meaning,
    an_id_that_is_in_use_is_never_used_again,
    of_64_creations_at_once_one_wins,
);

fn outcome(created: &Created) -> &'static str {
    match created {
        Created::Inserted(_) => "inserted",
        Created::KeyTaken => "key",
        Created::TargetTaken => "target",
    }
}

async fn every_taken_key_has_its_meaning(schema: Schema) {
    let store = schema.store().await;
    let open = created(&store, 1).await;
    created_in(&store, 2, State::PayFail).await;
    created_in(&store, 3, State::BizSuccess).await;

    // The open attempt of the target; its attempt number, though it has ended; the successful one; the key.
    let mut same_target = new_flow(&store, 1).await;
    same_target.key = samples::key("other-1");
    same_target.attempt_no = AttemptNo(2);
    let mut same_attempt = new_flow(&store, 2).await;
    same_attempt.key = samples::key("other-2");
    let mut after_success = new_flow(&store, 3).await;
    after_success.key = samples::key("other-3");
    after_success.attempt_no = AttemptNo(2);
    let mut same_key = new_flow(&store, 4).await;
    same_key.key = samples::key("key-1");
    // A key and a business goal that look like what the server says when another key is taken.
    let mut confusing = new_flow(&store, 1).await;
    confusing.target.biz_key = flow_core::ids::BizKey::new("'for_key_'uk_open_target'").unwrap();
    assert_eq!(outcome(&store.create(same_target).await.unwrap()), "target");
    assert_eq!(outcome(&store.create(same_attempt).await.unwrap()), "target");
    assert_eq!(outcome(&store.create(after_success).await.unwrap()), "target");
    assert_eq!(outcome(&store.create(same_key).await.unwrap()), "key");
    assert_eq!(outcome(&store.create(confusing).await.unwrap()), "key");

    let binding = |key: &str| KeyBinding {
        caller: samples::caller(),
        key: samples::key(key),
        fingerprint: new_fingerprint(),
        flow_id: open.id,
    };
    assert_eq!(store.bind_key(binding("new")).await.unwrap(), Bound::Bound);
    assert_eq!(store.bind_key(binding("new")).await.unwrap(), Bound::KeyTaken);
    assert_eq!(store.bind_key(binding("key-2")).await.unwrap(), Bound::KeyTaken);
    // A refused creation has left neither row nor key.
    let mut retried = new_flow(&store, 4).await;
    retried.key = samples::key("other-1");
    assert_eq!(outcome(&store.create(retried).await.unwrap()), "inserted");
}

fn new_fingerprint() -> flow_core::ids::Fingerprint {
    flow_core::ids::Fingerprint::of(&[b"test"])
}

/// As after a restore of the block table alone: ids come again that rows have already.
async fn an_id_that_is_in_use_is_never_used_again(schema: Schema) {
    let before = schema.store().await;
    for number in 1..=3 {
        created(&before, number).await;
    }
    let mut root = schema.root().await;
    for statement in
        ["DROP TRIGGER id_block_before_update", "UPDATE flow_id_block SET next_id = 2 WHERE id = 1"]
    {
        root.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    let mut options = schema.options();
    options.insist_on = vec!["guard_triggers".to_owned()];
    options.id_block_rows = 2;
    let store = MySqlStore::connect(options).await.unwrap();
    let refused = store.create(new_flow(&store, 10).await).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    // The spoilt block is forgotten; the next one is free.
    let flow = created(&store, 10).await;
    assert_eq!(flow.id, FlowId::new(4).unwrap());
}

async fn of_64_creations_at_once_one_wins(schema: Schema) {
    let store = schema.store().await;
    let new = new_flow(&store, 1).await;
    let same_key = race(&store, |_| new.clone()).await;
    assert_eq!(same_key.len(), 1, "one key");
    let mut new = new_flow(&store, 2).await;
    let same_target = race(&store, |number| {
        new.key = samples::key(&format!("racer-{number}"));
        new.clone()
    })
    .await;
    assert_eq!(same_target.len(), 1, "one target");
}

/// 64 creations at once; those that were inserted. Nothing but a taken key may be the others' answer.
async fn race(store: &Arc<MySqlStore>, mut new: impl FnMut(usize) -> flow_core::ports::NewFlow) -> Vec<Flow> {
    let racers: Vec<_> = (0..64)
        .map(|number| {
            let (store, new) = (Arc::clone(store), new(number));
            tokio::spawn(async move { store.create(new).await })
        })
        .collect();
    let mut inserted = Vec::new();
    for racer in racers {
        if let Created::Inserted(seen) = racer.await.unwrap().unwrap() {
            inserted.push(seen.value);
        }
    }
    inserted
}
