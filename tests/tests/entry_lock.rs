//! The optional entry lock on a real server: a hundred clicks cost less with it, and come to the same without it, whatever
//! becomes of the server in the middle.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use async_trait::async_trait;
use e2e::fault_proxy::{Direction, Fault, FaultProxy, Protocol};
use e2e::{Database, Flavor, Site};
use flow_adapters::RedisEntryLock;
use flow_config::EntryLockConfig;
use flow_core::ports::{EntryLock, SystemClock};
use flow_testkit::conformance::entry::{self, EntryFactory};
use futures_util::future::join_all;
use serde_json::json;
use xtask::programs::Program;
use xtask::stack::{Payment, RedisServer, Reply, Tuning};

const CLICKS: usize = 100;
const SETTLE: Duration = Duration::from_secs(30);

e2e::on_both_servers! {
    a_hundred_clicks_with_and_without_the_lock within 240 s;
}

e2e::on_mysql! {
    a_lock_that_fails_in_every_way_changes_nothing within 300 s;
    the_adapter_keeps_the_ports_promises within 120 s;
}

/// Whether these suites have their server; said where they do not.
fn has_server() -> bool {
    let is_there = !Program::Redis.is_missing();
    if !is_there {
        eprintln!("not tested: no Redis or Valkey server can be had here");
    }
    is_there
}

fn dir(name: &str) -> PathBuf {
    xtask::target_dir().join("e2e").join(format!("redis-{name}-{}", std::process::id()))
}

fn table(url: &str) -> String {
    format!(
        "\n[entry_lock]\nredis = \"{url}\"\nttl_ms = 2000\nwait_ms = 1000\ntimeout_ms = 200\nrest_ms = 200\n"
    )
}

async fn open(flavor: Flavor, name: &str, extra: String) -> anyhow::Result<Site> {
    Site::open(Database::shared(flavor, name).await?, Tuning { extra, ..Tuning::default() }, 2, 1).await
}

/// One user presses the button a hundred times at once, with as many keys, at both processes.
async fn clicks(site: &Site, user_id: u64) -> anyhow::Result<()> {
    let apis = [site.stack.api(0), site.stack.api(1)];
    let body = Payment::new(user_id, "clicked").body();
    let keys: Vec<String> = (0..CLICKS).map(|click| format!("click-{user_id}-{click}")).collect();
    let posts = keys.iter().enumerate().map(|(click, key)| apis[click % 2].pay(key, &body, Some(10)));
    let replies: Vec<Reply> = join_all(posts).await.into_iter().collect::<Result<_, _>>()?;
    let flows: BTreeSet<&str> = replies.iter().map(Reply::flow_id).collect();
    ensure!(flows.len() == 1, "one target has several flows: {flows:?}");
    let created = replies.iter().filter(|reply| reply.status == 201 || reply.status == 202).count();
    ensure!(created == 1, "{created} clicks created the flow");
    let found = replies.iter().filter(|reply| reply.status == 200).count();
    ensure!(found == CLICKS - 1, "{found} clicks found it");
    Ok(())
}

/// What the database was asked to do, by both processes.
async fn statements(site: &Site) -> anyhow::Result<u64> {
    let mut sum = 0;
    for process in 0..2 {
        let text = site.stack.api(process).get_text("/metrics").await?;
        let lines = text
            .lines()
            .filter(|line| line.starts_with("store_reads_total") || line.starts_with("store_writes_total"));
        sum += lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<u64>();
    }
    Ok(sum)
}

/// The same result; what is saved is printed.
async fn a_hundred_clicks_with_and_without_the_lock(flavor: Flavor) -> anyhow::Result<()> {
    if !has_server() {
        return Ok(());
    }
    const USERS: u64 = 5;
    let server = RedisServer::start(&dir("clicks")).await?;
    let mut costs = Vec::new();
    for extra in [String::new(), table(&server.url())] {
        let name = if extra.is_empty() { "clicks_bare" } else { "clicks_lock" };
        let site = open(flavor, name, extra).await?;
        // The first answers take a while, as they do when people have time to click again.
        site.sim().fault(json!({ "calls": ["debit"], "fault": { "kind": "delay", "ms": 30 } })).await?;
        let before = statements(&site).await?;
        for user_id in 1..=USERS {
            clicks(&site, user_id).await?;
        }
        costs.push(statements(&site).await? - before);
        let audit = site.settle(SETTLE).await?;
        ensure!(audit.flows.len() == usize::try_from(USERS)?, "{:?}", audit.flows);
        ensure!(audit.flows.iter().all(|flow| flow.status == "BIZ_SUCCESS"), "{:?}", audit.flows);
        ensure!(audit.ledgers.values().all(|order| order.charges == 1), "{:?}", audit.ledgers);
        site.close().await?;
    }
    let (bare, locked) = (costs[0], costs[1]);
    eprintln!(
        "{CLICKS} clicks for each of {USERS} targets on {flavor}: {bare} statements without the lock, {locked} with it"
    );
    ensure!(locked < bare, "the lock saves nothing: {bare} statements without it, {locked} with it");
    Ok(())
}

/// Killed, stopped, slow, black-holed, restarted without its memory, or losing every holder in the middle of an entry.
async fn a_lock_that_fails_in_every_way_changes_nothing(flavor: Flavor) -> anyhow::Result<()> {
    if !has_server() {
        return Ok(());
    }
    let mut server = RedisServer::start(&dir("failing")).await?;
    let proxy = FaultProxy::start(server.address(), Protocol::Bytes).await?;
    let site = open(flavor, "lock_fails", table(&format!("redis://{}/0", proxy.address()))).await?;
    site.sim().fault(json!({ "calls": ["debit"], "fault": { "kind": "delay", "ms": 50 } })).await?;
    clicks(&site, 1).await?;
    for (user_id, fault) in [
        (2, Fault::Latency { each_way: Duration::from_millis(300) }),
        (3, Fault::BlackHole(Direction::ToClient)),
        (4, Fault::BlackHole(Direction::Both)),
        (5, Fault::Reset),
        (6, Fault::CutAnswer { after_bytes: 2 }),
        (7, Fault::HalfOpen),
    ] {
        proxy.set(fault);
        clicks(&site, user_id).await?;
        proxy.set(Fault::None);
    }
    server.kill().await?;
    clicks(&site, 8).await?;
    server.restart().await?;
    server.signal("STOP").await?;
    clicks(&site, 9).await?;
    server.signal("CONT").await?;
    // Whoever is inside loses its place while it is inside.
    let forget = async {
        for _ in 0..20 {
            ensure!(server.tell("FLUSHALL").await? == "+OK", "the server forgets nothing");
        }
        anyhow::Ok(())
    };
    let (clicked, forgotten) = tokio::join!(clicks(&site, 10), forget);
    clicked?;
    forgotten?;
    // A server without room refuses every place.
    ensure!(server.tell("CONFIG SET maxmemory 1").await?.starts_with('+'), "the server keeps its room");
    clicks(&site, 11).await?;
    let audit = site.settle(SETTLE).await?;
    ensure!(audit.flows.len() == 11, "{:?}", audit.flows);
    ensure!(audit.flows.iter().all(|flow| flow.status == "BIZ_SUCCESS"), "{:?}", audit.flows);
    ensure!(audit.ledgers.values().all(|order| order.charges == 1), "{:?}", audit.ledgers);
    site.close().await
}

/// A fresh server for every pair.
struct Servers(tokio::sync::Mutex<Vec<RedisServer>>);

#[async_trait]
impl EntryFactory for Servers {
    async fn pair(&self, ttl_ms: u64) -> [Arc<dyn EntryLock>; 2] {
        let server = RedisServer::start(&dir("suite")).await.expect("it was started before");
        let address = server.url().parse().expect("an address");
        let config =
            EntryLockConfig { redis: None, ttl_ms, wait_ms: 10_000, timeout_ms: 2_000, rest_ms: 100 };
        let lock = || -> Arc<dyn EntryLock> {
            let made = RedisEntryLock::new(&address, &config, Arc::new(SystemClock));
            Arc::new(made.expect("a good address"))
        };
        self.0.lock().await.push(server);
        [lock(), lock()]
    }
}

/// The port's own suite.
async fn the_adapter_keeps_the_ports_promises(_: Flavor) -> anyhow::Result<()> {
    if !has_server() {
        return Ok(());
    }
    let servers = Servers(tokio::sync::Mutex::default());
    entry::the_first_one_is_told_so(&servers).await;
    entry::others_wait_until_it_is_out(&servers).await;
    entry::nobody_waits_longer_than_it_wants(&servers).await;
    entry::targets_do_not_wait_for_each_other(&servers).await;
    entry::a_place_whose_holder_died_is_free_again(&servers).await;
    entry::an_expired_ticket_takes_nothing_from_the_next_holder(&servers).await;
    Ok(())
}
