//! What holds of every identity that is read from text, whatever the text. One statement for the property tests here and
//! for the fuzz target `identities`.

#![allow(clippy::unwrap_used, reason = "test code")]

use flow_core::answer::ErrorCode;
use flow_core::ids::{
    Actor, BizKey, CallerId, DownstreamName, DownstreamRef, Fingerprint, FlowId, IdempotencyKey, OrderRef,
    RefundOrderNo, Scene, TraceId, TradeOrderNo, UserId,
};
use flow_core::money::{Currency, Money};
use flow_core::state::State;

/// # Panics
/// A property does not hold.
pub(crate) fn check(text: &str) {
    numbers(text);
    order_numbers(text);
    texts(text);
    codes(text);
    money(text);
}

/// A whole number from 1 to 2^63-1 in its one spelling, told independently of any parser.
fn is_id(text: &str) -> bool {
    const MAX: &str = "9223372036854775807";
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits && !text.starts_with('0') && (text.len() < MAX.len() || text.len() == MAX.len() && text <= MAX)
}

fn numbers(text: &str) {
    let flow_id = text.parse::<FlowId>();
    assert_eq!(flow_id.is_ok(), is_id(text), "flow id {text:?}");
    assert_eq!(UserId::try_from(text.to_owned()).is_ok(), is_id(text), "user id {text:?}");
    if let Ok(flow_id) = flow_id {
        assert_eq!(flow_id.to_string(), text);
        let written = serde_json::to_string(&flow_id).unwrap();
        assert_eq!(written, format!("\"{text}\""), "an id is a string in JSON");
        assert_eq!(serde_json::from_str::<FlowId>(&written).unwrap(), flow_id);
    }
}

/// The same in base 36, with the letters in lower case.
fn is_id_in_base36(text: &str) -> bool {
    const MAX: &str = "1y2p0ij32e8e7";
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    let fits = text.len() < MAX.len() || text.len() == MAX.len() && text <= MAX;
    !text.is_empty() && digits && !text.starts_with('0') && fits
}

fn order_numbers(text: &str) {
    let parts: Vec<&str> = text.split('_').collect();
    let is_trade = matches!(parts[..], ["h2r", user, flow] if is_id_in_base36(user) && is_id_in_base36(flow));
    let is_refund =
        matches!(parts[..], ["r", "h2r", user, flow] if is_id_in_base36(user) && is_id_in_base36(flow));
    let trade = TradeOrderNo::try_from(text.to_owned());
    let refund = RefundOrderNo::try_from(text.to_owned());
    assert_eq!((trade.is_ok(), refund.is_ok()), (is_trade, is_refund), "{text:?}");
    if let Ok(trade) = trade {
        let (user_id, flow_id) = trade.parts().expect("a number can be taken apart");
        assert_eq!(TradeOrderNo::derive(user_id, flow_id), trade, "a number is derived from its parts");
        assert_eq!(RefundOrderNo::derive(&trade).trade_order_no(), Some(trade));
    }
    if let Ok(refund) = refund {
        let trade = refund.trade_order_no().expect("a refund names its charge");
        assert_eq!(RefundOrderNo::derive(&trade).as_str(), text, "a refund is derived from its charge");
    }
}

macro_rules! text_holds {
    ($text:ident: $($kind:ty, $max:literal, $ok:expr;)+) => {$(
        let fits = (1..=$max).contains(&$text.len()) && $text.bytes().all($ok);
        let read = <$kind>::new($text);
        assert_eq!(read.is_ok(), fits, "{} {:?}", stringify!($kind), $text);
        match read {
            Ok(id) => {
                assert_eq!(id.as_str(), $text, "what is read is written as it was");
                let written = serde_json::to_string(&id).unwrap();
                assert_eq!(serde_json::from_str::<$kind>(&written).unwrap(), id);
            }
            Err(error) => assert!(error.to_string().len() < 200, "a complaint stays small: {error}"),
        }
    )+};
}

fn texts(text: &str) {
    let visible = |byte: u8| (b'!'..=b'~').contains(&byte);
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    text_holds! { text:
        BizKey, 160, visible;
        Scene, 32, name;
        DownstreamName, 32, name;
        CallerId, 64, name;
        IdempotencyKey, 255, visible;
        TraceId, 64, name;
        Actor, 64, visible;
        DownstreamRef, 128, visible;
        OrderRef, 96, visible;
    }
    let currency = (1..=16).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    assert_eq!(Currency::new(text).is_ok(), currency, "currency {text:?}");
}

fn codes(text: &str) {
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fingerprint = Fingerprint::from_hex(text);
    assert_eq!(fingerprint.is_some(), is_hex, "fingerprint {text:?}");
    assert!(fingerprint.is_none_or(|read| read.to_hex() == text.to_ascii_lowercase()));

    let code = ErrorCode::clean(text);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-:".contains(&byte);
    assert!((1..=64).contains(&code.as_str().len()) && code.as_str().bytes().all(fits), "{code}");
    assert_eq!(ErrorCode::clean(code.as_str()), code, "what is clean stays as it is");

    assert!(State::parse(text).is_none_or(|state| state.as_str() == text));
}

fn money(text: &str) {
    let Ok(money) = serde_json::from_str::<Money>(text) else { return };
    assert!(money.amount() >= 1, "{text:?}");
    let written = serde_json::to_string(&money).unwrap();
    assert_eq!(serde_json::from_str::<Money>(&written).unwrap(), money);
}
