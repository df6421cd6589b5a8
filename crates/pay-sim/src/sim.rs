//! The simulator behind the HTTP side: the world with its journal, the fault rules, the signals and the clock.
//!
//! Locks are held for a state change and one `write` to the operating system, never across an await.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::bill::BillFaults;
use crate::callbacks::{Callbacks, Event};
use crate::faults::{Call, Fault, FaultSet, Rule, RuleReport, Stage, System, TooManyRules};
use crate::journal::{Journal, JournalError, PendingSync};
use crate::ledger::{Command, Course, World};
use crate::request::{Answer, Request};
use crate::signals::Signals;

/// Where the journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is written.
    Memory,
    /// Every command is written before its answer leaves.
    File {
        /// The file.
        path: PathBuf,
        /// Also wait for the disk.
        fsync: bool,
    },
}

/// Both simulated systems.
#[derive(Debug)]
pub struct Sim {
    state: Mutex<State>,
    faults: Mutex<FaultSet>,
    /// Mirrors whether there is any rule, so that a healthy simulator takes no lock for it.
    any_fault: AtomicBool,
    /// Counts resets: whatever was on its way before one is lost.
    epoch: AtomicU64,
    latency: Duration,
    /// Counts of calls, to wait for.
    pub signals: Signals,
    /// Told whenever the rules change.
    pub faults_changed: Notify,
    /// What the wallet tells of by itself.
    pub callbacks: Callbacks,
    /// What is wrong with the wallet's bills.
    pub bill_faults: BillFaults,
}

#[derive(Debug)]
struct State {
    world: World,
    journal: Journal,
}

/// Milliseconds since the Unix epoch.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the simulator is a system of its own, with its own clock")]
pub fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

impl Sim {
    /// Opens the journal and rebuilds the world from it. Needs a tokio runtime: deferred calls get their timers back.
    ///
    /// # Errors
    /// When the journal can't be opened or is broken.
    pub fn open(durability: &Durability, latency: Duration) -> Result<Arc<Self>, JournalError> {
        let (world, journal) = match durability {
            Durability::Memory => (World::new(), Journal::Memory),
            Durability::File { path, fsync } => {
                let replayed = Journal::open(path, *fsync)?;
                tracing::info!(
                    commands = replayed.commands,
                    torn_bytes = replayed.torn_bytes,
                    "journal replayed"
                );
                (replayed.world, replayed.journal)
            }
        };
        let timed = world.timed_deferrals();
        let sim = Arc::new(Self {
            state: Mutex::new(State { world, journal }),
            faults: Mutex::new(FaultSet::default()),
            any_fault: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            latency,
            signals: Signals::default(),
            faults_changed: Notify::new(),
            callbacks: Callbacks::new(),
            bill_faults: BillFaults::default(),
        });
        for (trade_order_no, due_ms) in timed {
            sim.settle_at(trade_order_no, due_ms);
        }
        Ok(sim)
    }

    /// What every call waits before anything happens.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Reads the world.
    pub fn read<T>(&self, read: impl FnOnce(&World) -> T) -> T {
        read(&self.state().world)
    }

    /// Lets the world carry out a call, journalled first where it can change anything.
    ///
    /// # Errors
    /// When the journal can't be written: the world is unchanged then, or (with fsync) the change may not survive.
    pub async fn deliver(&self, request: &Request, course: &Course) -> Result<Answer, JournalError> {
        let (answer, sync) = {
            let mut state = self.state();
            // Read under the lock: the journal's times never run backwards more than the clock itself.
            let now_ms = now_ms();
            let kept = state.journal.is_kept();
            let command = kept.then(|| request.command(course, &state.world, now_ms)).flatten();
            let sync = match &command {
                Some(command) => state.journal.append(now_ms, command)?,
                None => None,
            };
            (request.apply(course, &mut state.world, now_ms), sync)
        };
        self.wait_for_disk(sync).await?;
        Ok(answer)
    }

    /// Applies an administrative command.
    ///
    /// # Errors
    /// As [`Sim::deliver`].
    pub async fn command(&self, command: &Command) -> Result<(), JournalError> {
        let sync = {
            let mut state = self.state();
            let now_ms = now_ms();
            let sync = state.journal.append(now_ms, command)?;
            state.world.replay(command, now_ms);
            sync
        };
        self.wait_for_disk(sync).await
    }

    /// Back to an empty world without rules and counts; what is still on its way is lost.
    ///
    /// # Errors
    /// When the journal can't be emptied; the world is unchanged then.
    pub fn reset(&self) -> Result<(), JournalError> {
        {
            let mut state = self.state();
            state.journal.clear()?;
            state.world = World::new();
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        self.clear_faults();
        self.callbacks.clear();
        self.bill_faults.clear();
        self.signals.clear();
        Ok(())
    }

    /// Which life of the world this is: see [`Sim::reset`].
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Carries out what an order has deferred, once the time has come.
    pub fn settle_at(self: &Arc<Self>, trade_order_no: String, due_ms: i64) {
        let sim = Arc::clone(self);
        let epoch = self.epoch();
        let wait_ms = u64::try_from(due_ms.saturating_sub(now_ms())).unwrap_or(0);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            if sim.epoch() != epoch {
                return;
            }
            let settle = Command::Settle { trade_order_no: trade_order_no.clone() };
            if let Err(error) = sim.command(&settle).await {
                tracing::error!(%error, "a deferred call was not carried out; the next touch of its order does it");
                return;
            }
            for event in sim.standing(&trade_order_no) {
                sim.callbacks.tell(event).await;
            }
        });
    }

    /// How an order stands, as the wallet would tell of it.
    fn standing(&self, trade_order_no: &str) -> Vec<Event> {
        self.read(|world| world.standing(trade_order_no))
            .into_iter()
            .flat_map(|(debit, refund)| [Event::of_debit(&debit), refund.as_ref().and_then(Event::of_refund)])
            .flatten()
            .collect()
    }

    /// The fault that strikes this request, if any.
    #[must_use]
    pub fn strike(&self, request: &Request) -> Option<(Fault, Stage)> {
        if !self.any_fault.load(Ordering::Acquire) {
            return None;
        }
        let subject = self.read(|world| request.subject(world));
        self.fault_set().strike(&subject, now_ms())
    }

    /// Adds a rule that was checked.
    ///
    /// # Errors
    /// When there are too many.
    pub fn add_fault(&self, rule: Rule) -> Result<u64, TooManyRules> {
        let id = self.change_faults(|faults| faults.add(rule, now_ms()))?;
        Ok(id)
    }

    /// Removes a rule; false when there is none of this id.
    pub fn remove_fault(&self, id: u64) -> bool {
        self.change_faults(|faults| faults.remove(id))
    }

    /// Removes every rule.
    pub fn clear_faults(&self) {
        self.change_faults(FaultSet::clear);
    }

    /// Every rule with its counts.
    #[must_use]
    pub fn fault_report(&self) -> Vec<RuleReport> {
        self.fault_set().report(now_ms())
    }

    /// Whether this system's own port is closed now, and when that may change by itself (in milliseconds from now).
    #[must_use]
    pub fn closed_port(&self, system: System) -> (bool, Option<u64>) {
        let faults = self.fault_set();
        let now_ms = now_ms();
        let next_ms = faults.next_end_ms(system, now_ms).and_then(|ends| u64::try_from(ends - now_ms).ok());
        (faults.refuses_connections(system, now_ms), next_ms)
    }

    /// How many calls of each kind reached the world since the start or the last reset.
    #[must_use]
    pub fn call_totals(&self) -> BTreeMap<&'static str, u32> {
        use crate::signals::{Moment, Topic};
        Call::ALL
            .iter()
            .map(|call| (call.name(), self.signals.seen(Moment::Applied, *call, &Topic::Any)))
            .collect()
    }

    fn change_faults<T>(&self, change: impl FnOnce(&mut FaultSet) -> T) -> T {
        let changed = {
            let mut faults = self.fault_set();
            let changed = change(&mut faults);
            self.any_fault.store(!faults.is_empty(), Ordering::Release);
            changed
        };
        self.faults_changed.notify_waiters();
        changed
    }

    async fn wait_for_disk(&self, sync: Option<PendingSync>) -> Result<(), JournalError> {
        let Some(sync) = sync else { return Ok(()) };
        match tokio::task::spawn_blocking(move || sync.wait()).await {
            Ok(synced) => synced,
            Err(join) => std::panic::resume_unwind(join.into_panic()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault_set(&self) -> MutexGuard<'_, FaultSet> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
