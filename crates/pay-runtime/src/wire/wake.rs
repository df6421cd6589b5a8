//! Who takes the wake-ups that advancing a flow asks for: nobody, a timer in this process, or a broker.

use std::sync::Arc;

use flow_adapters::broker::{Broker, BrokerConsumer, BrokerError, BrokerPublisher};
use flow_adapters::{NoWake, Timer, TimerDriver, TimerOptions};
use flow_config::Config;
use flow_core::ports::WakeQueue;

/// Who takes the wake-ups that advancing a flow asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeChoice {
    /// Nobody: this process finds what is due in the database.
    Nobody,
    /// The broker, if one is configured; a timer in this process otherwise.
    TimerOrBroker,
    /// The broker, if one is configured; nobody otherwise.
    BrokerOrNobody,
}

/// What carries wake-ups out.
pub enum WakeDriver {
    /// Nothing.
    Nobody,
    /// A timer in this process.
    Timer(TimerDriver),
    /// The broker.
    Broker {
        /// What publishes; to be run by every process.
        publisher: BrokerPublisher,
        /// What receives; to be run by scanners.
        consumer: BrokerConsumer,
    },
}

/// Connects to nothing: a broker is connected to in the background.
pub(super) async fn wake(
    config: &Config,
    choice: WakeChoice,
) -> Result<(Arc<dyn WakeQueue>, WakeDriver), BrokerError> {
    let has_broker = config.broker.url.is_some();
    match choice {
        WakeChoice::TimerOrBroker | WakeChoice::BrokerOrNobody if has_broker => {
            let wall_time = flow_adapters::webhook::system_wall_time();
            let Broker { queue, publisher, consumer } = Broker::open(&config.broker, wall_time).await?;
            Ok((Arc::new(queue), WakeDriver::Broker { publisher, consumer }))
        }
        WakeChoice::TimerOrBroker => {
            let (timer, driver) = Timer::new(TimerOptions::from(&config.advance));
            Ok((Arc::new(timer), WakeDriver::Timer(driver)))
        }
        WakeChoice::Nobody | WakeChoice::BrokerOrNobody => Ok((Arc::new(NoWake), WakeDriver::Nobody)),
    }
}
