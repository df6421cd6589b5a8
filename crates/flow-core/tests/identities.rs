//! Every identity against every text: generated ones, and those that the fuzz target is started with.

#[path = "properties/identities.rs"]
mod identities;

use flow_core::ids::{FlowId, RefundOrderNo, TradeOrderNo, UserId};
use proptest::prelude::*;

/// Texts that are an identity or nearly one.
fn near_misses() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{0,22}",
        "922337203685477[0-9]{4,5}",
        "(r_)?h2r_[0-9a-zA-Z]{0,14}_[0-9a-z]{0,14}",
        "(r_)?h2r_1y2p0ij32e8e[0-9a-z]_1y2p0ij32e8[a-z0-9]{2}",
        "[!-~]{0,300}",
        "[A-Za-z0-9_.-]{0,70}",
        "[A-Z][A-Z0-9_]{0,17}",
        "[0-9a-fA-F]{63,65}",
        "\\PC{0,20}",
        r#"\{"amount":-?[0-9]{1,20},"currency":"[A-Z]{1,3}"\}"#,
        prop::sample::select(vec!["WAIT_PAY", "PAYED", "payed", "BIZ_SUCCESS", " PAYING"])
            .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_048))]
    #[test]
    fn every_identity_is_read_exactly(text in near_misses()) {
        identities::check(&text);
    }

    #[test]
    fn order_numbers_are_derived_one_to_one(
        (user, flow) in (1i64.., 1i64..), (other_user, other_flow) in (1i64..100, 1i64..100),
    ) {
        let number = |user, flow| TradeOrderNo::derive(UserId::new(user).unwrap(), FlowId::new(flow).unwrap());
        let trade = number(user, flow);
        identities::check(trade.as_str());
        identities::check(RefundOrderNo::derive(&trade).as_str());
        let (read_user, read_flow) = trade.parts().unwrap();
        prop_assert_eq!((read_user.get(), read_flow.get()), (user, flow));
        let same = (user, flow) == (other_user, other_flow);
        prop_assert_eq!(number(other_user, other_flow) == trade, same);
    }
}

#[test]
fn the_seeds_of_the_fuzz_target_hold() {
    flow_testkit::seeds::each("identities", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            identities::check(text);
        }
    });
}
