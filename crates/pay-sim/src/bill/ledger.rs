//! The product's own layout, from its documentation (`docs/bill-formats.md`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, Utc};
use sha2::{Digest as _, Sha256};

use super::rows::Row;
use super::{Ask, quoted};

pub(super) fn write(rows: &[Row], ask: &Ask) -> String {
    let mut text = format!("#ledger-csv,1,{},{}\n", ask.day, ask.zone.name());
    text.push_str("kind,order_no,trade_order_no,amount_minor,currency,user_id,channel_ref,at,status\n");
    let mut totals = BTreeMap::<(&str, &str), (u64, i128)>::new();
    for row in rows {
        let (kind, trade_order_no) = match row.refund_order_no {
            Some(_) => ("refund", row.trade_order_no.as_str()),
            None => ("payment", ""),
        };
        let total = totals.entry((kind, &row.money.currency)).or_default();
        *total = (total.0 + 1, total.1 + i128::from(row.money.amount));
        let at = DateTime::<Utc>::from_timestamp_millis(row.at_ms).unwrap_or_default();
        let cells = [
            kind.to_owned(),
            row.order_no().to_owned(),
            trade_order_no.to_owned(),
            row.money.amount.to_string(),
            row.money.currency.clone(),
            row.user_id.to_string(),
            row.transaction_id.clone(),
            at.to_rfc3339_opts(SecondsFormat::Millis, true),
            "SETTLED".to_owned(),
        ];
        text.push_str(&cells.map(|cell| quoted(&cell)).join(","));
        text.push('\n');
    }
    for ((kind, currency), (count, sum)) in totals {
        line(&mut text, format_args!("#total,{kind},{},{count},{sum}", quoted(currency)));
    }
    line(&mut text, format_args!("#rows,{}", rows.len() + usize::from(ask.wrong_total)));
    let digest: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    line(&mut text, format_args!("#sha256,{digest}"));
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string can not fail");
    text.push('\n');
}
