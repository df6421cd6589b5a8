//! Cases: the scanner's pages, leases, summaries, the clock.

use std::time::Duration;

use flow_core::cas::Change;
use flow_core::flow::{HoldReason, Side};
use flow_core::ids::FlowId;
use flow_core::ports::{PartitionLease, ScanPage, StateSummary};
use flow_core::state::State;

use super::StoreFactory;
use super::steps::{
    Store, apply, create, created, created_in, due, fresh, new_flow, now, page, rescheduled, write,
};
use crate::samples;

const TWO_HOURS_MS: i64 = 7_200_000;

/// Ids ascend, a cursor goes on where the page ended, and no row comes twice.
pub async fn due_rows_come_in_pages_by_id(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut ids = Vec::new();
    for number in 1..=7 {
        ids.push(created(&store, number).await.id);
    }
    let first = ScanPage { limit_rows: 3, ..page(&store, 0).await };
    let mut seen = Vec::new();
    let mut after_id = 0;
    loop {
        let rows = due(&store, ScanPage { after_id, ..first }).await;
        assert!(rows.len() <= 3);
        let Some(last) = rows.last() else { break };
        after_id = last.get();
        seen.extend(rows);
    }
    assert_eq!(seen, ids);
}

/// Every row is in exactly one partition: the one of its id's remainder.
pub async fn partitions_share_the_rows_without_overlap(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut ids = Vec::new();
    for number in 1..=10 {
        ids.push(created(&store, number).await.id);
    }
    let whole = page(&store, 0).await;
    let mut seen = Vec::new();
    for partition in 0..3 {
        let rows = due(&store, ScanPage { partition, partitions: 3, ..whole }).await;
        assert!(
            rows.iter().all(|id| id.get() % 3 == i64::from(partition)),
            "partition {partition}: {rows:?}"
        );
        seen.extend(rows);
    }
    seen.sort_unstable();
    assert_eq!(seen, ids);
}

/// A row is listed from its due time on, by the round's one "now".
pub async fn only_due_rows_are_listed(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let at_once = created(&store, 1).await;
    let mut later = new_flow(&store, 2).await;
    later.first_due_in_ms = 3_600_000;
    let later = create(&store, later).await;
    assert_eq!(due(&store, page(&store, 0).await).await, [at_once.id]);
    assert_eq!(due(&store, page(&store, TWO_HOURS_MS).await).await, [at_once.id, later.id]);
    let exactly = ScanPage { due_by: later.next_retry_time, ..page(&store, 0).await };
    assert_eq!(due(&store, exactly).await, [at_once.id, later.id], "due at its very due time");
    let Some(just_before) = later.next_retry_time.checked_sub_signed(chrono::TimeDelta::milliseconds(1))
    else {
        panic!("the calendar has a millisecond before it");
    };
    assert_eq!(due(&store, ScanPage { due_by: just_before, ..exactly }).await, [at_once.id]);
}

/// Terminal rows rest; held rows rest until they are released.
pub async fn terminal_and_held_rows_are_not_listed(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut open = Vec::new();
    for (number, state) in (1..).zip(State::ALL) {
        let flow = created_in(&store, number, state).await;
        if !state.is_terminal() {
            open.push(flow);
        }
    }
    let ids = |flows: &[flow_core::flow::Flow]| flows.iter().map(|flow| flow.id).collect::<Vec<FlowId>>();
    assert_eq!(due(&store, page(&store, TWO_HOURS_MS).await).await, ids(&open));
    let hold = Change::Hold { reason: HoldReason::Operator, by: samples::actor("alice") };
    let held = apply(&store, write(&open[1], hold)).await;
    let listed = due(&store, page(&store, TWO_HOURS_MS).await).await;
    assert_eq!(listed, [open[0].id, open[2].id, open[3].id]);
    apply(&store, write(&held, Change::Release)).await;
    let listed = due(&store, page(&store, 0).await).await;
    assert!(listed.contains(&held.id), "a released row is due at once: {listed:?}");
}

/// Whom a row waits for follows from its state and its frozen names.
pub async fn due_rows_say_whom_their_next_call_is_for(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    for (number, state) in (1..).zip(State::ALL) {
        created_in(&store, number, state).await;
    }
    let listed = store.list_due_after(page(&store, TWO_HOURS_MS).await).await.expect("the store is up");
    let lanes: Vec<_> = listed.into_iter().map(|due| (due.lane.side, due.lane.name)).collect();
    let (wallet, business) =
        ((Side::Wallet, samples::wallet_name()), (Side::Business, samples::business_name()));
    assert_eq!(lanes, [wallet.clone(), wallet.clone(), business, wallet], "in the order of the open states");
}

/// While one process sweeps a partition, nobody else does, not even the same process again.
pub async fn a_lease_excludes_everybody_else(factory: &dyn StoreFactory) {
    let (store, bench) = fresh(factory).await;
    let mut lease = store.try_lease(0, 4).await.unwrap().expect("nobody holds it");
    assert!(lease.still_held().await);
    assert!(bench.second.try_lease(0, 4).await.unwrap().is_none());
    assert!(store.try_lease(0, 4).await.unwrap().is_none());
    assert!(lease.still_held().await);
    lease.release().await;
}

/// A lease that was given back is free.
pub async fn a_released_lease_can_be_taken(factory: &dyn StoreFactory) {
    let (store, bench) = fresh(factory).await;
    store.try_lease(1, 4).await.unwrap().expect("nobody holds it").release().await;
    let mut second = taken_over(&bench.second, 1, 4).await;
    assert!(second.still_held().await);
    assert!(store.try_lease(1, 4).await.unwrap().is_none());
}

/// A lease whose holder vanished is free, without anybody giving it back.
pub async fn a_dropped_lease_can_be_taken(factory: &dyn StoreFactory) {
    let (store, bench) = fresh(factory).await;
    drop(store.try_lease(2, 4).await.unwrap().expect("nobody holds it"));
    let mut second = taken_over(&bench.second, 2, 4).await;
    assert!(second.still_held().await);
}

/// Other partitions, and other divisions of the id space, are not affected.
pub async fn leases_on_other_partitions_are_free(factory: &dyn StoreFactory) {
    let (store, bench) = fresh(factory).await;
    let mut first = store.try_lease(0, 2).await.unwrap().expect("nobody holds it");
    let mut second = bench.second.try_lease(1, 2).await.unwrap().expect("nobody holds it");
    assert!(first.still_held().await && second.still_held().await);
    first.release().await;
    assert!(second.still_held().await);
    second.release().await;
}

/// Open rows are counted by state, with what people want to know of them.
pub async fn open_rows_are_summarised_by_state(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    for (number, state) in (1..).zip(State::ALL) {
        created_in(&store, number, state).await;
    }
    let tried = created_in(&store, 20, State::Paying).await;
    let tried = apply(&store, write(&tried, rescheduled(5))).await;
    let hold = Change::Hold { reason: HoldReason::Operator, by: samples::actor("alice") };
    apply(&store, write(&tried, hold)).await;
    let oldest_entered = tried.created_at;
    let summaries = store.summarise_open(5).await.unwrap();
    let age_bound_ms = (now(&store).await - oldest_entered).num_milliseconds() + TWO_HOURS_MS;
    for state in State::ALL {
        let found: Vec<&StateSummary> = summaries.iter().filter(|summary| summary.state == state).collect();
        let expected = match state {
            State::Paying => (2, 1, 1),
            State::WaitPay | State::Payed | State::Refunding => (1, 0, 0),
            State::PayFail | State::BizSuccess | State::Refunded => {
                assert!(found.is_empty(), "terminal rows are not open: {found:?}");
                continue;
            }
        };
        let [summary] = found.as_slice() else { panic!("one summary per open state: {summaries:?}") };
        assert_eq!((summary.rows, summary.held_rows, summary.attention_rows), expected, "{state}");
        assert!(
            i64::try_from(summary.oldest_age_ms).is_ok_and(|age_ms| age_ms < age_bound_ms),
            "{summary:?}"
        );
    }
}

/// The database's clock: whole milliseconds, never back, the same for every reader.
pub async fn the_clock_never_goes_back(factory: &dyn StoreFactory) {
    let (store, bench) = fresh(factory).await;
    let mut last = now(&store).await;
    for reader in [&store, &bench.second].into_iter().cycle().take(20) {
        let next = now(reader).await;
        assert!(next >= last, "{next} after {last}");
        assert_eq!(next.timestamp_subsec_nanos() % 1_000_000, 0, "{next} is finer than a millisecond");
        last = next;
    }
    let flow = created(&store, 1).await;
    let seen = store.load(flow.id).await.unwrap();
    assert!(seen.now >= last && seen.now <= now(&store).await, "a read carries the database's time");
    assert!(flow.created_at >= last && flow.created_at <= seen.now);
}

/// Takes a lease that becomes free as soon as the database notices: bounded by ten seconds.
async fn taken_over(store: &Store, partition: u32, partitions: u32) -> Box<dyn PartitionLease> {
    for _ in 0..1_000 {
        if let Some(lease) = store.try_lease(partition, partitions).await.expect("the store is up") {
            return lease;
        }
        // No signal says that the server has noticed a closed connection.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the lease of a holder that is gone was not free within ten seconds");
}
