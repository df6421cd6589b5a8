//! A NATS broker of a suite's own, as an outsider sees it who may publish and look, and the services' metrics about it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use async_nats::jetstream;
use xtask::db::{NATS_SLUG, NatsServer};
use xtask::stack::{ApiClient, wait_until};

use crate::site::Site;
use xtask::programs::is_missing;

/// The stream, as `[broker]` names it unless told otherwise.
const STREAM: &str = "PAY_WAKE";

/// A broker that runs, or ran.
pub struct Broker {
    /// The process.
    pub server: NatsServer,
}

impl Broker {
    /// Starts one with plenty of room; `None`, and says so, where `cargo xtask test` could not get one.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start() -> anyhow::Result<Option<Broker>> {
        Broker::start_with(NatsServer::ROOMY_BYTES).await
    }

    /// The same with a bound for all that it keeps.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_with(max_store_bytes: u64) -> anyhow::Result<Option<Broker>> {
        if is_missing(NATS_SLUG) {
            eprintln!("NOT TESTED WITH a broker: it cannot be had here");
            return Ok(None);
        }
        Ok(Some(Broker { server: NatsServer::start(max_store_bytes).await? }))
    }

    /// The services' section that names it, and further lines of it.
    pub fn table(&self, lines: &str) -> String {
        format!("\n[broker]\nurl = \"{}\"\n{lines}\n", self.server.url())
    }

    /// A client of its own.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn jetstream(&self) -> anyhow::Result<jetstream::Context> {
        let client = async_nats::connect(self.server.url()).await.context("the broker does not answer")?;
        Ok(jetstream::new(client))
    }

    /// Puts a wake-up of a flow among those that are due, whether it is or not: what a broker does whose clock is ahead.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn wake(
        jetstream: &jetstream::Context,
        flow_id: i64,
        version: i64,
        at_once: bool,
    ) -> anyhow::Result<()> {
        let body = format!("{{\"flow_id\":\"{flow_id}\",\"version\":{version},\"at_once\":{at_once}}}");
        Broker::put(jetstream, &format!("due.{flow_id}"), body.into_bytes()).await
    }

    /// Puts anything anywhere in the stream.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn put(jetstream: &jetstream::Context, place: &str, body: Vec<u8>) -> anyhow::Result<()> {
        let subject = format!("{STREAM}.{place}");
        jetstream.publish(subject, body.into()).await?.await.context("the broker refuses")?;
        Ok(())
    }

    /// Removes everything that waits.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn purge(jetstream: &jetstream::Context) -> anyhow::Result<()> {
        jetstream.get_stream(STREAM).await?.purge().await.context("not purged")?;
        Ok(())
    }

    /// How many messages wait, schedules included, and how many dead letters there are.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn kept(jetstream: &jetstream::Context) -> anyhow::Result<(u64, u64)> {
        let waiting = jetstream.get_stream(STREAM).await?.cached_info().state.messages;
        let dead = jetstream.get_stream(format!("{STREAM}_DEAD")).await?.cached_info().state.messages;
        Ok((waiting, dead))
    }
}

/// Sums of a service's metrics by their name, over the labels.
#[derive(Debug, Clone, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads the metrics of every one of these services and adds them up.
    ///
    /// # Errors
    /// One does not answer.
    pub async fn of(services: &[ApiClient]) -> anyhow::Result<Metrics> {
        let mut sums = BTreeMap::new();
        for service in services {
            for line in service.get_text("/metrics").await?.lines().filter(|line| !line.starts_with('#')) {
                let Some((name, value)) = line.rsplit_once(' ') else { continue };
                let value: f64 = value.parse().unwrap_or(0.0);
                let bare = name.split('{').next().unwrap_or(name);
                for key in [name, bare] {
                    #[allow(clippy::float_arithmetic, reason = "metrics are floats")]
                    {
                        *sums.entry(key.to_owned()).or_insert(0.0) += value;
                    }
                    if name == bare {
                        break;
                    }
                }
            }
        }
        Ok(Metrics(sums))
    }

    /// A metric by its name, with or without its labels; 0 if it is not there.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts and small gauges")]
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0.0) as u64
    }
}

/// The services of a site, whose metrics tell of the broker: APIs and scanners.
pub fn services(site: &Site, apis: usize, scanners: usize) -> Vec<ApiClient> {
    let client = site.client();
    let apis = (0..apis).map(|index| client.at(site.stack.api_url(index)));
    apis.chain((0..scanners).map(|index| client.at(site.stack.scanner_url(index)))).collect()
}

/// Waits until a metric of one of the services has come to a value.
///
/// # Errors
/// Not within the time.
pub async fn metric_becomes(
    services: &[ApiClient],
    name: &str,
    within: Duration,
    is_it: impl Fn(u64) -> bool,
) -> anyhow::Result<u64> {
    let look = || async {
        let value = Metrics::of(services).await?.get(name);
        Ok(is_it(value).then_some(value))
    };
    wait_until(&format!("the metric {name}"), within, look).await
}
