//! MySQL group replication with three servers on this machine and a virtual address in front of the primary. The
//! primary is killed under load, the group elects another, the address moves there, and the traffic goes on: nothing that
//! was acknowledged is lost, no number is charged twice, and no service has to be restarted.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Crowd, Database, Flavor, Manners, Paths, local};
use sqlx::{Connection as _, MySqlConnection};
use xtask::db::{Server, ServerOptions};
use xtask::stack::{Patience, Tuning, free_port, wait_until};

const MEMBERS: usize = 3;
const FAIL_OVERS: u32 = 1;
const SETTLE: Duration = Duration::from_secs(60);
/// Until a group of three has noticed a death and elected another primary.
const ELECTION: Duration = Duration::from_secs(60);
const GROUP: &str = "6b8f8a52-58cc-4a2c-8d6e-0f4f0b1f3f11";
/// How a member that was away gets what it has missed.
const RECOVERY_ACCOUNT: &str = "
    SET SESSION sql_log_bin = 0;
    CREATE USER 'recovery'@'%' IDENTIFIED BY 'change-me-3';
    GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO 'recovery'@'%';
    SET SESSION sql_log_bin = 1;
    CHANGE REPLICATION SOURCE TO SOURCE_USER = 'recovery', SOURCE_PASSWORD = 'change-me-3'
        FOR CHANNEL 'group_replication_recovery'";

e2e::on_mysql! {
    of_a_replication_group within 240 s;
}

async fn of_a_replication_group(_: Flavor) -> anyhow::Result<()> {
    let mut group = Group::start().await?;
    let primary = group.primary().await?.context("a group that was just started has no primary")?;
    let database = Database::on(&group.members[primary], "failover").await?;
    let tuning = Tuning { claim_ms: 1_000, round_interval_ms: 100, ..Tuning::default() };
    let (mut site, paths) = Paths::open(database, tuning, (2, 1), &[]).await?;
    let (pids, way) = (site.service_pids(), &paths.database);
    let manners = Manners { name: "failover", clients: 16, pause: Duration::ZERO, wait_s: 1 };
    let crowd = Crowd::start(&[site.stack.api(0), site.stack.api(1)], manners);
    crowd.ends(20).await.context("before any fail-over")?;
    let mut primary = primary;
    for round in 1..=FAIL_OVERS {
        let before = crowd.tally();
        let outage = Patience::of(ELECTION);
        group.members[primary].kill().await?;
        // A router that does not know any better: it sends everybody to a member that takes no writes yet.
        way.point_at(local(group.members[(primary + 1) % MEMBERS].port()));
        crowd.refusals(10).await.context("while there is no primary")?;
        let dead = primary;
        primary = group.wait_for_primary(dead).await?;
        way.point_at(local(group.members[primary].port()));
        let elected = outage.elapsed();
        let recovered = crowd.ends(20).await.with_context(|| format!("after fail-over {round}"))?;
        let since = crowd.tally().since(&before);
        eprintln!(
            "fail-over {round}: member {dead} killed, member {primary} elected after {elected:.1?}; {} refused, {} unknown; \
             20 payments ended well {recovered:.1?} after that",
            since.refused, since.unknown,
        );
        group.rejoin(dead).await.context("the member that was killed comes back")?;
    }
    // The audit reads where the rows are now.
    site.database = site.database.moved_to(&group.members[primary]);
    let accounts = crowd.reckon(&site, "fail-over").await?;
    ensure!(accounts.given_up() > 0, "no client was told that nothing was recorded");
    ensure!(site.service_pids() == pids, "a service has ended");
    group.agree(&site.database.schema).await?;
    site.close_expecting(&["round failed; the next one starts over", "error returned from after_connect"])
        .await?;
    for mut member in group.members {
        member.stop().await?;
    }
    Ok(())
}

/// Three members, one of them the primary.
struct Group {
    members: Vec<Server>,
}

impl Group {
    async fn start() -> anyhow::Result<Group> {
        let mut addresses = Vec::new();
        for _ in 0..MEMBERS {
            addresses.push(format!("127.0.0.1:{}", free_port()?));
        }
        let mut group = Group { members: Vec::new() };
        for (number, address) in (1..).zip(&addresses) {
            let options = ServerOptions {
                buffer_pool_mib: 64,
                // Membership is told in its tables.
                performance_schema: true,
                extra_args: arguments(number, address, &addresses.join(",")),
                ..ServerOptions::new(Flavor::MySql)
            };
            let member = Server::start(options).await.context("a member of the group")?;
            member.run_sql(RECOVERY_ACCOUNT).await?;
            group.members.push(member);
        }
        group.members[0]
            .run_sql(
                "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION; \
                 SET GLOBAL group_replication_bootstrap_group = OFF",
            )
            .await?;
        for member in 1..MEMBERS {
            group.members[member].run_sql("START GROUP_REPLICATION").await?;
        }
        group.wait_for_all().await?;
        Ok(group)
    }

    /// The member that takes writes, as the members that answer see it.
    async fn primary(&self) -> anyhow::Result<Option<usize>> {
        for (index, member) in self.members.iter().enumerate() {
            let sql = "SELECT COUNT(*) FROM performance_schema.replication_group_members
                       WHERE member_id = @@server_uuid AND member_state = 'ONLINE' AND member_role = 'PRIMARY'
                         AND NOT @@GLOBAL.super_read_only";
            if member.pid().is_some() && number(member, sql).await? == 1 {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    async fn wait_for_primary(&self, dead: usize) -> anyhow::Result<usize> {
        let elected = || async { Ok(self.primary().await?.filter(|primary| *primary != dead)) };
        wait_until("another primary", ELECTION, elected).await
    }

    /// Every member is online and knows the others to be.
    async fn wait_for_all(&self) -> anyhow::Result<()> {
        let sql =
            "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'";
        for member in &self.members {
            let all_there = || async {
                let online = number(member, sql).await?;
                Ok((usize::try_from(online)? == MEMBERS).then_some(()))
            };
            wait_until("all members to be online", ELECTION, all_there).await?;
        }
        Ok(())
    }

    /// Starts a killed member again, and has it catch up.
    async fn rejoin(&mut self, member: usize) -> anyhow::Result<()> {
        let patience = Patience::of(ELECTION);
        self.members[member].restart().await?;
        self.members[member].run_sql("START GROUP_REPLICATION").await?;
        self.wait_for_all().await?;
        eprintln!("member {member} is back after {:.1?}", patience.elapsed());
        Ok(())
    }

    /// Every member holds the same flows and the same history.
    async fn agree(&self, schema: &str) -> anyhow::Result<()> {
        let sql = format!(
            "SELECT (SELECT SUM(CRC32(CONCAT_WS('/', id, status, version))) FROM `{schema}`.internal_pay_flow) * 2
                  + (SELECT SUM(CRC32(CONCAT_WS('/', flow_id, version, to_status))) FROM `{schema}`.pay_flow_event)"
        );
        let sql = format!("SELECT CAST(({sql}) AS SIGNED)");
        let first = number(&self.members[0], &sql).await?;
        for member in &self.members[1..] {
            let same = || async { Ok((number(member, &sql).await? == first).then_some(())) };
            wait_until("all members to hold the same", SETTLE, same).await?;
        }
        eprintln!("all {MEMBERS} members hold the same rows (sum {first})");
        Ok(())
    }
}

/// One whole number that a server gives.
async fn number(server: &Server, sql: &str) -> anyhow::Result<i64> {
    let mut root = MySqlConnection::connect(&server.root_url()).await?;
    let number = sqlx::query_scalar(sqlx::AssertSqlSafe(sql.to_owned())).fetch_one(&mut root).await?;
    root.close().await?;
    Ok(number)
}

/// What makes a server a member. Everything stays on loopback, so nothing is encrypted.
fn arguments(number: u32, address: &str, all: &str) -> Vec<String> {
    [
        "plugin-load-add=group_replication.so",
        "gtid-mode=ON",
        "enforce-gtid-consistency=ON",
        "report-host=127.0.0.1",
        "loose-group-replication-start-on-boot=OFF",
        "loose-group-replication-bootstrap-group=OFF",
        "loose-group-replication-single-primary-mode=ON",
        "loose-group-replication-ssl-mode=DISABLED",
        "loose-group-replication-recovery-use-ssl=OFF",
        "loose-group-replication-recovery-get-public-key=ON",
        "loose-group-replication-ip-allowlist=127.0.0.1/8",
        // A new primary serves nobody before it has what the old one acknowledged.
        "loose-group-replication-consistency=BEFORE_ON_PRIMARY_FAILOVER",
        // A member that is silent is gone: no further patience, for the suite's time.
        "loose-group-replication-member-expel-timeout=0",
        &format!("server-id={number}"),
        &format!("loose-group-replication-group-name={GROUP}"),
        &format!("loose-group-replication-local-address={address}"),
        &format!("loose-group-replication-group-seeds={all}"),
    ]
    .iter()
    .map(|argument| format!("--{argument}"))
    .collect()
}
