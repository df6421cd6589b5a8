//! The last chapter: the day is compared with the wallet's bill, first as it is, then with one difference of each kind.

mod plant;
mod rows;
mod tickets;

use std::path::PathBuf;
use std::process::Output;

use anyhow::Context as _;
use serde_json::json;
use sqlx::MySqlConnection;
use xtask::stack::{Audit, BillChannel, Keys, Stack};

use self::plant::{Planted, plant_all};
use super::scenes::{Story, chapter, expect_status, say};

/// Kinds of difference that are planted: all that the product knows.
const KINDS: usize = 26;
/// How `pay-recon` ends where nothing differs, and where something does.
const CLEAN: i32 = 0;
const DIFFERENCES: i32 = 3;

/// Plays it over what the stories left behind; where the report lies.
pub(super) async fn play(
    stack: &Stack,
    database: &mut MySqlConnection,
    channel: &BillChannel,
    stories: &[Story],
    audit: &Audit,
) -> anyhow::Result<PathBuf> {
    chapter(8, "The day is compared with the wallet's bill; then everything is wrong that can be");
    println!("   The wallet's day is {} in {}, where it is about noon.", channel.day(), channel.zone());
    let sim = stack.sim();
    sim.clear_faults().await?;
    // Otherwise the service would hear of what is moved past it.
    sim.clear_callbacks().await?;
    compare(stack, channel, CLEAN).await?;
    say("Every payment above agrees with the bill and with the business system.");
    say(
        "Now one difference of each kind is planted: in the bill, in both systems' books, in rows written by hand.",
    );
    let mut planted = plant_all(database, &sim, stories, audit).await?;
    compare(stack, channel, DIFFERENCES).await?;
    let on_call = stack.api(0).with_key(Keys::ON_CALL);
    let open = tickets::open(&on_call).await?;
    tickets::print(&open);
    let kinds: std::collections::BTreeSet<&String> = planted.differences.values().flatten().collect();
    anyhow::ensure!(kinds.len() == KINDS, "{} kinds were planted, not {KINDS}", kinds.len());
    expect(&planted, &open)?;
    println!("   {KINDS} kinds planted in {} orders; each was found, and nothing else.", open.len());
    corrected(stack, channel, &mut planted).await?;
    two_people(stack, &planted).await?;
    report(stack, channel).await
}

fn expect(planted: &Planted, open: &[serde_json::Value]) -> anyhow::Result<()> {
    let unlike = tickets::unlike(&planted.differences, &tickets::differences(open));
    anyhow::ensure!(unlike.is_empty(), "tickets are not what was planted:\n{}", unlike.join("\n"));
    Ok(())
}

/// Fetches the bill, runs `pay-recon run`, and prints what it says.
async fn compare(stack: &Stack, channel: &BillChannel, expected: i32) -> anyhow::Result<()> {
    channel.fetch(&stack.sim()).await?;
    let day = channel.day().to_string();
    println!("\n   $ pay-recon run --channel {} --date {day}", BillChannel::NAME);
    let output = stack.recon(&["run", "--channel", BillChannel::NAME, "--date", &day], None).await?;
    ended(&output, expected)?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        println!("     {line}");
    }
    println!("   exit status {expected}\n");
    Ok(())
}

fn ended(output: &Output, expected: i32) -> anyhow::Result<()> {
    anyhow::ensure!(
        output.status.code() == Some(expected),
        "pay-recon ended with {}, expected {expected}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The channel corrects its bill: the ticket closes by itself, and the others stay.
async fn corrected(stack: &Stack, channel: &BillChannel, planted: &mut Planted) -> anyhow::Result<()> {
    let order_no = planted.order_of("AMOUNT_DIFFERS")?.to_owned();
    println!("   The channel corrects the amount of {order_no} in its bill:");
    planted.correct_bill(&stack.sim(), &order_no).await?;
    compare(stack, channel, DIFFERENCES).await?;
    let on_call = stack.api(0).with_key(Keys::ON_CALL);
    let ticket = tickets::of_order(&on_call, &order_no).await?;
    anyhow::ensure!(ticket["state"] == "AUTO_FIXED", "the corrected order's ticket is not closed: {ticket}");
    expect(planted, &tickets::open(&on_call).await?)?;
    println!(
        "   Ticket {} closed itself: {}. The others are as they were.",
        tickets::text(&ticket, "ticket_id"),
        tickets::text(&ticket, "state")
    );
    Ok(())
}

/// What moves money is ended by two people.
async fn two_people(stack: &Stack, planted: &Planted) -> anyhow::Result<()> {
    let on_call = stack.api(0).with_key(Keys::ON_CALL);
    let ticket = tickets::of_order(&on_call, planted.order_of("WALLET_PAID_NO_FLOW")?).await?;
    let path = format!("/recon/tickets/{}", tickets::text(&ticket, "ticket_id"));
    let reason = json!({ "reason": "charged by the old checkout, paid back by hand" });
    let proposed = on_call.post_json(&format!("{path}/resolve"), &reason).await?;
    expect_status(&proposed, &[200])?;
    anyhow::ensure!(proposed.body["state"] == "OPEN", "one person ended it alone: {}", proposed.body);
    let alone = on_call.post(&format!("{path}/confirm")).await?;
    expect_status(&alone, &[409])?;
    let confirmed = on_call.with_key(Keys::OPERATOR).post(&format!("{path}/confirm")).await?;
    expect_status(&confirmed, &[200])?;
    anyhow::ensure!(confirmed.text("state") == "RESOLVED", "not resolved: {}", confirmed.body);
    println!(
        "   Ticket {} moves money: one person proposed its end and could not confirm it ({}); another one did: {}.",
        tickets::text(&ticket, "ticket_id"),
        alone.text("code"),
        confirmed.text("state")
    );
    Ok(())
}

/// The day's page for finance, in a file.
async fn report(stack: &Stack, channel: &BillChannel) -> anyhow::Result<PathBuf> {
    let day = channel.day().to_string();
    let output = stack.recon(&["report", "--channel", BillChannel::NAME, "--date", &day], None).await?;
    ended(&output, DIFFERENCES)?;
    let path = stack.dir().join(format!("recon-{day}.html"));
    std::fs::write(&path, &output.stdout).with_context(|| format!("can not write {}", path.display()))?;
    Ok(path)
}
