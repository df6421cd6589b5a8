//! From configuration to who is told of payments: the receivers behind their gates, and the names that the database's
//! trigger must know.

use std::sync::Arc;

use flow_adapters::{HttpReceiver, TargetPolicy, TransportError};
use flow_config::NotificationsConfig;
use flow_core::downstream::Receivers;
use flow_core::ids::CallerId;
use flow_core::ports::{NotifiedCaller, Outbox, SystemClock};
use tokio_util::sync::CancellationToken;

use super::database::{FIRST_PAUSE, LONGEST_PAUSE};
use super::flows::limits;
use super::{Patience, Ready, WireError};

/// An application that cannot be told.
#[derive(Debug, thiserror::Error)]
#[error("no client could be made for notifications.applications.{name}")]
pub struct ReceiverError {
    name: CallerId,
    #[source]
    source: TransportError,
}

/// Every configured application behind its gate; also one that is switched off, for what is in the outbox already.
/// Connects to nothing.
///
/// # Errors
/// [`ReceiverError`] when the machine does not allow for a client.
pub fn receivers(config: &NotificationsConfig) -> Result<Receivers, ReceiverError> {
    let policy = Arc::new(TargetPolicy {
        allow_private: config.allow_private_targets,
        allowed: config.allowed_targets.clone(),
    });
    let wall_time = flow_adapters::webhook::system_wall_time();
    let mut receivers = Receivers::new(Arc::new(SystemClock));
    for (name, application) in &config.applications {
        let client = HttpReceiver::new(application, Arc::clone(&policy), Arc::clone(&wall_time))
            .map_err(|source| ReceiverError { name: name.clone(), source })?;
        receivers = receivers.with(name.clone(), Arc::new(client), limits(&application.limits));
    }
    Ok(receivers)
}

/// Writes who is told from now on; what may pass is waited for as patience has it.
pub(super) async fn name_callers(
    outbox: &dyn Outbox,
    config: &NotificationsConfig,
    patience: Patience,
    ready: &Ready,
    stop: &CancellationToken,
) -> Result<(), WireError> {
    let named = |(caller, application): (&CallerId, &flow_config::ApplicationConfig)| NotifiedCaller {
        caller: caller.clone(),
        is_enabled: application.is_enabled,
    };
    let callers: Vec<NotifiedCaller> = config.applications.iter().map(named).collect();
    if callers.is_empty() {
        return Ok(());
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match stop.run_until_cancelled(outbox.set_callers(&callers)).await {
            None => return Err(WireError::Stopped),
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => error,
        };
        if patience == Patience::OneTry || !error.retryable() {
            return Err(WireError::Callers(error));
        }
        tracing::warn!(%error, next_try_in_ms = pause.as_millis(), "waiting for the database to take who is told");
        ready.waits_for(error.to_string());
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return Err(WireError::Stopped);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
