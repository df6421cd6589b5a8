//! The audit that every suite ends with finds what it is there for: a suite that passes has been looked at.

use std::time::Duration;

use anyhow::ensure;
use e2e::{Database, Flavor, Site};
use serde_json::json;
use xtask::stack::{Payment, Tuning};

const END: Duration = Duration::from_secs(20);

e2e::on_both_servers! {
    the_audit_finds_broken_promises within 60 s;
}

async fn the_audit_finds_broken_promises(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "bites").await?, Tuning::default(), 1, 1).await?;
    let (api, sim) = (site.client(), site.sim());
    let paid = api.pay("bites-1", &Payment::new(1, "b").body(), Some(10)).await?;
    ensure!(paid.status_word() == "BIZ_SUCCESS", "{}", paid.body);
    site.settle(END).await?;

    // A wallet that forgets numbers, and a debit that reaches it twice.
    sim.mutants(json!({ "double_charge": true })).await?;
    sim.fault(json!({ "calls": ["debit"], "fault": { "kind": "duplicate" } })).await?;
    let twice = api.pay("bites-2", &Payment::new(2, "b").body(), Some(10)).await?;
    ensure!(twice.status_word() == "BIZ_SUCCESS", "{}", twice.body);
    found(&site, "I1", twice.flow_id()).await?;

    // Someone with all rights takes the guard away and a line out of the event log.
    let victim = paid.flow_id();
    let removal = format!("DELETE FROM pay_flow_event WHERE flow_id = {victim} AND version = 1;");
    let refused = site.database.execute(&removal).await;
    ensure!(refused.is_err(), "a line of the event log could be deleted");
    site.database.execute(&format!("DROP TRIGGER event_before_delete; {removal}")).await?;
    found(&site, "I9", victim).await?;

    // And lets a flow that was delivered look as if it had been paid back.
    let tampering = format!(
        "UPDATE internal_pay_flow SET version = version + 1, ev_version = version, status = 'REFUNDED', refund_amount = amount, refund_reason = 'BY_HAND',
         refund_source = 'OPERATOR' WHERE id = {victim};"
    );
    let refused = site.database.execute(&tampering).await;
    ensure!(refused.is_err(), "a terminal flow could be changed by hand");
    site.database.execute(&format!("DROP TRIGGER flow_before_update; {tampering}")).await?;
    found(&site, "I4", victim).await?;
    site.close().await
}

/// The audit reports this invariant for this flow.
async fn found(site: &Site, invariant: &str, flow_id: &str) -> anyhow::Result<()> {
    let audit = site.audit().await?;
    let flow = audit.flows.iter().find(|flow| flow.id.to_string() == flow_id).expect("the flow is there");
    let violations = audit.violations();
    let about =
        |what: &str| what.contains(&format!("flow {flow_id} ")) || what.contains(&flow.trade_order_no);
    let seen = violations.iter().any(|violation| violation.invariant == invariant && about(&violation.what));
    ensure!(seen, "{invariant} of flow {flow_id} went unnoticed: {violations:?}");
    Ok(())
}
