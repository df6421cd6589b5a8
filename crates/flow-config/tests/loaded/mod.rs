//! Loading a text and an environment as the binaries load theirs, for the tests of every section.
#![allow(dead_code, reason = "each suite uses its part")]

use std::ffi::OsString;
use std::io::Write as _;

use flow_config::{Config, ConfigError, LoadOptions};

/// What is required besides the section that a test is about.
pub(crate) const REST: &str = r#"
[database]
url = "mysql://pay:hunter2@127.0.0.1:3306/pay"
[wallets.main]
base_url = "http://127.0.0.1:9090"
[businesses.main]
base_url = "http://127.0.0.1:9090"
[scenes.renew]
wallet = "main"
business = "main"
currencies = { CNY = { min_amount = 1, max_amount = 5000000 } }
"#;

pub(crate) fn load(file: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(file.as_bytes()).unwrap();
    let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    Config::load(LoadOptions { file: Some(on_disk.path().to_owned()), env })
}

/// Every problem, without where it was set.
pub(crate) fn problems(file: &str, env: &[(&str, &str)]) -> Vec<String> {
    match load(file, env) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(problems)) => {
            problems.iter().map(|p| p.to_string().split(" (set in").next().unwrap().to_owned()).collect()
        }
        Err(error @ (ConfigError::Malformed { .. } | ConfigError::Unreadable { .. })) => {
            vec![error.to_string()]
        }
    }
}
