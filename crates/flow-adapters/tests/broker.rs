//! Wake-ups through a real broker: the suite that every queue passes, and what only a broker can get wrong.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use flow_adapters::broker::{Broker, BrokerQueue};
use flow_adapters::webhook::{WallTime, system_wall_time};
use flow_config::BrokerConfig;
use flow_core::ids::{FlowId, Version};
use flow_core::ports::{Awaken, Awoken, WakeError, WakeQueue, WakeUp};
use flow_core::retry::Schedule;
use flow_testkit::conformance::wake::{WakeBench, WakeFactory};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

/// The broker's URL; `None` only where the test runner says that it can't be had here.
fn url() -> Option<String> {
    if let Ok(url) = std::env::var("PAY_TEST_NATS_URL") {
        return Some(url);
    }
    let missing = std::env::var("PAY_TEST_MISSING").unwrap_or_default();
    assert!(
        missing.split(',').any(|slug| slug == "nats"),
        "PAY_TEST_NATS_URL is not set: run `cargo xtask test`, which provides a broker and sets it"
    );
    eprintln!("NOT TESTED WITH a broker: it can't be had on this machine");
    None
}

/// A stream of the test's own.
fn config(url: &str) -> BrokerConfig {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    BrokerConfig {
        url: Some(flow_config::Secret::new(url.to_owned())),
        credentials_file: None,
        ca_file: None,
        stream: format!("test-{}-{number}", std::process::id()).parse().unwrap(),
        replicas: 1,
        max_messages: 10_000,
        longest_delay_ms: 3_600_000,
        queue_flows: 100,
        max_parallel_publishes: 8,
        publish_timeout_ms: 5_000,
        max_parallel_flows: 8,
        ack_wait_ms: 2_000,
        max_deliveries: 3,
        redelivery: Schedule::new(vec![100]).unwrap(),
    }
}

/// Reports each wake-up, and says of it what it is told to.
struct Reporter {
    woken: mpsc::UnboundedSender<WakeUp>,
    says: Box<dyn Fn(usize) -> Awoken + Send + Sync>,
    calls: AtomicUsize,
}

#[async_trait]
impl Awaken for Reporter {
    async fn awaken(&self, wake_up: WakeUp) -> Awoken {
        self.woken.send(wake_up).unwrap();
        (self.says)(self.calls.fetch_add(1, Ordering::SeqCst))
    }
}

/// One process, publisher and consumer, over a stream of its own; the stream is removed with it.
struct Process {
    queue: BrokerQueue,
    woken: mpsc::UnboundedReceiver<WakeUp>,
    stop: CancellationToken,
    jetstream: async_nats::jetstream::Context,
    stream: String,
}

impl Process {
    async fn start(
        config: &BrokerConfig,
        wall_time: WallTime,
        says: impl Fn(usize) -> Awoken + Send + Sync + 'static,
    ) -> Process {
        let Broker { queue, publisher, consumer } = Broker::open(config, wall_time).await.unwrap();
        let (sender, woken) = mpsc::unbounded_channel();
        let reporter = Reporter { woken: sender, says: Box::new(says), calls: AtomicUsize::new(0) };
        let stop = CancellationToken::new();
        tokio::spawn(publisher.run(stop.clone()));
        tokio::spawn(consumer.run(Arc::new(reporter), stop.clone()));
        let client = async_nats::connect(config.url.as_ref().unwrap().expose()).await.unwrap();
        let process = Process {
            queue,
            woken,
            stop,
            jetstream: async_nats::jetstream::new(client),
            stream: config.stream.as_str().to_owned(),
        };
        process.until_usable().await;
        process
    }

    /// The first wake-up is refused for as long as the streams are not there.
    async fn until_usable(&self) {
        let consumer_is_there = async {
            loop {
                if let Ok(stream) = self.jetstream.get_stream(&self.stream).await
                    && stream.consumer_info("scanners").await.is_ok()
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, consumer_is_there).await.expect("the streams are made");
        let never = Version(u64::MAX);
        let flow = FlowId::new(i64::MAX).unwrap();
        let taken = async {
            while self.queue.wake_after(flow, never, 3_000_000).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, taken).await.expect("it is connected");
    }

    async fn ask(&self, number: i64, version: u64, delay_ms: u64) {
        let asked = self.queue.wake_after(FlowId::new(number).unwrap(), Version(version), delay_ms).await;
        asked.unwrap();
    }

    async fn next(&mut self) -> WakeUp {
        tokio::time::timeout(PATIENCE, self.woken.recv()).await.expect("somebody is woken").unwrap()
    }

    /// Puts anything where due wake-ups lie.
    async fn put(&self, place: &str, body: &'static [u8]) {
        let subject = format!("{}.due.{place}", self.stream);
        self.jetstream.publish(subject, body.into()).await.unwrap().await.unwrap();
    }

    async fn kept(&self, stream: &str) -> u64 {
        self.jetstream.get_stream(stream).await.unwrap().cached_info().state.messages
    }

    /// Waits until so many dead letters are kept.
    async fn until_dead(&self, letters: u64) {
        let stream = format!("{}_DEAD", self.stream);
        let there = async {
            while self.kept(&stream).await != letters {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, there).await.expect("a dead letter is written");
    }

    /// Waits until so much is left where the living are: the broker is told of the last one a little later.
    async fn until_kept(&self, messages: u64) {
        let there = async {
            while self.kept(&self.stream).await != messages {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, there).await.expect("no more and no less is left");
    }

    /// Stops and removes the streams.
    async fn end(self) {
        self.stop.cancel();
        for stream in [self.stream.clone(), format!("{}_DEAD", self.stream)] {
            self.jetstream.delete_stream(stream).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_carries_flow_version_and_whether_it_was_asked_for_at_once() {
    let Some(url) = url() else { return };
    let mut process = Process::start(&config(&url), system_wall_time(), |_| Awoken::Done).await;
    process.ask(1, 7, 0).await;
    let expected = WakeUp { flow_id: FlowId::new(1).unwrap(), version: Version(7), at_once: true };
    assert_eq!(process.next().await, expected);
    process.ask(2, 8, 20).await;
    assert_eq!(
        process.next().await,
        WakeUp { flow_id: FlowId::new(2).unwrap(), version: Version(8), at_once: false }
    );
    process.end().await;
}

/// A broker that is two hours ahead of us delivers at once: what was put off comes again after the time that was asked
/// for, by the broker's stopwatch and not by its calendar.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_broker_that_is_ahead_what_is_not_yet_due_comes_again() {
    let Some(url) = url() else { return };
    let behind: WallTime = {
        let now = system_wall_time();
        Arc::new(move || now() - TimeDelta::hours(2))
    };
    let says = |call| if call == 0 { Awoken::NotYet { in_ms: 700 } } else { Awoken::Done };
    let mut process = Process::start(&config(&url), behind, says).await;
    // The wake-up by which the test saw that it is usable fires early, too.
    assert_eq!(process.next().await.flow_id.get(), i64::MAX);
    process.ask(1, 1, 60_000).await;
    assert_eq!(process.next().await.flow_id.get(), 1, "at once, though asked for in a minute");
    assert_eq!(process.next().await.flow_id.get(), i64::MAX, "and what was put off, once more");
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_fails_comes_again_a_bounded_number_of_times_and_is_then_a_dead_letter() {
    let Some(url) = url() else { return };
    let mut process = Process::start(&config(&url), system_wall_time(), |_| Awoken::Failed).await;
    process.ask(1, 1, 10).await;
    for delivery in 1..=3 {
        assert_eq!(process.next().await.flow_id.get(), 1, "delivery {delivery}");
    }
    process.until_dead(1).await;
    // Nothing is left of it where the living are: only what the test's own question has put there.
    process.until_kept(1).await;
    assert!(process.woken.try_recv().is_err(), "it came a fourth time");
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_fails_once_is_done_with_the_second_time() {
    let Some(url) = url() else { return };
    let says = |call| if call == 0 { Awoken::Failed } else { Awoken::Done };
    let mut process = Process::start(&config(&url), system_wall_time(), says).await;
    process.ask(1, 1, 10).await;
    process.next().await;
    process.next().await;
    process.ask(2, 1, 10).await;
    assert_eq!(process.next().await.flow_id.get(), 2);
    process.until_dead(0).await;
    process.end().await;
}

/// Whoever dies of a wake-up each time says nothing of it; it does not come for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_kills_whoever_receives_it_is_a_dead_letter_in_the_end() {
    let Some(url) = url() else { return };
    let config = BrokerConfig { ack_wait_ms: 300, max_deliveries: 2, ..config(&url) };
    let mut process = Process::start(&config, system_wall_time(), |_| panic!("as it is wished")).await;
    process.ask(1, 1, 10).await;
    process.next().await;
    process.next().await;
    process.until_dead(1).await;
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_a_dead_letter_and_holds_up_nobody() {
    let Some(url) = url() else { return };
    let mut process = Process::start(&config(&url), system_wall_time(), |_| Awoken::Done).await;
    process.put("1", b"garbage").await;
    process.put("2", b"").await;
    process.put("3", br#"{"flow_id":"3","version":1,"at_once":false,"state":"PAYED"}"#).await;
    process.until_dead(3).await;
    process.ask(4, 1, 10).await;
    assert_eq!(process.next().await.flow_id.get(), 4);
    process.end().await;
}

/// A newer version's wake-up takes the place of the one that waits: the older would find nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_flow_the_wake_up_asked_for_last_is_kept() {
    let Some(url) = url() else { return };
    let mut process = Process::start(&config(&url), system_wall_time(), |_| Awoken::Done).await;
    process.ask(1, 4, 600_000).await;
    process.ask(1, 5, 300).await;
    assert_eq!(process.next().await.version, Version(5));
    // But for the test's own, nothing waits.
    process.until_kept(1).await;
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_after_too_long_is_not_asked_of_the_broker() {
    let Some(url) = url() else { return };
    let process = Process::start(&config(&url), system_wall_time(), |_| Awoken::Done).await;
    process.ask(1, 1, 3_600_001).await;
    process.ask(2, 1, 3_600_000).await;
    // The test's own and the second.
    process.until_kept(2).await;
    process.end().await;
}

/// Wake-ups that wait when a process stops are published, and wake in another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stops_publishes_what_waits_and_another_one_receives_it() {
    let Some(url) = url() else { return };
    let config = config(&url);
    let first = Process::start(&config, system_wall_time(), |_| Awoken::Done).await;
    for number in 1..=20 {
        first.ask(number, 1, 1_500).await;
    }
    first.stop.cancel();
    let refused = first.queue.wake_after(FlowId::new(21).unwrap(), Version(1), 10);
    let stopped = async {
        while first.queue.wake_after(FlowId::new(21).unwrap(), Version(1), 2_000_000).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, stopped).await.expect("it takes nothing more");
    assert_eq!(refused.await, Err(WakeError::Unavailable));
    let mut second = Process::start(&config, system_wall_time(), |_| Awoken::Done).await;
    let mut woken: Vec<i64> = Vec::new();
    while woken.len() < 20 {
        woken.push(second.next().await.flow_id.get());
    }
    woken.sort_unstable();
    assert_eq!(woken, (1..=20).collect::<Vec<_>>());
    second.end().await;
}

/// Nobody listens there: everything is refused at once, and nothing waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_broker_every_wake_up_is_refused_at_once() {
    let config =
        BrokerConfig { url: Some(flow_config::Secret::new("nats://127.0.0.1:1".to_owned())), ..config("") };
    let Broker { queue, publisher, consumer } =
        tokio::time::timeout(Duration::from_secs(5), Broker::open(&config, system_wall_time()))
            .await
            .expect("opening waits for nobody")
            .unwrap();
    let stop = CancellationToken::new();
    let (sender, _woken) = mpsc::unbounded_channel();
    let reporter = Reporter { woken: sender, says: Box::new(|_| Awoken::Done), calls: AtomicUsize::new(0) };
    let publishing = tokio::spawn(publisher.run(stop.clone()));
    let receiving = tokio::spawn(consumer.run(Arc::new(reporter), stop.clone()));
    let asking = async {
        for number in 1..=1_000 {
            let asked = queue.wake_after(FlowId::new(number).unwrap(), Version(1), 10).await;
            assert_eq!(asked, Err(WakeError::Unavailable));
        }
    };
    tokio::time::timeout(Duration::from_secs(1), asking).await.expect("no wake-up is waited for");
    stop.cancel();
    for task in [publishing, receiving] {
        tokio::time::timeout(Duration::from_secs(5), task).await.expect("it stops without a broker").unwrap();
    }
}

/// The suite that every wake-up queue passes. The broker wakes a quarter of a second after it was asked at the soonest.
struct BrokerFactory;

struct SuiteBench {
    queue: BrokerQueue,
    process: Mutex<Process>,
}

#[async_trait]
impl WakeFactory for BrokerFactory {
    async fn fresh(&self, capacity: usize) -> Box<dyn WakeBench> {
        // The bound is the process's own, and felt only while the broker is slow. One at a time: what is received
        // together is begun in any order.
        let config = BrokerConfig {
            queue_flows: capacity.max(10),
            max_parallel_flows: 1,
            ..config(&url().unwrap_or_default())
        };
        let process = Process::start(&config, system_wall_time(), |_| Awoken::Done).await;
        Box::new(SuiteBench { queue: process.queue.clone(), process: Mutex::new(process) })
    }
}

#[async_trait]
impl WakeBench for SuiteBench {
    fn queue(&self) -> &dyn WakeQueue {
        &self.queue
    }

    async fn woken_within(&self, ms: u64) -> Vec<FlowId> {
        let mut process = self.process.lock().await;
        let mut woken = Vec::new();
        let receiving = async {
            while let Some(wake_up) = process.woken.recv().await {
                woken.push(wake_up.flow_id);
            }
        };
        let _over = tokio::time::timeout(Duration::from_millis(ms), receiving).await;
        woken
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

mod suite {
    flow_testkit::wake_conformance!(super::BrokerFactory, if super::url().is_some());
}
