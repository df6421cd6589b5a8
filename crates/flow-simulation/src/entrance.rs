//! The entry lock as one process reaches it: away, slow, or forgetting who holds what.

use std::sync::Arc;

use async_trait::async_trait;
use flow_core::ids::Target;
use flow_core::ports::{Entered, EntryLock, EntryTicket};

use crate::dice::Topic;
use crate::life::Life;
use crate::message::target_number;
use crate::time::sleep_ms;
use crate::trace::What;

/// The longest wait that is configured.
const WAIT_MS: u64 = 500;

/// The lock.
pub(crate) struct Entrance {
    life: Arc<Life>,
}

/// What goes wrong with it.
#[derive(Clone, Copy)]
enum Loose {
    /// It does not answer.
    Away,
    /// It was restarted, and knows of nobody.
    Forgets,
    /// It lets somebody in late.
    Slow,
}

impl Entrance {
    pub(crate) fn new(life: Arc<Life>) -> Entrance {
        Entrance { life }
    }
}

#[async_trait]
impl EntryLock for Entrance {
    async fn enter(&self, target: &Target, wait_ms: u64) -> Entered {
        let (life, site) = (&self.life, &self.life.site);
        life.pass().await;
        let mut draw = site.draw(Topic::Entry, target_number(target));
        let strikes = draw.chance(site.plan.store_trouble * 3);
        let (loose, more_ms) =
            (draw.pick(&[Loose::Away, Loose::Forgets, Loose::Slow]), draw.spread(1, 5_000));
        let loose = Some(loose).filter(|_| strikes && site.allows(&draw));
        if loose.is_some() {
            site.note(life.who, What::Fault(draw.point, "the entry lock is away, slow or forgetful", 0));
        }
        let entered = match loose {
            Some(Loose::Away) => Entered::Unguarded,
            Some(Loose::Forgets) => {
                site.entry_lock.forget();
                site.entry_lock.enter(target, wait_ms.min(WAIT_MS)).await
            }
            Some(Loose::Slow) => {
                let entered = site.entry_lock.enter(target, wait_ms.min(WAIT_MS)).await;
                sleep_ms(more_ms).await;
                entered
            }
            None => site.entry_lock.enter(target, wait_ms.min(WAIT_MS)).await,
        };
        life.pass().await;
        entered
    }

    async fn leave(&self, ticket: EntryTicket) {
        self.life.pass().await;
        self.life.site.entry_lock.leave(ticket).await;
    }
}
