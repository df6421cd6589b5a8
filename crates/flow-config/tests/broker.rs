//! `[broker]` as an operator meets it.

#![allow(clippy::unwrap_used, reason = "test code")]

mod loaded;

use flow_config::{Config, ConfigError};
use flow_core::retry::Schedule;

use loaded::REST;

fn load(file: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    loaded::load(&format!("{REST}{file}"), env)
}

#[test]
fn there_is_no_broker_unless_it_is_configured() {
    let broker = load("", &[]).unwrap().broker;
    assert!(broker.url.is_none() && broker.credentials_file.is_none() && broker.ca_file.is_none());
    assert_eq!((broker.stream.as_str(), broker.max_deliveries), ("PAY_WAKE", 5));
    assert_eq!(broker.redelivery, Schedule::new(vec![1_000, 5_000, 15_000, 60_000]).unwrap());
}

#[test]
fn the_address_may_come_from_the_environment_and_is_never_shown() {
    let url = "nats://pay:hunter2@a.example:4222, tls://b.example";
    let config = load("", &[("PAY__BROKER__URL", url)]).unwrap();
    assert_eq!(config.broker.url.as_ref().unwrap().expose(), url);
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("a.example"), "{shown}");
}

/// A long budget of the scanner is no mistake where no broker would deliver anything twice.
#[test]
fn what_only_a_broker_asks_for_is_not_asked_for_without_one() {
    let budget = [("PAY__SCANNER__BUDGET_MS", "60000")];
    assert!(load("", &budget).is_ok());
    assert!(load("[broker]\nurl = \"nats://a.example\"", &budget).is_err());
    assert!(load("[broker]\nurl = \"nats://a.example\"\nack_wait_ms = 122000", &budget).is_ok());
}

#[test]
fn every_wrong_key_is_named_and_no_password_with_it() {
    let table = [
        ("url = \"http://pay:hunter2@a.example\"", "broker.url"),
        ("url = \"nats://a.example,hunter2\"", "broker.url"),
        ("url = \"nats://\"", "broker.url"),
        ("url = \"nats://a.example/path-hunter2\"", "broker.url"),
        ("url = 5", "broker.url"),
        ("stream = \"a.b\"", "broker.stream"),
        ("stream = \"\"", "broker.stream"),
        ("stream = \"a b\"", "broker.stream"),
        ("replicas = 6", "broker.replicas"),
        ("max_messages = 0", "broker.max_messages"),
        ("longest_delay_ms = 0", "broker.longest_delay_ms"),
        ("queue_flows = 0", "broker.queue_flows"),
        ("max_parallel_publishes = 0", "broker.max_parallel_publishes"),
        ("publish_timeout_ms = 9", "broker.publish_timeout_ms"),
        ("max_parallel_flows = 0", "broker.max_parallel_flows"),
        ("ack_wait_ms = 10", "broker.ack_wait_ms"),
        ("ack_wait_ms = 21999\nurl = \"nats://a.example\"", "broker.ack_wait_ms: must be at least twice"),
        ("max_deliveries = 0", "broker.max_deliveries"),
        ("redelivery_ms = []", "broker.redelivery_ms"),
        ("redelivery_ms = [0]", "broker.redelivery_ms"),
        ("colour = 1", "broker.colour"),
    ];
    for (line, key) in table {
        let found = loaded::problems(&format!("{REST}[broker]\n{line}\n"), &[]);
        assert!(found.iter().any(|problem| problem.contains(key)), "{line}: {found:?}");
        assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:?}");
    }
}
