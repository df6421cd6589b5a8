//! Clients that buy one thing after the other while something breaks, and keep account of what they were told, so that
//! it can be compared with what was recorded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use serde_json::Value;
use tokio::task::JoinSet;
use xtask::stack::{ApiClient, Audit, Patience, Payment, Reply, wait_until};

use crate::site::Site;

/// No client waits longer for any answer: its own wait, a statement's limit, a connection's limit, and some.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Before a request is repeated, and after a refusal was believed.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest that is waited for anything the crowd should meet.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a crowd behaves.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    /// Goes into keys and targets; different for two crowds of one site.
    pub name: &'static str,
    /// How many clients.
    pub clients: u64,
    /// Pause of each client between two purchases.
    pub pause: Duration,
    /// How long a client is willing to wait for an end, in seconds.
    pub wait_s: u32,
}

/// Clients at work. Dropped, they go home.
#[derive(Debug)]
pub struct Crowd {
    seen: Arc<Seen>,
    tasks: JoinSet<()>,
}

/// What the clients were told.
#[derive(Debug, Default)]
struct Seen {
    stop: AtomicBool,
    taken: AtomicU32,
    ended: AtomicU32,
    refused: AtomicU32,
    unknown: AtomicU32,
    broken: AtomicU32,
    slowest: Mutex<Duration>,
    acknowledged: Mutex<BTreeMap<String, String>>,
    given_up: Mutex<Vec<String>>,
    wrong: Mutex<Vec<String>>,
}

/// Counts of answers.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    /// Purchases that were acknowledged.
    pub taken: u32,
    /// Of these, the ones that had ended well by the time of the answer.
    pub ended: u32,
    /// Answers that nothing was recorded.
    pub refused: u32,
    /// Answers that it is not known.
    pub unknown: u32,
    /// Requests without an answer.
    pub broken: u32,
    /// The longest wait for an answer.
    pub slowest: Duration,
}

/// What the clients remember when they have gone home.
#[derive(Debug)]
pub struct Accounts {
    /// Counts.
    pub tally: Tally,
    /// Targets by acknowledged flow.
    acknowledged: BTreeMap<String, String>,
    /// Targets of clients who were told that nothing was recorded, and went away.
    given_up: Vec<String>,
    /// Answers that must not be.
    wrong: Vec<String>,
}

impl Crowd {
    /// Lets them begin, each at one of the API processes.
    pub fn start(apis: &[ApiClient], manners: Manners) -> Crowd {
        let seen = Arc::new(Seen::default());
        let mut tasks = JoinSet::new();
        for (client, api) in (0..manners.clients).zip(apis.iter().cycle()) {
            let buyer = Buyer { api: api.clone(), client, manners, seen: Arc::clone(&seen) };
            tasks.spawn(buyer.buy_on_and_on());
        }
        Crowd { seen, tasks }
    }

    /// Counts so far.
    pub fn tally(&self) -> Tally {
        self.seen.tally()
    }

    /// Waits until so many more purchases are acknowledged; how long that took.
    ///
    /// # Errors
    /// They are not.
    pub async fn fresh(&self, more: u32) -> anyhow::Result<Duration> {
        self.more("fresh payments to get through", more, &self.seen.taken).await
    }

    /// Waits until so many more purchases have ended well within their request; how long that took.
    ///
    /// # Errors
    /// They have not.
    pub async fn ends(&self, more: u32) -> anyhow::Result<Duration> {
        self.more("fresh payments to end well at once", more, &self.seen.ended).await
    }

    /// Waits until so many more answers say that nothing was recorded; how long that took.
    ///
    /// # Errors
    /// They do not.
    pub async fn refusals(&self, more: u32) -> anyhow::Result<Duration> {
        self.more("refusals", more, &self.seen.refused).await
    }

    /// Waits until so many more requests were refused, left in doubt or not answered; how long that took.
    ///
    /// # Errors
    /// They were not.
    pub async fn troubles(&self, more: u32) -> anyhow::Result<Duration> {
        let patience = Patience::of(PATIENCE);
        let wanted = self.tally().troubles() + more;
        let enough = || async { Ok((self.tally().troubles() >= wanted).then_some(())) };
        wait_until("refusals and doubts", PATIENCE, enough).await?;
        Ok(patience.elapsed())
    }

    async fn more(&self, what: &str, more: u32, counter: &AtomicU32) -> anyhow::Result<Duration> {
        let patience = Patience::of(PATIENCE);
        let wanted = counter.load(Ordering::Relaxed) + more;
        let enough = || async {
            if let Some(wrong) = lock(&self.seen.wrong).first() {
                anyhow::bail!("an answer that must not be: {wrong}");
            }
            Ok((counter.load(Ordering::Relaxed) >= wanted).then_some(()))
        };
        wait_until(what, PATIENCE, enough)
            .await
            .map_err(|error| error.context(format!("{}", self.tally())))?;
        Ok(patience.elapsed())
    }

    /// Sends them home, waits until every flow has ended or is held, checks the invariants, and compares what the clients
    /// were told with what is recorded (see [`Accounts::check`]). Says what came of `what`.
    ///
    /// # Errors
    /// Whatever does not hold.
    pub async fn reckon(self, site: &Site, what: &str) -> anyhow::Result<Accounts> {
        let accounts = self.leave().await?;
        eprintln!("{what} on {}: {}", site.database.flavor, accounts.tally);
        let audit = site.settle(PATIENCE).await?;
        accounts.check(&audit)?;
        Ok(accounts)
    }

    /// Sends them home, each after its present purchase.
    ///
    /// # Errors
    /// A client panicked.
    pub async fn leave(mut self) -> anyhow::Result<Accounts> {
        self.seen.stop.store(true, Ordering::Relaxed);
        while let Some(gone) = self.tasks.join_next().await {
            gone?;
        }
        let seen = &self.seen;
        Ok(Accounts {
            tally: seen.tally(),
            acknowledged: std::mem::take(&mut *lock(&seen.acknowledged)),
            given_up: std::mem::take(&mut *lock(&seen.given_up)),
            wrong: std::mem::take(&mut *lock(&seen.wrong)),
        })
    }
}

impl Accounts {
    /// Compares them with what is recorded: every acknowledged payment is there and is the one that was asked for, no
    /// payment is there of which a client was told that it is not, and no answer was of a kind that must not be.
    ///
    /// # Errors
    /// The difference.
    pub fn check(&self, audit: &Audit) -> anyhow::Result<()> {
        let wrong = &self.wrong;
        ensure!(wrong.is_empty(), "{} answers that must not be, e.g. {:?}", wrong.len(), wrong.first());
        let slowest = self.tally.slowest;
        ensure!(slowest < ANSWER_LIMIT, "an answer took {slowest:?}");
        let recorded: BTreeMap<String, &str> =
            audit.flows.iter().map(|flow| (flow.id.to_string(), flow.target.as_str())).collect();
        let lost = self.acknowledged.iter().find(|(id, target)| recorded.get(*id) != Some(&target.as_str()));
        ensure!(lost.is_none(), "acknowledged and lost, or another's: {lost:?}");
        let kept = self.given_up.iter().find(|target| audit.flows.iter().any(|flow| flow.target == **target));
        ensure!(kept.is_none(), "{kept:?} was refused for sure, and recorded all the same");
        Ok(())
    }

    /// How many clients believed that nothing was recorded.
    pub fn given_up(&self) -> usize {
        self.given_up.len()
    }
}

impl Tally {
    /// What has come since an earlier count. The slowest answer stays the slowest of all.
    #[must_use]
    pub fn since(&self, before: &Tally) -> Tally {
        Tally {
            taken: self.taken - before.taken,
            ended: self.ended - before.ended,
            refused: self.refused - before.refused,
            unknown: self.unknown - before.unknown,
            broken: self.broken - before.broken,
            slowest: self.slowest,
        }
    }

    /// Requests that were not carried out at once.
    fn troubles(&self) -> u32 {
        self.refused + self.unknown + self.broken
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { taken, ended, refused, unknown, broken, slowest } = self;
        write!(
            f,
            "{taken} payments taken ({ended} ended at once), {refused} refused, {unknown} unknown, {broken} without an \
             answer, slowest answer {slowest:.1?}"
        )
    }
}

impl Seen {
    fn tally(&self) -> Tally {
        let count = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        Tally {
            taken: count(&self.taken),
            ended: count(&self.ended),
            refused: count(&self.refused),
            unknown: count(&self.unknown),
            broken: count(&self.broken),
            slowest: *lock(&self.slowest),
        }
    }
}

struct Buyer {
    api: ApiClient,
    client: u64,
    manners: Manners,
    seen: Arc<Seen>,
}

impl Buyer {
    /// New payments, one after the other. Every other client repeats a refused one until it is taken, the others believe
    /// the refusal and go on to something else.
    async fn buy_on_and_on(self) {
        let name = self.manners.name;
        for number in 0.. {
            if self.seen.stop.load(Ordering::Relaxed) {
                return;
            }
            let payment = Payment::new(100 + self.client, format!("{name}:{number}"));
            let target = format!("{}/renew/{}", payment.user_id, payment.biz_key);
            let key = format!("{name}-{}-{number}", self.client);
            self.buy(&key, &payment.body(), target).await;
            tokio::time::sleep(self.manners.pause).await;
        }
    }

    async fn buy(&self, key: &str, body: &Value, target: String) {
        let seen = &*self.seen;
        let mut never_unknown = true;
        loop {
            let patience = Patience::of(ANSWER_LIMIT);
            let answer = self.api.pay(key, body, Some(self.manners.wait_s)).await;
            {
                let mut slowest = lock(&seen.slowest);
                *slowest = slowest.max(patience.elapsed());
            }
            match answer {
                Ok(reply) if matches!(reply.status, 200..=202) => {
                    lock(&seen.acknowledged).insert(reply.flow_id().to_owned(), target);
                    seen.taken.fetch_add(1, Ordering::Relaxed);
                    seen.ended.fetch_add(u32::from(reply.status_word() == "BIZ_SUCCESS"), Ordering::Relaxed);
                    return;
                }
                Ok(reply) if is_refusal(&reply) => {
                    seen.refused.fetch_add(1, Ordering::Relaxed);
                    // A refusal speaks for its own request alone: an earlier one of the same key may have been recorded.
                    if !self.client.is_multiple_of(2) && never_unknown {
                        lock(&seen.given_up).push(target);
                        tokio::time::sleep(PAUSE).await;
                        return;
                    }
                }
                Ok(reply) if is_unknown(&reply) => {
                    never_unknown = false;
                    seen.unknown.fetch_add(1, Ordering::Relaxed);
                }
                Ok(reply) => {
                    lock(&seen.wrong).push(format!("HTTP {} {}", reply.status, reply.body));
                    return;
                }
                Err(_) => {
                    never_unknown = false;
                    seen.broken.fetch_add(1, Ordering::Relaxed);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn is_refusal(reply: &Reply) -> bool {
    let code = reply.text("code");
    let problem =
        reply.header("content-type").is_some_and(|kind| kind.starts_with("application/problem+json"));
    let told = reply.header("retry-after").is_some() && reply.body["retryable"] == true;
    problem && told && (reply.status, code) == (503, "database_unavailable")
}

fn is_unknown(reply: &Reply) -> bool {
    let promised = reply.header("retry-after").is_some();
    !promised
        && reply.body["retryable"] == true
        && (reply.status, reply.text("code")) == (503, "outcome_unknown")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
