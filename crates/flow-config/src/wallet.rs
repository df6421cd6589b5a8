//! `[wallets.NAME]`

use crate::downstream::{LimitsConfig, TransportConfig};
use crate::problems::Problems;
use crate::reader::Table;

/// One wallet.
#[derive(Debug, Clone)]
pub struct WalletConfig {
    /// How it is reached.
    pub transport: TransportConfig,
    /// How much is asked of it.
    pub limits: LimitsConfig,
    /// Whether it can close an order so that a debit arriving later is refused.
    pub can_close: bool,
    /// For a wallet that cannot: how long after the last moment a debit may have been sent "no such order" becomes
    /// final.
    pub in_flight_grace_ms: u64,
}

impl WalletConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<WalletConfig> {
        let transport = TransportConfig::read(table);
        let limits = LimitsConfig::read(table);
        let can_close = table.flag_or("can_close", true);
        let in_flight_grace_ms = table.whole_or("in_flight_grace_ms", 300_000, 1_000..=86_400_000);
        Some(WalletConfig {
            transport: transport?,
            limits: limits?,
            can_close: can_close?,
            in_flight_grace_ms: in_flight_grace_ms?,
        })
    }

    pub(crate) fn validate(&self, path: &str, problems: &mut Problems) {
        self.transport.validate(path, problems);
        self.limits.validate(path, problems);
        if self.in_flight_grace_ms < self.transport.timeout_ms {
            problems.note(
                format!("{path}.in_flight_grace_ms"),
                format!(
                    "must be at least timeout_ms ({}), as a debit may be under way that long, is {}",
                    self.transport.timeout_ms, self.in_flight_grace_ms
                ),
            );
        }
    }
}
