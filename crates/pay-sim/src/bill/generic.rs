//! A bank's table: semicolons, local times, refunds with a minus, a last line that counts and sums up.

use super::rows::Row;
use super::{Ask, decimal, exponent, local};

/// Decimals of the sum, which is one over all currencies: as many as any of them has.
const SUM_DECIMALS: u32 = 3;

pub(super) fn write(rows: &[Row], ask: &Ask) -> String {
    let mut text = "booked_at;kind;order_no;refund_order_no;amount;currency;reference;user_id\n".to_owned();
    let mut sum: i128 = 0;
    for row in rows {
        let exponent = exponent(&row.money.currency);
        sum += row.signed() * 10i128.pow(SUM_DECIMALS - exponent);
        let kind = if row.refund_order_no.is_some() { "REFUND" } else { "PAY" };
        let cells = [
            local(row.at_ms, ask.zone),
            kind.to_owned(),
            row.trade_order_no.clone(),
            row.refund_order_no.clone().unwrap_or_default(),
            decimal(row.signed(), exponent),
            row.money.currency.clone(),
            row.transaction_id.clone(),
            row.user_id.to_string(),
        ];
        text.push_str(&cells.join(";"));
        text.push('\n');
    }
    let count = rows.len() + usize::from(ask.wrong_total);
    text.push_str(&format!("TOTAL;{count};{}\n", decimal(sum, SUM_DECIMALS)));
    text
}
