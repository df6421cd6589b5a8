//! The configuration file that the stack's services are started with.

use sha2::{Digest as _, Sha256};

/// Name of the client application that [`Keys::CLIENT`] stands for.
pub const CALLER: &str = "shop";

/// API keys of the stack, one per role. Known to everybody: the stack listens on 127.0.0.1 only and holds no money.
#[derive(Debug, Clone, Copy)]
pub struct Keys;

impl Keys {
    /// The client application `shop`.
    pub const CLIENT: &str = "local-shop-key-9d1f6a0b";
    /// Another client application, `kiosk`.
    pub const OTHER_CLIENT: &str = "local-kiosk-key-51c27be4";
    /// On call.
    pub const ON_CALL: &str = "local-oncall-key-77aa03d2";
    /// An operator.
    pub const OPERATOR: &str = "local-operator-key-e8b41c95";
}

/// Settings that differ from the defaults, as TOML tables that are appended to the file.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Retry delays for all states, in milliseconds.
    pub retry_ms: Vec<u64>,
    /// How long a flow is left to the process that moved it, in milliseconds.
    pub claim_ms: u64,
    /// Over how long postponed flows are spread, in milliseconds.
    pub postpone_spread_ms: u64,
    /// Time limit of one downstream call, in milliseconds.
    pub call_timeout_ms: u64,
    /// How long after the deadline a refund waits, in milliseconds.
    pub settle_margin_ms: u64,
    /// Pause between two rounds of the scanner, in milliseconds.
    pub round_interval_ms: u64,
    /// How long the API keeps re-advancing a flow by its own timer, in milliseconds.
    pub timer_bound_ms: u64,
    /// Log filter.
    pub log_filter: String,
    /// Further lines, verbatim.
    pub extra: String,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            retry_ms: vec![200, 400, 800, 1_500, 3_000],
            claim_ms: 2_000,
            postpone_spread_ms: 1_000,
            call_timeout_ms: 1_000,
            settle_margin_ms: 500,
            round_interval_ms: 250,
            timer_bound_ms: 600_000,
            log_filter: "info".to_owned(),
            extra: String::new(),
        }
    }
}

/// One more API key, as a table to be appended to the file (see [`Tuning::extra`]); `expires_at` in RFC 3339.
pub fn key_table(name: &str, role: &str, key: &str, expires_at: Option<&str>) -> String {
    let digest = hex::encode(Sha256::digest(key.as_bytes()));
    let end = expires_at.map(|end| format!("expires_at = \"{end}\"\n")).unwrap_or_default();
    format!("[[api.keys]]\nname = \"{name}\"\nrole = \"{role}\"\nsha256 = \"{digest}\"\n{end}\n")
}

/// The whole file, for the API and the scanner alike.
pub(super) fn render(app_url: &str, sim_port: u16, listen_port: u16, tuning: &Tuning) -> String {
    let Tuning { retry_ms, claim_ms, postpone_spread_ms, call_timeout_ms, .. } = tuning;
    let Tuning { settle_margin_ms, round_interval_ms, timer_bound_ms, log_filter, extra, .. } = tuning;
    let connect_timeout_ms = 500.min(*call_timeout_ms);
    let mut out = format!(
        r#"[database]
url = "{app_url}"

[wallets.main]
base_url = "http://127.0.0.1:{sim_port}"
timeout_ms = {call_timeout_ms}
connect_timeout_ms = {connect_timeout_ms}

[businesses.main]
base_url = "http://127.0.0.1:{sim_port}"
timeout_ms = {call_timeout_ms}
connect_timeout_ms = {connect_timeout_ms}
settle_margin_ms = {settle_margin_ms}

[scenes.renew]
wallet = "main"
business = "main"
currencies = {{ CNY = {{ min_amount = 1, max_amount = 5000000 }}, POINTS = {{ min_amount = 1, max_amount = 1000000 }} }}
deadline_horizon_ms = 86400000

[advance]
paying_retry_ms = {retry_ms:?}
payed_retry_ms = {retry_ms:?}
refunding_retry_ms = {retry_ms:?}
claim_ms = {claim_ms}
postpone_spread_ms = {postpone_spread_ms}
first_due_in_ms = {claim_ms}
timer_bound_ms = {timer_bound_ms}

[scanner]
listen = "127.0.0.1:{listen_port}"
round_interval_ms = {round_interval_ms}

[log]
format = "json"
filter = "{log_filter}"

[api]
listen = "127.0.0.1:{listen_port}"

"#
    );
    for (name, role, key) in [
        (CALLER, "client", Keys::CLIENT),
        ("kiosk", "client", Keys::OTHER_CLIENT),
        ("oncall", "on_call", Keys::ON_CALL),
        ("operator", "operator", Keys::OPERATOR),
    ] {
        out.push_str(&key_table(name, role, key, None));
    }
    out.push_str(extra);
    out
}
