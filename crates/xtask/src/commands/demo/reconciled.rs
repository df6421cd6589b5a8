//! The last chapter: the demo's own day is compared with the wallet's bill, first as it is, then with a difference of every
//! kind in it. What is found is read as on-call reads it, over HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use chrono::{NaiveDate, TimeDelta, Timelike as _};
use serde_json::{Value, json};
use xtask::progress::Phase;
use xtask::stack::{Keys, Stack, utc_now};

use super::STORY_END;
use super::differences::{Planted, plant};

/// What `pay-recon run` ends with where it found nothing, and where it found something.
const CLEAN: i32 = 0;
const DIFFERENCES: i32 = 3;
/// The channel.
const CHANNEL: &str = "main";

/// The business day that everything happens on: in a zone in which midnight is far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    date: NaiveDate,
    zone: &'static str,
}

impl Day {
    /// Today, in one of two zones that are eight hours apart.
    pub(super) fn today() -> Day {
        let now = utc_now();
        if (1..22).contains(&now.hour()) {
            Day { date: now.date_naive(), zone: "UTC" }
        } else {
            Day { date: (now + TimeDelta::hours(8)).date_naive(), zone: "Asia/Shanghai" }
        }
    }

    /// The tables that configure the channel.
    pub(super) fn tables(self, folder: &Path) -> String {
        let folder = folder.display();
        format!(
            r#"
[recon]
evidence_folder = "{folder}/bills-kept"

[recon.channels.{CHANNEL}]
wallet = "main"
format = "ledger-csv"
zone = "{}"
exponents = {{ CNY = 2, USD = 2 }}
file = "{folder}/bill-{{date}}.csv"
"#,
            self.zone
        )
    }
}

/// Plays it.
pub(super) async fn play(stack: &Stack, day: Day) -> anyhow::Result<()> {
    println!(
        "\n8. The day is compared with the wallet's bill: every order, with the wallet and with the business system"
    );
    run(stack, day, CLEAN).await?;
    println!(
        "   As it happened, both agree. Now one difference of every kind that one day can hold: wrong rows, payments that stand still,"
    );
    println!("   benefits that nobody paid for.");
    let phase = Phase::start("making a difference of every kind");
    let planted = plant(stack).await?;
    phase.done();
    run(stack, day, DIFFERENCES).await?;
    let tickets = tickets(stack, "open=true&limit=100").await?;
    print(&planted, &tickets)?;
    let report = report(stack, day).await?;
    println!("   The page for finance: {}", report.display());
    two_people(stack, &tickets).await?;
    corrected(stack, day, &tickets).await
}

/// Fetches the bill, as a channel's customer does, and compares the day.
async fn run(stack: &Stack, day: Day, expected: i32) -> anyhow::Result<()> {
    let bill = stack.dir().join(format!("bill-{}.csv", day.date));
    std::fs::write(&bill, stack.sim().bill(day.date, day.zone).await?)?;
    let date = day.date.to_string();
    println!("   $ pay-recon run --channel {CHANNEL} --date {date}");
    let output = stack.recon(&["run", "--channel", CHANNEL, "--date", &date], None).await?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        println!("     {line}");
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.code() == Some(expected), "it ended with {}: {complaint}", output.status);
    Ok(())
}

async fn tickets(stack: &Stack, which: &str) -> anyhow::Result<Vec<Value>> {
    let page = stack.api(0).with_key(Keys::ON_CALL).get(&format!("/recon/tickets?{which}")).await?;
    anyhow::ensure!(page.status == 200, "the tickets can not be read: {}", page.body);
    page.body["tickets"].as_array().cloned().context("the answer has no tickets")
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or("-")
}

/// Everything that was planted, and nothing else, is in the tickets.
fn print(planted: &[Planted], tickets: &[Value]) -> anyhow::Result<()> {
    let found: BTreeMap<&str, &Value> =
        tickets.iter().map(|ticket| (text(ticket, "order_no"), ticket)).collect();
    println!("\n   {:<32} {:<18} {:>9}  must be confirmed first", "difference", "order", "amount");
    for plant in planted {
        let ticket = found.get(plant.order_no.as_str());
        let findings = ticket.and_then(|ticket| ticket["findings"].as_array()).map_or(&[][..], Vec::as_slice);
        for finding in findings {
            let amount = format!("{} {}", finding["amount_minor"], text(finding, "currency"));
            println!(
                "   {:<32} {:<18} {:>9}  {}",
                text(finding, "kind"),
                plant.order_no,
                amount,
                text(finding, "confirm_first")
            );
        }
        let kinds: BTreeSet<&str> = findings.iter().map(|finding| text(finding, "kind")).collect();
        let expected: BTreeSet<&str> = plant.kinds.iter().copied().collect();
        anyhow::ensure!(kinds == expected, "{}: found {kinds:?}, planted {expected:?}", plant.order_no);
    }
    let orders: BTreeSet<&str> = planted.iter().map(|plant| plant.order_no.as_str()).collect();
    let invented: Vec<&&str> = found.keys().filter(|order| !orders.contains(*order)).collect();
    anyhow::ensure!(invented.is_empty(), "differences that nobody planted, of {invented:?}");
    println!("   {} orders differ, all of them planted, none missed.", tickets.len());
    Ok(())
}

async fn report(stack: &Stack, day: Day) -> anyhow::Result<std::path::PathBuf> {
    let output =
        stack.recon(&["report", "--channel", CHANNEL, "--date", &day.date.to_string()], None).await?;
    // As a run does, it tells clean days from others by how it ends.
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.code() == Some(DIFFERENCES), "{}: no report: {complaint}", output.status);
    let path = stack.dir().join("reconciliation.html");
    std::fs::write(&path, &output.stdout)?;
    Ok(path)
}

/// What moves money is settled by two people, over HTTP.
async fn two_people(stack: &Stack, tickets: &[Value]) -> anyhow::Result<()> {
    let foreign =
        tickets.iter().find(|ticket| ticket["order_no"] == "foreign-1").context("no ticket of foreign-1")?;
    let path = format!("/recon/tickets/{}", text(foreign, "ticket_id"));
    let (on_call, operator) = (stack.api(0).with_key(Keys::ON_CALL), stack.api(0).with_key(Keys::OPERATOR));
    let reason = json!({ "reason": "paid back by hand, receipt 17" });
    let proposed = on_call.post_json(&format!("{path}/resolve"), &reason).await?;
    let alone = on_call.post(&format!("{path}/confirm")).await?;
    let confirmed = operator.post(&format!("{path}/confirm")).await?;
    println!(
        "\n   foreign-1 moved money: on-call settles it, and it stays {}; confirming it alone is refused ({} {}); the operator",
        text(&proposed.body, "state"),
        alone.status,
        text(&alone.body, "code"),
    );
    println!("   confirms: {}.", text(&confirmed.body, "state"));
    anyhow::ensure!(proposed.status == 200 && proposed.body["state"] == "OPEN", "{}", proposed.body);
    anyhow::ensure!(alone.status == 409, "one person settled it alone: {}", alone.body);
    anyhow::ensure!(confirmed.body["state"] == "RESOLVED", "{}", confirmed.body);
    Ok(())
}

/// The channel corrects its bill, and the far sides speak again: tickets close themselves.
async fn corrected(stack: &Stack, day: Day, before: &[Value]) -> anyhow::Result<()> {
    stack.sim().clear_bill_faults().await?;
    stack.sim().clear_faults().await?;
    println!("   The wallet corrects its bill and answers again; what stood still goes on:");
    let stood_still =
        ["WALLET_PAID_LOCAL_OPEN", "LOCAL_PAID_WALLET_NOTHING", "WALLET_REFUNDED_LOCAL_REFUNDING"];
    for ticket in before.iter().filter(|ticket| stood_still.contains(&text(&ticket["findings"][0], "kind"))) {
        let flow_id = text(ticket, "flow_id");
        stack.api(0).with_key(Keys::ON_CALL).wait_for_end(flow_id, STORY_END).await?;
    }
    run(stack, day, DIFFERENCES).await?;
    let left = tickets(stack, "open=true&limit=100").await?;
    println!(
        "   {} of {} tickets closed themselves. Left for people:",
        before.len() - left.len() - 1,
        before.len()
    );
    for ticket in &left {
        println!("     {:<18} {}", text(ticket, "order_no"), text(&ticket["findings"][0], "kind"));
    }
    let kinds: BTreeSet<&str> = left.iter().map(|ticket| text(&ticket["findings"][0], "kind")).collect();
    let expected = BTreeSet::from(["BENEFIT_OWNED_BY_OTHER", "BENEFIT_WITHOUT_PAYMENT"]);
    anyhow::ensure!(kinds == expected, "left are {kinds:?}");
    Ok(())
}
