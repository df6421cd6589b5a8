//! Rows of the flow table written by hand, in the demo's own database: what an old writer, or a hand in the wrong place, would
//! leave behind. Along the six edges alone: the table's triggers let nobody write anything else.

use sqlx::mysql::MySqlArguments;
use sqlx::{Arguments as _, MySqlConnection};

/// A row that stands in `WAIT_PAY` until it is moved.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    id: u64,
    pub(super) user_id: u64,
    pub(super) biz_key: String,
    pub(super) trade_order_no: String,
    pub(super) refund_order_no: String,
}

/// What the row says of charge and refund.
#[derive(Debug, Clone, Default)]
pub(super) struct Confirmed {
    pub(super) pay_txn: Option<String>,
    pub(super) refund_txn: Option<String>,
    pub(super) paid_ago_s: u64,
}

/// Every row is of this much, in minor units of CNY.
pub(super) const AMOUNT: i64 = 1_990;

/// Makes a row of the scene `renew` that nobody works on: it is due tomorrow.
pub(super) async fn create(
    database: &mut MySqlConnection,
    user_id: u64,
    biz_key: &str,
    attempt_no: u32,
) -> anyhow::Result<Flow> {
    sqlx::query("UPDATE flow_id_block SET next_id = LAST_INSERT_ID(next_id) + 1 WHERE id = 1")
        .execute(&mut *database)
        .await?;
    let id: u64 = sqlx::query_scalar("SELECT LAST_INSERT_ID()").fetch_one(&mut *database).await?;
    sqlx::query(
        "INSERT INTO internal_pay_flow
           (id, user_id, scene, biz_key, attempt_no, trade_order_no, refund_order_no, status, amount, currency,
            biz_deadline_time, wallet_name, business_name, caller_id, idempotency_key, request_fingerprint,
            next_retry_time, state_entered_at, created_at, update_time, ev_trigger)
         SELECT n.id, n.user_id, 'renew', ?, ?, n.number, CONCAT('r_', n.number), 'WAIT_PAY', ?, 'CNY',
            n.at + INTERVAL 1 DAY, 'main', 'main', 'by-hand', n.number, SHA2(n.number, 256),
            n.at + INTERVAL 1 DAY, n.at, n.at, n.at, 'BY_HAND'
         FROM (SELECT ? AS id, ? AS user_id, UTC_TIMESTAMP(3) AS at,
                 CONCAT('h2r_', LOWER(CONV(?, 10, 36)), '_', LOWER(CONV(?, 10, 36))) AS number) AS n",
    )
    .bind(biz_key)
    .bind(attempt_no)
    .bind(AMOUNT)
    .bind(id)
    .bind(user_id)
    .bind(user_id)
    .bind(id)
    .execute(&mut *database)
    .await?;
    let number: String = sqlx::query_scalar("SELECT trade_order_no FROM internal_pay_flow WHERE id = ?")
        .bind(id)
        .fetch_one(&mut *database)
        .await?;
    let refund_order_no = format!("r_{number}");
    Ok(Flow { id, user_id, biz_key: biz_key.to_owned(), trade_order_no: number, refund_order_no })
}

/// Moves a row to its state, edge by edge; one that stays open is held, so that nobody takes it on.
pub(super) async fn walk(
    database: &mut MySqlConnection,
    flow: &Flow,
    state: &str,
    confirmed: &Confirmed,
) -> anyhow::Result<()> {
    let path: &[&str] = match state {
        "PAYING" => &["PAYING"],
        "PAY_FAIL" => &["PAYING", "PAY_FAIL"],
        "PAYED" => &["PAYING", "PAYED"],
        "BIZ_SUCCESS" => &["PAYING", "PAYED", "BIZ_SUCCESS"],
        "REFUNDING" => &["PAYING", "PAYED", "REFUNDING"],
        "REFUNDED" => &["PAYING", "PAYED", "REFUNDING", "REFUNDED"],
        other => anyhow::bail!("nothing is planted in the state {other:?}"),
    };
    for edge in path {
        let mut values = MySqlArguments::default();
        let mut bind = |value: Option<&str>| values.add(value).map_err(|error| anyhow::anyhow!(error));
        let statement = match *edge {
            "PAYED" => {
                bind(confirmed.pay_txn.as_deref())?;
                bind(Some(&confirmed.paid_ago_s.to_string()))?;
                "UPDATE internal_pay_flow SET status = 'PAYED', wallet_pay_txn = ?, paid_at = UTC_TIMESTAMP(3) - INTERVAL ? SECOND WHERE id = ?"
            }
            "REFUNDED" => {
                bind(confirmed.refund_txn.as_deref())?;
                "UPDATE internal_pay_flow SET status = 'REFUNDED', wallet_refund_txn = ? WHERE id = ?"
            }
            _ => {
                bind(Some(edge))?;
                "UPDATE internal_pay_flow SET status = ? WHERE id = ?"
            }
        };
        bind(Some(&flow.id.to_string()))?;
        sqlx::query_with(statement, values).execute(&mut *database).await?;
    }
    if matches!(state, "PAYING" | "PAYED" | "REFUNDING") {
        sqlx::query(
            "UPDATE internal_pay_flow SET hold_reason = 'OPERATOR', hold_since = UTC_TIMESTAMP(3), hold_by = 'demo' WHERE id = ?",
        )
        .bind(flow.id)
        .execute(&mut *database)
        .await?;
    }
    Ok(())
}
