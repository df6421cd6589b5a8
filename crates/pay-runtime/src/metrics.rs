//! The process's metrics: one recorder, rendered as Prometheus text.
//!
//! Knows no metric by name; whoever measures names.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

/// How often old samples are folded into the histograms; without it their memory grows between scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Upper bounds of the buckets for every `…_ms` histogram.
const BUCKETS_MS: [f64; 14] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 60_000.0];

/// The recorder's reading end; cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Why there is no recorder.
#[derive(Debug, thiserror::Error)]
#[error("the metrics recorder could not be installed; is there another one in this process?")]
pub struct InstallError(#[from] BuildError);

impl Metrics {
    /// The media type of [`Metrics::render`].
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Makes this the process's recorder. Once per process.
    ///
    /// # Errors
    /// There is one already.
    pub fn install() -> Result<Metrics, InstallError> {
        Ok(Metrics { handle: builder()?.install_recorder()? })
    }

    /// Every metric as Prometheus text.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Folds old samples away, every few seconds, until `shutdown` fires.
    pub async fn upkeep(self, shutdown: CancellationToken) {
        let mut ticks = tokio::time::interval(UPKEEP_EVERY);
        while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            self.handle.run_upkeep();
        }
    }
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_ms".to_owned()), &BUCKETS_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_histograms_and_gauges_keep_their_labels() {
        let recorder = builder().unwrap().build_recorder();
        let metrics = Metrics { handle: recorder.handle() };
        ::metrics::with_local_recorder(&recorder, || {
            ::metrics::histogram!("round_took_ms").record(7.0);
            ::metrics::gauge!("flow_open", "state" => "PAYED").set(3.0);
        });
        let text = metrics.render();
        assert!(text.contains("round_took_ms_bucket{le=\"10\"} 1"), "{text}");
        assert!(text.contains("flow_open{state=\"PAYED\"} 3"), "{text}");
    }
}
