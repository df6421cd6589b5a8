//! Rounds, one after the other, until told to stop.

use std::time::Duration;

use flow_core::ports::Jitter;
use tokio_util::sync::CancellationToken;

use crate::round::Sweep;

/// Longest pause after rounds that failed, in milliseconds.
const MAX_FAILURE_PAUSE_MS: u64 = 15_000;

/// Runs rounds until `stop` fires; then the round under way begins nothing new, and its rows under way are finished.
/// The caller bounds that wait.
///
/// Each round starts at the partition after the one where the last round started, and the first at a random one, so
/// that replicas meet as seldom as can be.
pub async fn run(sweep: &Sweep, jitter: &dyn Jitter, round_interval_ms: u64, stop: &CancellationToken) {
    let partitions = sweep.settings().partitions;
    let drawn = jitter.draw().of(u64::from(partitions));
    let mut first_partition = u32::try_from(drawn).unwrap_or(0);
    let mut failures: u32 = 0;
    while !stop.is_cancelled() {
        let pause_ms = match sweep.round(first_partition, stop).await {
            Ok(report) => {
                failures = 0;
                if report.wants_another_at_once() { 0 } else { round_interval_ms }
            }
            Err(_) => {
                failures = failures.saturating_add(1);
                failure_pause_ms(round_interval_ms, failures)
            }
        };
        first_partition = (first_partition + 1) % partitions;
        if pause_ms > 0 {
            stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(pause_ms))).await;
        }
    }
}

/// Doubles with each failure in a row.
fn failure_pause_ms(round_interval_ms: u64, failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(16);
    round_interval_ms.max(100).saturating_mul(1 << doublings).min(MAX_FAILURE_PAUSE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_bounded() {
        let pauses: Vec<u64> = [1, 2, 3, 5, 100].map(|failures| failure_pause_ms(1_000, failures)).into();
        assert_eq!(pauses, [1_000, 2_000, 4_000, 15_000, 15_000]);
        assert_eq!(failure_pause_ms(0, 1), 100);
    }
}
