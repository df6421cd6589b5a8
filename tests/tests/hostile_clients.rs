//! Clients that want what is not theirs: forged and expired keys, and an application that reaches for another's flows. On
//! MySQL alone: nothing here depends on the database's kind.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Site, Socket};
use serde_json::{Value, json};
use xtask::stack::{ApiClient, Keys, Payment, Reply, Tuning, key_table, utc_now, wait_until};

const END: Duration = Duration::from_secs(20);

#[test]
fn forged_and_expired_keys_open_nothing() {
    e2e::run(Flavor::MySql, "forged_and_expired_keys_open_nothing", 60, forged_and_expired_keys);
}

#[test]
fn another_applications_flows_are_out_of_reach() {
    e2e::run(Flavor::MySql, "another_applications_flows_are_out_of_reach", 60, out_of_reach);
}

/// A key that ended long ago, and one that ends while the process runs.
const ENDED: &str = "local-ended-key-0f3b7c11";
const ENDING: &str = "local-ending-key-84d2a6e0";
/// The time between the making of the ending key and its end: starting the processes must fit in.
const ENDING_IN_MS: i64 = 15_000;

async fn forged_and_expired_keys(flavor: Flavor) -> anyhow::Result<()> {
    let database = Database::shared(flavor, "forged").await?;
    let end = utc_now() + chrono::TimeDelta::milliseconds(ENDING_IN_MS);
    let extra = key_table("ended", "operator", ENDED, Some("2020-01-01T00:00:00Z"))
        + &key_table("ending", "client", ENDING, Some(&end.to_rfc3339()));
    let site = Site::open(database, Tuning { extra, ..Tuning::default() }, 1, 0).await?;
    let api = site.client();
    let paid = api.pay("own", &Payment::new(1, "own").body(), Some(10)).await?;
    ensure!(paid.status == 201, "{} {}", paid.status, paid.body);
    let before = site.database.row_counts().await?;

    let digest = digest_of_a_configured_key(&site)?;
    let forged = forged(&digest);
    for lines in &forged {
        for (method, path) in [
            ("GET", "/payment-flows".to_owned()),
            ("GET", format!("/payment-flows/{}", paid.flow_id())),
            ("POST", "/payments".to_owned()),
            ("POST", format!("/payment-flows/{}/advance", paid.flow_id())),
        ] {
            let answer = exchange(&api, method, &path, lines).await?;
            ensure!(answer.starts_with("HTTP/1.1 401 "), "{method} {path} with {lines:?}: {answer}");
            ensure!(answer.contains("\"code\":\"unauthenticated\""), "{answer}");
        }
    }
    // Bytes that no header may hold do not even get there.
    let torn = exchange(&api, "GET", "/payment-flows", "Authorization: Bearer a\0b\r\n").await?;
    ensure!(torn.starts_with("HTTP/1.1 400 "), "{torn}");
    // White space that HTTP allows makes no difference.
    for lines in [
        format!("Authorization:Bearer {}\r\n", Keys::CLIENT),
        format!("authorization: \t bearer {} \t\r\n", Keys::CLIENT),
    ] {
        let answer = exchange(&api, "GET", "/payment-flows", &lines).await?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "{lines:?}: {answer}");
    }
    let after = site.database.row_counts().await?;
    ensure!(before == after, "something was written: {before:?} became {after:?}");
    ends_while_running(&api, end).await?;
    eprintln!("{} forged keys", forged.len());
    site.close().await
}

/// What a stolen configuration file has of the client's key.
fn digest_of_a_configured_key(site: &Site) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(site.stack.dir().join("pay-api-0.toml"))?;
    let digest = text.split("sha256 = \"").nth(1).and_then(|rest| rest.split('"').next());
    Ok(digest.context("the configuration has no key")?.to_owned())
}

/// Header lines that must open nothing.
fn forged(digest: &str) -> Vec<String> {
    let key = Keys::CLIENT;
    let prefix = &key[..key.len() - 1];
    let one = |value: &str| format!("Authorization: {value}\r\n");
    let bearer = |token: &str| one(&format!("Bearer {token}"));
    vec![
        bearer(&format!("{prefix}c")),
        bearer(prefix),
        bearer(&format!("{key}0")),
        bearer(&format!("{key},")),
        bearer(&format!("{key} {key}")),
        bearer(&key.to_uppercase()),
        bearer(&format!("\"{key}\"")),
        bearer(&key.replace('-', "%2D")),
        bearer(digest),
        bearer(&format!("pk_{digest}")),
        bearer(ENDED),
        bearer(""),
        bearer(&"k".repeat(4_000)),
        one(key),
        one(&format!("Bearer{key}")),
        one(&format!("Bearer\t{key}")),
        one(&format!("Bearer: {key}")),
        one(&format!("Token {key}")),
        one(&format!("Digest {key}")),
        // The key as a user's name and as a password.
        one("Basic bG9jYWwtc2hvcC1rZXktOWQxZjZhMGI6"),
        one("Basic OmxvY2FsLXNob3Ata2V5LTlkMWY2YTBi"),
        bearer(key) + &bearer(key),
        bearer(key) + &bearer("nobodys-key"),
        bearer("nobodys-key") + &bearer(key),
        bearer(Keys::OTHER_CLIENT) + &bearer(key),
        format!("Proxy-Authorization: Bearer {key}\r\n"),
        format!("X-Api-Key: {key}\r\n"),
        format!("Cookie: Authorization=Bearer {key}\r\n"),
    ]
}

/// One request on a connection of its own, with these header lines and no others; the whole answer.
async fn exchange(api: &ApiClient, method: &str, path: &str, lines: &str) -> anyhow::Result<String> {
    let mut socket = Socket::open(api).await?;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: api\r\nConnection: close\r\n{lines}\r\n");
    socket.send(head.as_bytes()).await?;
    Ok(String::from_utf8_lossy(&socket.read_to_close(END).await?).into_owned())
}

/// Until its end a key opens what it opens; from then on nothing, without a restart.
async fn ends_while_running(api: &ApiClient, end: chrono::DateTime<chrono::Utc>) -> anyhow::Result<()> {
    let ending = api.with_key(ENDING);
    ensure!(utc_now() < end, "the processes took longer to start than the key lasts: {ENDING_IN_MS} ms");
    let early = ending.get("/payment-flows").await?;
    ensure!(early.status == 200 || utc_now() >= end, "{} {}", early.status, early.body);
    let refused_at = wait_until("the key to end", END, || async {
        let reply = ending.get("/payment-flows").await?;
        Ok((reply.status == 401).then(utc_now))
    })
    .await?;
    ensure!(refused_at >= end, "the key ended {} before its time", end - refused_at);
    let late = ending.pay("late", &Payment::new(2, "late").body(), Some(0)).await?;
    ensure!(late.status == 401, "{} {}", late.status, late.body);
    let others = api.get("/payment-flows").await?;
    ensure!(others.status == 200, "{} {}", others.status, others.body);
    Ok(())
}

async fn out_of_reach(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "reach").await?, Tuning::default(), 1, 1).await?;
    let (shop, kiosk, sim) = (site.client(), site.client().with_key(Keys::OTHER_CLIENT), site.sim());
    let stuck =
        sim.fault(json!({ "calls": ["debit"], "user_id": "2", "fault": { "kind": "unavailable" } })).await?;
    let ended = shop.pay("key-1", &Payment::new(1, "secret:1").body(), Some(10)).await?;
    let open = shop.pay("key-2", &Payment::new(2, "secret:2").body(), Some(0)).await?;
    ensure!((ended.status, open.status) == (201, 202), "{} {}", ended.body, open.body);
    for number in 3..6 {
        let own =
            kiosk.pay(&format!("own-{number}"), &Payment::new(number, "kiosk").body(), Some(10)).await?;
        ensure!(own.status == 201, "{} {}", own.status, own.body);
    }
    by_id(&kiosk, &[&ended, &open]).await?;
    by_search(&site, &kiosk, &[&ended, &open]).await?;
    by_key_and_target(&kiosk, &ended).await?;

    let untouched = shop.get(&format!("/payment-flows/{}", open.flow_id())).await?;
    ensure!(untouched.body["cancel_requested_at"].is_null(), "{}", untouched.body);
    sim.remove_fault(stuck).await?;
    let end = shop.wait_for_end(open.flow_id(), END).await?;
    ensure!(end.status_word() == "BIZ_SUCCESS", "{}", end.body);
    site.settle(END).await?;
    site.close().await
}

/// What two answers are compared by: everything but the request's own name and the id that was asked for.
fn told(reply: &Reply) -> (u16, Value) {
    let mut body = reply.body.clone();
    if let Some(members) = body.as_object_mut() {
        members.remove("request_id");
        members.remove("flow_id");
    }
    (reply.status, body)
}

/// A flow of somebody else's and one that is not there are answered alike, whatever is asked of them.
async fn by_id(kiosk: &ApiClient, foreign: &[&Reply]) -> anyhow::Result<()> {
    for flow in foreign {
        for (method, rest) in [
            ("GET", ""),
            ("GET", "?wait=5"),
            ("GET", "?wait=5&since_version=0"),
            ("GET", "/events"),
            ("GET", "/events?limit=1"),
            ("GET", "/events?cursor=0"),
            ("POST", "/cancel"),
            ("POST", "/hold"),
            ("POST", "/release"),
            ("POST", "/advance"),
        ] {
            let at = async |id: &str| {
                let path = format!("/payment-flows/{id}{rest}");
                if method == "GET" { kiosk.get(&path).await } else { kiosk.post(&path).await }
            };
            let (theirs, nobodys) = (at(flow.flow_id()).await?, at("999999999").await?);
            ensure!(matches!(theirs.status, 403 | 404), "{method} {rest}: {} {}", theirs.status, theirs.body);
            ensure!(told(&theirs) == told(&nobodys), "{method} {rest}: {} but {}", theirs.body, nobodys.body);
            ensure!(theirs.header("location").is_none(), "{method} {rest} tells of a place");
        }
    }
    Ok(())
}

/// Whatever a client searches by, and wherever it starts, it finds its own alone.
async fn by_search(site: &Site, kiosk: &ApiClient, foreign: &[&Reply]) -> anyhow::Result<()> {
    let own: Vec<String> = listed(&kiosk.get("/payment-flows").await?);
    ensure!(own.len() == 3, "{own:?}");
    let mut queries = vec![
        "limit=200".to_owned(),
        "caller=shop".to_owned(),
        "scene=renew".to_owned(),
        "open=true".to_owned(),
        "open=false".to_owned(),
        "held=false".to_owned(),
        "state=BIZ_SUCCESS".to_owned(),
        "min_age_ms=0".to_owned(),
        "cursor=9223372036854775807".to_owned(),
    ];
    for flow in foreign {
        let id: u64 = flow.flow_id().parse()?;
        for (name, member) in [
            ("user_id", "user_id"),
            ("biz_key", "biz_key"),
            ("trade_order_no", "trade_order_no"),
            ("refund_order_no", "refund_order_no"),
        ] {
            queries.push(format!("{name}={}", flow.text(member)));
            queries.push(format!("caller=shop&{name}={}", flow.text(member)));
            queries.push(format!("caller=kiosk&{name}={}", flow.text(member)));
        }
        queries.extend([format!("cursor={id}"), format!("cursor={}&limit=1", id + 1)]);
    }
    // Pages that somebody inside was given, one flow each.
    let mut cursor = String::new();
    while let Some(next) = inside_cursor(site, &cursor).await? {
        queries.push(format!("limit=1&cursor={next}"));
        cursor = next;
    }
    for query in &queries {
        let page = kiosk.get(&format!("/payment-flows?{query}")).await?;
        ensure!(page.status == 200, "{query}: {} {}", page.status, page.body);
        let strangers: Vec<String> = listed(&page).into_iter().filter(|id| !own.contains(id)).collect();
        ensure!(strangers.is_empty(), "{query} shows {strangers:?}");
        let on = page.text("cursor");
        ensure!(
            on.is_empty() || own.iter().any(|id| id == on),
            "{query}: the cursor {on} is of another's flow"
        );
    }
    eprintln!("{} searches", queries.len());
    Ok(())
}

async fn inside_cursor(site: &Site, cursor: &str) -> anyhow::Result<Option<String>> {
    let start = if cursor.is_empty() { String::new() } else { format!("&cursor={cursor}") };
    let page = site.on_call().get(&format!("/payment-flows?limit=1{start}")).await?;
    ensure!(page.status == 200, "{} {}", page.status, page.body);
    Ok(page.body["cursor"].as_str().map(str::to_owned))
}

fn listed(page: &Reply) -> Vec<String> {
    let flows = page.body["flows"].as_array().into_iter().flatten();
    flows.filter_map(|flow| flow["flow_id"].as_str().map(str::to_owned)).collect()
}

/// Another's request key is free to be used; another's target is not, and nothing is told of the flow behind it.
async fn by_key_and_target(kiosk: &ApiClient, foreign: &Reply) -> anyhow::Result<()> {
    let same_key = kiosk.pay("key-1", &Payment::new(6, "kiosk").body(), Some(10)).await?;
    ensure!(same_key.status == 201, "{} {}", same_key.status, same_key.body);
    ensure!(same_key.header("idempotent-replayed").is_none(), "another's key was replayed");
    for amount in [1_990, 5] {
        let payment = Payment { amount, ..Payment::new(1, "secret:1") };
        let refused = kiosk.pay(&format!("take-{amount}"), &payment.body(), Some(5)).await?;
        let code = refused.text("code");
        ensure!(
            (refused.status, code) == (409, "target_of_other_caller"),
            "{} {}",
            refused.status,
            refused.body
        );
        let all = format!("{} {:?}", refused.body, refused.headers);
        for secret in [foreign.text("trade_order_no"), "BIZ_SUCCESS", "\"flow_id\""] {
            ensure!(!all.contains(secret), "{all} tells {secret}");
        }
        ensure!(refused.header("location").is_none(), "{:?}", refused.headers);
    }
    Ok(())
}
