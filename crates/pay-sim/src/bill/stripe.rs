//! Stripe's itemised balance report: our numbers in metadata, nothing that sums up.

use super::rows::Row;
use super::{Ask, decimal, exponent, local, quoted};

const HEADER: [&str; 14] = [
    "balance_transaction_id",
    "created_utc",
    "created",
    "currency",
    "gross",
    "fee",
    "net",
    "reporting_category",
    "description",
    "customer_facing_amount",
    "customer_facing_currency",
    "payment_metadata[trade_order_no]",
    "refund_metadata[refund_order_no]",
    "payment_metadata[user_id]",
];

pub(super) fn write(rows: &[Row], ask: &Ask) -> String {
    let mut text = format!("{}\n", HEADER.join(","));
    for row in rows {
        let amount = decimal(row.signed(), exponent(&row.money.currency));
        let currency = row.money.currency.to_lowercase();
        let category = if row.refund_order_no.is_some() { "refund" } else { "charge" };
        let cells = [
            row.transaction_id.clone(),
            local(row.at_ms, chrono_tz::UTC),
            local(row.at_ms, ask.zone),
            currency.clone(),
            amount.clone(),
            "0.00".to_owned(),
            amount.clone(),
            category.to_owned(),
            format!("Order \"{}\", simulated", row.trade_order_no),
            amount,
            currency,
            row.trade_order_no.clone(),
            row.refund_order_no.clone().unwrap_or_default(),
            row.user_id.to_string(),
        ];
        text.push_str(&cells.map(|cell| quoted(&cell)).join(","));
        text.push('\n');
    }
    text
}
