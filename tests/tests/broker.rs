//! Wake-ups through a broker, on real processes: it is killed, gone, full, ahead of time, told nonsense, and its wake-ups
//! cannot be worked on. Payments go on, the scanner carries them, metrics say so, and it all comes back by itself.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::fault_proxy::{Fault, FaultProxy, Protocol};
use e2e::{Broker, Database, Flavor, Metrics, Shop, Site, metric_becomes, services};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _};
use xtask::stack::{ApiClient, Audit, Lateness, Payment, Profile, Tuning, lose_answers, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 32;
/// Nobody but the broker comes by within a suite.
const SELDOM_MS: u64 = 600_000;

e2e::on_mysql! {
    a_broker_killed_and_restarted_under_500_flows_loses_nothing within 240 s;
    exhausted_redelivery_ends_in_dead_letters_and_the_scanner_carries_on within 120 s;
    early_doubled_stale_unknown_and_garbage_wake_ups_are_harmless within 120 s;
    a_broker_that_is_gone_from_the_start_is_missed_by_nobody_and_found_when_it_comes within 120 s;
    a_full_broker_refuses_and_payments_go_on within 120 s;
    a_frozen_broker_holds_up_no_payment within 120 s;
    after_a_lost_answer_the_broker_is_sooner_than_the_scanner within 180 s;
}

fn payments(name: &str, users: std::ops::Range<u64>) -> Vec<(String, Payment)> {
    users.map(|user| (format!("{name}-{user}"), Payment::new(user, name))).collect()
}

/// Payments that one suite's users make, all recorded when this returns.
async fn pay(site: &Site, apis: usize, name: &str, users: std::ops::Range<u64>) -> anyhow::Result<()> {
    let shop = Shop::new((0..apis).map(|index| site.stack.api(index)).collect());
    shop.pay_all(&payments(name, users), AT_ONCE, 0, PATIENCE).await.map(drop)
}

async fn lose_debits(site: &Site) -> anyhow::Result<u64> {
    site.sim().fault(json!({ "calls": ["debit"], "stage": "after", "fault": { "kind": "drop" } })).await
}

/// How many flows were brought on by which entrance.
async fn moves(site: &Site, trigger: &str) -> anyhow::Result<i64> {
    let sql =
        format!("SELECT COUNT(*) FROM pay_flow_event WHERE ev_trigger = '{trigger}' AND kind = 'STATE'");
    site.database.number(&sql).await
}

fn all_succeeded(audit: &Audit, expected: usize) -> anyhow::Result<()> {
    ensure!(audit.flows.len() == expected, "{} flows, not {expected}", audit.flows.len());
    let other = audit.flows.iter().find(|flow| flow.status != "BIZ_SUCCESS");
    ensure!(other.is_none(), "{other:?}");
    Ok(())
}

async fn everybody_is_ready(services: &[ApiClient]) -> anyhow::Result<()> {
    for service in services {
        let status = service.get("/readyz").await?.status;
        ensure!(status == 200, "{}/readyz: {status}", service.url());
    }
    Ok(())
}

/// Every debit's answer is lost, so that each of 500 flows needs somebody to come by, while the broker is killed and comes
/// back twice.
async fn a_broker_killed_and_restarted_under_500_flows_loses_nothing(flavor: Flavor) -> anyhow::Result<()> {
    const FLOWS: u64 = 500;
    let Some(mut broker) = Broker::start().await? else { return Ok(()) };
    let tuning = Tuning {
        retry_ms: vec![500, 1_000, 2_000],
        round_interval_ms: 5_000,
        timer_bound_ms: 0,
        extra: broker.table(""),
        ..Tuning::default()
    };
    let site = Site::open(Database::shared(flavor, "broker_killed").await?, tuning, 2, 2).await?;
    let all = services(&site, 2, 2);
    metric_becomes(&all, "broker_usable", PATIENCE, |usable| usable == 4).await?;
    lose_debits(&site).await?;
    for users in [1..FLOWS / 2 + 1, FLOWS / 2 + 1..FLOWS + 1] {
        let before = Metrics::of(&all).await?.get("broker_published_total");
        let killing = async {
            metric_becomes(&all, "broker_published_total", PATIENCE, |now| now >= before + 50).await?;
            broker.server.kill().await?;
            metric_becomes(&all, "broker_connected", PATIENCE, |connected| connected == 0).await?;
            everybody_is_ready(&all).await?;
            broker.server.restart().await?;
            metric_becomes(&all, "broker_usable", PATIENCE, |usable| usable == 4).await
        };
        let (paid, back) = tokio::join!(pay(&site, 2, "killed", users), killing);
        paid?;
        back?;
    }
    let audit = site.settle(PATIENCE).await?;
    all_succeeded(&audit, usize::try_from(FLOWS)?)?;
    let (woken, swept) = (moves(&site, "WAKE").await?, moves(&site, "SCANNER").await?);
    let metrics = Metrics::of(&all).await?;
    eprintln!(
        "{FLOWS} flows, broker killed twice: {woken} moves by wake-up, {swept} by the scanner; published {}, refused {}, \
         delivered {}, redelivered {}, dead {}",
        metrics.get("broker_published_total"),
        metrics.get("broker_refused_total"),
        metrics.get("broker_delivered_total"),
        metrics.get("broker_redelivered_total"),
        metrics.get("broker_dead_total"),
    );
    ensure!(woken > 0, "the broker woke nobody");
    site.close().await
}

/// The scanner reaches no database for a while: what is delivered to it fails, again and again, and is put aside.
async fn exhausted_redelivery_ends_in_dead_letters_and_the_scanner_carries_on(
    flavor: Flavor,
) -> anyhow::Result<()> {
    const FLOWS: u64 = 20;
    let Some(broker) = Broker::start().await? else { return Ok(()) };
    let tuning = Tuning {
        retry_ms: vec![1_500],
        round_interval_ms: 1_000,
        timer_bound_ms: 0,
        extra: broker.table("max_deliveries = 3\nredelivery_ms = [100]"),
        ..Tuning::default()
    };
    let database = Database::shared(flavor, "broker_dead").await?;
    let proxy = FaultProxy::start(database.address()?, Protocol::MySql).await?;
    let url = database.app_url_at(proxy.address())?;
    let mut site = Site::open(database, tuning, 1, 0).await?;
    site.stack.set_env(&[("PAY__DATABASE__URL", &url), ("PAY__DATABASE__ACQUIRE_TIMEOUT_MS", "200")]);
    site.stack.start_scanner().await?;
    let scanner = services(&site, 0, 1);
    metric_becomes(&services(&site, 1, 1), "broker_usable", PATIENCE, |usable| usable == 2).await?;
    lose_debits(&site).await?;
    proxy.set(Fault::Reset);
    proxy.reset_live();
    pay(&site, 1, "dead", 1..FLOWS + 1).await?;
    metric_becomes(&scanner, "broker_dead_total{why=\"exhausted\"}", PATIENCE, |dead| dead == FLOWS).await?;
    let jetstream = broker.jetstream().await?;
    let (_, dead) = Broker::kept(&jetstream).await?;
    ensure!(dead == FLOWS, "{dead} dead letters");
    metric_becomes(&scanner, "broker_dead_letters", PATIENCE, |shown| shown == FLOWS).await?;
    let metrics = Metrics::of(&scanner).await?;
    let redelivered = metrics.get("broker_redelivered_total");
    ensure!(redelivered >= 2 * FLOWS, "{redelivered} deliveries again");
    proxy.set(Fault::None);
    let audit = site.settle(PATIENCE).await?;
    all_succeeded(&audit, usize::try_from(FLOWS)?)?;
    ensure!(moves(&site, "SCANNER").await? > 0, "the scanner did not come by");
    site.close_expecting(&["round failed; the next one starts over"]).await
}

/// What no broker should do, all at once, to flows that are not due.
async fn early_doubled_stale_unknown_and_garbage_wake_ups_are_harmless(flavor: Flavor) -> anyhow::Result<()> {
    const FLOWS: u64 = 20;
    const DUE_MS: u64 = 8_000;
    let Some(broker) = Broker::start().await? else { return Ok(()) };
    let tuning = Tuning {
        retry_ms: vec![DUE_MS],
        round_interval_ms: SELDOM_MS,
        timer_bound_ms: 0,
        extra: broker.table(""),
        ..Tuning::default()
    };
    let site = Site::open(Database::shared(flavor, "broker_harm").await?, tuning, 1, 1).await?;
    let all = services(&site, 1, 1);
    metric_becomes(&all, "broker_usable", PATIENCE, |usable| usable == 2).await?;
    let lost = lose_debits(&site).await?;
    pay(&site, 1, "harm", 1..FLOWS + 1).await?;
    metric_becomes(&all, "broker_published_total", PATIENCE, |published| published >= FLOWS).await?;
    site.sim().remove_fault(lost).await?;
    let before = rows(&site).await?;
    let jetstream = broker.jetstream().await?;
    for (id, version) in &before {
        Broker::wake(&jetstream, *id, *version, false).await?;
        Broker::wake(&jetstream, *id, *version, false).await?;
    }
    metric_becomes(&all, "scanner_wake_ups_total{became=\"early\"}", PATIENCE, |n| n >= FLOWS).await?;
    for (id, version) in &before {
        // Of an older version, though at once; of one that is not there yet.
        Broker::wake(&jetstream, *id, version - 1, true).await?;
        Broker::wake(&jetstream, *id, version + 7, true).await?;
    }
    for id in 0..5 {
        Broker::wake(&jetstream, 900_000_000 + id, 1, true).await?;
        Broker::put(&jetstream, &format!("due.garbage-{id}"), vec![0xff; 1_500]).await?;
    }
    metric_becomes(&all, "scanner_wake_ups_total{became=\"unknown\"}", PATIENCE, |n| n == 5).await?;
    metric_becomes(&all, "broker_dead_total{why=\"unreadable\"}", PATIENCE, |n| n == 5).await?;
    metric_becomes(&all, "scanner_wake_ups_total{became=\"stale\"}", PATIENCE, |n| n > 0).await?;
    let calls = site.sim().call_totals().await?;
    ensure!(
        calls.get("query").copied().unwrap_or(0) == 0,
        "the wallet was asked before anybody was due: {calls:?}"
    );
    ensure!(rows(&site).await? == before, "a row was written before it was due");
    // When they are due, what the broker was really asked for comes, and nothing of the above has spoilt it.
    let audit = site.settle(PATIENCE).await?;
    all_succeeded(&audit, usize::try_from(FLOWS)?)?;
    let calls = site.sim().call_totals().await?;
    ensure!(calls.get("query") == Some(&FLOWS), "each flow was asked about once: {calls:?}");
    ensure!(moves(&site, "SCANNER").await? == 0, "the scanner was not to come by");
    let (_, dead) = Broker::kept(&jetstream).await?;
    ensure!(dead == 5, "{dead} dead letters");
    site.close().await
}

/// Ids and versions of all flows.
async fn rows(site: &Site) -> anyhow::Result<Vec<(i64, i64)>> {
    let mut root = site.database.connect().await?;
    let sql = "SELECT id, CAST(version AS SIGNED) FROM internal_pay_flow ORDER BY id";
    let rows = sqlx::query_as(AssertSqlSafe(sql.to_owned())).fetch_all(&mut root).await?;
    root.close().await?;
    Ok(rows)
}

async fn a_broker_that_is_gone_from_the_start_is_missed_by_nobody_and_found_when_it_comes(
    flavor: Flavor,
) -> anyhow::Result<()> {
    let Some(mut broker) = Broker::start().await? else { return Ok(()) };
    broker.server.kill().await?;
    let tuning = Tuning { timer_bound_ms: 0, extra: broker.table(""), ..Tuning::default() };
    let site = Site::open(Database::shared(flavor, "broker_gone").await?, tuning, 1, 1).await?;
    let all = services(&site, 1, 1);
    everybody_is_ready(&all).await?;
    lose_debits(&site).await?;
    pay(&site, 1, "gone", 1..31).await?;
    let audit = site.settle(PATIENCE).await?;
    all_succeeded(&audit, 30)?;
    let metrics = Metrics::of(&all).await?;
    ensure!(metrics.get("broker_connected") == 0, "connected to nobody");
    ensure!(metrics.get("broker_refused_total{why=\"away\"}") >= 30, "{metrics:?}");
    ensure!(moves(&site, "WAKE").await? == 0, "woken by nobody");

    broker.server.restart().await?;
    metric_becomes(&all, "broker_usable", PATIENCE, |usable| usable == 2).await?;
    pay(&site, 1, "found", 100..110).await?;
    metric_becomes(&all, "broker_published_total", PATIENCE, |published| published > 0).await?;
    metric_becomes(&all, "broker_delivered_total", PATIENCE, |delivered| delivered > 0).await?;
    site.settle(PATIENCE).await?;
    site.close().await
}

async fn a_full_broker_refuses_and_payments_go_on(flavor: Flavor) -> anyhow::Result<()> {
    let Some(broker) = Broker::start_with(2 << 20).await? else { return Ok(()) };
    let tuning = Tuning { timer_bound_ms: 0, extra: broker.table(""), ..Tuning::default() };
    let site = Site::open(Database::shared(flavor, "broker_full").await?, tuning, 1, 1).await?;
    let all = services(&site, 1, 1);
    metric_becomes(&all, "broker_usable", PATIENCE, |usable| usable == 2).await?;
    let jetstream = broker.jetstream().await?;
    let made = || async { Ok(Broker::kept(&jetstream).await.ok()) };
    wait_until("the streams to be made", PATIENCE, made).await?;
    let mut fillers = 0;
    let full = loop {
        match Broker::put(&jetstream, &format!("at.filler-{fillers}"), vec![b'x'; 1_500]).await {
            Ok(()) => fillers += 1,
            Err(error) => break error,
        }
        ensure!(fillers < 100_000, "the broker takes everything");
    };
    eprintln!("full after {fillers} messages: {full:#}");
    lose_debits(&site).await?;
    pay(&site, 1, "full", 1..31).await?;
    let audit = site.settle(PATIENCE).await?;
    all_succeeded(&audit, 30)?;
    let metrics = Metrics::of(&all).await?;
    ensure!(metrics.get("broker_refused_total{why=\"refused\"}") > 0, "{metrics:?}");
    everybody_is_ready(&all).await?;
    let api = &all[..1];
    ensure!(Metrics::of(api).await?.get("broker_takes") == 0, "said to take, and refuses");

    Broker::purge(&jetstream).await?;
    pay(&site, 1, "room", 100..110).await?;
    metric_becomes(api, "broker_takes", PATIENCE, |takes| takes == 1).await?;
    site.settle(PATIENCE).await?;
    site.close().await
}

/// Connections stay open and nothing answers: publications run into their limit, payments do not.
async fn a_frozen_broker_holds_up_no_payment(flavor: Flavor) -> anyhow::Result<()> {
    let Some(broker) = Broker::start().await? else { return Ok(()) };
    let extra = broker.table("queue_flows = 10\nmax_parallel_publishes = 4\npublish_timeout_ms = 500");
    let tuning = Tuning { timer_bound_ms: 0, extra, ..Tuning::default() };
    let site = Site::open(Database::shared(flavor, "broker_frozen").await?, tuning, 1, 1).await?;
    let all = services(&site, 1, 1);
    metric_becomes(&all, "broker_usable", PATIENCE, |usable| usable == 2).await?;
    lose_debits(&site).await?;
    pay(&site, 1, "warm", 1..6).await?;
    metric_becomes(&all, "broker_published_total", PATIENCE, |published| published > 0).await?;
    broker.server.pause()?;
    pay(&site, 1, "frozen", 100..200).await?;
    let audit = site.settle(PATIENCE).await?;
    all_succeeded(&audit, 105)?;
    let metrics = Metrics::of(&all).await?;
    ensure!(metrics.get("broker_refused_total") >= 100, "{metrics:?}");
    everybody_is_ready(&all).await?;
    metric_becomes(&all, "broker_connected", PATIENCE, |connected| connected == 0).await?;
    broker.server.resume()?;
    metric_becomes(&all, "broker_usable", PATIENCE, |usable| usable == 2).await?;
    site.close().await
}

/// By the broker within 1.5 s of the schedule in the middle, by the scanner within one round.
async fn after_a_lost_answer_the_broker_is_sooner_than_the_scanner(flavor: Flavor) -> anyhow::Result<()> {
    const PAYMENTS: u64 = 40;
    const ROUND_MS: u64 = 3_000;
    /// For the work itself, and the rows that come before.
    const WORK_MS: i64 = 2_000;
    let Some(broker) = Broker::start().await? else { return Ok(()) };
    let by_broker = measure(flavor, "late_broker", SELDOM_MS, broker.table(""), PAYMENTS).await?;
    let by_scanner = measure(flavor, "late_scanner", ROUND_MS, String::new(), PAYMENTS).await?;
    for (who, measured) in [("broker", &by_broker), ("scanner", &by_scanner)] {
        eprintln!(
            "after due, by the {who}: median {} ms, worst {:?} ms; to terminal in all: median {} ms; by {:?}",
            Lateness::median(&measured.after_due_ms),
            measured.after_due_ms.last(),
            Lateness::median(&measured.in_all_ms),
            measured.by
        );
    }
    let expected = |who: &str| [(who.to_owned(), i64::try_from(PAYMENTS).unwrap_or(0))].into();
    ensure!(by_broker.by == expected("WAKE"), "{:?}", by_broker.by);
    ensure!(by_scanner.by == expected("SCANNER"), "{:?}", by_scanner.by);
    let median = Lateness::median(&by_broker.after_due_ms);
    ensure!(median <= 1_500, "the median by broker is {median} ms after due");
    let worst = *by_scanner.after_due_ms.last().context("nothing was measured")?;
    ensure!(worst <= i64::try_from(ROUND_MS)? + WORK_MS, "the worst by scanner is {worst} ms after due");
    Ok(())
}

async fn measure(
    flavor: Flavor,
    name: &str,
    round_interval_ms: u64,
    extra: String,
    payments: u64,
) -> anyhow::Result<Lateness> {
    let tuning =
        Tuning { retry_ms: vec![4_000], round_interval_ms, timer_bound_ms: 0, extra, ..Tuning::default() };
    let database = Database::shared(flavor, name).await?;
    let mut site = Site::open_empty(database, tuning, Profile::Debug).await?;
    site.stack.start_api().await?;
    site.stack.start_scanner().await?;
    let mut root = site.database.connect().await?;
    let measured = lose_answers(&site.stack, &mut root, 1, payments).await?;
    root.close().await?;
    site.settle(PATIENCE).await?;
    site.close().await?;
    Ok(measured)
}
