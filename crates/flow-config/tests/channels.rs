//! `[channels.NAME]` as an operator meets it: read by scheme, every problem by the full path of its key, no secret shown.

#![allow(clippy::unwrap_used, reason = "test code")]

mod loaded;

use flow_config::{Config, ConfigError, RsaLayout, SchemeConfig};
use flow_core::ids::ChannelName;

use loaded::REST;

fn load(channels: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    loaded::load(&format!("{REST}{channels}"), env)
}

fn problems(channels: &str) -> Vec<String> {
    loaded::problems(&format!("{REST}{channels}"), &[])
}

const CHANNELS: &str = r#"
[channels.main]
scheme = "standard-webhooks"
secrets = ["whsec_b2xkLWh1bnRlcjIteHh4eHh4eHh4eHh4eHg=", "whsec_bmV3LWh1bnRlcjIteHh4eHh4eHh4eHh4eHg="]
[channels.bank]
scheme = "rsa-sha256"
public_key_file = "/etc/bank.pem"
layout = "timestamp-nonce-body"
nonce_header = "X-Nonce"
tolerance_s = 60
[channels.shop]
scheme = "rsa-sha256"
public_key_file = "/etc/shop.pem"
layout = "sorted-form"
"#;

#[test]
fn channels_are_read_by_scheme() {
    let config = load(CHANNELS, &[]).unwrap();
    let channel = |name: &str| &config.channels[&ChannelName::new(name).unwrap()];
    let SchemeConfig::StandardWebhooks { secrets } = &channel("main").scheme else {
        panic!("another scheme")
    };
    assert_eq!(secrets[1].expose(), b"new-hunter2-xxxxxxxxxxxxxx");
    assert_eq!((channel("main").tolerance_s, channel("bank").tolerance_s), (300, 60));
    let SchemeConfig::RsaSha256 { layout, .. } = &channel("bank").scheme else { panic!("another scheme") };
    let header = |name: &str| name.to_owned();
    let expected = RsaLayout::TimestampNonceBody {
        timestamp_header: header("Wechatpay-Timestamp"),
        nonce_header: header("X-Nonce"),
        signature_header: header("Wechatpay-Signature"),
    };
    assert_eq!(*layout, expected);
    assert!(!format!("{config:?}").contains("hunter2"));
    let by_variable = ("PAY__CHANNELS__MAIN__SECRETS", "whsec_b2xkLWh1bnRlcjIteHh4eHh4eHh4eHh4eHg=");
    let config = load(CHANNELS, &[by_variable]).unwrap();
    let SchemeConfig::StandardWebhooks { secrets } =
        &config.channels[&ChannelName::new("main").unwrap()].scheme
    else {
        panic!("another scheme")
    };
    assert_eq!(secrets.len(), 1);
}

#[test]
fn wrong_channels_are_named_and_their_secrets_are_not_shown() {
    let cases = [
        (
            "scheme = \"standard-webhooks\"",
            "scheme = \"md5\"",
            "channels.main.scheme: must be standard-webhooks or rsa-sha256",
        ),
        ("secrets = [", "secrets = [1, ", "channels.main.secrets: must be a list of texts"),
        ("[\"whsec_", "[\"hunter2", "channels.main.secrets: each must be whsec_ and the base64"),
        (
            "whsec_bmV3LWh1bnRlcjIteHh4eHh4eHh4eHh4eHg=",
            "whsec_c2hvcnQ=",
            "channels.main.secrets: each must be whsec_",
        ),
        (
            "layout = \"sorted-form\"",
            "layout = \"xml\"",
            "channels.shop.layout: must be timestamp-nonce-body or sorted-form",
        ),
        (
            "layout = \"sorted-form\"",
            "layout = \"sorted-form\"\nsecrets = [\"x\"]",
            "channels.shop.secrets: is not a known key",
        ),
        ("\"X-Nonce\"", "\"X Nonce\"", "channels.bank.nonce_header: must be the name of a header"),
        ("tolerance_s = 60", "tolerance_s = 0", "channels.bank.tolerance_s: must be 1 to 86400"),
        ("public_key_file = \"/etc/shop.pem\"", "", "channels.shop.public_key_file: is missing"),
        ("[channels.main]", "[channels.\"a/b\"]", "channels.a/b: is no usable name"),
    ];
    for (right, wrong, expected) in cases {
        let found = problems(&CHANNELS.replacen(right, wrong, 1));
        assert!(
            found.iter().any(|text| text.starts_with(expected)),
            "{wrong}: {expected:?} not in {found:?}"
        );
        assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    }
    let none = CHANNELS.replacen("secrets = [", "secrets = [] #", 1);
    let found = problems(&none);
    assert_eq!(found, ["channels.main.secrets: must be 1 to 8 secrets, are 0"]);
}
