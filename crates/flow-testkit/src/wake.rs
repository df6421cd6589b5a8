//! Wake-up queues that a test looks into: [`RecordingWake`] keeps what was asked, [`ManualWake`] also hands it out when due.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use flow_core::ids::{FlowId, Version};
use flow_core::ports::{Clock as _, WakeError, WakeQueue};

use crate::clock::ManualClock;

/// One wake-up that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeCall {
    /// The flow.
    pub flow_id: FlowId,
    /// The row's version at that time.
    pub version: Version,
    /// The wanted delay, in milliseconds.
    pub delay_ms: u64,
}

/// Keeps every call, in order; wakes nobody.
#[derive(Debug, Default)]
pub struct RecordingWake {
    state: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    calls: Vec<WakeCall>,
    refuse_with: Option<WakeError>,
}

impl RecordingWake {
    /// An empty record.
    pub fn new() -> RecordingWake {
        RecordingWake::default()
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<WakeCall> {
        self.lock().calls.clone()
    }

    /// Refuses every further call so (they are recorded all the same), or takes them again.
    pub fn refuse_with(&self, error: Option<WakeError>) {
        self.lock().refuse_with = error;
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

#[async_trait]
impl WakeQueue for RecordingWake {
    async fn wake_after(&self, flow_id: FlowId, version: Version, delay_ms: u64) -> Result<(), WakeError> {
        let mut recorded = self.lock();
        recorded.calls.push(WakeCall { flow_id, version, delay_ms });
        recorded.refuse_with.map_or(Ok(()), Err)
    }
}

/// A bounded queue on a manual clock: hands out what is due when it is asked.
#[derive(Debug)]
pub struct ManualWake {
    clock: ManualClock,
    capacity: usize,
    waiting: Mutex<BTreeMap<(FlowId, Version), u64>>,
}

impl ManualWake {
    /// An empty queue for at most `capacity` wake-ups.
    pub fn new(clock: ManualClock, capacity: usize) -> ManualWake {
        ManualWake { clock, capacity, waiting: Mutex::new(BTreeMap::new()) }
    }

    /// Takes out what is due by now, earliest first.
    pub fn take_due(&self) -> Vec<FlowId> {
        let now_ms = self.clock.monotonic_ms();
        let mut waiting = self.lock();
        let mut due: Vec<_> = waiting
            .iter()
            .filter(|(_, due_ms)| **due_ms <= now_ms)
            .map(|(key, due_ms)| (*due_ms, *key))
            .collect();
        due.sort_unstable();
        for (_, key) in &due {
            waiting.remove(key);
        }
        due.into_iter().map(|(_, (flow_id, _))| flow_id).collect()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// Loses everything, as a crash does.
    pub fn lose_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(FlowId, Version), u64>> {
        self.waiting.lock().expect("no holder of this lock panics")
    }
}

#[async_trait]
impl WakeQueue for ManualWake {
    async fn wake_after(&self, flow_id: FlowId, version: Version, delay_ms: u64) -> Result<(), WakeError> {
        let due_ms = self.clock.monotonic_ms().saturating_add(delay_ms);
        let mut waiting = self.lock();
        if waiting.len() >= self.capacity && !waiting.contains_key(&(flow_id, version)) {
            return Err(WakeError::Full);
        }
        // A doubled wake-up of one version collapses into the earlier of the two.
        waiting
            .entry((flow_id, version))
            .and_modify(|earlier| *earlier = due_ms.min(*earlier))
            .or_insert(due_ms);
        Ok(())
    }
}
