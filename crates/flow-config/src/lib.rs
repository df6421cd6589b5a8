//! Layered configuration, checked as a whole before anything listens.
//!
//! Later layers win: the built-in `config/default.toml`, the file given by `--config`, then environment variables
//! `PAY__SECTION__KEY`. Every wrong, missing and unknown key is reported at once, by its full path. Sections are plain
//! data in the types of the core; nothing here connects, listens or logs, and secrets are never printed.

mod advance;
mod api;
mod broker;
mod business;
mod callbacks;
mod channel;
mod database;
mod downstream;
mod entry_lock;
mod layers;
mod log;
mod notifications;
mod problems;
mod reader;
mod recon;
mod scanner;
mod scene;
mod secret;
mod wallet;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use flow_core::ids::{ChannelName, DownstreamName, Scene};

pub use advance::AdvanceConfig;
pub use api::{ApiConfig, ApiKey, Role};
pub use broker::{BrokerConfig, StreamName};
pub use business::BusinessConfig;
pub use callbacks::CallbacksConfig;
pub use channel::{ChannelConfig, RsaLayout, SchemeConfig, WebhookSecret};
pub use database::DatabaseConfig;
pub use downstream::{LimitsConfig, TransportConfig};
pub use entry_lock::{EntryLockConfig, NoRedisUrl, RedisUrl};
pub use log::{LogConfig, LogFormat};
pub use notifications::{ApplicationConfig, NotificationsConfig, SigningSecret};
pub use problems::{ConfigError, Problem, Problems};
pub use recon::{DATE_MARK, ReconChannelConfig, ReconConfig};
pub use scanner::ScannerConfig;
pub use scene::{AmountLimits, SceneConfig};
pub use secret::{KeyHash, Secret};
pub use wallet::WalletConfig;

use reader::Table;

/// The built-in layer, commented: what an operator reads to learn the keys.
pub const DEFAULTS: &str = include_str!("../../../config/default.toml");

/// Where the layers above the built-in one come from.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// A TOML file; must exist if given.
    pub file: Option<PathBuf>,
    /// Environment variables, names and values; those that do not begin with `PAY__` are ignored.
    pub env: Vec<(OsString, OsString)>,
}

impl LoadOptions {
    /// The given file and this process's environment.
    pub fn from_process(file: Option<PathBuf>) -> LoadOptions {
        LoadOptions { file, env: std::env::vars_os().collect() }
    }
}

/// The whole configuration, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database and how it is used.
    pub database: DatabaseConfig,
    /// Wallets by name.
    pub wallets: BTreeMap<DownstreamName, WalletConfig>,
    /// Business systems by name.
    pub businesses: BTreeMap<DownstreamName, BusinessConfig>,
    /// Scenes by name; each names a wallet and a business system that exist.
    pub scenes: BTreeMap<Scene, SceneConfig>,
    /// Channels that send callbacks, by name.
    pub channels: BTreeMap<ChannelName, ChannelConfig>,
    /// How the events that they send are worked on.
    pub callbacks: CallbacksConfig,
    /// How flows are brought forward.
    pub advance: AdvanceConfig,
    /// The API server.
    pub api: ApiConfig,
    /// The optional lock at its entrance.
    pub entry_lock: EntryLockConfig,
    /// The scanner.
    pub scanner: ScannerConfig,
    /// How applications are told of their payments.
    pub notifications: NotificationsConfig,
    /// How wake-ups go through a message broker, if they do.
    pub broker: BrokerConfig,
    /// How days are compared.
    pub recon: ReconConfig,
    /// Logging.
    pub log: LogConfig,
}

impl Config {
    /// Reads all layers and checks everything.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with *every* problem found; the other variants when the file cannot be read at all.
    pub fn load(options: LoadOptions) -> Result<Config, ConfigError> {
        let mut problems = Problems::default();
        let root = layers::merged(&options, &mut problems)?;
        let config = Config::read(root, &mut problems);
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            Some(_) | None => Err(ConfigError::Invalid(problems)),
        }
    }

    /// `None` only if a problem was noted.
    fn read(root: config::Map<String, config::Value>, problems: &mut Problems) -> Option<Config> {
        let mut root = Table::root(root, problems);
        let database = root.section("database", DatabaseConfig::read);
        let wallets = root.named("wallets", DownstreamName::new, WalletConfig::read);
        let businesses = root.named("businesses", DownstreamName::new, BusinessConfig::read);
        let scenes = root.named("scenes", Scene::new, SceneConfig::read);
        let channels = root.named("channels", ChannelName::new, ChannelConfig::read);
        let callbacks = root.section("callbacks", CallbacksConfig::read);
        let advance = root.section("advance", AdvanceConfig::read);
        let api = root.section("api", ApiConfig::read);
        let entry_lock = root.section("entry_lock", EntryLockConfig::read);
        let scanner = root.section("scanner", ScannerConfig::read);
        let notifications = root.section("notifications", NotificationsConfig::read);
        let broker = root.section("broker", BrokerConfig::read);
        let recon = root.section("recon", ReconConfig::read);
        let log = root.section("log", LogConfig::read);
        root.finish();
        let config = Config {
            database: database?,
            wallets,
            businesses,
            scenes,
            channels,
            callbacks: callbacks?,
            advance: advance?,
            api: api?,
            entry_lock: entry_lock?,
            scanner: scanner?,
            notifications: notifications?,
            broker: broker?,
            recon: recon?,
            log: log?,
        };
        config.validate(problems);
        Some(config)
    }

    /// What no single section can see.
    fn validate(&self, problems: &mut Problems) {
        self.database.validate(problems);
        for (name, wallet) in &self.wallets {
            wallet.validate(&format!("wallets.{name}"), problems);
        }
        for (name, business) in &self.businesses {
            business.validate(&format!("businesses.{name}"), problems);
        }
        for (name, scene) in &self.scenes {
            scene.validate(&format!("scenes.{name}"), self, problems);
        }
        for (name, channel) in &self.channels {
            channel.validate(&format!("channels.{name}"), problems);
        }
        self.api.validate(problems);
        self.notifications.validate(problems);
        self.broker.validate(&self.scanner, problems);
        self.recon.validate(self, problems);
        if self.scenes.is_empty() && problems.is_empty() {
            problems.note("scenes", "there must be at least one; without a scene no payment can be taken");
        }
    }
}
