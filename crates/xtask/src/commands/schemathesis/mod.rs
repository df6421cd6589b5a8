//! `cargo xtask schemathesis`: requests of every shape, made from the document that a running API serves, and everything it
//! answers held against that document. Once as an application, once as somebody on call, once as an operator.

use std::path::Path;

use anyhow::Context as _;
use serde_json::json;
use tokio::process::Command;
use xtask::db::{Flavor, Server, ServerOptions};
use xtask::progress::{Phase, Stopwatch};
use xtask::stack::{Keys, Payment, Profile, Schema, Stack, StackOptions, Tuning};

use crate::{cargo, python};

/// The version that the project is tested with, from PyPI.
const VERSION: &str = "4.32.5";
/// Longest time for one answer, in seconds: far more than the longest wait that a client gets here.
const ANSWER_LIMIT_S: u32 = 20;

/// Who asks, and with which key.
const CALLERS: [(&str, &str); 3] =
    [("an application", Keys::CLIENT), ("on call", Keys::ON_CALL), ("an operator", Keys::OPERATOR)];

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Most generated requests per operation and phase.
    #[arg(long, default_value_t = 60)]
    examples: u32,
    /// The same seed makes the same requests [default: another each time, printed].
    #[arg(long)]
    seed: Option<u128>,
}

/// Runs it; an error when an answer was not as documented.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let program = python::environment("schemathesis", VERSION).await?.join("schemathesis");
    let mut build = cargo::command(&["build", "--package", "pay-api", "--package", "pay-sim", "--bins"]);
    cargo::run("cargo build", build.env("SQLX_OFFLINE", "true")).await?;
    let mut server = Server::start(ServerOptions::new(Flavor::MySql)).await?;
    let outcome = over(&server, &program, &arguments).await;
    server.stop().await?;
    outcome
}

async fn over(server: &Server, program: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let phase = Phase::start("starting simulator and API");
    let dir = xtask::target_dir().join("schemathesis").join("run");
    let _ = std::fs::remove_dir_all(&dir);
    let Schema { app_url, migrate_url } =
        Schema::prepare(&server.root_url(), "contract", Profile::Debug).await?;
    let tuning = Tuning::default();
    let options =
        StackOptions { app_url, migrate_url, dir, profile: Profile::Debug, sim_in_memory: false, tuning };
    let mut stack = Stack::start(options).await?;
    // Some flows stay open on purpose: nobody waits for them for long.
    stack.set_env(&[("PAY__API__MAX_WAIT_MS", "1000")]);
    stack.start_api().await?;
    phase.done();
    let flows = some_flows(&stack).await?;
    let mut failed = Vec::new();
    for (who, key) in CALLERS {
        eprintln!("… asking as {who}");
        let watch = Stopwatch::start();
        let asked = Ask { program, dir: stack.dir(), api: stack.api_url(0), key, flows: &flows };
        if !asked.run(arguments).await? {
            failed.push(who);
        }
        eprintln!("… asked as {who} ({:.1?})", watch.elapsed());
    }
    let dir = stack.dir().display().to_string();
    stack.stop().await?;
    anyhow::ensure!(failed.is_empty(), "not as documented, asked as {}; logs: {dir}", failed.join(", as "));
    Ok(())
}

/// Flows to be read, cancelled, held and pushed: some that have ended, and some that can not, since the wallet is away for
/// their users.
async fn some_flows(stack: &Stack) -> anyhow::Result<Vec<String>> {
    const ENDED: u64 = 2;
    const OPEN: u64 = 6;
    let mut flows = Vec::new();
    for user_id in 1..=ENDED + OPEN {
        let ends = user_id <= ENDED;
        if !ends {
            let away = json!({ "calls": ["debit"], "user_id": user_id.to_string(), "fault": { "kind": "unavailable" } });
            stack.sim().fault(away).await?;
        }
        let body = Payment::new(user_id, "contract").body();
        let paid =
            stack.api(0).pay(&format!("contract-{user_id}"), &body, Some(if ends { 10 } else { 0 })).await?;
        anyhow::ensure!(paid.status == if ends { 201 } else { 202 }, "{} {}", paid.status, paid.body);
        flows.push(paid.flow_id().to_owned());
    }
    Ok(flows)
}

/// One run of the program.
struct Ask<'a> {
    program: &'a Path,
    /// Where it may keep what it keeps.
    dir: &'a Path,
    api: String,
    key: &'static str,
    flows: &'a [String],
}

impl Ask<'_> {
    /// Whether everything was as documented.
    async fn run(&self, arguments: &Arguments) -> anyhow::Result<bool> {
        let here = xtask::workspace_root().join("crates/xtask/src/commands/schemathesis");
        let mut command = Command::new(self.program);
        command
            .arg("--config-file")
            .arg(here.join("schemathesis.toml"))
            .args(["run", &format!("{}/openapi.json", self.api)])
            .args(["--header", &format!("Authorization: Bearer {}", self.key)])
            .args(["--checks", "all", "--mode", "all", "--continue-on-failure"])
            .args(["--max-examples", &arguments.examples.to_string()])
            .args(["--request-timeout", &ANSWER_LIMIT_S.to_string()])
            .args(["--generation-database", "none"])
            .env("PAY_API_URL", &self.api)
            .env("PAY_FLOWS", self.flows.join(","))
            .env("PYTHONPATH", &here)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(self.dir)
            .kill_on_drop(true);
        if let Some(seed) = arguments.seed {
            command.args(["--seed", &seed.to_string()]);
        }
        let status = command.status().await.context("could not run schemathesis")?;
        Ok(status.success())
    }
}
