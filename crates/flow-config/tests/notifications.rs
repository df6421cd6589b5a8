//! `[notifications]` as an operator meets it.

#![allow(clippy::unwrap_used, reason = "test code")]

mod loaded;

use flow_config::{Config, ConfigError};
use flow_core::ids::CallerId;
use flow_core::notify::RetryPlan;

use loaded::REST;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn load(file: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    loaded::load(&format!("{REST}{file}"), env)
}

/// Every problem, with where it was set: no secret may be in that either.
fn problems(file: &str) -> Vec<String> {
    match load(file, &[]) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(error @ (ConfigError::Malformed { .. } | ConfigError::Unreadable { .. })) => {
            vec![error.to_string()]
        }
    }
}

fn application(more: &str) -> String {
    format!(
        "[notifications.applications.shop]\nurl = \"https://shop.example/hook\"\nsecret = \"{SECRET}\"\n{more}\n"
    )
}

#[test]
fn nobody_is_told_unless_it_is_configured() {
    let config = load("", &[]).unwrap();
    assert!(config.notifications.applications.is_empty() && !config.notifications.allow_private_targets);
    let documented = RetryPlan::new(RetryPlan::DEFAULT_MS.to_vec(), 86_400_000).unwrap();
    assert_eq!(config.notifications.retry, documented);
}

#[test]
fn an_application_has_its_defaults_and_its_secrets_are_never_shown() {
    let config = load(&application("enabled = false"), &[]).unwrap();
    let shop = &config.notifications.applications[&CallerId::new("shop").unwrap()];
    assert!(!shop.is_enabled && shop.previous_secret.is_none());
    assert_eq!(
        (shop.timeout_ms, shop.limits.max_concurrent_calls, shop.secret.expose().len()),
        (10_000, 8, 24)
    );
    assert!(!format!("{config:?}").contains("MfKQ"), "a secret is shown");
}

#[test]
fn secrets_and_networks_may_come_from_the_environment() {
    let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let env = [
        ("PAY__NOTIFICATIONS__APPLICATIONS__SHOP__PREVIOUS_SECRET", other),
        ("PAY__NOTIFICATIONS__ALLOWED_TARGETS", "10.1.0.0/16, fd00::/8"),
    ];
    let config = load(&application(""), &env).unwrap();
    let shop = &config.notifications.applications[&CallerId::new("shop").unwrap()];
    assert!(shop.previous_secret.as_ref().is_some_and(|secret| *secret != shop.secret));
    assert_eq!(config.notifications.allowed_targets.len(), 2);
}

#[test]
fn every_wrong_key_is_named_and_no_secret_with_it() {
    let table = [
        (application("").replace(SECRET, "hunter2"), "notifications.applications.shop.secret"),
        (application("").replace(SECRET, "whsec_aGVsbG8="), "notifications.applications.shop.secret"),
        (application("previous_secret = \"hunter2\""), "notifications.applications.shop.previous_secret"),
        (application("").replace("https://", "ftp://"), "notifications.applications.shop.url"),
        (application("").replace("https://", "https://a:hunter2@"), "notifications.applications.shop.url"),
        (application("timeout_ms = 60000"), "notifications.applications.shop.timeout_ms"),
        (application("timeout_ms = 500"), "notifications.applications.shop.connect_timeout_ms"),
        (application("").replace(".shop]", ".\"no name\"]"), "no name"),
        (application("colour = 1"), "notifications.applications.shop.colour"),
        ("[notifications]\nretry_ms = []".to_owned(), "notifications.retry_ms"),
        ("[notifications]\nretry_ms = [0]".to_owned(), "notifications.retry_ms"),
        ("[notifications]\nclaim_ms = 1".to_owned(), "notifications.claim_ms"),
        ("[notifications]\nallowed_targets = [\"10.0.0.0/40\"]".to_owned(), "notifications.allowed_targets"),
    ];
    for (file, key) in table {
        let found = problems(&file);
        assert!(found.iter().any(|problem| problem.contains(key)), "{key}: {found:?}");
        assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:?}");
    }
}
