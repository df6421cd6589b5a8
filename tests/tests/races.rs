//! Many clients, one target: one flow per attempt, one charge, no 5xx, no deadlock that a client would see.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use e2e::{Database, Flavor, Shop, Site};
use futures_util::future::join_all;
use serde_json::Value;
use xtask::stack::{ApiClient, Payment, Reply, Tuning};

const CLIENTS: usize = 64;
const SETTLE: Duration = Duration::from_secs(30);

e2e::on_both_servers! {
    one_target_many_clients within 180 s;
}

async fn one_target_many_clients(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "races").await?, Tuning::default(), 2, 1).await?;
    let apis = vec![site.stack.api(0), site.stack.api(1)];
    for round in 0..4 {
        the_same_key(&apis, 1_000 + round).await?;
        different_keys(&apis, 2_000 + round).await?;
    }
    several_targets_at_once(&apis).await?;
    after_a_failure(&site, &apis, 3_000).await?;
    while_all_attempts_fail(&site, &apis, 3_001).await?;
    another_amount_meanwhile(&site).await?;
    let audit = site.settle(SETTLE).await?;
    let most_charged = audit.ledgers.values().map(|order| order.charges).max();
    ensure!(most_charged == Some(1), "an order was charged {most_charged:?} times");
    site.close().await
}

/// Posts the body once per key, all at once, through both processes by turns.
async fn burst(apis: &[ApiClient], keys: &[String], body: &Value) -> anyhow::Result<Vec<Reply>> {
    let posts = keys.iter().enumerate().map(|(i, key)| apis[i % apis.len()].pay(key, body, Some(10)));
    let replies: Vec<Reply> = join_all(posts).await.into_iter().collect::<Result<_, _>>()?;
    if let Some(failed) = replies.iter().find(|reply| reply.status >= 500) {
        anyhow::bail!("HTTP {}: {}", failed.status, failed.body);
    }
    Ok(replies)
}

fn keys(name: &str) -> Vec<String> {
    (0..CLIENTS).map(|i| format!("{name}-{i}")).collect()
}

fn flow_ids(replies: &[Reply]) -> BTreeSet<&str> {
    replies.iter().map(Reply::flow_id).collect()
}

fn replayed(reply: &Reply) -> bool {
    reply.header("idempotent-replayed") == Some("true")
}

/// One answer created the flow, the others say 200; all name the same one.
fn one_created(replies: &[Reply]) -> anyhow::Result<()> {
    ensure!(flow_ids(replies).len() == 1, "several flows: {:?}", flow_ids(replies));
    let created = replies.iter().filter(|reply| matches!(reply.status, 201 | 202)).count();
    let found = replies.iter().filter(|reply| reply.status == 200).count();
    ensure!(created == 1 && found == CLIENTS - 1, "{created} answers created a flow, {found} found one");
    Ok(())
}

async fn the_same_key(apis: &[ApiClient], user_id: u64) -> anyhow::Result<()> {
    let payment = Payment::new(user_id, format!("same:{user_id}"));
    let body = payment.body();
    let key = format!("same-{user_id}");
    let replies = burst(apis, &vec![key.clone(); CLIENTS], &body).await?;
    one_created(&replies)?;
    ensure!(
        replies.iter().all(|reply| (reply.status == 200) == replayed(reply)),
        "a replay is not marked as one"
    );
    let changed = Payment { amount: payment.amount + 1, ..payment }.body();
    let reused = apis[0].pay(&key, &changed, Some(0)).await?;
    ensure!(
        reused.status == 422 && reused.text("code") == "idempotency_key_reused",
        "{} {}",
        reused.status,
        reused.body
    );
    Ok(())
}

async fn different_keys(apis: &[ApiClient], user_id: u64) -> anyhow::Result<()> {
    let body = Payment::new(user_id, format!("different:{user_id}")).body();
    let keys = keys(&format!("different-{user_id}"));
    let replies = burst(apis, &keys, &body).await?;
    one_created(&replies)?;
    ensure!(!replies.iter().any(replayed), "a first use of a key is called a replay");
    let again = burst(apis, &keys, &body).await?;
    ensure!(again.iter().all(|reply| reply.status == 200 && replayed(reply)), "a joined key does not replay");
    ensure!(flow_ids(&again) == flow_ids(&replies), "a joined key has changed its flow");
    Ok(())
}

async fn several_targets_at_once(apis: &[ApiClient]) -> anyhow::Result<()> {
    let rounds = (0..8).map(|i| different_keys(apis, 2_500 + i));
    join_all(rounds).await.into_iter().collect()
}

async fn after_a_failure(site: &Site, apis: &[ApiClient], user_id: u64) -> anyhow::Result<()> {
    site.sim().balance(user_id, "CNY", 5).await?;
    let body = Payment::new(user_id, "poor").body();
    let failed = apis[0].pay("poor-first", &body, Some(10)).await?;
    ensure!(failed.status == 201 && failed.status_word() == "PAY_FAIL", "{} {}", failed.status, failed.body);
    site.sim().balance(user_id, "CNY", 1_000_000).await?;
    let replies = burst(apis, &keys("rich"), &body).await?;
    one_created(&replies)?;
    ensure!(replies.iter().all(|reply| reply.body["attempt_no"] == 2), "an attempt is not the second one");
    ensure!(replies.iter().all(|reply| reply.flow_id() != failed.flow_id()), "the failed attempt came back");
    let old = apis[1].pay("poor-first", &body, Some(0)).await?;
    ensure!(old.flow_id() == failed.flow_id() && replayed(&old), "the old key has changed its flow");
    Ok(())
}

/// Attempts fail and are made anew as fast as clients ask: each answer is a failed attempt or "try again", and the
/// attempts are numbered without a gap.
async fn while_all_attempts_fail(site: &Site, apis: &[ApiClient], user_id: u64) -> anyhow::Result<()> {
    site.sim().balance(user_id, "CNY", 0).await?;
    let body = Payment::new(user_id, "never").body();
    let replies = burst(apis, &keys("never"), &body).await?;
    for reply in &replies {
        let contended = reply.status == 409 && reply.text("code") == "contended";
        ensure!(contended || reply.status_word() == "PAY_FAIL", "{} {}", reply.status, reply.body);
    }
    let attempts: BTreeSet<u64> =
        replies.iter().filter_map(|reply| reply.body["attempt_no"].as_u64()).collect();
    let made = site
        .database
        .number(&format!("SELECT COUNT(*) FROM internal_pay_flow WHERE user_id = {user_id}"))
        .await?;
    ensure!(
        attempts.iter().copied().eq(1..=u64::try_from(made)?),
        "{made} attempts made, answered: {attempts:?}"
    );
    Ok(())
}

async fn another_amount_meanwhile(site: &Site) -> anyhow::Result<()> {
    let (client, sim) = (site.client(), site.sim());
    let user_id = 4_000;
    let slow = serde_json::json!({
        "calls": ["debit"], "user_id": user_id.to_string(), "times": 1, "fault": { "kind": "delay", "ms": 800 },
    });
    sim.fault(slow).await?;
    let payment = Payment::new(user_id, "meanwhile");
    let body = payment.body();
    let open = client.pay("meanwhile-1", &body, Some(0)).await?;
    ensure!(open.status == 202 && open.header("location").is_some(), "{} {}", open.status, open.body);
    for changed in [
        Payment { amount: 7, ..payment.clone() },
        Payment { currency: "POINTS".to_owned(), ..payment.clone() },
    ] {
        let differs = client.pay("meanwhile-2", &changed.body(), Some(0)).await?;
        ensure!(
            differs.status == 409
                && differs.text("code") == "open_attempt_differs"
                && differs.flow_id() == open.flow_id(),
            "{} {}",
            differs.status,
            differs.body
        );
    }
    let same = client.pay("meanwhile-3", &body, Some(10)).await?;
    ensure!(same.status == 200 && same.flow_id() == open.flow_id(), "{} {}", same.status, same.body);
    ensure!(same.status_word() == "BIZ_SUCCESS", "{}", same.body);
    // A refused request has bound its key to nothing; a successful target answers whatever the amount.
    let shop = Shop::new(vec![client]);
    let bought = shop.pay(0, "meanwhile-2", &Payment { amount: 7, ..payment }.body(), 0, SETTLE).await?;
    ensure!(bought.flow_id() == Some(open.flow_id()), "{bought:?}");
    Ok(())
}
