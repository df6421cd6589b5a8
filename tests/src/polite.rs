//! A client as one wishes for, while others are there that are not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use xtask::stack::{ApiClient, Patience, Payment};

use crate::load::Shop;

/// Longest time for one payment and its reading. Generous: a bound, not a measurement.
const LIMIT: Duration = Duration::from_secs(5);
/// Between two payments.
const PAUSE: Duration = Duration::from_millis(50);
/// Fewer than so many payments prove nothing.
const FEWEST: usize = 20;

/// Pays and reads like anybody until it is over, under keys that begin with `name`.
///
/// # Errors
/// A payment that was refused, did not end in success or took too long; or too few got through.
pub async fn pay_politely(
    api: &ApiClient,
    name: &str,
    user_id: u64,
    over: &AtomicBool,
) -> anyhow::Result<()> {
    let shop = Shop::new(vec![api.clone()]);
    let mut latencies = Vec::new();
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let patience = Patience::of(LIMIT);
        let body = Payment::new(user_id, format!("{name}:{number}")).body();
        let bought = shop.pay(0, &format!("{name}-{number}"), &body, 4, LIMIT).await?;
        let flow_id = bought.flow_id().context("a polite payment was refused")?.to_owned();
        let read = api.get(&format!("/payment-flows/{flow_id}")).await?;
        ensure!(read.status == 200 && read.status_word() == "BIZ_SUCCESS", "{} {}", read.status, read.body);
        ensure!(!patience.is_over(), "a polite client waited {:?}", patience.elapsed());
        latencies.push(patience.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
    eprintln!("{name}: {} payments, median {median:.1?}, slowest {:.1?}", latencies.len(), latencies.last());
    ensure!(latencies.len() >= FEWEST, "the polite client got only {} payments through", latencies.len());
    Ok(())
}
