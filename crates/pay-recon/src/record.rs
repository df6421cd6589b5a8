//! A day's records as bytes: what is sorted. The key orders them by order number, then by what they are.

use std::io;

use chrono::{DateTime, NaiveDate, Utc};
use flow_core::ids::{
    AttemptNo, BizKey, DownstreamName, DownstreamRef, FlowId, OrderRef, RefundOrderNo, Scene, Target,
    TradeOrderNo, UserId, Version,
};
use flow_core::money::{Currency, Money};
use flow_core::ports::{CarryKey, CarrySide, EntryKind, ReconFlow};
use flow_core::state::State;

use crate::order::{BillRow, Proof};

/// An entry that waits, without its channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Which entry.
    pub key: CarryKey,
    /// The day that let it wait.
    pub day: NaiveDate,
    /// The day it waits for.
    pub waits_for: NaiveDate,
    /// The record, as JSON.
    pub record: String,
}

/// Something known about an order on a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Our flow.
    Local(Box<ReconFlow>),
    /// A row of the bill.
    Bill(BillRow),
    /// An entry of another day that waits for this one.
    WaitedFor(Waiting),
    /// An entry of this day that waits for another one, since an earlier run.
    LeftWaiting(Waiting),
    /// Its ticket has differences.
    Ticket,
}

const LOCAL: u8 = 1;
const BILL: u8 = 2;
const WAITED_FOR: u8 = 3;
const LEFT_WAITING: u8 = 4;
const TICKET: u8 = 5;

/// The key of a record: order numbers hold no zero byte, so that one ends where it does.
pub fn key_of(order_no: &OrderRef, record: &Record, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(order_no.as_str().as_bytes());
    let (kind, line) = match record {
        Record::Local(_) => (LOCAL, 0),
        Record::Bill(row) => (BILL, row.line),
        Record::WaitedFor(_) => (WAITED_FOR, 0),
        Record::LeftWaiting(_) => (LEFT_WAITING, 0),
        Record::Ticket => (TICKET, 0),
    };
    key.extend_from_slice(&[0, kind]);
    key.extend_from_slice(&line.to_be_bytes());
}

/// The order number in a key.
///
/// # Errors
/// It is not one that [`key_of`] made.
pub fn order_of(key: &[u8]) -> io::Result<OrderRef> {
    let end = key.iter().position(|byte| *byte == 0).ok_or_else(damaged)?;
    let text = String::from_utf8(key[..end].to_vec()).map_err(|_| damaged())?;
    OrderRef::new(text).map_err(|_| damaged())
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a spilled record is damaged")
}

/// Writes a record.
pub fn encode(record: &Record, bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut out = Out(bytes);
    match record {
        Record::Local(flow) => {
            out.byte(LOCAL);
            out.flow(flow);
        }
        Record::Bill(row) => {
            out.byte(BILL);
            out.row(row);
        }
        Record::WaitedFor(waiting) => {
            out.byte(WAITED_FOR);
            out.waiting(waiting);
        }
        Record::LeftWaiting(waiting) => {
            out.byte(LEFT_WAITING);
            out.waiting(waiting);
        }
        Record::Ticket => out.byte(TICKET),
    }
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// The bytes are none of it.
pub fn decode(bytes: &[u8]) -> io::Result<Record> {
    let mut from = In(bytes);
    let record = match from.byte()? {
        LOCAL => Record::Local(Box::new(from.flow()?)),
        BILL => Record::Bill(from.row()?),
        WAITED_FOR => Record::WaitedFor(from.waiting()?),
        LEFT_WAITING => Record::LeftWaiting(from.waiting()?),
        TICKET => Record::Ticket,
        _ => return Err(damaged()),
    };
    if from.0.is_empty() { Ok(record) } else { Err(damaged()) }
}

struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: i64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn amount(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        // Every text that gets here is bounded far below: by its type, or by the reader of bills.
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    fn time(&mut self, at: DateTime<Utc>) {
        self.number(at.timestamp_millis());
    }

    fn date(&mut self, date: NaiveDate) {
        self.number(i64::from(chrono::Datelike::num_days_from_ce(&date)));
    }

    fn kind(&mut self, kind: EntryKind) {
        self.byte(match kind {
            EntryKind::Payment => 0,
            EntryKind::Refund => 1,
        });
    }

    fn flow(&mut self, flow: &ReconFlow) {
        self.number(flow.id.get());
        self.number(flow.target.user_id.get());
        self.text(flow.target.scene.as_str());
        self.text(flow.target.biz_key.as_str());
        self.number(i64::from(flow.attempt_no.0));
        self.text(flow.state.as_str());
        self.amount(flow.version.0);
        self.number(flow.money.amount());
        self.text(flow.money.currency().as_str());
        self.text(flow.wallet.as_str());
        self.text(flow.business.as_str());
        self.maybe(flow.wallet_pay_txn.as_ref(), |out, text| out.text(text.as_str()));
        self.maybe(flow.wallet_refund_txn.as_ref(), |out, text| out.text(text.as_str()));
        self.maybe(flow.refund_amount, Out::number);
        self.maybe(flow.paid_at, Out::time);
        self.maybe(flow.finished_at, Out::time);
        self.byte(u8::from(flow.is_held));
    }

    fn row(&mut self, row: &BillRow) {
        self.kind(row.kind);
        self.text(row.entry_no.as_str());
        self.maybe(row.trade_order_no.as_deref(), Out::text);
        self.amount(row.amount_minor);
        self.text(&row.currency);
        self.maybe(row.user.as_deref(), Out::text);
        self.maybe(row.channel_ref.as_deref(), Out::text);
        self.time(row.at);
        self.byte(match row.proof {
            Proof::Settled => 0,
            Proof::Accepted => 1,
        });
        self.amount(row.line);
        self.text(&row.raw);
        self.maybe(row.carried_from, Out::date);
    }

    fn waiting(&mut self, waiting: &Waiting) {
        self.text(waiting.key.order_no.as_str());
        self.byte(match waiting.key.side {
            CarrySide::Local => 0,
            CarrySide::Bill => 1,
        });
        self.kind(waiting.key.kind);
        self.text(waiting.key.entry_no.as_str());
        self.date(waiting.day);
        self.date(waiting.waits_for);
        self.text(&waiting.record);
    }
}

struct In<'a>(&'a [u8]);

impl In<'_> {
    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn word<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| damaged())
    }

    fn number(&mut self) -> io::Result<i64> {
        Ok(i64::from_le_bytes(self.word()?))
    }

    fn amount(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.word()?))
    }

    fn text(&mut self) -> io::Result<String> {
        let length = usize::try_from(u32::from_le_bytes(self.word()?)).map_err(|_| damaged())?;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| damaged())
    }

    fn id<T, E>(&mut self, make: impl FnOnce(String) -> Result<T, E>) -> io::Result<T> {
        make(self.text()?).map_err(|_| damaged())
    }

    fn maybe<T>(&mut self, read: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<Option<T>> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(damaged()),
        }
    }

    fn time(&mut self) -> io::Result<DateTime<Utc>> {
        DateTime::from_timestamp_millis(self.number()?).ok_or_else(damaged)
    }

    fn date(&mut self) -> io::Result<NaiveDate> {
        let days = i32::try_from(self.number()?).map_err(|_| damaged())?;
        NaiveDate::from_num_days_from_ce_opt(days).ok_or_else(damaged)
    }

    fn kind(&mut self) -> io::Result<EntryKind> {
        match self.byte()? {
            0 => Ok(EntryKind::Payment),
            1 => Ok(EntryKind::Refund),
            _ => Err(damaged()),
        }
    }

    fn flow(&mut self) -> io::Result<ReconFlow> {
        let id = FlowId::new(self.number()?).map_err(|_| damaged())?;
        let user_id = UserId::new(self.number()?).map_err(|_| damaged())?;
        let target = Target { user_id, scene: self.id(Scene::new)?, biz_key: self.id(BizKey::new)? };
        // Both numbers are derived, and need no place.
        let trade_order_no = TradeOrderNo::derive(user_id, id);
        let refund_order_no = RefundOrderNo::derive(&trade_order_no);
        Ok(ReconFlow {
            id,
            target,
            attempt_no: AttemptNo(u32::try_from(self.number()?).map_err(|_| damaged())?),
            trade_order_no,
            refund_order_no,
            state: State::parse(&self.text()?).ok_or_else(damaged)?,
            version: Version(self.amount()?),
            money: {
                let amount = self.number()?;
                Money::new(amount, self.id(Currency::new)?).map_err(|_| damaged())?
            },
            wallet: self.id(DownstreamName::new)?,
            business: self.id(DownstreamName::new)?,
            wallet_pay_txn: self.maybe(|from| from.id(DownstreamRef::new))?,
            wallet_refund_txn: self.maybe(|from| from.id(DownstreamRef::new))?,
            refund_amount: self.maybe(In::number)?,
            paid_at: self.maybe(In::time)?,
            finished_at: self.maybe(In::time)?,
            is_held: self.byte()? != 0,
        })
    }

    fn row(&mut self) -> io::Result<BillRow> {
        Ok(BillRow {
            kind: self.kind()?,
            entry_no: self.id(OrderRef::new)?,
            trade_order_no: self.maybe(In::text)?,
            amount_minor: self.amount()?,
            currency: self.text()?,
            user: self.maybe(In::text)?,
            channel_ref: self.maybe(In::text)?,
            at: self.time()?,
            proof: match self.byte()? {
                0 => Proof::Settled,
                1 => Proof::Accepted,
                _ => return Err(damaged()),
            },
            line: self.amount()?,
            raw: self.text()?,
            carried_from: self.maybe(In::date)?,
        })
    }

    fn waiting(&mut self) -> io::Result<Waiting> {
        let order_no = self.id(OrderRef::new)?;
        let side = match self.byte()? {
            0 => CarrySide::Local,
            1 => CarrySide::Bill,
            _ => return Err(damaged()),
        };
        let kind = self.kind()?;
        let entry_no = self.id(OrderRef::new)?;
        Ok(Waiting {
            key: CarryKey { order_no, side, kind, entry_no },
            day: self.date()?,
            waits_for: self.date()?,
            record: self.text()?,
        })
    }
}
