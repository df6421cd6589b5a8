//! From configuration to what advances flows: downstream systems, their gates and rules, retry schedules.

use std::sync::Arc;

use flow_adapters::{HttpBusiness, HttpWallet, TransportError};
use flow_config::{AdvanceConfig, Config, LimitsConfig};
use flow_core::advance::AdvanceSettings;
use flow_core::downstream::{BreakerLimits, BudgetLimits, BusinessRules, Downstreams, Limits, WalletRules};
use flow_core::ids::DownstreamName;
use flow_core::ports::Clock;

/// Calls that an open breaker lets through at once, when its time is over, to see whether the downstream is back.
const BREAKER_PROBES: u32 = 1;

/// A downstream system that cannot be called.
#[derive(Debug, thiserror::Error)]
#[error("no client could be made for {kind}.{name}")]
pub struct DownstreamError {
    /// The section.
    kind: &'static str,
    /// The name in it.
    name: DownstreamName,
    #[source]
    source: TransportError,
}

/// Every configured wallet and business system behind its gate. Connects to nothing.
pub(super) fn downstreams(config: &Config, clock: Arc<dyn Clock>) -> Result<Downstreams, DownstreamError> {
    let mut builder = Downstreams::builder(clock);
    for (name, wallet) in &config.wallets {
        let client = HttpWallet::new(&wallet.transport).map_err(|source| DownstreamError {
            kind: "wallets",
            name: name.clone(),
            source,
        })?;
        let rules = WalletRules {
            can_close: wallet.can_close,
            in_flight_grace_ms: wallet.in_flight_grace_ms,
            refund_tries_before_hold: config.advance.refund_tries_before_hold,
        };
        builder = builder.wallet(name.clone(), Arc::new(client), rules, limits(&wallet.limits));
    }
    for (name, business) in &config.businesses {
        let client = HttpBusiness::new(&business.transport).map_err(|source| DownstreamError {
            kind: "businesses",
            name: name.clone(),
            source,
        })?;
        let rules = BusinessRules {
            settle_margin_ms: business.settle_margin_ms,
            unreadable_hold_ms: business.unreadable_hold_ms,
        };
        builder = builder.business(name.clone(), Arc::new(client), rules, limits(&business.limits));
    }
    Ok(builder.build())
}

pub(super) fn limits(config: &LimitsConfig) -> Limits {
    Limits {
        max_concurrent_calls: config.max_concurrent_calls,
        queue_wait_ms: config.queue_wait_ms,
        budget: BudgetLimits { calls_per_s: config.calls_per_s, burst_calls: config.burst_calls },
        breaker: BreakerLimits {
            failures_to_open: config.breaker_failures,
            open_ms: config.breaker_open_ms,
            max_open_ms: config.breaker_max_open_ms,
            probes: BREAKER_PROBES,
        },
    }
}

pub(super) fn advance_settings(config: &AdvanceConfig) -> AdvanceSettings {
    AdvanceSettings {
        paying: config.paying_retry.clone(),
        payed: config.payed_retry.clone(),
        refunding: config.refunding_retry.clone(),
        claim_ms: config.claim_ms,
        postpone_spread_ms: config.postpone_spread_ms,
        max_steps: config.max_steps,
    }
}
