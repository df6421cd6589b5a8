//! The stories. Each returns the flows that it made, for the table.

use anyhow::Context as _;
use serde_json::json;

use xtask::stack::{ApiClient, Channel, Keys, Manner, Payment, Receiver, Reply, SimClient, Stack};

use super::{STORY_END, eventually};

/// A flow that a story made.
pub(super) struct Story {
    pub(super) title: &'static str,
    pub(super) flow_id: String,
    pub(super) expected: &'static str,
}

/// Plays them all, one after the other.
pub(super) async fn play_all(stack: &mut Stack, application: &Receiver) -> anyhow::Result<Vec<Story>> {
    let mut stories = Vec::new();
    stories.extend(plain_success(&stack.api(0)).await?);
    stories.extend(lost_responses(&stack.api(0), &stack.sim()).await?);
    stories.extend(double_click(&stack.api(0)).await?);
    stories.extend(poor_then_rich(&stack.api(0), &stack.sim()).await?);
    stories.extend(missed_deadline(&stack.api(0), &stack.sim()).await?);
    stories.extend(killed_api(stack).await?);
    stories.extend(told(stack, application).await?);
    Ok(stories)
}

fn chapter(number: u32, title: &str) {
    println!("\n{number}. {title}");
}

fn say(text: &str) {
    println!("   {text}");
}

fn say_reply(what: &str, reply: &Reply) {
    let state = if reply.status_word().is_empty() { reply.text("code") } else { reply.status_word() };
    println!("   {what}: HTTP {} {state} (flow {})", reply.status, reply.flow_id());
}

fn expect_status(reply: &Reply, allowed: &[u16]) -> anyhow::Result<()> {
    anyhow::ensure!(
        allowed.contains(&reply.status),
        "expected HTTP {allowed:?}, got {}: {}",
        reply.status,
        reply.body
    );
    Ok(())
}

async fn ended(api: &ApiClient, flow_id: &str, expected: &str) -> anyhow::Result<Reply> {
    let reply = api.wait_for_end(flow_id, STORY_END).await?;
    anyhow::ensure!(
        reply.status_word() == expected,
        "flow {flow_id} ended as {}, expected {expected}",
        reply.status_word()
    );
    Ok(reply)
}

/// Prints the audit log of a flow: what happened, who pushed, on what evidence.
async fn say_events(api: &ApiClient, flow_id: &str) -> anyhow::Result<()> {
    let reply = api.with_key(Keys::ON_CALL).get(&format!("/payment-flows/{flow_id}/events")).await?;
    expect_status(&reply, &[200])?;
    let events = reply.body["events"].as_array().context("the answer has no events")?;
    for event in events {
        let text = |member: &str| event[member].as_str().unwrap_or("-").to_owned();
        println!(
            "     v{:<2} {:>9} -> {:<11} by {:<8} {:<12} {:<24} {}",
            event["version"],
            text("from"),
            text("to"),
            text("trigger"),
            text("action"),
            text("outcome"),
            text("at"),
        );
    }
    Ok(())
}

async fn say_ledger(sim: &SimClient, trade_order_no: &str) -> anyhow::Result<()> {
    let order = sim.ledger(trade_order_no).await?;
    println!(
        "   The wallet's and the business system's own books for {trade_order_no}: charged {}, refunded {}, granted {}.",
        order.charges, order.refunds, order.grants
    );
    Ok(())
}

async fn plain_success(api: &ApiClient) -> anyhow::Result<Vec<Story>> {
    chapter(1, "A plain success");
    let reply = api.pay("plain-1", &Payment::new(101, "R:101:1").body(), Some(5)).await?;
    say_reply("POST /payments", &reply);
    expect_status(&reply, &[201])?;
    let flow_id = ended(api, reply.flow_id(), "BIZ_SUCCESS").await?.flow_id().to_owned();
    Ok(vec![Story { title: "plain success", flow_id, expected: "BIZ_SUCCESS" }])
}

async fn lost_responses(api: &ApiClient, sim: &SimClient) -> anyhow::Result<Vec<Story>> {
    chapter(2, "The wallet charges and its answer is lost; the business delivers and its answer is lost");
    let lose = |call: &str| json!({ "calls": [call], "user_id": "102", "stage": "after", "times": 1, "fault": { "kind": "delay", "ms": 4000 } });
    sim.fault(lose("debit")).await?;
    sim.fault(lose("execute")).await?;
    let body = Payment::new(102, "R:102:1").body();
    let reply = api.pay("lost-1", &body, Some(0)).await?;
    say_reply("POST /payments, not willing to wait", &reply);
    expect_status(&reply, &[202])?;
    say("The charge is made, the answer never comes. The flow stays in PAYING: a timeout is not a failure.");
    let replay = api.pay("lost-1", &body, Some(0)).await?;
    say_reply("The client asks again with the same key", &replay);
    expect_status(&replay, &[200])?;
    anyhow::ensure!(replay.flow_id() == reply.flow_id(), "the replay gave another flow");
    anyhow::ensure!(replay.header("idempotent-replayed") == Some("true"), "the replay is not marked as one");
    let end = ended(api, reply.flow_id(), "BIZ_SUCCESS").await?;
    say("It asked the wallet by the same number, then read the business fact. What it saw, step by step:");
    say_events(api, end.flow_id()).await?;
    say_ledger(sim, end.text("trade_order_no")).await?;
    Ok(vec![Story {
        title: "both responses lost",
        flow_id: end.flow_id().to_owned(),
        expected: "BIZ_SUCCESS",
    }])
}

async fn double_click(api: &ApiClient) -> anyhow::Result<Vec<Story>> {
    chapter(3, "A double click, and a second tab with a key of its own");
    let body = Payment::new(103, "R:103:1").body();
    let (first, second, tab) = tokio::join!(
        api.pay("click-1", &body, Some(5)),
        api.pay("click-1", &body, Some(5)),
        api.pay("click-tab-2", &body, Some(5)),
    );
    let (first, second, tab) = (first?, second?, tab?);
    say_reply("First click", &first);
    say_reply("Second click, same key", &second);
    say_reply("Other tab, other key", &tab);
    for reply in [&first, &second, &tab] {
        expect_status(reply, &[200, 201, 202])?;
    }
    anyhow::ensure!(
        first.flow_id() == second.flow_id() && first.flow_id() == tab.flow_id(),
        "one business target got more than one flow"
    );
    let flow_id = ended(api, first.flow_id(), "BIZ_SUCCESS").await?.flow_id().to_owned();
    Ok(vec![Story { title: "double click", flow_id, expected: "BIZ_SUCCESS" }])
}

async fn poor_then_rich(api: &ApiClient, sim: &SimClient) -> anyhow::Result<Vec<Story>> {
    chapter(4, "Not enough balance; after topping up, a second attempt at the same goal");
    sim.balance(104, "CNY", 100).await?;
    let body = Payment::new(104, "R:104:1").body();
    let first = api.pay("poor-1", &body, Some(5)).await?;
    say_reply("First attempt", &first);
    let first_id = ended(api, first.flow_id(), "PAY_FAIL").await?.flow_id().to_owned();
    sim.balance(104, "CNY", 10_000).await?;
    let again = api.pay("poor-1", &body, Some(5)).await?;
    say_reply("The old key still answers with the old flow", &again);
    anyhow::ensure!(again.flow_id() == first_id, "the old key gave another flow");
    let second = api.pay("rich-1", &Payment::new(104, "R:104:1").body(), Some(5)).await?;
    say_reply("A new key makes attempt 2", &second);
    anyhow::ensure!(second.body["attempt_no"] == 2, "not attempt 2: {}", second.body);
    let second_id = ended(api, second.flow_id(), "BIZ_SUCCESS").await?.flow_id().to_owned();
    Ok(vec![
        Story { title: "insufficient balance", flow_id: first_id, expected: "PAY_FAIL" },
        Story { title: "second attempt", flow_id: second_id, expected: "BIZ_SUCCESS" },
    ])
}

async fn missed_deadline(api: &ApiClient, sim: &SimClient) -> anyhow::Result<Vec<Story>> {
    chapter(5, "The business misses its deadline; the refund's answer is lost too");
    sim.fault(
        json!({ "calls": ["execute"], "user_id": "105", "fault": { "kind": "status", "status": 500 } }),
    )
    .await?;
    sim.fault(json!({
        "calls": ["refund"], "user_id": "105", "stage": "after", "times": 1, "fault": { "kind": "drop" },
    }))
    .await?;
    let payment = Payment { deadline_in_ms: 3_000, ..Payment::new(105, "R:105:1") };
    let reply = api.pay("late-1", &payment.body(), Some(1)).await?;
    say_reply("POST /payments, deadline in 3 s", &reply);
    say(
        "Charged, but the business answers 500 until the deadline. Nothing is refunded before the deadline and its",
    );
    say("settle margin have passed and the business fact, read once more, says that nothing was delivered.");
    let end = ended(api, reply.flow_id(), "REFUNDED").await?;
    say_events(api, end.flow_id()).await?;
    say_ledger(sim, end.text("trade_order_no")).await?;
    Ok(vec![Story {
        title: "missed deadline, lost refund",
        flow_id: end.flow_id().to_owned(),
        expected: "REFUNDED",
    }])
}

async fn killed_api(stack: &mut Stack) -> anyhow::Result<Vec<Story>> {
    chapter(6, "The API is killed in the middle of a debit");
    let (api, sim) = (stack.api(0), stack.sim());
    sim.fault(json!({
        "calls": ["debit"], "user_id": "106", "stage": "after", "times": 1, "fault": { "kind": "delay", "ms": 900 },
    }))
    .await?;
    let body = Payment::new(106, "R:106:1").body();
    let request = tokio::spawn({
        let (api, body) = (api.clone(), body.clone());
        async move { api.pay("killed-1", &body, Some(5)).await }
    });
    let on_call = api.with_key(Keys::ON_CALL);
    let trade_order_no = eventually("the flow to exist", || async {
        let page = on_call.get("/payment-flows?user_id=106").await?;
        Ok(page.body["flows"][0]["trade_order_no"].as_str().map(str::to_owned))
    })
    .await?;
    sim.wait_for_calls("debit", &trade_order_no, 1, STORY_END).await?;
    stack.api_process(0).kill().await?;
    let lost = request.await?;
    anyhow::ensure!(lost.is_err(), "the killed API answered: {lost:?}");
    say("The wallet has charged; the API got SIGKILL before it heard so; the client's connection broke.");
    stack.kill_and_restart_api(0).await?;
    let reply = stack.api(0).pay("killed-1", &body, Some(5)).await?;
    say_reply("The client repeats its request with the same key, at the restarted API", &reply);
    let end = ended(&stack.api(0), reply.flow_id(), "BIZ_SUCCESS").await?;
    say(
        "Nothing was remembered but the row. The scanner found it and asked the wallet before doing anything:",
    );
    say_events(&stack.api(0), end.flow_id()).await?;
    say_ledger(&sim, &trade_order_no).await?;
    Ok(vec![Story {
        title: "API killed in a debit",
        flow_id: end.flow_id().to_owned(),
        expected: "BIZ_SUCCESS",
    }])
}

async fn told(stack: &Stack, application: &Receiver) -> anyhow::Result<Vec<Story>> {
    chapter(
        7,
        "The wallet tells of its charge by itself, three times, and a forger, too; the application is told of the end",
    );
    let (api, sim) = (stack.api(0), stack.sim());
    sim.callbacks(json!({
        "url": Channel::url(&stack.api_url(0)), "secret": Channel::secret(),
        "copies": 3, "forged_permille": 1000, "before_response": true,
    }))
    .await?;
    application.behave(Manner::status(500));
    let reply = api.pay("told-1", &Payment::new(107, "R:107:1").body(), Some(5)).await?;
    say_reply("POST /payments", &reply);
    let end = ended(&api, reply.flow_id(), "BIZ_SUCCESS").await?;
    let counts = eventually("the callbacks to arrive", || async {
        let counts = sim.callback_counts().await?;
        Ok((counts["under_way"] == 0).then_some(counts))
    })
    .await?;
    println!(
        "   Callbacks: {} accepted and kept as one event, {} forged, {} of these accepted.",
        counts["accepted"], counts["forged"], counts["forged_accepted"]
    );
    anyhow::ensure!(counts["accepted"] == 3 && counts["forged"] == 1, "not every callback came: {counts}");
    anyhow::ensure!(counts["forged_accepted"] == 0, "a forged callback was accepted");
    say(
        "A callback decides nothing: it made the service ask the wallet, before the debit itself was answered:",
    );
    say_events(&api, end.flow_id()).await?;
    let prefix = format!("evt_{}_", end.flow_id());
    let tells = || application.heard().into_iter().filter(|heard| heard.id.starts_with(&prefix));
    eventually("the application to be told", || async { Ok(tells().next()) }).await?;
    application.behave(Manner::status(204));
    let accepted = || async { Ok(tells().find(|heard| heard.accepted)) };
    let heard = eventually("the application to accept", accepted).await?;
    heard.verify(&Receiver::secret())?;
    println!(
        "   The application answered 500 at first and was told {} times in all, signed, always as {}.",
        tells().count(),
        heard.id
    );
    Ok(vec![Story {
        title: "told by callback, told onwards",
        flow_id: end.flow_id().to_owned(),
        expected: "BIZ_SUCCESS",
    }])
}
