//! Payments at the highest load that the machine sustains, for as long as asked, while calls go wrong and processes and
//! the database are killed. Ends well only if every flow has ended, or is held with a reason, and every invariant holds
//! by the wallet's and the business system's own books.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use sqlx::{Connection as _, MySqlConnection};
use xtask::db::{Server, ServerOptions};
use xtask::progress::Phase;
use xtask::stack::{Audit, Patience, Profile, Schema, SimClient, Stack, StackOptions, Tuning};

use super::Arguments;
use super::clients::{self, Tally};
use super::faults;
use super::killer::Killer;
use crate::cargo;

pub(super) const APIS: usize = 2;
pub(super) const SCANNERS: usize = 2;
/// How often the state of things is said.
const SAID_EVERY: Duration = Duration::from_secs(10);
/// Longest time from the last payment to the last flow's end.
const SETTLE: Duration = Duration::from_secs(600);

fn tuning() -> Tuning {
    Tuning {
        retry_ms: vec![200, 400, 800, 1_500, 3_000],
        claim_ms: 2_000,
        call_timeout_ms: 400,
        round_interval_ms: 250,
        log_filter: "warn".to_owned(),
        ..Tuning::default()
    }
}

/// Runs the load to its end and says what came of it.
pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    cargo::run(
        "cargo build --release --bins",
        cargo::command(cargo::RELEASE_BINARIES).env("SQLX_OFFLINE", "true"),
    )
    .await?;
    let mut options = ServerOptions::new(arguments.flavor);
    options.buffer_pool_mib = 1_024;
    let server = Server::start(options).await?;
    let schema = Schema::prepare(&server.root_url(), "pay", Profile::Release).await?;
    let mut stack = Stack::start(StackOptions {
        app_url: schema.app_url,
        migrate_url: schema.migrate_url,
        dir: xtask::target_dir().join("soak"),
        profile: Profile::Release,
        sim_in_memory: false,
        tuning: tuning(),
    })
    .await?;
    for _ in 0..APIS {
        stack.start_api().await?;
    }
    for _ in 0..SCANNERS {
        stack.start_scanner().await?;
    }
    let sim = stack.sim();
    faults::add(&sim, arguments.seed).await?;
    let root_url = server.url("pay");
    let mut killer = Killer { server, stack, seed: arguments.seed, process_kills: 0, database_kills: 0 };
    let tally = load(arguments, &root_url, &sim, &mut killer).await?;
    let settled = settle(&root_url, &sim, &tally).await;
    println!("processes killed: {}, databases killed: {}", killer.process_kills, killer.database_kills);
    let Killer { stack, mut server, .. } = killer;
    stack.stop().await?;
    server.stop().await?;
    settled
}

/// Clients and killer side by side for the time asked for.
async fn load(
    arguments: &Arguments,
    root_url: &str,
    sim: &SimClient,
    killer: &mut Killer,
) -> anyhow::Result<Arc<Tally>> {
    let limit = Duration::from_secs(arguments.minutes * 60);
    let apis: Vec<_> = (0..APIS).map(|index| killer.stack.api(index)).collect();
    let tally = Arc::new(Tally::default());
    let over = Arc::new(AtomicBool::new(false));
    let patience = Patience::of(limit);
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..arguments.clients {
        let (apis, sim, tally, over) = (apis.clone(), sim.clone(), Arc::clone(&tally), Arc::clone(&over));
        let seed = arguments.seed.wrapping_mul(1_000_003).wrapping_add(u64::try_from(client)?);
        tasks.spawn(async move { clients::buy_until(&over, client, seed, &apis, &sim, &tally).await });
    }
    let saying = async {
        while !patience.is_over() {
            tokio::time::sleep(SAID_EVERY.min(limit)).await;
            let open = open_flows(root_url).await.map_or_else(|_| "?".to_owned(), |open| open.to_string());
            eprintln!("… {:>5.0?} {} · {open} flows open", patience.elapsed(), tally.said());
        }
        over.store(true, Ordering::Relaxed);
    };
    let ((), killed) = tokio::join!(saying, killer.kill_until(&over));
    killed?;
    while let Some(ended) = tasks.join_next().await {
        ended?.context("a client gave up")?;
    }
    println!("{} in {:.0?}: {} a second", tally.said(), patience.elapsed(), tally.per_s(patience.elapsed()));
    Ok(tally)
}

async fn open_flows(root_url: &str) -> anyhow::Result<i64> {
    let mut root = MySqlConnection::connect(root_url).await?;
    let open = sqlx::query_scalar(
        "SELECT COUNT(*) FROM internal_pay_flow FORCE INDEX (idx_open_id_due) WHERE is_open = 1 AND hold_reason IS NULL",
    )
    .fetch_one(&mut root)
    .await?;
    drop(root.close().await);
    Ok(open)
}

/// Nothing goes wrong any more: every flow must end, and the books must agree.
async fn settle(root_url: &str, sim: &SimClient, tally: &Tally) -> anyhow::Result<()> {
    sim.clear_faults().await?;
    let phase = Phase::start("waiting for every flow to end");
    let patience = Patience::of(SETTLE);
    while open_flows(root_url).await? > 0 && !patience.is_over() {
        phase.note(&format!("{} open", open_flows(root_url).await?));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // Nothing that was still under way may change what the books say.
    tokio::time::sleep(Duration::from_millis(faults::LATEST_MS)).await;
    phase.done();
    let phase = Phase::start("checking every flow against the books");
    let mut root = MySqlConnection::connect(root_url).await?;
    let audit = Audit::read(&mut root, sim).await?;
    phase.done();
    let mut violations: Vec<String> = audit.violations().iter().map(ToString::to_string).collect();
    violations.extend(tally.missing(&audit));
    println!("{}", clients::ends(&audit));
    let open = audit.open().len();
    println!("flows: {}, open: {open}, violations: {}", audit.flows.len(), violations.len());
    for violation in violations.iter().take(20) {
        println!("  {violation}");
    }
    anyhow::ensure!(open == 0, "{open} flows have not ended within {SETTLE:?}");
    anyhow::ensure!(violations.is_empty(), "{} promises were broken", violations.len());
    Ok(())
}
