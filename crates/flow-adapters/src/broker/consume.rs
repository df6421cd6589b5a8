//! Receiving wake-ups that are due: each is handed over, and the broker is told what it came to. One that cannot be worked
//! on comes again after a while, a bounded number of times, and is then put aside as a dead letter.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::{AckKind, Message};
use flow_config::BrokerConfig;
use flow_core::crash::{Spot, between};
use flow_core::ports::{Awaken, Awoken};
use flow_core::retry::{JitterPermille, Schedule};
use futures_util::StreamExt as _;
use metrics::counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::link::Link;
use super::{explain, message, streams};

/// How long one request for what is due lasts.
const REQUEST_LASTS: Duration = Duration::from_secs(10);
/// Pause after a session that ended by itself.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest time for writing a dead letter or telling the broker what a wake-up came to.
const WORD_LIMIT: Duration = Duration::from_secs(3);

/// Names a dead letter's cause.
const WHY_DEAD: &str = "Pay-Dead-Why";
const DELIVERIES: &str = "Pay-Deliveries";
/// By which a dead letter that is written twice is recognised.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// What receives wake-ups that are due.
pub struct BrokerConsumer {
    inner: Arc<Inner>,
}

struct Inner {
    link: Arc<Link>,
    config: BrokerConfig,
}

/// What the broker is to be told of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// It is done with.
    Done,
    /// It is to be delivered again.
    Again { in_ms: u64 },
    /// It is a dead letter, for this reason.
    Dead(&'static str),
}

/// What a delivery came to, by its number (from 1).
fn word(awoken: Awoken, delivery: u64, max_deliveries: u64, redelivery: &Schedule) -> Word {
    let is_last = delivery >= max_deliveries;
    match awoken {
        Awoken::Done => Word::Done,
        // The scanner finds it when it is due.
        Awoken::NotYet { .. } if is_last => Word::Done,
        Awoken::NotYet { in_ms } => Word::Again { in_ms },
        Awoken::Failed if is_last => Word::Dead("exhausted"),
        Awoken::Failed => {
            let tries = u32::try_from(delivery.saturating_sub(1)).unwrap_or(u32::MAX);
            Word::Again { in_ms: redelivery.delay_ms(tries, JitterPermille::NONE) }
        }
    }
}

impl BrokerConsumer {
    pub(super) fn new(link: Arc<Link>, config: &BrokerConfig) -> BrokerConsumer {
        BrokerConsumer { inner: Arc::new(Inner { link, config: config.clone() }) }
    }

    /// Receives until `stop` fires; then nothing more is begun, what is under way is finished, and it returns. Bound the
    /// wait outside: what is left is delivered again, to whoever is there.
    pub async fn run(self, awaken: Arc<dyn Awaken>, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let places = Arc::new(Semaphore::new(self.inner.config.max_parallel_flows));
        while let Some(connection) = stop.run_until_cancelled(self.inner.link.until_usable()).await {
            let session = async {
                tokio::select! {
                    why = self.inner.session(&awaken, &places, &tasks) => Some(why),
                    () = self.inner.link.until_lost(connection) => None,
                }
            };
            match stop.run_until_cancelled(session).await {
                None => break,
                // Said already by whoever noticed.
                Some(None) => {}
                Some(Some(why)) => {
                    tracing::warn!(error = why, "receiving wake-ups broke off; it is begun again");
                    counter!("broker_sessions_broken_total").increment(1);
                    stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
                }
            }
        }
        tasks.close();
        tasks.wait().await;
    }
}

/// Waits for one place, and takes every other one that is free.
async fn places_for_some(places: &Arc<Semaphore>) -> Vec<OwnedSemaphorePermit> {
    // Never closed, so a permit always comes.
    let mut held: Vec<OwnedSemaphorePermit> = Arc::clone(places).acquire_owned().await.into_iter().collect();
    while let Ok(place) = Arc::clone(places).try_acquire_owned() {
        held.push(place);
    }
    held
}

impl Inner {
    /// Receives for as long as that goes well; why it ended.
    async fn session(
        self: &Arc<Self>,
        awaken: &Arc<dyn Awaken>,
        places: &Arc<Semaphore>,
        tasks: &TaskTracker,
    ) -> String {
        let consumer = match streams::consumer(&self.link.jetstream, &self.config, &self.link.names).await {
            Ok(consumer) => consumer,
            Err(error) => {
                self.link.doubt();
                return explain(&error);
            }
        };
        loop {
            // No more is asked for than there are places: what was received is begun at once, and nothing lies here while
            // another scanner has time for it.
            let mut held = places_for_some(places).await;
            let batch = consumer.batch().max_messages(held.len()).expires(REQUEST_LASTS).messages();
            let mut batch = match batch.await {
                Ok(batch) => batch,
                Err(error) => return explain(&error),
            };
            while let Some(received) = batch.next().await {
                let message = match received {
                    Ok(message) => message,
                    Err(error) => return error.to_string(),
                };
                let place = held.pop();
                let (inner, awaken) = (Arc::clone(self), Arc::clone(awaken));
                tasks.spawn(async move {
                    inner.receive(message, &*awaken).await;
                    drop(place);
                });
            }
        }
    }

    async fn receive(&self, message: Message, awaken: &dyn Awaken) {
        let delivery = match message.info() {
            Ok(info) => u64::try_from(info.delivered).unwrap_or(1),
            // Not the broker's: there is nobody to tell.
            Err(error) => return tracing::warn!(%error, "a message that no stream sent is ignored"),
        };
        counter!("broker_delivered_total").increment(1);
        if delivery > 1 {
            counter!("broker_redelivered_total").increment(1);
        }
        let max_deliveries = u64::from(self.config.max_deliveries);
        let word = match message::decode(&message.payload) {
            Err(message::Unreadable) => Word::Dead("unreadable"),
            // Whoever had it the last time died of it, or of something else.
            Ok(_) if delivery > max_deliveries => Word::Dead("exhausted"),
            Ok(wake_up) => {
                word(awaken.awaken(wake_up).await, delivery, max_deliveries, &self.config.redelivery)
            }
        };
        match word {
            Word::Done => self.settle(&message, AckKind::Ack).await,
            Word::Again { in_ms } => {
                self.settle(&message, AckKind::Nak(Some(Duration::from_millis(in_ms)))).await;
            }
            Word::Dead(why) => self.put_aside(&message, why, delivery).await,
        }
    }

    /// Writes the dead letter, then tells the broker that the wake-up is done with. One that cannot be written is tried
    /// again with the next delivery, as often as the broker delivers.
    async fn put_aside(&self, message: &Message, why: &'static str, delivery: u64) {
        match self.write_dead_letter(message, why, delivery).await {
            Ok(()) => {
                counter!("broker_dead_total", "why" => why).increment(1);
                tracing::warn!(
                    subject = %message.subject, why, delivery,
                    "a wake-up could not be worked on and is a dead letter; the scanner finds its flow"
                );
                self.settle(message, AckKind::Term).await;
            }
            Err(reason) => {
                tracing::warn!(subject = %message.subject, why, reason, "a dead letter could not be written");
                let in_ms = self.config.redelivery.delay_ms(u32::MAX, JitterPermille::NONE);
                self.settle(message, AckKind::Nak(Some(Duration::from_millis(in_ms)))).await;
            }
        }
    }

    async fn write_dead_letter(&self, message: &Message, why: &str, delivery: u64) -> Result<(), String> {
        let sequence = message.info().map_err(|error| error.to_string())?.stream_sequence;
        let mut headers = HeaderMap::new();
        headers.insert(WHY_DEAD, why);
        headers.insert(DELIVERIES, delivery.to_string());
        headers.insert(MESSAGE_ID, sequence.to_string());
        // Somebody else's message may be of any size.
        let body = message.payload.slice(..message.payload.len().min(message::MAX_BYTES));
        let jetstream = &self.link.jetstream;
        let written = between(Spot::BrokerDead, async {
            jetstream.publish_with_headers(self.link.names.dead(), headers, body).await?.await
        });
        let in_time = tokio::time::timeout(WORD_LIMIT, written).await;
        let written = in_time.map_err(|_| "the broker did not answer in time".to_owned())?;
        written.map(drop).map_err(|error| explain(&error))
    }

    /// Tells the broker. If it does not hear, it delivers again.
    async fn settle(&self, message: &Message, kind: AckKind) {
        let told = between(Spot::BrokerSettle, message.ack_with(kind));
        match tokio::time::timeout(WORD_LIMIT, told).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, subject = %message.subject, "the broker was not told"),
            Err(_) => tracing::debug!(subject = %message.subject, "the broker was not told in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_bounded_and_only_failures_die() {
        let redelivery = Schedule::new(vec![1_000, 5_000]).unwrap();
        let at = |awoken, delivery| word(awoken, delivery, 4, &redelivery);
        let early = Awoken::NotYet { in_ms: 7 };
        for (awoken, delivery, expected) in [
            (Awoken::Done, 1, Word::Done),
            (Awoken::Done, 4, Word::Done),
            (early, 1, Word::Again { in_ms: 7 }),
            (early, 3, Word::Again { in_ms: 7 }),
            (early, 4, Word::Done),
            (Awoken::Failed, 1, Word::Again { in_ms: 1_000 }),
            (Awoken::Failed, 2, Word::Again { in_ms: 5_000 }),
            (Awoken::Failed, 3, Word::Again { in_ms: 5_000 }),
            (Awoken::Failed, 4, Word::Dead("exhausted")),
            (Awoken::Failed, 9, Word::Dead("exhausted")),
        ] {
            assert_eq!(at(awoken, delivery), expected, "{awoken:?}, delivery {delivery}");
        }
        assert_eq!(word(Awoken::Failed, 1, 1, &redelivery), Word::Dead("exhausted"));
    }
}
