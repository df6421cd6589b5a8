//! Logging: where it goes, in which form, and that a panic is in it.
//!
//! Standard error, so that standard output stays a program's own.

use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;

use flow_config::{LogConfig, LogFormat};
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// Why there is no logging.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error("the log filter {filter:?} cannot be read; an example that can: info,flow_core=debug")]
    BadFilter {
        /// As configured.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// The process logs already.
    #[error("logging was set up twice in one process")]
    Twice(#[from] TryInitError),
}

/// Sets logging up for the whole process, once.
///
/// # Errors
/// [`TelemetryError`].
pub fn install(config: &LogConfig) -> Result<(), TelemetryError> {
    let filter = filter(config)?;
    let registry = tracing_subscriber::registry().with(filter);
    match config.format {
        LogFormat::Json => registry
            .with(
                fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_current_span(true)
                    .with_span_list(false)
                    .with_writer(std::io::stderr),
            )
            .try_init()?,
        LogFormat::Pretty => registry
            .with(fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr))
            .try_init()?,
    }
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Whether [`install`] would take this.
///
/// # Errors
/// [`TelemetryError::BadFilter`].
pub fn check(config: &LogConfig) -> Result<(), TelemetryError> {
    filter(config).map(drop)
}

fn filter(config: &LogConfig) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::builder()
        .parse(&config.filter)
        .map_err(|source| TelemetryError::BadFilter { filter: config.filter.clone(), source })
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("(no message)");
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    ::metrics::counter!("panics_total").increment(1);
    tracing::error!(
        message,
        at,
        thread = thread.name().unwrap_or("unnamed"),
        "panic: a defect; please report it"
    );
}
