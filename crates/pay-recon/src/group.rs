//! Everything known about one order, together: the merged records, cut where the order number changes.

use std::io;

use flow_core::ids::OrderRef;
use flow_core::ports::ReconFlow;

use crate::order::BillRow;
use crate::record::{self, Record, Waiting};
use crate::sort::Merge;

/// Most rows of one order that are kept; more are counted. An order with more is a defect of the bill.
pub const MAX_ROWS: usize = 64;
/// Most entries that wait, of one order.
const MAX_WAITING: usize = 64;

/// What is known about one order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The order.
    pub order_no: OrderRef,
    /// Our flow, as it was read last: it may have moved on between two readings.
    pub local: Option<ReconFlow>,
    /// The bill's rows, at most [`MAX_ROWS`].
    pub rows: Vec<BillRow>,
    /// How many more there are.
    pub rows_left_out: u64,
    /// Entries of other days that wait for this one.
    pub waited_for: Vec<Waiting>,
    /// Entries of this day that wait for others, since an earlier run.
    pub left_waiting: Vec<Waiting>,
    /// Whether its ticket has differences.
    pub has_ticket: bool,
}

impl Group {
    fn of(order_no: OrderRef) -> Group {
        Group {
            order_no,
            local: None,
            rows: Vec::new(),
            rows_left_out: 0,
            waited_for: Vec::new(),
            left_waiting: Vec::new(),
            has_ticket: false,
        }
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Local(flow) => {
                if self.local.as_ref().is_none_or(|known| known.version < flow.version) {
                    self.local = Some(*flow);
                }
            }
            Record::Bill(row) if self.rows.len() < MAX_ROWS => self.rows.push(row),
            Record::Bill(_) => self.rows_left_out += 1,
            Record::WaitedFor(waiting) if self.waited_for.len() < MAX_WAITING => {
                self.waited_for.push(waiting)
            }
            Record::LeftWaiting(waiting) if self.left_waiting.len() < MAX_WAITING => {
                self.left_waiting.push(waiting);
            }
            Record::WaitedFor(_) | Record::LeftWaiting(_) => {}
            Record::Ticket => self.has_ticket = true,
        }
    }
}

/// Cuts merged records into groups.
#[derive(Debug)]
pub struct Groups {
    merge: Merge,
}

impl Groups {
    /// Over all records of a lane.
    pub fn over(merge: Merge) -> Groups {
        Groups { merge }
    }

    /// The next order, in the order of [`record::group_of`]; `None` at the end.
    ///
    /// # Errors
    /// What was spilled cannot be read back.
    pub fn next_group(&mut self) -> io::Result<Option<Group>> {
        let Some(first) = self.merge.head() else { return Ok(None) };
        let mut group = Group::of(record::order_of(first.key)?);
        while let Some(next) = self.merge.head() {
            if record::order_bytes(next.key)? != group.order_no.as_str().as_bytes() {
                break;
            }
            group.add(record::decode(&group.order_no, next.payload)?);
            self.merge.advance()?;
        }
        Ok(Some(group))
    }
}
