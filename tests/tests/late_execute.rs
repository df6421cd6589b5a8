//! The race a naive service loses: an execution sent before the deadline arrives after the refund began.

use std::time::Duration;

use anyhow::ensure;
use e2e::{Database, Flavor, Site};
use serde_json::json;
use xtask::stack::{Audit, Payment, Tuning};

const END: Duration = Duration::from_secs(30);
/// When the execution arrives; the refund begins after deadline and settle margin, long before.
const UNDER_WAY_MS: u64 = 6_000;

e2e::on_both_servers! {
    comes_to_nothing_or_is_noticed within 90 s;
}

async fn comes_to_nothing_or_is_noticed(flavor: Flavor) -> anyhow::Result<()> {
    tokio::try_join!(
        is_refused_after_the_refund_began(flavor),
        is_noticed_where_not_after_is_ignored(flavor)
    )?;
    Ok(())
}

/// Pays with a deadline of two seconds while every execution is under way for six; the books once it has arrived.
async fn refund_then_deliver(site: &Site, user_id: u64) -> anyhow::Result<Audit> {
    let (client, sim) = (site.client(), site.sim());
    sim.fault(json!({
        "calls": ["execute"], "user_id": user_id.to_string(), "fault": { "kind": "late", "after_ms": UNDER_WAY_MS },
    }))
    .await?;
    let payment = Payment { deadline_in_ms: 2_000, ..Payment::new(user_id, "late") };
    let paid = client.pay(&format!("late-{user_id}"), &payment.body(), Some(0)).await?;
    let end = client.wait_for_end(paid.flow_id(), END).await?;
    ensure!(end.status_word() == "REFUNDED", "{}", end.body);
    let trade_order_no = end.text("trade_order_no").to_owned();
    let before = sim.ledger(&trade_order_no).await?;
    ensure!((before.calls.execute, before.refunds) == (0, 1), "the execution was not late: {before:?}");
    sim.wait_for_calls("execute", &trade_order_no, 1, END).await?;
    // Every execution that was sent is under way equally long: the last one has arrived once nothing more comes.
    let sent = u32::try_from(
        site.database
            .number(&format!(
                "SELECT COUNT(*) FROM pay_flow_event WHERE flow_id = {} AND action = 'EXECUTE'",
                end.flow_id()
            ))
            .await?,
    )?;
    sim.wait_for_calls("execute", &trade_order_no, sent.max(1), END).await?;
    site.audit().await
}

async fn is_refused_after_the_refund_began(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "late").await?, Tuning::default(), 1, 1).await?;
    let audit = refund_then_deliver(&site, 500).await?;
    let order = audit.ledger(&audit.flows[0]).expect("the wallet knows the order");
    ensure!((order.charges, order.refunds, order.grants) == (1, 1, 0), "{order:?}");
    ensure!(audit.violations().is_empty(), "{:?}", audit.violations());
    site.close().await
}

/// The same with a business system that does not look at `not_after`: the audit must notice, else it proves nothing.
async fn is_noticed_where_not_after_is_ignored(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "later").await?, Tuning::default(), 1, 1).await?;
    site.sim().mutants(json!({ "ignore_not_after": true })).await?;
    let audit = refund_then_deliver(&site, 501).await?;
    let order = audit.ledger(&audit.flows[0]).expect("the wallet knows the order");
    ensure!((order.refunds, order.grants) == (1, 1), "the mutant did not grant: {order:?}");
    let violations = audit.violations();
    ensure!(
        violations.iter().any(|violation| violation.invariant == "I4"),
        "I4 went unnoticed: {violations:?}"
    );
    site.close().await
}
