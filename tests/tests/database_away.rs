//! The database stopped, killed and frozen under load: clients are told so in bounded time, nothing is lost or doubled,
//! and everything goes on by itself once it is back.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Site};
use serde_json::Value;
use xtask::db::{Server, ServerOptions};
use xtask::stack::{ApiClient, Patience, Payment, Reply, Tuning, wait_until};

const CLIENTS: u64 = 16;
/// No client waits longer for any answer: its own wait, a statement's limit, a connection's limit, and some.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const OUTAGE_END: Duration = Duration::from_secs(40);
/// Longer than the services let a statement run.
const FROZEN: Duration = Duration::from_secs(7);
/// Payments that must get through after each outage.
const FRESH_PAYMENTS: u32 = 40;

e2e::on_both_servers! {
    stopped_killed_and_frozen within 240 s;
}

/// What the clients saw.
#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    taken: AtomicU32,
    refused: AtomicU32,
    unknown: AtomicU32,
    broken: AtomicU32,
    slowest: Mutex<Duration>,
    /// Flow ids that were acknowledged.
    acknowledged: Mutex<BTreeSet<String>>,
    /// Targets of clients who were told that nothing was recorded, and went away.
    given_up: Mutex<Vec<String>>,
    /// Answers that must not be.
    wrong: Mutex<Vec<String>>,
}

async fn stopped_killed_and_frozen(flavor: Flavor) -> anyhow::Result<()> {
    let options = ServerOptions { buffer_pool_mib: 64, ..ServerOptions::new(flavor) };
    let mut server = Server::start(options).await?;
    let tuning = Tuning { claim_ms: 1_500, ..Tuning::default() };
    let mut site = Site::open(Database::on(&server, "away").await?, tuning, 1, 1).await?;
    let pids = (site.stack.api_process(0).pid(), site.stack.scanner_process(0).pid());
    let (seen, api) = (Seen::default(), site.client());
    let clients = async {
        let all = (0..CLIENTS).map(|client| buy_on_and_on(&api, client, &seen));
        futures_util::future::join_all(all).await;
        Ok(())
    };
    let outages = async {
        let end = outages(&mut server, &api, &seen).await;
        seen.stop.store(true, Ordering::Relaxed);
        end
    };
    let ((), ()) = tokio::try_join!(clients, outages)?;
    let slowest = *seen.slowest.lock().expect("no client panics");
    eprintln!(
        "away on {flavor}: {} taken, {} refused, {} unknown, {} without an answer, slowest answer {slowest:.1?}",
        seen.taken.load(Ordering::Relaxed),
        seen.refused.load(Ordering::Relaxed),
        seen.unknown.load(Ordering::Relaxed),
        seen.broken.load(Ordering::Relaxed),
    );
    let wrong = seen.wrong.lock().expect("no client panics").clone();
    ensure!(wrong.is_empty(), "{} answers that must not be, e.g. {:?}", wrong.len(), wrong.first());
    ensure!(slowest < ANSWER_LIMIT, "an answer took {slowest:?}");
    let audit = site.settle(Duration::from_secs(60)).await?;
    let now = (site.stack.api_process(0).pid(), site.stack.scanner_process(0).pid());
    ensure!(now == pids && pids.0.is_some() && pids.1.is_some(), "a service has ended: {pids:?}, {now:?}");
    let ids: BTreeSet<String> = audit.flows.iter().map(|flow| flow.id.to_string()).collect();
    let acknowledged = seen.acknowledged.lock().expect("no client panics").clone();
    ensure!(acknowledged.is_subset(&ids), "lost: {:?}", acknowledged.difference(&ids).collect::<Vec<_>>());
    let given_up = seen.given_up.lock().expect("no client panics").clone();
    let recorded = given_up.iter().find(|target| audit.flows.iter().any(|flow| flow.target == **target));
    ensure!(recorded.is_none(), "{recorded:?} was refused for sure, and recorded all the same");
    ensure!(!given_up.is_empty(), "no client was told that nothing was recorded");
    site.close_expecting(&["round failed; the next one starts over", "a transaction could not be ended"])
        .await?;
    Ok(server.stop().await?)
}

/// Graceful stop, crash, freeze, each under load, each followed by fresh payments.
async fn outages(server: &mut Server, api: &ApiClient, seen: &Seen) -> anyhow::Result<()> {
    fresh_payments(seen).await.context("before any outage")?;
    server.stop().await?;
    told_so(api, seen).await.context("while the server is stopped")?;
    server.restart().await?;
    fresh_payments(seen).await.context("after a graceful stop")?;
    server.kill().await?;
    told_so(api, seen).await.context("while the server is killed")?;
    server.restart().await?;
    fresh_payments(seen).await.context("after a crash")?;
    server.pause().await?;
    let frozen = Patience::of(FROZEN);
    let thawed = || async { Ok(frozen.is_over().then_some(())) };
    wait_until("the server to have been frozen for a while", OUTAGE_END, thawed).await?;
    server.resume().await?;
    fresh_payments(seen).await.context("after a freeze")
}

async fn fresh_payments(seen: &Seen) -> anyhow::Result<()> {
    let wanted = seen.taken.load(Ordering::Relaxed) + FRESH_PAYMENTS;
    let enough = || async { Ok((seen.taken.load(Ordering::Relaxed) >= wanted).then_some(())) };
    wait_until("fresh payments to get through", OUTAGE_END, enough).await
}

/// Several clients have been told that nothing was recorded, and readiness says so while liveness does not.
async fn told_so(api: &ApiClient, seen: &Seen) -> anyhow::Result<()> {
    let wanted = seen.refused.load(Ordering::Relaxed) + 20;
    let enough = || async { Ok((seen.refused.load(Ordering::Relaxed) >= wanted).then_some(())) };
    wait_until("refusals", OUTAGE_END, enough).await?;
    let (ready, live) = (api.get("/readyz").await?, api.get("/healthz").await?);
    ensure!((ready.status, live.status) == (503, 200), "readyz {}, healthz {}", ready.status, live.status);
    Ok(())
}

/// New payments, one after the other. Every other client repeats a refused one until it is taken, the others believe the
/// refusal and go on to something else.
async fn buy_on_and_on(api: &ApiClient, client: u64, seen: &Seen) {
    let user_id = 100 + client;
    for number in 0.. {
        if seen.stop.load(Ordering::Relaxed) {
            return;
        }
        let payment = Payment::new(user_id, format!("away:{number}"));
        let (body, key) = (payment.body(), format!("away-{client}-{number}"));
        buy(api, &key, &body, client.is_multiple_of(2), seen).await;
    }
}

async fn buy(api: &ApiClient, key: &str, body: &Value, stubborn: bool, seen: &Seen) {
    let mut never_unknown = true;
    loop {
        let patience = Patience::of(ANSWER_LIMIT);
        let answer = api.pay(key, body, Some(1)).await;
        {
            let mut slowest = seen.slowest.lock().expect("no client panics");
            *slowest = slowest.max(patience.elapsed());
        }
        match answer {
            Ok(reply) if matches!(reply.status, 200..=202) => {
                seen.acknowledged.lock().expect("no client panics").insert(reply.flow_id().to_owned());
                seen.taken.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Ok(reply) if is_refusal(&reply) => {
                seen.refused.fetch_add(1, Ordering::Relaxed);
                // A refusal speaks for its own request alone: an earlier one of the same key may have been recorded.
                if !stubborn && never_unknown {
                    let target = format!(
                        "{}/renew/{}",
                        body["user_id"].as_str().unwrap_or_default(),
                        body["biz_key"].as_str().unwrap_or_default()
                    );
                    seen.given_up.lock().expect("no client panics").push(target);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    return;
                }
            }
            Ok(reply) if is_unknown(&reply) => {
                never_unknown = false;
                seen.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Ok(reply) => {
                seen.wrong
                    .lock()
                    .expect("no client panics")
                    .push(format!("HTTP {} {}", reply.status, reply.body));
                return;
            }
            Err(_) => {
                never_unknown = false;
                seen.broken.fetch_add(1, Ordering::Relaxed);
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
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
