//! Every body, key, preference and query string: generated ones, and those that the fuzz targets are started with.

#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "properties/payment_body.rs"]
mod payment_body;
#[path = "properties/request_head.rs"]
mod request_head;

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Values for one place of a body, most of them fitting for some place.
fn value() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "[1-9][0-9]{0,18}",
        "[A-Za-z0-9_.-]{1,33}",
        "[ -!#-\\[\\]-~]{0,162}",
        "[A-Z]{3}",
        "[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,12})?(Z|z|[+-][0-2][0-9]:[0-5][0-9])",
        "(0000|9999)-(01|12)-(01|31)T(00|23):[0-5][0-9]:[0-5][0-9][+-](00|01|23):59",
        "\\PC{0,8}",
        Just("c".repeat(4_097)),
    ];
    prop_oneof![
        8 => text.prop_map(|text| serde_json::to_string(&text).unwrap()),
        2 => any::<i64>().prop_map(|number| number.to_string()),
        1 => "-?[0-9]{1,25}([.][0-9]{1,3})?(e[0-9]{1,3})?",
        1 => select(vec!["null", "true", "[]", "{}", "[1,\"a\"]", "\"\\ud800\"", "-0", "1.0"]).prop_map(str::to_owned),
    ]
}

const GOOD: [(&str, &str); 7] = [
    ("user_id", "\"38922\""),
    ("scene", "\"renew\""),
    ("biz_key", "\"R:38922:7\""),
    ("amount", "1200"),
    ("currency", "\"CNY\""),
    ("deadline", "\"2026-01-01T00:00:00.123+08:00\""),
    ("context", "\"c\""),
];

/// A body in which some places hold something else, some members are missing, doubled or unknown, and some bytes differ.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((0..GOOD.len(), value()), 0..3);
    let extra = prop::option::weighted(0.2, (select(vec!["user_id", "money", "colour", "amount"]), value()));
    let missing = prop::option::weighted(0.2, 0..GOOD.len());
    let byte = prop::option::weighted(0.1, (any::<Index>(), any::<u8>()));
    (changes, extra, missing, byte).prop_map(|(changes, extra, missing, byte)| {
        let mut members = GOOD.map(|(name, value)| (name, value.to_owned()));
        for (place, value) in changes {
            members[place].1 = value;
        }
        let member = |place: usize| {
            let (name, value) = &members[place];
            if missing == Some(place) { String::new() } else { format!("\"{name}\": {value},") }
        };
        let money = [member(3), member(4)].concat();
        let outside = [0, 1, 2, 5, 6].map(member).concat();
        let extra = extra.map(|(name, value)| format!("\"{name}\":{value},")).unwrap_or_default();
        let text = format!("{{{extra}{outside}\"money\":{{{}}}}}", money.trim_end_matches(','));
        let mut bytes = text.into_bytes();
        if let Some((place, byte)) = byte {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes
    })
}

fn query() -> impl Strategy<Value = String> {
    let names = vec![
        "user_id",
        "scene",
        "biz_key",
        "trade_order_no",
        "refund_order_no",
        "caller",
        "state",
        "open",
        "held",
        "min_age_ms",
        "limit",
        "cursor",
        "sort",
    ];
    let values = prop_oneof![
        "[1-9][0-9]{0,20}",
        "0?[0-9]{1,3}",
        "(r_)?h2r_[0-9a-z]{1,13}_[0-9a-z]{1,13}",
        "[A-Za-z0-9_.%+-]{0,20}",
        select(vec!["true", "false", "PAYED", "BIZ_SUCCESS", "shop", "game", "", "%00", "%FF", "1&"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec((select(names), values), 0..4).prop_map(|pairs| {
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_048))]
    #[test]
    fn every_body_is_understood_exactly_or_refused(body in body()) {
        payment_body::check(&body);
    }

    #[test]
    fn every_key_is_itself_however_it_is_written(
        key in prop_oneof!["[ -~\\t]{0,12}", "\"([!-~]|\\\\\\\\|\\\\\"){0,6}\"?", "[!-~]{250,260}", "\\PC{0,8}"],
    ) {
        request_head::check_key(key.as_bytes());
    }

    #[test]
    fn every_preference_asks_for_one_wait_at_most(value in "([Ww]ait|respond-async|w)? ?(=|;|,)? ?\"?[0-9]{0,22}[;,\"= ]?[ -~]{0,8}") {
        request_head::check_preference(value.as_bytes());
    }

    #[test]
    fn every_query_string_is_understood_exactly_or_refused(text in query()) {
        request_head::check_query(&text);
    }
}

#[test]
fn the_seeds_of_the_fuzz_targets_hold() {
    flow_testkit::seeds::each("payment_body", payment_body::check);
    flow_testkit::seeds::each("request_head", request_head::check_lines);
}
