//! What goes wrong with the downstream calls during a soak: every fault of a system that keeps its promises, on either
//! side of the commit.

use serde_json::json;
use xtask::stack::SimClient;

/// Chance that one of the rules strikes; about nine calls in a hundred over all of them.
const RULE_PROBABILITY: f64 = 0.005;
/// Longer than the services wait for an answer, in milliseconds.
const TOO_SLOW_MS: u64 = 700;
/// Longest time that a message is under way, in milliseconds.
pub(super) const LATEST_MS: u64 = 3_500;

/// Adds the rules; the seed decides which calls they strike.
pub(super) async fn add(sim: &SimClient, seed: u64) -> anyhow::Result<()> {
    let faults = [
        ("before", json!({ "kind": "drop" })),
        ("after", json!({ "kind": "drop" })),
        ("before", json!({ "kind": "delay", "ms": TOO_SLOW_MS })),
        ("after", json!({ "kind": "delay", "ms": TOO_SLOW_MS })),
        ("after", json!({ "kind": "delay", "ms": 50 })),
        ("before", json!({ "kind": "status", "status": 500 })),
        ("after", json!({ "kind": "status", "status": 502 })),
        ("before", json!({ "kind": "status", "status": 429, "retry_after_s": 1 })),
        ("before", json!({ "kind": "garbage" })),
        ("after", json!({ "kind": "garbage", "body": "{}" })),
        ("before", json!({ "kind": "processing", "after_ms": 300 })),
        ("before", json!({ "kind": "processing" })),
        ("before", json!({ "kind": "refuse", "code": "REFUSED_BY_CHANCE" })),
        ("before", json!({ "kind": "unavailable" })),
        ("before", json!({ "kind": "duplicate" })),
        ("before", json!({ "kind": "duplicate", "second_after_ms": 250 })),
        ("before", json!({ "kind": "late", "after_ms": 900 })),
        ("before", json!({ "kind": "late", "after_ms": LATEST_MS })),
    ];
    for ((stage, fault), seed) in faults.into_iter().zip(seed..) {
        sim.fault(json!({ "stage": stage, "probability": RULE_PROBABILITY, "seed": seed, "fault": fault }))
            .await?;
    }
    Ok(())
}
