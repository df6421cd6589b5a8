//! `[recon]` as an operator meets it: read by layout, every problem by the full path of its key.

#![allow(clippy::unwrap_used, reason = "test code")]

mod loaded;

use flow_bills::BillFormat;
use flow_core::ids::ChannelName;

use loaded::{REST, load, problems};

const MAIN: &str = r#"
[recon.channels.main]
wallet = "main"
format = "ledger-csv"
zone = "Asia/Shanghai"
exponents = { CNY = 2 }
file = "/var/bills/{date}.csv"
"#;

const GENERIC: &str = r#"
[recon.channels.main]
wallet = "main"
format = "generic-csv"
zone = "UTC"
exponents = { CNY = 2, JPY = 0 }
file = "/var/bills/{date}.csv"
hour = 3
deadline_hour = 5
compare_users = false
[recon.channels.main.layout]
kind = { only = "payment" }
[recon.channels.main.layout.columns]
order_no = "no"
amount = "amount"
at = "at"
currency = "currency"
"#;

fn of(text: &str) -> Vec<String> {
    problems(&format!("{REST}{text}"), &[])
}

#[test]
fn a_channel_has_a_layout_a_zone_and_defaults() {
    let config = load(&format!("{REST}{MAIN}"), &[]).unwrap();
    let main = &config.recon.channels[&ChannelName::new("main").unwrap()];
    assert_eq!((&main.format, main.hour, main.deadline_hour), (&BillFormat::LedgerCsv, 10, 14));
    assert!(main.compares_users && main.compares_references);
    assert_eq!((main.exponents["CNY"], main.zone.name()), (2, "Asia/Shanghai"));
    let config = load(&format!("{REST}{GENERIC}"), &[("PAY__RECON__PAGE_ROWS", "7")]).unwrap();
    let main = &config.recon.channels[&ChannelName::new("main").unwrap()];
    assert!(matches!(main.format, BillFormat::GenericCsv(_)) && !main.compares_users);
    assert_eq!((main.hour, config.recon.page_rows), (3, 7));
}

#[test]
fn without_channels_there_is_nothing_to_compare_and_nothing_wrong() {
    assert!(load(REST, &[]).unwrap().recon.channels.is_empty());
}

#[test]
fn what_is_wrong_is_named_by_its_key() {
    let main = |from: &str, to: &str| {
        assert!(MAIN.contains(from), "{from}");
        of(&MAIN.replace(from, to))
    };
    for (found, key) in [
        (
            main("wallet = \"main\"", "wallet = \"other\""),
            "recon.channels.main.wallet: there is no [wallets.other]",
        ),
        (main("ledger-csv", "xlsx"), "recon.channels.main.format: must be ledger-csv"),
        (main("{date}", "today"), "recon.channels.main.file: must have {date}"),
        (main("{ CNY = 2 }", "{}"), "recon.channels.main.exponents: must name every currency"),
        (main("{ CNY = 2 }", "{ CNY = 19 }"), "recon.channels.main.exponents.CNY: must be 0 to 18"),
        (main("Asia/Shanghai", "Mars"), "recon.channels.main.zone: "),
        (of(&format!("{MAIN}hour = 15\n")), "recon.channels.main.deadline_hour: must not be before hour"),
        (of(&format!("{MAIN}colour = 1\n")), "recon.channels.main.colour: is not a known key"),
        (
            of(&format!("{MAIN}{}", MAIN.replace(".main]", ".second]"))),
            "recon.channels.second.wallet: main has another",
        ),
        (of("[recon]\npage_rows = 0\n"), "recon.page_rows: must be 1 to 10000"),
        (of(&GENERIC.replace("order_no = \"no\"\n", "")), "recon.channels.main.layout: "),
    ] {
        assert!(found.iter().any(|problem| problem.starts_with(key)), "{key} is not in {found:#?}");
    }
}
