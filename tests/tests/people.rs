//! What people and clients do to a payment on its way: cancel, hold, release, advance, wait for a change.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Site};
use serde_json::{Value, json};
use xtask::stack::{ApiClient, Audit, Keys, Patience, Payment, Tuning, wait_until};

const END: Duration = Duration::from_secs(20);

e2e::on_both_servers! {
    cancel_hold_and_wait within 120 s;
    an_operator_advances within 60 s;
}

async fn cancel_hold_and_wait(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "people").await?, Tuning::default(), 2, 1).await?;
    tokio::try_join!(
        cancelled_before_any_charge(&site, 10),
        cancelled_though_charged(&site, 11),
        held_and_released(&site, 12),
        told_of_a_change(&site, 13),
        found_by_people(&site, 14),
    )?;
    let audit = site.settle(END).await?;
    books(&audit, 10, (0, 0, 0))?;
    books(&audit, 11, (1, 1, 0))?;
    books(&audit, 12, (1, 0, 1))?;
    site.close().await
}

/// Charges, refunds, grants of a user's only flow.
fn books(audit: &Audit, user_id: u64, expected: (u32, u32, u32)) -> anyhow::Result<()> {
    let flow = audit.flows.iter().find(|flow| flow.target.starts_with(&format!("{user_id}/")));
    let flow = flow.with_context(|| format!("user {user_id} has no flow"))?;
    let order = audit.ledger(flow);
    let found = order.map_or((0, 0, 0), |order| (order.charges, order.refunds, order.grants));
    ensure!(found == expected, "flow {flow:?}: {found:?} instead of {expected:?}");
    Ok(())
}

fn for_user(user_id: u64, calls: &[&str], fault: Value) -> Value {
    json!({ "calls": calls, "user_id": user_id.to_string(), "fault": fault })
}

async fn pay_and_leave(api: &ApiClient, user_id: u64) -> anyhow::Result<String> {
    let paid =
        api.pay(&format!("people-{user_id}"), &Payment::new(user_id, "people").body(), Some(0)).await?;
    ensure!(paid.status == 202, "{} {}", paid.status, paid.body);
    Ok(paid.flow_id().to_owned())
}

/// The wallet is out when the client changes its mind: nothing is charged, not even when the wallet is back.
async fn cancelled_before_any_charge(site: &Site, user_id: u64) -> anyhow::Result<()> {
    let (api, sim) = (site.client(), site.sim());
    let outage = sim.fault(for_user(user_id, &["debit"], json!({ "kind": "unavailable" }))).await?;
    let flow_id = pay_and_leave(&api, user_id).await?;
    let cancelled = api.post(&format!("/payment-flows/{flow_id}/cancel")).await?;
    ensure!(matches!(cancelled.status, 200 | 202), "{} {}", cancelled.status, cancelled.body);
    ensure!(!cancelled.text("cancel_requested_at").is_empty(), "{}", cancelled.body);
    sim.remove_fault(outage).await?;
    let end = api.wait_for_end(&flow_id, END).await?;
    ensure!((end.status_word(), end.text("reason")) == ("PAY_FAIL", "CANCELLED"), "{}", end.body);
    let again = api.post(&format!("/payment-flows/{flow_id}/cancel")).await?;
    ensure!(again.status == 200 && again.text("state") == "PAY_FAIL", "{} {}", again.status, again.body);
    Ok(())
}

/// The wallet has charged, its answer is lost, and the client changes its mind: paid back at once, never executed, long
/// before the deadline.
async fn cancelled_though_charged(site: &Site, user_id: u64) -> anyhow::Result<()> {
    let (api, sim) = (site.client(), site.sim());
    sim.fault(json!({
        "calls": ["debit"], "user_id": user_id.to_string(), "stage": "after", "times": 1,
        "fault": { "kind": "delay", "ms": 3_000 },
    }))
    .await?;
    let flow_id = pay_and_leave(&api, user_id).await?;
    let trade_order_no =
        api.get(&format!("/payment-flows/{flow_id}")).await?.text("trade_order_no").to_owned();
    sim.wait_for_calls("debit", &trade_order_no, 1, END).await?;
    let cancelled = api.post(&format!("/payment-flows/{flow_id}/cancel")).await?;
    ensure!(matches!(cancelled.status, 200 | 202), "{} {}", cancelled.status, cancelled.body);
    let end = api.wait_for_end(&flow_id, END).await?;
    ensure!((end.status_word(), end.text("reason")) == ("REFUNDED", "CANCELLED"), "{}", end.body);
    let order = sim.ledger(&trade_order_no).await?;
    ensure!(order.calls.execute == 0, "a cancelled payment was executed: {order:?}");
    Ok(())
}

/// Nothing moves what is held, though the way is free and the scanner sweeps; released, it ends.
async fn held_and_released(site: &Site, user_id: u64) -> anyhow::Result<()> {
    let (api, operator, sim) = (site.client(), site.operator(), site.sim());
    let stuck = sim.fault(for_user(user_id, &["debit"], json!({ "kind": "unavailable" }))).await?;
    let flow_id = pay_and_leave(&api, user_id).await?;
    let held = operator.post(&format!("/payment-flows/{flow_id}/hold")).await?;
    ensure!(held.status == 200 && held.status_word() == "MANUAL_REVIEW", "{} {}", held.status, held.body);
    ensure!(held.body["on_call"]["hold"]["reason"] == "OPERATOR", "{}", held.body);
    ensure!(held.body["on_call"]["hold"]["by"] == "operator", "{}", held.body);
    let again = operator.post(&format!("/payment-flows/{flow_id}/hold")).await?;
    ensure!(again.status == 200 && again.body["version"] == held.body["version"], "{}", again.body);
    sim.remove_fault(stuck).await?;
    site.stack.scan_once().await?;
    let pushed = operator.post(&format!("/payment-flows/{flow_id}/advance")).await?;
    ensure!(pushed.status == 200 && pushed.text("end") == "HELD", "{} {}", pushed.status, pushed.body);
    let still = api.get(&format!("/payment-flows/{flow_id}")).await?;
    ensure!(still.body["version"] == held.body["version"], "a held flow was written: {}", still.body);
    ensure!(still.status_word() == "MANUAL_REVIEW" && still.body["on_call"].is_null(), "{}", still.body);
    let released = operator.post(&format!("/payment-flows/{flow_id}/release")).await?;
    ensure!(released.status == 200, "{} {}", released.status, released.body);
    let end = api.wait_for_end(&flow_id, END).await?;
    ensure!(end.status_word() == "BIZ_SUCCESS", "{}", end.body);
    let late = operator.post(&format!("/payment-flows/{flow_id}/release")).await?;
    ensure!(late.status == 409 && late.text("code") == "flow_ended", "{} {}", late.status, late.body);
    Ok(())
}

/// A waiting reader hears of a change at once, also through another process; one who knows less is answered at once.
async fn told_of_a_change(site: &Site, user_id: u64) -> anyhow::Result<()> {
    let (api, sim) = (site.client(), site.sim());
    sim.fault(json!({
        "calls": ["debit"], "user_id": user_id.to_string(), "times": 1, "fault": { "kind": "delay", "ms": 900 },
    }))
    .await?;
    let flow_id = pay_and_leave(&api, user_id).await?;
    let paying = wait_until("the flow to be in PAYING", END, || async {
        let seen = api.get(&format!("/payment-flows/{flow_id}")).await?;
        Ok((seen.text("state") == "PAYING").then_some(seen))
    })
    .await?;
    let known = paying.body["version"].as_u64().context("no version")?;
    let patience = Patience::of(Duration::from_secs(8));
    let path = format!("/payment-flows/{flow_id}?wait=10&since_version={known}");
    let elsewhere = site.stack.api(1);
    let (here, there) = tokio::try_join!(api.get(&path), elsewhere.get(&path))?;
    for told in [&here, &there] {
        ensure!(
            told.status == 200 && told.body["version"].as_u64() > Some(known),
            "{} {}",
            told.status,
            told.body
        );
    }
    ensure!(!patience.is_over(), "told of a change only after {:?}", patience.elapsed());
    let behind = api.get(&format!("/payment-flows/{flow_id}?wait=10&since_version=0")).await?;
    ensure!(
        behind.status == 200 && !patience.is_over(),
        "kept waiting for what had happened: {}",
        behind.body
    );
    let end = api.wait_for_end(&flow_id, END).await?;
    ensure!(end.status_word() == "BIZ_SUCCESS", "{}", end.body);
    Ok(())
}

/// People on call find a payment by everything they may have of it, and see its whole story.
async fn found_by_people(site: &Site, user_id: u64) -> anyhow::Result<()> {
    let (api, on_call) = (site.client(), site.on_call());
    let body = Payment::new(user_id, "found").body();
    let paid = api.pay("found-1", &body, Some(10)).await?;
    ensure!(paid.status == 201 && paid.status_word() == "BIZ_SUCCESS", "{} {}", paid.status, paid.body);
    let (trade, refund) = (paid.text("trade_order_no"), paid.text("refund_order_no"));
    for query in [
        format!("user_id={user_id}"),
        format!("user_id={user_id}&scene=renew&biz_key=found"),
        format!("trade_order_no={trade}"),
        format!("refund_order_no={refund}"),
        format!("user_id={user_id}&state=BIZ_SUCCESS&open=false&held=false&caller=shop"),
    ] {
        let page = on_call.get(&format!("/payment-flows?{query}")).await?;
        let ids: Vec<&str> = page.body["flows"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|f| f["flow_id"].as_str())
            .collect();
        ensure!(page.status == 200 && ids == [paid.flow_id()], "{query}: {} {}", page.status, page.body);
        ensure!(page.body["flows"][0]["on_call"]["caller"] == "shop", "{}", page.body);
    }
    let upper = on_call.get(&format!("/payment-flows?trade_order_no={}", trade.to_uppercase())).await?;
    ensure!(upper.status == 400 || upper.body["flows"] == json!([]), "{} {}", upper.status, upper.body);
    let stranger = api.with_key(Keys::OTHER_CLIENT).get(&format!("/payment-flows?user_id={user_id}")).await?;
    ensure!(
        stranger.status == 200 && stranger.body["flows"] == json!([]),
        "{} {}",
        stranger.status,
        stranger.body
    );
    let story = on_call.get(&format!("/payment-flows/{}/events", paid.flow_id())).await?;
    let states: Vec<&str> =
        story.body["events"].as_array().into_iter().flatten().filter_map(|e| e["to"].as_str()).collect();
    ensure!(states == ["WAIT_PAY", "PAYING", "PAYED", "BIZ_SUCCESS"], "{}", story.body);
    Ok(())
}

/// With neither timer nor scanner a stuck payment stays where it is until an operator pushes it.
async fn an_operator_advances(flavor: Flavor) -> anyhow::Result<()> {
    let tuning = Tuning { timer_bound_ms: 0, ..Tuning::default() };
    let site = Site::open(Database::shared(flavor, "advance").await?, tuning, 1, 0).await?;
    let (api, operator, sim) = (site.client(), site.operator(), site.sim());
    let stuck = sim.fault(for_user(20, &["debit"], json!({ "kind": "status", "status": 500 }))).await?;
    let flow_id = pay_and_leave(&api, 20).await?;
    let path = format!("/payment-flows/{flow_id}/advance");
    let waiting = operator.post(&path).await?;
    ensure!(waiting.status == 200 && waiting.body["moved"] == false, "{} {}", waiting.status, waiting.body);
    for key in [Keys::CLIENT, Keys::ON_CALL] {
        let refused = api.with_key(key).post(&path).await?;
        ensure!(
            refused.status == 403 && refused.text("code") == "forbidden",
            "{} {}",
            refused.status,
            refused.body
        );
    }
    sim.remove_fault(stuck).await?;
    let pushed = operator.post(&path).await?;
    ensure!(pushed.status == 200 && pushed.text("end") == "TERMINAL", "{} {}", pushed.status, pushed.body);
    ensure!(pushed.body["flow"]["state"] == "BIZ_SUCCESS" && pushed.body["moved"] == true, "{}", pushed.body);
    let story = operator.get(&format!("/payment-flows/{flow_id}/events")).await?;
    let last = story.body["events"].as_array().and_then(|events| events.last()).cloned().unwrap_or_default();
    ensure!(last["trigger"] == "OPERATOR" && last["to"] == "BIZ_SUCCESS", "{}", story.body);
    site.settle(END).await?;
    site.close().await
}
