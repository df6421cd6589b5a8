//! Client applications that do not give up: plain payments, double clicks, repetitions, cancellations, payments in a
//! hurry and payments without the money.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use xtask::stack::{ApiClient, Audit, Patience, Payment, Reply, SimClient};

/// How long a client repeats one request.
const STUBBORN: Duration = Duration::from_secs(120);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// Deadline of a payment in a hurry, in milliseconds.
const HURRY_MS: i64 = 2_500;

/// What the clients were told.
#[derive(Debug, Default)]
pub(super) struct Tally {
    answered: AtomicU64,
    repeated: AtomicU64,
    refused: AtomicU64,
    /// Flow id to user, of everything that was acknowledged.
    acknowledged: Mutex<HashMap<i64, u64>>,
}

impl Tally {
    pub(super) fn said(&self) -> String {
        format!(
            "{} payments answered, {} tries repeated, {} refused",
            self.answered.load(Ordering::Relaxed),
            self.repeated.load(Ordering::Relaxed),
            self.refused.load(Ordering::Relaxed),
        )
    }

    pub(super) fn per_s(&self, elapsed: Duration) -> u64 {
        self.answered.load(Ordering::Relaxed) / elapsed.as_secs().max(1)
    }

    /// What was acknowledged and is not there.
    pub(super) fn missing(&self, audit: &Audit) -> Vec<String> {
        let users: HashMap<i64, &str> =
            audit.flows.iter().map(|flow| (flow.id, flow.target.split('/').next().unwrap_or(""))).collect();
        let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = |(id, user): (&i64, &u64)| {
            let there = users.get(id).is_some_and(|found| *found == user.to_string());
            (!there).then(|| format!("flow {id} of user {user} was acknowledged and is not there"))
        };
        acknowledged.iter().filter_map(lost).collect()
    }

    fn note(&self, reply: &Reply, user: u64) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        match reply.flow_id().parse() {
            Ok(id) if reply.status < 300 => {
                self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).insert(id, user);
            }
            Ok(_) | Err(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// How the flows have ended, in one line.
pub(super) fn ends(audit: &Audit) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for flow in &audit.flows {
        let end = flow.hold_reason.as_deref().unwrap_or(&flow.status);
        *counts.entry(end).or_default() += 1;
    }
    counts.iter().fold("ends:".to_owned(), |mut line, (end, count)| {
        write!(line, " {end} {count}").expect("writing to a string cannot fail");
        line
    })
}

/// One client: pays again and again until it is over.
///
/// # Errors
/// No definite answer within two minutes, or a 5xx that is not announced as retryable.
pub(super) async fn buy_until(
    over: &AtomicBool,
    client: usize,
    seed: u64,
    apis: &[ApiClient],
    sim: &SimClient,
    tally: &Tally,
) -> anyhow::Result<()> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut last: Option<(String, Value, u64)> = None;
    let mut count = 0_u64;
    while !over.load(Ordering::Relaxed) {
        count += 1;
        let user = u64::try_from(client)? * 10_000_000 + count;
        let kind = random.random_range(0..100_u32);
        let hurried = (5..10).contains(&kind);
        let deadline_in_ms = if hurried { HURRY_MS } else { 3_600_000 };
        let body = Payment { deadline_in_ms, ..Payment::new(user, "soak") }.body();
        let key = format!("soak-{user}");
        let turn = usize::try_from(count)? + client;
        if kind < 5 {
            sim.balance(user, "CNY", 1).await?;
        }
        let paid = pay(apis, turn, &key, &body, tally).await?;
        tally.note(&paid, user);
        match kind {
            10..15 => tally.note(&pay(apis, turn + 1, &format!("{key}-again"), &body, tally).await?, user),
            15..20 => {
                if let Some((key, body, user)) = &last {
                    tally.note(&pay(apis, turn, key, body, tally).await?, *user);
                }
            }
            // Whether it comes in time or not, and whether it is heard or not, is all the same to the invariants.
            20..23 => {
                drop(
                    apis[turn % apis.len()].post(&format!("/payment-flows/{}/cancel", paid.flow_id())).await,
                );
            }
            _ => {}
        }
        last = Some((key, body, user));
    }
    Ok(())
}

/// Repeats one request under one key until the answer is definite.
async fn pay(
    apis: &[ApiClient],
    turn: usize,
    key: &str,
    body: &Value,
    tally: &Tally,
) -> anyhow::Result<Reply> {
    let patience = Patience::of(STUBBORN);
    let mut tries = 0;
    loop {
        let answer = apis[(turn + tries) % apis.len()].pay(key, body, Some(1)).await;
        match answer {
            Ok(reply) if reply.status == 429 || reply.status == 503 || reply.body["retryable"] == true => {}
            Ok(reply) if reply.status < 500 => return Ok(reply),
            Ok(reply) => anyhow::bail!("HTTP {}: {}", reply.status, reply.body),
            Err(error) if patience.is_over() => return Err(error),
            Err(_) => {}
        }
        anyhow::ensure!(!patience.is_over(), "no definite answer for {key} after {tries} tries");
        tries += 1;
        tally.repeated.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
}
