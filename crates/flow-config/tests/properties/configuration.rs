//! What holds of every configuration text and every environment. One statement for the property tests here and for the
//! fuzz target `configuration`.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::ffi::OsString;
use std::path::Path;

use flow_config::{Config, ConfigError, LoadOptions};

/// Stands in every configuration that is checked, where a password stands.
const SECRET: &str = "hunter2";
const URL: &str = "mysql://pay:hunter2@127.0.0.1:3306/pay";

/// Lines of environment variables (`PAY__A__B=value`) and then a file's text: how the fuzz target's inputs are written.
pub(crate) fn layers_in(input: &str) -> (Vec<(String, String)>, &str) {
    let mut env = Vec::new();
    let mut rest = input;
    while rest.starts_with("PAY__") {
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        let Some((name, value)) = line.split_once('=') else { break };
        env.push((name.to_owned(), value.to_owned()));
        rest = behind;
    }
    (env, rest)
}

/// Loads the text from a file in the folder. The database's URL stands in front of it, or in the environment when the text
/// opens that table itself.
///
/// # Panics
/// A property does not hold.
pub(crate) fn check(folder: &Path, env: &[(String, String)], text: &str) {
    let path = folder.join("configuration.toml");
    let mut vars: Vec<_> =
        env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    if text.contains("[database") {
        vars.push(("PAY__DATABASE__URL".into(), URL.into()));
        std::fs::write(&path, text).unwrap();
    } else {
        std::fs::write(&path, format!("database.url = \"{URL}\"\n{text}")).unwrap();
    }
    let loaded = Config::load(LoadOptions { file: Some(path.clone()), env: vars });
    let tells_itself =
        text.contains(SECRET) || env.iter().any(|(name, value)| (name.clone() + value).contains(SECRET));
    match loaded {
        Ok(config) => {
            hangs_together(&config);
            assert!(
                tells_itself || !format!("{config:?}").contains(SECRET),
                "the password is shown: {config:?}"
            );
        }
        Err(error) => {
            let shown = format!("{error} {error:?}");
            assert!(tells_itself || !shown.contains(SECRET), "the password is shown: {shown}");
            match error {
                ConfigError::Invalid(problems) => {
                    assert!(!problems.is_empty(), "refused without a word");
                    for problem in problems.iter() {
                        assert!(
                            !problem.key.is_empty() && !problem.text.is_empty(),
                            "{problem:?} names no key"
                        );
                    }
                }
                ConfigError::Malformed { path: named, text } => {
                    assert!(named == path && !text.is_empty(), "{named:?}: {text}");
                }
                ConfigError::Unreadable { .. } => panic!("the file is there and is text: {error}"),
            }
        }
    }
}

/// What every configuration that is accepted promises to those who use it.
fn hangs_together(config: &Config) {
    assert!(!config.scenes.is_empty());
    for (name, scene) in &config.scenes {
        assert!(config.wallets.contains_key(&scene.wallet), "scene {name} has no wallet");
        assert!(config.businesses.contains_key(&scene.business), "scene {name} has no business system");
        assert!(!scene.currencies.is_empty(), "scene {name} takes no money");
        for limits in scene.currencies.values() {
            assert!(
                1 <= limits.min_amount && limits.min_amount <= limits.max_amount,
                "scene {name}: {limits:?}"
            );
        }
    }
    let wallets = config.wallets.values().map(|wallet| &wallet.transport);
    for transport in wallets.chain(config.businesses.values().map(|business| &business.transport)) {
        assert!(0 < transport.connect_timeout_ms && transport.connect_timeout_ms <= transport.timeout_ms);
        assert!(["http", "https"].contains(&transport.base_url.scheme()), "{}", transport.base_url);
    }
    let mut hashes: Vec<_> = config.api.keys.iter().map(|key| key.sha256).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), config.api.keys.len(), "a key stands for one caller");
    assert!(config.api.default_wait_ms <= config.api.max_wait_ms);
    assert!(config.api.max_body_bytes <= 65_536, "a larger one would not fit a packet to the database");
}
