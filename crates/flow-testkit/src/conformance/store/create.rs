//! Cases: creation, keys, attempts, lookups.

use chrono::TimeDelta;
use flow_core::flow::Flow;
use flow_core::ids::{AttemptNo, BizKey, Fingerprint, IdempotencyKey, RefundOrderNo, TradeOrderNo, Version};
use flow_core::ports::{Bound, Created, KeyBinding, Lookup, Seen};
use flow_core::state::State;

use super::StoreFactory;
use super::steps::{Store, bring, create, created, created_in, fresh, load, new_flow, now};
use crate::samples;

/// A created row is exactly what was asked for, in `WAIT_PAY`, under numbers derived from its id.
pub async fn create_gives_the_row_its_numbers(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut new = new_flow(&store, 1).await;
    new.first_due_in_ms = 30_000;
    let from = now(&store).await;
    let Created::Inserted(Seen { value: flow, .. }) = store.create(new.clone()).await.unwrap() else {
        panic!("a fresh target and a fresh key are free");
    };
    let to = now(&store).await;
    assert_eq!(flow.trade_order_no, TradeOrderNo::derive(new.target.user_id, flow.id));
    assert_eq!(flow.refund_order_no, RefundOrderNo::derive(&flow.trade_order_no));
    assert!((from..=to).contains(&flow.created_at));
    let mut expected = samples::flow(1, State::WaitPay, flow.created_at);
    expected.id = flow.id;
    expected.trade_order_no = flow.trade_order_no.clone();
    expected.refund_order_no = flow.refund_order_no.clone();
    expected.deadline = new.deadline;
    expected.next_retry_time = flow.created_at + TimeDelta::milliseconds(30_000);
    assert_eq!(flow, expected);
    let read = load(&store, flow.id).await;
    assert!((from..=to).contains(&read.created_at));
    assert_eq!(read.next_retry_time, read.created_at + TimeDelta::milliseconds(30_000));
    // A store may estimate the times that it returns, rather than read the row back for them.
    let told = Flow {
        created_at: read.created_at,
        state_entered_at: read.state_entered_at,
        updated_at: read.updated_at,
        next_retry_time: read.next_retry_time,
        ..flow
    };
    assert_eq!(read, told, "what is read is what the creation returned");
}

/// A key is used once per caller; a refused creation leaves neither row nor key.
pub async fn create_refuses_a_used_key_and_writes_nothing(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let first = new_flow(&store, 1).await;
    create(&store, first.clone()).await;
    let mut second = new_flow(&store, 2).await;
    second.key = first.key;
    assert_eq!(store.create(second.clone()).await.unwrap(), Created::KeyTaken);
    let known = look_up(&store, &second.key, &second.target).await;
    assert_eq!(known.latest, None);
    // A creation that loses to the target must not keep its key either.
    let mut third = new_flow(&store, 3).await;
    third.target = first.target;
    assert_eq!(store.create(third.clone()).await.unwrap(), Created::TargetTaken);
    third.target = samples::target(3, "free");
    create(&store, third).await;
}

/// Two callers may use the same key.
pub async fn a_key_belongs_to_its_caller(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let first = new_flow(&store, 1).await;
    let mut second = new_flow(&store, 2).await;
    second.caller = samples::caller_named("other-shop");
    second.key = first.key.clone();
    let first = create(&store, first).await;
    let second = create(&store, second).await;
    assert_ne!(first.id, second.id);
}

/// I8: an open or successful attempt holds its target, a failed one frees it.
pub async fn only_a_failed_attempt_frees_its_target(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    for (number, state) in (1..).zip(State::ALL) {
        let flow = created_in(&store, number, state).await;
        let mut next = new_flow(&store, 100 + number).await;
        next.target = flow.target.clone();
        next.attempt_no = AttemptNo(2);
        let outcome = store.create(next).await.unwrap();
        let inserted = matches!(&outcome, Created::Inserted(seen) if seen.value.attempt_no == AttemptNo(2));
        let expected = matches!(state, State::PayFail | State::Refunded);
        assert_eq!(inserted, expected, "second attempt after {state}: {outcome:?}");
        assert!(inserted || outcome == Created::TargetTaken, "{outcome:?}");
    }
}

/// An attempt number is never used twice, not even after the attempt failed.
pub async fn an_attempt_number_is_used_once(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let first = created_in(&store, 1, State::PayFail).await;
    let mut again = new_flow(&store, 2).await;
    again.target = first.target.clone();
    assert_eq!(store.create(again.clone()).await.unwrap(), Created::TargetTaken);
    again.attempt_no = AttemptNo(2);
    let second = create(&store, again).await;
    bring(&store, second, State::Refunded).await;
    let mut third = new_flow(&store, 3).await;
    third.target = first.target;
    third.attempt_no = AttemptNo(3);
    create(&store, third).await;
}

/// `a` and `A` are different keys, targets and numbers.
pub async fn identities_differ_by_case(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut lower = new_flow(&store, 1).await;
    let mut upper = lower.clone();
    lower.key = samples::key("key-a");
    upper.key = samples::key("KEY-A");
    lower.target = samples::target(1, "goal-a");
    upper.target = samples::target(1, "GOAL-A");
    let lower_flow = create(&store, lower.clone()).await;
    let upper_flow = create(&store, upper.clone()).await;
    assert_ne!(lower_flow.id, upper_flow.id);
    let known = look_up(&store, &upper.key, &lower.target).await;
    assert_eq!(known.request.map(|record| record.flow.id), Some(upper_flow.id));
    assert_eq!(known.latest.map(|flow| flow.id), Some(lower_flow.id));
}

/// The longest texts, the largest numbers, and characters beyond the basic plane survive the round trip.
pub async fn extreme_values_come_back_as_they_went_in(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut new = new_flow(&store, 1).await;
    new.target.user_id = samples::user(i64::MAX);
    new.target.biz_key = BizKey::new("~".repeat(BizKey::MAX_CHARS)).unwrap();
    new.money = samples::money(i64::MAX, "ABCDEFGHIJKLMNOP");
    new.key = IdempotencyKey::new("!".repeat(IdempotencyKey::MAX_CHARS)).unwrap();
    new.context = Some("{\"note\":\"续签 🎫 'quoted' \\\\ \"}".to_owned());
    let flow = create(&store, new.clone()).await;
    let read = load(&store, flow.id).await;
    assert_eq!((&read.target, &read.money, &read.context), (&new.target, &new.money, &new.context));
    assert_eq!(read.trade_order_no.parts(), Some((new.target.user_id, flow.id)));
    let mut bare = new_flow(&store, 2).await;
    bare.context = None;
    let bare = create(&store, bare).await;
    assert_eq!(load(&store, bare.id).await.context, None);
}

/// A lookup knows the key's own flow and the target's latest attempt, each independent of the other.
pub async fn look_up_knows_the_key_and_the_latest_attempt(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let new = new_flow(&store, 1).await;
    let nothing = look_up(&store, &new.key, &new.target).await;
    assert_eq!(nothing, Lookup { request: None, latest: None });
    let first = create(&store, new.clone()).await;
    let first = bring(&store, first, State::PayFail).await;
    let mut again = new_flow(&store, 2).await;
    again.target = new.target.clone();
    again.attempt_no = AttemptNo(2);
    let second = create(&store, again).await;
    let known = look_up(&store, &new.key, &new.target).await;
    let record = known.request.expect("the key was used");
    assert_eq!(
        (record.fingerprint, record.flow),
        (new.fingerprint, first),
        "the key's own flow, whatever happened"
    );
    assert_eq!(known.latest, Some(second), "the highest attempt");
    let elsewhere = look_up(&store, &samples::key("unused"), &samples::target(9, "elsewhere")).await;
    assert_eq!(elsewhere, Lookup { request: None, latest: None });
}

/// A further key for a flow answers with that flow and with what it was bound for.
pub async fn a_bound_key_stands_for_its_flow(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let flow = created(&store, 1).await;
    let binding = KeyBinding {
        caller: samples::caller(),
        key: samples::key("second-key"),
        fingerprint: Fingerprint::of(&[b"second"]),
        flow_id: flow.id,
    };
    assert_eq!(store.bind_key(binding.clone()).await.unwrap(), Bound::Bound);
    let record = look_up(&store, &binding.key, &flow.target).await.request.expect("the key is bound");
    assert_eq!((record.fingerprint, record.flow.id), (binding.fingerprint, flow.id));
    assert_eq!(load(&store, flow.id).await.version, Version::FIRST, "binding a key does not touch the row");
}

/// A key that was used or bound is never bound again, nor used for a creation.
pub async fn a_key_is_bound_once(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let new = new_flow(&store, 1).await;
    let flow = create(&store, new.clone()).await;
    let other = created(&store, 2).await;
    let mut binding = KeyBinding {
        caller: samples::caller(),
        key: new.key.clone(),
        fingerprint: Fingerprint::of(&[b"another"]),
        flow_id: other.id,
    };
    assert_eq!(store.bind_key(binding.clone()).await.unwrap(), Bound::KeyTaken);
    binding.key = samples::key("second-key");
    assert_eq!(store.bind_key(binding.clone()).await.unwrap(), Bound::Bound);
    binding.flow_id = flow.id;
    assert_eq!(store.bind_key(binding.clone()).await.unwrap(), Bound::KeyTaken);
    let record = look_up(&store, &binding.key, &flow.target).await.request.expect("the key is bound");
    assert_eq!(record.flow.id, other.id, "the first binding stands");
    let mut third = new_flow(&store, 3).await;
    third.key = binding.key.clone();
    assert_eq!(store.create(third).await.unwrap(), Created::KeyTaken);
    binding.caller = samples::caller_named("other-shop");
    assert_eq!(store.bind_key(binding).await.unwrap(), Bound::Bound);
}

async fn look_up(store: &Store, key: &IdempotencyKey, target: &flow_core::ids::Target) -> Lookup {
    store.look_up(&samples::caller(), key, target).await.expect("the store is up").value
}
