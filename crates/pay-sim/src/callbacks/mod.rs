//! Callbacks that the wallet sends of its own accord (`contracts/callbacks.yaml`), signed by the Standard Webhooks scheme,
//! and as badly as a plan says: doubled, late, out of order, with forged ones among them, or before the call's own answer.
//!
//! Not durable: what was not delivered when the process ends is lost, as it is with real channels.

mod event;
mod sign;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

pub use event::Event;
pub use sign::{BadSecret, Secret};

/// Deliveries under way at once.
const MAX_AT_ONCE: usize = 64;
/// Deliveries that may wait; more are dropped, and counted.
const MAX_WAITING: usize = 100_000;
/// How often an event is told in all before its receiver is given up.
const MAX_TRIES: u32 = 5;
/// Between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Longest time of one delivery.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest delay that a plan may ask for, in milliseconds.
const MAX_DELAY_MS: u64 = 3_600_000;
/// Most copies of one event.
const MAX_COPIES: u32 = 100;

/// Where callbacks go, and what goes wrong with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Where they are posted.
    pub url: String,
    /// `whsec_` and base64.
    #[serde(skip_serializing)]
    pub secret: String,
    /// How often each is delivered; 2 is doubled.
    #[serde(default = "one")]
    pub copies: u32,
    /// How late each is, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Each delivery waits up to so long on top, by chance: they overtake each other. In milliseconds.
    #[serde(default)]
    pub shuffle_ms: u64,
    /// How many of a thousand events have a forged one beside them, which claims another amount.
    #[serde(default)]
    pub forged_permille: u32,
    /// The call's own answer waits until the first delivery was answered, within its time limit.
    #[serde(default)]
    pub before_response: bool,
    /// Seed of chance.
    #[serde(default)]
    pub seed: u64,
}

const fn one() -> u32 {
    1
}

/// Why a plan is not accepted. The one before stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPlan {
    /// Not an address to post to.
    #[error("url must be http://… with a host")]
    Url,
    /// No secret.
    #[error(transparent)]
    Secret(#[from] BadSecret),
    /// A number is out of its range.
    #[error(
        "copies are 1 to {MAX_COPIES}, forged_permille is at most 1000, times are at most {MAX_DELAY_MS} ms"
    )]
    Range,
}

/// What became of deliveries so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Events that were to be told.
    pub events: u64,
    /// Deliveries that were accepted (2xx).
    pub accepted: u64,
    /// Deliveries of genuine events that were refused, each try.
    pub refused: u64,
    /// Deliveries that got no answer, each try.
    pub unanswered: u64,
    /// Events, or copies, that were given up or dropped.
    pub lost: u64,
    /// Forged deliveries.
    pub forged: u64,
    /// Forged deliveries that were accepted all the same.
    pub forged_accepted: u64,
    /// Deliveries that wait or are under way.
    pub under_way: u64,
}

#[derive(Debug, Default)]
struct Counters {
    events: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    lost: AtomicU64,
    forged: AtomicU64,
    forged_accepted: AtomicU64,
    under_way: AtomicU64,
}

#[derive(Debug)]
struct Active {
    plan: Plan,
    secret: Secret,
    chance: Mutex<StdRng>,
}

/// Sends callbacks, once it has a plan.
#[derive(Debug)]
pub struct Callbacks {
    active: Mutex<Option<Arc<Active>>>,
    counters: Arc<Counters>,
    places: Arc<Semaphore>,
    client: reqwest::Client,
}

impl Callbacks {
    /// Without a plan: sends nothing.
    #[must_use]
    pub fn new() -> Callbacks {
        // Whoever comes second finds a provider installed, which is all that is wanted.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build();
        Callbacks {
            active: Mutex::default(),
            counters: Arc::default(),
            places: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            client: client.expect("a client without TLS files to read can always be built"),
        }
    }

    /// Sends by this plan from now on.
    ///
    /// # Errors
    /// [`BadPlan`].
    pub fn set(&self, plan: Plan) -> Result<(), BadPlan> {
        let secret = Secret::parse(&plan.secret)?;
        let url = reqwest::Url::parse(&plan.url).map_err(|_| BadPlan::Url)?;
        if url.scheme() != "http" || !url.has_host() {
            return Err(BadPlan::Url);
        }
        let in_range = (1..=MAX_COPIES).contains(&plan.copies)
            && plan.forged_permille <= 1_000
            && plan.delay_ms.max(plan.shuffle_ms) <= MAX_DELAY_MS;
        if !in_range {
            return Err(BadPlan::Range);
        }
        let chance = Mutex::new(StdRng::seed_from_u64(plan.seed));
        *lock(&self.active) = Some(Arc::new(Active { plan, secret, chance }));
        Ok(())
    }

    /// Sends nothing from now on; what is on its way goes on.
    pub fn clear(&self) {
        *lock(&self.active) = None;
    }

    /// The plan, without its secret.
    #[must_use]
    pub fn plan(&self) -> Option<Plan> {
        lock(&self.active).as_ref().map(|active| active.plan.clone())
    }

    /// What became of deliveries so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let counters = &*self.counters;
        Counts {
            events: read(&counters.events),
            accepted: read(&counters.accepted),
            refused: read(&counters.refused),
            unanswered: read(&counters.unanswered),
            lost: read(&counters.lost),
            forged: read(&counters.forged),
            forged_accepted: read(&counters.forged_accepted),
            under_way: read(&counters.under_way),
        }
    }

    /// Tells of an event, by the plan. Returns at once, unless the plan wants the caller to wait.
    pub async fn tell(&self, event: Event) {
        let Some(active) = lock(&self.active).clone() else { return };
        self.counters.events.fetch_add(1, Ordering::SeqCst);
        let mut first = None;
        for _ in 0..active.plan.copies {
            let sent = self.send(&active, event.clone(), true);
            first = first.or(sent);
        }
        let forged = lock(&active.chance).random_range(0..1_000) < active.plan.forged_permille;
        if forged {
            self.send(&active, event.forged(), false);
        }
        if let Some(first) = first.filter(|_| active.plan.before_response) {
            drop(tokio::time::timeout(TIMEOUT, first).await);
        }
    }

    /// Begins one delivery; `None` if there are too many already.
    fn send(
        &self,
        active: &Arc<Active>,
        event: Event,
        is_genuine: bool,
    ) -> Option<tokio::task::JoinHandle<()>> {
        let counters = Arc::clone(&self.counters);
        if counters.under_way.fetch_add(1, Ordering::SeqCst) >= MAX_WAITING as u64 {
            counters.under_way.fetch_sub(1, Ordering::SeqCst);
            counters.lost.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        let plan = &active.plan;
        let shuffled_ms = lock(&active.chance).random_range(0..=plan.shuffle_ms);
        let wait = Duration::from_millis(plan.delay_ms + shuffled_ms);
        let delivery = Delivery {
            client: self.client.clone(),
            active: Arc::clone(active),
            counters: Arc::clone(&self.counters),
            places: Arc::clone(&self.places),
        };
        Some(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            if is_genuine {
                delivery.genuine(&event).await;
            } else {
                delivery.forged(&event).await;
            }
            counters.under_way.fetch_sub(1, Ordering::SeqCst);
        }))
    }
}

impl Default for Callbacks {
    fn default() -> Callbacks {
        Callbacks::new()
    }
}

struct Delivery {
    client: reqwest::Client,
    active: Arc<Active>,
    counters: Arc<Counters>,
    places: Arc<Semaphore>,
}

impl Delivery {
    /// Told until it is accepted, a bounded number of times.
    async fn genuine(&self, event: &Event) {
        for _ in 0..MAX_TRIES {
            let counter = match self.post(event, &self.active.secret).await {
                Some(true) => {
                    self.counters.accepted.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                Some(false) => &self.counters.refused,
                None => &self.counters.unanswered,
            };
            counter.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        self.counters.lost.fetch_add(1, Ordering::SeqCst);
    }

    /// Told once, signed with a secret that is not the channel's.
    async fn forged(&self, event: &Event) {
        self.counters.forged.fetch_add(1, Ordering::SeqCst);
        if self.post(event, &Secret::forger()).await == Some(true) {
            self.counters.forged_accepted.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether it was accepted; `None` without an answer.
    async fn post(&self, event: &Event, secret: &Secret) -> Option<bool> {
        let _place = self.places.acquire().await.ok()?;
        let body = event.body();
        let timestamp = (crate::sim::now_ms() / 1_000).to_string();
        let answer = self
            .client
            .post(&self.active.plan.url)
            .header("Content-Type", "application/json")
            .header("webhook-id", &event.id)
            .header("webhook-timestamp", &timestamp)
            .header("webhook-signature", secret.sign(&event.id, &timestamp, &body))
            .body(body)
            .send()
            .await;
        answer.ok().map(|answer| answer.status().is_success())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
