//! Processes that end: a scanner in the middle of a sweep, an API in the middle of a payment, kindly and unkindly.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Shop, Site};
use serde_json::json;
use xtask::stack::{Patience, Payment, Tuning};

const END: Duration = Duration::from_secs(30);
/// Time that a stopping API gives its requests here, in milliseconds.
const DRAIN_MS: u64 = 3_000;

e2e::on_both_servers! {
    a_dead_scanners_share_is_taken_over within 90 s;
    a_stopping_api_answers_and_leaves_the_rest within 90 s;
}

async fn a_dead_scanners_share_is_taken_over(flavor: Flavor) -> anyhow::Result<()> {
    const FLOWS: u64 = 60;
    let tuning = Tuning { timer_bound_ms: 0, claim_ms: 200, call_timeout_ms: 5_000, ..Tuning::default() };
    let mut site = Site::open(Database::shared(flavor, "takeover").await?, tuning, 1, 0).await?;
    let (api, sim) = (site.client(), site.sim());
    // The API's own attempt fails at once; whoever asks about it later waits for long, and holds its partition meanwhile.
    sim.fault(json!({ "calls": ["debit"], "fault": { "kind": "status", "status": 500 } })).await?;
    sim.fault(json!({ "calls": ["query"], "fault": { "kind": "delay", "ms": 3_000 } })).await?;
    let payments: Vec<_> =
        (1..=FLOWS).map(|user| (format!("takeover-{user}"), Payment::new(user, "t"))).collect();
    Shop::new(vec![api]).pay_all(&payments, 32, 0, END).await?;
    let first = site.stack.start_scanner().await?;
    let heard = sim.wait_for_arrivals("query", 8, END).await;
    heard.context("the first scanner does not sweep")?;
    let second = site.stack.start_scanner().await?;
    site.stack.scanner_process(first).kill().await?;
    sim.clear_faults().await?;
    let patience = Patience::of(END);
    let audit = site.settle(END).await?;
    eprintln!("takeover on {flavor}: {FLOWS} flows of a dead scanner ended after {:.1?}", patience.elapsed());
    ensure!(audit.flows.len() == usize::try_from(FLOWS)?, "{} flows", audit.flows.len());
    ensure!(audit.flows.iter().all(|flow| flow.status == "BIZ_SUCCESS"), "{:?}", audit.flows);
    ensure!(site.stack.scanner_process(second).exited()?.is_none(), "the second scanner has ended");
    site.close().await
}

async fn a_stopping_api_answers_and_leaves_the_rest(flavor: Flavor) -> anyhow::Result<()> {
    let tuning = Tuning { call_timeout_ms: 20_000, ..Tuning::default() };
    let mut site = Site::open(Database::shared(flavor, "stopping").await?, tuning, 0, 1).await?;
    site.stack.set_env(&[("PAY__API__SHUTDOWN_DRAIN_MS", &DRAIN_MS.to_string())]);
    let sim = site.sim();
    // The wallet answers one within the drain, the other long after it.
    for (user_id, ms) in [(1, 800), (2, 10_000)] {
        sim.fault(json!({
            "calls": ["debit"], "user_id": user_id.to_string(), "stage": "after", "times": 1,
            "fault": { "kind": "delay", "ms": ms },
        }))
        .await?;
        let index = site.stack.start_api().await?;
        let api = site.stack.api(index);
        let paying = tokio::spawn(async move {
            api.pay(&format!("stopping-{user_id}"), &Payment::new(user_id, "s").body(), Some(15)).await
        });
        sim.wait_for_applied("debit", u32::try_from(user_id)?, END).await?;
        let patience = Patience::of(Duration::from_millis(DRAIN_MS + 2_000));
        let status = site.stack.terminate_api(index, END).await?;
        ensure!(status.code() == Some(0), "{status} on SIGTERM");
        ensure!(!patience.is_over(), "stopping took {:?}", patience.elapsed());
        let answer = paying.await?.context("the waiting client got no answer")?;
        ensure!(matches!(answer.status, 201 | 202), "{} {}", answer.status, answer.body);
        eprintln!(
            "stopping on {flavor}: gone after {:.1?}, the client got {}",
            patience.elapsed(),
            answer.status
        );
    }
    let audit = site.settle(END).await?;
    ensure!(
        audit.flows.len() == 2 && audit.flows.iter().all(|flow| flow.status == "BIZ_SUCCESS"),
        "{:?}",
        audit.flows
    );
    site.close().await
}
