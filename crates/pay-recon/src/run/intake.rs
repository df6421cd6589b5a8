//! Everything that is known about a day goes into one sort: the bill, whole; beside it our flows, by pages; then what waits,
//! and which orders have tickets.

use std::io;

use chrono::{DateTime, TimeDelta, Utc};
use flow_bills::{BillEntry, BillError, BillSink, BillSummary, NoStatement, QuarantinedRow, SinkError};
use flow_core::ids::OrderRef;
use flow_core::ports::{BatchBill, Carry, EndedFlowsPage, EntryKind, OpenFlowsPage, ReconFlow};
use flow_core::recon::{Partition, Tally};
use tokio_util::sync::CancellationToken;

use super::{Bill, QuarantinedLine, Run, RunError, TakenBill, check};
use crate::order::{BillRow, Proof};
use crate::record::{self, Record, Waiting};
use crate::sort::{SortOptions, Sorter};

/// Ended flows are asked for by slices of this length: no statement walks longer over what is not wanted.
const SLICE: TimeDelta = TimeDelta::hours(1);
/// Threads that merge and cut into orders.
const LANES: usize = 2;
/// Rows of a page of what waits, or of tickets.
const KEPT_PAGE_ROWS: u32 = 1_000;

/// Takes records of one part.
pub(super) struct Intake {
    pub(super) sorter: Sorter,
    /// Flows that the day's bill must have something of; one that was read twice counts twice.
    pub(super) due_rows: u64,
    partition: Partition,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl Intake {
    /// One of the two that a run fills side by side: from the bill, and from our flows.
    fn of(run: &Run<'_>) -> Intake {
        let settings = &run.runner.settings;
        let (folder, buffer_bytes) = (settings.folder.clone(), settings.sort_buffer_bytes / 2);
        let sorter = Sorter::new(SortOptions { folder, buffer_bytes, lanes: LANES });
        Intake { sorter, due_rows: 0, partition: run.task.partition, key: Vec::new(), payload: Vec::new() }
    }

    /// Both together.
    pub(super) async fn join(mut self, other: Intake) -> Result<Intake, RunError> {
        on_disk(move || {
            self.due_rows += other.due_rows;
            self.sorter.join(other.sorter)?;
            Ok(self)
        })
        .await
    }

    /// Takes a record, if its order is of this part.
    fn put(&mut self, order_no: &OrderRef, record: &Record) -> io::Result<bool> {
        if !self.partition.has(order_no.as_str()) {
            return Ok(false);
        }
        record::key_of(order_no, record, &mut self.key);
        record::encode(order_no, record, &mut self.payload);
        self.sorter.push(record::group_of(order_no), &self.key, &self.payload)?;
        Ok(true)
    }
}

struct Sink<'a> {
    intake: &'a mut Intake,
    tally: &'a mut Tally,
    quarantined: &'a mut Vec<QuarantinedLine>,
}

impl Sink<'_> {
    /// Counted by the first part alone: the counts of all parts add up.
    fn set_apart(&mut self, line: u64, reason: String) {
        if self.intake.partition.index() > 0 {
            return;
        }
        self.tally.quarantined_rows += 1;
        if self.quarantined.len() < QuarantinedLine::MOST {
            self.quarantined.push(QuarantinedLine { line, reason });
        }
    }
}

impl BillSink for Sink<'_> {
    fn entry(&mut self, entry: BillEntry) -> Result<(), SinkError> {
        let line = entry.line;
        let (order_no, row) = match BillRow::of(entry) {
            Ok(row) => row,
            Err(_) => {
                self.set_apart(line, "the order number is none that an order can have here".to_owned());
                return Ok(());
            }
        };
        let (kind, is_settled) = (row.kind, row.proof == Proof::Settled);
        let (amount_minor, currency) = (row.amount_minor, row.currency.clone());
        if !self.intake.put(&order_no, &Record::Bill(row)).map_err(SinkError::new)? {
            return Ok(());
        }
        let sums = self.tally.sums.entry(currency).or_default();
        let (rows, sum) = match kind {
            EntryKind::Payment => (&mut self.tally.bill_payment_rows, &mut sums.bill_paid_minor),
            EntryKind::Refund => (&mut self.tally.bill_refund_rows, &mut sums.bill_refunded_minor),
        };
        *rows += 1;
        if is_settled {
            *sum = sum.saturating_add(amount_minor);
        }
        Ok(())
    }

    fn quarantined(&mut self, row: QuarantinedRow) -> Result<(), SinkError> {
        self.set_apart(row.line, row.reason.to_string());
        Ok(())
    }
}

/// Reads the bill to its end. Of one that does not pass its gate, nothing is kept.
pub(super) async fn bill(run: &Run<'_>, bill: Bill) -> Result<TakenBill, RunError> {
    let mut intake = Intake::of(run);
    let reading = tokio::task::spawn_blocking(move || {
        let (mut tally, mut quarantined) = (Tally::default(), Vec::new());
        let mut sink = Sink { intake: &mut intake, tally: &mut tally, quarantined: &mut quarantined };
        let verdict = (bill.read)(&mut sink);
        (intake, tally, quarantined, verdict, bill.source)
    });
    let (intake, tally, quarantined, verdict, source) =
        reading.await.map_err(|_| io::Error::other("the reader of the bill ended in a panic"))?;
    let (summary, nothing_happened) = match verdict {
        Ok(summary) => (summary, false),
        Err(BillError::NoStatement { meaning: NoStatement::NothingHappened, .. }) => {
            (BillSummary::default(), true)
        }
        Err(error) => return Err(error.into()),
    };
    let bill = BatchBill { sha256: hex::encode(summary.sha256), bytes: summary.bytes, source };
    run.progress.step(summary.rows);
    Ok(TakenBill { intake, tally, bill, quarantined, nothing_happened })
}

impl Run<'_> {
    /// Flows that have something on the day: open ones first, so that one that ends meanwhile is seen once more.
    pub(super) async fn flows(
        &self,
        stop: &CancellationToken,
        lost: &CancellationToken,
    ) -> Result<Intake, RunError> {
        let mut intake = Intake::of(self);
        let (wallet, limit_rows) = (self.channel.wallet.clone(), self.runner.settings.page_rows);
        let mut page = OpenFlowsPage { wallet: wallet.clone(), day: self.day, after_id: 0, limit_rows };
        loop {
            check(stop, lost)?;
            let flows = self.runner.store.open_flows(&page).await?;
            let Some(last) = flows.last() else { break };
            page.after_id = last.id.get();
            intake = self.take_flows(intake, flows).await?;
        }
        let now = self.runner.clock.now().await? + TimeDelta::milliseconds(1);
        let mut from = self.day.from;
        while from < now {
            let until = (from + SLICE).min(now);
            intake = self.ended_flows(intake, from, until, (stop, lost)).await?;
            from = until;
        }
        Ok(intake)
    }

    async fn ended_flows(
        &self,
        mut intake: Intake,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
        (stop, lost): (&CancellationToken, &CancellationToken),
    ) -> Result<Intake, RunError> {
        let (wallet, limit_rows) = (self.channel.wallet.clone(), self.runner.settings.page_rows);
        let mut page = EndedFlowsPage {
            wallet,
            day: self.day,
            ended_from: from,
            after_id: 0,
            ended_until: until,
            limit_rows,
        };
        loop {
            check(stop, lost)?;
            let flows = self.runner.store.ended_flows(&page).await?;
            let Some(last) = flows.last() else { return Ok(intake) };
            page.ended_from = last.finished_at.unwrap_or(until);
            page.after_id = last.id.get();
            intake = self.take_flows(intake, flows).await?;
        }
    }

    async fn take_flows(&self, mut intake: Intake, flows: Vec<ReconFlow>) -> Result<Intake, RunError> {
        self.progress.step(u64::try_from(flows.len()).unwrap_or(u64::MAX));
        let day = self.day;
        on_disk(move || {
            for flow in flows {
                let order_no = order_ref(&flow)?;
                let is_due = flow.paid_at.is_some_and(|at| day.contains(at));
                if intake.put(&order_no, &Record::Local(Box::new(flow)))? && is_due {
                    intake.due_rows += 1;
                }
            }
            Ok(intake)
        })
        .await
    }

    /// What waits for this day or was left waiting by it, and the orders that have tickets.
    pub(super) async fn kept(&self, mut intake: Intake) -> Result<Intake, RunError> {
        let (store, channel, date) = (&self.runner.store, &self.channel.name, self.day.date);
        let mut after: Option<Carry> = None;
        loop {
            let last = after.as_ref().map(|carry| (carry.day, &carry.key));
            let page = store.carries_for(channel, date, last, KEPT_PAGE_ROWS).await?;
            if page.is_empty() {
                break;
            }
            after = page.last().cloned();
            intake = take_waiting(intake, page, Record::WaitedFor).await?;
        }
        let mut after: Option<Carry> = None;
        loop {
            let last = after.as_ref().map(|carry| &carry.key);
            let page = store.carries_of(channel, date, last, KEPT_PAGE_ROWS).await?;
            if page.is_empty() {
                break;
            }
            after = page.last().cloned();
            intake = take_waiting(intake, page, Record::LeftWaiting).await?;
        }
        let mut after: Option<OrderRef> = None;
        loop {
            let page = store.current_tickets(channel, after.as_ref(), KEPT_PAGE_ROWS).await?;
            if page.is_empty() {
                return Ok(intake);
            }
            after = page.last().cloned();
            intake = on_disk(move || {
                for order_no in &page {
                    intake.put(order_no, &Record::Ticket)?;
                }
                Ok(intake)
            })
            .await?;
        }
    }
}

async fn take_waiting(
    mut intake: Intake,
    carries: Vec<Carry>,
    make: fn(Waiting) -> Record,
) -> Result<Intake, RunError> {
    on_disk(move || {
        for carry in carries {
            let order_no = carry.key.order_no.clone();
            let Carry { day, key, waits_for, record, channel: _ } = carry;
            intake.put(&order_no, &make(Waiting { key, day, waits_for, record }))?;
        }
        Ok(intake)
    })
    .await
}

/// A flow's number as an order number of anybody's.
pub(super) fn order_ref(flow: &ReconFlow) -> io::Result<OrderRef> {
    OrderRef::new(flow.trade_order_no.as_str())
        .map_err(|_| io::Error::other("a flow's number is no order number"))
}

/// Work that may write to disk, where it holds nobody up.
async fn on_disk(work: impl FnOnce() -> io::Result<Intake> + Send + 'static) -> Result<Intake, RunError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|_| io::Error::other("the sort ended in a panic"))??)
}
