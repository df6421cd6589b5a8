//! Applications are told how their payments ended: through outages of theirs, by several scanners, in bounded memory.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Manner, Receiver, Site};
use serde_json::Value;
use xtask::stack::{Keys, Patience, Payment, Tuning, wait_until};

const END: Duration = Duration::from_secs(60);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

e2e::on_both_servers! {
    what_ends_is_told within 180 s;
    a_receiver_that_fails_in_every_way within 240 s;
    a_change_and_its_notification_commit_together within 120 s;
}

e2e::on_mysql! {
    ten_thousand_notifications_in_bounded_memory within 400 s;
    private_targets_are_refused within 120 s;
}

/// How the receivers are set up.
struct Hooks {
    text: String,
}

impl Hooks {
    /// Retries are quick; so are claims, so that what a dead scanner held is sent again.
    fn new(retry_ms: &[u64]) -> Hooks {
        let text = format!(
            "\n[notifications]\nclaim_ms = 3000\npoll_interval_ms = 50\nretry_ms = {retry_ms:?}\n\
             max_retry_after_ms = 2000\nallow_private_targets = true\n"
        );
        Hooks { text }
    }

    fn application(mut self, name: &str, url: &str, more: &str) -> Hooks {
        self.text.push_str(&format!(
            "\n[notifications.applications.{name}]\nurl = \"{url}\"\nsecret = \"{SECRET}\"\ntimeout_ms = 500\n\
             connect_timeout_ms = 300\nqueue_wait_ms = 500\nbreaker_open_ms = 50\nbreaker_max_open_ms = 200\n{more}\n"
        ));
        self
    }

    fn tuning(self) -> Tuning {
        Tuning { extra: self.text, ..Tuning::default() }
    }
}

async fn pay(site: &Site, key: &str, user_id: u64) -> anyhow::Result<Value> {
    let body = Payment::new(user_id, "told").body();
    let reply = site.client().with_key(key).pay(&format!("told-{user_id}"), &body, Some(10)).await?;
    ensure!(reply.status == 201, "{} {}", reply.status, reply.body);
    Ok(reply.body)
}

async fn all_delivered(site: &Site, within: Duration) -> anyhow::Result<()> {
    let left = "SELECT COUNT(*) FROM pay_outbox WHERE delivery <> 'DELIVERED'";
    let done = || async { Ok((site.database.number(left).await? == 0).then_some(())) };
    wait_until("everything to be delivered", within, done).await
}

async fn attempts(site: &Site, event_id: &str) -> anyhow::Result<Vec<(String, i64)>> {
    let page = site.operator().get(&format!("/notifications/{event_id}/attempts?limit=100")).await?;
    ensure!(page.status == 200, "{} {}", page.status, page.body);
    let lines = page.body["attempts"].as_array().context("no attempts")?;
    lines
        .iter()
        .map(|line| {
            ensure!(line["at"].is_string() && line["latency_ms"].is_u64(), "{line}");
            let answer = line["answer"].as_str().context("no answer")?.to_owned();
            Ok((answer, line["http_status"].as_i64().unwrap_or(0)))
        })
        .collect()
}

/// An end, a hold and a release; signed by both secrets; thin; to the right application alone.
async fn what_ends_is_told(flavor: Flavor) -> anyhow::Result<()> {
    let (shop, kiosk) = (Receiver::start().await?, Receiver::start().await?);
    let hooks = Hooks::new(&[100])
        .application("shop", &shop.url(), &format!("previous_secret = \"{OLD_SECRET}\""))
        .application("kiosk", &kiosk.url(), "enabled = false");
    let site = Site::open(Database::shared(flavor, "told").await?, hooks.tuning(), 1, 2).await?;
    let ended = pay(&site, Keys::CLIENT, 1).await?;
    pay(&site, Keys::OTHER_CLIENT, 2).await?;

    // A payment that is held and released on its way.
    let sim = site.sim();
    let outage = sim
        .fault(serde_json::json!({ "calls": ["debit"], "user_id": "3", "fault": { "kind": "unavailable" } }))
        .await?;
    let body = Payment::new(3, "told").body();
    let open = site.client().pay("told-3", &body, Some(0)).await?;
    let flow_id = open.flow_id().to_owned();
    for action in ["hold", "release"] {
        let done = site.operator().post(&format!("/payment-flows/{flow_id}/{action}")).await?;
        ensure!(done.status == 200, "{action}: {} {}", done.status, done.body);
    }
    sim.remove_fault(outage).await?;
    site.client().wait_for_end(&flow_id, END).await?;
    all_delivered(&site, END).await?;

    let mut told: Vec<(String, String, u64, String)> = Vec::new();
    for heard in shop.heard() {
        heard.verify(SECRET)?;
        heard.verify(OLD_SECRET)?;
        ensure!(heard.path == "/hook?of=shop", "{heard:?}");
        let body: Value = serde_json::from_str(&heard.body)?;
        let data = &body["data"];
        ensure!(data["event_id"] == heard.id.as_str(), "{heard:?}");
        ensure!(
            !heard.body.contains("1990") && data.as_object().is_some_and(|data| data.len() == 9),
            "not thin: {heard:?}"
        );
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = data["version"].as_u64().context("no version")?;
        told.push((text(&data["flow_id"]), text(&body["type"]), version, text(&data["status"])));
    }
    let of = |flow: &str| {
        let mut mine: Vec<_> = told.iter().filter(|said| said.0 == flow).collect();
        mine.sort_by_key(|said| said.2);
        mine.into_iter().map(|said| (said.1.clone(), said.3.clone())).collect::<Vec<_>>()
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let first = ended["flow_id"].as_str().unwrap_or_default();
    ensure!(of(first) == [pair("payment_flow.ended", "BIZ_SUCCESS")], "{told:?}");
    let expected = [
        pair("payment_flow.held", "MANUAL_REVIEW"),
        pair("payment_flow.released", "PROCESSING"),
        pair("payment_flow.ended", "BIZ_SUCCESS"),
    ];
    ensure!(of(&flow_id) == expected, "{told:?}");
    ensure!(kiosk.heard().is_empty(), "the kiosk is switched off: {:?}", kiosk.heard());
    ensure!(shop.accepted().values().all(|times| *times == 1), "{:?}", shop.accepted());
    // What was delivered can be asked for again: the same id, the same bytes.
    let heard = shop.heard().into_iter().find(|heard| heard.id.contains(first)).context("it was heard")?;
    let again = site.operator().post(&format!("/notifications/{}/resend", heard.id)).await?;
    ensure!(again.status == 200 && again.text("resent_by") == "operator", "{} {}", again.status, again.body);
    all_delivered(&site, END).await?;
    let both: Vec<_> = shop.heard().into_iter().filter(|other| other.id == heard.id).collect();
    ensure!(both.len() == 2 && both.iter().all(|other| other.body == heard.body), "{both:?}");
    site.close().await
}

/// 500, a redirect, silence, a slammed door, an endless body, nobody there: each attempt has its line, and after the
/// return everything is delivered. Another application is told meanwhile as if nothing were.
async fn a_receiver_that_fails_in_every_way(flavor: Flavor) -> anyhow::Result<()> {
    let (mut shop, kiosk, elsewhere) =
        (Receiver::start().await?, Receiver::start().await?, Receiver::start().await?);
    let hooks = Hooks::new(&[150, 150, 150, 150, 150, 150, 150, 150, 150, 150, 150, 150])
        .application("shop", &shop.url(), "breaker_failures = 100000")
        .application("kiosk", &kiosk.url(), "");
    let site = Site::open(Database::shared(flavor, "failing").await?, hooks.tuning(), 1, 1).await?;
    let to_elsewhere = format!("location: {}\r\n", elsewhere.url());
    let ways = [
        (Manner::status(500), ("FAILED", 500)),
        (Manner::Answer { status: 307, headers: to_elsewhere, after_ms: 0 }, ("REDIRECTED", 307)),
        (Manner::status(404), ("REJECTED", 404)),
        (Manner::Hang, ("TIMED_OUT", 0)),
        (Manner::Close, ("CONNECTION_LOST", 0)),
    ];
    let mut user_id = 1;
    let mut events = Vec::new();
    for (manner, (answer, status)) in ways {
        shop.behave(manner);
        let event_id = failing_payment(&site, user_id).await?;
        let seen = attempts_of_class(&site, &event_id, answer).await?;
        ensure!(seen.contains(&(answer.to_owned(), status)), "{event_id}: {seen:?}");
        events.push(event_id);
        // Nobody else is delayed by it.
        let patience = Patience::of(Duration::from_secs(5));
        pay(&site, Keys::OTHER_CLIENT, 100 + user_id).await?;
        let told = || async { Ok((kiosk.heard().len() as u64 == user_id).then_some(())) };
        wait_until("the kiosk to be told", Duration::from_secs(5), told).await?;
        eprintln!("{answer}: the kiosk was told within {:.0?}", patience.elapsed());
        user_id += 1;
    }
    shop.go().await;
    let event_id = failing_payment(&site, user_id).await?;
    let seen = attempts_of_class(&site, &event_id, "NOT_CONNECTED").await?;
    ensure!(seen.contains(&("NOT_CONNECTED".to_owned(), 0)), "{seen:?}");
    events.push(event_id);

    // Some were given up by now: that is what the list and the resend are for.
    shop.behave(Manner::Flood);
    shop.come_back().await?;
    let settled = "SELECT COUNT(*) FROM pay_outbox WHERE delivery = 'PENDING'";
    let quiet = || async { Ok((site.database.number(settled).await? == 0).then_some(())) };
    wait_until("nothing to be pending", END, quiet).await?;
    let dead = site.operator().get("/notifications?delivery=DEAD&limit=100").await?;
    for told in dead.body["notifications"].as_array().context("no list")? {
        ensure!(told["attempts"] == 13, "given up after the whole schedule: {told}");
        let id = told["event_id"].as_str().unwrap_or_default();
        let again = site.operator().post(&format!("/notifications/{id}/resend")).await?;
        ensure!(again.status == 200, "{} {}", again.status, again.body);
    }
    all_delivered(&site, END).await?;
    let accepted = shop.accepted();
    for event_id in &events {
        ensure!(accepted.contains_key(event_id), "{event_id} was never accepted: {accepted:?}");
    }
    ensure!(elsewhere.heard().is_empty(), "a redirect was followed: {:?}", elsewhere.heard());
    ensure!(kiosk.accepted().values().all(|times| *times == 1), "{:?}", kiosk.accepted());
    site.close().await
}

/// A payment whose notification is on its way; its event id.
async fn failing_payment(site: &Site, user_id: u64) -> anyhow::Result<String> {
    let ended = pay(site, Keys::CLIENT, user_id).await?;
    Ok(format!("evt_{}_{}", ended["flow_id"].as_str().unwrap_or_default(), ended["version"]))
}

/// Waits for a line of this class; all lines by then.
async fn attempts_of_class(site: &Site, event_id: &str, class: &str) -> anyhow::Result<Vec<(String, i64)>> {
    let there = || async {
        let lines = attempts(site, event_id).await?;
        Ok(lines.iter().any(|(answer, _)| answer == class).then_some(lines))
    };
    wait_until("the attempt to be logged", Duration::from_secs(10), there).await
}

/// Whatever kills the write of the notification undoes the change with it: the statement is one, and so is the batch.
async fn a_change_and_its_notification_commit_together(flavor: Flavor) -> anyhow::Result<()> {
    let shop = Receiver::start().await?;
    let hooks = Hooks::new(&[100]).application("shop", &shop.url(), "");
    let site = Site::open(Database::shared(flavor, "together").await?, hooks.tuning(), 1, 1).await?;
    pay(&site, Keys::CLIENT, 1).await?;
    all_delivered(&site, END).await?;
    // From now on no row can be written to the outbox: so no payment can end, though all else goes on.
    let refuse = "CREATE TRIGGER refuse_outbox BEFORE INSERT ON pay_outbox FOR EACH ROW \
                  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no room for a notification'";
    site.database.execute(refuse).await?;
    let body = Payment::new(2, "told").body();
    let open = site.client().pay("told-2", &body, Some(2)).await?;
    ensure!(open.status == 202, "{} {}", open.status, open.body);
    let flow_id = open.flow_id().to_owned();
    let sql = format!("SELECT status FROM internal_pay_flow WHERE id = {flow_id}");
    let now = site.database.texts(&sql).await?;
    ensure!(now == ["PAYED"], "charged, executed, and not ended: {now:?}");
    let by_hand = format!(
        "UPDATE internal_pay_flow SET status = 'BIZ_SUCCESS', finished_at = UTC_TIMESTAMP(3) WHERE id = {flow_id}"
    );
    ensure!(site.database.execute(&by_hand).await.is_err(), "by hand, too");
    site.database.execute("DROP TRIGGER refuse_outbox").await?;
    let end = site.client().wait_for_end(&flow_id, END).await?;
    ensure!(end.status_word() == "BIZ_SUCCESS", "{}", end.body);
    all_delivered(&site, END).await?;
    let told = shop.accepted();
    ensure!(told.len() == 2 && told.values().all(|times| *times == 1), "{told:?}");
    let missing = "SELECT COUNT(*) FROM internal_pay_flow f LEFT JOIN pay_outbox o \
                   ON o.flow_id = f.id AND o.version = f.version WHERE f.finished_at IS NOT NULL AND o.flow_id IS NULL";
    ensure!(site.database.number(missing).await? == 0, "an end without its notification");
    site.close_expecting(&["guard", "no room for a notification"]).await
}

/// A backlog of ten thousand behind a receiver that was away, and two scanners: delivered, none twice at one moment, in
/// memory that a backlog does not show in.
async fn ten_thousand_notifications_in_bounded_memory(flavor: Flavor) -> anyhow::Result<()> {
    const ROWS: i64 = 10_000;
    /// What a scanner may grow by, in KiB. Ten thousand notifications and their answers would be several times that.
    const GROWTH_KIB: u64 = 24 * 1024;
    let shop = Receiver::start().await?;
    shop.behave(Manner::Answer { status: 204, headers: String::new(), after_ms: 5 });
    let hooks =
        Hooks::new(&[500]).application("shop", &shop.url(), "calls_per_s = 100000\nburst_calls = 1000");
    let mut site = Site::open(Database::shared(flavor, "tenk").await?, hooks.tuning(), 1, 2).await?;
    pay(&site, Keys::CLIENT, 1).await?;
    all_delivered(&site, END).await?;
    // As many versions of the flow that has ended as there are rows to be: as the trigger would write them, all at once.
    let before: Vec<u64> = memory(&mut site)?;
    let fill = format!(
        "SET SESSION cte_max_recursion_depth = {ROWS}; \
         INSERT INTO pay_outbox (flow_id, version, caller_id, change_kind, flow_status, created_at, delivery, \
           next_attempt_time) \
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) \
         SELECT f.id, f.version + n.i, f.caller_id, 'ENDED', f.status, UTC_TIMESTAMP(3), 'PENDING', UTC_TIMESTAMP(3) \
         FROM n, internal_pay_flow f"
    );
    let patience = Patience::of(Duration::from_secs(300));
    site.database.execute(&fill).await?;
    all_delivered(&site, Duration::from_secs(300)).await?;
    let took = patience.elapsed();
    let after = memory(&mut site)?;
    let accepted = shop.accepted();
    let doubled = accepted.values().filter(|times| **times > 1).count();
    eprintln!(
        "{ROWS} notifications in {took:.1?} by two scanners; peak memory {before:?} -> {after:?} KiB; {doubled} sent twice"
    );
    ensure!(accepted.len() as i64 == ROWS + 1, "{} ids were accepted", accepted.len());
    ensure!(shop.at_once().is_empty(), "twice at one moment: {:?}", shop.at_once());
    ensure!(doubled == 0, "{doubled} were sent twice though nothing failed");
    for (before, after) in before.iter().zip(&after) {
        ensure!(after - before < GROWTH_KIB, "a scanner grew from {before} to {after} KiB");
    }
    let by_scanner: Vec<i64> = site_metrics(&site).await?;
    ensure!(by_scanner.iter().all(|count| *count > 0), "both scanners deliver: {by_scanner:?}");
    site.close().await
}

/// Peak resident memory of both scanners so far, in KiB.
fn memory(site: &mut Site) -> anyhow::Result<Vec<u64>> {
    (0..2).map(|index| Ok(site.stack.scanner_process(index).memory_kib()?.0)).collect()
}

/// Accepted notifications by each scanner's own count.
async fn site_metrics(site: &Site) -> anyhow::Result<Vec<i64>> {
    let mut counts = Vec::new();
    for index in 0..2 {
        let text = site.client().at(site.stack.scanner_url(index)).get_text("/metrics").await?;
        let line = text.lines().find(|line| {
            line.starts_with("notification_attempts_total") && line.contains("answer=\"ACCEPTED\"")
        });
        let count = line.and_then(|line| line.rsplit(' ').next()).and_then(|count| count.parse().ok());
        counts.push(count.unwrap_or(0));
    }
    Ok(counts)
}

/// Loopback by address, by another spelling of it, and by name: nothing is sent, and each attempt says why.
async fn private_targets_are_refused(flavor: Flavor) -> anyhow::Result<()> {
    let shop = Receiver::start().await?;
    for (n, host) in ["127.0.0.1", "2130706433", "localhost", "[::ffff:127.0.0.1]"].into_iter().enumerate() {
        let url = shop.url().replace("127.0.0.1", host);
        let mut hooks = Hooks::new(&[50, 50]).application("shop", &url, "breaker_failures = 100000");
        hooks.text = hooks.text.replace("allow_private_targets = true", "allow_private_targets = false");
        let database = Database::shared(flavor, &format!("ssrf{n}")).await?;
        let site = Site::open(database, hooks.tuning(), 1, 1).await?;
        let event_id = failing_payment(&site, 1).await?;
        let dead = "SELECT COUNT(*) FROM pay_outbox WHERE delivery = 'DEAD'";
        let given_up = || async { Ok((site.database.number(dead).await? == 1).then_some(())) };
        wait_until("it to be given up", END, given_up).await?;
        let lines = attempts(&site, &event_id).await?;
        ensure!(lines == vec![("FORBIDDEN_TARGET".to_owned(), 0); 3], "{host}: {lines:?}");
        site.close().await?;
    }
    ensure!(shop.heard().is_empty(), "{:?}", shop.heard());
    Ok(())
}
