//! The connection to the database lost exactly while a write commits: before the server heard of it, after it had
//! committed, and with the write arriving when its caller had long been told. For writes that commit by themselves and
//! for shared commits: nobody is told a lie, nothing is lost or doubled.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::fault_proxy::{Cut, CutId, Fault, FaultProxy, Moment, Statement};
use e2e::{Crowd, Database, Flavor, Manners, Paths, Site};
use serde_json::Value;
use xtask::stack::{Payment, Tuning, wait_until};

const CREATION: Statement = Statement::Autocommit("INSERT INTO internal_pay_flow");
const SWAP: Statement = Statement::Autocommit("UPDATE internal_pay_flow SET");
const KEY: Statement = Statement::Autocommit("INSERT INTO pay_request_key");
/// Longer than a caller looks whether its write has happened, shorter than a server's patience.
const LATE: Moment = Moment::Late(Duration::from_millis(400));
const MOMENTS: [Moment; 3] = [Moment::Before, Moment::After, LATE];
const SETTLE: Duration = Duration::from_secs(60);
const STRUCK: Duration = Duration::from_secs(60);
/// Cuts of each kind under load.
const STRIKES: u32 = 6;

e2e::on_both_servers! {
    one_write_at_a_time within 90 s;
}

e2e::on_mysql! {
    under_load within 120 s;
}

fn tuning() -> Tuning {
    Tuning { claim_ms: 1_000, round_interval_ms: 100, ..Tuning::default() }
}

/// One payment after the other, each with its own cut: what became of it is known exactly.
async fn one_write_at_a_time(flavor: Flavor) -> anyhow::Result<()> {
    let database = Database::shared(flavor, "lost").await?;
    let (site, paths) = Paths::open(database, tuning(), (1, 1), &[]).await?;
    let way = &paths.database;
    for (number, moment) in (0..).zip(MOMENTS) {
        for (name, statement, wanted) in [("creation", CREATION, 1), ("swap", SWAP, 1), ("swaps", SWAP, 3)] {
            let id = way.cut(Cut { statement, moment, every: 1, times: wanted });
            let payment = Payment::new(10 + number, format!("{name}:{wanted}"));
            let key = format!("{name}-{wanted}-{number}");
            let reply = site.client().pay(&key, &payment.body(), Some(20)).await?;
            let case = format!("{name}, {moment:?}");
            ensure!(matches!(reply.status, 200 | 201), "{case}: HTTP {} {}", reply.status, reply.body);
            ensure!(reply.status_word() == "BIZ_SUCCESS", "{case}: {}", reply.body);
            ensure!(way.struck(id) == wanted, "{case}: cut {} times, not {wanted}", way.struck(id));
            way.heal();
        }
        second_key(&site, way, number, moment).await?;
    }
    let audit = site.settle(SETTLE).await?;
    let count = audit.flows.len();
    ensure!(count == 4 * MOMENTS.len(), "{count} flows of {} payments", 4 * MOMENTS.len());
    ensure!(audit.flows.iter().all(|flow| flow.status == "BIZ_SUCCESS"), "a payment has not ended well");
    eprintln!("lost commits on {flavor}: {count} payments, each cut at one statement, all ended well");
    site.close().await
}

/// A second key for an open attempt, cut at the statement that binds it.
async fn second_key(site: &Site, way: &FaultProxy, number: u64, moment: Moment) -> anyhow::Result<()> {
    let payment = Payment::new(10 + number, "twice").body();
    let outage = serde_json::json!({ "calls": ["debit", "query"], "fault": { "kind": "unavailable" } });
    let outage = site.sim().fault(outage).await?;
    let first = site.client().pay(&format!("first-{number}"), &payment, Some(0)).await?;
    ensure!(first.status == 202, "HTTP {} {}", first.status, first.body);
    let id = way.cut(Cut { statement: KEY, moment, every: 1, times: 1 });
    for _ in 0..2 {
        let second = site.client().pay(&format!("second-{number}"), &payment, Some(0)).await?;
        let same = same_flow(&first.body, &second.body);
        ensure!(same, "{moment:?}: HTTP {} {}", second.status, second.body);
    }
    ensure!(way.struck(id) == 1, "{moment:?}: the binding was not cut");
    site.sim().remove_fault(outage).await?;
    site.client().wait_for_end(first.flow_id(), SETTLE).await?;
    Ok(())
}

fn same_flow(one: &Value, other: &Value) -> bool {
    one["flow_id"].is_string() && one["flow_id"] == other["flow_id"]
}

/// Every kind of cut, again and again, while commits are shared.
async fn under_load(flavor: Flavor) -> anyhow::Result<()> {
    let database = Database::shared(flavor, "cuts").await?;
    let (mut site, paths) = Paths::open(database, tuning(), (2, 1), &[]).await?;
    let (pids, way) = (site.service_pids(), &paths.database);
    let manners = Manners { name: "cuts", clients: 24, pause: Duration::ZERO, wait_s: 1 };
    let crowd = Crowd::start(&[site.stack.api(0), site.stack.api(1)], manners);
    crowd.ends(10).await?;
    for (name, statement) in [("shared commit", Statement::Commit), ("creation", CREATION), ("swap", SWAP)] {
        for moment in MOMENTS {
            let before = crowd.tally();
            let id = way.cut(Cut { statement, moment, every: 4, times: STRIKES });
            struck(way, id, STRIKES).await.with_context(|| format!("{name}, {moment:?}"))?;
            let recovered = crowd.ends(10).await?;
            let since = crowd.tally().since(&before);
            eprintln!(
                "{name}, {moment:?}: cut {STRIKES} times; {} refused, {} unknown; ended well again after {recovered:.1?}",
                since.refused, since.unknown,
            );
        }
    }
    // The commit is lost and nobody can be asked what became of it: that is what "unknown" is for.
    let id = way.cut(Cut { statement: CREATION, moment: Moment::After, every: 1, times: 1 });
    struck(way, id, 1).await?;
    way.set(Fault::Reset);
    crowd.refusals(8).await?;
    way.set(Fault::None);
    crowd.ends(10).await?;
    crowd.reckon(&site, "cuts").await?;
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close_expecting(&["round failed; the next one starts over", "error returned from after_connect"])
        .await
}

async fn struck(way: &FaultProxy, id: CutId, wanted: u32) -> anyhow::Result<()> {
    let enough = || async { Ok((way.struck(id) >= wanted).then_some(())) };
    wait_until("the cuts to strike", STRUCK, enough).await
}
