//! The in-process timer, on the runtime's paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "test code; the runtime's clock is paused"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use flow_adapters::{NoWake, Timer, TimerOptions, WakeHandler};
use flow_core::ids::{FlowId, Version};
use flow_core::ports::{WakeError, WakeQueue};
use flow_testkit::conformance::wake::{WakeBench, WakeFactory};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const OPTIONS: TimerOptions = TimerOptions { max_flows: 100, max_parallel_flows: 4, bound_ms: 600_000 };

fn flow(number: i64) -> FlowId {
    FlowId::new(number).unwrap()
}

/// Reports each wake-up with its time; then waits for a permit before it returns, if it is to.
struct Reporter {
    started: Instant,
    woken: mpsc::UnboundedSender<(i64, u128)>,
    gate: Option<Arc<Semaphore>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

#[async_trait]
impl WakeHandler for Reporter {
    async fn wake(&self, flow_id: FlowId) {
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        self.woken.send((flow_id.get(), self.started.elapsed().as_millis())).unwrap();
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        assert_ne!(flow_id.get(), 13, "13 panics");
    }
}

struct Bench {
    timer: Timer,
    handler: Arc<Reporter>,
    woken: mpsc::UnboundedReceiver<(i64, u128)>,
    stop: CancellationToken,
    driver: JoinHandle<()>,
}

impl Bench {
    fn start(options: TimerOptions, gate: Option<Arc<Semaphore>>) -> Bench {
        let (timer, driver) = Timer::new(options);
        let (sender, woken) = mpsc::unbounded_channel();
        let handler = Arc::new(Reporter {
            started: Instant::now(),
            woken: sender,
            gate,
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        });
        let stop = CancellationToken::new();
        let driver = tokio::spawn(driver.run(Arc::clone(&handler) as Arc<dyn WakeHandler>, stop.clone()));
        Bench { timer, handler, woken, stop, driver }
    }

    async fn ask(&self, number: i64, version: u64, delay_ms: u64) {
        self.timer.wake_after(flow(number), Version(version), delay_ms).await.unwrap();
    }

    /// Everything woken up to then.
    async fn woken_by(&mut self, ms: u64) -> Vec<(i64, u128)> {
        tokio::time::sleep_until(self.handler.started + Duration::from_millis(ms)).await;
        let mut all = Vec::new();
        while let Ok(woken) = self.woken.try_recv() {
            all.push(woken);
        }
        all
    }
}

#[tokio::test(start_paused = true)]
async fn flows_are_woken_at_their_time_in_order() {
    let mut bench = Bench::start(OPTIONS, None);
    bench.ask(1, 1, 5000).await;
    bench.ask(2, 1, 1000).await;
    bench.ask(3, 1, 0).await;
    assert_eq!(bench.timer.flows(), 3);
    let woken = bench.woken_by(10_000).await;
    let at: Vec<_> = woken.iter().map(|(number, at)| (*number, at / 10 * 10)).collect();
    assert_eq!(at, [(3, 0), (2, 1000), (1, 5000)]);
    assert_eq!(bench.timer.flows(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_wake_up_per_flow_the_newest_versions() {
    let mut bench = Bench::start(OPTIONS, None);
    // Of the same version, the earliest.
    bench.ask(1, 4, 3000).await;
    bench.ask(1, 4, 1000).await;
    bench.ask(1, 4, 5000).await;
    // A newer version's, earlier or later; an older version's is stale.
    bench.ask(2, 4, 1000).await;
    bench.ask(2, 5, 4000).await;
    bench.ask(2, 3, 500).await;
    assert_eq!(bench.timer.flows(), 2);
    let woken = bench.woken_by(60_000).await;
    let seconds: Vec<_> = woken.iter().map(|(number, at)| (*number, at / 1000)).collect();
    assert_eq!(seconds, [(1, 1), (2, 4)]);
}

#[tokio::test(start_paused = true)]
async fn a_full_timer_says_so_and_takes_a_known_flow_all_the_same() {
    let mut bench = Bench::start(TimerOptions { max_flows: 2, ..OPTIONS }, None);
    bench.ask(1, 1, 1000).await;
    bench.ask(2, 1, 1000).await;
    assert_eq!(bench.timer.wake_after(flow(3), Version(1), 1).await, Err(WakeError::Full));
    bench.ask(1, 2, 500).await;
    assert_eq!(bench.woken_by(2000).await.len(), 2);
    bench.ask(3, 1, 1).await;
    assert_eq!(bench.woken_by(3000).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_allowed_number_are_woken_at_once() {
    let gate = Arc::new(Semaphore::new(0));
    let mut bench = Bench::start(OPTIONS, Some(Arc::clone(&gate)));
    for number in 20..60 {
        bench.ask(number, 1, 0).await;
    }
    assert_eq!(bench.woken_by(1000).await.len(), 4);
    gate.add_permits(1);
    assert_eq!(bench.woken_by(2000).await.len(), 1);
    gate.add_permits(100);
    assert_eq!(bench.woken_by(3000).await.len(), 35);
    assert_eq!(bench.handler.most_at_once.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn a_flow_is_never_woken_twice_at_once_and_no_wish_is_lost() {
    let gate = Arc::new(Semaphore::new(0));
    let mut bench = Bench::start(OPTIONS, Some(Arc::clone(&gate)));
    bench.ask(1, 1, 0).await;
    assert_eq!(bench.woken_by(100).await.len(), 1);
    // Asked for again while it is being woken, as `advance` does.
    bench.ask(1, 2, 0).await;
    assert_eq!(bench.woken_by(200).await.len(), 0);
    gate.add_permits(1);
    assert_eq!(bench.woken_by(300).await.len(), 1);
    gate.add_permits(1);
    assert_eq!(bench.woken_by(400).await.len(), 0);
    assert_eq!(bench.timer.flows(), 0);
}

/// Asks to be woken again a minute later each time, as a flow does that does not move.
struct Again {
    timer: Mutex<Option<Timer>>,
    times: AtomicUsize,
}

#[async_trait]
impl WakeHandler for Again {
    async fn wake(&self, flow_id: FlowId) {
        let times = self.times.fetch_add(1, Ordering::SeqCst) as u64;
        let timer = self.timer.lock().await.clone().unwrap();
        timer.wake_after(flow_id, Version(times + 2), 60_000).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_flow_is_left_to_the_scanner_after_the_bound() {
    // A little more than ten minutes: the times add up to a few milliseconds of lateness.
    let (timer, driver) = Timer::new(TimerOptions { bound_ms: 605_000, ..OPTIONS });
    let handler = Arc::new(Again { timer: Mutex::new(Some(timer.clone())), times: AtomicUsize::new(0) });
    let stop = CancellationToken::new();
    let driver = tokio::spawn(driver.run(Arc::clone(&handler) as Arc<dyn WakeHandler>, stop.clone()));
    timer.wake_after(flow(1), Version(1), 60_000).await.unwrap();
    // Taken, but not held: it lies behind the bound already.
    timer.wake_after(flow(2), Version(1), 605_001).await.unwrap();
    assert_eq!(timer.flows(), 1);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(handler.times.load(Ordering::SeqCst), 10, "once a minute for ten minutes");
    assert_eq!(timer.flows(), 0);
    stop.cancel();
    driver.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_costs_its_own_flow_only() {
    let mut bench = Bench::start(TimerOptions { max_parallel_flows: 1, ..OPTIONS }, None);
    bench.ask(13, 1, 0).await;
    bench.ask(14, 1, 10).await;
    assert_eq!(bench.woken_by(1000).await.len(), 2);
    assert_eq!(bench.timer.flows(), 0);
    bench.ask(13, 2, 0).await;
    assert_eq!(bench.woken_by(2000).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_what_is_under_way_finish_and_takes_nothing_more() {
    let gate = Arc::new(Semaphore::new(0));
    let mut bench = Bench::start(OPTIONS, Some(Arc::clone(&gate)));
    bench.ask(1, 1, 0).await;
    bench.ask(2, 1, 5000).await;
    assert_eq!(bench.woken_by(100).await.len(), 1);
    bench.stop.cancel();
    let late = bench.woken_by(10_000).await;
    assert!(late.is_empty() && !bench.driver.is_finished());
    assert_eq!(bench.timer.wake_after(flow(3), Version(1), 0).await, Err(WakeError::Unavailable));
    assert_eq!(bench.timer.flows(), 1);
    gate.add_permits(1);
    bench.driver.await.unwrap();
    assert_eq!(bench.timer.flows(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_longest_delay_there_is_is_taken() {
    let bench = Bench::start(TimerOptions { bound_ms: u64::MAX / 4, ..OPTIONS }, None);
    bench.ask(1, 1, u64::MAX).await;
    assert_eq!(bench.timer.flows(), 1);
}

#[tokio::test]
async fn no_wake_takes_everything() {
    assert_eq!(NoWake.wake_after(flow(1), Version(1), 0).await, Ok(()));
}

struct TimerFactory;

/// On the real clock, as the suite's runtime is not paused.
struct RealBench {
    timer: Timer,
    bench: Mutex<Bench>,
}

#[async_trait]
impl WakeFactory for TimerFactory {
    async fn fresh(&self, capacity: usize) -> Box<dyn WakeBench> {
        let bench = Bench::start(TimerOptions { max_flows: capacity, ..OPTIONS }, None);
        Box::new(RealBench { timer: bench.timer.clone(), bench: Mutex::new(bench) })
    }
}

#[async_trait]
impl WakeBench for RealBench {
    fn queue(&self) -> &dyn WakeQueue {
        &self.timer
    }

    async fn woken_within(&self, ms: u64) -> Vec<FlowId> {
        let mut bench = self.bench.lock().await;
        tokio::time::sleep(Duration::from_millis(ms)).await;
        bench.woken_by(0).await.into_iter().map(|(number, _)| flow(number)).collect()
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

mod suite {
    flow_testkit::wake_conformance!(super::TimerFactory);
}
