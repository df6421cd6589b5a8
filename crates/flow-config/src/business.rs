//! `[businesses.NAME]`

use crate::downstream::{LimitsConfig, TransportConfig};
use crate::problems::Problems;
use crate::reader::Table;

/// One business system.
#[derive(Debug, Clone)]
pub struct BusinessConfig {
    /// How it is reached.
    pub transport: TransportConfig,
    /// How much is asked of it.
    pub limits: LimitsConfig,
    /// How long after the deadline a refund waits: must cover the clock skew between us and the business system.
    pub settle_margin_ms: u64,
    /// How long after that the business fact may stay unreadable before the flow is held.
    pub unreadable_hold_ms: u64,
}

impl BusinessConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<BusinessConfig> {
        let transport = TransportConfig::read(table);
        let limits = LimitsConfig::read(table);
        let settle_margin_ms = table.whole_or("settle_margin_ms", 5_000, 0..=3_600_000);
        let unreadable_hold_ms = table.whole_or("unreadable_hold_ms", 86_400_000, 1_000..=2_592_000_000);
        Some(BusinessConfig {
            transport: transport?,
            limits: limits?,
            settle_margin_ms: settle_margin_ms?,
            unreadable_hold_ms: unreadable_hold_ms?,
        })
    }

    pub(crate) fn validate(&self, path: &str, problems: &mut Problems) {
        self.transport.validate(path, problems);
        self.limits.validate(path, problems);
    }
}
