//! The downstream systems by name, each behind its own gate: concurrency limit, rate budget, circuit breaker.
//!
//! A call that the gate refuses was surely not made: the flow is left as it is, due, and its retry count is not burnt. Knows
//! the ports and the rules that belong to a downstream; knows nothing of flows' states.

mod breaker;
mod budget;
mod receivers;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{counter, gauge, histogram};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use breaker::{Breaker, BreakerLimits, Pass};
pub use budget::{Budget, BudgetLimits};
pub use receivers::Receivers;

use crate::answer::{Answered, Classified, NoAnswer, UnavailableCause};
use crate::crash::{Spot, around};
use crate::decide::Rules;
use crate::flow::Flow;
use crate::ids::DownstreamName;
use crate::ports::{Business, Clock, Wallet};

/// What one downstream may be asked to bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls under way at once.
    pub max_concurrent_calls: u32,
    /// Longest wait for a free place or for the rate budget, in milliseconds; past it the call is refused.
    pub queue_wait_ms: u64,
    /// The rate budget.
    pub budget: BudgetLimits,
    /// The breaker.
    pub breaker: BreakerLimits,
}

/// How long a call waits for its turn before its gate refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// As long as [`Limits::queue_wait_ms`] says: somebody else carries the flow on, or it comes back by itself.
    Eager,
    /// [`PATIENCE`] times as long. For what keeps its place in a line: the scanner's calls, which come by the age of
    /// their flows, and calls that finish what the same step began (the debit after its query, the fact after its
    /// execution). Half a step is a call thrown away, and a backlog in which new queries crowd out the debits of old
    /// ones does not move.
    Patient,
}

/// How many times longer a patient call waits.
pub const PATIENCE: u64 = 20;

impl Turn {
    const fn queue_wait_ms(self, limits: &Limits) -> u64 {
        match self {
            Turn::Eager => limits.queue_wait_ms,
            Turn::Patient => limits.queue_wait_ms.saturating_mul(PATIENCE),
        }
    }
}

/// What of a wallet the decisions depend on; see [`Rules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalletRules {
    /// See [`Rules::wallet_can_close`].
    pub can_close: bool,
    /// See [`Rules::wallet_in_flight_grace_ms`].
    pub in_flight_grace_ms: u64,
    /// See [`Rules::refund_tries_before_hold`].
    pub refund_tries_before_hold: u32,
}

/// What of a business system the decisions depend on; see [`Rules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusinessRules {
    /// See [`Rules::settle_margin_ms`].
    pub settle_margin_ms: u64,
    /// See [`Rules::business_unreadable_hold_ms`].
    pub unreadable_hold_ms: u64,
}

struct Entry<P: ?Sized, R> {
    port: Arc<P>,
    rules: R,
    gate: Gate,
}

/// The configured wallets and business systems.
pub struct Downstreams {
    wallets: HashMap<DownstreamName, Entry<dyn Wallet, WalletRules>>,
    businesses: HashMap<DownstreamName, Entry<dyn Business, BusinessRules>>,
}

/// Collects the downstream systems of a process.
pub struct DownstreamsBuilder {
    clock: Arc<dyn Clock>,
    downstreams: Downstreams,
}

impl Downstreams {
    /// Starts with none.
    pub fn builder(clock: Arc<dyn Clock>) -> DownstreamsBuilder {
        DownstreamsBuilder {
            clock,
            downstreams: Downstreams { wallets: HashMap::new(), businesses: HashMap::new() },
        }
    }

    /// The rules that hold for a flow: those of its own wallet and business system. A name that is not configured
    /// here gives rules under which nothing is ever concluded from time alone.
    pub fn rules(&self, flow: &Flow) -> Rules {
        let wallet = self.wallets.get(&flow.wallet).map_or(
            WalletRules { can_close: true, in_flight_grace_ms: NEVER_MS, refund_tries_before_hold: u32::MAX },
            |entry| entry.rules,
        );
        let business =
            self.businesses.get(&flow.business).map_or(
                BusinessRules { settle_margin_ms: NEVER_MS, unreadable_hold_ms: NEVER_MS },
                |entry| entry.rules,
            );
        Rules {
            wallet_can_close: wallet.can_close,
            wallet_in_flight_grace_ms: wallet.in_flight_grace_ms,
            refund_tries_before_hold: wallet.refund_tries_before_hold,
            settle_margin_ms: business.settle_margin_ms,
            business_unreadable_hold_ms: business.unreadable_hold_ms,
        }
    }

    /// Calls a wallet through its gate, between the crash points of its spot.
    ///
    /// # Errors
    /// [`NoAnswer::Unavailable`] when the call was not made.
    pub async fn call_wallet<A, F>(
        &self,
        name: &DownstreamName,
        spot: Spot,
        action: &'static str,
        turn: Turn,
        call: impl FnOnce(Arc<dyn Wallet>) -> F,
    ) -> Result<(Answered<A>, u32), NoAnswer>
    where
        A: Classified,
        F: Future<Output = Answered<A>>,
    {
        let entry = self.wallets.get(name).ok_or(NOT_CONFIGURED)?;
        entry.gate.call(spot, action, turn, || call(Arc::clone(&entry.port))).await
    }

    /// Calls a business system through its gate, between the crash points of its spot.
    ///
    /// # Errors
    /// [`NoAnswer::Unavailable`] when the call was not made.
    pub async fn call_business<A, F>(
        &self,
        name: &DownstreamName,
        spot: Spot,
        action: &'static str,
        turn: Turn,
        call: impl FnOnce(Arc<dyn Business>) -> F,
    ) -> Result<(Answered<A>, u32), NoAnswer>
    where
        A: Classified,
        F: Future<Output = Answered<A>>,
    {
        let entry = self.businesses.get(name).ok_or(NOT_CONFIGURED)?;
        entry.gate.call(spot, action, turn, || call(Arc::clone(&entry.port))).await
    }
}

/// Ten thousand years: longer than any deadline, and still far inside the range of a date.
const NEVER_MS: u64 = 315_360_000_000_000;

/// How long a flow waits for its downstream to be configured, in milliseconds.
const NOT_CONFIGURED_RETRY_MS: u64 = 60_000;

const NOT_CONFIGURED: NoAnswer = NoAnswer::Unavailable {
    cause: UnavailableCause::NotConfigured,
    retry_after_ms: Some(NOT_CONFIGURED_RETRY_MS),
};

impl DownstreamsBuilder {
    /// Adds a wallet; a name given twice keeps the last.
    #[must_use]
    pub fn wallet(
        mut self,
        name: DownstreamName,
        port: Arc<dyn Wallet>,
        rules: WalletRules,
        limits: Limits,
    ) -> DownstreamsBuilder {
        let gate = Gate::new(name.to_string(), limits, Arc::clone(&self.clock));
        self.downstreams.wallets.insert(name, Entry { port, rules, gate });
        self
    }

    /// Adds a business system; a name given twice keeps the last.
    #[must_use]
    pub fn business(
        mut self,
        name: DownstreamName,
        port: Arc<dyn Business>,
        rules: BusinessRules,
        limits: Limits,
    ) -> DownstreamsBuilder {
        let gate = Gate::new(name.to_string(), limits, Arc::clone(&self.clock));
        self.downstreams.businesses.insert(name, Entry { port, rules, gate });
        self
    }

    /// The finished set.
    pub fn build(self) -> Downstreams {
        self.downstreams
    }
}

struct Gate {
    name: String,
    limits: Limits,
    clock: Arc<dyn Clock>,
    places: Arc<Semaphore>,
    budget: Mutex<Budget>,
    breaker: Mutex<Breaker>,
}

/// The right to make one call; dropped without an outcome, it counts as abandoned.
struct Permit<'a> {
    gate: &'a Gate,
    pass: Option<Pass>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.gate.with_breaker(|breaker| breaker.abandoned(pass));
        }
    }
}

impl Gate {
    fn new(name: String, limits: Limits, clock: Arc<dyn Clock>) -> Gate {
        Gate {
            name,
            limits,
            clock,
            places: Arc::new(Semaphore::new(limits.max_concurrent_calls.max(1) as usize)),
            budget: Mutex::new(Budget::new(limits.budget)),
            breaker: Mutex::new(Breaker::new(limits.breaker)),
        }
    }

    async fn call<A, F>(
        &self,
        spot: Spot,
        action: &'static str,
        turn: Turn,
        call: impl FnOnce() -> F,
    ) -> Result<(Answered<A>, u32), NoAnswer>
    where
        A: Classified,
        F: Future<Output = Answered<A>>,
    {
        let mut permit = match self.enter(turn).await {
            Ok(permit) => permit,
            Err(refused) => {
                self.count(action, refused.as_str());
                return Err(refused);
            }
        };
        let started_ms = self.clock.monotonic_ms();
        let answered = around!(spot, call().await);
        let ended_ms = self.clock.monotonic_ms();
        let took_ms = u32::try_from(ended_ms - started_ms).unwrap_or(u32::MAX);
        if let Some(pass) = permit.pass.take() {
            match answered.answer.no_answer() {
                None => self.with_breaker(|breaker| breaker.succeeded(pass)),
                Some(_) => self.with_breaker(|breaker| breaker.failed(pass, ended_ms)),
            }
        }
        self.count(action, answered.answer.label());
        histogram!("downstream_call_ms", "downstream" => self.name.clone(), "action" => action)
            .record(took_ms);
        Ok((answered, took_ms))
    }

    async fn enter(&self, turn: Turn) -> Result<Permit<'_>, NoAnswer> {
        // An open breaker or a spent budget answers before anybody queues for a place.
        let peeked = self.with_breaker(|breaker| breaker.peek(self.clock.monotonic_ms()));
        peeked.map_err(|wait_ms| unavailable(UnavailableCause::BreakerOpen, wait_ms))?;
        let spent = self.with_budget(|budget| budget.wait_ms(self.clock.monotonic_ms()));
        let queue_wait_ms = turn.queue_wait_ms(&self.limits);
        if spent > queue_wait_ms {
            return Err(unavailable(UnavailableCause::BudgetSpent, spent));
        }
        let wait = Duration::from_millis(queue_wait_ms);
        let place = match tokio::time::timeout(wait, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => place,
            // The semaphore is never closed; either way nothing was sent.
            Ok(Err(_)) | Err(_) => {
                return Err(unavailable(UnavailableCause::BudgetSpent, queue_wait_ms));
            }
        };
        let booked = self.with_budget(|budget| budget.book(self.clock.monotonic_ms(), queue_wait_ms));
        let wait_ms = booked.map_err(|wait_ms| unavailable(UnavailableCause::BudgetSpent, wait_ms))?;
        if wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
        let pass = self
            .with_breaker(|breaker| breaker.enter(self.clock.monotonic_ms()))
            .map_err(|wait_ms| unavailable(UnavailableCause::BreakerOpen, wait_ms))?;
        Ok(Permit { gate: self, pass: Some(pass), _place: place })
    }

    fn with_budget<T>(&self, act: impl FnOnce(&mut Budget) -> T) -> T {
        act(&mut self.budget.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with_breaker<T>(&self, act: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let was_open = breaker.is_open();
        let result = act(&mut breaker);
        let is_open = breaker.is_open();
        if was_open != is_open {
            gauge!("downstream_breaker_open", "downstream" => self.name.clone()).set(if is_open {
                1
            } else {
                0
            });
            tracing::warn!(downstream = %self.name, open = is_open, "circuit breaker turned");
        }
        result
    }

    fn count(&self, action: &'static str, outcome: &'static str) {
        counter!("downstream_calls_total", "downstream" => self.name.clone(), "action" => action, "outcome" => outcome)
            .increment(1);
    }
}

const fn unavailable(cause: UnavailableCause, wait_ms: u64) -> NoAnswer {
    NoAnswer::Unavailable { cause, retry_after_ms: Some(wait_ms) }
}
