//! The processes of a world: the shipped entrances, wired as the binaries wire them, over ports that can fail; and what
//! starts them again when they have died.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use flow_adapters::timer::{NoWake, Timer, TimerOptions};
use flow_core::advance::Advancer;
use flow_core::callback::{CallbackSettings, Callbacks};
use flow_core::downstream::{BreakerLimits, BudgetLimits, Downstreams, Limits, Receivers};
use flow_core::ids::{CallerId, FlowId, Version};
use flow_core::notify::RetryPlan;
use flow_core::ports::{Business, Clock, FlowStore, Jitter, WakeError, WakeQueue, Wallet};
use flow_core::retry::Schedule;
use flow_testkit::jitter::SeededJitter;
use flow_testkit::samples;
use pay_api::work::{Changes, TimedAdvance, Work};
use pay_scanner::advance::AdvanceDue;
use pay_scanner::inbox::{InboxSettings, InboxSweep};
use pay_scanner::notify::{Notifier, NotifySettings};
use pay_scanner::round::{Sweep, SweepSettings};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::channel::{self, CallbackEntrance};
use crate::dice::Topic;
use crate::entrance::Entrance;
use crate::far::Far;
use crate::life::{Death, Life};
use crate::onlooker::Step;
use crate::papers::{Application, Papers};
use crate::plan::{APIS, Upheaval, UpheavalKind};
use crate::site::Site;
use crate::statements::Statements;
use crate::time::{ProcessClock, sleep_ms};
use crate::trace::{What, Who};
use crate::watch::OUTSIDER;

/// Calls of a downstream at once, per process; few enough that they get in each other's way.
const LIMITS: Limits = Limits {
    max_concurrent_calls: 4,
    queue_wait_ms: 100,
    budget: BudgetLimits { calls_per_s: 100, burst_calls: 20 },
    breaker: BreakerLimits { failures_to_open: 5, open_ms: 1_000, max_open_ms: 30_000, probes: 1 },
};

/// How long an event, or a notification, is left to the process that works on it.
const CLAIM_MS: u64 = 15_000;

/// How long after its arrival an event is given up: nothing here takes longer to be confirmed or excluded.
const GIVE_UP_AFTER_MS: u64 = 24 * 60 * 60 * 1_000;

/// Pause between two looks into the outbox.
const OUTBOX_POLL_MS: u64 = 60_000;

/// Most that a process carries at once.
const MAX_IN_FLIGHT: usize = 64;

/// Every process.
pub(crate) struct Cast {
    site: Arc<Site>,
    running: Mutex<Vec<Running>>,
    deaths: UnboundedSender<Death>,
}

#[derive(Clone)]
struct Running {
    life: Arc<Life>,
    entrance: Option<CallbackEntrance>,
}

impl Cast {
    /// Starts everybody.
    pub(crate) fn start(site: &Arc<Site>) -> Arc<Cast> {
        let (deaths, died) = unbounded_channel();
        let cast = Arc::new(Cast { site: Arc::clone(site), running: Mutex::default(), deaths });
        let processes = APIS + site.plan.scanners;
        for place in 0..processes {
            let running = cast.bring_up(place);
            cast.running().push(running);
        }
        if let Some(letters) = site.letter_box() {
            tokio::spawn(channel::carry(Arc::clone(&cast), letters));
        }
        tokio::spawn(restart(Arc::clone(&cast), died));
        for upheaval in site.plan.upheavals.clone() {
            tokio::spawn(befall(Arc::clone(&cast), upheaval));
        }
        cast
    }

    /// The entrance of a process that takes requests; `None` while it is down.
    pub(crate) fn api(&self, number: u64) -> Option<Arc<Work>> {
        self.callback_entrance(number).map(|entrance| entrance.work)
    }

    /// The same, for callbacks.
    pub(crate) fn callback_entrance(&self, number: u64) -> Option<CallbackEntrance> {
        let place = usize::try_from(number % u64::from(APIS)).unwrap_or(0);
        let running = self.running();
        let process = &running[place];
        if process.life.stop.is_cancelled() { None } else { process.entrance.clone() }
    }

    pub(crate) fn site(&self) -> &Arc<Site> {
        &self.site
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn life(&self, place: u8) -> Arc<Life> {
        Arc::clone(&self.running()[usize::from(place)].life)
    }

    fn bring_up(&self, place: u8) -> Running {
        let site = &self.site;
        let who = if place < APIS { Who::Api(place) } else { Who::Scanner(place - APIS) };
        let life = Life::new(site, who, place, self.deaths.clone());
        let mut draw = site.draw(Topic::Jitter, i64::from(place));
        let drift_ppm = i64::try_from(draw.between(0, 400)).unwrap_or(0) - 200;
        let clock: Arc<dyn Clock> =
            Arc::new(ProcessClock::new(Arc::clone(&site.time), draw.between(0, 1 << 30), drift_ppm));
        let jitter: Arc<dyn Jitter> = Arc::new(SeededJitter::new(draw.between(0, u64::MAX - 1)));
        let store: Arc<dyn FlowStore> = Arc::new(Statements::new(Arc::clone(&life)));
        let entrance = if place < APIS {
            Some(self.bring_up_api(&life, store, clock, jitter))
        } else {
            self.bring_up_scanner(&life, store, clock, jitter);
            None
        };
        Running { life, entrance }
    }

    fn advancer(
        &self,
        life: &Arc<Life>,
        store: &Arc<dyn FlowStore>,
        wake: Arc<dyn WakeQueue>,
        clock: Arc<dyn Clock>,
        jitter: Arc<dyn Jitter>,
    ) -> Arc<Advancer> {
        let plan = &self.site.plan;
        let far = Arc::new(Far::new(Arc::clone(life)));
        let (wallet, business): (Arc<dyn Wallet>, Arc<dyn Business>) = (Arc::clone(&far) as _, far);
        let downstreams = Downstreams::builder(Arc::clone(&clock))
            .wallet(samples::wallet_name(), wallet, plan.wallet_rules, LIMITS)
            .business(samples::business_name(), business, plan.business_rules, LIMITS)
            .build();
        let store = Arc::clone(store);
        Arc::new(Advancer::new(store, downstreams, wake, clock, jitter, plan.settings.clone()))
    }

    /// As `pay-api` does it.
    fn bring_up_api(
        &self,
        life: &Arc<Life>,
        store: Arc<dyn FlowStore>,
        clock: Arc<dyn Clock>,
        jitter: Arc<dyn Jitter>,
    ) -> CallbackEntrance {
        let plan = &self.site.plan;
        let options = TimerOptions { max_flows: 4, max_parallel_flows: 2, bound_ms: plan.timer_bound_ms };
        let (timer, driver) = Timer::new(options);
        let wake = Arc::new(Wakes { life: Arc::clone(life), timer });
        let advancer = self.advancer(life, &store, wake, clock, Arc::clone(&jitter));
        let changes = Arc::new(Changes::new(MAX_IN_FLIGHT));
        let budget_ms = plan.call_budget_ms;
        let handler =
            TimedAdvance { advancer: Arc::clone(&advancer), changes: Arc::clone(&changes), budget_ms };
        tokio::spawn(driver.run(Arc::new(handler), life.stop.clone()));
        let callbacks = self.callbacks(life, &store, &advancer, jitter);
        let lock = Arc::new(Entrance::new(Arc::clone(life)));
        let work = Arc::new(Work::new(store, advancer, changes, lock, MAX_IN_FLIGHT, budget_ms));
        CallbackEntrance { callbacks, work }
    }

    fn callbacks(
        &self,
        life: &Arc<Life>,
        store: &Arc<dyn FlowStore>,
        advancer: &Arc<Advancer>,
        jitter: Arc<dyn Jitter>,
    ) -> Arc<Callbacks> {
        let settings = CallbackSettings {
            claim_ms: CLAIM_MS,
            retry: Schedule::new(vec![1_000, 5_000, 30_000, 300_000]).expect("delays within the limits"),
            give_up_after_ms: GIVE_UP_AFTER_MS,
            budget_ms: self.site.plan.call_budget_ms,
        };
        let inbox = Arc::new(Papers::new(Arc::clone(life)));
        Arc::new(Callbacks::new(inbox, Arc::clone(store), Arc::clone(advancer), jitter, settings))
    }

    fn notifier(life: &Arc<Life>, clock: Arc<dyn Clock>, jitter: Arc<dyn Jitter>) -> Arc<Notifier> {
        let receivers = applications().into_iter().fold(Receivers::new(Arc::clone(&clock)), |all, caller| {
            all.with(caller, Arc::new(Application::new(Arc::clone(life))), LIMITS)
        });
        let settings = NotifySettings {
            claim_ms: CLAIM_MS,
            poll_interval_ms: OUTBOX_POLL_MS,
            retry: RetryPlan::new(vec![1_000, 30_000, 300_000], 60_000).expect("delays within the limits"),
        };
        let outbox = Arc::new(Papers::new(Arc::clone(life)));
        Arc::new(Notifier::new(outbox, receivers, clock, jitter, settings))
    }

    /// As `pay-scanner` does it, but for rounds that would find nothing.
    fn bring_up_scanner(
        &self,
        life: &Arc<Life>,
        store: Arc<dyn FlowStore>,
        clock: Arc<dyn Clock>,
        jitter: Arc<dyn Jitter>,
    ) {
        let plan = &self.site.plan;
        let first = jitter.draw().of(u64::from(plan.partitions));
        let advancer = self.advancer(life, &store, Arc::new(NoWake), Arc::clone(&clock), Arc::clone(&jitter));
        let callbacks = self.callbacks(life, &store, &advancer, Arc::clone(&jitter));
        let events = InboxSettings { page_rows: plan.page_rows, max_parallel_events: 3 };
        tokio::spawn(inbox_rounds(Arc::clone(life), InboxSweep::new(Arc::clone(&store), callbacks, events)));
        let notifier = Cast::notifier(life, Arc::clone(&clock), jitter);
        tokio::spawn(deliver(Arc::clone(life), notifier));
        let advance = AdvanceDue::new(Arc::clone(&store), advancer, plan.call_budget_ms);
        let settings =
            SweepSettings { partitions: plan.partitions, page_rows: plan.page_rows, max_parallel_flows: 3 };
        let sweep = Sweep::new(store, Arc::new(advance), clock, settings);
        tokio::spawn(rounds(Arc::clone(life), sweep, u32::try_from(first).unwrap_or(0)));
    }
}

/// Rounds until the process ends. A round that would find nothing due is left out, which makes hours cheap: it would
/// write nothing.
async fn rounds(life: Arc<Life>, sweep: Sweep, mut first_partition: u32) {
    let site = Arc::clone(&life.site);
    let partitions = sweep.settings().partitions;
    while !life.stop.is_cancelled() {
        due(&site, || site.store.next_due()).await;
        // A round that failed starts over like any other; it has reported itself.
        drop(sweep.round(first_partition, &life.stop).await);
        first_partition = (first_partition + 1) % partitions;
        // Without anything to discover, fewer rounds will do.
        let least_ms = if site.is_calm() { 30_000 } else { 0 };
        let pause = sleep_ms(site.plan.round_interval_ms.max(least_ms));
        life.stop.run_until_cancelled(pause).await;
    }
}

/// Rounds over what channels said, likewise.
async fn inbox_rounds(life: Arc<Life>, sweep: InboxSweep) {
    let site = Arc::clone(&life.site);
    while !life.stop.is_cancelled() {
        due(&site, || site.inbox.next_due()).await;
        drop(sweep.round(&life.stop).await);
        life.stop.run_until_cancelled(sleep_ms(site.plan.round_interval_ms)).await;
    }
}

/// Tells applications, until the process ends.
async fn deliver(life: Arc<Life>, notifier: Arc<Notifier>) {
    notifier.run(&life.stop).await;
}

/// Who is told of flows.
pub(crate) fn applications() -> Vec<CallerId> {
    ["shop", "rival"].into_iter().map(samples::caller_named).collect()
}

/// Waits until something is due.
async fn due(site: &Site, next: impl Fn() -> Option<DateTime<Utc>>) {
    loop {
        let changed = site.changed.notified();
        site.time.sync();
        let wait_ms = match next() {
            None => None,
            Some(due) => {
                let wait_ms = (due - site.time.database.now()).num_milliseconds();
                Some(u64::try_from(wait_ms).unwrap_or(0))
            }
        };
        match wait_ms {
            Some(0) => return,
            Some(wait_ms) => {
                let waited = std::time::Duration::from_millis(wait_ms);
                // Either end is a reason to look again.
                drop(tokio::time::timeout(waited, changed).await);
            }
            None => changed.await,
        }
    }
}

async fn restart(cast: Arc<Cast>, mut died: UnboundedReceiver<Death>) {
    while let Some(Death { place, down_ms }) = died.recv().await {
        let cast = Arc::clone(&cast);
        tokio::spawn(async move {
            // Nobody stays down once all is calm.
            let most_ms = if cast.site.is_calm() { 0 } else { down_ms };
            sleep_ms(most_ms).await;
            let running = cast.bring_up(place);
            cast.site.note(running.life.who, What::Process("starts", 0));
            cast.running()[usize::from(place)] = running;
        });
    }
}

async fn befall(cast: Arc<Cast>, upheaval: Upheaval) {
    sleep_ms(upheaval.at_ms).await;
    let site = &cast.site;
    if !site.allows(&site.dice.at(upheaval.point)) {
        return;
    }
    let fault = |what| What::Fault(upheaval.point, what, upheaval.for_ms);
    match upheaval.kind {
        UpheavalKind::WalletRefuses
        | UpheavalKind::WalletSilent
        | UpheavalKind::BusinessRefuses
        | UpheavalKind::BusinessSilent
        | UpheavalKind::DatabaseAway => site.note(Who::World, fault("an outage begins")),
        UpheavalKind::Kill(place) => {
            site.note(Who::World, fault("a process is killed"));
            cast.life(place).crash(upheaval.for_ms);
        }
        UpheavalKind::Deploy(place) => {
            let life = cast.life(place);
            site.note(life.who, fault("is told to stop"));
            life.stop.cancel();
            sleep_ms(upheaval.for_ms.min(10_000)).await;
            life.crash(upheaval.for_ms);
        }
        UpheavalKind::Stall(place) => {
            let life = cast.life(place);
            site.note(life.who, fault("stands still"));
            life.stall_until(site.time.now_ms() + upheaval.for_ms);
        }
        UpheavalKind::LeasesBreak => {
            site.note(Who::Database, fault("every lease breaks"));
            site.store.break_leases();
        }
        UpheavalKind::Outsider(target) => {
            site.note(Who::Business, fault("an outsider buys the benefit"));
            outsider(site, target);
        }
    }
}

/// Buys the benefit of a target for an order that is not ours, if it can still be had.
fn outsider(site: &Site, target: i64) {
    let target = samples::target(target, &format!("R:{target}"));
    let order = pay_sim::ledger::Execution {
        trade_order_no: format!("{OUTSIDER}{}", target.biz_key),
        target: pay_sim::ledger::Target {
            user_id: u64::try_from(target.user_id.get()).unwrap_or(1),
            scene: target.scene.to_string(),
            biz_key: target.biz_key.to_string(),
        },
        not_after_ms: i64::MAX,
    };
    site.time.sync();
    site.business.with(|world, now_ms| drop(world.execute(&order, now_ms)));
    site.show(Step::Arrived);
}

/// The timer of a process, until its death; it sometimes has no room.
struct Wakes {
    life: Arc<Life>,
    timer: Timer,
}

#[async_trait]
impl WakeQueue for Wakes {
    async fn wake_after(&self, flow_id: FlowId, version: Version, delay_ms: u64) -> Result<(), WakeError> {
        self.life.pass().await;
        let site = &self.life.site;
        let mut draw = site.draw_for_flow(Topic::Wake, flow_id.get());
        if draw.chance(site.plan.store_trouble) && site.allows(&draw) {
            site.note(self.life.who, What::Fault(draw.point, "wake-up not taken", 0));
            return Err(WakeError::Full);
        }
        self.timer.wake_after(flow_id, version, delay_ms).await
    }
}
