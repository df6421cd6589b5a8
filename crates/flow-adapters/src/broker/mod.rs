//! Wake-ups through a NATS broker: asked for by whichever process leaves a flow, held by the broker until they are due
//! (JetStream's scheduled messages), delivered to whichever scanner is there by then.
//!
//! - A wake-up that is asked for waits in a bounded queue and is published in a bounded time, away from the payment.
//! - The broker keeps one schedule per flow, the one asked for last, and one due message per flow: wake-ups that double
//!   collapse. It must not be told ids to recognise repetitions by: the same version of a flow is asked for again when a
//!   gate was closed.
//! - What could not be worked on is delivered again, so often and no oftener; then it is put aside as a dead letter.
//! - A broker that is away, full or refusing costs time only: the scanner finds every row. This module says so by its
//!   metrics, and comes back by itself.
//!
//! Knows flow ids, versions and times; what waking means is [`flow_core::ports::Awaken`]'s.

mod consume;
mod link;
mod message;
mod publish;
mod streams;

use std::path::PathBuf;
use std::sync::Arc;

use flow_config::BrokerConfig;
use tokio::sync::mpsc;

pub use consume::BrokerConsumer;
pub use publish::{BrokerPublisher, BrokerQueue};

use crate::webhook::WallTime;
use link::Link;

/// Why there is no client of the broker. A broker that does not answer is none of them.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// No address.
    #[error("broker.url is not set")]
    NoUrl,
    /// The credentials cannot be used.
    #[error("broker.credentials_file {} cannot be used", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The client could not be made; the addresses are not shown.
    #[error("no client could be made for broker.url: {reason}")]
    Client {
        /// The kind of problem.
        reason: String,
    },
}

/// The ends of one process: where wake-ups are asked for, and what carries them out.
pub struct Broker {
    /// Where wake-ups are asked for.
    pub queue: BrokerQueue,
    /// What publishes them; to be run once.
    pub publisher: BrokerPublisher,
    /// What receives those that are due, in a scanner; to be run once.
    pub consumer: BrokerConsumer,
}

impl Broker {
    /// Makes the client and lets it connect in the background, for ever. Returns at once.
    ///
    /// # Errors
    /// [`BrokerError`]: the configuration cannot be used.
    pub async fn open(config: &BrokerConfig, wall_time: WallTime) -> Result<Broker, BrokerError> {
        let link = Arc::new(Link::open(config).await?);
        let (asks_to, asks) = mpsc::channel(config.queue_flows);
        Ok(Broker {
            queue: BrokerQueue::new(asks_to, Arc::clone(&link), config.longest_delay_ms),
            publisher: BrokerPublisher::new(asks, Arc::clone(&link), config, wall_time),
            consumer: BrokerConsumer::new(link, config),
        })
    }
}

/// An error with its causes, in one line, without what was sent.
fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
