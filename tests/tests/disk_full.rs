//! The database server's disk runs full under load: clients hear the truth in bounded time, nothing acknowledged is lost,
//! and the services go on by themselves once there is room.
//!
//! The disk is a tmpfs of a few hundred MiB, which root may mount; elsewhere the suite says loudly that it did not run.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Crowd, Database, Flavor, Manners, Site};
use xtask::db::{Server, ServerOptions};
use xtask::progress::warn_loudly;
use xtask::stack::Tuning;

const DISK_MIB: u32 = 400;
const EXPECTED: [&str; 2] = ["round failed; the next one starts over", "error returned from after_connect"];

e2e::on_both_servers! {
    of_tables_alone within 150 s;
    #[ignore = "takes two minutes: the server looks whether there is room once a minute"]
    of_tables_and_logs within 240 s;
}

/// The binary log has a disk of its own, as it should: a full table space is refused statement by statement.
async fn of_tables_alone(flavor: Flavor) -> anyhow::Result<()> {
    let Some(disk) = disk(flavor) else { return Ok(()) };
    let logs = disk.path.with_extension("logs");
    fs::create_dir_all(&logs)?;
    let ended = filled(flavor, &disk, &[format!("--log-bin={}", logs.join("binlog").display())]).await;
    fs::remove_dir_all(&logs)?;
    let outage = ended?;
    ensure!(outage.refused > 0, "no statement was refused for want of room: nothing was shown");
    // MariaDB's engine gives up where MySQL's refuses.
    ensure!(outage.alive || flavor == Flavor::MariaDb, "the server has ended");
    Ok(())
}

/// Everything on one disk: the server waits for room in the middle of a commit and answers nobody, or ends itself.
async fn of_tables_and_logs(flavor: Flavor) -> anyhow::Result<()> {
    let Some(disk) = disk(flavor) else { return Ok(()) };
    let outage = filled(flavor, &disk, &[]).await?;
    ensure!(outage.unknown > 0, "no commit was left in doubt: nothing was shown");
    Ok(())
}

fn disk(flavor: Flavor) -> Option<Disk> {
    let disk = Disk::mount(flavor);
    if let Err(reason) = &disk {
        let what = format!("NOT TESTED: a full disk on {flavor}; no tmpfs can be mounted here");
        warn_loudly(&format!("{what}.\n{reason:#}"));
    }
    disk.ok()
}

/// What the full disk has brought about.
struct Outage {
    refused: u32,
    unknown: u32,
    /// Whether the server has survived it.
    alive: bool,
}

async fn filled(flavor: Flavor, disk: &Disk, extra_args: &[String]) -> anyhow::Result<Outage> {
    let options = ServerOptions {
        buffer_pool_mib: 64,
        data_dir: Some(disk.path.join("server")),
        extra_args: extra_args.to_vec(),
        ..ServerOptions::new(flavor)
    };
    let mut server = Server::start(options).await?;
    let tuning = Tuning { claim_ms: 1_000, round_interval_ms: 100, ..Tuning::default() };
    let mut site = Site::open(Database::on(&server, "full").await?, tuning, 1, 1).await?;
    let pids = site.service_pids();
    let manners = Manners { name: "full", clients: 16, pause: Duration::ZERO, wait_s: 0 };
    let crowd = Crowd::start(&[site.client()], manners);
    crowd.fresh(20).await.context("while there is room")?;
    let before = crowd.tally();
    disk.fill()?;
    // Tables have some room of their own left; it is used up first.
    let felt = crowd.troubles(20).await.context("while the disk is full")?;
    let during = crowd.tally();
    disk.empty()?;
    let alive = server.run_sql("DO 1").await.is_ok();
    if !alive {
        server.restart().await?;
    }
    let recovered = crowd.fresh(20).await.context("once there is room again")?;
    let since = crowd.tally().since(&before);
    let outage = Outage { refused: since.refused, unknown: since.unknown, alive };
    eprintln!(
        "disk full on {flavor}: felt by clients within {felt:.1?}, {} payments taken until then; {} refused, {} unknown; \
         the server {}; 20 payments taken {recovered:.1?} after there was room",
        during.taken - before.taken,
        outage.refused,
        outage.unknown,
        if alive { "lived on" } else { "had ended, and was started again" },
    );
    crowd.reckon(&site, "disk full").await?;
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close_expecting(&EXPECTED).await?;
    server.stop().await?;
    Ok(outage)
}

/// A small disk. Dropped, it is unmounted.
struct Disk {
    path: PathBuf,
}

impl Disk {
    fn mount(flavor: Flavor) -> anyhow::Result<Disk> {
        let path = xtask::target_dir().join(format!("small-disk-{}-{}", flavor.slug(), std::process::id()));
        fs::create_dir_all(&path)?;
        let disk = Disk { path };
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK_MIB}m"), "tmpfs"])
            .arg(&disk.path))?;
        Ok(disk)
    }

    /// Fills it to the last byte.
    fn fill(&self) -> anyhow::Result<()> {
        let mut ballast = File::create(self.ballast())?;
        let block = vec![1; 64 * 1024];
        let mut size = block.len();
        while size > 0 {
            match ballast.write(&block[..size]) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => size /= 2,
                Err(error) => return Err(error).context("the disk can not be filled"),
            }
        }
        Ok(())
    }

    fn empty(&self) -> anyhow::Result<()> {
        fs::remove_file(self.ballast()).context("the ballast can not be removed")
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: the server's process may need another moment to be gone.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.path));
        let _ = fs::remove_dir(&self.path);
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
