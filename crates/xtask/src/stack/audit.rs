//! The invariants I1 to I9 of `ARCHITECTURE.md`, checked over what the database holds and what the simulator's books say.

use std::collections::HashMap;
use std::fmt;

use anyhow::Context as _;
use sqlx::{MySqlConnection, Row as _};

use super::sim::{OrderLedger, SimClient};

/// One row of the flow table, as far as the audit needs it.
#[derive(Debug, Clone)]
pub struct FlowRow {
    /// Primary key.
    pub id: i64,
    /// User, scene and business goal in one text.
    pub target: String,
    /// Ordinal within the target.
    pub attempt_no: i64,
    /// The charge's number.
    pub trade_order_no: String,
    /// State.
    pub status: String,
    /// Version.
    pub version: i64,
    /// Minor units.
    pub amount: i64,
    /// Why it is held, if it is.
    pub hold_reason: Option<String>,
    /// Milliseconds from creation to the terminal state.
    pub took_ms: Option<i64>,
}

impl FlowRow {
    /// Whether the state is terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.as_str(), "PAY_FAIL" | "BIZ_SUCCESS" | "REFUNDED")
    }
}

/// A promise that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant, `I1` to `I9`.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Everything there is, read once.
pub struct Audit {
    /// Every flow, by id.
    pub flows: Vec<FlowRow>,
    /// The simulator's books, by charge number.
    pub ledgers: HashMap<String, OrderLedger>,
    events: HashMap<i64, Vec<Event>>,
}

struct Event {
    version: i64,
    from: Option<String>,
    to: String,
}

impl Audit {
    /// Reads the database and the simulator's books.
    ///
    /// # Errors
    /// Either cannot be read.
    pub async fn read(database: &mut MySqlConnection, sim: &SimClient) -> anyhow::Result<Audit> {
        let rows = sqlx::query(
            "SELECT id, CONCAT(user_id, '/', scene, '/', biz_key) AS target, CAST(attempt_no AS SIGNED) AS attempt_no,
                    trade_order_no, status, CAST(version AS SIGNED) AS version, amount, hold_reason,
                    CAST(TIMESTAMPDIFF(MICROSECOND, created_at, finished_at) DIV 1000 AS SIGNED) AS took_ms
             FROM internal_pay_flow ORDER BY id",
        )
        .fetch_all(&mut *database)
        .await
        .context("can not read the flows")?;
        let flows = rows.iter().map(flow_row).collect::<Result<Vec<_>, _>>()?;
        let rows = sqlx::query(
            "SELECT flow_id, CAST(version AS SIGNED) AS version, from_status, to_status
             FROM pay_flow_event ORDER BY flow_id, version",
        )
        .fetch_all(&mut *database)
        .await
        .context("can not read the events")?;
        let mut events: HashMap<i64, Vec<Event>> = HashMap::new();
        for row in rows {
            let event = Event {
                version: row.try_get("version")?,
                from: row.try_get("from_status")?,
                to: row.try_get("to_status")?,
            };
            events.entry(row.try_get("flow_id")?).or_default().push(event);
        }
        let ledgers =
            sim.all_ledgers().await?.into_iter().map(|order| (order.trade_order_no.clone(), order)).collect();
        Ok(Audit { flows, ledgers, events })
    }

    /// The books of a flow; `None` when the simulator never heard of it.
    pub fn ledger(&self, flow: &FlowRow) -> Option<&OrderLedger> {
        self.ledgers.get(&flow.trade_order_no)
    }

    /// Every promise that does not hold.
    pub fn violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for order in self.ledgers.values() {
            check_order(order, &mut found);
        }
        for flow in &self.flows {
            self.check_flow(flow, &mut found);
            self.check_events(flow, &mut found);
        }
        self.check_targets(&mut found);
        found
    }

    /// Flows that are neither terminal nor held.
    pub fn open(&self) -> Vec<&FlowRow> {
        self.flows.iter().filter(|flow| !flow.is_terminal() && flow.hold_reason.is_none()).collect()
    }

    fn check_flow(&self, flow: &FlowRow, found: &mut Vec<Violation>) {
        let (charges, refunds, grants, refunded) = self.ledger(flow).map_or((0, 0, 0, 0), |order| {
            (order.charges, order.refunds, order.grants, order.refunded_amount)
        });
        let name = format!(
            "flow {} ({}) in {}: charges {charges}, refunds {refunds}, grants {grants}",
            flow.id, flow.trade_order_no, flow.status
        );
        let mut check = |invariant, holds: bool| {
            if !holds {
                found.push(Violation { invariant, what: name.clone() });
            }
        };
        match flow.status.as_str() {
            "BIZ_SUCCESS" => {
                check("I3", refunds == 0);
                check("I1", charges == 1);
                check("I4", grants == 1);
            }
            "REFUNDED" => check("I4", charges == 1 && refunds == 1 && refunded == flow.amount && grants == 0),
            "PAY_FAIL" => check("I5", charges == 0 && refunds == 0 && grants == 0),
            "WAIT_PAY" => check("I1", charges == 0 && grants == 0),
            "PAYED" => check("I3", charges == 1 && refunds == 0),
            "REFUNDING" => check("I4", charges == 1 && grants == 0),
            "PAYING" => check("I5", refunds == 0 && grants == 0),
            other => {
                found.push(Violation { invariant: "I6", what: format!("flow {} is in {other:?}", flow.id) })
            }
        }
    }

    fn check_events(&self, flow: &FlowRow, found: &mut Vec<Violation>) {
        let empty = Vec::new();
        let events = self.events.get(&flow.id).unwrap_or(&empty);
        let mut wrong = |what: String| found.push(Violation { invariant: "I9", what });
        if i64::try_from(events.len()).ok() != Some(flow.version + 1) {
            wrong(format!("flow {} has version {} and {} events", flow.id, flow.version, events.len()));
        }
        let mut state: Option<&str> = None;
        for (expected, event) in (0..).zip(events) {
            if event.version != expected || event.from.as_deref() != state {
                wrong(format!("flow {}: event {} does not follow the one before it", flow.id, event.version));
            }
            state = Some(&event.to);
        }
        if state != Some(&flow.status) {
            wrong(format!("flow {} is in {}, its last event says {state:?}", flow.id, flow.status));
        }
    }

    fn check_targets(&self, found: &mut Vec<Violation>) {
        let mut targets: HashMap<&str, (u32, u32)> = HashMap::new();
        for flow in &self.flows {
            let entry = targets.entry(&flow.target).or_default();
            if !matches!(flow.status.as_str(), "PAY_FAIL" | "REFUNDED") {
                entry.0 += 1;
            }
            entry.1 += self.ledger(flow).map_or(0, |order| order.grants);
        }
        for (target, (live, grants)) in targets {
            if live > 1 || grants > 1 {
                let what = format!("target {target}: {live} attempts open or successful, {grants} grants");
                found.push(Violation { invariant: "I8", what });
            }
        }
    }
}

fn check_order(order: &OrderLedger, found: &mut Vec<Violation>) {
    let mut check = |invariant, holds: bool| {
        if !holds {
            found.push(Violation { invariant, what: format!("{order:?}") });
        }
    };
    check("I1", order.charges <= 1);
    check("I2", order.refunds <= 1 && order.refunded_amount <= order.charged_amount);
    check("I4", order.grants == 0 || order.refunds == 0);
}

fn flow_row(row: &sqlx::mysql::MySqlRow) -> Result<FlowRow, sqlx::Error> {
    Ok(FlowRow {
        id: row.try_get("id")?,
        target: row.try_get("target")?,
        attempt_no: row.try_get("attempt_no")?,
        trade_order_no: row.try_get("trade_order_no")?,
        status: row.try_get("status")?,
        version: row.try_get("version")?,
        amount: row.try_get("amount")?,
        hold_reason: row.try_get("hold_reason")?,
        took_ms: row.try_get("took_ms")?,
    })
}
