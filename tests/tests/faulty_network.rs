//! The network goes wrong under load, in every way the fault proxy knows, on each of the product's three ways out:
//! clients hear the truth in bounded time, nothing is lost or doubled, and all goes on by itself.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::fault_proxy::{Direction, Fault, FaultProxy};
use e2e::{Crowd, Database, Flavor, Manners, Paths, Site};
use xtask::stack::{Patience, Tuning, wait_until};

/// The limits of the services are short, so that each fault lasts long enough to run into them.
const SETTINGS: [(&str, &str); 2] =
    [("PAY__DATABASE__STATEMENT_TIMEOUT_MS", "1200"), ("PAY__DATABASE__ACQUIRE_TIMEOUT_MS", "800")];
/// Longer than any of those limits.
const STRIKES: Duration = Duration::from_millis(1_800);
/// Until the server must have noticed that a connection is dead: the limits of its sessions, and some.
const FREE: Duration = Duration::from_secs(30);
/// As configured by default.
const PARTITIONS: u32 = 8;
/// Payments that must end well within their own request once a fault is over.
const ENDS: u32 = 10;
/// What the services say, as errors, of what the suites bring about.
const EXPECTED: [&str; 2] = ["round failed; the next one starts over", "error returned from after_connect"];

const FAULTS: [(&str, Fault); 7] = [
    ("latency", Fault::Latency { each_way: Duration::from_millis(40) }),
    ("reset", Fault::Reset),
    ("half-open", Fault::HalfOpen),
    ("cut answer", Fault::CutAnswer { after_bytes: 40 }),
    ("black hole", Fault::BlackHole(Direction::Both)),
    ("black hole outwards", Fault::BlackHole(Direction::ToServer)),
    ("black hole inwards", Fault::BlackHole(Direction::ToClient)),
];

e2e::on_both_servers! {
    on_each_way_out within 150 s;
}

e2e::on_mysql! {
    connections_forgotten_by_the_network within 120 s;
}

fn tuning() -> Tuning {
    Tuning { claim_ms: 1_000, call_timeout_ms: 600, round_interval_ms: 100, ..Tuning::default() }
}

async fn on_each_way_out(flavor: Flavor) -> anyhow::Result<()> {
    let database = Database::shared(flavor, "net").await?;
    let (mut site, paths) = Paths::open(database, tuning(), (2, 1), &SETTINGS).await?;
    let pids = site.service_pids();
    let manners = Manners { name: "net", clients: 8, pause: Duration::from_millis(50), wait_s: 1 };
    let crowd = Crowd::start(&[site.stack.api(0), site.stack.api(1)], manners);
    crowd.ends(ENDS).await.context("before any fault")?;
    let ways = match flavor {
        Flavor::MySql => {
            vec![("database", &paths.database), ("wallet", &paths.wallet), ("business", &paths.business)]
        }
        // Wallet and business system do not care which database it is.
        Flavor::MariaDb => vec![("database", &paths.database)],
    };
    for (name, way) in ways {
        for (kind, fault) in FAULTS {
            strike(&crowd, way, fault).await.with_context(|| format!("{kind} towards the {name}"))?;
        }
    }
    let accounts = crowd.reckon(&site, "network").await?;
    ensure!(accounts.given_up() > 0, "no client was told that nothing was recorded");
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close_expecting(&EXPECTED).await
}

/// One fault, for a while, and what comes after it.
async fn strike(crowd: &Crowd, way: &FaultProxy, fault: Fault) -> anyhow::Result<()> {
    let before = crowd.tally();
    way.set(fault);
    tokio::time::sleep(STRIKES).await;
    way.set(Fault::None);
    let recovered = crowd.ends(ENDS).await.context("afterwards")?;
    let since = crowd.tally().since(&before);
    eprintln!(
        "{fault:?}: {} taken, {} refused, {} unknown meanwhile; {ENDS} payments ended well {recovered:.1?} after it",
        since.taken, since.refused, since.unknown,
    );
    Ok(())
}

/// A router forgets every connection while transactions are open and the scanner holds its locks. The services connect
/// anew, but the server believes for long that the old ones live: what they hold must not hold up anybody for long.
async fn connections_forgotten_by_the_network(flavor: Flavor) -> anyhow::Result<()> {
    let database = Database::shared(flavor, "forgotten").await?;
    let (mut site, paths) = Paths::open(database, tuning(), (1, 2), &SETTINGS).await?;
    let pids = site.service_pids();
    let manners = Manners { name: "forgotten", clients: 24, pause: Duration::ZERO, wait_s: 1 };
    let crowd = Crowd::start(&[site.client()], manners);
    crowd.ends(ENDS).await?;
    let (mut held, mut rounds) = (0, 0);
    // Again and again, until some of them hold something at that moment.
    while held == 0 && rounds < 20 {
        paths.database.forget_live();
        held = free_again(&site).await.context("after the connections were forgotten")?;
        crowd.ends(ENDS).await.context("after the connections were forgotten")?;
        rounds += 1;
    }
    crowd.reckon(&site, "forgotten connections").await?;
    eprintln!("dead connections held {held} locks or transactions");
    ensure!(held > 0, "no connection held anything when it was forgotten: nothing was shown");
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close_expecting(&EXPECTED).await
}

/// Waits until the server has taken back what the connections of this moment hold, in so far as they are dead; how many
/// held something.
async fn free_again(site: &Site) -> anyhow::Result<usize> {
    let holders = holders(site).await?;
    let patience = Patience::of(FREE);
    let freed = || async {
        let left: Vec<_> =
            self::holders(site).await?.into_iter().filter(|held| holders.contains(held)).collect();
        Ok(left.is_empty().then_some(()))
    };
    wait_until("what dead connections hold to be free", FREE, freed).await?;
    eprintln!("{} holders, all free after {:.1?}", holders.len(), patience.elapsed());
    Ok(holders.len())
}

/// What is held on the server at this moment: each open transaction with its beginning, each sweep's lock with its
/// connection.
async fn holders(site: &Site) -> anyhow::Result<Vec<String>> {
    let schema = &site.database.schema;
    let locks: Vec<String> = (0..PARTITIONS)
        .map(|partition| {
            let name = format!(
                "CONCAT('pay-flow-sweep.', LEFT(SHA2('{schema}', 256), 16), '.{partition}.{PARTITIONS}')"
            );
            format!("SELECT CONCAT('lock {partition} of ', IS_USED_LOCK({name}))")
        })
        .collect();
    let sql = format!(
        "SELECT holder FROM (
            SELECT CONCAT('transaction ', trx_id, ' of ', trx_mysql_thread_id) AS holder
            FROM information_schema.innodb_trx WHERE trx_rows_modified > 0
            UNION ALL {}
         ) held WHERE holder IS NOT NULL",
        locks.join(" UNION ALL ")
    );
    site.database.texts(&sql).await
}
