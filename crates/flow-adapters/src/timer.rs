//! Wake-ups in this process: a bounded timer that needs nothing installed, and a queue that wakes nobody.
//!
//! A wake-up lives in memory and dies with the process: the scanner finds every row from the database alone. Knows
//! flow ids and times; what waking means is the handler's.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use flow_config::AdvanceConfig;
use flow_core::ids::{FlowId, Version};
use flow_core::ports::{WakeError, WakeQueue};
use flow_core::retry::Schedule;
use metrics::{counter, gauge};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

/// A queue that takes every wake-up and wakes nobody: for a process that reads what is due from the database.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWake;

#[async_trait]
impl WakeQueue for NoWake {
    async fn wake_after(&self, _flow_id: FlowId, _version: Version, _delay_ms: u64) -> Result<(), WakeError> {
        Ok(())
    }
}

/// What is done when a flow's time has come.
#[async_trait]
pub trait WakeHandler: Send + Sync {
    /// Wakes one flow. Never called twice at once for the same flow.
    async fn wake(&self, flow_id: FlowId);
}

/// Bounds of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerOptions {
    /// Most flows held, those being woken included; more are refused with [`WakeError::Full`].
    pub max_flows: usize,
    /// Most flows woken at once.
    pub max_parallel_flows: usize,
    /// How long after it was first heard of a flow may still be woken; what is due later is left to the scanner.
    pub bound_ms: u64,
}

impl From<&AdvanceConfig> for TimerOptions {
    fn from(config: &AdvanceConfig) -> TimerOptions {
        TimerOptions {
            max_flows: config.timer_queue_flows,
            max_parallel_flows: config.timer_max_parallel_flows,
            bound_ms: config.timer_bound_ms,
        }
    }
}

/// The asking side. Cheap to clone; [`TimerDriver::run`] does the waking.
#[derive(Debug, Clone)]
pub struct Timer {
    shared: Arc<Shared>,
}

/// The waking side, to be run once.
#[derive(Debug)]
pub struct TimerDriver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: TimerOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    due: DelayQueue<FlowId>,
    flows: HashMap<FlowId, Entry>,
    stopped: bool,
}

/// One flow: waiting, being woken, or both (asked for again while being woken). Gone when neither.
#[derive(Debug)]
struct Entry {
    version: Version,
    first_heard_of: Instant,
    waiting: Option<Key>,
    running: bool,
    /// Its time came while it was being woken: wake it again afterwards.
    again: bool,
}

/// The wake-up that is to be kept of a flow.
enum Keep {
    Present,
    New,
}

impl Timer {
    /// A timer that takes wake-ups from now on, and the driver that will carry them out.
    pub fn new(options: TimerOptions) -> (Timer, TimerDriver) {
        let shared = Arc::new(Shared { options, state: Mutex::new(State::default()) });
        (Timer { shared: Arc::clone(&shared) }, TimerDriver { shared })
    }

    /// How many flows wait or are being woken.
    pub fn flows(&self) -> usize {
        self.shared.lock().flows.len()
    }
}

#[async_trait]
impl WakeQueue for Timer {
    /// One wake-up per flow: the one asked for with the newest version; of the same version, the earliest.
    async fn wake_after(&self, flow_id: FlowId, version: Version, delay_ms: u64) -> Result<(), WakeError> {
        self.shared.take(flow_id, version, Duration::from_millis(delay_ms.min(Schedule::MAX_DELAY_MS)))
    }
}

#[allow(clippy::disallowed_methods, reason = "this is a system timer; tests pause the runtime's clock")]
fn now() -> Instant {
    Instant::now()
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding it; if something did, the state is still one that can be worked with.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, flow_id: FlowId, version: Version, delay: Duration) -> Result<(), WakeError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.stopped {
            return Err(WakeError::Unavailable);
        }
        let due_at = now() + delay;
        if !state.flows.contains_key(&flow_id) && state.flows.len() >= self.options.max_flows {
            counter!("timer_full_total").increment(1);
            return Err(WakeError::Full);
        }
        let first = Entry { version, first_heard_of: now(), waiting: None, running: false, again: false };
        let entry = state.flows.entry(flow_id).or_insert(first);
        if let Keep::Present = entry.keep(version, due_at, &state.due) {
            return Ok(());
        }
        entry.version = version;
        entry.again = false;
        let too_late = due_at > entry.first_heard_of + Duration::from_millis(self.options.bound_ms);
        match entry.waiting.take() {
            Some(key) if too_late => {
                state.due.remove(&key);
            }
            Some(key) => {
                state.due.reset_at(&key, due_at);
                entry.waiting = Some(key);
            }
            None if too_late => {}
            None => entry.waiting = Some(state.due.insert_at(flow_id, due_at)),
        }
        if too_late {
            counter!("timer_left_to_scanner_total").increment(1);
        }
        state.tidy(flow_id);
        Ok(())
    }

    /// The next flow whose time has come, marked as being woken.
    fn poll_due(&self, cx: &mut Context<'_>) -> Poll<FlowId> {
        let mut guard = self.lock();
        let state = &mut *guard;
        // Empty: the queue remembers this task and wakes it at the next insertion.
        while let Poll::Ready(Some(expired)) = state.due.poll_expired(cx) {
            let flow_id = expired.into_inner();
            let Some(entry) = state.flows.get_mut(&flow_id) else { continue };
            entry.waiting = None;
            if entry.running {
                entry.again = true;
            } else {
                entry.running = true;
                return Poll::Ready(flow_id);
            }
        }
        Poll::Pending
    }

    fn finish(&self, flow_id: FlowId) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Some(entry) = state.flows.get_mut(&flow_id) {
            entry.running = false;
            if std::mem::take(&mut entry.again) && !state.stopped {
                entry.waiting = Some(state.due.insert_at(flow_id, now()));
            }
        }
        state.tidy(flow_id);
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.due.clear();
        state.flows.retain(|_, entry| {
            entry.waiting = None;
            entry.running
        });
        state.report();
    }
}

impl Entry {
    fn keep(&self, version: Version, due_at: Instant, due: &DelayQueue<FlowId>) -> Keep {
        let Some(key) = &self.waiting else {
            // Nothing waits. An older version than one already woken for is a wake-up that came late.
            return if version < self.version { Keep::Present } else { Keep::New };
        };
        let is_newer = version > self.version;
        let is_earlier = version == self.version && due_at < due.deadline(key);
        if is_newer || is_earlier { Keep::New } else { Keep::Present }
    }
}

impl State {
    fn tidy(&mut self, flow_id: FlowId) {
        if self.flows.get(&flow_id).is_some_and(|entry| entry.waiting.is_none() && !entry.running) {
            self.flows.remove(&flow_id);
        }
        self.report();
    }

    fn report(&self) {
        gauge!("timer_flows").set(u32::try_from(self.flows.len()).unwrap_or(u32::MAX));
    }
}

/// Marks a flow as woken even if its handler panics.
struct Running {
    shared: Arc<Shared>,
    flow_id: FlowId,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.finish(self.flow_id);
    }
}

impl TimerDriver {
    /// Wakes flows until `stop` is cancelled; then refuses new wake-ups, forgets the waiting ones, lets those under
    /// way finish and returns. Bound the wait outside: whatever remains is the scanner's.
    pub async fn run(self, handler: Arc<dyn WakeHandler>, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(self.shared.options.max_parallel_flows.max(1)));
        let tasks = TaskTracker::new();
        let next = async || {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            let flow_id = poll_fn(|cx| self.shared.poll_due(cx)).await;
            Some((place, flow_id))
        };
        while let Some(Some((place, flow_id))) = stop.run_until_cancelled(next()).await {
            let running = Running { shared: Arc::clone(&self.shared), flow_id };
            let handler = Arc::clone(&handler);
            counter!("timer_woken_total").increment(1);
            tasks.spawn(async move {
                handler.wake(flow_id).await;
                drop(running);
                drop(place);
            });
        }
        self.shared.stop();
        tasks.close();
        tasks.wait().await;
    }
}
