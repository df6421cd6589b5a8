//! Deliveries over the in-memory outbox, to receivers that do what the test says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use flow_core::answer::Answered;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::downstream::{BreakerLimits, BudgetLimits, Limits, Receivers};
use flow_core::flow::{HoldReason, Trigger};
use flow_core::notify::{Delivery, DeliveryAnswer, EventId, Notification, RetryPlan};
use flow_core::ports::{Clock, Created, NotifiedCaller, Outbox as _, OutboxRow, Receiver};
use flow_testkit::clock::ManualClock;
use flow_testkit::jitter::FixedJitter;
use flow_testkit::mem_store::{MemStore, StoreFault, StoreOp};
use flow_testkit::samples;
use pay_scanner::notify::{Notifier, NotifySettings, summary};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

const OK: DeliveryAnswer = DeliveryAnswer::Status { code: 204, retry_after_ms: None };

/// Answers in turn, the last one for ever; an answer waits for a place at the gate.
struct Probe {
    answers: Mutex<Vec<DeliveryAnswer>>,
    gate: Semaphore,
    seen: watch::Sender<Vec<EventId>>,
    in_hand: Mutex<BTreeMap<EventId, u32>>,
    doubled: Mutex<BTreeSet<EventId>>,
    peak: Mutex<usize>,
}

impl Probe {
    fn new(answers: &[DeliveryAnswer], places: usize) -> Arc<Probe> {
        Arc::new(Probe {
            answers: Mutex::new(answers.iter().rev().copied().collect()),
            gate: Semaphore::new(places),
            seen: watch::Sender::new(Vec::new()),
            in_hand: Mutex::default(),
            doubled: Mutex::default(),
            peak: Mutex::default(),
        })
    }

    async fn wait_for(&self, calls: usize) {
        self.seen.subscribe().wait_for(|seen| seen.len() >= calls).await.expect("the probe is there");
    }

    fn calls(&self) -> usize {
        self.seen.borrow().len()
    }
}

#[async_trait]
impl Receiver for Probe {
    async fn notify(&self, notification: &Notification) -> Answered<DeliveryAnswer> {
        {
            let mut in_hand = self.in_hand.lock().unwrap();
            let count = in_hand.entry(notification.id).or_default();
            *count += 1;
            if *count > 1 {
                self.doubled.lock().unwrap().insert(notification.id);
            }
            let now = in_hand.values().sum::<u32>() as usize;
            let mut peak = self.peak.lock().unwrap();
            *peak = (*peak).max(now);
        }
        self.seen.send_modify(|seen| seen.push(notification.id));
        let place = self.gate.acquire().await.expect("the gate is never closed");
        drop(place);
        *self.in_hand.lock().unwrap().get_mut(&notification.id).unwrap() -= 1;
        let mut answers = self.answers.lock().unwrap();
        Answered::bare(if answers.len() > 1 { answers.pop().unwrap() } else { answers[0] })
    }
}

struct Bench {
    store: MemStore,
    clock: ManualClock,
}

impl Bench {
    /// So many notifications for each of the applications.
    async fn with(rows: i64, callers: &[&str]) -> Bench {
        let clock = ManualClock::new();
        let store = MemStore::new(clock.clone());
        let mut number = 0;
        for name in callers {
            let caller = samples::caller_named(name);
            store.set_callers(&[NotifiedCaller { caller: caller.clone(), is_enabled: true }]).await.unwrap();
            for _ in 0..rows {
                number += 1;
                let mut new = samples::new_flow(number, clock.now() + chrono::TimeDelta::minutes(10));
                new.caller = caller.clone();
                let Created::Inserted(seen) = store.create_now(new) else { panic!("not created") };
                let hold = CasWrite {
                    flow_id: seen.value.id,
                    from: seen.value.state,
                    version: seen.value.version,
                    change: Change::Hold { reason: HoldReason::Operator, by: samples::actor("alice") },
                    evidence: WriteEvidence::of(Trigger::Operator),
                };
                store.cas_now(&hold).unwrap();
            }
        }
        Bench { store, clock }
    }

    /// One scanner's deliveries.
    fn notifier(&self, probes: &[(&str, &Arc<Probe>)], places: u32) -> Arc<Notifier> {
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let limits = Limits {
            max_concurrent_calls: places,
            queue_wait_ms: 1_000,
            budget: BudgetLimits { calls_per_s: 1_000_000, burst_calls: 1_000_000 },
            breaker: BreakerLimits { failures_to_open: 3, open_ms: 60_000, max_open_ms: 60_000, probes: 1 },
        };
        let mut receivers = Receivers::new(Arc::clone(&clock));
        for (name, probe) in probes {
            receivers = receivers.with(samples::caller_named(name), Arc::clone(probe) as Arc<_>, limits);
        }
        let settings = NotifySettings {
            claim_ms: 10_000,
            poll_interval_ms: 10,
            retry: RetryPlan::new(vec![1_000, 2_000], 60_000).unwrap(),
        };
        let outbox = Arc::new(self.store.clone());
        Arc::new(Notifier::new(outbox, receivers, clock, Arc::new(FixedJitter::NONE), settings))
    }

    fn rows(&self) -> Vec<OutboxRow> {
        self.store.outbox_rows()
    }

    fn count(&self, delivery: Delivery) -> usize {
        self.rows().iter().filter(|row| row.delivery == delivery).count()
    }

    /// Lets tasks run until so many rows have come so far.
    async fn until(&self, rows: usize, delivery: Delivery) {
        let reached = async {
            while self.count(delivery) < rows {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reached).await.expect("the rows come so far");
    }
}

/// Runs a scanner's deliveries until the token fires.
fn run(notifier: &Arc<Notifier>, stop: &CancellationToken) -> tokio::task::JoinHandle<()> {
    let (notifier, stop) = (Arc::clone(notifier), stop.clone());
    tokio::spawn(async move { notifier.run(&stop).await })
}

#[tokio::test(start_paused = true)]
async fn two_scanners_share_the_work_and_send_nothing_twice() {
    let bench = Bench::with(50, &["shop"]).await;
    let probe = Probe::new(&[OK], 3);
    let stop = CancellationToken::new();
    let running = [(); 2].map(|()| run(&bench.notifier(&[("shop", &probe)], 4), &stop));
    bench.until(50, Delivery::Delivered).await;
    stop.cancel();
    for running in running {
        running.await.unwrap();
    }
    assert_eq!(probe.calls(), 50);
    assert!(probe.doubled.lock().unwrap().is_empty());
    assert!(*probe.peak.lock().unwrap() <= 8, "two scanners with four places each");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_hangs_delays_no_other() {
    let bench = Bench::with(20, &["shop", "kiosk"]).await;
    let (shop, kiosk) = (Probe::new(&[OK], 0), Probe::new(&[OK], 8));
    let stop = CancellationToken::new();
    let running = run(&bench.notifier(&[("shop", &shop), ("kiosk", &kiosk)], 2), &stop);
    bench.until(20, Delivery::Delivered).await;
    assert_eq!((kiosk.calls(), shop.calls()), (20, 2), "as many as it has places, and no more");
    // Told to stop, it claims nothing more, and settles what is under way.
    stop.cancel();
    shop.gate.add_permits(2);
    running.await.unwrap();
    assert_eq!((shop.calls(), bench.count(Delivery::Delivered)), (2, 22));
}

#[tokio::test(start_paused = true)]
async fn a_failed_one_is_tried_by_the_schedule_and_then_given_up() {
    let bench = Bench::with(1, &["shop"]).await;
    let failed = DeliveryAnswer::Status { code: 302, retry_after_ms: None };
    let probe = Probe::new(&[failed], 8);
    let stop = CancellationToken::new();
    let running = run(&bench.notifier(&[("shop", &probe)], 2), &stop);
    for (tries, wait_ms) in [(1, 1_000), (2, 2_000)] {
        probe.wait_for(tries).await;
        bench.clock.advance_ms(wait_ms - 1);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(probe.calls(), tries, "not before its time");
        bench.clock.advance_ms(1);
    }
    bench.until(1, Delivery::Dead).await;
    assert_eq!(probe.calls(), 3);
    bench.clock.advance_ms(86_400_000);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(probe.calls(), 3, "people must ask for it now");
    stop.cancel();
    running.await.unwrap();
    let row = bench.rows().remove(0);
    assert_eq!((row.attempts, row.last_answer.as_deref()), (3, Some("REDIRECTED")));
}

#[tokio::test(start_paused = true)]
async fn a_dead_receiver_costs_few_calls_and_no_rows_tries() {
    let bench = Bench::with(30, &["shop"]).await;
    let probe = Probe::new(&[DeliveryAnswer::NotConnected], 8);
    let stop = CancellationToken::new();
    let running = run(&bench.notifier(&[("shop", &probe)], 1), &stop);
    probe.wait_for(3).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(probe.calls(), 3, "the breaker is open");
    assert_eq!(bench.rows().iter().filter(|row| row.attempts > 0).count(), 3);
    // Back again: one probe, then everything.
    *probe.answers.lock().unwrap() = vec![OK];
    bench.clock.advance_ms(60_001);
    bench.until(30, Delivery::Delivered).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_settled_is_sent_again_when_the_claim_ends() {
    let bench = Bench::with(1, &["shop"]).await;
    let probe = Probe::new(&[OK], 8);
    let unknown = StoreFault::OutcomeUnknown { happened: false };
    // The claim succeeds, every try at settling fails.
    bench.store.script().push(StoreOp::Outbox, [None, Some(unknown), Some(unknown), Some(unknown)]);
    let stop = CancellationToken::new();
    let running = run(&bench.notifier(&[("shop", &probe)], 1), &stop);
    probe.wait_for(1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((probe.calls(), bench.count(Delivery::Pending)), (1, 1));
    bench.clock.advance_ms(10_001);
    bench.until(1, Delivery::Delivered).await;
    stop.cancel();
    running.await.unwrap();
    assert_eq!(probe.calls(), 2, "twice in fact, once by its id");
}

#[tokio::test(start_paused = true)]
async fn a_settlement_whose_answer_was_lost_is_not_made_twice() {
    let bench = Bench::with(1, &["shop"]).await;
    let probe = Probe::new(&[OK], 8);
    bench.store.script().push(StoreOp::Outbox, [None, Some(StoreFault::OutcomeUnknown { happened: true })]);
    let stop = CancellationToken::new();
    let running = run(&bench.notifier(&[("shop", &probe)], 1), &stop);
    bench.until(1, Delivery::Delivered).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.cancel();
    running.await.unwrap();
    assert_eq!((probe.calls(), bench.rows().remove(0).attempts), (1, 1));
}

#[tokio::test]
async fn what_is_owed_is_exported_and_who_cannot_be_told_is_named() {
    let bench = Bench::with(2, &["shop", "stray"]).await;
    let receivers = BTreeSet::from([samples::caller_named("shop")]);
    let mut known = receivers.clone();
    let stranded = summary::export(&bench.store, &mut known, &receivers).await.unwrap();
    assert_eq!(stranded, [samples::caller_named("stray")]);
    assert_eq!(known.len(), 2);
}
