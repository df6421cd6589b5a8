//! The wake-up queue's suite. A queue may lose wake-ups and may double them: the suite asks for what makes it useful.

use async_trait::async_trait;
use flow_core::ids::{FlowId, Version};
use flow_core::ports::WakeQueue;

use crate::samples;

/// Makes wake-up queues to test.
#[async_trait]
pub trait WakeFactory: Send + Sync {
    /// An empty queue that takes at least `capacity` wake-ups, and refuses more than `capacity` if it is bounded.
    async fn fresh(&self, capacity: usize) -> Box<dyn WakeBench>;
}

/// A wake-up queue under test.
#[async_trait]
pub trait WakeBench: Send + Sync {
    /// The queue.
    fn queue(&self) -> &dyn WakeQueue;
    /// Lets `ms` milliseconds pass, by whatever clock the queue runs on, and returns what it woke meanwhile, in order.
    async fn woken_within(&self, ms: u64) -> Vec<FlowId>;
    /// Whether the queue has a bound of its own.
    fn is_bounded(&self) -> bool;
}

/// The wake-up queue's suite, one test per case.
#[macro_export]
macro_rules! wake_conformance {
    ($factory:expr) => {
        $crate::wake_conformance! { $factory, if true }
    };
    ($factory:expr, if $can_be_had:expr) => {
        $crate::conformance_cases! { wake; $factory, if $can_be_had;
            a_flow_is_woken_after_its_delay_and_not_before,
            flows_are_woken_in_the_order_of_their_times,
            doubled_wake_ups_of_one_version_collapse,
            another_version_is_another_wake_up,
            a_full_queue_says_so_and_keeps_what_it_took,
        }
    };
}

/// Not before its time; once at it.
pub async fn a_flow_is_woken_after_its_delay_and_not_before(factory: &dyn WakeFactory) {
    let bench = factory.fresh(10).await;
    ask(&*bench, 1, 0, 400).await;
    assert_eq!(bench.woken_within(100).await, []);
    assert_eq!(bench.woken_within(600).await, ids([1]));
    assert_eq!(bench.woken_within(600).await, [], "woken once");
}

/// The shortest delay comes first, whatever was asked for first.
pub async fn flows_are_woken_in_the_order_of_their_times(factory: &dyn WakeFactory) {
    let bench = factory.fresh(10).await;
    ask(&*bench, 1, 0, 450).await;
    ask(&*bench, 2, 0, 50).await;
    ask(&*bench, 3, 0, 250).await;
    assert_eq!(bench.woken_within(800).await, ids([2, 3, 1]));
}

/// Two wake-ups of one version are one.
pub async fn doubled_wake_ups_of_one_version_collapse(factory: &dyn WakeFactory) {
    let bench = factory.fresh(10).await;
    ask(&*bench, 1, 4, 100).await;
    ask(&*bench, 1, 4, 100).await;
    assert_eq!(bench.woken_within(500).await, ids([1]));
}

/// A later version is woken for itself: the earlier wake-up may be stale by then.
pub async fn another_version_is_another_wake_up(factory: &dyn WakeFactory) {
    let bench = factory.fresh(10).await;
    ask(&*bench, 1, 4, 50).await;
    assert_eq!(bench.woken_within(400).await, ids([1]));
    ask(&*bench, 1, 5, 50).await;
    assert_eq!(bench.woken_within(400).await, ids([1]));
}

/// A bounded queue refuses what is too much and loses nothing of what it took.
pub async fn a_full_queue_says_so_and_keeps_what_it_took(factory: &dyn WakeFactory) {
    let bench = factory.fresh(3).await;
    for number in 1..=3 {
        ask(&*bench, number, 0, 100).await;
    }
    let fourth = bench.queue().wake_after(samples::flow_id(4), Version::FIRST, 100).await;
    assert_eq!(fourth.is_err(), bench.is_bounded());
    let mut woken = bench.woken_within(500).await;
    woken.retain(|id| id.get() <= 3);
    woken.sort_unstable();
    assert_eq!(woken, ids([1, 2, 3]));
}

async fn ask(bench: &dyn WakeBench, number: i64, version: u64, delay_ms: u64) {
    let asked = bench.queue().wake_after(samples::flow_id(number), Version(version), delay_ms).await;
    asked.expect("an empty queue takes a wake-up");
}

fn ids<const N: usize>(numbers: [i64; N]) -> [FlowId; N] {
    numbers.map(samples::flow_id)
}
