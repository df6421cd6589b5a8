//! Cases: reading for people.

use flow_core::cas::Change;
use flow_core::flow::HoldReason;
use flow_core::ids::{FlowId, Scene};
use flow_core::ports::FlowFilter;
use flow_core::state::State;

use super::StoreFactory;
use super::steps::{Store, apply, create, created, created_in, fresh, new_flow, write};
use crate::samples;

/// A row that does not exist is not found, and that is no error.
pub async fn load_of_nothing_is_nothing(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    assert_eq!(store.load(samples::flow_id(1)).await.unwrap().value, None);
    assert_eq!(store.load(samples::flow_id(i64::MAX)).await.unwrap().value, None);
}

/// Each filter alone, and two together.
pub async fn find_obeys_every_filter(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let waiting = created(&store, 1).await;
    let paying = created_in(&store, 2, State::Paying).await;
    let failed = created_in(&store, 3, State::PayFail).await;
    let mut other = new_flow(&store, 4).await;
    other.caller = samples::caller_named("other-shop");
    other.target.user_id = waiting.target.user_id;
    other.target.scene = Scene::new("gift").unwrap();
    let other = create(&store, other).await;
    let hold = Change::Hold { reason: HoldReason::Operator, by: samples::actor("alice") };
    let held = apply(&store, write(&paying, hold)).await;

    let any = FlowFilter::default;
    let cases = [
        (any(), vec![other.id, failed.id, held.id, waiting.id]),
        (FlowFilter { caller: Some(other.caller.clone()), ..any() }, vec![other.id]),
        (FlowFilter { user_id: Some(waiting.target.user_id), ..any() }, vec![other.id, waiting.id]),
        (FlowFilter { scene: Some(other.target.scene.clone()), ..any() }, vec![other.id]),
        (FlowFilter { biz_key: Some(held.target.biz_key.clone()), ..any() }, vec![held.id]),
        (FlowFilter { trade_order_no: Some(failed.trade_order_no.clone()), ..any() }, vec![failed.id]),
        (FlowFilter { refund_order_no: Some(failed.refund_order_no.clone()), ..any() }, vec![failed.id]),
        (FlowFilter { state: Some(State::Paying), ..any() }, vec![held.id]),
        (FlowFilter { open: Some(true), ..any() }, vec![other.id, held.id, waiting.id]),
        (FlowFilter { open: Some(false), ..any() }, vec![failed.id]),
        (FlowFilter { held: Some(true), ..any() }, vec![held.id]),
        (FlowFilter { held: Some(false), ..any() }, vec![other.id, failed.id, waiting.id]),
        (FlowFilter { min_age_ms: Some(0), ..any() }, vec![other.id, failed.id, held.id, waiting.id]),
        (FlowFilter { min_age_ms: Some(3_600_000), ..any() }, vec![]),
        (
            FlowFilter {
                user_id: Some(waiting.target.user_id),
                scene: Some(waiting.target.scene.clone()),
                ..any()
            },
            vec![waiting.id],
        ),
        (FlowFilter { state: Some(State::Payed), held: Some(true), ..any() }, vec![]),
    ];
    for (filter, expected) in cases {
        assert_eq!(found(&store, &filter, None, 100).await, (expected, false), "{filter:?}");
    }
}

/// Newest first, and the next page starts before the last row.
pub async fn find_pages_newest_first(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut ids = Vec::new();
    for number in 1..=5 {
        ids.push(created(&store, number).await.id);
    }
    ids.reverse();
    let all = FlowFilter::default();
    assert_eq!(found(&store, &all, None, 2).await, (ids[0..2].to_vec(), true));
    assert_eq!(found(&store, &all, Some(ids[1]), 2).await, (ids[2..4].to_vec(), true));
    assert_eq!(found(&store, &all, Some(ids[3]), 2).await, (ids[4..].to_vec(), false));
    assert_eq!(found(&store, &all, Some(ids[4]), 2).await, (vec![], false));
    assert_eq!(found(&store, &all, None, 5).await, (ids.clone(), false), "a full last page has no more");
}

async fn found(
    store: &Store,
    filter: &FlowFilter,
    before_id: Option<FlowId>,
    limit_rows: u32,
) -> (Vec<FlowId>, bool) {
    let page = store.find(filter, before_id, limit_rows).await.expect("the store is up");
    (page.flows.iter().map(|flow| flow.id).collect(), page.has_more)
}
