//! `pay-recon daemon`: every channel's day at its hour, missed days after it, an alert for a day that is late.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use flow_config::{Config, ReconChannelConfig};
use flow_core::ids::ChannelName;
use flow_core::ports::StoreError;
use flow_core::recon::Partition;
use metrics::{counter, gauge};
use pay_recon::calendar::Calendar;
use pay_recon::due::Timetable;
use pay_recon::run::{NoProgress, RunError, Runner, Task};
use pay_runtime::http::{HttpLimits, OpsService, bind, serve};
use pay_runtime::metrics::Metrics;
use pay_runtime::shutdown::{self, Exit};
use pay_runtime::wire::{Parts, Patience, Ready, WakeChoice, WireError, wire};
use tokio_util::sync::CancellationToken;

use super::{bill, bill_path, channel, failed, runner};

/// Looks until told to stop. Health and metrics are served from the start.
pub(crate) async fn run(config: Config) -> Exit {
    let stop = match shutdown::on_signals() {
        Ok(stop) => stop,
        Err(error) => return failed("signals cannot be listened to", &error),
    };
    let metrics = match Metrics::install() {
        Ok(metrics) => metrics,
        Err(error) => return failed("not started", &error),
    };
    let listener = match bind(config.recon.listen).await {
        Ok(listener) => listener,
        Err(error) => return failed("the address of [recon] listen cannot be listened on", &error),
    };
    tracing::info!(listen = %config.recon.listen, channels = config.recon.channels.len(), "serving health and metrics");
    let down = CancellationToken::new();
    let ready = Ready::stopping_with(stop.clone());
    let asked = ready.clone();
    let ops = OpsService::new(metrics.clone(), move || asked.clone().check());
    let server = tokio::spawn(serve(listener, ops, HttpLimits::from(&config.recon), down.clone()));
    tokio::spawn(metrics.upkeep(down.clone()));
    let exit = match wire(&config, WakeChoice::Nobody, Patience::Forever, &ready, &stop).await {
        Err(WireError::Stopped) => Exit::Done,
        Err(error) => {
            failed("not started", &error);
            error.exit()
        }
        Ok(parts) => {
            let exit = match runner(&config, &parts) {
                Ok(runner) => {
                    look_until_stopped(&config, &parts, &runner, &stop).await;
                    Exit::Done
                }
                Err(exit) => exit,
            };
            parts.close(config.recon.shutdown_drain_ms).await;
            exit
        }
    };
    down.cancel();
    if let Err(error) = server.await {
        tracing::error!(%error, "the health server ended in a panic");
    }
    exit
}

async fn look_until_stopped(config: &Config, parts: &Parts, runner: &Runner, stop: &CancellationToken) {
    let pause = Duration::from_millis(config.recon.look_interval_ms);
    loop {
        if let Err(error) = look(config, parts, runner, stop).await {
            tracing::warn!(%error, "looking for days to compare failed; the next look starts over");
        }
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// One look over all channels. A channel that fails is in no other's way.
async fn look(
    config: &Config,
    parts: &Parts,
    runner: &Runner,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    for (name, of_channel) in &config.recon.channels {
        let table = Timetable {
            calendar: Calendar::new(of_channel.zone),
            hour: of_channel.hour,
            deadline_hour: of_channel.deadline_hour,
            catch_up_days: config.recon.catch_up_days,
            retry_failed_ms: config.recon.retry_failed_ms,
        };
        let now = parts.store.now().await?;
        for day in table.days(now) {
            if stop.is_cancelled() {
                return Ok(());
            }
            let batch = parts.recon.batch(name, day).await?;
            if table.is_to_run(batch.as_ref(), now) {
                compare(config, runner, name, of_channel, day, stop).await;
            }
        }
        say_late(parts, name, &table, now).await?;
    }
    say_open(parts).await
}

async fn compare(
    config: &Config,
    runner: &Runner,
    name: &ChannelName,
    of_channel: &ReconChannelConfig,
    day: NaiveDate,
    stop: &CancellationToken,
) {
    let path = bill_path(of_channel, day);
    let bill = match bill(config, name, of_channel, day, &path).await {
        Ok(bill) => bill,
        Err(error) => {
            tracing::warn!(channel = %name, %day, %error, path = %path.display(), "the bill is not there yet");
            counter!("recon_runs_total", "channel" => name.to_string(), "outcome" => "no_bill").increment(1);
            return;
        }
    };
    let task = Task { day, partition: Partition::WHOLE, is_dry: false };
    let outcome = runner.run(&channel(name, of_channel), task, bill, &NoProgress, stop).await;
    let label = match outcome {
        Ok(report) => {
            let tally = &report.tally;
            tracing::info!(
                channel = %name, %day, orders = tally.orders, differing = tally.differing_orders,
                quarantined = tally.quarantined_rows, clean = report.is_clean(), "day compared",
            );
            if report.is_clean() { "clean" } else { "differences" }
        }
        Err(RunError::Running | RunError::SplitOtherwise { .. }) => return,
        Err(error) => {
            tracing::error!(channel = %name, %day, %error, "day not compared");
            "failed"
        }
    };
    counter!("recon_runs_total", "channel" => name.to_string(), "outcome" => label).increment(1);
}

/// A day without a finished batch by its deadline is an alert.
async fn say_late(
    parts: &Parts,
    name: &ChannelName,
    table: &Timetable,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut late = 0_u32;
    for day in table.days(now) {
        let batch = parts.recon.batch(name, day).await?;
        if table.is_late(day, batch.as_ref(), now) {
            late += 1;
            let reason = batch.and_then(|batch| batch.reason);
            tracing::error!(channel = %name, %day, reason, "the day was not compared by its deadline; look into it");
        }
    }
    gauge!("recon_late_days", "channel" => name.to_string()).set(late);
    Ok(())
}

async fn say_open(parts: &Parts) -> Result<(), StoreError> {
    let recon = Arc::clone(&parts.recon);
    for sum in recon.summarise_tickets().await? {
        let labels = [("channel", sum.channel.to_string()), ("currency", sum.currency.clone())];
        gauge!("recon_open_tickets", &labels).set(exact(sum.tickets));
        gauge!("recon_open_stake_minor", &labels).set(exact(sum.stake_minor));
        gauge!("recon_oldest_open_ms", &labels).set(exact(sum.oldest_age_ms));
    }
    Ok(())
}

/// Gauges are floats; what they can't tell exactly is told as the largest that they can.
#[allow(clippy::cast_precision_loss, reason = "at most 2^53, which a float tells exactly")]
fn exact(number: u64) -> f64 {
    number.min(1 << 53) as f64
}
