//! The way from a process to inbox and outbox and back, and who reads them at its other end: what channels said and what
//! applications are told pass through the same breaking connections as payments do.

use std::sync::Arc;

use async_trait::async_trait;
use flow_core::answer::Answered;
use flow_core::callback::NewEvent;
use flow_core::ids::{Actor, InboxId, Version};
use flow_core::notify::{DeliveryAnswer, EventId, Notification};
use flow_core::ports::{
    CasOutcome, ClaimPage, Claimed, DeliveryAttempt, Inbox, InboxEvent, InboxPage, InboxSummary, InboxWrite,
    NotifiedCaller, Outbox, OutboxFilter, OutboxPage, OutboxSummary, Receiver, Recorded, Resent, Settled,
    Settlement, StoreError,
};

use crate::dice::Topic;
use crate::faults::{self, StoreTrouble};
use crate::life::Life;
use crate::time::sleep_ms;
use crate::trace::What;

/// Inbox and outbox, as one process reaches them.
pub(crate) struct Papers {
    life: Arc<Life>,
}

impl Papers {
    pub(crate) fn new(life: Arc<Life>) -> Papers {
        Papers { life }
    }

    /// Sends a statement and hears its answer; where the connection breaks, nobody knows whether it was carried out.
    async fn send<T>(
        &self,
        topic: Topic,
        statement: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (life, site) = (&self.life, &self.life.site);
        life.pass().await;
        let mut draw = site.draw(topic, i64::from(life.place));
        let trouble = faults::of_statement(site, life.who, topic, &mut draw);
        let (there_ms, back_ms) = (site.latency_ms(&mut draw), site.latency_ms(&mut draw));
        if let Some(StoreTrouble::DiesBefore { down_ms }) = trouble {
            life.crash(down_ms);
            life.pass().await;
        }
        sleep_ms(there_ms).await;
        site.time.sync();
        let result = match trouble {
            Some(StoreTrouble::Unavailable) => Err(StoreError::Unavailable { reason: "scripted" }),
            // A write that happens late is, to everybody else, one that a slow process sends late.
            Some(StoreTrouble::LostBefore | StoreTrouble::LostLate { .. }) => Err(StoreError::OutcomeUnknown),
            Some(StoreTrouble::LostAfter) => statement.await.and(Err(StoreError::OutcomeUnknown)),
            Some(StoreTrouble::DiesAfter { down_ms }) => {
                let result = statement.await;
                life.crash(down_ms);
                result
            }
            Some(StoreTrouble::Slow { more_ms }) => {
                sleep_ms(more_ms).await;
                site.time.sync();
                statement.await
            }
            Some(StoreTrouble::DiesBefore { .. } | StoreTrouble::Overtaken) | None => statement.await,
        };
        site.changed.notify_waiters();
        sleep_ms(back_ms).await;
        life.pass().await;
        result
    }
}

#[async_trait]
impl Inbox for Papers {
    async fn record(&self, event: NewEvent, claim_ms: u64) -> Result<Recorded, StoreError> {
        self.send(Topic::InboxWrite, self.life.site.inbox.record(event, claim_ms)).await
    }

    async fn list_due_events(&self, page: InboxPage) -> Result<Vec<InboxEvent>, StoreError> {
        self.send(Topic::InboxList, self.life.site.inbox.list_due_events(page)).await
    }

    async fn claim_event(
        &self,
        id: InboxId,
        version: Version,
        claim_ms: u64,
    ) -> Result<CasOutcome, StoreError> {
        self.send(Topic::InboxWrite, self.life.site.inbox.claim_event(id, version, claim_ms)).await
    }

    async fn settle_event(&self, write: InboxWrite) -> Result<CasOutcome, StoreError> {
        self.send(Topic::InboxWrite, self.life.site.inbox.settle_event(write)).await
    }

    async fn summarise_inbox(&self) -> Result<InboxSummary, StoreError> {
        self.life.pass().await;
        self.life.site.inbox.summarise_inbox().await
    }
}

#[async_trait]
impl Outbox for Papers {
    async fn set_callers(&self, callers: &[NotifiedCaller]) -> Result<(), StoreError> {
        self.send(Topic::OutboxWrite, self.life.site.store.set_callers(callers)).await
    }

    async fn claim_due(&self, page: ClaimPage) -> Result<Vec<Claimed>, StoreError> {
        self.send(Topic::OutboxWrite, self.life.site.store.claim_due(page)).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled, StoreError> {
        self.send(Topic::OutboxWrite, self.life.site.store.settle(settlement)).await
    }

    async fn resend(&self, id: EventId, by: &Actor) -> Result<Resent, StoreError> {
        self.send(Topic::OutboxWrite, self.life.site.store.resend(id, by)).await
    }

    async fn find_notifications(
        &self,
        filter: &OutboxFilter,
        before: Option<EventId>,
        limit_rows: u32,
    ) -> Result<OutboxPage, StoreError> {
        self.life.pass().await;
        self.life.site.store.find_notifications(filter, before, limit_rows).await
    }

    async fn attempts(
        &self,
        id: EventId,
        after_attempt_no: u32,
        limit_rows: u32,
    ) -> Result<Vec<DeliveryAttempt>, StoreError> {
        self.life.pass().await;
        self.life.site.store.attempts(id, after_attempt_no, limit_rows).await
    }

    async fn summarise_outbox(&self) -> Result<Vec<OutboxSummary>, StoreError> {
        self.life.pass().await;
        self.life.site.store.summarise_outbox().await
    }
}

/// An application, as one process tells it of its flows.
pub(crate) struct Application {
    life: Arc<Life>,
}

/// What goes wrong with a notification.
#[derive(Clone, Copy)]
enum Deaf {
    /// It never arrives.
    Unreachable,
    /// It arrives, and the answer does not.
    AnswerLost,
    /// The application cannot take it now.
    Refuses,
}

impl Application {
    pub(crate) fn new(life: Arc<Life>) -> Application {
        Application { life }
    }
}

#[async_trait]
impl Receiver for Application {
    async fn notify(&self, notification: &Notification) -> Answered<DeliveryAnswer> {
        let (life, site) = (&self.life, &self.life.site);
        life.pass().await;
        let flow = notification.id.flow_id.get();
        let mut draw = site.draw_for_flow(Topic::Notify, flow);
        let strikes = draw.chance(site.plan.far_trouble);
        let deaf = draw.pick(&[Deaf::Unreachable, Deaf::AnswerLost, Deaf::Refuses]);
        let (there_ms, back_ms) = (site.latency_ms(&mut draw), site.latency_ms(&mut draw));
        let deaf = Some(deaf).filter(|_| strikes && site.allows(&draw));
        if deaf.is_some() {
            site.note(life.who, What::Fault(draw.point, "an application hears badly", 0));
        }
        sleep_ms(there_ms).await;
        let heard = || site.heard_of(notification.id);
        let answer = match deaf {
            Some(Deaf::Unreachable) => DeliveryAnswer::NotConnected,
            Some(Deaf::AnswerLost) => {
                heard();
                DeliveryAnswer::TimedOut
            }
            Some(Deaf::Refuses) => DeliveryAnswer::Status { code: 503, retry_after_ms: None },
            None => {
                heard();
                DeliveryAnswer::Status { code: 204, retry_after_ms: None }
            }
        };
        sleep_ms(back_ms).await;
        life.pass().await;
        Answered::bare(answer)
    }
}
