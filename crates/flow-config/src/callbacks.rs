//! `[callbacks]`

use flow_core::retry::Schedule;

use crate::reader::Table;

/// How the events that channels send are worked on.
#[derive(Debug, Clone)]
pub struct CallbacksConfig {
    /// How long an event is left to the process that works on it. Shorter than its advance takes, two processes may work
    /// on one event, which does no harm.
    pub claim_ms: u64,
    /// Delays between tries of an event whose order is not there, or not confirmed.
    pub retry: Schedule,
    /// How long after its arrival an event is given up, and people are alerted.
    pub give_up_after_ms: u64,
    /// Pause between two looks of the scanner for events that are due.
    pub round_interval_ms: u64,
    /// Due events read at once.
    pub page_rows: u32,
    /// Most events that the scanner works on at once.
    pub max_parallel_events: usize,
}

impl CallbacksConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<CallbacksConfig> {
        let claim_ms = table.whole("claim_ms", 100..=600_000);
        let retry = table.schedule("retry_ms");
        let give_up_after_ms = table.whole("give_up_after_ms", 1_000..=2_592_000_000);
        let round_interval_ms = table.whole("round_interval_ms", 10..=3_600_000);
        let page_rows = table.whole("page_rows", 1..=10_000);
        let max_parallel_events = table.whole("max_parallel_events", 1..=10_000);
        Some(CallbacksConfig {
            claim_ms: claim_ms?,
            retry: retry?,
            give_up_after_ms: give_up_after_ms?,
            round_interval_ms: round_interval_ms?,
            page_rows: page_rows?,
            max_parallel_events: max_parallel_events?,
        })
    }
}
