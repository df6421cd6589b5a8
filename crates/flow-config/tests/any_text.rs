//! Every text as a configuration: generated ones, and those that the fuzz target is started with.

#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "properties/configuration.rs"]
mod configuration;

use flow_config::DEFAULTS;
use proptest::prelude::*;

/// The smallest configuration that can take a payment, without its database. Dotted, so that lines can follow it.
const MINIMAL: &str = r#"
wallets.main.base_url = "http://127.0.0.1:9090/base"
businesses.main.base_url = "https://business.example"
scenes.renew.wallet = "main"
scenes.renew.business = "main"
scenes.renew.currencies.CNY = { min_amount = 1, max_amount = 5000000 }
"#;

fn check(text: &str, env: &[(String, String)]) {
    let folder = tempfile::tempdir().unwrap();
    configuration::check(folder.path(), env, text);
}

fn arbitrary_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<bool>().prop_map(|b| b.to_string()),
        "[ -!#-\\[\\]-~]{0,12}".prop_map(|s| format!("\"{s}\"")),
        Just("1.5e300".to_owned()),
        Just("1979-05-27T07:32:00Z".to_owned()),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::btree_map("[a-z_]{1,6}", inner, 0..4).prop_map(|entries| {
                let entries: Vec<_> = entries.iter().map(|(k, v)| format!("{k} = {v}")).collect();
                format!("{{ {} }}", entries.join(", "))
            }),
        ]
    })
}

fn a_key_of_the_defaults() -> impl Strategy<Value = String> {
    let keys: Vec<String> = DEFAULTS
        .lines()
        .filter_map(|line| line.trim_start_matches("# ").split_once(" = "))
        .map(|(key, _)| key.trim().to_owned())
        .collect();
    prop_oneof![prop::sample::select(keys), "[a-z\\[\\]0-9._\"]{0,8}"]
}

/// A line that sets some key, known or not, to some value, fitting or not.
fn entry() -> impl Strategy<Value = String> {
    let sections = vec![
        "database",
        "wallets",
        "wallets.main",
        "businesses.main",
        "scenes.renew",
        "scenes.renew.currencies.CNY",
        "scenes.s.currencies",
        "advance",
        "api",
        "scanner",
        "channels",
        "callbacks",
        "log",
        "\"a[9999999999999]\"",
    ];
    (prop::sample::select(sections), a_key_of_the_defaults(), arbitrary_value())
        .prop_map(|(section, key, value)| format!("{section}.{key} = {value}\n"))
}

fn variable() -> impl Strategy<Value = (String, String)> {
    let known: Vec<String> =
        ["API__LISTEN", "WALLETS__MAIN__TIMEOUT_MS", "SCENES__RENEW__CURRENCIES__CNY__MAX_AMOUNT"]
            .map(|name| format!("PAY__{name}"))
            .into();
    let name = prop_oneof![prop::sample::select(known), "PAY(__[A-Za-z0-9_.]{0,8}){0,5}"];
    (name, prop_oneof!["\\PC{0,20}", "-?[0-9]{1,20}"])
}

proptest! {
    #[test]
    fn every_toml_is_accepted_whole_or_refused_by_name(
        entries in prop::collection::vec(entry(), 0..8), is_minimal in any::<bool>(),
    ) {
        let known = if is_minimal { MINIMAL } else { "" };
        check(&format!("{known}{}", entries.concat()), &[]);
    }

    #[test]
    fn every_text_is_accepted_whole_or_refused_by_name(text in "\\PC{0,200}") {
        check(&text, &[]);
    }

    #[test]
    fn every_environment_is_accepted_whole_or_refused_by_name(env in prop::collection::vec(variable(), 0..4)) {
        check(MINIMAL, &env);
    }
}

#[test]
fn the_minimal_text_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    configuration::check(folder.path(), &[], MINIMAL);
}

#[test]
fn the_seeds_of_the_fuzz_target_hold() {
    flow_testkit::seeds::each("configuration", |bytes| {
        if let Ok(input) = std::str::from_utf8(bytes) {
            let (env, text) = configuration::layers_in(input);
            check(text, &env);
        }
    });
}
