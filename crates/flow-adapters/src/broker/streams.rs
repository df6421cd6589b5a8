//! The two streams and the consumer, as they must be on the broker; made where they are not there.
//!
//! The stream of wake-ups holds schedules (`STREAM.at.FLOW`), which the broker turns into due messages
//! (`STREAM.due.FLOW`) when their time has come; both at most once per flow. Dead letters lie in a stream of their own.

use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use flow_config::BrokerConfig;
use flow_core::crash::{Spot, between};
use flow_core::ids::FlowId;

use super::explain;
use super::message::MAX_BYTES;

/// Name of the consumer that all scanners share.
const CONSUMER: &str = "scanners";
/// How much longer than the longest delay the broker keeps a message.
const KEPT_LONGER: Duration = Duration::from_secs(3_600);
/// Most dead letters that are kept, and for how long.
const MAX_DEAD_LETTERS: i64 = 100_000;
const DEAD_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Longest message, headers included, in bytes.
const MAX_MESSAGE_BYTES: i32 = 2_048;
/// Further deliveries of a wake-up whose dead letter could not be written.
const DEAD_LETTER_TRIES: u32 = 10;

/// The names of streams and subjects.
#[derive(Debug, Clone)]
pub(super) struct Names {
    stream: String,
}

impl Names {
    pub(super) fn new(config: &BrokerConfig) -> Names {
        Names { stream: config.stream.as_str().to_owned() }
    }

    /// The stream of wake-ups.
    pub(super) fn stream(&self) -> &str {
        &self.stream
    }

    fn dead_stream(&self) -> String {
        format!("{}_DEAD", self.stream)
    }

    /// Where a flow's schedule lies.
    pub(super) fn at(&self, flow_id: FlowId) -> String {
        format!("{}.at.{flow_id}", self.stream)
    }

    /// Where its wake-up lies when it is due.
    pub(super) fn due(&self, flow_id: FlowId) -> String {
        format!("{}.due.{flow_id}", self.stream)
    }

    fn all_due(&self) -> String {
        format!("{}.due.*", self.stream)
    }

    /// Where dead letters lie.
    pub(super) fn dead(&self) -> String {
        format!("{}.dead", self.stream)
    }
}

/// Why the streams cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetUpError {
    #[error("the stream {stream} could not be looked at or made: {reason}")]
    Stream { stream: String, reason: String },
    #[error("the broker (nats-server {version}) does not schedule messages; it must be 2.12 or newer")]
    NoSchedules { version: String },
    #[error("the consumer of wake-ups could not be looked at or made: {reason}")]
    Consumer { reason: String },
}

fn wake_ups(config: &BrokerConfig, names: &Names) -> Config {
    Config {
        name: names.stream.clone(),
        description: Some("wake-ups of payment flows; losing them costs time only".to_owned()),
        subjects: vec![format!("{}.at.*", names.stream), names.all_due()],
        // What was said to be done with is gone; schedules are nobody's work until they are due.
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::File,
        num_replicas: usize::try_from(config.replicas).unwrap_or(1),
        max_messages: i64::try_from(config.max_messages).unwrap_or(i64::MAX),
        max_messages_per_subject: 1,
        max_message_size: MAX_MESSAGE_BYTES,
        max_age: Duration::from_millis(config.longest_delay_ms) + KEPT_LONGER,
        // The broker allows for nothing else where it schedules: what is oldest goes, and is the scanner's.
        discard: DiscardPolicy::Old,
        allow_message_schedules: true,
        ..Config::default()
    }
}

fn dead_letters(config: &BrokerConfig, names: &Names) -> Config {
    Config {
        name: names.dead_stream(),
        description: Some("wake-ups that could not be worked on, for people to look at".to_owned()),
        subjects: vec![names.dead()],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        num_replicas: usize::try_from(config.replicas).unwrap_or(1),
        max_messages: MAX_DEAD_LETTERS,
        max_message_size: MAX_MESSAGE_BYTES,
        max_age: DEAD_KEPT,
        discard: DiscardPolicy::Old,
        ..Config::default()
    }
}

/// Sees to it that both streams are there and as they must be.
pub(super) async fn set_up(
    jetstream: &Context,
    config: &BrokerConfig,
    names: &Names,
    version: String,
) -> Result<(), SetUpError> {
    between(Spot::BrokerSetUp, async {
        let wake_ups = one(jetstream, wake_ups(config, names)).await?;
        if !wake_ups.cached_info().config.allow_message_schedules {
            return Err(SetUpError::NoSchedules { version });
        }
        one(jetstream, dead_letters(config, names)).await.map(drop)
    })
    .await
}

async fn one(jetstream: &Context, wanted: Config) -> Result<Stream, SetUpError> {
    let name = wanted.name.clone();
    let failed = |reason: String| SetUpError::Stream { stream: name.clone(), reason };
    let found =
        jetstream.get_or_create_stream(wanted.clone()).await.map_err(|error| failed(explain(&error)))?;
    if is_as_wanted(&found.cached_info().config, &wanted) {
        return Ok(found);
    }
    jetstream.update_stream(&wanted).await.map_err(|error| failed(explain(&error)))?;
    jetstream.get_stream(&name).await.map_err(|error| failed(explain(&error)))
}

/// Compares what is ours to say; the broker fills in the rest.
fn is_as_wanted(found: &Config, wanted: &Config) -> bool {
    let ours = |config: &Config| {
        (
            config.subjects.clone(),
            config.num_replicas,
            config.max_messages,
            config.max_messages_per_subject.max(0),
            config.max_age,
            config.max_message_size,
            config.allow_message_schedules,
        )
    };
    ours(found) == ours(wanted)
}

/// The consumer that all scanners share. The broker bounds deliveries a little above the bound that is kept here, so that
/// a dead letter can be written.
pub(super) async fn consumer(
    jetstream: &Context,
    config: &BrokerConfig,
    names: &Names,
) -> Result<PullConsumer, SetUpError> {
    let wanted = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_millis(config.ack_wait_ms),
        max_deliver: i64::from(config.max_deliveries.saturating_add(DEAD_LETTER_TRIES)),
        filter_subject: names.all_due(),
        ..pull::Config::default()
    };
    let failed = |reason: String| SetUpError::Consumer { reason };
    between(Spot::BrokerConsumer, async {
        let stream = jetstream.get_stream(names.stream()).await.map_err(|error| failed(explain(&error)))?;
        // Makes it or brings it up to date.
        stream.create_consumer(wanted).await.map_err(|error| failed(explain(&error)))
    })
    .await
}

/// How many dead letters there are.
pub(super) async fn dead_letters_kept(jetstream: &Context, names: &Names) -> Option<u64> {
    let stream = between(Spot::BrokerLook, jetstream.get_stream(names.dead_stream())).await.ok()?;
    Some(stream.cached_info().state.messages)
}

const _: () = assert!(MAX_BYTES < 1_024, "a message and its headers fit into MAX_MESSAGE_BYTES");
