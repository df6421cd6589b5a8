//! One run of one world, from its seed to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flow_core::create::PaymentRequest;
use flow_core::flow::Flow;
use flow_core::ports::{NotifiedCaller, Outbox as _};
use flow_testkit::fakes::Switches;
use flow_testkit::mutants::Subject;
use tokio::task::JoinSet;

use crate::cast::{Cast, applications};
use crate::clients::Client;
use crate::dice::{Dice, Point};
use crate::mind::Installed;
use crate::onlooker::{Onlooker, Seat};
use crate::people;
use crate::plan::Plan;
use crate::site::Site;
use crate::time::sleep_ms;
use crate::trace::{Line, What, Who};
use crate::watch::end_of;

/// How long a calm world may take to bring every flow to its end: the longest retry interval several times over.
const PATIENCE_MS: u64 = 16 * 60 * 60 * 1_000;

/// Which run.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Everything follows from it.
    pub seed: u64,
    /// The product, or the product with a fault.
    pub subject: Subject,
    /// How wallet and business system break their contracts; not at all unless told so. That a wallet cannot close an
    /// order is up to the world.
    pub far_side: Switches,
    /// Every call that changes something arrives twice, if nothing else goes wrong with it; also once all is calm.
    pub doubled: bool,
    /// Incidents that are left out.
    pub left_out: BTreeSet<Point>,
    /// Without random latencies.
    pub plain: bool,
    /// Keep the events, not only their digest.
    pub keep_trace: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Over every event.
    pub digest: u64,
    /// How many events.
    pub events: u64,
    /// The events, if they were kept.
    pub lines: Vec<Line>,
    /// What could be left out of a repetition.
    pub incidents: BTreeSet<Point>,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Flows by how they ended.
    pub ends: BTreeMap<&'static str, u64>,
    /// How many flows.
    pub flows: u64,
    /// How much virtual time passed, in milliseconds.
    pub virtual_ms: u64,
    /// The first broken promise.
    pub broken: Option<String>,
}

/// Runs it.
///
/// # Panics
/// If no runtime can be made.
pub fn run(setup: &Setup) -> Ran {
    run_with(setup, None)
}

/// Runs it before an onlooker, who is the only one to judge it: [`Ran::broken`] is the first objection.
///
/// # Panics
/// If no runtime can be made.
pub fn run_before(setup: &Setup, onlooker: Box<Onlooker>) -> Ran {
    run_with(setup, Some(onlooker))
}

fn run_with(setup: &Setup, onlooker: Option<Box<Onlooker>>) -> Ran {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing from the system");
    runtime.block_on(play(setup, Seat::of(onlooker)))
}

async fn play(setup: &Setup, onlooker: Seat) -> Ran {
    let dice = Dice::new(setup.seed, setup.left_out.clone());
    let plan = Plan::draw(&dice);
    let site = Arc::new(Site::new(plan, dice, setup, onlooker));
    let _installed = Installed::for_run(&site);
    let told = applications().into_iter().map(|caller| NotifiedCaller { caller, is_enabled: true });
    site.store.set_callers(&told.collect::<Vec<_>>()).await.expect("nothing goes wrong yet");
    let cast = Cast::start(&site);
    let mut clients = JoinSet::new();
    for plan in site.plan.clients.clone() {
        site.trace().incident(plan.point);
        if !setup.left_out.contains(&plan.point) {
            let (site, cast) = (Arc::clone(&site), Arc::clone(&cast));
            let client = Client { site, cast, plan, refused: Vec::new() };
            clients.spawn(client.live());
        }
    }
    for act in site.plan.acts.clone() {
        if !setup.left_out.contains(&act.point) {
            tokio::spawn(people::act(Arc::clone(&site), Arc::clone(&cast), act));
        }
    }
    storm(&site).await;
    if !site.is_broken() {
        site.calm_down();
    }
    site.changed.notify_waiters();
    if site.plan.people_release {
        tokio::spawn(people::clear_up(Arc::clone(&site), Arc::clone(&cast)));
    }
    let refused = settle(&site, &mut clients).await;
    if !site.is_broken() {
        site.check_end();
        site.check_refusals(&refused).await;
    }
    report(&site)
}

/// Things go wrong for a while.
async fn storm(site: &Site) {
    let end = async {
        while !site.is_broken() {
            site.changed.notified().await;
        }
    };
    drop(tokio::time::timeout(Duration::from_millis(site.plan.storm_ms), end).await);
}

/// Waits until nobody has anything left to do, or for too long. Returns what clients were told was not recorded.
async fn settle(site: &Site, clients: &mut JoinSet<Vec<PaymentRequest>>) -> Vec<PaymentRequest> {
    let mut refused = Vec::new();
    let limit_ms = site.time.now_ms() + PATIENCE_MS;
    while !site.is_broken() && site.time.now_ms() < limit_ms {
        while let Some(ended) = clients.try_join_next() {
            refused.extend(ended.expect("a client that panics is a defect of the simulation"));
        }
        if clients.is_empty() && is_quiet(site) {
            // Whoever stands still wakes up some day, with old news.
            sleep_ms(site.plan.longest_stall_ms + 30_000).await;
            if is_quiet(site) {
                break;
            }
        }
        let changed = site.changed.notified();
        drop(tokio::time::timeout(Duration::from_secs(60), changed).await);
    }
    refused
}

fn is_quiet(site: &Site) -> bool {
    let held = |flow: &Flow| flow.hold.is_some() && !flow.state.is_terminal() && !site.is_overcharged(flow);
    let waits_for_people = site.plan.people_release && site.store.flows().iter().any(held);
    site.is_settled() && site.is_said() && !site.awaits_delivery() && !waits_for_people
}

fn report(site: &Site) -> Ran {
    site.note(Who::World, What::Phase("the end"));
    let mut ends = BTreeMap::new();
    let flows = site.store.flows();
    for flow in &flows {
        *ends.entry(end_of(flow)).or_default() += 1;
    }
    let trace = site.trace();
    Ran {
        digest: trace.digest(),
        events: trace.events(),
        lines: trace.lines().to_vec(),
        incidents: trace.incidents().iter().copied().collect(),
        faults: trace.faults().clone(),
        ends,
        flows: u64::try_from(flows.len()).unwrap_or(0),
        virtual_ms: site.time.now_ms(),
        broken: trace.broken().map(str::to_owned),
    }
}
