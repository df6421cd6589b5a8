//! The entry lock on a Redis or Valkey server: one key per target, taken with `SET NX PX`, given back by whoever still
//! holds it.
//!
//! Whatever the server does, an entry is delayed for a bounded time and let in: calls have a time limit, and after one that
//! failed the server is left alone for a while. Knows no payment; a target's key is its digest, so that nobody reads users
//! out of the server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use flow_config::{EntryLockConfig, RedisUrl};
use flow_core::downstream::{Breaker, BreakerLimits};
use flow_core::ids::{Fingerprint, Target};
use flow_core::ports::{Clock, Entered, EntryLock, EntryTicket};
use metrics::counter;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError, RedisResult};
use uuid::Uuid;

/// The first pause between two looks whether a place is free; doubled each time.
const FIRST_LOOK_MS: u64 = 5;
/// The longest such pause.
const LONGEST_LOOK_MS: u64 = 80;
/// Longest time for which a failing server is left alone.
const LONGEST_REST_MS: u64 = 60_000;

/// Deletes the key if its value is still the holder's.
const LEAVE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// The configured address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the address of the entry lock's server cannot be used")]
pub struct EntryLockError {
    #[source]
    source: RedisError,
}

/// Why a call of the server had no answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("no answer within {timeout_ms} ms")]
    TooSlow { timeout_ms: u64 },
    #[error("the server failed")]
    Failed(#[source] RedisError),
}

/// The lock.
pub struct RedisEntryLock {
    client: redis::Client,
    leave: redis::Script,
    ttl_ms: u64,
    wait_ms: u64,
    timeout_ms: u64,
    clock: Arc<dyn Clock>,
    breaker: Mutex<Breaker>,
    /// Shared by all calls; made when first needed, and anew after a call that failed.
    connection: tokio::sync::Mutex<Option<MultiplexedConnection>>,
    /// Tells the tickets of this process from those of every other.
    process: String,
    tickets: AtomicU64,
}

impl RedisEntryLock {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// An address that cannot be used.
    pub fn new(
        server: &RedisUrl,
        config: &EntryLockConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<RedisEntryLock, EntryLockError> {
        let client = redis::Client::open(server.expose()).map_err(|source| EntryLockError { source })?;
        let limits = BreakerLimits {
            failures_to_open: 1,
            open_ms: config.rest_ms,
            max_open_ms: LONGEST_REST_MS.max(config.rest_ms),
            probes: 1,
        };
        Ok(RedisEntryLock {
            client,
            leave: redis::Script::new(LEAVE),
            ttl_ms: config.ttl_ms,
            wait_ms: config.wait_ms,
            timeout_ms: config.timeout_ms,
            clock,
            breaker: Mutex::new(Breaker::new(limits)),
            connection: tokio::sync::Mutex::new(None),
            process: Uuid::new_v4().to_string(),
            tickets: AtomicU64::new(0),
        })
    }

    fn ticket(&self, target: &Target) -> EntryTicket {
        let user_id = target.user_id.get().to_be_bytes();
        let digest = Fingerprint::of(&[
            b"entry",
            &user_id,
            target.scene.as_str().as_bytes(),
            target.biz_key.as_str().as_bytes(),
        ]);
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        EntryTicket {
            place: format!("pay:entry:{}", digest.to_hex()),
            holder: format!("{}:{number}", self.process),
        }
    }

    /// Looks until the place is free or the time is over.
    async fn follow(&self, place: &str, wait_ms: u64) -> (Entered, &'static str) {
        let began_ms = self.clock.monotonic_ms();
        let mut pause_ms = FIRST_LOOK_MS;
        loop {
            let left_ms = wait_ms.saturating_sub(self.clock.monotonic_ms().saturating_sub(began_ms));
            if left_ms == 0 {
                return (Entered::Unguarded, "waited_out");
            }
            tokio::time::sleep(Duration::from_millis(pause_ms.min(left_ms))).await;
            pause_ms = (pause_ms * 2).min(LONGEST_LOOK_MS);
            let mut exists = redis::cmd("EXISTS");
            exists.arg(place);
            let taken: Option<bool> =
                self.ask(async |mut server| exists.query_async(&mut server).await).await;
            match taken {
                Some(true) => {}
                Some(false) => return (Entered::Followed, "followed"),
                None => return (Entered::Unguarded, "unavailable"),
            }
        }
    }

    /// One call; `None` if there is no answer, or nobody asks for the time being.
    async fn ask<T>(&self, call: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>) -> Option<T> {
        let pass = self.breaker().enter(self.clock.monotonic_ms()).ok()?;
        let asked = tokio::time::timeout(Duration::from_millis(self.timeout_ms), async {
            let server = self.connect().await?;
            call(server).await
        });
        let failure = match asked.await {
            Ok(Ok(answer)) => {
                self.breaker().succeeded(pass);
                return Some(answer);
            }
            Ok(Err(source)) => NoAnswer::Failed(source),
            Err(_) => NoAnswer::TooSlow { timeout_ms: self.timeout_ms },
        };
        self.breaker().failed(pass, self.clock.monotonic_ms());
        // What is lost or silent is not asked again; nobody keeps this lock for longer than a connection may take.
        *self.connection.lock().await = None;
        counter!("entry_lock_failures_total").increment(1);
        tracing::warn!(
            error = &failure as &dyn std::error::Error,
            "the entry lock's server is left alone for a while; payments go on without it, double clicks cost more",
        );
        None
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let mut connection = self.connection.lock().await;
        if let Some(made) = &*connection {
            return Ok(made.clone());
        }
        let limit = Some(Duration::from_millis(self.timeout_ms));
        let limits = AsyncConnectionConfig::new().set_connection_timeout(limit).set_response_timeout(limit);
        let made = self.client.get_multiplexed_async_connection_with_config(&limits).await?;
        *connection = Some(made.clone());
        Ok(made)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl EntryLock for RedisEntryLock {
    async fn enter(&self, target: &Target, wait_ms: u64) -> Entered {
        let ticket = self.ticket(target);
        let mut take = redis::cmd("SET");
        take.arg(&ticket.place).arg(&ticket.holder).arg("NX").arg("PX").arg(self.ttl_ms);
        let taken: Option<Option<String>> =
            self.ask(async |mut server| take.query_async(&mut server).await).await;
        let (entered, how) = match taken {
            Some(Some(_)) => (Entered::First(ticket), "first"),
            Some(None) => self.follow(&ticket.place, wait_ms.min(self.wait_ms)).await,
            None => (Entered::Unguarded, "unavailable"),
        };
        counter!("entry_lock_entered_total", "how" => how).increment(1);
        entered
    }

    async fn leave(&self, ticket: EntryTicket) {
        let mut call = self.leave.prepare_invoke();
        call.key(&ticket.place).arg(&ticket.holder);
        let left: Option<u32> = self.ask(async |mut server| call.invoke_async(&mut server).await).await;
        let how = match left {
            Some(0) => "expired",
            Some(_) => "left",
            None => "unavailable",
        };
        counter!("entry_lock_left_total", "how" => how).increment(1);
    }
}
