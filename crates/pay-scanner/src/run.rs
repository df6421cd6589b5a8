//! The two ways to run: one round, or rounds until told to stop.

use std::sync::Arc;

use flow_config::Config;
use flow_core::downstream::Receivers;
use flow_core::ports::SystemJitter;
use pay_runtime::http::{HttpLimits, OpsService, bind, serve};
use pay_runtime::metrics::Metrics;
use pay_runtime::process::explain;
use pay_runtime::shutdown::{self, Exit};
use pay_runtime::wire::{Parts, Patience, Ready, WakeChoice, WakeDriver, WireError, receivers, wire};
use pay_scanner::advance::AdvanceDue;
use pay_scanner::inbox::{self, InboxSettings, InboxSweep};
use pay_scanner::notify::{self, Notifier, NotifySettings};
use pay_scanner::report::{PartitionEnd, RoundReport};
use pay_scanner::round::{Sweep, SweepSettings};
use pay_scanner::summary;
use pay_scanner::wake::WakeFlow;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

fn sweep(config: &Config, parts: &Parts) -> Sweep {
    let settings = SweepSettings {
        partitions: config.scanner.partitions,
        page_rows: config.scanner.page_rows,
        max_parallel_flows: config.scanner.max_parallel_flows,
    };
    let advance =
        AdvanceDue::new(Arc::clone(&parts.store), Arc::clone(&parts.advancer), config.scanner.budget_ms);
    Sweep::new(Arc::clone(&parts.store), Arc::new(advance), Arc::clone(&parts.clock), settings)
}

fn inbox_sweep(config: &Config, parts: &Parts) -> InboxSweep {
    let settings = InboxSettings {
        page_rows: config.callbacks.page_rows,
        max_parallel_events: config.callbacks.max_parallel_events,
    };
    let callbacks = parts.callbacks(&config.callbacks, config.scanner.budget_ms);
    InboxSweep::new(Arc::clone(&parts.store), Arc::new(callbacks), settings)
}

/// One round. What it came to is said on standard output.
pub(crate) async fn once(config: Config) -> Exit {
    let stop = match shutdown::on_signals() {
        Ok(stop) => stop,
        Err(error) => return failed("signals cannot be listened to", &error),
    };
    let parts = match wire(&config, WakeChoice::Nobody, Patience::OneTry, &Ready::default(), &stop).await {
        Ok(parts) => parts,
        Err(error) => {
            failed("not started", &error);
            return error.exit();
        }
    };
    let round = sweep(&config, &parts).round(0, &stop).await;
    let inbox_round = inbox_sweep(&config, &parts).round(&stop).await;
    parts.close(config.scanner.shutdown_drain_ms).await;
    if let Err(error) = inbox_round {
        return failed("the round over the inbox failed", &error);
    }
    match round {
        Ok(report) => {
            say(&report);
            let incomplete = report.ended(PartitionEnd::Stopped) + report.ended(PartitionEnd::LeaseLost);
            if incomplete == 0 && !stop.is_cancelled() { Exit::Done } else { Exit::Failed }
        }
        Err(error) => {
            say(&error.report);
            failed("the round failed", &error)
        }
    }
}

#[allow(clippy::print_stdout, reason = "the answer to --once")]
fn say(report: &RoundReport) {
    let tally = report.tally;
    println!(
        "seen {}, advanced {}, repeated {}, overtaken {}, held {}, failed {}, left {}, in {} ms",
        tally.seen,
        tally.advanced,
        tally.repeated,
        tally.overtaken,
        tally.held,
        tally.failed,
        tally.left,
        report.took_ms
    );
    for (end, words) in [
        (PartitionEnd::HeldElsewhere, "skipped: another process is sweeping them"),
        (PartitionEnd::LeaseLost, "not finished: the lease was lost"),
        (PartitionEnd::Stopped, "not finished: told to stop"),
        (PartitionEnd::StoreFailed, "not finished: the database failed"),
    ] {
        let partitions = report.partitions.iter().filter(|partition| partition.end == end);
        let numbers: Vec<String> = partitions.map(|partition| partition.partition.to_string()).collect();
        if !numbers.is_empty() {
            println!("partitions {} {words}", numbers.join(", "));
        }
    }
}

/// Rounds until told to stop. Health and metrics are served from the start: while the database is away, the process is
/// live and not ready, and goes on trying.
pub(crate) async fn daemon(config: Config) -> Exit {
    let stop = match shutdown::on_signals() {
        Ok(stop) => stop,
        Err(error) => return failed("signals cannot be listened to", &error),
    };
    let metrics = match Metrics::install() {
        Ok(metrics) => metrics,
        Err(error) => return failed("not started", &error),
    };
    let listener = match bind(config.scanner.listen).await {
        Ok(listener) => listener,
        Err(error) => return failed("the address of [scanner] listen cannot be listened on", &error),
    };
    tracing::info!(listen = %config.scanner.listen, "serving health and metrics");
    // Answered until the very end: somebody may want to see the drain.
    let down = CancellationToken::new();
    let ready = Ready::stopping_with(stop.clone());
    let asked = ready.clone();
    let ops = OpsService::new(metrics.clone(), move || asked.clone().check());
    let server = tokio::spawn(serve(listener, ops, HttpLimits::from(&config.scanner), down.clone()));
    tokio::spawn(metrics.upkeep(down.clone()));

    let exit = match start(&config, &ready, &stop).await {
        Err(WireError::Stopped) => Exit::Done,
        Ok((mut parts, receivers)) => {
            let wake = std::mem::replace(&mut parts.wake, WakeDriver::Nobody);
            let wake = Wake::start(&config, &parts, wake, &stop);
            work(&config, &parts, receivers, wake, &stop).await;
            parts.close(config.scanner.shutdown_drain_ms).await;
            Exit::Done
        }
        Err(error) => {
            failed("not started", &error);
            error.exit()
        }
    };
    down.cancel();
    if let Err(error) = server.await {
        tracing::error!(%error, "the health server ended in a panic");
    }
    tracing::info!("stopped");
    exit
}

async fn start(
    config: &Config,
    ready: &Ready,
    stop: &CancellationToken,
) -> Result<(Parts, Receivers), WireError> {
    let receivers = receivers(&config.notifications)?;
    let parts = wire(config, WakeChoice::BrokerOrNobody, Patience::Forever, ready, stop).await?;
    Ok((parts, receivers))
}

/// Rounds, wake-ups and deliveries, until told to stop and what was begun is finished.
async fn work(config: &Config, parts: &Parts, receivers: Receivers, wake: Wake, stop: &CancellationToken) {
    let attention_tries = config.advance.attention_after_tries;
    let interval_ms = config.scanner.summary_interval_ms;
    tokio::spawn(summary::run(Arc::clone(&parts.store), attention_tries, interval_ms, stop.clone()));
    let told = receivers.callers().into_iter().map(|(caller, _)| caller).collect();
    tokio::spawn(notify::summary::run(Arc::clone(&parts.outbox), told, interval_ms, stop.clone()));

    let (sweep, inbox_sweep) = (sweep(config, parts), inbox_sweep(config, parts));
    let notifier = notifier(config, parts, receivers);
    let flows = pay_scanner::daemon::run(&sweep, &SystemJitter, config.scanner.round_interval_ms, stop);
    let events = inbox::run(&inbox_sweep, config.callbacks.round_interval_ms, stop);
    let mut all = Box::pin(async {
        tokio::join!(flows, events, notifier.run(stop));
        wake.end().await;
    });
    tokio::select! {
        _ = &mut all => {}
        () = stop.cancelled() => {
            shutdown::bounded(config.scanner.shutdown_drain_ms, "rows under way", all).await;
        }
    }
}

/// Wake-ups by a broker, beside the rounds.
struct Wake {
    receives: JoinHandle<()>,
    publishes: JoinHandle<()>,
    /// Nobody asks for wake-ups any more.
    quiet: CancellationToken,
}

impl Wake {
    fn start(config: &Config, parts: &Parts, driver: WakeDriver, stop: &CancellationToken) -> Wake {
        let quiet = CancellationToken::new();
        let nothing = || tokio::spawn(async {});
        let (receives, publishes) = match driver {
            WakeDriver::Broker { publisher, consumer } => {
                let (store, advancer) = (Arc::clone(&parts.store), Arc::clone(&parts.advancer));
                let flows = WakeFlow::new(store, advancer, config.scanner.budget_ms);
                (
                    tokio::spawn(consumer.run(Arc::new(flows), stop.clone())),
                    tokio::spawn(publisher.run(quiet.clone())),
                )
            }
            // A scanner has no timer: it finds what is due in the database.
            WakeDriver::Nobody | WakeDriver::Timer(_) => (nothing(), nothing()),
        };
        Wake { receives, publishes, quiet }
    }

    /// After the stop and the last round: flows under way are finished, and then what was asked for is published.
    async fn end(self) {
        let received = self.receives.await;
        self.quiet.cancel();
        if let Err(error) = received.and(self.publishes.await) {
            tracing::error!(%error, "what carries wake-ups ended in a panic");
        }
    }
}

fn notifier(config: &Config, parts: &Parts, receivers: Receivers) -> Arc<Notifier> {
    let settings = NotifySettings {
        claim_ms: config.notifications.claim_ms,
        poll_interval_ms: config.notifications.poll_interval_ms,
        retry: config.notifications.retry.clone(),
    };
    Arc::new(Notifier::new(
        Arc::clone(&parts.outbox),
        receivers,
        Arc::clone(&parts.clock),
        Arc::new(SystemJitter),
        settings,
    ))
}

fn failed(what: &str, error: &dyn std::error::Error) -> Exit {
    tracing::error!(error = explain(error), "{what}");
    Exit::Failed
}
