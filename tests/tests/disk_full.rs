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
use xtask::stack::{Patience, Tuning};

const DISK_MIB: u32 = 400;
const SETTLE: Duration = Duration::from_secs(60);
/// How long the disk stays full once the services feel it.
const FULL: Duration = Duration::from_secs(3);

e2e::on_both_servers! {
    under_load within 180 s;
}

async fn under_load(flavor: Flavor) -> anyhow::Result<()> {
    let disk = match Disk::mount(flavor) {
        Ok(disk) => disk,
        Err(reason) => {
            warn_loudly(&format!(
                "NOT TESTED: a full disk on {flavor}; no tmpfs can be mounted here.\n{reason:#}"
            ));
            return Ok(());
        }
    };
    // The logs have a disk of their own, as they should: a full table space is refused statement by statement.
    filled(flavor, &disk, "tables", &[]).await?;
    Ok(())
}

async fn filled(flavor: Flavor, disk: &Disk, name: &str, extra_args: &[String]) -> anyhow::Result<()> {
    let options = ServerOptions {
        buffer_pool_mib: 64,
        data_dir: Some(disk.path.join(name)),
        extra_args: extra_args.to_vec(),
        ..ServerOptions::new(flavor)
    };
    let mut server = Server::start(options).await?;
    let tuning = Tuning { claim_ms: 1_000, round_interval_ms: 100, ..Tuning::default() };
    let mut site = Site::open(Database::on(&server, "full").await?, tuning, 1, 1).await?;
    let pids = site.service_pids();
    let manners = Manners { name: "full", clients: 16, pause: Duration::ZERO, wait_s: 1 };
    let crowd = Crowd::start(&[site.client()], manners);
    crowd.ends(20).await.context("while there is room")?;
    let before = crowd.tally();
    let filled = disk.fill()?;
    let feeling = Patience::of(SETTLE);
    tokio::time::sleep(FULL).await;
    let during = crowd.tally();
    disk.empty()?;
    let alive = server.run_sql("DO 1").await.is_ok();
    if !alive {
        server.restart().await?;
    }
    let recovered = crowd.ends(20).await.context("once there is room again")?;
    let after = crowd.tally();
    eprintln!(
        "{name} on {flavor}: {filled} bytes filled the disk for {:.1?}: {} taken, {} refused, {} unknown meanwhile; server alive: {alive}; recovered {recovered:.1?}; {}",
        feeling.elapsed(),
        during.taken - before.taken,
        after.refused - before.refused,
        after.unknown - before.unknown,
        after
    );
    let accounts = crowd.leave().await?;
    let audit = site.settle(SETTLE).await?;
    accounts.check(&audit)?;
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close_expecting(&["round failed; the next one starts over", "error returned from after_connect"])
        .await?;
    Ok(server.stop().await?)
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

    /// Fills it to the last byte; how many that were.
    fn fill(&self) -> anyhow::Result<u64> {
        let mut ballast = File::create(self.ballast())?;
        let (block, mut written) = (vec![1; 64 * 1024], 0);
        let mut size = block.len();
        while size > 0 {
            match ballast.write(&block[..size]) {
                Ok(count) => written += count as u64,
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => size /= 2,
                Err(error) => return Err(error).context("the disk can not be filled"),
            }
        }
        Ok(written)
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
