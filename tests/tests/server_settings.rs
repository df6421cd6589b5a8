//! A server whose settings break the promises is refused at start, by name and with the way to insist; who insists gets
//! a warning.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Site};
use xtask::db::{Server, ServerOptions};
use xtask::stack::Tuning;

/// A refusal comes at once; this only keeps a service that starts after all from being waited for.
const REFUSAL: Duration = Duration::from_secs(20);

e2e::on_both_servers! {
    that_break_the_promises_are_refused within 150 s;
}

/// What is wrong with the server, how it is mended, what the refusal must name.
struct Flaw {
    breaks: &'static str,
    mends: &'static str,
    named: &'static str,
    insist_key: &'static str,
}

impl Flaw {
    /// The environment variable that insists.
    fn insist_variable(&self) -> String {
        format!("PAY__{}", self.insist_key.to_uppercase().replace('.', "__"))
    }
}

const SETTINGS: [Flaw; 3] = [
    Flaw {
        breaks: "SET GLOBAL sync_binlog = 0",
        mends: "SET GLOBAL sync_binlog = 1",
        named: "sync_binlog",
        insist_key: "database.accept_weak_durability",
    },
    Flaw {
        breaks: "SET GLOBAL innodb_flush_log_at_trx_commit = 2",
        mends: "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
        named: "innodb_flush_log_at_trx_commit",
        insist_key: "database.accept_weak_durability",
    },
    Flaw {
        breaks: "SET GLOBAL sql_mode = 'NO_ENGINE_SUBSTITUTION'",
        mends: "SET GLOBAL sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
        named: "sql_mode",
        insist_key: "database.accept_non_strict_sql_mode",
    },
];

/// Last: a dropped trigger is not put back.
const MISSING_GUARD: Flaw = Flaw {
    breaks: "DROP TRIGGER flow_before_update",
    mends: "",
    named: "flow_before_update",
    insist_key: "database.accept_missing_guards",
};

async fn that_break_the_promises_are_refused(flavor: Flavor) -> anyhow::Result<()> {
    let options = ServerOptions { buffer_pool_mib: 64, ..ServerOptions::new(flavor) };
    let mut server = Server::start(options).await?;
    let mut site = Site::open(Database::on(&server, "settings").await?, Tuning::default(), 1, 1).await?;
    for flaw in SETTINGS.iter().chain([&MISSING_GUARD]) {
        site.database.execute(flaw.breaks).await?;
        for service in ["pay-api", "pay-scanner"] {
            refuses(&site, service, flaw)
                .await
                .with_context(|| format!("{service} after {}", flaw.breaks))?;
        }
        insisted_upon(&mut site, flaw).await.with_context(|| format!("insisting after {}", flaw.breaks))?;
        if !flaw.mends.is_empty() {
            site.database.execute(flaw.mends).await?;
        }
    }
    site.close().await?;
    Ok(server.stop().await?)
}

async fn refuses(site: &Site, service: &str, flaw: &Flaw) -> anyhow::Result<()> {
    let mut process = site.stack.spawn_doomed(service, &[])?;
    let status = process.wait_for_exit(REFUSAL).await?;
    let said = process.log();
    ensure!(!status.success(), "it ended with {status}, as if all were well:\n{said}");
    ensure!(said.contains(flaw.named), "the refusal does not name {}:\n{said}", flaw.named);
    ensure!(said.contains(flaw.insist_key), "the refusal does not name {}:\n{said}", flaw.insist_key);
    ensure!(!said.contains("panicked"), "{said}");
    Ok(())
}

async fn insisted_upon(site: &mut Site, flaw: &Flaw) -> anyhow::Result<()> {
    let variable = flaw.insist_variable();
    site.stack.set_env(&[(&variable, "true")]);
    site.stack.kill_and_restart_api(0).await?;
    site.stack.kill_and_restart_scanner(0).await?;
    for log in [site.stack.api_process(0).log(), site.stack.scanner_process(0).log()] {
        let warned = log.lines().any(|line| line.contains("\"WARN\"") && line.contains(flaw.named));
        ensure!(warned, "no warning names {}:\n{log}", flaw.named);
    }
    site.stack.set_env(&[]);
    Ok(())
}
