//! SIGKILL to a service every few seconds, and to the database every few minutes; each comes back at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use xtask::db::Server;
use xtask::stack::Stack;

use super::load::{APIS, SCANNERS};

/// Between two kills, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 1_500..4_500;
/// One kill in so many hits the database.
const DATABASE_ONE_IN: u32 = 40;

/// The processes, and who kills them.
pub(super) struct Killer {
    pub(super) server: Server,
    pub(super) stack: Stack,
    pub(super) seed: u64,
    pub(super) process_kills: u32,
    pub(super) database_kills: u32,
}

impl Killer {
    /// Kills until it is over; everything runs when this returns.
    ///
    /// # Errors
    /// A process that does not come back.
    pub(super) async fn kill_until(&mut self, over: &AtomicBool) -> anyhow::Result<()> {
        let mut random = StdRng::seed_from_u64(self.seed);
        loop {
            tokio::time::sleep(Duration::from_millis(random.random_range(PAUSE_MS))).await;
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let victim = random.random_range(0..APIS + SCANNERS);
            if random.random_range(0..DATABASE_ONE_IN) == 0 {
                self.server.kill().await?;
                self.server.restart().await?;
                self.database_kills += 1;
            } else if victim < APIS {
                self.stack.kill_and_restart_api(victim).await?;
                self.process_kills += 1;
            } else {
                self.stack.kill_and_restart_scanner(victim - APIS).await?;
                self.process_kills += 1;
            }
        }
    }
}
