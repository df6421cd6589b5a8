//! `pay-api`: serving, from the configuration to the last write.

use std::collections::BTreeMap;
use std::sync::Arc;

use flow_adapters::RedisEntryLock;
use flow_adapters::callback::Channel;
use flow_config::Config;
use flow_core::ids::ChannelName;
use flow_core::ports::{Clock, EntryLock, OpenEntrance, SystemClock};
use pay_api::auth::{KeyRing, SystemWallClock};
use pay_api::work::{Changes, TimedAdvance, Work};
use pay_api::{Api, Late, Ops, Scenes, Settings, late_router, router};
use pay_runtime::http::{Drained, HttpLimits, bind, serve};
use pay_runtime::metrics::Metrics;
use pay_runtime::process::explain;
use pay_runtime::shutdown::{self, Exit};
use pay_runtime::wire::{Parts, Patience, Ready, WakeChoice, WakeDriver, wire};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Serves until told to stop. Health is answered from the start: while the database is away, the process is live and
/// not ready, refuses payments with 503, and goes on trying.
pub(crate) async fn run(config: Config) -> Exit {
    let stop = match shutdown::on_signals() {
        Ok(stop) => stop,
        Err(error) => return failed("signals cannot be listened to", &error),
    };
    let entrances = match entrances(&config) {
        Ok(entrances) => entrances,
        Err(exit) => return exit,
    };
    let metrics = match Metrics::install() {
        Ok(metrics) => metrics,
        Err(error) => return failed("not started", &error),
    };
    let listener = match bind(config.api.listen).await {
        Ok(listener) => listener,
        Err(error) => return failed("the address of [api] listen cannot be listened on", &error),
    };
    tracing::info!(listen = %config.api.listen, "listening");
    tokio::spawn(metrics.clone().upkeep(stop.clone()));

    let ready = Ready::stopping_with(stop.clone());
    let ops = Ops { ready: Arc::new(ready.clone()), metrics_text: Arc::new(move || metrics.render()) };
    let late = Late::default();
    let front = late_router(late.clone(), ops.clone(), Arc::new(SystemClock));
    let ended = CancellationToken::new();
    let server = tokio::spawn(serve(listener, front, HttpLimits::from(&config.api), ended.clone()));

    let parts = match wire(&config, WakeChoice::TimerOrBroker, Patience::Forever, &ready, &stop).await {
        Ok(parts) => parts,
        Err(error) => {
            match error.exit() {
                Exit::Done => tracing::info!("{error}"),
                Exit::Failed | Exit::Differences | Exit::BadConfig | Exit::Refused => {
                    failed("not started", &error);
                }
            }
            ended.cancel();
            joined(server).await;
            return error.exit();
        }
    };
    serve_with(&config, parts, ops, entrances, &late, Serving { stop, ended, server }).await;
    tracing::info!("stopped");
    Exit::Done
}

/// Who and what stands at the entrances.
struct Entrances {
    channels: BTreeMap<ChannelName, Channel>,
    lock: Arc<dyn EntryLock>,
}

/// The configured channels with their keys, and the entry lock. What cannot be used of them is a bad configuration.
fn entrances(config: &Config) -> Result<Entrances, Exit> {
    let channel = |(name, channel): (&ChannelName, _)| match Channel::new(channel) {
        Ok(channel) => Ok((name.clone(), channel)),
        Err(error) => {
            failed(&format!("channels.{name}.public_key_file: not started"), &error);
            Err(Exit::BadConfig)
        }
    };
    let channels = config.channels.iter().map(channel).collect::<Result<_, Exit>>()?;
    let Some(server) = &config.entry_lock.redis else {
        return Ok(Entrances { channels, lock: Arc::new(OpenEntrance) });
    };
    match RedisEntryLock::new(server, &config.entry_lock, Arc::new(SystemClock)) {
        Ok(lock) => Ok(Entrances { channels, lock: Arc::new(lock) }),
        Err(error) => {
            failed("entry_lock.redis: not started", &error);
            Err(Exit::BadConfig)
        }
    }
}

/// The server that is running.
struct Serving {
    stop: CancellationToken,
    ended: CancellationToken,
    server: JoinHandle<Drained>,
}

async fn serve_with(
    config: &Config,
    mut parts: Parts,
    ops: Ops,
    entrances: Entrances,
    late: &Late,
    serving: Serving,
) {
    let wake = std::mem::replace(&mut parts.wake, WakeDriver::Nobody);
    let api = Arc::new(api(config, &parts, ops, entrances, serving.stop.clone()));
    let timed = TimedAdvance {
        advancer: Arc::clone(&parts.advancer),
        changes: Arc::clone(&api.changes),
        budget_ms: config.advance.sync_budget_ms,
    };
    // What a request under way still asks for goes to the broker, while a timer would take it to the grave.
    let drained = CancellationToken::new();
    let wake = tokio::spawn({
        let (stop, drained) = (serving.stop.clone(), drained.clone());
        async move {
            match wake {
                WakeDriver::Nobody => {}
                WakeDriver::Timer(driver) => driver.run(Arc::new(timed), stop).await,
                WakeDriver::Broker { publisher, consumer: _ } => publisher.run(drained).await,
            }
        }
    });
    late.open(router(Arc::clone(&api)));
    tracing::info!(scenes = config.scenes.len(), keys = config.api.keys.len(), "serving");

    serving.stop.cancelled().await;
    // No new connection, then: requests under way, the work they left, their wake-ups. What does not end in time is the
    // scanner's.
    serving.ended.cancel();
    let began_ms = parts.clock.monotonic_ms();
    let drain_ms = config.api.shutdown_drain_ms;
    let rest = async {
        joined(serving.server).await;
        api.work.drained().await;
        drained.cancel();
        joined(wake).await;
    };
    if shutdown::bounded(drain_ms, "requests and their work", rest).await.is_none() {
        tracing::warn!(under_way = api.work.under_way(), "left to the scanner");
    }
    let spent_ms = parts.clock.monotonic_ms().saturating_sub(began_ms);
    // The store's own writes always get a moment: they were handed over, and are short.
    parts.close(drain_ms.saturating_sub(spent_ms).max(LAST_WRITES_MS)).await;
}

/// Least time for the writes that were handed over to the store, in milliseconds.
const LAST_WRITES_MS: u64 = 500;

fn api(config: &Config, parts: &Parts, ops: Ops, entrances: Entrances, stopping: CancellationToken) -> Api {
    let settings = Settings::from_config(&config.api, &config.advance);
    let changes = Arc::new(Changes::new(settings.max_waiters));
    let work = Work::new(
        Arc::clone(&parts.store),
        Arc::clone(&parts.advancer),
        Arc::clone(&changes),
        entrances.lock,
        settings.max_in_flight,
        settings.advance_budget_ms,
    );
    let clock: Arc<dyn Clock> = Arc::clone(&parts.clock);
    Api {
        store: Arc::clone(&parts.store),
        outbox: Arc::clone(&parts.outbox),
        recon: Arc::clone(&parts.recon),
        work,
        changes,
        keys: KeyRing::new(config.api.keys.clone()),
        scenes: Scenes::new(config.scenes.clone()),
        channels: entrances.channels,
        callbacks: Arc::new(parts.callbacks(&config.callbacks, settings.advance_budget_ms)),
        settings,
        wall_clock: Arc::new(SystemWallClock),
        clock,
        ops,
        stopping,
    }
}

async fn joined<T>(task: JoinHandle<T>) {
    if let Err(error) = task.await {
        tracing::error!(%error, "a task of the server ended in a panic");
    }
}

fn failed(what: &str, error: &dyn std::error::Error) -> Exit {
    tracing::error!(error = explain(error), "{what}");
    Exit::Failed
}
