//! One stack of processes with crash points in them, over a schema of its own: ordering a death, watching it, and
//! bringing the dead back.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Receiver, Site};
use xtask::programs::Program;
use xtask::stack::{Channel, Process, Profile, RedisServer, Tuning, wait_until};

use super::cases::{Case, Setup, Victim};

/// Longest time between an order and the death.
const DEATH: Duration = Duration::from_secs(8);

const SIGKILL: i32 = 9;

/// Tells a build with crash points where its orders are.
pub(crate) const ORDER_FILE_VARIABLE: &str = "PAY_CRASH_FILE";

/// Where the entry lock is looked at, and its server can be had.
async fn entry_lock(setup: Setup, name: &str) -> anyhow::Result<Option<RedisServer>> {
    match setup {
        Setup::NoTimer if !Program::Redis.is_missing() => {
            let dir = xtask::target_dir().join("e2e").join(format!("redis-{name}-{}", std::process::id()));
            RedisServer::start(&dir).await.map(Some)
        }
        Setup::NoTimer | Setup::Timer | Setup::OneCommitter => Ok(None),
    }
}

fn lock_table(url: &str) -> String {
    format!("\n[entry_lock]\nredis = \"{url}\"\nwait_ms = 100\ntimeout_ms = 1000\n")
}

/// A stack in which cases are run one after the other.
pub(crate) struct Lane {
    pub(crate) site: Site,
    pub(crate) setup: Setup,
    /// The application `shop`, where it is told.
    pub(crate) receiver: Receiver,
    /// Users are the lane's own and never used twice.
    next_user: u64,
    orders: u32,
    scanner_is_paused: bool,
    /// Of the entry lock; kept for its drop.
    _redis: Option<RedisServer>,
}

impl Lane {
    pub(crate) async fn open(flavor: Flavor, setup: Setup, name: &str) -> anyhow::Result<Lane> {
        let receiver = Receiver::start().await?;
        let redis = entry_lock(setup, name).await?;
        let lock = redis.as_ref().map_or_else(String::new, |server| lock_table(&server.url()));
        let tuning = Tuning {
            retry_ms: vec![150],
            claim_ms: 300,
            postpone_spread_ms: 50,
            call_timeout_ms: 2_000,
            settle_margin_ms: 100,
            round_interval_ms: 100,
            timer_bound_ms: if setup == Setup::Timer { 600_000 } else { 0 },
            extra: Channel::table() + &notifications(&receiver) + &lock,
            ..Tuning::default()
        };
        let database = Database::shared(flavor, name).await?;
        let mut site = Site::open_empty(database, tuning, Profile::CrashPoints).await?;
        let committers = if setup == Setup::OneCommitter { "1" } else { "2" };
        site.stack.set_env(&[
            (ORDER_FILE_VARIABLE, &order_file(&site, "order").display().to_string()),
            ("PAY__DATABASE__COMMITTERS", committers),
            // A statement may be paused for as long as others need to queue up behind it.
            ("PAY__DATABASE__STATEMENT_TIMEOUT_MS", "30000"),
            // Faults come thick here; the breaker is not what is looked at.
            ("PAY__WALLETS__MAIN__BREAKER_FAILURES", "1000"),
            ("PAY__BUSINESSES__MAIN__BREAKER_FAILURES", "1000"),
            // What an API that died had kept is found soon.
            ("PAY__CALLBACKS__CLAIM_MS", "300"),
            ("PAY__CALLBACKS__RETRY_MS", "150"),
            ("PAY__CALLBACKS__ROUND_INTERVAL_MS", "100"),
            // Cancelling does not wait for the end here.
            ("PAY__API__DEFAULT_WAIT_MS", "0"),
            // Every page is full, so that the lease is confirmed between two; every row in one partition.
            ("PAY__SCANNER__PAGE_ROWS", "1"),
            ("PAY__SCANNER__PARTITIONS", "1"),
            ("PAY__SCANNER__SUMMARY_INTERVAL_MS", "100"),
        ]);
        site.stack.start_api().await?;
        site.stack.start_scanner().await?;
        Ok(Lane { site, setup, receiver, next_user: 1, orders: 0, scanner_is_paused: false, _redis: redis })
    }

    /// A user that nobody has used.
    pub(crate) fn new_user(&mut self) -> u64 {
        self.next_user += 1;
        self.next_user
    }

    /// Stops the scanner where it is, so that what a dead API left behind can be looked at.
    pub(crate) async fn pause_scanner(&mut self) -> anyhow::Result<()> {
        self.site.stack.scanner_process(0).signal("STOP").await?;
        self.scanner_is_paused = true;
        Ok(())
    }

    pub(crate) async fn resume_scanner(&mut self) -> anyhow::Result<()> {
        if self.scanner_is_paused {
            self.site.stack.scanner_process(0).signal("CONT").await?;
            self.scanner_is_paused = false;
        }
        Ok(())
    }

    pub(crate) async fn restart_api(&mut self) -> anyhow::Result<()> {
        self.site.stack.kill_and_restart_api(0).await
    }

    /// Orders a death: from now on it is due at the given passing of the point. Scanner and API read the same order: the
    /// one that is not meant must not come to the point, which is what the paused scanner, and the idle API, are for.
    pub(crate) fn order(&mut self, point: &str, pass: u32) -> anyhow::Result<()> {
        self.orders += 1;
        self.write_order(&format!("{point} {pass} order-{}", self.orders))
    }

    pub(crate) fn order_case(&mut self, case: &Case) -> anyhow::Result<()> {
        self.order(&case.point(), case.pass)
    }

    /// Adds to the order that whoever comes to this point waits there.
    pub(crate) fn pause_at(&self, point: &str) -> anyhow::Result<()> {
        let order = std::fs::read_to_string(self.file("order"))?;
        self.write_order(&format!("{order}\n{point}"))
    }

    /// Waits until somebody waits at that point.
    pub(crate) async fn await_pause(&self) -> anyhow::Result<()> {
        let order = std::fs::read_to_string(self.file("order"))?;
        let paused = || async {
            let sign = std::fs::read_to_string(self.file("paused")).unwrap_or_default();
            Ok(order.lines().next().filter(|first| *first == sign).map(|_| ()))
        };
        wait_until("the pause", DEATH, paused).await
    }

    /// Lets whoever waits go on.
    pub(crate) fn end_pause(&self) -> anyhow::Result<()> {
        let order = std::fs::read_to_string(self.file("order"))?;
        self.write_order(order.lines().next().unwrap_or_default())
    }

    /// Renamed into place: nobody reads half an order.
    fn write_order(&self, words: &str) -> anyhow::Result<()> {
        let (draft, file) = (self.file("draft"), self.file("order"));
        std::fs::write(&draft, words)
            .and_then(|()| std::fs::rename(&draft, &file))
            .context("the order is not given")
    }

    fn file(&self, extension: &str) -> PathBuf {
        order_file(&self.site, extension)
    }

    /// Takes the order back.
    pub(crate) fn countermand(&self) {
        let _ = std::fs::remove_file(self.file("order"));
    }

    /// Waits until the victim has been killed by itself, at the point that was ordered.
    pub(crate) async fn await_death(&mut self, victim: Victim) -> anyhow::Result<()> {
        let process = self.process(victim);
        let status = process.wait_for_exit(DEATH).await.context("it did not come to the point")?;
        ensure!(status.signal() == Some(SIGKILL), "it ended with {status}: {}", process.log_tail());
        let (order, sign) = (self.file("order"), self.file("died"));
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (order, sign) = (read(order), read(sign));
        ensure!(
            !order.is_empty() && order == sign,
            "it died, but not of the order {order:?}: the sign is {sign:?}"
        );
        self.countermand();
        Ok(())
    }

    /// Starts the victim's binary again, without an order, ready when this returns.
    pub(crate) async fn revive(&mut self, victim: Victim) -> anyhow::Result<()> {
        match victim {
            Victim::Api | Victim::StartingApi => self.site.stack.kill_and_restart_api(0).await,
            Victim::Scanner | Victim::StartingScanner => {
                self.scanner_is_paused = false;
                self.site.stack.kill_and_restart_scanner(0).await
            }
        }
    }

    /// Lets the ordered death come about where that takes no request: a paused scanner goes on, a process starts anew.
    pub(crate) async fn let_run(&mut self, victim: Victim) -> anyhow::Result<()> {
        match victim {
            Victim::Api => Ok(()),
            Victim::StartingApi => self.site.stack.kill_and_respawn_api(0).await,
            Victim::Scanner => self.resume_scanner().await,
            Victim::StartingScanner => {
                self.scanner_is_paused = false;
                self.site.stack.kill_and_respawn_scanner(0).await
            }
        }
    }

    /// Whatever state a failed case has left: everything runs again, without order and faults.
    pub(crate) async fn recover(&mut self) -> anyhow::Result<()> {
        self.countermand();
        self.site.sim().clear_faults().await?;
        self.revive(Victim::Api).await?;
        self.revive(Victim::Scanner).await
    }

    fn process(&mut self, victim: Victim) -> &mut Process {
        match victim {
            Victim::Api | Victim::StartingApi => self.site.stack.api_process(0),
            Victim::Scanner | Victim::StartingScanner => self.site.stack.scanner_process(0),
        }
    }
}

/// Claims that run out soon: what a dead scanner held is waited for in every case.
fn notifications(receiver: &Receiver) -> String {
    format!(
        "\n[notifications]\nclaim_ms = 1500\npoll_interval_ms = 50\nretry_ms = [100, 100, 100]\n\
         allow_private_targets = true\n\n[notifications.applications.shop]\nurl = \"{}\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\ntimeout_ms = 300\nconnect_timeout_ms = 200\n\
         queue_wait_ms = 100\nbreaker_failures = 1000\n",
        receiver.url()
    )
}

fn order_file(site: &Site, extension: &str) -> PathBuf {
    site.stack.dir().join("crash").with_extension(extension)
}
