//! A wallet that is out while thousands of flows are in flight, and comes back: the backlog must not return as a second
//! flood. Point eight of the ten fault points, at full size.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::ensure;
use e2e::{Database, Flavor, Shop, Site};
use serde_json::json;
use xtask::stack::{Patience, Payment, SimClient, Tuning};

/// What each process may ask of the wallet.
const CALLS_PER_S: u64 = 60;
const BURST_CALLS: u64 = 30;
/// One API and two scanners: each has its own budget.
const PROCESSES: u64 = 3;
const WATCHED_S: u64 = 60;
/// Flows in flight on the reference server.
const FULL_SIZE: u64 = 5_000;
/// By where in the line of ends the oldest hundredth has ended, on average. In no particular order it would be 50.
const OLDEST_END_BY_PERCENT: i64 = 15;
const SETTLE: Duration = Duration::from_secs(180);

e2e::on_both_servers! {
    the_backlog_comes_back_within_the_budget within 420 s;
}

/// The reference server gets all of it; the other one shows that it is no different.
fn flows_on(flavor: Flavor) -> u64 {
    match flavor {
        Flavor::MySql => FULL_SIZE,
        Flavor::MariaDb => 500,
    }
}

fn tuning() -> Tuning {
    Tuning { postpone_spread_ms: 10_000, claim_ms: 2_000, log_filter: "warn".to_owned(), ..Tuning::default() }
}

async fn the_backlog_comes_back_within_the_budget(flavor: Flavor) -> anyhow::Result<()> {
    let flows = flows_on(flavor);
    let mut site = Site::open(Database::shared(flavor, "backlog").await?, tuning(), 0, 0).await?;
    site.stack.set_env(&[
        ("PAY__WALLETS__MAIN__CALLS_PER_S", &CALLS_PER_S.to_string()),
        ("PAY__WALLETS__MAIN__BURST_CALLS", &BURST_CALLS.to_string()),
    ]);
    site.stack.start_api().await?;
    for _ in 1..PROCESSES {
        site.stack.start_scanner().await?;
    }
    let sim = site.sim();
    let calls = ["debit", "query", "close", "refund", "query_refund"];
    let outage = json!({ "calls": calls, "fault": { "kind": "unavailable", "not_executed": true } });
    let outage = sim.fault(outage).await?;
    let payments: Vec<_> =
        (1..=flows).map(|user| (format!("backlog-{user}"), Payment::new(user, "b"))).collect();
    let patience = Patience::of(SETTLE);
    Shop::new(vec![site.client()]).pay_all(&payments, 64, 0, SETTLE).await?;
    eprintln!("backlog on {flavor}: {flows} flows in flight after {:.1?}", patience.elapsed());
    let in_flight = "SELECT COUNT(*) FROM internal_pay_flow WHERE status IN ('WAIT_PAY', 'PAYING')";
    ensure!(u64::try_from(site.database.number(in_flight).await?)? == flows, "some have ended in an outage");
    let burnt = "SELECT MAX(retry_count) FROM internal_pay_flow";
    ensure!(site.database.number(burnt).await? == 0, "the outage has burnt tries");

    sim.remove_fault(outage).await?;
    let curve = watch(&sim).await?;
    eprintln!("wallet calls in each second after the recovery:{}", drawn(&curve));
    let allowed = |seconds: u64| PROCESSES * (CALLS_PER_S * seconds + BURST_CALLS);
    // A second as we count it may be a little longer than the wallet's.
    let worst = curve.iter().copied().max().unwrap_or(0);
    ensure!(worst <= allowed(1) * 11 / 10, "{worst} calls in one second; the budgets allow {}", allowed(1));
    let sum: u64 = curve.iter().sum();
    ensure!(sum <= allowed(WATCHED_S) * 102 / 100, "{sum} calls; the budgets allow {}", allowed(WATCHED_S));
    ensure!(sum >= flows / 2, "only {sum} calls in a minute: the backlog does not move");

    site.settle(SETTLE).await?;
    let charged = "SELECT COUNT(*) FROM internal_pay_flow WHERE status = 'BIZ_SUCCESS'";
    ensure!(u64::try_from(site.database.number(charged).await?)? == flows, "not all have succeeded");
    let place = place_of_the_oldest(&site, flows).await?;
    eprintln!("backlog on {flavor}: the oldest hundredth ended, on average, at {place} % of the line");
    // In a small backlog the oldest are the few that the wallet itself refused before the breakers opened: they are
    // postponed, and everybody else is through before they are due.
    if flows >= FULL_SIZE {
        ensure!(
            place <= OLDEST_END_BY_PERCENT,
            "the oldest flows ended at {place} % of the line, on average"
        );
    }
    site.close().await
}

/// Calls in each second of a minute.
async fn watch(sim: &SimClient) -> anyhow::Result<Vec<u64>> {
    let wallet_calls = async || {
        let totals = sim.call_totals().await?;
        let of = |call: &str| totals.get(call).copied().unwrap_or(0);
        anyhow::Ok(totals.values().sum::<u64>() - of("execute") - of("fact"))
    };
    let mut before = wallet_calls().await?;
    let mut curve = Vec::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.tick().await;
    for _ in 0..WATCHED_S {
        tick.tick().await;
        let now = wallet_calls().await?;
        curve.push(now - before);
        before = now;
    }
    Ok(curve)
}

fn drawn(curve: &[u64]) -> String {
    curve.chunks(10).fold(String::new(), |mut text, ten| {
        write!(text, "\n   {}", ten.iter().map(|calls| format!("{calls:>5}")).collect::<String>())
            .expect("writing to a string cannot fail");
        text
    })
}

/// Where in the order of their ends the oldest hundredth stands, on average, in percent.
async fn place_of_the_oldest(site: &Site, flows: u64) -> anyhow::Result<i64> {
    let oldest = flows / 100;
    let sql = format!(
        "SELECT CAST(AVG(place) * 100 / {flows} AS SIGNED) FROM (\
           SELECT ROW_NUMBER() OVER (ORDER BY id) AS age, ROW_NUMBER() OVER (ORDER BY finished_at, id) AS place \
           FROM internal_pay_flow) ranked WHERE age <= {oldest}"
    );
    site.database.number(&sql).await
}
