//! A scanner over the in-memory store whose rows do what the test says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flow_core::advance::AdvanceError;
use flow_core::answer::ErrorCode;
use flow_core::flow::{HoldReason, Trigger};
use flow_core::ids::{Actor, FlowId};
use flow_core::ports::{CasOutcome, CasWrite, Change, WriteEvidence};
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::mem_store::{MemStore, StoreOp};
use flow_testkit::samples;
use pay_scanner::advance::{Advance, Outcome};
use pay_scanner::report::RoundReport;
use pay_scanner::round::{RoundFailed, Sweep, SweepSettings};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) const SOME_HOLD: HoldReason = HoldReason::AmountMismatch;

/// What happens when a row is visited.
#[derive(Clone)]
pub(crate) enum Behave {
    /// Tried in vain: due again in a minute.
    Stay,
    /// Brought to a terminal state.
    Finish,
    /// Its downstream's gate let no call out: still due.
    GateClosed,
    /// Could not be worked on: still due.
    Fail,
    /// A defect: still due.
    Panic,
    /// Every lease is lost, then as [`Behave::Stay`].
    BreakLeases,
    /// The process is told to stop, then as [`Behave::Stay`].
    Stop(CancellationToken),
    /// As [`Behave::Stay`], once so many visits were begun.
    WaitForVisits(usize),
}

/// The rows' behaviour, and what was seen of the visits.
pub(crate) struct Probe {
    store: MemStore,
    by_id: Mutex<HashMap<FlowId, Behave>>,
    otherwise: Mutex<Behave>,
    visits: watch::Sender<Vec<FlowId>>,
    under_way: AtomicUsize,
    /// Most visits at once.
    pub(crate) peak: AtomicUsize,
}

pub(crate) struct Rig {
    pub(crate) store: MemStore,
    pub(crate) probe: Arc<Probe>,
    pub(crate) sweep: Sweep,
}

pub(crate) fn settings(partitions: u32, page_rows: u32, max_parallel_flows: usize) -> SweepSettings {
    SweepSettings { partitions, page_rows, max_parallel_flows }
}

pub(crate) fn id(number: i64) -> FlowId {
    samples::flow_id(number)
}

pub(crate) fn ids(numbers: impl IntoIterator<Item = i64>) -> Vec<FlowId> {
    numbers.into_iter().map(id).collect()
}

pub(crate) fn somebody() -> Actor {
    samples::actor("somebody")
}

impl Rig {
    /// Rows 1 to `flows`, all due.
    pub(crate) fn with_flows(flows: i64, settings: SweepSettings) -> Rig {
        let clock = ManualClock::new();
        let store = MemStore::new(clock.clone());
        for number in 1..=flows {
            let deadline = clock.now() + chrono::TimeDelta::hours(1);
            store.create_now(samples::new_flow(number, deadline));
        }
        let probe = Arc::new(Probe {
            store: store.clone(),
            by_id: Mutex::default(),
            otherwise: Mutex::new(Behave::Stay),
            visits: watch::Sender::new(Vec::new()),
            under_way: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        });
        let sweep = Sweep::new(Arc::new(store.clone()), probe.clone(), Arc::new(clock), settings);
        Rig { store, probe, sweep }
    }

    /// Another process over the same rows.
    pub(crate) fn second_scanner(&self) -> Rig {
        Rig { store: self.store.clone(), probe: self.probe.clone(), sweep: self.sweep.clone() }
    }

    pub(crate) async fn round(&self, first_partition: u32) -> Result<RoundReport, RoundFailed> {
        self.sweep.round(first_partition, &CancellationToken::new()).await
    }

    /// Every visit, sorted by id; a second visit of a row is there twice.
    pub(crate) fn visited(&self) -> Vec<FlowId> {
        let mut visits = self.probe.visits.borrow().clone();
        visits.sort_unstable();
        visits
    }

    pub(crate) fn forget_visits(&self) {
        self.probe.visits.send_modify(Vec::clear);
    }

    pub(crate) fn behave(&self, number: i64, behave: Behave) {
        self.probe.by_id.lock().unwrap().insert(id(number), behave);
    }

    pub(crate) fn all_behave(&self, behave: Behave) {
        *self.probe.otherwise.lock().unwrap() = behave;
    }

    /// Runs this right before a page, counted from 0, is read.
    pub(crate) fn before_page(&self, page: usize, hook: impl FnOnce(&MemStore) + Send + 'static) {
        for _ in 0..page {
            self.store.before_next(StoreOp::ListDue, |_| {});
        }
        self.store.before_next(StoreOp::ListDue, hook);
    }

    pub(crate) fn change(&self, number: i64, change: Change) {
        self.probe.change(id(number), change);
    }

    pub(crate) fn reschedule_in(&self, number: i64, next_in_ms: u64) {
        self.probe.stay(id(number), next_in_ms);
    }

    /// Charged: waits for its business system, while fresh rows wait for their wallet.
    pub(crate) fn charged(&self, number: i64) {
        for state in [State::Paying, State::Payed] {
            self.store.write_by_hand(id(number), |flow| flow.state = state).unwrap();
        }
    }

    pub(crate) fn finish(&self, number: i64) {
        self.probe.finish(id(number));
    }
}

impl Probe {
    fn change(&self, flow_id: FlowId, change: Change) {
        let flow = self.store.flow(flow_id).unwrap();
        let evidence = WriteEvidence::of(Trigger::Scanner);
        let write = CasWrite { flow_id, from: flow.state, version: flow.version, change, evidence };
        assert_eq!(self.store.cas_now(&write).unwrap(), CasOutcome::Applied);
    }

    fn stay(&self, flow_id: FlowId, next_in_ms: u64) {
        let code = ErrorCode::clean("IN_VAIN");
        self.change(flow_id, Change::Reschedule { next_in_ms, retry_count: 1, code });
    }

    fn finish(&self, flow_id: FlowId) {
        for state in [State::Paying, State::PayFail] {
            self.store.write_by_hand(flow_id, |flow| flow.state = state).unwrap();
        }
    }
}

#[async_trait]
impl Advance for Probe {
    async fn advance(&self, flow_id: FlowId) -> Result<Outcome, AdvanceError> {
        self.visits.send_modify(|visits| visits.push(flow_id));
        let now_under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now_under_way, Ordering::SeqCst);
        // Long enough for everybody who may to come in.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        let behave = self.by_id.lock().unwrap().get(&flow_id).cloned();
        match behave.unwrap_or_else(|| self.otherwise.lock().unwrap().clone()) {
            Behave::Stay => {}
            Behave::Finish => {
                self.finish(flow_id);
                return Ok(Outcome::Moved);
            }
            Behave::GateClosed => return Ok(Outcome::GateClosed),
            Behave::Fail => return Err(AdvanceError::NotFound { flow_id }),
            Behave::Panic => panic!("asked for by the test"),
            Behave::BreakLeases => self.store.break_leases(),
            Behave::Stop(stop) => stop.cancel(),
            Behave::WaitForVisits(count) => {
                self.visits.subscribe().wait_for(|visits| visits.len() >= count).await.unwrap();
            }
        }
        self.stay(flow_id, 60_000);
        Ok(Outcome::Stayed)
    }
}
