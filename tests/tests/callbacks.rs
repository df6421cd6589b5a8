//! What channels say of their own accord: each event is kept once, however often and in whatever order it comes; forged
//! ones leave nothing; and whatever is said, the wallet's record decides.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Shop, Site};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use serde_json::{Value, json};
use xtask::stack::{Channel, Payment, Profile, Reply, Tuning, wait_until};

/// Nothing but a callback moves a flow within the suite.
const NEVER_MS: u64 = 3_600_000;
const PATIENCE: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 48;
/// Each event is told so often.
const DELIVERIES: usize = 3;

e2e::on_both_servers! {
    a_thousand_callbacks_tripled_shuffled_and_a_tenth_forged within 240 s;
    a_wallet_tells_of_everything_badly within 120 s;
}

/// What has happened to a payment, and what its channel says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Charged, and told so.
    Charged,
    /// The wallet never heard of it, and success is claimed.
    Unheard,
    /// It failed for good, and success is claimed.
    Failed,
    /// Charged; the only word of it is forged.
    Forged,
}

const GROUPS: [(Group, u64); 4] =
    [(Group::Charged, 700), (Group::Unheard, 100), (Group::Failed, 100), (Group::Forged, 100)];

impl Group {
    fn of(user: u64) -> Group {
        let mut first = 1;
        for (group, size) in GROUPS {
            if (first..first + size).contains(&user) {
                return group;
            }
            first += size;
        }
        panic!("user {user} is in no group")
    }

    fn users() -> std::ops::RangeInclusive<u64> {
        1..=GROUPS.iter().map(|(_, size)| size).sum()
    }

    /// What the flow must be, and what its event must have come to.
    const fn ending(self) -> (&'static str, Option<&'static str>) {
        match self {
            Group::Charged => ("BIZ_SUCCESS", Some("PROCESSED")),
            Group::Unheard => ("PAYING", Some("NEW")),
            Group::Failed => ("PAY_FAIL", Some("CONTRADICTED")),
            Group::Forged => ("PAYING", None),
        }
    }
}

/// Payments get no answer from the wallet and are left to themselves; then callbacks come, all at once.
async fn a_thousand_callbacks_tripled_shuffled_and_a_tenth_forged(flavor: Flavor) -> anyhow::Result<()> {
    let tuning =
        Tuning { retry_ms: vec![NEVER_MS], timer_bound_ms: 0, extra: Channel::table(), ..Tuning::default() };
    let mut site =
        Site::open_empty(Database::shared(flavor, "callbacks").await?, tuning, Profile::Debug).await?;
    site.stack.set_env(&[
        // Nearly every debit is lost on purpose; the breaker is not what is looked at.
        ("PAY__WALLETS__MAIN__BREAKER_FAILURES", "100000"),
        ("PAY__CALLBACKS__RETRY_MS", &NEVER_MS.to_string()),
        ("PAY__CALLBACKS__ROUND_INTERVAL_MS", "200"),
    ]);
    site.stack.start_api().await?;
    site.stack.start_api().await?;
    let orders = undecided_payments(&site).await?;
    site.stack.start_scanner().await?;

    let mut deliveries: Vec<u64> = Group::users().flat_map(|user| [user; DELIVERIES]).collect();
    deliveries.shuffle(&mut StdRng::seed_from_u64(20_261_130));
    let channel = Channel::new();
    let told: Vec<(Group, u16, String)> = stream::iter(deliveries.into_iter().enumerate())
        .map(|(turn, user)| {
            let (channel, base, orders) = (&channel, site.stack.api_url(turn % 2), &orders);
            async move {
                let (group, order_no) = (Group::of(user), &orders[&user]);
                let (id, event) = (format!("evt-{user}"), Channel::payment(order_no, "SUCCESS"));
                let reply = tell(channel, group, &base, &id, &event).await?;
                let word = if reply.status == 200 { reply.text("result") } else { reply.text("code") };
                anyhow::Ok((group, reply.status, word.to_owned()))
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    check_answers(&told)?;
    site_ends_as_the_wallet_says(&site, &orders).await?;
    site.close_expecting(&["a callback contradicts what is known"]).await
}

/// As the contract wants it: again after a 503, with the same id.
async fn tell(channel: &Channel, group: Group, base: &str, id: &str, event: &Value) -> anyhow::Result<Reply> {
    for _ in 0..20 {
        let reply = if group == Group::Forged {
            channel.tell_forged(base, id, event).await?
        } else {
            channel.tell(base, id, event).await?
        };
        if reply.status != 503 {
            return Ok(reply);
        }
        ensure!(reply.text("code") == "database_unavailable", "{}", reply.body);
    }
    anyhow::bail!("{id} was not taken in twenty tries")
}

/// One payment per user, in `PAYING`; order numbers by user.
async fn undecided_payments(site: &Site) -> anyhow::Result<BTreeMap<u64, String>> {
    let sim = site.sim();
    for user in Group::users() {
        match Group::of(user) {
            Group::Failed => sim.balance(user, "CNY", 1).await?,
            Group::Unheard => {
                let never =
                    json!({ "calls": ["debit"], "user_id": user.to_string(), "fault": { "kind": "drop" } });
                sim.fault(never).await?;
            }
            Group::Charged | Group::Forged => {}
        }
    }
    // After the rules above, so that those come first.
    let lost =
        sim.fault(json!({ "calls": ["debit"], "stage": "after", "fault": { "kind": "drop" } })).await?;
    let payments: Vec<(String, Payment)> =
        Group::users().map(|user| (format!("callback-{user}"), Payment::new(user, "callbacks"))).collect();
    let shop = Shop::new(vec![site.stack.api(0), site.stack.api(1)]);
    shop.pay_all(&payments, AT_ONCE, 0, PATIENCE).await?;
    let undecided = "SELECT COUNT(*) FROM internal_pay_flow WHERE status = 'PAYING' AND version >= 2";
    let all = i64::try_from(payments.len())?;
    let there = || async { Ok((site.database.number(undecided).await? == all).then_some(())) };
    wait_until("every debit to be lost", PATIENCE, there).await?;
    sim.remove_fault(lost).await?;
    let rows =
        site.database.texts("SELECT CONCAT(user_id, ' ', trade_order_no) FROM internal_pay_flow").await?;
    rows.iter()
        .map(|row| {
            let (user, order_no) = row.split_once(' ').context("two words")?;
            Ok((user.parse()?, order_no.to_owned()))
        })
        .collect()
}

/// Each genuine event is news once, and known twice; a forged one is refused three times.
fn check_answers(told: &[(Group, u16, String)]) -> anyhow::Result<()> {
    let mut counts: BTreeMap<(bool, u16, &str), usize> = BTreeMap::new();
    for (group, status, word) in told {
        *counts.entry((*group == Group::Forged, *status, word.as_str())).or_default() += 1;
    }
    let count = |forged, status, word| counts.get(&(forged, status, word)).copied().unwrap_or(0);
    let known = count(false, 200, "already_recorded") + count(false, 200, "already_processed");
    eprintln!("answers: {counts:?}");
    ensure!(count(false, 200, "recorded") == 900, "each event is news once: {counts:?}");
    ensure!(known == 900 * (DELIVERIES - 1), "and known ever after: {counts:?}");
    ensure!(count(true, 401, "signature_invalid") == 100 * DELIVERIES, "forged: {counts:?}");
    Ok(())
}

async fn site_ends_as_the_wallet_says(site: &Site, orders: &BTreeMap<u64, String>) -> anyhow::Result<()> {
    let worked = "SELECT COUNT(*) FROM pay_inbox WHERE state <> 'NEW' OR note IS NOT NULL";
    let there = || async { Ok((site.database.number(worked).await? == 900).then_some(())) };
    wait_until("every event to be worked on", PATIENCE, there).await?;
    let rows = site.database.number("SELECT COUNT(*) FROM pay_inbox").await?;
    ensure!(rows == 900, "one row per event, none for a forged one: {rows}");
    let flows = site
        .database
        .texts(
            "SELECT CONCAT(f.user_id, ' ', f.status, ' ', COALESCE(i.state, '-'))
             FROM internal_pay_flow f LEFT JOIN pay_inbox i ON i.order_no = f.trade_order_no",
        )
        .await?;
    ensure!(flows.len() == orders.len(), "{} flows with their events", flows.len());
    for row in &flows {
        let words: Vec<&str> = row.split(' ').collect();
        let group = Group::of(words[0].parse()?);
        let (status, state) = group.ending();
        ensure!(words[1..] == [status, state.unwrap_or("-")], "{group:?}: {row}");
    }
    // Nothing was written but by what a query or a later call answered.
    let by_hearsay = "SELECT COUNT(*) FROM pay_flow_event
        WHERE ev_trigger = 'CALLBACK' AND kind = 'STATE' AND (action IS NULL OR outcome IS NULL)";
    ensure!(site.database.number(by_hearsay).await? == 0, "a state was written without an answer");
    let paid = "SELECT COUNT(*) FROM pay_flow_event WHERE ev_trigger = 'CALLBACK' AND to_status = 'PAYED'
        AND from_status = 'PAYING' AND action = 'QUERY_CHARGE' AND outcome = 'SUCCESS'";
    ensure!(site.database.number(paid).await? == 700, "every charge was confirmed by a query");
    let audit = site.audit().await?;
    let violations = audit.violations();
    ensure!(violations.is_empty(), "{violations:?}");
    for flow in &audit.flows {
        let user: u64 = flow.target.split('/').next().unwrap_or_default().parse()?;
        let charges = audit.ledger(flow).map_or(0, |order| order.charges);
        let expected = u32::from(matches!(Group::of(user), Group::Charged | Group::Forged));
        ensure!(charges == expected, "{flow:?} is charged {charges} times");
    }
    let metrics =
        [site.stack.api(0).get_text("/metrics").await?, site.stack.api(1).get_text("/metrics").await?];
    let counted = |name: &str, label: &str| -> u64 {
        let lines = metrics.iter().flat_map(|text| text.lines());
        let values = lines.filter(|line| line.starts_with(name) && line.contains(label));
        values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    };
    for (name, label, expected) in [
        ("callback_events_total", "result=\"stored\"", 900),
        ("callback_events_total", "result=\"known\"", 1_800),
        ("callback_refused_total", "why=\"wrong_signature\"", 300),
    ] {
        let found = counted(name, label);
        ensure!(found == expected, "{name} {label}: {found}, not {expected}");
    }
    Ok(())
}

/// The simulator's wallet tells of each charge and refund: doubled, late, out of order, with forged ones among them, and
/// half of the time before its own answer, which then gets lost.
async fn a_wallet_tells_of_everything_badly(flavor: Flavor) -> anyhow::Result<()> {
    let tuning = Tuning { retry_ms: vec![20_000], extra: Channel::table(), ..Tuning::default() };
    let site = Site::open(Database::shared(flavor, "telling").await?, tuning, 1, 1).await?;
    let sim = site.sim();
    sim.fault(json!({ "calls": ["debit"], "stage": "after", "probability": 0.5, "seed": 3, "fault": { "kind": "drop" } }))
        .await?;
    let mut paid = 0;
    for before_response in [false, true] {
        sim.callbacks(json!({
            "url": Channel::url(&site.stack.api_url(0)), "secret": Channel::secret(), "copies": 2,
            "shuffle_ms": if before_response { 0 } else { 300 }, "forged_permille": 200,
            "before_response": before_response, "seed": 11,
        }))
        .await?;
        let payments: Vec<(String, Payment)> = (0..60)
            .map(|_| {
                paid += 1;
                (format!("telling-{paid}"), Payment::new(paid, "telling"))
            })
            .collect();
        Shop::new(vec![site.client()]).pay_all(&payments, 16, 0, PATIENCE).await?;
    }
    // Long before the schedule would have asked again.
    let audit = site.settle(Duration::from_secs(12)).await?;
    ensure!(audit.flows.iter().all(|flow| flow.status == "BIZ_SUCCESS"), "{:?}", audit.flows);
    let quiet = || async {
        let counts = sim.callback_counts().await?;
        Ok((counts["under_way"] == 0).then_some(counts))
    };
    let counts: Value = wait_until("the last callback to be delivered", PATIENCE, quiet).await?;
    eprintln!("the wallet told: {counts}");
    let count = |name: &str| counts[name].as_u64().unwrap_or(u64::MAX);
    ensure!(count("events") >= 120 && count("accepted") == 2 * count("events"), "{counts}");
    ensure!(count("forged") > 0 && count("forged_accepted") == 0 && count("lost") == 0, "{counts}");
    let rows = site.database.number("SELECT COUNT(*) FROM pay_inbox").await?;
    ensure!(rows == 120, "one row per event: {rows}");
    let done = "SELECT COUNT(*) FROM pay_inbox WHERE state = 'PROCESSED'";
    let there = || async { Ok((site.database.number(done).await? == 120).then_some(())) };
    wait_until("every event to be done with", PATIENCE, there).await?;
    site.close().await
}
