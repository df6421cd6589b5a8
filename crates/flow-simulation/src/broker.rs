//! A message broker between the processes of a world: wake-ups get lost on it, doubled, late, early (its clock is ahead)
//! and out of order, are delivered again to whoever did not say what became of them, and are given up in the end. What
//! becomes of a delivery is the shipped scanner's doing. As on the real one, a flow has one wake-up waiting: the last one
//! asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use flow_core::ids::{FlowId, Version};
use flow_core::ports::{Awaken as _, Awoken, WakeError, WakeQueue, WakeUp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::cast::Cast;
use crate::dice::{Draw, Topic};
use crate::life::Life;
use crate::site::Site;
use crate::time::sleep_ms;
use crate::trace::{What, Who};

/// Wake-ups with which something goes wrong, of 1000, in a world in which anything does.
const TROUBLED: u32 = 300;
/// How late one may be: twice the ten minutes that must do no harm.
const LONGEST_LATE_MS: u64 = 1_200_000;
/// How long the broker waits for word of a delivery.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Most deliveries of one wake-up, and the pause before another one of one that failed.
const MAX_DELIVERIES: u32 = 5;
const REDELIVERY_MS: u64 = 1_000;

/// A wake-up on the broker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    wake_up: WakeUp,
    /// When it is delivered, from now.
    in_ms: u64,
    /// When it is delivered a second time, after the first.
    again_after_ms: Option<u64>,
}

/// The last wake-up asked for of each flow, by its number: the only one that still waits.
type Waiting = Arc<Mutex<BTreeMap<FlowId, u64>>>;

/// Where a process asks for wake-ups, until its death.
pub(crate) struct BrokerWakes {
    pub(crate) life: Arc<Life>,
    pub(crate) messages: UnboundedSender<Message>,
}

/// What goes wrong with a wake-up.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    NotTaken,
    Lost,
    Twice { after_ms: u64 },
    Late { by_ms: u64 },
    Early,
}

impl Trouble {
    const fn name(self) -> &'static str {
        match self {
            Trouble::NotTaken => "wake-up not taken",
            Trouble::Lost => "wake-up lost",
            Trouble::Twice { .. } => "wake-up delivered twice",
            Trouble::Late { .. } => "wake-up delivered late",
            Trouble::Early => "wake-up delivered early",
        }
    }

    const fn size_ms(self) -> u64 {
        match self {
            Trouble::Twice { after_ms } => after_ms,
            Trouble::Late { by_ms } => by_ms,
            Trouble::NotTaken | Trouble::Lost | Trouble::Early => 0,
        }
    }
}

fn trouble(site: &Site, draw: &mut Draw) -> Option<Trouble> {
    // Drawn whether it may happen or not: what else is drawn must not depend on it.
    let refused = draw.chance(site.plan.store_trouble);
    let troubled = draw.chance(if site.plan.far_trouble == 0 { 0 } else { TROUBLED });
    let (kind, size_ms) = (draw.between(0, 99), draw.spread(1, LONGEST_LATE_MS));
    let drawn = match kind {
        0..30 => Trouble::Lost,
        30..55 => Trouble::Twice { after_ms: size_ms },
        55..80 => Trouble::Late { by_ms: size_ms },
        80.. => Trouble::Early,
    };
    let trouble = if refused { Some(Trouble::NotTaken) } else { troubled.then_some(drawn) };
    trouble
        .filter(|_| site.allows(draw))
        .or_else(|| (site.doubled && !draw.left_out).then_some(Trouble::Twice { after_ms: size_ms }))
}

#[async_trait]
impl WakeQueue for BrokerWakes {
    async fn wake_after(&self, flow_id: FlowId, version: Version, delay_ms: u64) -> Result<(), WakeError> {
        self.life.pass().await;
        let site = &self.life.site;
        let mut draw = site.draw_for_flow(Topic::Wake, flow_id.get());
        let trouble = trouble(site, &mut draw);
        if let Some(trouble) = trouble {
            site.note(self.life.who, What::Fault(draw.point, trouble.name(), trouble.size_ms()));
        }
        let on_its_way_ms = site.latency_ms(&mut draw);
        let wake_up = WakeUp { flow_id, version, at_once: delay_ms == 0 };
        let send = |in_ms: u64, again_after_ms: Option<u64>| {
            // The cast outlives every process; if it is gone, so is the run.
            let _nobody_left =
                self.messages.send(Message { wake_up, in_ms: in_ms + on_its_way_ms, again_after_ms });
        };
        match trouble {
            Some(Trouble::NotTaken) => return Err(WakeError::Full),
            Some(Trouble::Lost) => {}
            Some(Trouble::Twice { after_ms }) => send(delay_ms, Some(after_ms)),
            Some(Trouble::Late { by_ms }) => send(delay_ms + by_ms, None),
            Some(Trouble::Early) => send(0, None),
            None => send(delay_ms, None),
        }
        Ok(())
    }
}

/// Carries messages for as long as there is a cast.
pub(crate) async fn carry(cast: Weak<Cast>, mut messages: UnboundedReceiver<Message>) {
    let (waiting, mut number) = (Waiting::default(), 0);
    while let Some(message) = messages.recv().await {
        number += 1;
        lock(&waiting).insert(message.wake_up.flow_id, number);
        tokio::spawn(wait(cast.clone(), message, Arc::clone(&waiting), number));
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, BTreeMap<FlowId, u64>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn wait(cast: Weak<Cast>, message: Message, waiting: Waiting, number: u64) {
    let Message { wake_up, in_ms, again_after_ms } = message;
    sleep_ms(in_ms).await;
    if lock(&waiting).get(&wake_up.flow_id) != Some(&number) {
        return;
    }
    if let Some(after_ms) = again_after_ms {
        let cast = cast.clone();
        tokio::spawn(async move {
            sleep_ms(after_ms).await;
            deliver(cast, wake_up).await;
        });
    }
    deliver(cast, wake_up).await;
}

async fn deliver(cast: Weak<Cast>, wake_up: WakeUp) {
    let mut delivery = 0;
    while delivery < MAX_DELIVERIES {
        let Some(cast) = cast.upgrade() else { return };
        let number = u64::from(delivery) + wake_up.version.0;
        let Some(scanner) = cast.woken_scanner(number) else {
            // It waits on the broker for somebody to come up.
            drop(cast);
            sleep_ms(REDELIVERY_MS).await;
            continue;
        };
        drop(cast);
        delivery += 1;
        // Whoever takes too long goes on all the same.
        let work = tokio::spawn(async move { scanner.awaken(wake_up).await });
        match tokio::time::timeout(ACK_WAIT, work).await {
            Ok(Ok(Awoken::Done)) => return,
            Ok(Ok(Awoken::NotYet { in_ms })) => sleep_ms(in_ms).await,
            Ok(Ok(Awoken::Failed) | Err(_)) => sleep_ms(REDELIVERY_MS).await,
            Err(_) => {}
        }
    }
    if let Some(cast) = cast.upgrade() {
        cast.site().note(Who::Network, What::Process("wake-up is a dead letter", 0));
    }
}
