//! Loading as an operator meets it: layers, and every problem by the full path of its key.

#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "test code; the table is long because there are many keys"
)]

mod loaded;

use std::ffi::OsString;

use flow_config::{Config, ConfigError, DEFAULTS, LoadOptions, LogFormat, Role};
use flow_core::ids::{DownstreamName, Scene};
use flow_core::money::Currency;
use flow_core::retry::{JitterPermille, Schedule};

use loaded::{load, problems};

/// The smallest configuration that can take a payment.
const MINIMAL: &str = r#"
[database]
url = "mysql://pay:hunter2@127.0.0.1:3306/pay"
[wallets.main]
base_url = "http://127.0.0.1:9090/base"
[businesses.main]
base_url = "https://business.example"
[scenes.renew]
wallet = "main"
business = "main"
currencies = { CNY = { min_amount = 1, max_amount = 5000000 } }
[[api.keys]]
name = "shop"
role = "client"
sha256 = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
expires_at = "2030-01-01T00:00:00Z"
"#;

#[test]
fn the_minimal_configuration_has_every_default() {
    let config = load(MINIMAL, &[]).unwrap();
    assert_eq!(config.database.read_connections, 8);
    assert_eq!(config.database.queue_rows, 4096);
    assert_eq!(config.advance.paying_retry, Schedule::default());
    assert_eq!(config.advance.refunding_retry.delay_ms(99, JitterPermille::NONE), 7_200_000);
    assert_eq!(config.log.format, LogFormat::Json);
    let wallet = &config.wallets[&DownstreamName::new("main").unwrap()];
    assert!(wallet.can_close && wallet.transport.bearer_token.is_none());
    assert_eq!(wallet.transport.timeout_ms, 3000);
    let scene = &config.scenes[&Scene::new("renew").unwrap()];
    let limits = scene.currencies[&Currency::new("CNY").unwrap()];
    assert!(limits.allows(1) && limits.allows(5_000_000) && !limits.allows(0) && !limits.allows(5_000_001));
    assert_eq!(config.api.keys[0].role, Role::Client);
    assert_eq!(config.api.keys[0].expires_at.unwrap().to_rfc3339(), "2030-01-01T00:00:00+00:00");
}

#[test]
fn the_defaults_alone_lack_only_what_no_default_can_know() {
    let Err(ConfigError::Invalid(problems)) = Config::load(LoadOptions::default()) else {
        panic!("must be refused")
    };
    assert_eq!(problems.to_string(), "  database.url: is missing");
    let url = ("PAY__DATABASE__URL".into(), "mysql://u@h/s".into());
    let Err(ConfigError::Invalid(problems)) = Config::load(LoadOptions { file: None, env: vec![url] }) else {
        panic!("must be refused")
    };
    assert!(problems.to_string().contains("scenes: there must be at least one"), "{problems}");
}

/// The commented-out examples of the default file are what operators copy: they must work, and show the defaults.
#[test]
fn the_examples_in_the_default_file_are_valid_and_show_the_defaults() {
    let is_example = |line: &str| line.starts_with("# [") || line.split(' ').nth(2) == Some("=");
    let example: String = DEFAULTS
        .lines()
        .map(|line| if is_example(line) { line.trim_start_matches("# ") } else { line })
        .fold(String::new(), |text, line| text + line + "\n");
    let shown = load(&example, &[]).unwrap();
    let bare = load(MINIMAL, &[]).unwrap();
    let name = DownstreamName::new("main").unwrap();
    assert_eq!(shown.wallets[&name].limits, bare.wallets[&name].limits);
    assert_eq!(shown.wallets[&name].transport.timeout_ms, bare.wallets[&name].transport.timeout_ms);
    assert_eq!(shown.wallets[&name].in_flight_grace_ms, bare.wallets[&name].in_flight_grace_ms);
    assert!(shown.wallets[&name].transport.bearer_token.is_some());
    assert_eq!(shown.businesses[&name].settle_margin_ms, bare.businesses[&name].settle_margin_ms);
    assert_eq!(shown.businesses[&name].unreadable_hold_ms, bare.businesses[&name].unreadable_hold_ms);
    assert_eq!(shown.scenes, bare.scenes);
    assert_eq!(shown.api.keys.len(), 1);
}

#[test]
fn each_wrong_value_is_named() {
    // (variable, value, problem); each alone over the minimal configuration.
    let table = [
        ("DATABASE__URL", "", "database.url: must be a text that is not empty"),
        ("DATABASE__URL", "postgres://h/s", "database.url: must be mysql://user:password@host:port/schema"),
        ("DATABASE__URL", "mysql://h", "database.url: must be mysql://user:password@host:port/schema"),
        ("DATABASE__READ_CONNECTIONS", "0", "database.read_connections: must be 1 to 64, is \"0\""),
        ("DATABASE__COMMITTERS", "17", "database.committers: must be 1 to 16"),
        ("DATABASE__MAX_BATCH_ROWS", "0", "database.max_batch_rows: must be 1 to 1000"),
        ("DATABASE__QUEUE_ROWS", "63", "database.max_batch_rows: must be at most queue_rows (63), is 64"),
        ("DATABASE__ACQUIRE_TIMEOUT_MS", "1", "database.acquire_timeout_ms: must be 10 to 60000"),
        (
            "DATABASE__STATEMENT_TIMEOUT_MS",
            "x",
            "database.statement_timeout_ms: must be 100 to 600000, is \"x\"",
        ),
        ("DATABASE__ACCEPT_WEAK_DURABILITY", "yes", "database.accept_weak_durability: must be true or false"),
        (
            "DATABASE__ACCEPT_NON_STRICT_SQL_MODE",
            "1",
            "database.accept_non_strict_sql_mode: must be true or false",
        ),
        ("DATABASE__ACCEPT_MISSING_GUARDS", "", "database.accept_missing_guards: must be true or false"),
        ("WALLETS__MAIN__BASE_URL", "ftp://h", "wallets.main.base_url: must be http://"),
        ("WALLETS__MAIN__BASE_URL", "http://u:p@h", "wallets.main.base_url: must be http://"),
        ("WALLETS__MAIN__BASE_URL", "http://h?x=1", "wallets.main.base_url: must be http://"),
        ("WALLETS__MAIN__TIMEOUT_MS", "9", "wallets.main.timeout_ms: must be 10 to 60000"),
        (
            "WALLETS__MAIN__TIMEOUT_MS",
            "499",
            "wallets.main.connect_timeout_ms: must be at most timeout_ms (499)",
        ),
        ("WALLETS__MAIN__CONNECT_TIMEOUT_MS", "-1", "wallets.main.connect_timeout_ms: must be 10 to 60000"),
        (
            "WALLETS__MAIN__MAX_IDLE_CONNECTIONS",
            "10001",
            "wallets.main.max_idle_connections: must be 0 to 10000",
        ),
        ("WALLETS__MAIN__BEARER_TOKEN", "a b", "wallets.main.bearer_token: must consist of visible ASCII"),
        ("WALLETS__MAIN__CAN_CLOSE", "maybe", "wallets.main.can_close: must be true or false"),
        (
            "WALLETS__MAIN__IN_FLIGHT_GRACE_MS",
            "2999",
            "wallets.main.in_flight_grace_ms: must be at least timeout_ms",
        ),
        ("WALLETS__MAIN__MAX_CONCURRENT_CALLS", "0", "wallets.main.max_concurrent_calls: must be 1 to 10000"),
        ("WALLETS__MAIN__CALLS_PER_S", "0", "wallets.main.calls_per_s: must be 1 to 1000000"),
        ("WALLETS__MAIN__BURST_CALLS", "0", "wallets.main.burst_calls: must be 1 to 1000000"),
        ("WALLETS__MAIN__QUEUE_WAIT_MS", "60001", "wallets.main.queue_wait_ms: must be 0 to 60000"),
        ("WALLETS__MAIN__BREAKER_FAILURES", "0", "wallets.main.breaker_failures: must be 1 to 100000"),
        ("WALLETS__MAIN__BREAKER_OPEN_MS", "0", "wallets.main.breaker_open_ms: must be 1 to 3600000"),
        (
            "WALLETS__MAIN__BREAKER_OPEN_MS",
            "30001",
            "wallets.main.breaker_open_ms: must be at most breaker_max_open_ms",
        ),
        ("WALLETS__MAIN__BREAKER_MAX_OPEN_MS", "0", "wallets.main.breaker_max_open_ms: must be 1 to 3600000"),
        (
            "BUSINESSES__MAIN__SETTLE_MARGIN_MS",
            "-1",
            "businesses.main.settle_margin_ms: must be 0 to 3600000",
        ),
        ("BUSINESSES__MAIN__UNREADABLE_HOLD_MS", "0", "businesses.main.unreadable_hold_ms: must be 1000 to"),
        ("SCENES__RENEW__WALLET", "other", "scenes.renew.wallet: names no usable wallet: other"),
        ("SCENES__RENEW__WALLET", "a b", "scenes.renew.wallet: downstream name has the character ' '"),
        ("SCENES__RENEW__BUSINESS", "other", "scenes.renew.business: names no usable business system: other"),
        ("SCENES__RENEW__DEADLINE_HORIZON_MS", "0", "scenes.renew.deadline_horizon_ms: must be 1000 to"),
        (
            "SCENES__RENEW__CURRENCIES__CNY__MIN_AMOUNT",
            "0",
            "scenes.renew.currencies.CNY.min_amount: must be 1 to",
        ),
        (
            "SCENES__RENEW__CURRENCIES__CNY__MIN_AMOUNT",
            "5000001",
            "scenes.renew.currencies.CNY.min_amount: must be at most max_amount (5000000), is 5000001",
        ),
        (
            "SCENES__RENEW__CURRENCIES__JPY__MIN_AMOUNT",
            "1",
            "scenes.renew.currencies.JPY.max_amount: is missing",
        ),
        ("ADVANCE__PAYING_RETRY_MS", "1000,x", "advance.paying_retry_ms: must be a list of whole numbers"),
        ("ADVANCE__PAYED_RETRY_MS", "0", "advance.payed_retry_ms: delay number 0 is 0 ms"),
        ("ADVANCE__REFUNDING_RETRY_MS", "", "advance.refunding_retry_ms: must be a list of whole numbers"),
        ("ADVANCE__CLAIM_MS", "0", "advance.claim_ms: must be 100 to 600000"),
        ("ADVANCE__POSTPONE_SPREAD_MS", "-1", "advance.postpone_spread_ms: must be 0 to 3600000"),
        ("ADVANCE__MAX_STEPS", "0", "advance.max_steps: must be 1 to 1000"),
        ("ADVANCE__REFUND_TRIES_BEFORE_HOLD", "0", "advance.refund_tries_before_hold: must be 1 to 100000"),
        ("ADVANCE__ATTENTION_AFTER_TRIES", "0", "advance.attention_after_tries: must be 1 to 100000"),
        ("ADVANCE__SYNC_BUDGET_MS", "0", "advance.sync_budget_ms: must be 100 to 120000"),
        ("ADVANCE__TIMER_BOUND_MS", "-1", "advance.timer_bound_ms: must be 0 to 86400000"),
        ("ADVANCE__TIMER_QUEUE_FLOWS", "0", "advance.timer_queue_flows: must be 1 to 10000000"),
        ("ADVANCE__TIMER_MAX_PARALLEL_FLOWS", "0", "advance.timer_max_parallel_flows: must be 1 to 10000"),
        ("ADVANCE__FIRST_DUE_IN_MS", "1e3", "advance.first_due_in_ms: must be 0 to 600000"),
        ("API__LISTEN", "8080", "api.listen: invalid socket address syntax, is \"8080\""),
        (
            "API__DEFAULT_WAIT_MS",
            "30001",
            "api.default_wait_ms: must be at most max_wait_ms (30000), is 30001",
        ),
        ("API__MAX_WAIT_MS", "120001", "api.max_wait_ms: must be 0 to 120000"),
        ("API__MAX_BODY_BYTES", "65537", "api.max_body_bytes: must be 1024 to 65536"),
        ("API__MAX_CONNECTIONS", "0", "api.max_connections: must be 1 to 1000000"),
        ("API__HEADER_READ_TIMEOUT_MS", "0", "api.header_read_timeout_ms: must be 100 to 60000"),
        ("API__BODY_READ_TIMEOUT_MS", "0", "api.body_read_timeout_ms: must be 100 to 60000"),
        ("API__WRITE_TIMEOUT_MS", "0", "api.write_timeout_ms: must be 100 to 60000"),
        ("API__MAX_IN_FLIGHT_REQUESTS", "0", "api.max_in_flight_requests: must be 1 to 1000000"),
        ("API__SHUTDOWN_DRAIN_MS", "600001", "api.shutdown_drain_ms: must be 0 to 600000"),
        ("API__KEYS__0__NAME", "a/b", "api.keys[0].name: caller has the character '/'"),
        ("API__KEYS__0__ROLE", "root", "api.keys[0].role: must be client, on_call or operator, is \"root\""),
        ("API__KEYS__0__SHA256", "00", "api.keys[0].sha256: must be 64 hexadecimal digits"),
        ("API__KEYS__0__EXPIRES_AT", "tomorrow", "api.keys[0].expires_at: "),
        ("API__KEYS__1__NAME", "new", "api.keys[1].role: is missing"),
        ("API__KEYS__2__NAME", "x", "PAY__API__KEYS__2__NAME: names an entry behind the end of the list"),
        ("API__KEYS__X__NAME", "x", "PAY__API__KEYS__X__NAME: needs an entry's number"),
        ("ENTRY_LOCK__REDIS", "http://x", "entry_lock.redis: must be redis://"),
        ("ENTRY_LOCK__TTL_MS", "0", "entry_lock.ttl_ms: must be 100 to 60000"),
        ("ENTRY_LOCK__WAIT_MS", "10001", "entry_lock.wait_ms: must be 0 to 10000"),
        ("ENTRY_LOCK__TIMEOUT_MS", "0", "entry_lock.timeout_ms: must be 1 to 5000"),
        ("ENTRY_LOCK__REST_MS", "0", "entry_lock.rest_ms: must be 10 to 60000"),
        ("SCANNER__LISTEN", "localhost:1", "scanner.listen: invalid socket address"),
        ("SCANNER__PARTITIONS", "0", "scanner.partitions: must be 1 to 1024"),
        ("SCANNER__PAGE_ROWS", "0", "scanner.page_rows: must be 1 to 10000"),
        ("SCANNER__ROUND_INTERVAL_MS", "0", "scanner.round_interval_ms: must be 10 to 3600000"),
        ("SCANNER__MAX_PARALLEL_FLOWS", "0", "scanner.max_parallel_flows: must be 1 to 10000"),
        ("SCANNER__SUMMARY_INTERVAL_MS", "0", "scanner.summary_interval_ms: must be 100 to 3600000"),
        ("SCANNER__BUDGET_MS", "0", "scanner.budget_ms: must be 100 to 120000"),
        ("SCANNER__SHUTDOWN_DRAIN_MS", "x", "scanner.shutdown_drain_ms: must be 0 to 600000"),
        ("CALLBACKS__CLAIM_MS", "0", "callbacks.claim_ms: must be 100 to 600000"),
        ("CALLBACKS__RETRY_MS", "0", "callbacks.retry_ms: delay number 0 is 0 ms"),
        ("CALLBACKS__GIVE_UP_AFTER_MS", "0", "callbacks.give_up_after_ms: must be 1000 to 2592000000"),
        ("CALLBACKS__ROUND_INTERVAL_MS", "0", "callbacks.round_interval_ms: must be 10 to 3600000"),
        ("CALLBACKS__PAGE_ROWS", "0", "callbacks.page_rows: must be 1 to 10000"),
        ("CALLBACKS__MAX_PARALLEL_EVENTS", "0", "callbacks.max_parallel_events: must be 1 to 10000"),
        ("NOTIFICATIONS__CLAIM_MS", "999", "notifications.claim_ms: must be 1000 to 600000"),
        ("NOTIFICATIONS__POLL_INTERVAL_MS", "9", "notifications.poll_interval_ms: must be 10 to 60000"),
        ("NOTIFICATIONS__RETRY_MS", "x", "notifications.retry_ms: must be a list of whole numbers"),
        (
            "NOTIFICATIONS__MAX_RETRY_AFTER_MS",
            "-1",
            "notifications.max_retry_after_ms: must be 0 to 604800000",
        ),
        (
            "NOTIFICATIONS__ALLOW_PRIVATE_TARGETS",
            "1",
            "notifications.allow_private_targets: must be true or false",
        ),
        ("NOTIFICATIONS__ALLOWED_TARGETS", "x", "notifications.allowed_targets: must be a list of texts"),
        ("BROKER__STREAM", "a.b", "broker.stream: must be 1 to 64 of A-Z"),
        ("BROKER__REPLICAS", "0", "broker.replicas: must be 1 to 5"),
        ("BROKER__MAX_MESSAGES", "0", "broker.max_messages: must be 1 to 1000000000"),
        ("BROKER__LONGEST_DELAY_MS", "0", "broker.longest_delay_ms: must be 1 to 172800000"),
        ("BROKER__QUEUE_FLOWS", "0", "broker.queue_flows: must be 1 to 1000000"),
        ("BROKER__MAX_PARALLEL_PUBLISHES", "0", "broker.max_parallel_publishes: must be 1 to 10000"),
        ("BROKER__PUBLISH_TIMEOUT_MS", "0", "broker.publish_timeout_ms: must be 10 to 60000"),
        ("BROKER__MAX_PARALLEL_FLOWS", "0", "broker.max_parallel_flows: must be 1 to 10000"),
        ("BROKER__ACK_WAIT_MS", "0", "broker.ack_wait_ms: must be 1000 to 3600000"),
        ("BROKER__MAX_DELIVERIES", "0", "broker.max_deliveries: must be 1 to 1000"),
        ("BROKER__REDELIVERY_MS", "0", "broker.redelivery_ms: delay number 0 is 0 ms"),
        ("RECON__LISTEN", "x", "recon.listen: "),
        ("RECON__CLAIM_MS", "999", "recon.claim_ms: must be 1000 to 86400000"),
        ("RECON__PAGE_ROWS", "0", "recon.page_rows: must be 1 to 10000"),
        ("RECON__MAX_PARALLEL_FACTS", "0", "recon.max_parallel_facts: must be 1 to 1000"),
        ("RECON__MAX_UNREADABLE_FACTS", "-1", "recon.max_unreadable_facts: must be 0 to 1000000"),
        ("RECON__SORT_BUFFER_BYTES", "1", "recon.sort_buffer_bytes: must be 1048576 to 4294967296"),
        ("RECON__BUDGET_MS", "99", "recon.budget_ms: must be 100 to 120000"),
        ("RECON__LOOK_INTERVAL_MS", "99", "recon.look_interval_ms: must be 100 to 3600000"),
        ("RECON__RETRY_FAILED_MS", "999", "recon.retry_failed_ms: must be 1000 to 86400000"),
        ("RECON__CATCH_UP_DAYS", "0", "recon.catch_up_days: must be 1 to 366"),
        ("RECON__SHUTDOWN_DRAIN_MS", "x", "recon.shutdown_drain_ms: must be 0 to 600000"),
        ("RECON__EVIDENCE_FOLDER", "", "recon.evidence_folder: must not be empty"),
        ("LOG__FORMAT", "xml", "log.format: must be json or pretty, is \"xml\""),
        ("LOG", "x", "log: must be a table, is \"x\""),
        ("LOG__FILTER__X", "x", "PAY__LOG__FILTER__X: goes below a key that is not a table"),
        ("__X", "x", "PAY____X: must be PAY__SECTION__KEY, without an empty part"),
        ("NO_SUCH__THING", "x", "no_such: is not a known key"),
    ];
    for (name, value, expected) in table {
        let found = problems(MINIMAL, &[(&format!("PAY__{name}"), value)]);
        assert!(
            found.iter().any(|text| text.starts_with(expected)),
            "{name}={value}: {expected:?} not in {found:?}"
        );
    }
}

#[test]
fn every_key_of_the_default_file_is_tested_for_a_wrong_value() {
    let this = include_str!("loading.rs");
    let mut section = "";
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            let variable = format!("\"{}__{}\"", section.to_uppercase(), key.trim().to_uppercase());
            // A filter is any text here; the logger checks it.
            assert!(
                this.contains(&variable) || key == "filter",
                "no wrong value of {section}.{key} is tested"
            );
        }
    }
}

#[test]
fn all_problems_are_reported_at_once_with_unknown_and_missing_keys() {
    let file = r#"
        surprise = 1
        [database]
        read_connections = 0
        commiters = 2
        committers = "2"
        [wallets."a b"]
        base_url = "http://h"
        [wallets.main]
        timeout = 1
        [scenes.renew]
        wallet = "nowhere"
        business = "main"
        currencies = { cny = { max_amount = 1 } }
        [api]
        listen = 5
        [[api.keys]]
        name = "x"
        [log]
        format = "json"
        extra.deep = true
    "#;
    assert_eq!(
        problems(file, &[("PAY__SCANNER__PARTITIONS", "none")]),
        [
            "database.url: is missing",
            "database.read_connections: must be 1 to 64, is 0",
            "database.committers: must be 1 to 16, is \"2\"",
            "database.commiters: is not a known key",
            "wallets.a b: is no usable name: downstream name has the character ' ' at position 1; \
             only letters, digits, '_', '-' and '.' are allowed",
            "wallets.main.base_url: is missing",
            "wallets.main.timeout: is not a known key",
            "scenes.renew.currencies.cny: is no usable name: currency has the character 'c' at position 0; \
             only A-Z, 0-9 and '_' are allowed, and the first must be a letter",
            "api.listen: must be a text, is 5",
            "api.keys[0].role: is missing",
            "api.keys[0].sha256: is missing",
            "scanner.partitions: must be 1 to 1024, is \"none\"",
            "log.extra: is not a known key",
            "surprise: is not a known key",
        ]
    );
}

#[test]
fn problems_say_where_the_value_was_set() {
    let error = load(MINIMAL, &[("PAY__DATABASE__COMMITTERS", "0")]).unwrap_err().to_string();
    assert!(
        error.contains("is \"0\" (set in the environment variable PAY__DATABASE__COMMITTERS)"),
        "{error}"
    );
    let error = load("database.committers = 0", &[]).unwrap_err().to_string();
    assert!(error.contains("is 0 (set in /"), "{error}");
}

#[test]
fn the_environment_wins_and_keeps_texts_as_they_are() {
    let config = load(
        MINIMAL,
        &[
            ("PAY__DATABASE__READ_CONNECTIONS", "9"),
            ("PAY__DATABASE__ACCEPT_WEAK_DURABILITY", "true"),
            ("PAY__WALLETS__MAIN__BEARER_TOKEN", "0012e3"),
            ("PAY__WALLETS__SECOND__BASE_URL", "http://second"),
            ("PAY__SCENES__RENEW__CURRENCIES__POINTS__MAX_AMOUNT", "7"),
            ("PAY__ADVANCE__PAYING_RETRY_MS", "10, 20"),
            ("PAY__API__KEYS__0__ROLE", "operator"),
            ("PAY__API__KEYS__1__NAME", "watch"),
            ("PAY__API__KEYS__1__ROLE", "on_call"),
            ("PAY__API__KEYS__1__SHA256", &"ab".repeat(32)),
            ("PAY_OTHER", "ignored"),
            ("pay__database__committers", "ignored"),
        ],
    )
    .unwrap();
    assert_eq!(config.database.read_connections, 9);
    assert_eq!(config.database.committers, 2);
    assert!(config.database.accept_weak_durability);
    let main = &config.wallets[&DownstreamName::new("main").unwrap()];
    assert_eq!(main.transport.bearer_token.as_ref().unwrap().expose(), "0012e3");
    assert!(config.wallets.contains_key(&DownstreamName::new("second").unwrap()));
    let scene = &config.scenes[&Scene::new("renew").unwrap()];
    assert_eq!(scene.currencies[&Currency::new("POINTS").unwrap()].max_amount, 7);
    assert_eq!(config.advance.paying_retry.delay_ms(5, JitterPermille::NONE), 20);
    assert_eq!(config.api.keys[0].role, Role::Operator);
    assert_eq!(config.api.keys[1].name.as_str(), "watch");
}

#[test]
fn keys_must_not_contradict_each_other() {
    let same = "[[api.keys]]\nname = \"shop\"\nrole = \"on_call\"\n\
                sha256 = \"00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff\"\n";
    assert_eq!(
        problems(&format!("{MINIMAL}{same}"), &[]),
        [
            "api.keys[1].sha256: is given twice; a key must stand for one caller",
            "api.keys[1].role: differs from the role of another key of the same name, shop",
        ]
    );
}

#[test]
fn secrets_are_never_printed() {
    let token = ("PAY__WALLETS__MAIN__BEARER_TOKEN", "hunter2-token");
    let shown = format!("{:?}", load(MINIMAL, &[token]).unwrap());
    for secret in ["hunter2", "00112233"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    let wrong = [
        MINIMAL.replace("mysql://", "mysqlx://"),
        MINIMAL.replace("/pay\"", "/pay"),
        MINIMAL.replace("\"mysql://pay:hunter2@127.0.0.1:3306/pay\"", "mysql://pay:hunter2"),
        MINIMAL.replace("http://", "http://u:hunter2@"),
        MINIMAL.replace("sha256 = \"0", "sha256 = \"hunter2"),
        MINIMAL.replace("url = \"mysql", "url = [\"hunter2\"]\nbearer_token = \"mysql"),
    ];
    for file in wrong {
        let error = load(&file, &[]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = LoadOptions { file: Some("/no/such/file.toml".into()), env: Vec::new() };
    let error = Config::load(missing).unwrap_err().to_string();
    assert!(error.contains("/no/such/file.toml cannot be read"), "{error}");
    let error = load("[database\n", &[]).unwrap_err().to_string();
    assert!(error.contains("is not valid TOML") && error.contains("line 1"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStringExt as _;
    let env = vec![("PAY__LOG__FILTER".into(), OsString::from_vec(vec![0xff]))];
    let error = Config::load(LoadOptions { file: None, env }).unwrap_err().to_string();
    assert!(error.contains("PAY__LOG__FILTER: is not valid Unicode"), "{error}");
}
