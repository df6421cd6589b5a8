//! `[scenes.NAME]`

use std::collections::BTreeMap;

use flow_core::ids::DownstreamName;
use flow_core::money::Currency;

use crate::Config;
use crate::problems::Problems;
use crate::reader::Table;

/// A kind of purchase: who serves it, and within which limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SceneConfig {
    /// The wallet that serves new payments of the scene.
    pub wallet: DownstreamName,
    /// The business system that serves them.
    pub business: DownstreamName,
    /// Accepted currencies, each with its limits.
    pub currencies: BTreeMap<Currency, AmountLimits>,
    /// Longest accepted time between a request and its deadline.
    pub deadline_horizon_ms: u64,
}

/// Limits of an amount, in minor units, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmountLimits {
    /// Smallest accepted amount.
    pub min_amount: i64,
    /// Greatest accepted amount.
    pub max_amount: i64,
}

impl SceneConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<SceneConfig> {
        let wallet = table.parsed("wallet");
        let business = table.parsed("business");
        let currencies = table.named("currencies", Currency::new, AmountLimits::read);
        let deadline_horizon_ms = table.whole_or("deadline_horizon_ms", 86_400_000, 1_000..=31_536_000_000);
        Some(SceneConfig {
            wallet: wallet?,
            business: business?,
            currencies,
            deadline_horizon_ms: deadline_horizon_ms?,
        })
    }

    pub(crate) fn validate(&self, path: &str, config: &Config, problems: &mut Problems) {
        if !config.wallets.contains_key(&self.wallet) {
            problems.note(format!("{path}.wallet"), format!("names no usable wallet: {}", self.wallet));
        }
        if !config.businesses.contains_key(&self.business) {
            problems.note(
                format!("{path}.business"),
                format!("names no usable business system: {}", self.business),
            );
        }
        if self.currencies.is_empty() {
            problems.note(format!("{path}.currencies"), "must have at least one usable currency");
        }
        for (currency, limits) in &self.currencies {
            if limits.min_amount > limits.max_amount {
                problems.note(
                    format!("{path}.currencies.{currency}.min_amount"),
                    format!("must be at most max_amount ({}), is {}", limits.max_amount, limits.min_amount),
                );
            }
        }
    }
}

impl AmountLimits {
    fn read(table: &mut Table<'_>) -> Option<AmountLimits> {
        let min_amount = table.whole_or("min_amount", 1, 1..=i64::MAX);
        let max_amount = table.whole("max_amount", 1..=i64::MAX);
        Some(AmountLimits { min_amount: min_amount?, max_amount: max_amount? })
    }

    /// Whether the amount, in minor units, is accepted.
    pub fn allows(&self, amount: i64) -> bool {
        (self.min_amount..=self.max_amount).contains(&amount)
    }
}
