//! Callers that give up in the middle of a store call: at least twenty thousand of them, against the real database. A
//! write that was handed over is carried out, what was acknowledged is there, and the smallest pool goes on working.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use e2e::{Database, Flavor};
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::decide::Transition;
use flow_core::flow::Trigger;
use flow_core::ids::{FlowId, Version};
use flow_core::ports::{Bound, CasOutcome, Created, FlowStore, KeyBinding, StoreError};
use flow_core::state::State;
use flow_core::store::{MySqlStore, StoreOptions};
use flow_testkit::samples;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use sqlx::Row as _;
use xtask::stack::{Patience, utc_now, wait_until};

const CALLERS: u64 = 64;
/// Calls given up, over all callers.
const DROPS: u64 = 20_000;
/// The longest a caller waits before it gives up, in microseconds.
const LONGEST_US: u64 = 3_000;
const FLOWS_PER_CALLER: usize = 8;
const SEED: u64 = 7;

e2e::on_both_servers! {
    of_store_calls_lose_nothing within 150 s;
}

/// What all callers together did, and what they were told.
#[derive(Default)]
struct Tally {
    dropped: AtomicU64,
    acknowledged: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
}

/// One caller's account of what must be found in the database.
#[derive(Default)]
struct Account {
    /// Compare-and-swaps that were answered "applied": flow, version, mark.
    applied: Vec<(i64, i64, String)>,
    /// Request keys that were handed over, of creations and bindings; every one must be there in the end.
    keys: Vec<String>,
}

/// A row as its caller believes it to be.
#[derive(Clone, Copy)]
struct Believed {
    id: FlowId,
    state: State,
    version: Version,
}

struct Caller {
    store: Arc<MySqlStore>,
    tally: Arc<Tally>,
    number: u64,
    random: StdRng,
    made: u64,
    rows: Vec<Believed>,
    account: Account,
    deadline: DateTime<Utc>,
}

async fn of_store_calls_lose_nothing(flavor: Flavor) -> anyhow::Result<()> {
    let database = Database::shared(flavor, "drops").await?;
    let mut options = StoreOptions::new(database.app_url.as_str());
    options.read_connections = 1;
    options.committers = 1;
    let store = Arc::new(MySqlStore::connect(options).await?);
    let tally = Arc::new(Tally::default());
    let patience = Patience::of(Duration::from_secs(100));
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| tokio::spawn(Caller::new(Arc::clone(&store), Arc::clone(&tally), number).run()))
        .collect();
    let mut accounts = Vec::new();
    for caller in callers {
        accounts.push(caller.await??);
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    eprintln!(
        "drops on {flavor}: {} given up, {} writes acknowledged, {} lost, {} refused, in {:.1?} (seed {SEED})",
        count(&tally.dropped),
        count(&tally.acknowledged),
        count(&tally.lost),
        count(&tally.refused),
        patience.elapsed()
    );
    ensure!(count(&tally.dropped) >= DROPS, "only {} calls were given up", count(&tally.dropped));
    ensure!(count(&tally.acknowledged) >= 2_000, "too few acknowledged writes to check");
    everything_is_there(&database, &accounts).await?;
    still_works(&store).await?;
    let store = Arc::into_inner(store).context("somebody still holds the store")?;
    ensure!(store.close(Duration::from_secs(20)).await, "writes were left over");
    database.remove().await
}

impl Caller {
    fn new(store: Arc<MySqlStore>, tally: Arc<Tally>, number: u64) -> Caller {
        Caller {
            store,
            tally,
            number,
            random: StdRng::seed_from_u64(SEED * 1_000 + number),
            made: 0,
            rows: Vec::new(),
            account: Account::default(),
            deadline: utc_now() + TimeDelta::hours(1),
        }
    }

    async fn run(mut self) -> anyhow::Result<Account> {
        while self.tally.dropped.load(Ordering::Relaxed) < DROPS {
            let any = self.random.random_range(0..100);
            match any {
                _ if self.rows.len() < FLOWS_PER_CALLER => self.create(true).await?,
                0..10 => self.create(false).await?,
                10..20 => self.bind().await?,
                20..30 => self.read().await?,
                _ => self.compare_and_swap().await?,
            }
        }
        Ok(self.account)
    }

    /// Runs a call to its end, or, four times out of five, gives it up after a moment; `None` then. A call that is given
    /// up was begun: what it had to hand over is handed over.
    async fn perhaps<T>(
        &mut self,
        patient: bool,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> anyhow::Result<Option<T>> {
        let limit = Duration::from_micros(self.random.random_range(0..LONGEST_US));
        let outcome = if patient || self.random.random_range(0..5) == 0 {
            Ok(call.await)
        } else {
            tokio::time::timeout(limit, call).await
        };
        match outcome {
            Ok(Ok(done)) => Ok(Some(done)),
            Ok(Err(StoreError::Unavailable { .. })) => {
                self.tally.refused.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Ok(Err(error)) => Err(error).context("the store failed on a healthy server"),
            Err(_) => {
                self.tally.dropped.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
        }
    }

    async fn create(&mut self, patient: bool) -> anyhow::Result<()> {
        self.made += 1;
        let number = i64::try_from(self.number * 1_000_000 + self.made)?;
        let new = samples::new_flow(number, self.deadline);
        let key = new.key.as_str().to_owned();
        let store = Arc::clone(&self.store);
        if let Some(created) = self.perhaps(patient, store.create(new)).await? {
            let Created::Inserted(seen) = created else {
                anyhow::bail!("{created:?} of a fresh key and target")
            };
            let row = Believed { id: seen.value.id, state: seen.value.state, version: seen.value.version };
            let place = self.random.random_range(0..FLOWS_PER_CALLER);
            if self.rows.len() < FLOWS_PER_CALLER {
                self.rows.push(row)
            } else {
                self.rows[place] = row
            }
            self.tally.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        self.account.keys.push(key);
        Ok(())
    }

    async fn bind(&mut self) -> anyhow::Result<()> {
        self.made += 1;
        let number = i64::try_from(self.number * 1_000_000 + self.made)?;
        let new = samples::new_flow(number, self.deadline);
        let (caller, key, fingerprint) = (new.caller, new.key, new.fingerprint);
        let text = key.as_str().to_owned();
        let flow_id = self.rows[self.random.random_range(0..self.rows.len())].id;
        let store = Arc::clone(&self.store);
        let bound =
            self.perhaps(false, store.bind_key(KeyBinding { caller, key, fingerprint, flow_id })).await?;
        ensure!(bound != Some(Bound::KeyTaken), "a fresh key is taken");
        self.account.keys.push(text);
        Ok(())
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        let place = self.random.random_range(0..self.rows.len());
        let store = Arc::clone(&self.store);
        let id = self.rows[place].id;
        if let Some(seen) = self.perhaps(false, store.load(id)).await? {
            let flow = seen.value.with_context(|| format!("flow {id} is gone"))?;
            self.rows[place] = Believed { id, state: flow.state, version: flow.version };
        }
        Ok(())
    }

    async fn compare_and_swap(&mut self) -> anyhow::Result<()> {
        let place = self.random.random_range(0..self.rows.len());
        let Believed { id, state, version } = self.rows[place];
        self.made += 1;
        let mark = format!("MARK.{}.{}", self.number, self.made);
        let change = if state == State::WaitPay && self.random.random_range(0..4) == 0 {
            Change::Move { transition: Transition::EnterPaying, next_in_ms: 60_000 }
        } else {
            Change::Reschedule { next_in_ms: 60_000, retry_count: 1, code: ErrorCode::clean(&mark) }
        };
        let write = CasWrite {
            flow_id: id,
            from: state,
            version,
            change,
            evidence: WriteEvidence::of(Trigger::Timer),
        };
        let marked = matches!(write.change, Change::Reschedule { .. });
        let next = Believed { id, state: write.to(), version: version.next() };
        let store = Arc::clone(&self.store);
        match self.perhaps(false, store.cas(write)).await? {
            Some(CasOutcome::Applied) => {
                let mark = if marked { mark } else { String::new() };
                self.account.applied.push((id.get(), i64::try_from(next.version.0)?, mark));
                self.tally.acknowledged.fetch_add(1, Ordering::Relaxed);
                self.rows[place] = next;
            }
            Some(CasOutcome::Lost) => {
                self.tally.lost.fetch_add(1, Ordering::Relaxed);
                let seen = self.store.load(id).await?;
                let flow = seen.value.with_context(|| format!("flow {id} is gone"))?;
                self.rows[place] = Believed { id, state: flow.state, version: flow.version };
            }
            // Given up: most likely it is, or will be, written. The next write finds out.
            None => self.rows[place] = next,
        }
        Ok(())
    }
}

/// Looks through a second connection.
async fn everything_is_there(database: &Database, accounts: &[Account]) -> anyhow::Result<()> {
    let mut keys: HashSet<&str> =
        accounts.iter().flat_map(|account| &account.keys).map(String::as_str).collect();
    let handed_over = i64::try_from(keys.len())?;
    let carried_out = || async {
        Ok((database.number("SELECT COUNT(*) FROM pay_request_key").await? >= handed_over).then_some(()))
    };
    wait_until("every key that was handed over", Duration::from_secs(30), carried_out).await?;
    let mut root = database.connect().await?;
    for row in sqlx::query("SELECT idempotency_key FROM pay_request_key").fetch_all(&mut root).await? {
        keys.remove(row.try_get::<String, _>(0)?.as_str());
    }
    ensure!(
        keys.is_empty(),
        "{} keys were handed over and are not there, e.g. {:?}",
        keys.len(),
        keys.iter().next()
    );
    let events = "SELECT flow_id, version, COALESCE(error_code, '') FROM pay_flow_event";
    let mut lines: HashMap<(i64, i64), String> = HashMap::new();
    for row in sqlx::query(events).fetch_all(&mut root).await? {
        lines.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
    }
    let mut checked = 0;
    for (flow_id, version, mark) in accounts.iter().flat_map(|account| &account.applied) {
        let line = lines.get(&(*flow_id, *version));
        ensure!(
            line == Some(mark),
            "flow {flow_id} version {version} was acknowledged as {mark:?}, and is {line:?}"
        );
        checked += 1;
    }
    let torn = "SELECT COUNT(*) FROM internal_pay_flow f
                WHERE f.version <> (SELECT COUNT(*) FROM pay_flow_event e WHERE e.flow_id = f.id) - 1
                   OR f.version <> (SELECT MAX(e.version) FROM pay_flow_event e WHERE e.flow_id = f.id)
                   OR NOT EXISTS (SELECT * FROM pay_request_key k
                                  WHERE k.caller_id = f.caller_id AND k.idempotency_key = f.idempotency_key)";
    ensure!(database.number(torn).await? == 0, "rows, events and keys do not agree");
    let flows = database.number("SELECT COUNT(*) FROM internal_pay_flow").await?;
    eprintln!(
        "{checked} acknowledged swaps, {handed_over} keys, {flows} rows found through a second connection"
    );
    Ok(())
}

/// The one connection of each kind is still good.
async fn still_works(store: &MySqlStore) -> anyhow::Result<()> {
    let patience = Patience::of(Duration::from_secs(15));
    let deadline = utc_now() + TimeDelta::hours(1);
    for number in 0..100 {
        let created = store.create(samples::new_flow(900_000_000 + number, deadline)).await?;
        let Created::Inserted(seen) = created else { anyhow::bail!("{created:?}") };
        let flow = seen.value;
        let change = Change::Move { transition: Transition::EnterPaying, next_in_ms: 1_000 };
        let evidence = WriteEvidence::of(Trigger::Timer);
        let write = CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence };
        ensure!(store.cas(write).await? == CasOutcome::Applied, "flow {} was lost at once", flow.id);
        let read = store.load(flow.id).await?.value.context("gone")?;
        ensure!(read.state == State::Paying && read.version == Version(1), "{read:?}");
    }
    eprintln!("afterwards 100 payments' writes took {:.1?}", patience.elapsed());
    ensure!(!patience.is_over(), "100 payments' writes took {:?}", patience.elapsed());
    Ok(())
}
