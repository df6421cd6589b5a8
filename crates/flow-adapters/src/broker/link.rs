//! The connection to the broker: made in the background, made again whenever it breaks, and what is known of it.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event};
use flow_config::BrokerConfig;
use metrics::gauge;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::streams::{Names, dead_letters_kept, set_up};
use super::{BrokerError, explain};

/// Longest time for making a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Longest pause between two tries to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often the broker is asked whether it is still there; a silent one is given up after three times that.
const PING_EVERY: Duration = Duration::from_secs(2);
/// Longest time of a request to the broker about streams.
const REQUEST_LIMIT: Duration = Duration::from_secs(3);
/// Pause after streams could not be looked at or made.
const SET_UP_PAUSE: Duration = Duration::from_secs(1);
/// How often dead letters are counted; also how soon a stream that somebody removed is made again.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Most commands that wait for the connection.
const CLIENT_COMMANDS: usize = 1_024;

/// What is known of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// Not connected, after so many connections.
    Away(u64),
    /// Connected, by the so-many-eth connection; nothing is known of the streams.
    Connected(u64),
    /// The streams are there.
    Usable(u64),
}

impl LinkState {
    const fn connection(self) -> u64 {
        match self {
            LinkState::Away(number) | LinkState::Connected(number) | LinkState::Usable(number) => number,
        }
    }
}

/// The connection, shared by publisher and consumer.
pub(super) struct Link {
    client: Client,
    pub(super) jetstream: Context,
    pub(super) names: Names,
    config: BrokerConfig,
    state: Arc<watch::Sender<LinkState>>,
}

impl Link {
    /// Makes the client; connecting goes on in the background.
    pub(super) async fn open(config: &BrokerConfig) -> Result<Link, BrokerError> {
        let url = config.url.as_ref().ok_or(BrokerError::NoUrl)?;
        let state = Arc::new(watch::Sender::new(LinkState::Away(0)));
        gauge!("broker_connected").set(0.0);
        gauge!("broker_usable").set(0.0);
        let options = options(config, Arc::clone(&state)).await?;
        let addresses: Vec<String> = url.expose().split(',').map(|one| one.trim().to_owned()).collect();
        let client = options
            .connect(addresses)
            .await
            .map_err(|error| BrokerError::Client { reason: error.kind().to_string() })?;
        let mut jetstream = jetstream::new(client.clone());
        jetstream.set_timeout(REQUEST_LIMIT);
        Ok(Link { client, jetstream, names: Names::new(config), config: config.clone(), state })
    }

    /// Whether wake-ups can be published.
    pub(super) fn is_usable(&self) -> bool {
        matches!(*self.state.borrow(), LinkState::Usable(_))
    }

    /// Waits until wake-ups can be published and received; the number of the connection.
    pub(super) async fn until_usable(&self) -> u64 {
        self.until(|state| matches!(state, LinkState::Usable(_))).await.connection()
    }

    /// Waits until this connection is no longer usable.
    pub(super) async fn until_lost(&self, connection: u64) {
        self.until(|state| *state != LinkState::Usable(connection)).await;
    }

    async fn until(&self, is_it: impl FnMut(&LinkState) -> bool) -> LinkState {
        let mut states = self.state.subscribe();
        let found = states.wait_for(is_it).await.map(|state| *state);
        match found {
            Ok(state) => state,
            // The sender is this link's own: there is always one.
            Err(_) => std::future::pending().await,
        }
    }

    /// The streams are not what they were: they are looked at again.
    pub(super) fn doubt(&self) {
        self.state.send_if_modified(|state| match *state {
            LinkState::Usable(connection) => {
                *state = LinkState::Connected(connection);
                gauge!("broker_usable").set(0.0);
                true
            }
            LinkState::Away(_) | LinkState::Connected(_) => false,
        });
    }

    /// Keeps the streams in order and dead letters counted, over every connection that comes, until `stop` fires.
    pub(super) async fn keep(&self, stop: &CancellationToken) {
        let mut states = self.state.subscribe();
        while !stop.is_cancelled() {
            let state = *states.borrow_and_update();
            let next = match state {
                LinkState::Away(_) => None,
                LinkState::Connected(connection) => Some(self.set_up(connection).await),
                LinkState::Usable(_) => {
                    self.look().await;
                    Some(LOOK_EVERY)
                }
            };
            let wait = async {
                match next {
                    Some(pause) => drop(tokio::time::timeout(pause, states.changed()).await),
                    None => drop(states.changed().await),
                }
            };
            stop.run_until_cancelled(wait).await;
        }
    }

    async fn set_up(&self, connection: u64) -> Duration {
        let version = self.client.server_info().version;
        match set_up(&self.jetstream, &self.config, &self.names, version).await {
            Ok(()) => {
                // Unless it broke meanwhile.
                self.state.send_if_modified(|state| {
                    let is_same = *state == LinkState::Connected(connection);
                    if is_same {
                        *state = LinkState::Usable(connection);
                        gauge!("broker_usable").set(1.0);
                    }
                    is_same
                });
                tracing::info!(stream = self.names.stream(), "the broker takes and delivers wake-ups");
                Duration::ZERO
            }
            Err(error) => {
                tracing::warn!(
                    error = explain(&error),
                    next_try_in_ms = SET_UP_PAUSE.as_millis(),
                    "the broker cannot be used; flows are the scanner's meanwhile"
                );
                SET_UP_PAUSE
            }
        }
    }

    async fn look(&self) {
        match dead_letters_kept(&self.jetstream, &self.names).await {
            #[allow(
                clippy::cast_precision_loss,
                reason = "a gauge is a float; the stream is bounded far below 2^52"
            )]
            Some(kept) => gauge!("broker_dead_letters").set(kept as f64),
            None => self.doubt(),
        }
    }
}

async fn options(
    config: &BrokerConfig,
    state: Arc<watch::Sender<LinkState>>,
) -> Result<ConnectOptions, BrokerError> {
    let mut options = ConnectOptions::new();
    if let Some(path) = &config.credentials_file {
        let failed = |source| BrokerError::Credentials { path: path.clone(), source };
        options = options.credentials_file(path).await.map_err(failed)?;
    }
    if let Some(path) = &config.ca_file {
        options = options.add_root_certificates(path.clone());
    }
    Ok(options
        .name("payment-consistency")
        .retry_on_initial_connect()
        .max_reconnects(None)
        .connection_timeout(CONNECT_LIMIT)
        .request_timeout(Some(REQUEST_LIMIT))
        .ping_interval(PING_EVERY)
        .client_capacity(CLIENT_COMMANDS)
        .reconnect_delay_callback(pause)
        .event_callback(move |event| {
            let state = Arc::clone(&state);
            async move { heard(&state, &event) }
        }))
}

/// Doubles from 50 ms.
fn pause(tries: usize) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    (Duration::from_millis(50) * (1 << doublings)).min(LONGEST_PAUSE)
}

fn heard(state: &watch::Sender<LinkState>, event: &Event) {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the client's events: all but two change nothing")]
    match event {
        Event::Connected => {
            gauge!("broker_connected").set(1.0);
            tracing::info!("connected to the broker");
            state.send_modify(|state| *state = LinkState::Connected(state.connection() + 1));
        }
        Event::Disconnected => {
            gauge!("broker_connected").set(0.0);
            gauge!("broker_usable").set(0.0);
            tracing::warn!("the connection to the broker is lost; flows are the scanner's meanwhile");
            state.send_modify(|state| *state = LinkState::Away(state.connection()));
        }
        other => tracing::debug!(event = %other, "the broker's client says"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_bounded() {
        let pauses: Vec<u128> = [0, 1, 2, 3, 7, 1_000].map(|tries| pause(tries).as_millis()).into();
        assert_eq!(pauses, [50, 50, 100, 200, 2_000, 2_000]);
    }

    #[test]
    fn a_connection_is_usable_only_after_its_streams_were_seen_to() {
        let state = watch::Sender::new(LinkState::Away(0));
        heard(&state, &Event::Connected);
        assert_eq!(*state.borrow(), LinkState::Connected(1));
        state.send_replace(LinkState::Usable(1));
        heard(&state, &Event::Disconnected);
        assert_eq!(*state.borrow(), LinkState::Away(1));
        heard(&state, &Event::Connected);
        assert_eq!(*state.borrow(), LinkState::Connected(2), "told from the one before");
    }
}
