//! Rounds over the in-memory store: who is visited, how often, and what stops whom.

use std::sync::atomic::Ordering;

use crate::rig::{Behave, Rig, ids, settings};
use flow_core::ports::{Change, FlowStore};
use flow_testkit::mem_store::{StoreFault, StoreOp};
use pay_scanner::report::{PartitionEnd, RoundReport};
use tokio_util::sync::CancellationToken;

fn assert_adds_up(report: &RoundReport) {
    let tally = report.tally;
    let became = tally.advanced
        + tally.repeated
        + tally.overtaken
        + tally.held
        + tally.failed
        + tally.left
        + tally.gate_closed;
    assert_eq!(tally.seen, became, "{report:?}");
}

#[tokio::test]
async fn a_round_visits_each_due_row_once_and_no_other() {
    let rig = Rig::with_flows(10, settings(3, 2, 4));
    rig.finish(2);
    rig.change(4, Change::Hold { reason: crate::rig::SOME_HOLD, by: crate::rig::somebody() });
    rig.reschedule_in(5, 60_000);
    let report = rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids([1, 3, 6, 7, 8, 9, 10]));
    assert_eq!((report.tally.seen, report.tally.repeated), (7, 7));
    assert_adds_up(&report);

    // Each was rescheduled: nothing is due now.
    let report = rig.round(1).await.unwrap();
    assert_eq!(report.tally.seen, 0);
    assert_eq!(report.ended(PartitionEnd::Swept), 3);
}

#[tokio::test]
async fn page_boundaries_lose_and_double_nothing() {
    for (flows, pages, full_pages) in
        [(0, 1, 0), (1, 1, 0), (4, 1, 0), (5, 2, 1), (6, 2, 1), (10, 3, 2), (11, 3, 2)]
    {
        let rig = Rig::with_flows(flows, settings(1, 5, 8));
        let report = rig.round(0).await.unwrap();
        assert_eq!(rig.visited(), ids(1..=flows), "{flows} rows");
        assert_eq!(report.partitions[0].pages, pages, "{flows} rows");
        assert_eq!(report.partitions[0].full_pages, full_pages, "{flows} rows");
        assert_eq!(report.wants_another_at_once(), full_pages > 0, "{flows} rows");
        assert_adds_up(&report);
    }
}

#[tokio::test]
async fn a_set_that_shrinks_while_it_is_worked_on_is_not_skipped_over() {
    let rig = Rig::with_flows(101, settings(2, 3, 1));
    rig.all_behave(Behave::Finish);
    let report = rig.round(1).await.unwrap();
    assert_eq!(rig.visited(), ids(1..=101));
    assert_eq!(report.tally.advanced, 101);
    assert!(rig.store.flows().iter().all(|flow| flow.state.is_terminal()));
}

#[tokio::test]
async fn a_row_that_becomes_due_behind_the_cursor_is_found_by_the_next_round() {
    let rig = Rig::with_flows(6, settings(1, 2, 2));
    rig.reschedule_in(1, 60_000);
    rig.before_page(1, |store| {
        store.write_by_hand(crate::rig::id(1), |flow| flow.next_retry_time = flow.created_at).unwrap()
    });
    rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids(2..=6));
    rig.forget_visits();
    rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids([1]));
}

#[tokio::test]
async fn a_round_has_one_now() {
    let rig = Rig::with_flows(6, settings(1, 2, 2));
    rig.reschedule_in(6, 3_000);
    rig.before_page(1, |store| store.clock().advance_ms(5_000));
    rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids(1..=5));
    rig.forget_visits();
    rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids([6]));
}

#[tokio::test]
async fn a_failing_row_and_a_panicking_one_stop_nobody() {
    let rig = Rig::with_flows(20, settings(2, 3, 4));
    rig.behave(7, Behave::Fail);
    rig.behave(8, Behave::Panic);
    let report = rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids(1..=20));
    assert_eq!((report.tally.failed, report.tally.repeated), (2, 18));
    assert_adds_up(&report);
}

#[tokio::test]
async fn when_no_row_can_be_worked_on_the_next_round_waits() {
    let rig = Rig::with_flows(20, settings(1, 5, 4));
    rig.all_behave(Behave::Fail);
    let report = rig.round(0).await.unwrap();
    assert_eq!(report.tally.failed, 20);
    assert!(!report.wants_another_at_once());
}

#[tokio::test]
async fn as_many_rows_at_once_as_allowed_and_no_more() {
    for allowed in [1, 3, 8] {
        let rig = Rig::with_flows(60, settings(4, 5, allowed));
        rig.round(0).await.unwrap();
        assert_eq!(rig.probe.peak.load(Ordering::SeqCst), allowed);
        assert_eq!(rig.visited(), ids(1..=60));
    }
}

#[tokio::test]
async fn a_slow_row_holds_up_its_own_seat_only() {
    let rig = Rig::with_flows(12, settings(2, 2, 2));
    // Row 1 is finished only after every other row was visited: with a wait at each page's or partition's end this
    // would never be over.
    rig.behave(1, Behave::WaitForVisits(12));
    let report = rig.round(1).await.unwrap();
    assert_eq!(report.tally.seen, 12);
    assert_adds_up(&report);
}

#[tokio::test]
async fn two_scanners_share_the_rows_and_none_is_visited_twice() {
    let rig = Rig::with_flows(200, settings(4, 7, 3));
    let other = rig.second_scanner();
    let (ours, theirs) = tokio::join!(rig.round(0), other.round(2));
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!(rig.visited(), ids(1..=200), "visits of both, sorted, doubles kept");
    assert!(ours.tally.seen > 0 && theirs.tally.seen > 0, "{ours:?} {theirs:?}");
}

#[tokio::test]
async fn a_partition_held_elsewhere_is_skipped_until_its_holder_is_gone() {
    let rig = Rig::with_flows(9, settings(3, 5, 4));
    let lease = rig.store.try_lease(1, 3).await.unwrap().unwrap();
    let report = rig.round(0).await.unwrap();
    assert_eq!(report.ended(PartitionEnd::HeldElsewhere), 1);
    assert_eq!(rig.visited(), ids([2, 3, 5, 6, 8, 9]));
    drop(lease);
    rig.forget_visits();
    rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids([1, 4, 7]));
}

#[tokio::test]
async fn a_round_gives_its_leases_back() {
    let rig = Rig::with_flows(9, settings(3, 5, 4));
    rig.round(0).await.unwrap();
    for partition in 0..3 {
        assert!(rig.store.try_lease(partition, 3).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_lease_lost_in_the_middle_stops_its_partition() {
    let rig = Rig::with_flows(10, settings(1, 3, 1));
    rig.behave(2, Behave::BreakLeases);
    let report = rig.round(0).await.unwrap();
    assert_eq!(report.partitions[0].end, PartitionEnd::LeaseLost);
    assert_eq!(report.partitions[0].pages, 1);
    assert_eq!(rig.visited(), ids([1, 2, 3]));
    assert_adds_up(&report);
    rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids(1..=10));
}

#[tokio::test]
async fn a_store_that_fails_ends_the_round_and_the_next_one_finds_the_rest() {
    let rig = Rig::with_flows(10, settings(1, 3, 2));
    rig.store.script().push(StoreOp::ListDue, [None, Some(StoreFault::Unavailable)]);
    let failed = rig.round(0).await.unwrap_err();
    assert!(failed.source.retryable());
    assert_eq!(failed.report.partitions[0].end, PartitionEnd::StoreFailed);
    assert_eq!(failed.report.tally.seen, 3);
    assert_adds_up(&failed.report);
    rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids(1..=10));
}

#[tokio::test]
async fn no_now_and_no_lease_end_a_round_before_it_began() {
    let rig = Rig::with_flows(10, settings(2, 3, 2));
    for op in [StoreOp::Now, StoreOp::TryLease] {
        rig.store.fail_next(op, StoreFault::Unavailable);
        assert!(rig.round(0).await.is_err(), "{op:?}");
    }
    // The other partition of the second round was swept: a failure stops new ones, not those under way.
    rig.round(0).await.unwrap();
    assert_eq!(rig.visited(), ids(1..=10));
}

#[tokio::test]
async fn told_to_stop_it_finishes_what_it_began_and_begins_nothing() {
    let rig = Rig::with_flows(30, settings(3, 5, 2));
    let stop = CancellationToken::new();
    rig.behave(4, Behave::Stop(stop.clone()));
    let report = rig.sweep.round(1, &stop).await.unwrap();
    assert_adds_up(&report);
    assert!(report.tally.left > 0, "{report:?}");
    assert_eq!(report.tally.seen - report.tally.left, report.tally.repeated);
    assert!(rig.visited().len() < 15, "{report:?}");
    for partition in 0..3 {
        assert!(rig.store.try_lease(partition, 3).await.unwrap().is_some(), "the leases are given back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_leaves_its_rows_to_the_next_round_and_no_others() {
    let rig = Rig::with_flows(40, settings(1, 7, 2));
    for number in 1..=20 {
        rig.charged(number);
        rig.behave(number, Behave::GateClosed);
    }
    let report = rig.round(0).await.unwrap();
    assert_eq!((report.tally.repeated, report.tally.gate_closed), (20, 20));
    assert!(report.wants_another_at_once());
    assert_adds_up(&report);
    let tried: Vec<_> = rig.visited().into_iter().filter(|row| row.get() <= 20).collect();
    assert!(
        tried.len() <= 3 && tried.starts_with(&ids([1])),
        "the gate was asked again and again: {tried:?}"
    );

    // The gate opens: the oldest are first.
    rig.forget_visits();
    for number in 1..=20 {
        rig.behave(number, Behave::Stay);
    }
    assert_eq!(rig.round(0).await.unwrap().tally.repeated, 20);
    assert_eq!(rig.visited(), ids(1..=20));
    // When nothing can be worked on, the next round waits.
    rig.charged(21);
    rig.reschedule_in(21, 0);
    rig.behave(21, Behave::GateClosed);
    assert!(!rig.round(0).await.unwrap().wants_another_at_once());
}

#[tokio::test(start_paused = true)]
async fn a_slow_downstream_holds_up_its_own_rows_only() {
    let rig = Rig::with_flows(40, settings(1, 7, 2));
    for number in 1..=20 {
        rig.charged(number);
        // Two seats are taken until all rows of the other lane were visited: in one line this would never be over.
        rig.behave(number, Behave::WaitForVisits(2 + 20));
    }
    let report = rig.round(0).await.unwrap();
    assert_eq!((report.tally.repeated, report.tally.gate_closed), (22, 18));
    assert_eq!(rig.visited(), ids([1, 2].into_iter().chain(21..=40)));
    assert_eq!(rig.round(0).await.unwrap().tally.repeated, 18);
}
