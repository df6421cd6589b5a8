//! Reconciliation over real payments, a real database and a bill in a file: found exactly, found again, and found just the
//! same after a process died at any of its statements.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, RandomState};
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Site};
use flow_core::crash::{Side, Spot};
use xtask::progress::Stopwatch;
use xtask::stack::{Payment, Profile, Tuning, wait_until};

const END: Duration = Duration::from_secs(60);

e2e::on_both_servers! {
    a_day_is_compared_and_compared_again within 180 s;
    the_daemon_catches_up_and_says_what_is_late within 120 s;
    a_run_that_dies_anywhere_leaves_the_same_tickets within 480 s;
    a_run_killed_at_random_leaves_the_same_tickets within 300 s;
}

/// Spots that a run over these payments does not pass, or only when it takes long: what they do is shown by the store's suite.
const NOT_PASSED: [&str; 7] = [
    "recon.part_keep",
    "recon.target_flows",
    "recon.carry_put",
    "recon.carry_take",
    "recon.ticket_find",
    "recon.trail",
    "recon.summary",
];

type Tickets = BTreeMap<String, (String, String)>;

struct World {
    site: Site,
    folder: PathBuf,
    day: String,
    rows: Vec<String>,
}

fn config(folder: &std::path::Path) -> String {
    let folder = folder.display();
    format!(
        r#"
[recon]
claim_ms = 1000
evidence_folder = "{folder}/kept"

[recon.channels.main]
wallet = "main"
format = "generic-csv"
zone = "UTC"
exponents = {{ CNY = 2, POINTS = 0 }}
file = "{folder}/{{date}}.csv"
near_midnight_ms = 0

[recon.channels.main.layout]
amounts = {{ minor = true }}
kind = {{ column = {{ name = "kind", payment = ["PAYMENT"], refund = ["REFUND"] }} }}

[recon.channels.main.layout.columns]
order_no = "no"
refund_order_no = "refund_no"
amount = "amount"
currency = "currency"
user = "user"
channel_ref = "ref"
at = "at"

"#
    )
}

impl World {
    /// So many payments, all ended, and the bill that agrees with them.
    async fn open(flavor: Flavor, suite: &str, profile: Profile, payments: u64) -> anyhow::Result<World> {
        let folder = xtask::target_dir().join("e2e").join(format!(
            "{}-{suite}-bills-{}",
            flavor.slug(),
            std::process::id()
        ));
        std::fs::create_dir_all(&folder)?;
        let tuning = Tuning { extra: config(&folder), ..Tuning::default() };
        let database = Database::shared(flavor, suite).await?;
        let mut site = Site::open_empty(database, tuning, profile).await?;
        site.stack.start_api().await?;
        for number in 0..payments {
            let payment = Payment::new(700 + number, "recon");
            let paid = site.client().pay(&format!("recon-{number}"), &payment.body(), Some(5)).await?;
            let end = site.client().wait_for_end(paid.flow_id(), END).await?;
            ensure!(end.status_word() == "BIZ_SUCCESS", "{}", end.body);
        }
        let rows = site
            .database
            .texts(
                "SELECT CONCAT_WS(',', trade_order_no, '', 'PAYMENT', amount, currency, user_id, \
                   COALESCE(wallet_pay_txn, ''), DATE_FORMAT(paid_at, '%Y-%m-%d %H:%i:%s')) \
                 FROM internal_pay_flow WHERE paid_at IS NOT NULL ORDER BY id",
            )
            .await?;
        let day =
            site.database.texts("SELECT CAST(MAX(DATE(paid_at)) AS CHAR) FROM internal_pay_flow").await?;
        let day = day.into_iter().next().context("nothing was paid")?;
        Ok(World { site, folder, day, rows })
    }

    fn write_bill(&self, rows: &[String]) -> anyhow::Result<()> {
        let text = format!("no,refund_no,kind,amount,currency,user,ref,at\n{}\n", rows.join("\n"));
        Ok(std::fs::write(self.folder.join(format!("{}.csv", self.day)), text)?)
    }

    async fn run(&self, more: &[&str], order: Option<&std::path::Path>) -> anyhow::Result<Output> {
        let arguments = [&["run", "--channel", "main", "--date", &self.day], more].concat();
        self.site.stack.recon(&arguments, order).await
    }

    /// Runs the day until it is compared: a claim that died must run out first.
    async fn run_until_compared(&self) -> anyhow::Result<Output> {
        wait_until("the day to be compared", Duration::from_secs(20), || async {
            let output = self.run(&[], None).await?;
            Ok([Some(0), Some(3)].contains(&output.status.code()).then_some(output))
        })
        .await
    }

    /// State and kinds of every ticket that has a difference, by order.
    async fn tickets(&self) -> anyhow::Result<Tickets> {
        let lines = self
            .site
            .database
            .texts(
                "SELECT CONCAT_WS(' ', order_no, state, kinds) FROM recon_ticket WHERE finding_count > 0 ORDER BY order_no",
            )
            .await?;
        let split = |line: String| {
            let mut words = line.split(' ').map(str::to_owned);
            let mut word = || words.next().unwrap_or_default();
            (word(), (word(), word()))
        };
        Ok(lines.into_iter().map(split).collect())
    }

    fn number(row: &str) -> String {
        row.split(',').next().unwrap_or_default().to_owned()
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn open(kinds: &str) -> (String, String) {
    ("OPEN".to_owned(), kinds.to_owned())
}

async fn a_day_is_compared_and_compared_again(flavor: Flavor) -> anyhow::Result<()> {
    let world = World::open(flavor, "recon", Profile::Debug, 8).await?;
    world.write_bill(&world.rows)?;
    let clean = world.run(&[], None).await?;
    ensure!(clean.status.code() == Some(0), "{}", said(&clean));
    ensure!(world.tickets().await?.is_empty());

    let mut rows = world.rows.clone();
    let missing = World::number(&rows.remove(0));
    let wrong = World::number(&rows[0]);
    rows[0] = rows[0].replacen(",CNY,", "1,CNY,", 1);
    rows.push(rows[1].clone());
    let doubled = World::number(&rows[1]);
    rows.push(rows[2].replacen(&World::number(&rows[2]), "foreign-1", 1));
    let expected: Tickets = [
        (missing, open("LOCAL_SUCCESS_WALLET_NOTHING")),
        (wrong, open("AMOUNT_DIFFERS")),
        (doubled, open("DUPLICATE_BILL_ROW")),
        ("foreign-1".to_owned(), open("WALLET_PAID_NO_FLOW")),
    ]
    .into();
    world.write_bill(&rows)?;
    let dry = world.run(&["--dry-run"], None).await?;
    ensure!(dry.status.code() == Some(3) && world.tickets().await?.is_empty(), "{}", said(&dry));
    let first = world.run(&[], None).await?;
    ensure!(first.status.code() == Some(3), "{}", said(&first));
    let found = world.tickets().await?;
    ensure!(found == expected, "{found:#?}\n{}", said(&first));
    let versions = "SELECT CAST(COALESCE(SUM(version), 0) + COUNT(*) * 1000 AS SIGNED) FROM recon_ticket";
    let before = world.site.database.number(versions).await?;
    rows.reverse();
    world.write_bill(&rows)?;
    let second = world.run(&[], None).await?;
    ensure!(second.status.code() == Some(3), "{}", said(&second));
    ensure!(world.site.database.number(versions).await? == before, "a repeated run wrote tickets");
    in_parts(&world, &expected).await?;
    refused(&world, &expected).await?;
    people(&world).await?;
    world.site.close_expecting(&["the day was not compared", "not done"]).await
}

/// Two processes, half each: one batch, the same tickets.
async fn in_parts(world: &World, expected: &Tickets) -> anyhow::Result<()> {
    let (one, other) =
        tokio::try_join!(world.run(&["--partition", "0/2"], None), world.run(&["--partition", "1/2"], None))?;
    for half in [&one, &other] {
        ensure!([Some(0), Some(3)].contains(&half.status.code()), "{}", said(half));
    }
    ensure!(world.tickets().await? == *expected);
    let batches = world.site.database.texts("SELECT CONCAT_WS(' ', state, parts) FROM recon_batch").await?;
    ensure!(batches == ["DONE 2"], "{batches:?}");
    Ok(())
}

/// A bill that is cut off changes nothing but the batch.
async fn refused(world: &World, expected: &Tickets) -> anyhow::Result<()> {
    let path = world.folder.join(format!("{}.csv", world.day));
    let whole = std::fs::read(&path)?;
    std::fs::write(&path, &whole[..whole.len() / 2])?;
    let output = world.run(&[], None).await?;
    ensure!(output.status.code() == Some(1), "{}", said(&output));
    ensure!(world.tickets().await? == *expected);
    let batches = world.site.database.texts("SELECT state FROM recon_batch").await?;
    ensure!(batches == ["FAILED"], "{batches:?}");
    std::fs::write(&path, whole)?;
    world.run(&[], None).await?;
    Ok(())
}

/// On the command line: one person proposes, another one confirms.
async fn people(world: &World) -> anyhow::Result<()> {
    let id = world
        .site
        .database
        .number("SELECT id FROM recon_ticket WHERE order_no = 'foreign-1'")
        .await?
        .to_string();
    let act =
        async |arguments: &[&str]| world.site.stack.recon(&[&["tickets"], arguments].concat(), None).await;
    let proposed = act(&["resolve", &id, "--reason", "paid back", "--by", "ann"]).await?;
    ensure!(proposed.status.success(), "{}", said(&proposed));
    let alone = act(&["confirm", &id, "--by", "ann"]).await?;
    ensure!(!alone.status.success(), "{}", said(&alone));
    let confirmed = act(&["confirm", &id, "--by", "bob"]).await?;
    ensure!(confirmed.status.success(), "{}", said(&confirmed));
    let shown = act(&["show", &id]).await?;
    let text = said(&shown);
    ensure!(text.contains("RESOLVED") && text.contains("PROPOSED") && text.contains("bob"), "{text}");
    let again = world.run(&[], None).await?;
    ensure!(again.status.code() == Some(3), "{}", said(&again));
    ensure!(world.tickets().await?["foreign-1"].0 == "RESOLVED", "what people settled was opened again");
    Ok(())
}

/// Yesterday's bill is there, the day before yesterday's is not; until it is, that day is late.
async fn the_daemon_catches_up_and_says_what_is_late(flavor: Flavor) -> anyhow::Result<()> {
    let port = xtask::stack::free_port()?;
    let folder = xtask::target_dir().join("e2e").join(format!(
        "{}-recon-daemon-{}",
        flavor.slug(),
        std::process::id()
    ));
    std::fs::create_dir_all(&folder)?;
    let daemon =
        format!("look_interval_ms = 200\ncatch_up_days = 2\nlisten = \"127.0.0.1:{port}\"\nevidence_folder");
    let config = config(&folder).replacen("evidence_folder", &daemon, 1).replacen(
        "near_midnight_ms = 0",
        "near_midnight_ms = 0\nhour = 0\ndeadline_hour = 0",
        1,
    );
    let tuning = Tuning { extra: config, ..Tuning::default() };
    let database = Database::shared(flavor, "recon_daemon").await?;
    let site = Site::open_empty(database, tuning, Profile::Debug).await?;
    let days = site
        .database
        .texts(
            "SELECT CAST(UTC_DATE() - INTERVAL 1 DAY AS CHAR) UNION ALL SELECT CAST(UTC_DATE() - INTERVAL 2 DAY AS CHAR)",
        )
        .await?;
    let [yesterday, before] = days.as_slice() else { anyhow::bail!("{days:?}") };
    let empty = "no,refund_no,kind,amount,currency,user,ref,at\n";
    std::fs::write(folder.join(format!("{yesterday}.csv")), empty)?;
    let mut child = site.stack.spawn_recon_daemon()?;
    let client = xtask::stack::http_client(Duration::from_secs(2));
    let says = async |late: &str| {
        let line = format!("recon_late_days{{channel=\"main\"}} {late}");
        wait_until(&line, Duration::from_secs(30), || async {
            let Ok(answer) = client.get(format!("http://127.0.0.1:{port}/metrics")).send().await else {
                return Ok(None);
            };
            Ok(answer.text().await?.lines().any(|found| found == line).then_some(()))
        })
        .await
    };
    says("1").await?;
    let done = "SELECT CONCAT_WS(' ', business_day, state) FROM recon_batch ORDER BY business_day";
    ensure!(site.database.texts(done).await? == [format!("{yesterday} DONE")]);
    std::fs::write(folder.join(format!("{before}.csv")), empty)?;
    says("0").await?;
    ensure!(site.database.texts(done).await? == [format!("{before} DONE"), format!("{yesterday} DONE")]);
    let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    rustix::process::kill_process(pid.context("the daemon has ended")?, rustix::process::Signal::TERM)?;
    let status =
        tokio::time::timeout(Duration::from_secs(20), child.wait()).await.context("it does not stop")??;
    ensure!(status.success(), "the daemon ended with {status}");
    site.close_expecting(&["was not compared by its deadline"]).await
}

async fn a_run_that_dies_anywhere_leaves_the_same_tickets(flavor: Flavor) -> anyhow::Result<()> {
    let world = World::open(flavor, "recon_dies", Profile::CrashPoints, 4).await?;
    let mut rows = world.rows.clone();
    let missing = World::number(&rows.remove(0));
    let base: Tickets = [(missing, open("LOCAL_SUCCESS_WALLET_NOTHING"))].into();
    // The neighbour's batch is there, so that its parts are read.
    world.site.database.execute(
        "INSERT INTO recon_batch (channel, business_day, state, parts, created_at) \
         SELECT 'main', DATE(MAX(paid_at)) - INTERVAL 1 DAY, 'PENDING', 1, UTC_TIMESTAMP(3) FROM internal_pay_flow",
    ).await?;
    world.write_bill(&rows)?;
    world.run_until_compared().await?;
    let order = world.folder.join("order");
    let mut not_passed = BTreeSet::new();
    let spots = Spot::ALL.iter().filter(|spot| spot.as_str().starts_with("recon."));
    for (number, (spot, side)) in spots.flat_map(|spot| Side::ALL.map(|side| (*spot, side))).enumerate() {
        let foreign = format!("foreign-{number}");
        let row = rows[0].replacen(&World::number(&rows[0]), &foreign, 1);
        world.write_bill(&[rows.clone(), vec![row]].concat())?;
        let point = format!("{}.{}", spot.as_str(), side.as_str());
        std::fs::write(&order, format!("{point} 1 order-{number}"))?;
        let ended = world.run(&[], Some(&order)).await?;
        if ended.status.code().is_some() {
            not_passed.insert(spot.as_str());
        }
        world.run_until_compared().await.with_context(|| format!("after dying at {point}"))?;
        let mut expected = base.clone();
        expected.insert(foreign, open("WALLET_PAID_NO_FLOW"));
        let found = world.tickets().await?;
        ensure!(found == expected, "after dying at {point}: {found:#?}");
    }
    let expected: BTreeSet<&str> = NOT_PASSED.into();
    ensure!(not_passed.is_subset(&expected), "no process died at {not_passed:?}");
    let doubled = "SELECT COUNT(*) - COUNT(DISTINCT channel, order_no) FROM recon_ticket";
    ensure!(world.site.database.number(doubled).await? == 0);
    world.site.close_expecting(&["the day was not compared"]).await
}

/// Killed from outside, wherever it happens to be: in the middle of a statement, of the sort, of starting or stopping.
async fn a_run_killed_at_random_leaves_the_same_tickets(flavor: Flavor) -> anyhow::Result<()> {
    const KILLS: u32 = 20;
    let world = World::open(flavor, "recon_kills", Profile::Debug, 6).await?;
    let mut rows = world.rows.clone();
    let missing = World::number(&rows.remove(0));
    let base: Tickets = [(missing, open("LOCAL_SUCCESS_WALLET_NOTHING"))].into();
    world.write_bill(&rows)?;
    let watch = Stopwatch::start();
    world.run_until_compared().await?;
    let whole = watch.elapsed();
    let seed = RandomState::new().hash_one(0);
    let mut caught = 0;
    for number in 0..KILLS {
        let foreign = format!("foreign-{number}");
        let row = rows[0].replacen(&World::number(&rows[0]), &foreign, 1);
        world.write_bill(&[rows.clone(), vec![row]].concat())?;
        let mut child = world.site.stack.spawn_recon(&["run", "--channel", "main", "--date", &world.day])?;
        let share = u32::try_from(BuildHasherDefault::<DefaultHasher>::new().hash_one((seed, number)) % 900)?;
        let after = whole * share / 1_000;
        tokio::time::sleep(after).await;
        caught += u32::from(child.try_wait()?.is_none());
        child.kill().await?;
        world
            .run_until_compared()
            .await
            .with_context(|| format!("killed after {after:?} of {whole:?}, seed {seed}"))?;
        let mut expected = base.clone();
        expected.insert(foreign, open("WALLET_PAID_NO_FLOW"));
        let found = world.tickets().await?;
        ensure!(found == expected, "killed after {after:?} of {whole:?}: {found:#?}");
    }
    eprintln!("{caught} of {KILLS} runs of {whole:?} killed on {flavor}, seed {seed}");
    ensure!(caught >= KILLS / 2, "only {caught} of {KILLS} runs were still under way");
    // Each was opened once, by whichever run came so far.
    let trail = "SELECT COUNT(*) FROM recon_ticket t WHERE \
                 (SELECT COUNT(*) FROM recon_ticket_trail e WHERE e.ticket_id = t.id AND e.kind = 'OPENED') <> 1";
    ensure!(world.site.database.number(trail).await? == 0, "a ticket was opened twice, or never");
    let doubled = "SELECT COUNT(*) - COUNT(DISTINCT channel, order_no) FROM recon_ticket";
    ensure!(world.site.database.number(doubled).await? == 0);
    world.site.close_expecting(&["the day was not compared"]).await
}
