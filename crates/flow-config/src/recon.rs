//! `[recon]` and `[recon.channels.NAME]`

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use chrono_tz::Tz;
use flow_bills::{BillFormat, GenericCsv, MAX_EXPONENT, StripeItemised, WechatTrade};
use flow_core::ids::{ChannelName, DownstreamName};

use crate::Config;
use crate::problems::Problems;
use crate::reader::Table;

/// How days are compared.
#[derive(Debug, Clone)]
pub struct ReconConfig {
    /// Address and port for health and metrics of the daemon.
    pub listen: SocketAddr,
    /// Where records are sorted.
    pub spill_folder: PathBuf,
    /// Where bills are kept as they came.
    pub evidence_folder: PathBuf,
    /// How long nobody else compares a day that a process works on, unless it keeps its claim.
    pub claim_ms: u64,
    /// Flows read at once.
    pub page_rows: u32,
    /// Most business records read at once.
    pub max_parallel_facts: usize,
    /// Orders whose business record may stay unread before a run gives up.
    pub max_unreadable_facts: u64,
    /// Memory for sorting.
    pub sort_buffer_bytes: usize,
    /// Time budget of a flow that is woken.
    pub budget_ms: u64,
    /// How often the daemon looks whether a day is to be compared.
    pub look_interval_ms: u64,
    /// How long after a failed run the daemon tries again.
    pub retry_failed_ms: u64,
    /// How many past days the daemon catches up.
    pub catch_up_days: u32,
    /// Longest time between the signal to stop and the end of the process.
    pub shutdown_drain_ms: u64,
    /// Channels by name.
    pub channels: BTreeMap<ChannelName, ReconChannelConfig>,
}

/// A channel whose bill is compared with a wallet's flows.
#[derive(Debug, Clone)]
pub struct ReconChannelConfig {
    /// The wallet.
    pub wallet: DownstreamName,
    /// The layout of its bill.
    pub format: BillFormat,
    /// The zone of its business days and of the bill's local times.
    pub zone: Tz,
    /// Decimals of the smallest unit, by currency.
    pub exponents: BTreeMap<String, u32>,
    /// The file of a day's bill; `{date}` stands for the day.
    pub file: String,
    /// At which hour of the next day the bill is there.
    pub hour: u32,
    /// At which hour of the next day people are alerted if the day is not compared.
    pub deadline_hour: u32,
    /// Whether the bill's payer is one of our user ids.
    pub compares_users: bool,
    /// Whether the bill's numbers are the wallet's transactions.
    pub compares_references: bool,
    /// How far both sides' times may lie apart.
    pub time_gap_limit_ms: u64,
    /// How close to midnight an entry waits for the neighbouring day.
    pub near_midnight_ms: u64,
}

/// What stands for the day in the name of a bill's file.
pub const DATE_MARK: &str = "{date}";

const A_DAY_MS: u64 = 86_400_000;

impl ReconConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<ReconConfig> {
        let listen = table.parsed("listen");
        let spill_folder = table.parsed_if_given::<PathBuf>("spill_folder");
        let evidence_folder = table.parsed("evidence_folder");
        let claim_ms = table.whole("claim_ms", 1_000..=A_DAY_MS);
        let page_rows = table.whole("page_rows", 1..=10_000);
        let max_parallel_facts = table.whole("max_parallel_facts", 1..=1_000);
        let max_unreadable_facts = table.whole("max_unreadable_facts", 0..=1_000_000);
        let sort_buffer_bytes = table.whole("sort_buffer_bytes", 1_048_576..=4_294_967_296_usize);
        let budget_ms = table.whole("budget_ms", 100..=120_000);
        let look_interval_ms = table.whole("look_interval_ms", 100..=3_600_000);
        let retry_failed_ms = table.whole("retry_failed_ms", 1_000..=A_DAY_MS);
        let catch_up_days = table.whole("catch_up_days", 1..=366);
        let shutdown_drain_ms = table.whole("shutdown_drain_ms", 0..=600_000);
        let channels = table.named("channels", ChannelName::new, ReconChannelConfig::read);
        Some(ReconConfig {
            listen: listen?,
            spill_folder: spill_folder?.unwrap_or_else(std::env::temp_dir),
            evidence_folder: evidence_folder?,
            claim_ms: claim_ms?,
            page_rows: page_rows?,
            max_parallel_facts: max_parallel_facts?,
            max_unreadable_facts: max_unreadable_facts?,
            sort_buffer_bytes: sort_buffer_bytes?,
            budget_ms: budget_ms?,
            look_interval_ms: look_interval_ms?,
            retry_failed_ms: retry_failed_ms?,
            catch_up_days: catch_up_days?,
            shutdown_drain_ms: shutdown_drain_ms?,
            channels,
        })
    }

    /// What no single channel can see.
    pub(crate) fn validate(&self, config: &Config, problems: &mut Problems) {
        if self.evidence_folder.as_os_str().is_empty() {
            problems.note("recon.evidence_folder", "must not be empty");
        }
        let mut wallets = BTreeSet::new();
        for (name, channel) in &self.channels {
            let path = format!("recon.channels.{name}");
            channel.validate(&path, problems);
            if !config.wallets.contains_key(&channel.wallet) {
                problems.note(format!("{path}.wallet"), format!("there is no [wallets.{}]", channel.wallet));
            }
            if !wallets.insert(&channel.wallet) {
                let text = format!("{} has another channel already: a flow is in one bill", channel.wallet);
                problems.note(format!("{path}.wallet"), text);
            }
        }
    }
}

impl ReconChannelConfig {
    fn read(table: &mut Table<'_>) -> Option<ReconChannelConfig> {
        let wallet = table.parsed("wallet");
        let format = read_format(table);
        let zone = table.parsed("zone");
        let exponents = table.deserialized::<BTreeMap<String, u32>>("exponents");
        let file = table.parsed::<String>("file");
        let hour = table.whole_or("hour", 10, 0..=23);
        let deadline_hour = table.whole_or("deadline_hour", 14, 0..=23);
        let compares_users = table.flag_or("compare_users", true);
        let compares_references = table.flag_or("compare_references", true);
        let time_gap_limit_ms = table.whole_or("time_gap_limit_ms", 600_000, 1_000..=A_DAY_MS);
        let near_midnight_ms = table.whole_or("near_midnight_ms", 600_000, 0..=A_DAY_MS / 4);
        let upper = |(currency, exponent): (String, u32)| (currency.to_uppercase(), exponent);
        Some(ReconChannelConfig {
            wallet: wallet?,
            format: format?,
            zone: zone?,
            exponents: exponents?.into_iter().map(upper).collect(),
            file: file?,
            hour: hour?,
            deadline_hour: deadline_hour?,
            compares_users: compares_users?,
            compares_references: compares_references?,
            time_gap_limit_ms: time_gap_limit_ms?,
            near_midnight_ms: near_midnight_ms?,
        })
    }

    fn validate(&self, path: &str, problems: &mut Problems) {
        for (field, complaint) in self.format.check() {
            problems.note(format!("{path}.layout.{field}"), complaint);
        }
        if self.exponents.is_empty() {
            problems.note(format!("{path}.exponents"), "must name every currency of the bill");
        }
        for (currency, exponent) in self.exponents.iter().filter(|(_, exponent)| **exponent > MAX_EXPONENT) {
            let text = format!("must be 0 to {MAX_EXPONENT}, is {exponent}");
            problems.note(format!("{path}.exponents.{currency}"), text);
        }
        if !self.file.contains(DATE_MARK) {
            problems.note(format!("{path}.file"), "must have {date} where the day stands");
        }
        if self.deadline_hour < self.hour {
            problems.note(format!("{path}.deadline_hour"), "must not be before hour");
        }
    }
}

/// `format`, and for those that leave something open, `layout`.
fn read_format(table: &mut Table<'_>) -> Option<BillFormat> {
    let name = table.parsed::<String>("format")?;
    match name.as_str() {
        "ledger-csv" => Some(BillFormat::LedgerCsv),
        "alipay-detail" => Some(BillFormat::AlipayDetail),
        "wechat-trade" if !table.has("layout") => Some(BillFormat::WechatTrade(WechatTrade::default())),
        "wechat-trade" => table.deserialized("layout").map(BillFormat::WechatTrade),
        "generic-csv" => {
            table.deserialized::<GenericCsv>("layout").map(|layout| BillFormat::GenericCsv(Box::new(layout)))
        }
        "stripe-itemised" => table.deserialized::<StripeItemised>("layout").map(BillFormat::StripeItemised),
        _ => {
            let text = "must be ledger-csv, generic-csv, wechat-trade, alipay-detail or stripe-itemised";
            table.note("format", text);
            None
        }
    }
}
