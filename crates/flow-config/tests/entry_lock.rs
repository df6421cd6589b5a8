//! `[entry_lock]` as an operator meets it.

#![allow(clippy::unwrap_used, reason = "test code")]

mod loaded;

use flow_config::{Config, ConfigError};

use loaded::REST;

fn load(file: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    loaded::load(&format!("{REST}{file}"), env)
}

fn problems(file: &str) -> Vec<String> {
    match load(file, &[]) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(error @ (ConfigError::Malformed { .. } | ConfigError::Unreadable { .. })) => {
            vec![error.to_string()]
        }
    }
}

#[test]
fn there_is_no_lock_unless_a_server_is_named() {
    let off = load("", &[]).unwrap().entry_lock;
    assert!(off.redis.is_none());
    assert_eq!((off.ttl_ms, off.wait_ms, off.timeout_ms, off.rest_ms), (5_000, 300, 50, 1_000));
    let on = load("", &[("PAY__ENTRY_LOCK__REDIS", "rediss://:geheim@cache.example:6380/3")]).unwrap();
    assert_eq!(on.entry_lock.redis.as_ref().unwrap().expose(), "rediss://:geheim@cache.example:6380/3");
    assert!(!format!("{on:?}").contains("geheim"), "a password can be seen");
}

#[test]
fn an_address_that_is_none_is_named_and_not_shown() {
    for wrong in [
        "http://cache.example:6379",
        "redis:///0",
        "cache.example:6379",
        "redis://cache.example/sessions",
        "redis://:geheim@cache.example/0?protocol=resp3",
        "",
    ] {
        let found = problems(&format!("[entry_lock]\nredis = \"{wrong}\"\n"));
        assert_eq!(found.len(), 1, "{wrong}: {found:?}");
        assert!(found[0].contains("entry_lock.redis"), "{found:?}");
        assert!(!found[0].contains("geheim"), "{found:?}");
    }
}

#[test]
fn limits_have_bounds() {
    for (key, wrong) in
        [("ttl_ms", 99), ("ttl_ms", 60_001), ("wait_ms", 10_001), ("timeout_ms", 0), ("rest_ms", 9)]
    {
        let found = problems(&format!("[entry_lock]\n{key} = {wrong}\n"));
        assert!(found.len() == 1 && found[0].contains(&format!("entry_lock.{key}")), "{found:?}");
    }
}
