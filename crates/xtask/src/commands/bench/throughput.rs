//! Payments a second through the API over an instant simulator, beside three references on the same server: the
//! product's own statements, the same with the downstream calls that every such program must make, and shared commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use serde_json::{Value, json};
use sqlx::mysql::MySqlConnectOptions;
use xtask::db::Server;
use xtask::progress::Phase;
use xtask::stack::{ApiClient, Payment, Schema, Stack, StackOptions, Tuning};

use super::calls::Calls;
use super::load::{BareLoop, Outcome, Worker, closed_loop};
use super::statements::Statements;
use super::{PROFILE, group_commit, memory};

const CONCURRENCY: [usize; 3] = [1, 16, 64];

/// What this part came to.
pub(super) struct Measured {
    pub(super) throughput: Value,
    pub(super) memory: Value,
}

/// One concurrency's outcomes.
struct Row {
    bare: Outcome,
    calling: Outcome,
    api: Outcome,
    shared: Outcome,
}

/// Runs the four programs one after the other at each concurrency, so that a drift of the machine hits them alike.
///
/// # Errors
/// Anything that does not start, or a payment that does not end in `BIZ_SUCCESS`.
pub(super) async fn run(server: &Server, seconds: u64) -> anyhow::Result<Measured> {
    let statements = Arc::new(Statements::read()?);
    let schema = Schema::prepare(&server.root_url(), "pay", PROFILE).await?;
    Schema::prepare(&server.root_url(), "bare", PROFILE).await?;
    let bare_options: MySqlConnectOptions = server.url("bare").parse()?;
    let mut stack = Stack::start(StackOptions {
        app_url: schema.app_url,
        migrate_url: schema.migrate_url,
        dir: xtask::target_dir().join("bench"),
        profile: PROFILE,
        sim_in_memory: true,
        tuning: Tuning {
            log_filter: "warn".to_owned(),
            claim_ms: 15_000,
            call_timeout_ms: 5_000,
            ..Tuning::default()
        },
    })
    .await?;
    stack.start_api().await?;
    stack.start_scanner().await?;
    let at_rest = memory::read(&mut stack)?;

    let calls = Calls::new(stack.sim_url());
    let ids = Arc::new(AtomicU64::new(1));
    let payments = Arc::new(AtomicU64::new(1));
    let mut rows = Vec::new();
    for concurrency in CONCURRENCY {
        let phase = Phase::start(format!(
            "{concurrency} at once: bare statements, with calls, the API, shared commits; {seconds} s each"
        ));
        let bare = closed_loop(concurrency, seconds, async |_| {
            BareLoop::connect(&bare_options, &statements, &ids, None).await
        })
        .await
        .context("the bare loop")?;
        let calling = closed_loop(concurrency, seconds, async |_| {
            BareLoop::connect(&bare_options, &statements, &ids, Some(&calls)).await
        })
        .await
        .context("the bare loop with calls")?;
        let api =
            closed_loop(concurrency, seconds, async |_| Ok(Payer::new(&stack.api(0), &payments))).await?;
        let shared =
            shared_commits(&bare_options, concurrency, seconds).await.context("the shared commits")?;
        phase.done();
        rows.push(Row { bare, calling, api, shared });
    }
    let under_load = memory::read(&mut stack)?;
    print(&rows);
    memory::print(&at_rest, &under_load);
    stack.stop().await?;
    Ok(Measured {
        throughput: rows
            .iter()
            .map(|Row { bare, calling, api, shared }| {
                json!({ "bare": bare, "bare_with_calls": calling, "api": api, "shared": shared })
            })
            .collect(),
        memory: json!({ "at_rest": at_rest, "under_load": under_load }),
    })
}

async fn shared_commits(
    options: &MySqlConnectOptions,
    concurrency: usize,
    seconds: u64,
) -> anyhow::Result<Outcome> {
    let (first, committer) = group_commit::start(options).await?;
    let outcome = closed_loop(concurrency, seconds, async |_| Ok(first.another())).await?;
    drop(first);
    committer.await??;
    Ok(outcome)
}

/// A client application that pays, one payment after the other.
struct Payer {
    api: ApiClient,
    payments: Arc<AtomicU64>,
}

impl Payer {
    fn new(api: &ApiClient, payments: &Arc<AtomicU64>) -> Payer {
        Payer { api: api.clone(), payments: Arc::clone(payments) }
    }
}

impl Worker for Payer {
    async fn once(&mut self) -> anyhow::Result<()> {
        let number = self.payments.fetch_add(1, Ordering::Relaxed);
        let payment = Payment::new(1 + number % 1_000_000, format!("bench-{number}"));
        let reply = self.api.pay(&format!("bench-{number}"), &payment.body(), Some(10)).await?;
        anyhow::ensure!(
            reply.status == 201 && reply.status_word() == "BIZ_SUCCESS",
            "a payment ended as HTTP {}: {}",
            reply.status,
            reply.body
        );
        Ok(())
    }
}

fn print(rows: &[Row]) {
    println!(
        "\nPayments a second (p50/p99 in ms). Load, simulator, programs and server share the cores.\n\
         bare: the product's own statements alone. with calls: the same, and the three downstream calls over HTTP.\n\
         API: whole payments over HTTP. shared: one committer, multi-row statements, nothing checked."
    );
    println!(
        "{:>3}  {:>19}  {:>19}  {:>19}  {:>19}  {:>8}  {:>14}  {:>10}",
        "c", "bare", "with calls", "API", "shared", "API/bare", "API/with calls", "API/shared"
    );
    for Row { bare, calling, api, shared } in rows {
        println!(
            "{:>3}  {:>19}  {:>19}  {:>19}  {:>19}  {:>8}  {:>14}  {:>10}",
            bare.concurrency,
            cell(bare),
            cell(calling),
            cell(api),
            cell(shared),
            ratio(api.per_s, bare.per_s),
            ratio(api.per_s, calling.per_s),
            ratio(api.per_s, shared.per_s),
        );
    }
}

fn cell(outcome: &Outcome) -> String {
    format!("{} ({:.1}/{:.1})", outcome.per_s, outcome.p50_ms, outcome.p99_ms)
}

fn ratio(of: u64, to: u64) -> String {
    let percent = of * 100 / to.max(1);
    format!("{}.{:02}", percent / 100, percent % 100)
}
