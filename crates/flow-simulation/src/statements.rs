//! The way from a process to the database and back. A statement that was sent is carried out whatever becomes of its
//! sender, unless the connection broke first.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::flow::{Flow, Trigger};
use flow_core::ids::{CallerId, FlowId, IdempotencyKey, Target, Version};
use flow_core::ports::{
    Bound, CasOutcome, Created, DueFlow, FlowEvent, FlowFilter, FlowPage, FlowStore, KeyBinding, Lookup,
    NewFlow, PartitionLease, ScanPage, Seen, StateSummary, StoreError,
};
use flow_testkit::mem_store::{StoreFault, StoreOp};

use crate::dice::{Draw, Topic};
use crate::faults::{self, StoreTrouble};
use crate::life::{HeldLease, Life};
use crate::message::target_number;
use crate::mind;
use crate::onlooker::Step;
use crate::time::sleep_ms;
use crate::trace::What;

/// The database, as one process reaches it.
pub(crate) struct Statements {
    life: Arc<Life>,
}

/// A statement that has arrived at the server.
struct Arrived {
    topic: Topic,
    subject: i64,
    trouble: Option<StoreTrouble>,
    back_ms: u64,
}

impl Statements {
    pub(crate) fn new(life: Arc<Life>) -> Statements {
        Statements { life }
    }

    /// A statement about a flow.
    async fn send_for_flow(&self, topic: Topic, flow_id: FlowId) -> Arrived {
        self.life.pass().await;
        let draw = self.life.site.draw_for_flow(topic, flow_id.get());
        self.transmit(topic, flow_id.get(), draw).await
    }

    /// A statement about a target, or about this process.
    async fn send(&self, topic: Topic, subject: i64) -> Arrived {
        self.life.pass().await;
        let draw = self.life.site.draw(topic, subject);
        self.transmit(topic, subject, draw).await
    }

    async fn transmit(&self, topic: Topic, subject: i64, mut draw: Draw) -> Arrived {
        let (life, site) = (&self.life, &self.life.site);
        let trouble = faults::of_statement(site, life.who, topic, &mut draw);
        let (mut there_ms, mut back_ms) = (site.latency_ms(&mut draw), site.latency_ms(&mut draw));
        match trouble {
            Some(StoreTrouble::DiesBefore { down_ms }) => {
                life.crash(down_ms);
                life.pass().await;
            }
            Some(StoreTrouble::Slow { more_ms }) => {
                there_ms += more_ms / 2;
                back_ms += more_ms / 2;
            }
            Some(
                StoreTrouble::DiesAfter { .. }
                | StoreTrouble::Unavailable
                | StoreTrouble::LostBefore
                | StoreTrouble::LostAfter
                | StoreTrouble::LostLate { .. }
                | StoreTrouble::Overtaken,
            )
            | None => {}
        }
        sleep_ms(there_ms).await;
        site.time.sync();
        Arrived { topic, subject, trouble, back_ms }
    }

    /// Tells the store how its next call of this kind ends.
    fn arm(&self, arrived: &Arrived, op: StoreOp) {
        let fault = match arrived.trouble {
            Some(StoreTrouble::Unavailable) => StoreFault::Unavailable,
            Some(StoreTrouble::LostBefore | StoreTrouble::LostLate { .. }) => {
                StoreFault::OutcomeUnknown { happened: false }
            }
            Some(StoreTrouble::LostAfter) => StoreFault::OutcomeUnknown { happened: true },
            Some(
                StoreTrouble::DiesBefore { .. }
                | StoreTrouble::DiesAfter { .. }
                | StoreTrouble::Overtaken
                | StoreTrouble::Slow { .. },
            )
            | None => return,
        };
        self.life.site.store.fail_next(op, fault);
    }

    /// The answer is on its way back.
    async fn hear<T>(&self, arrived: Arrived, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some(StoreTrouble::DiesAfter { down_ms }) = arrived.trouble {
            self.life.crash(down_ms);
        }
        sleep_ms(arrived.back_ms).await;
        self.life.pass().await;
        if let Err(error) = &result {
            let heard = match error {
                StoreError::Unavailable { .. } => "unavailable",
                StoreError::OutcomeUnknown => "outcome unknown",
                StoreError::Guarded { .. } => "refused by a guard",
                StoreError::Corrupt { .. } | StoreError::Unexpected(_) => "failed",
            };
            self.life.site.note(self.life.who, What::Heard(arrived.topic, arrived.subject, heard));
        }
        result
    }

    /// Another entrance gets in between: it has tried the same row, and puts it off.
    fn overtake(&self, write: &CasWrite) {
        let site = &self.life.site;
        let Some(row) = site.store.flow(write.flow_id) else { return };
        if row.state.is_terminal() || row.hold.is_some() {
            return;
        }
        let code = ErrorCode::clean("OVERTAKEN");
        let change = Change::Reschedule { next_in_ms: 1_000, retry_count: row.retry_count + 1, code };
        let evidence =
            WriteEvidence { outcome: Some("another entrance"), ..WriteEvidence::of(Trigger::Wake) };
        let other = CasWrite { flow_id: row.id, from: row.state, version: row.version, change, evidence };
        // A row that is as it was just read takes the write.
        drop(site.store.cas_now(&other));
        site.look_at_row(write.flow_id);
    }
}

#[async_trait]
impl FlowStore for Statements {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        let arrived = self.send(Topic::Now, i64::from(self.life.place)).await;
        self.arm(&arrived, StoreOp::Now);
        let result = self.life.site.store.now().await;
        self.hear(arrived, result).await
    }

    async fn load(&self, flow_id: FlowId) -> Result<Seen<Option<Flow>>, StoreError> {
        let arrived = self.send_for_flow(Topic::Load, flow_id).await;
        self.arm(&arrived, StoreOp::Load);
        let result = self.life.site.store.load(flow_id).await;
        if result.is_ok() {
            self.life.site.show(Step::Read(flow_id));
        }
        self.hear(arrived, result).await
    }

    async fn look_up(
        &self,
        caller: &CallerId,
        key: &IdempotencyKey,
        target: &Target,
    ) -> Result<Seen<Lookup>, StoreError> {
        let arrived = self.send(Topic::LookUp, target_number(target)).await;
        self.arm(&arrived, StoreOp::LookUp);
        let result = self.life.site.store.look_up(caller, key, target).await;
        self.hear(arrived, result).await
    }

    async fn create(&self, new: NewFlow) -> Result<Created, StoreError> {
        let site = &self.life.site;
        let arrived = self.send(Topic::Create, target_number(&new.target)).await;
        if let Some(StoreTrouble::LostLate { after_ms }) = arrived.trouble {
            let new = new.clone();
            site.later(after_ms, |site| async move {
                site.time.sync();
                site.look_at_creation(&site.store.create_now(new));
            });
        }
        self.arm(&arrived, StoreOp::Create);
        let rows = site.store.flows().len();
        let result = site.store.create(new).await;
        match &result {
            Ok(created) => site.look_at_creation(created),
            // Nobody heard of it, but it may be there.
            Err(_) => site.look_at_rows_after(rows),
        }
        self.hear(arrived, result).await
    }

    async fn bind_key(&self, binding: KeyBinding) -> Result<Bound, StoreError> {
        let arrived = self.send_for_flow(Topic::BindKey, binding.flow_id).await;
        self.arm(&arrived, StoreOp::BindKey);
        let result = self.life.site.store.bind_key(binding).await;
        self.hear(arrived, result).await
    }

    async fn cas(&self, write: CasWrite) -> Result<CasOutcome, StoreError> {
        let site = &self.life.site;
        let flow_id = write.flow_id;
        let arrived = self.send_for_flow(Topic::Cas, flow_id).await;
        match arrived.trouble {
            Some(StoreTrouble::LostLate { after_ms }) => {
                let write = write.clone();
                site.later(after_ms, move |site| async move {
                    site.time.sync();
                    drop(site.store.cas_now(&write));
                    site.look_at_row(flow_id);
                });
            }
            Some(StoreTrouble::Overtaken) => self.overtake(&write),
            Some(
                StoreTrouble::DiesBefore { .. }
                | StoreTrouble::DiesAfter { .. }
                | StoreTrouble::Unavailable
                | StoreTrouble::LostBefore
                | StoreTrouble::LostAfter
                | StoreTrouble::Slow { .. },
            )
            | None => {}
        }
        self.arm(&arrived, StoreOp::Cas);
        let result = site.store.cas(write).await;
        site.look_at_row(flow_id);
        let heard = match result {
            Ok(CasOutcome::Lost) => {
                site.note(self.life.who, What::Heard(Topic::Cas, flow_id.get(), "lost"));
                Ok(CasOutcome::Lost)
            }
            Ok(CasOutcome::Applied) => Ok(CasOutcome::Applied),
            Err(error) => Err(error),
        };
        let heard = self.hear(arrived, heard).await;
        mind::write_heard(site, heard)
    }

    async fn list_due_after(&self, page: ScanPage) -> Result<Vec<DueFlow>, StoreError> {
        let arrived = self.send(Topic::ListDue, i64::from(self.life.place)).await;
        self.arm(&arrived, StoreOp::ListDue);
        let result = self.life.site.store.list_due_after(page).await;
        self.hear(arrived, result).await
    }

    async fn try_lease(
        &self,
        partition: u32,
        partitions: u32,
    ) -> Result<Option<Box<dyn PartitionLease>>, StoreError> {
        let arrived = self.send(Topic::Lease, i64::from(self.life.place)).await;
        self.arm(&arrived, StoreOp::TryLease);
        let result = self.life.site.store.try_lease(partition, partitions).await;
        let result = result.map(|lease| {
            lease.map(|lease| {
                let held = self.life.keep(lease);
                Box::new(Lease { life: Arc::clone(&self.life), held }) as Box<dyn PartitionLease>
            })
        });
        self.hear(arrived, result).await
    }

    async fn summarise_open(&self, attention_tries: u32) -> Result<Vec<StateSummary>, StoreError> {
        self.life.pass().await;
        self.life.site.store.summarise_open(attention_tries).await
    }

    async fn find(
        &self,
        filter: &FlowFilter,
        before_id: Option<FlowId>,
        limit_rows: u32,
    ) -> Result<FlowPage, StoreError> {
        self.life.pass().await;
        self.life.site.store.find(filter, before_id, limit_rows).await
    }

    async fn events(
        &self,
        flow_id: FlowId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<FlowEvent>, StoreError> {
        self.life.pass().await;
        self.life.site.store.events(flow_id, after, limit_rows).await
    }
}

/// A lease that its holder's death takes away.
struct Lease {
    life: Arc<Life>,
    held: HeldLease,
}

#[async_trait]
impl PartitionLease for Lease {
    async fn still_held(&mut self) -> bool {
        self.life.pass().await;
        let lease = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut lease) = lease else { return false };
        let still = lease.still_held().await;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
        still
    }

    async fn release(self: Box<Self>) {
        self.life.pass().await;
        drop(self.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
