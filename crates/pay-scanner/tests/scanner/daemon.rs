//! Rounds for ever, on paused time: when the next one comes, and that a failing store does not end them.

use std::time::Duration;

use crate::rig::{Behave, Rig, ids, settings};
use flow_testkit::jitter::FixedJitter;
use flow_testkit::mem_store::{StoreFault, StoreOp};
use pay_scanner::daemon;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn after_a_round_with_a_backlog_the_next_one_comes_at_once() {
    let rig = Rig::with_flows(20, settings(2, 5, 4));
    rig.reschedule_in(2, 60_000);
    // Due behind the cursor: the second round's.
    rig.before_page(3, |store| {
        store.write_by_hand(crate::rig::id(2), |flow| flow.next_retry_time = flow.created_at).unwrap();
    });
    let stop = CancellationToken::new();
    rig.behave(2, Behave::Stop(stop.clone()));
    // No pause could be slept through: this interval is longer than the patience.
    let run = daemon::run(&rig.sweep, &FixedJitter::NONE, 3_600_000, &stop);
    timeout(Duration::from_secs(60), run).await.expect("stopped by the row that the second round found");
    assert_eq!(rig.visited(), ids(1..=20));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_tried_again_until_it_is_back() {
    let rig = Rig::with_flows(1, settings(1, 5, 4));
    let stop = CancellationToken::new();
    rig.behave(1, Behave::Stop(stop.clone()));
    rig.store.script().push(StoreOp::Now, [Some(StoreFault::Unavailable); 5]);
    let run = daemon::run(&rig.sweep, &FixedJitter::NONE, 1_000, &stop);
    timeout(Duration::from_secs(60), run).await.expect("back after five rounds that failed");
    assert_eq!(rig.store.calls(StoreOp::Now), 6);
    assert_eq!(rig.visited(), ids([1]));
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_between_rounds_it_stops_at_once() {
    let rig = Rig::with_flows(0, settings(1, 5, 4));
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stopper.cancel();
    });
    let run = daemon::run(&rig.sweep, &FixedJitter::NONE, 3_600_000, &stop);
    timeout(Duration::from_secs(2), run).await.expect("the pause between rounds is cut short");
}
