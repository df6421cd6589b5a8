//! Private servers for real, on both flavours: they answer, survive a crash with their data, live side by side, refuse
//! triggers as a production server does, and do not outlive their owner.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test they serve")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use sqlx::{Connection as _, MySqlConnection, Row as _};
use xtask::db::{Flavor, NATS_SLUG, NatsError, NatsServer, Server, ServerError, ServerOptions};
use xtask::programs::is_missing;

/// Whether `cargo xtask test` found that this machine cannot have `flavor` and said so.
fn known_missing(flavor: Flavor) -> bool {
    is_missing(flavor.slug())
}

/// A server with a small buffer pool, or `None` where it is known not to be had.
async fn start(flavor: Flavor) -> Option<Server> {
    if known_missing(flavor) {
        eprintln!("not tested on {flavor}: it cannot be had here");
        return None;
    }
    let options = ServerOptions { buffer_pool_mib: 64, ..ServerOptions::new(flavor) };
    Some(Server::start(options).await.unwrap())
}

async fn number(url: &str, query: &'static str) -> Result<i64, sqlx::Error> {
    let mut connection = MySqlConnection::connect(url).await?;
    let row = sqlx::query(query).fetch_one(&mut connection).await?;
    row.try_get(0)
}

async fn lives_through_a_crash(flavor: Flavor) {
    let Some(mut server) = start(flavor).await else { return };
    let port = server.port();

    let mut connection = MySqlConnection::connect(&server.root_url()).await.unwrap();
    let version: String = sqlx::query_scalar("SELECT VERSION()").fetch_one(&mut connection).await.unwrap();
    assert_eq!(version.contains("MariaDB"), flavor == Flavor::MariaDb, "{version}");
    let settings = "SELECT CAST(@@sync_binlog + @@innodb_flush_log_at_trx_commit + @@log_bin AS SIGNED)";
    assert_eq!(number(&server.root_url(), settings).await.unwrap(), 3, "durable, with a binary log");

    let url = server.create_schema("kept").await.unwrap();
    server.run_sql_in("kept", "CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (41), (1);").await.unwrap();
    server.kill().await.unwrap();
    assert!(number(&url, "SELECT 1").await.is_err(), "a killed server answered");
    assert!(matches!(server.kill().await, Err(ServerError::NotRunning { .. })));

    server.restart().await.unwrap();
    assert_eq!(server.port(), port);
    let sum = "SELECT CAST(SUM(n) AS SIGNED) FROM t";
    assert_eq!(number(&url, sum).await.unwrap(), 42);

    server.pause().await.unwrap();
    let frozen = tokio::time::timeout(Duration::from_millis(200), number(&url, sum)).await;
    assert!(frozen.is_err(), "a paused server answered");
    server.resume().await.unwrap();
    assert_eq!(number(&url, sum).await.unwrap(), 42);

    server.stop().await.unwrap();
    server.restart().await.unwrap();
    assert_eq!(number(&url, sum).await.unwrap(), 42);
    server.drop_schema("kept").await.unwrap();
    assert!(number(&url, sum).await.is_err());
}

#[tokio::test]
async fn mysql_lives_through_a_crash() {
    lives_through_a_crash(Flavor::MySql).await;
}

#[tokio::test]
async fn mariadb_lives_through_a_crash() {
    lives_through_a_crash(Flavor::MariaDb).await;
}

const TABLE: &str = "CREATE TABLE t (n BIGINT PRIMARY KEY)";
const TRIGGER: &str = "CREATE TRIGGER t_guard BEFORE UPDATE ON t FOR EACH ROW \
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no updates'";

async fn run(url: &str, sql: &'static str) -> Result<(), sqlx::Error> {
    let mut connection = MySqlConnection::connect(url).await?;
    sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
}

fn error_number(result: Result<(), sqlx::Error>) -> u16 {
    let error = result.unwrap_err();
    let error = error.as_database_error().unwrap_or_else(|| panic!("not the server's refusal: {error}"));
    error.downcast_ref::<sqlx::mysql::MySqlDatabaseError>().number()
}

/// Why migrations need `SUPER` or `log_bin_trust_function_creators`, on a server with a binary log as production has.
async fn a_trigger_needs_super_or_the_variable(flavor: Flavor) {
    let Some(server) = start(flavor).await else { return };
    server.create_schema("rights").await.unwrap();
    let account = "CREATE USER 'm'@'%' IDENTIFIED BY 'm'; GRANT ALL PRIVILEGES ON rights.* TO 'm'@'%';";
    server.run_sql(account).await.unwrap();
    let migrations = format!("mysql://m:m@127.0.0.1:{}/rights", server.port());
    run(&migrations, TABLE).await.unwrap();
    assert_eq!(error_number(run(&migrations, TRIGGER).await), 1419);

    server.run_sql("GRANT SUPER ON *.* TO 'm'@'%'").await.unwrap();
    run(&migrations, TRIGGER).await.unwrap();
    run(&migrations, "DROP TRIGGER t_guard").await.unwrap();

    server.run_sql("REVOKE SUPER ON *.* FROM 'm'@'%'").await.unwrap();
    assert_eq!(error_number(run(&migrations, TRIGGER).await), 1419);
    server.run_sql("SET GLOBAL log_bin_trust_function_creators = 1").await.unwrap();
    run(&migrations, TRIGGER).await.unwrap();
}

#[tokio::test]
async fn on_mysql_a_trigger_needs_super_or_the_variable() {
    a_trigger_needs_super_or_the_variable(Flavor::MySql).await;
}

#[tokio::test]
async fn on_mariadb_a_trigger_needs_super_or_the_variable() {
    a_trigger_needs_super_or_the_variable(Flavor::MariaDb).await;
}

#[tokio::test]
async fn two_servers_of_one_flavour_live_side_by_side() {
    let flavor = if known_missing(Flavor::MariaDb) { Flavor::MySql } else { Flavor::MariaDb };
    let (first, second) = tokio::join!(start(flavor), start(flavor));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_ne!(first.port(), second.port());
    first.create_schema("only_here").await.unwrap();
    let there = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'only_here'";
    assert_eq!(number(&first.root_url(), there).await.unwrap(), 1);
    assert_eq!(number(&second.root_url(), there).await.unwrap(), 0);
}

#[tokio::test]
async fn a_named_data_directory_is_taken_up_again_and_has_one_owner() {
    let flavor = if known_missing(Flavor::MariaDb) { Flavor::MySql } else { Flavor::MariaDb };
    let folder = tempfile::tempdir().unwrap();
    let options = ServerOptions { data_dir: Some(folder.path().join("db")), ..ServerOptions::new(flavor) };
    let first = Server::start(options.clone()).await.unwrap();
    first.create_schema("kept").await.unwrap();
    let refused = Server::start(options.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("another run"), "{refused}");
    drop(first); // as a crash

    let second = Server::start(options).await.unwrap();
    number(&second.url("kept"), "SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_server_that_cannot_start_says_what_its_log_says() {
    let flavor = if known_missing(Flavor::MariaDb) { Flavor::MySql } else { Flavor::MariaDb };
    let mut options = ServerOptions::new(flavor);
    options.extra_args = vec!["--no-such-setting=1".to_owned()];
    let error = Server::start(options).await.unwrap_err();
    assert!(matches!(error, ServerError::EndedEarly { .. }), "{error}");
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

#[test]
fn a_server_does_not_outlive_a_killed_owner() {
    let flavor = if known_missing(Flavor::MariaDb) { Flavor::MySql } else { Flavor::MariaDb };
    let mut owner = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["db", "--flavor", flavor.slug()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().strip_prefix("mysql://root@").unwrap().to_owned();
    assert!(std::net::TcpStream::connect(&address).is_ok());
    owner.kill().unwrap();
    owner.wait().unwrap();
    let gone = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        std::net::TcpStream::connect(&address).is_err()
    });
    assert!(gone, "the server at {address} still runs");
}

/// A broker comes back from a crash on the same port, and says when it does not answer.
#[tokio::test]
async fn a_broker_lives_through_a_crash() {
    if is_missing(NATS_SLUG) {
        eprintln!("NOT TESTED WITH a broker: it cannot be had here");
        return;
    }
    let mut broker = NatsServer::start(NatsServer::ROOMY_BYTES).await.unwrap();
    let url = broker.url();
    broker.kill().await.unwrap();
    assert!(matches!(broker.kill().await, Err(NatsError::NotRunning)));
    assert!(
        tokio::net::TcpStream::connect(("127.0.0.1", broker.port())).await.is_err(),
        "a killed broker answers"
    );
    broker.restart().await.unwrap();
    assert_eq!(broker.url(), url);
    broker.pause().unwrap();
    broker.resume().unwrap();
    broker.stop().await.unwrap();
}
