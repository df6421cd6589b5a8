//! Every rule of the two contracts with its negative twin, and the promises under any sequence of calls.

mod business;
mod proptests;
mod wallet;

use super::*;

const T0: i64 = 1_700_000_000_000;

fn cny(amount: i64) -> Money {
    Money { amount, currency: "CNY".to_owned() }
}

fn debit(no: &str, user_id: u64, amount: i64) -> Debit {
    Debit { trade_order_no: no.to_owned(), user_id, money: cny(amount), not_after_ms: None }
}

fn refund(refund_no: &str, no: &str, user_id: u64, amount: i64) -> Refund {
    Refund {
        refund_order_no: refund_no.to_owned(),
        trade_order_no: no.to_owned(),
        user_id,
        money: cny(amount),
    }
}

fn target(key: &str) -> Target {
    Target { user_id: 7, scene: "renewal".to_owned(), biz_key: key.to_owned() }
}

fn execution(no: &str, key: &str, not_after_ms: i64) -> Execution {
    Execution { trade_order_no: no.to_owned(), target: target(key), not_after_ms }
}

/// (charges, refunds, grants)
fn counts(world: &World, no: &str) -> (u32, u32, u32) {
    let ledger = world.ledger(no);
    (ledger.charges, ledger.refunds, ledger.grants)
}
