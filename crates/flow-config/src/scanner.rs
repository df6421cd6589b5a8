//! `[scanner]`

use std::net::SocketAddr;

use crate::reader::Table;

/// The scanner.
#[derive(Debug, Clone)]
pub struct ScannerConfig {
    /// Address and port for health and metrics.
    pub listen: SocketAddr,
    /// Parts of the id space that replicas share; the same for all of them.
    pub partitions: u32,
    /// Due rows read at once.
    pub page_rows: u32,
    /// Pause between the end of a round and the next one.
    pub round_interval_ms: u64,
    /// Most flows advanced at once.
    pub max_parallel_flows: usize,
    /// How often the open rows are counted for metrics.
    pub summary_interval_ms: u64,
    /// Time budget of one flow's advance.
    pub budget_ms: u64,
    /// Longest time between the signal to stop and the end of the process.
    pub shutdown_drain_ms: u64,
}

impl ScannerConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<ScannerConfig> {
        let listen = table.parsed("listen");
        let partitions = table.whole("partitions", 1..=1_024);
        let page_rows = table.whole("page_rows", 1..=10_000);
        let round_interval_ms = table.whole("round_interval_ms", 10..=3_600_000);
        let max_parallel_flows = table.whole("max_parallel_flows", 1..=10_000);
        let summary_interval_ms = table.whole("summary_interval_ms", 100..=3_600_000);
        let budget_ms = table.whole("budget_ms", 100..=120_000);
        let shutdown_drain_ms = table.whole("shutdown_drain_ms", 0..=600_000);
        Some(ScannerConfig {
            listen: listen?,
            partitions: partitions?,
            page_rows: page_rows?,
            round_interval_ms: round_interval_ms?,
            max_parallel_flows: max_parallel_flows?,
            summary_interval_ms: summary_interval_ms?,
            budget_ms: budget_ms?,
            shutdown_drain_ms: shutdown_drain_ms?,
        })
    }
}
