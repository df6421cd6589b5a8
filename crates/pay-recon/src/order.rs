//! One order of one day, as three sides tell it. Pure data: no store, no clock, no IO.

use chrono::{DateTime, NaiveDate, Utc};
use flow_bills::BillEntry;
use flow_core::ids::{IdError, OrderRef, RefundOrderNo};
use flow_core::ports::{EntryKind, ReconFlow};
use flow_core::recon::Day;
use serde::{Deserialize, Serialize};

/// What a row of a bill proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Proof {
    /// Money moved.
    Settled,
    /// The request was taken; whether money moved is not said.
    Accepted,
}

/// A row of a bill, under an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BillRow {
    /// Payment or refund.
    #[serde(with = "kind_text")]
    pub kind: EntryKind,
    /// The entry's own number.
    pub entry_no: OrderRef,
    /// Of a refund, the payment's number as the bill tells it.
    pub trade_order_no: Option<String>,
    /// Minor units.
    pub amount_minor: u64,
    /// Currency or asset.
    pub currency: String,
    /// The payer, where the bill names one of our users.
    pub user: Option<String>,
    /// The channel's own number.
    pub channel_ref: Option<String>,
    /// When, by the channel's clock.
    pub at: DateTime<Utc>,
    /// What it proves.
    pub proof: Proof,
    /// Its line in the bill.
    pub line: u64,
    /// The record as it stood.
    pub raw: String,
    /// The day of the bill that it stood in, if that is another day's.
    pub carried_from: Option<NaiveDate>,
}

mod kind_text {
    //! An [`super::EntryKind`] by its spelling.

    use flow_core::ports::EntryKind;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(kind: &EntryKind, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EntryKind, D::Error> {
        let text = String::deserialize(deserializer)?;
        EntryKind::parse(&text).ok_or_else(|| serde::de::Error::custom("neither a payment nor a refund"))
    }
}

impl BillRow {
    /// The row with the order that it belongs to: a payment's own number; of a refund under a number of ours, the payment's
    /// that is in it, otherwise the payment's that the bill names.
    ///
    /// # Errors
    /// [`IdError`]: a number that no order of anybody can have here.
    pub fn of(entry: BillEntry) -> Result<(OrderRef, BillRow), IdError> {
        let entry_no = OrderRef::new(entry.order_no)?;
        let (kind, order_no) = match entry.kind {
            flow_bills::EntryKind::Payment => (EntryKind::Payment, entry_no.clone()),
            flow_bills::EntryKind::Refund => {
                let ours = RefundOrderNo::try_from(entry_no.as_str().to_owned()).ok();
                let payment =
                    ours.and_then(|number| number.trade_order_no()).map(|number| number.to_string());
                let order_no = match payment.or_else(|| entry.trade_order_no.clone()) {
                    Some(number) => OrderRef::new(number)?,
                    None => entry_no.clone(),
                };
                (EntryKind::Refund, order_no)
            }
        };
        let proof = match entry.proof {
            flow_bills::Proof::Settled => Proof::Settled,
            flow_bills::Proof::Accepted => Proof::Accepted,
        };
        let row = BillRow {
            kind,
            entry_no,
            trade_order_no: entry.trade_order_no,
            amount_minor: entry.amount_minor,
            currency: entry.currency,
            user: entry.user,
            channel_ref: entry.channel_ref,
            at: entry.at,
            proof,
            line: entry.line,
            raw: entry.raw,
            carried_from: None,
        };
        Ok((order_no, row))
    }

    /// What tells one movement of money from another, wherever the row stands in the bill.
    pub(crate) fn movement(&self) -> (&OrderRef, Option<&str>, Proof) {
        (&self.entry_no, self.channel_ref.as_deref(), self.proof)
    }

    /// Everything but the place in the bill: rows are looked at in this order, whatever order they came in.
    pub(crate) fn content(&self) -> impl Ord {
        (
            (self.entry_no.clone(), self.channel_ref.clone(), self.proof),
            (self.amount_minor, self.currency.clone(), self.user.clone(), self.at),
            (self.trade_order_no.clone(), self.carried_from),
        )
    }
}

/// Which day's bill must have an entry of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// None that is looked at now.
    No,
    /// The day's own.
    Today,
    /// The day's own or, before it, that of this neighbouring day, which has none.
    WaitedFrom(NaiveDate),
}

/// What the business system says about the order's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// It was not asked: the order has no flow here.
    NotAsked,
    /// It gave nothing definite; the class of what it gave.
    Unreadable(&'static str),
    /// The benefit was not handed over.
    NotDone,
    /// State and owner contradict each other.
    Contradiction,
    /// Handed over for this order.
    DoneForThis,
    /// Handed over for another one.
    DoneForOther {
        /// Its number.
        owner: String,
        /// Whether it is an attempt at the same target that was charged, too.
        owner_was_charged: bool,
    },
}

/// One order of one day.
#[derive(Debug, Clone)]
pub struct Order {
    /// The payment's number, or the bill's where no payment has it.
    pub order_no: OrderRef,
    /// The day that is compared.
    pub day: Day,
    /// Our record.
    pub local: Option<ReconFlow>,
    /// Whose bill must have the charge.
    pub payment_due: Due,
    /// Whose bill must have the refund.
    pub refund_due: Due,
    /// The bill's rows.
    pub rows: Vec<BillRow>,
    /// Further rows of the order, which were only counted.
    pub rows_left_out: u64,
    /// The business system's word.
    pub fact: Fact,
}

/// What is compared beyond what must always agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How far both sides' times may lie apart, in milliseconds.
    pub time_gap_limit_ms: u64,
    /// Whether the bill's payer is one of our user ids.
    pub compares_users: bool,
    /// Whether the bill's own numbers are the transactions that the wallet answers with.
    pub compares_references: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: flow_bills::EntryKind, order_no: &str, trade_order_no: Option<&str>) -> BillEntry {
        BillEntry {
            kind,
            order_no: order_no.to_owned(),
            trade_order_no: trade_order_no.map(str::to_owned),
            amount_minor: 5,
            currency: "CNY".to_owned(),
            user: None,
            channel_ref: None,
            at: DateTime::default(),
            proof: flow_bills::Proof::Settled,
            line: 2,
            raw: "raw".to_owned(),
        }
    }

    #[test]
    fn a_refund_belongs_to_its_payment() {
        use flow_bills::EntryKind::{Payment, Refund};
        for (entry, order_no) in [
            (entry(Payment, "h2r_1_2", None), "h2r_1_2"),
            (entry(Payment, "foreign", Some("x")), "foreign"),
            (entry(Refund, "r_h2r_1_2", None), "h2r_1_2"),
            (entry(Refund, "r_h2r_1_2", Some("h2r_9_9")), "h2r_1_2"),
            (entry(Refund, "foreign-1", Some("h2r_1_2")), "h2r_1_2"),
            (entry(Refund, "foreign-1", None), "foreign-1"),
        ] {
            assert_eq!(BillRow::of(entry).unwrap().0.as_str(), order_no);
        }
        for wrong in ["", "订单", "a b", &"x".repeat(97)] {
            assert!(BillRow::of(entry(Payment, wrong, None)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_row_is_read_back_from_the_json_it_waits_as() {
        let (_, row) =
            BillRow::of(entry(flow_bills::EntryKind::Refund, "r_h2r_1_2", Some("h2r_1_2"))).unwrap();
        let text = serde_json::to_string(&row).unwrap();
        assert!(text.contains("\"REFUND\"") && text.contains("\"SETTLED\""), "{text}");
        assert_eq!(serde_json::from_str::<BillRow>(&text).unwrap(), row);
    }
}
