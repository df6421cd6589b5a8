//! What everybody in one world shares: time, the database, the books of wallet and business system, dice, trace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow_core::callback::EventKey;
use flow_core::flow::Flow;
use flow_core::ids::FlowId;
use flow_core::notify::EventId;
use flow_testkit::fakes::{FakeWorld, Switches};
use flow_testkit::mem_entry::MemEntryLock;
use flow_testkit::mem_inbox::MemInbox;
use flow_testkit::mem_store::MemStore;
use flow_testkit::mutants::Subject;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::channel::Letter;
use crate::dice::{Dice, Draw, Topic};
use crate::message::target_number;
use crate::onlooker::Seat;
use crate::plan::{Plan, UpheavalKind};
use crate::run::Setup;
use crate::time::{Time, sleep_ms};
use crate::trace::{Trace, What, Who};

/// Most events of a run: a hundred times what long ones have. One that has more feeds itself, and would fill the
/// machine's memory before its time was up.
const MAX_EVENTS: u64 = 200_000;
/// How long the entry lock keeps a place whose holder has died.
const ENTRY_TTL_MS: u64 = 2_000;

/// One world.
pub(crate) struct Site {
    pub(crate) time: Arc<Time>,
    pub(crate) plan: Plan,
    pub(crate) dice: Dice,
    pub(crate) subject: Subject,
    pub(crate) store: MemStore,
    pub(crate) inbox: MemInbox,
    pub(crate) entry_lock: MemEntryLock,
    /// Its wallet's face is the wallet; on a clock of its own.
    pub(crate) wallet: FakeWorld,
    /// Its business face is the business system; on a clock of its own.
    pub(crate) business: FakeWorld,
    /// Rung whenever a row was written.
    pub(crate) changed: Notify,
    trace: Mutex<Trace>,
    seen: Mutex<Seen>,
    calm: AtomicBool,
    letters: UnboundedSender<Letter>,
    letter_box: Mutex<Option<UnboundedReceiver<Letter>>>,
    /// Messages and far-side work that somebody still has to deliver.
    under_way: AtomicU64,
    broken: AtomicBool,
    /// Latencies are left out, to make a story plain.
    pub(crate) plain: bool,
    /// Every call that changes something arrives twice.
    pub(crate) doubled: bool,
    pub(crate) onlooker: Seat,
}

/// What was noted already.
#[derive(Debug, Default)]
struct Seen {
    versions: BTreeMap<FlowId, u64>,
    effects: BTreeMap<(Who, String), usize>,
    overcharged: BTreeSet<i64>,
    names: BTreeMap<i64, i64>,
    acknowledged: Vec<EventKey>,
    notified: BTreeSet<EventId>,
}

impl Site {
    pub(crate) fn new(plan: Plan, dice: Dice, setup: &Setup, onlooker: Seat) -> Site {
        let time = Arc::new(Time::new(plan.wallet_skew_ms, plan.business_skew_ms));
        let store = MemStore::new(time.database.clone());
        store.set_subject(setup.subject);
        let inbox = MemInbox::new(time.database.clone());
        let (letters, letter_box) = unbounded_channel();
        let wallet = FakeWorld::new(time.wallet.clone());
        let broken = setup.far_side.clone();
        wallet.set_switches(Switches { close_unsupported: !plan.wallet_closes, ..broken.clone() });
        let business = FakeWorld::new(time.business.clone());
        business.set_switches(broken);
        Site {
            time,
            plan,
            dice,
            subject: setup.subject,
            store,
            inbox,
            entry_lock: MemEntryLock::new(ENTRY_TTL_MS),
            letters,
            letter_box: Mutex::new(Some(letter_box)),
            wallet,
            business,
            changed: Notify::new(),
            trace: Mutex::new(Trace::new(setup.keep_trace)),
            seen: Mutex::default(),
            calm: AtomicBool::new(false),
            under_way: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            plain: setup.plain,
            doubled: setup.doubled,
            onlooker,
        }
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, who: Who, what: What) {
        let events = {
            let mut trace = self.trace();
            trace.add(self.time.now_ms(), who, what);
            trace.events()
        };
        if events > MAX_EVENTS && !self.is_broken() {
            self.end_with(format!("Settled broken: {MAX_EVENTS} events, and no end of them"));
        }
    }

    /// Records a broken promise. The run ends at the first. Where an onlooker judges, nobody else does.
    pub(crate) fn broken(&self, what: String) {
        if !self.onlooker.is_taken() {
            self.end_with(what);
        }
    }

    /// Ends the run with this finding.
    pub(crate) fn end_with(&self, what: String) {
        self.broken.store(true, Ordering::SeqCst);
        self.note(Who::World, What::Broken(what));
        self.changed.notify_waiters();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// The row's version when it was last noted; from now on, this one.
    pub(crate) fn version_seen(&self, flow_id: FlowId, version: u64) -> Option<u64> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.versions.insert(flow_id, version)
    }

    /// How many effects of an order were noted; from now on, so many.
    pub(crate) fn effects_seen(&self, books: Who, number: &str, effects: usize) -> usize {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.effects.insert((books, number.to_owned()), effects).unwrap_or(0)
    }

    /// The wallet is about to take another amount for this flow than it was asked for.
    pub(crate) fn overcharged(&self, flow: i64) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).overcharged.insert(flow);
    }

    /// Whether the wallet took another amount for this flow: then it waits for people for ever.
    pub(crate) fn is_overcharged(&self, flow: &Flow) -> bool {
        let marked = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.overcharged.contains(&flow.id.get())
        };
        marked && self.facts_of(flow).charges.iter().any(|(amount, _)| *amount != flow.money.amount())
    }

    /// From now on nothing new goes wrong.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
        self.note(Who::World, What::Phase("nothing new goes wrong from here on"));
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Whether an incident may happen at this draw.
    pub(crate) fn allows(&self, draw: &Draw) -> bool {
        !draw.left_out && !self.is_calm()
    }

    /// How long something takes on its way; the least is nothing at all.
    pub(crate) fn latency_ms(&self, draw: &mut Draw) -> u64 {
        let drawn = draw.spread(0, self.plan.longest_latency_ms);
        if self.plain || self.is_calm() { 1 } else { drawn }
    }

    /// The outage of this kind that is going on.
    pub(crate) fn outage(&self, kinds: &[UpheavalKind]) -> Option<(UpheavalKind, Draw)> {
        if self.is_calm() {
            return None;
        }
        let now_ms = self.time.now_ms();
        let going_on = self.plan.upheavals.iter().find(|upheaval| {
            let lasts = (upheaval.at_ms..upheaval.at_ms + upheaval.for_ms).contains(&now_ms);
            lasts && kinds.contains(&upheaval.kind) && !self.dice.at(upheaval.point).left_out
        });
        going_on.map(|upheaval| (upheaval.kind, self.dice.at(upheaval.point)))
    }

    /// Does something later that no process's end can stop, and that the run waits for.
    pub(crate) fn later<F>(
        self: &Arc<Self>,
        after_ms: u64,
        work: impl FnOnce(Arc<Site>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let site = Arc::clone(self);
        tokio::spawn(async move {
            sleep_ms(after_ms).await;
            work(Arc::clone(&site)).await;
            site.under_way.fetch_sub(1, Ordering::SeqCst);
            site.changed.notify_waiters();
        });
    }

    /// A callback is under way; whoever carries it says when it has [arrived](Site::arrived).
    pub(crate) fn post(&self, letter: Letter) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        // The cast outlives every letter; if it is gone, so is the run.
        let _nobody_left = self.letters.send(letter);
    }

    /// What [`Site::post`] sends; once.
    pub(crate) fn letter_box(&self) -> Option<UnboundedReceiver<Letter>> {
        self.letter_box.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A callback is no longer under way.
    pub(crate) fn arrived(&self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// The channel was told that this event is kept.
    pub(crate) fn acknowledged(&self, key: EventKey) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).acknowledged.push(key);
    }

    /// What the channel was told is kept.
    pub(crate) fn all_acknowledged(&self) -> Vec<EventKey> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).acknowledged.clone()
    }

    /// An application has heard this notification.
    pub(crate) fn heard_of(&self, id: EventId) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).notified.insert(id);
    }

    /// Whether it has.
    pub(crate) fn has_heard_of(&self, id: EventId) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).notified.contains(&id)
    }

    /// Whether somebody still has to deliver something.
    pub(crate) fn awaits_delivery(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) > 0
    }

    /// A flow's name for the dice: target and attempt. Its id would not do: it depends on what others have done before,
    /// so that leaving one client out would change the luck of all that come after.
    pub(crate) fn name_flow(&self, flow: &Flow) {
        let name = target_number(&flow.target) * 100 + i64::from(flow.attempt_no.0);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).names.insert(flow.id.get(), name);
    }

    /// The next draw about a flow.
    pub(crate) fn draw_for_flow(&self, topic: Topic, flow: i64) -> Draw {
        let name = self.seen.lock().unwrap_or_else(PoisonError::into_inner).names.get(&flow).copied();
        self.draw(topic, name.unwrap_or(flow))
    }

    /// The next draw about a target, a process, a client or a person.
    pub(crate) fn draw(&self, topic: Topic, subject: i64) -> Draw {
        self.dice.draw(topic, subject)
    }
}

/// The flow that an order number was derived from; 0 for a number of another form.
pub(crate) fn flow_of_number(number: &str) -> i64 {
    number.rsplit('_').next().and_then(|digits| i64::from_str_radix(digits, 36).ok()).unwrap_or(0)
}

/// The flow of this number, if there can be one.
pub(crate) fn flow_id(number: i64) -> Option<FlowId> {
    FlowId::new(number).ok()
}
