//! A day's records as bytes: what is sorted. The key orders them by order number, then by what they are.

use std::hash::{DefaultHasher, Hasher as _};
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

/// What follows an order number in a key: the zero byte, the kind, the line.
const KEY_REST_BYTES: usize = 10;

/// What a refund's number has before its payment's.
const REFUND_PREFIX: &str = "r_";

const LOCAL: u8 = 1;
const BILL: u8 = 2;
const WAITED_FOR: u8 = 3;
const LEFT_WAITING: u8 = 4;
const TICKET: u8 = 5;

/// The group that an order's records are sorted into. Within one process: it need not be the same in another.
pub fn group_of(order_no: &OrderRef) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(order_no.as_str().as_bytes());
    hasher.finish()
}

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
    let text = std::str::from_utf8(order_bytes(key)?).map_err(|_| damaged())?;
    OrderRef::new(text).map_err(|_| damaged())
}

/// The bytes of the order number in a key.
///
/// # Errors
/// As [`order_of`].
pub fn order_bytes(key: &[u8]) -> io::Result<&[u8]> {
    let end = key.len().checked_sub(KEY_REST_BYTES).ok_or_else(damaged)?;
    if key[end] == 0 { Ok(&key[..end]) } else { Err(damaged()) }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a spilled record is damaged")
}

/// Writes a record of this order, whose number it does not repeat.
pub fn encode(order_no: &OrderRef, record: &Record, bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut out = Out(bytes);
    match record {
        Record::Local(flow) => {
            out.byte(LOCAL);
            out.flow(flow);
        }
        Record::Bill(row) => {
            out.byte(BILL);
            out.row(order_no, row);
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
pub fn decode(order_no: &OrderRef, bytes: &[u8]) -> io::Result<Record> {
    let mut from = In(bytes);
    let record = match from.byte()? {
        LOCAL => Record::Local(Box::new(from.flow()?)),
        BILL => Record::Bill(from.row(order_no)?),
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

    /// Small numbers of either sign take few bytes.
    fn number(&mut self, number: i64) {
        self.amount(((number << 1) ^ (number >> 63)).cast_unsigned());
    }

    /// Seven bits a byte, the lowest first; the eighth says that there are more.
    fn amount(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
            number >>= 7;
        }
        self.byte(u8::try_from(number).unwrap_or(0));
    }

    fn text(&mut self, text: &str) {
        // Every text that gets here is bounded far below: by its type, or by the reader of bills.
        self.amount(u64::try_from(text.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(text.as_bytes());
    }

    /// An entry's number, which most often is the order's, or that of its refund.
    fn entry_no(&mut self, order_no: &OrderRef, entry_no: &OrderRef) {
        if entry_no == order_no {
            self.byte(0);
        } else if entry_no.as_str().strip_prefix(REFUND_PREFIX) == Some(order_no.as_str()) {
            self.byte(1);
        } else {
            self.byte(2);
            self.text(entry_no.as_str());
        }
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

    fn row(&mut self, order_no: &OrderRef, row: &BillRow) {
        self.kind(row.kind);
        self.entry_no(order_no, &row.entry_no);
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

impl<'a> In<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> io::Result<i64> {
        let folded = self.amount()?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    fn amount(&mut self) -> io::Result<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(damaged());
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    fn str(&mut self) -> io::Result<&'a str> {
        let length = usize::try_from(self.amount()?).map_err(|_| damaged())?;
        std::str::from_utf8(self.take(length)?).map_err(|_| damaged())
    }

    fn text(&mut self) -> io::Result<String> {
        self.str().map(str::to_owned)
    }

    fn id<T, E>(&mut self, make: impl FnOnce(String) -> Result<T, E>) -> io::Result<T> {
        make(self.text()?).map_err(|_| damaged())
    }

    fn entry_no(&mut self, order_no: &OrderRef) -> io::Result<OrderRef> {
        match self.byte()? {
            0 => Ok(order_no.clone()),
            1 => OrderRef::new(format!("{REFUND_PREFIX}{order_no}")).map_err(|_| damaged()),
            2 => self.id(OrderRef::new),
            _ => Err(damaged()),
        }
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
            state: State::parse(self.str()?).ok_or_else(damaged)?,
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

    fn row(&mut self, order_no: &OrderRef) -> io::Result<BillRow> {
        Ok(BillRow {
            kind: self.kind()?,
            entry_no: self.entry_no(order_no)?,
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
