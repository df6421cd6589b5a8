//! `cargo xtask demo`: a private database, the simulator, the API and the scanner, and payments that other systems
//! lose, told from the client's side; then a table, and the day reconciled. Fails loudly if an invariant does not hold, or
//! if a difference is missed or invented.

mod broker;
mod differences;
mod reconciled;
mod scenes;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use sqlx::Connection as _;

use xtask::db::{Flavor, Server, ServerOptions};
use xtask::progress::Phase;
use xtask::stack::{
    Audit, Channel, Keys, Patience, Profile, Receiver, Schema, Stack, StackOptions, Tuning, wait_until,
};

use crate::cargo;
use reconciled::Day;

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which database server.
    #[arg(long, value_enum, default_value = "mysql")]
    flavor: Flavor,
    /// Leave everything running at the end and print where it listens; Ctrl-C ends it.
    #[arg(long)]
    keep: bool,
    /// Show instead how soon a payment ends whose answer was lost: by scanner, by timer and by a NATS broker.
    #[arg(long, conflicts_with = "keep")]
    broker: bool,
}

/// Longest time that any of the stories may need.
const STORY_END: Duration = Duration::from_secs(60);

/// Plays the demo: ends with an error when something did not start, a story did not end, or an invariant does not hold.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut build = cargo::command(&["build", "--workspace", "--bins"]);
    cargo::run("cargo build --workspace --bins", build.env("SQLX_OFFLINE", "true")).await?;
    let mut server = Server::start(ServerOptions::new(arguments.flavor)).await?;
    let result =
        if arguments.broker { broker::compare(&server).await } else { play(&server, &arguments).await };
    server.stop().await?;
    result
}

async fn play(server: &Server, arguments: &Arguments) -> anyhow::Result<()> {
    let phase = Phase::start("migrating the schema, starting simulator, API and scanner");
    let schema = Schema::prepare(&server.root_url(), "pay", Profile::Debug).await?;
    let application = Receiver::start().await?;
    let (dir, day) = (demo_dir()?, Day::today());
    let told = format!("\n{}{}{}", Channel::table(), application.table(), day.tables(&dir));
    let mut stack = Stack::start(StackOptions {
        app_url: schema.app_url,
        migrate_url: schema.migrate_url,
        dir,
        profile: Profile::Debug,
        sim_in_memory: false,
        tuning: Tuning { extra: told, ..Tuning::default() },
    })
    .await?;
    stack.start_api().await?;
    stack.start_scanner().await?;
    phase.done();

    let stories = scenes::play_all(&mut stack, &application).await?;
    let audit = settle(server, &stack).await?;
    table::print(&stories, &audit);
    let violations = audit.violations();
    for violation in &violations {
        println!("VIOLATED {violation}");
    }
    anyhow::ensure!(violations.is_empty(), "{} invariants do not hold, see above", violations.len());
    println!(
        "Every invariant holds: charged at most once, refunded at most once, nothing delivered was refunded, every"
    );
    println!("refund that was owed was paid, and every change of state is in the audit log.");
    reconciled::play(&stack, day).await?;
    if arguments.keep {
        keep(server, &stack).await?;
    }
    stack.stop().await
}

fn demo_dir() -> anyhow::Result<PathBuf> {
    let dir = xtask::target_dir().join("demo").join(format!("{}", std::process::id()));
    std::fs::create_dir_all(&dir).with_context(|| format!("can not make {}", dir.display()))?;
    Ok(dir)
}

/// Waits until no flow is open any more, and reads everything.
async fn settle(server: &Server, stack: &Stack) -> anyhow::Result<Audit> {
    let mut database = sqlx::MySqlConnection::connect(&server.url("pay")).await?;
    let sim = stack.sim();
    let patience = Patience::of(STORY_END);
    loop {
        let audit = Audit::read(&mut database, &sim).await?;
        let open = audit.open().len();
        if open == 0 {
            return Ok(audit);
        }
        anyhow::ensure!(!patience.is_over(), "{open} flows have not ended after {STORY_END:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn keep(server: &Server, stack: &Stack) -> anyhow::Result<()> {
    let api = stack.api_url(0);
    println!("\nThe stack stays up until Ctrl-C:");
    println!("  API        {api}        (rendered contract: {api}/docs)");
    println!("  scanner    {}        (/metrics)", stack.scanner_url(0));
    println!("  simulator  {}        (/ledger/summary, /faults)", stack.sim().url());
    println!("  database   {}", server.url("pay"));
    println!("  logs       {}", stack.dir().display());
    println!("\nPay:");
    println!("  curl -i {api}/payments -H 'Authorization: Bearer {}' \\", Keys::CLIENT);
    println!("    -H 'Idempotency-Key: try-1' -H 'Content-Type: application/json' -H 'Prefer: wait=2' \\");
    println!(
        "    -d '{{\"user_id\":\"42\",\"scene\":\"renew\",\"biz_key\":\"R:42:1\",\"money\":{{\"amount\":1990,\"currency\":\"CNY\"}},\"deadline\":\"'$(date -u -d '+1 hour' +%FT%TZ)'\"}}'"
    );
    println!("\nLook, as on-call:");
    println!("  curl -s '{api}/payment-flows?user_id=42' -H 'Authorization: Bearer {}'", Keys::ON_CALL);
    println!("\nLose the next answer of the wallet, after it has charged:");
    println!(
        "  curl -s {}/faults -H 'Content-Type: application/json' -d '{{\"calls\":[\"debit\"],\"stage\":\"after\",\"times\":1,\"fault\":{{\"kind\":\"drop\"}}}}'",
        stack.sim().url()
    );
    tokio::signal::ctrl_c().await.context("can not wait for Ctrl-C")?;
    Ok(())
}

/// Waits for something in a story, with the story's time limit.
async fn eventually<T, F>(what: &str, look: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    wait_until(what, STORY_END, look).await
}
