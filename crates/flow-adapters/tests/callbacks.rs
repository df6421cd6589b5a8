//! Whether a callback is its channel's, and what it says: every scheme as a table of what is accepted and what is not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use flow_adapters::callback::{Acknowledgement, Channel, ChannelError, Forged, Refused, Told};
use flow_config::{ChannelConfig, RsaLayout, SchemeConfig};
use flow_core::callback::{Claim, EventType};
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rsa::PrivateKey;
use rsa::pkcs1v15::SigningKey;
use rsa::pkcs8::DecodePrivateKey as _;
use rsa::signature::{SignatureEncoding as _, Signer as _};
use sha2::Sha256;
use url::form_urlencoded::Serializer;

const OLD: &[u8] = b"the-old-secret-of-24-bytes";
const NEW: &[u8] = b"the-new-secret-of-24-bytes";
const OTHER: &[u8] = b"another's-secret-of-24-byte";

const BODY: &str = r#"{"id":"in-body","type":"payment","timestamp":"2026-01-01T00:00:00Z","data":{"trade_order_no":"h2r_1_1","status":"SUCCESS","money":{"amount":1990,"currency":"CNY"}}}"#;

fn now() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn at(seconds: i64) -> String {
    (now() + TimeDelta::seconds(seconds)).timestamp().to_string()
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn webhooks() -> Channel {
    let secret = |bytes: &[u8]| format!("whsec_{}", STANDARD.encode(bytes)).parse().unwrap();
    let scheme = SchemeConfig::StandardWebhooks { secrets: vec![secret(OLD), secret(NEW)] };
    Channel::new(&ChannelConfig { scheme, tolerance_s: 300 }).unwrap()
}

fn signature(secret: &[u8], id: &str, timestamp: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// A callback as its sender made it, and as it is changed on its way.
struct Sent {
    id: &'static str,
    timestamp: String,
    signature: String,
    body: String,
}

impl Sent {
    fn by(secret: &[u8], seconds: i64) -> Sent {
        let (id, timestamp) = ("evt-1", at(seconds));
        let signature = signature(secret, id, &timestamp, BODY);
        Sent { id, timestamp, signature, body: BODY.to_owned() }
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        vec![
            ("webhook-id", self.id),
            ("webhook-timestamp", &self.timestamp),
            ("webhook-signature", &self.signature),
        ]
    }

    fn read(&self) -> Result<Told, Refused> {
        webhooks().read(&headers(&self.pairs()), self.body.as_bytes(), now())
    }
}

fn forged(why: Forged) -> Result<Told, Refused> {
    Err(Refused::Forged(why))
}

#[test]
fn the_vector_of_the_specification_is_accepted() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
    let scheme = SchemeConfig::StandardWebhooks { secrets: vec![secret] };
    let channel = Channel::new(&ChannelConfig { scheme, tolerance_s: 300 }).unwrap();
    let sent = headers(&[
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ]);
    let then = DateTime::from_timestamp(1_614_265_330, 0).unwrap();
    // Its signature holds; it is no event of ours.
    let read = channel.read(&sent, br#"{"test": 2432232314}"#, then);
    assert!(matches!(read, Err(Refused::NotAnEvent(_))), "{read:?}");
}

#[test]
fn a_good_callback_says_what_it_says() {
    let told = Sent::by(OLD, 0).read().unwrap();
    assert_eq!(told.event_id.as_str(), "evt-1", "the id that is signed");
    assert_eq!((told.order_no.as_str(), told.event_type), ("h2r_1_1", EventType::Payment));
    assert_eq!((told.claim, told.money.unwrap().to_string().as_str()), (Claim::Success, "1990 CNY"));
    assert_eq!(webhooks().acknowledgement(), Acknowledgement::AnySuccess);
}

#[test]
fn each_configured_secret_is_accepted_and_no_other() {
    assert!(Sent::by(OLD, 0).read().is_ok());
    assert!(Sent::by(NEW, 0).read().is_ok(), "the secret that replaces it");
    assert_eq!(Sent::by(OTHER, 0).read(), forged(Forged::WrongSignature));
}

#[test]
fn one_good_signature_among_others_is_enough() {
    let good = Sent::by(NEW, 0).signature;
    let bad = Sent::by(OTHER, 0).signature;
    let cases = [
        (format!("{bad} {good}"), true),
        (format!("{good} {bad}"), true),
        (format!("v1a,{} {good}", "AAAA"), true),
        (format!("v1,not-base64! {good}"), true),
        (format!("{bad} {bad}"), false),
        (good.replace("v1,", "v2,"), false),
        (good.replace("v1,", ""), false),
        (format!("{good},{good}"), false),
        (format!("{}{good}", "v1,AAAA ".repeat(16)), false),
        (good.trim_end_matches('=').to_owned(), false),
        ("v1,".to_owned(), false),
    ];
    for (signature, accepted) in cases {
        let read = Sent { signature: signature.clone(), ..Sent::by(NEW, 0) }.read();
        assert_eq!(read.is_ok(), accepted, "{signature}: {read:?}");
    }
}

#[test]
fn a_callback_is_accepted_for_five_minutes_in_both_directions() {
    for (seconds, accepted) in
        [(0, true), (-300, true), (300, true), (-301, false), (301, false), (-86_400, false), (86_400, false)]
    {
        let read = Sent::by(OLD, seconds).read();
        assert_eq!(read.is_ok(), accepted, "{seconds} s: {read:?}");
        if !accepted {
            assert_eq!(read, forged(Forged::Expired));
        }
    }
}

#[test]
fn every_altered_byte_is_noticed() {
    for index in 0..BODY.len() {
        let mut body = BODY.as_bytes().to_vec();
        body[index] ^= 1;
        let sent = Sent::by(OLD, 0);
        let read = webhooks().read(&headers(&sent.pairs()), &body, now());
        assert_eq!(read, forged(Forged::WrongSignature), "byte {index}");
    }
    for body in [String::new(), format!("{BODY} "), format!(" {BODY}"), BODY[1..].to_owned()] {
        assert_eq!(Sent { body, ..Sent::by(OLD, 0) }.read(), forged(Forged::WrongSignature));
    }
    assert_eq!(Sent { id: "evt-2", ..Sent::by(OLD, 0) }.read(), forged(Forged::WrongSignature));
    assert_eq!(Sent { timestamp: at(1), ..Sent::by(OLD, 0) }.read(), forged(Forged::WrongSignature));
}

#[test]
fn headers_that_are_missing_doubled_or_odd_are_refused() {
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let sent = Sent::by(OLD, 0);
        let mut pairs = sent.pairs();
        pairs.retain(|(other, _)| *other != name);
        let read = |pairs: &[(&str, &str)]| webhooks().read(&headers(pairs), BODY.as_bytes(), now());
        assert_eq!(read(&pairs), forged(Forged::Malformed(name)), "missing");
        pairs.push((name, ""));
        assert_eq!(read(&pairs), forged(Forged::Malformed(name)), "empty");
        let mut doubled = sent.pairs();
        doubled.extend(sent.pairs().into_iter().filter(|(other, _)| *other == name));
        assert_eq!(read(&doubled), forged(Forged::Malformed(name)), "doubled");
    }
    for timestamp in ["now", "-1", "+1767225600", "1767225600.0", " 1767225600", "99999999999999999999"] {
        let read = Sent { timestamp: timestamp.to_owned(), ..Sent::by(OLD, 0) }.read();
        assert_eq!(read, forged(Forged::Malformed("webhook-timestamp")), "{timestamp}");
    }
}

#[test]
fn a_signed_body_that_is_no_event_is_told_by_its_member() {
    let cases = [
        ("\"type\":\"payment\"", "\"type\":\"balance\"", "type"),
        ("h2r_1_1", "h2r_1", "data.trade_order_no"),
        ("SUCCESS", "PAID", "data.status"),
        ("1990", "0", "data.money.amount"),
        ("1990", "19.90", "the body"),
        ("CNY", "cny", "data.money.currency"),
        ("\"status\"", "\"refund_order_no\":\"r_h2r_1_1\",\"status\"", "data.refund_order_no"),
        ("{\"id\"", "[\"id\"", "the body"),
    ];
    for (right, wrong, field) in cases {
        let body = BODY.replacen(right, wrong, 1);
        let timestamp = at(0);
        let signature = signature(OLD, "evt-1", &timestamp, &body);
        let read = Sent { id: "evt-1", timestamp, signature, body }.read();
        let Err(Refused::NotAnEvent(no)) = &read else { panic!("{wrong}: {read:?}") };
        assert_eq!(no.field, field, "{wrong}");
    }
}

#[test]
fn what_an_event_says_follows_its_type() {
    let said = |event_type: &str, data: &str| {
        let body =
            format!(r#"{{"type":"{event_type}","data":{{"trade_order_no":"h2r_1_1",{data}}},"more":1}}"#);
        let timestamp = at(0);
        let signature = signature(OLD, "evt-1", &timestamp, &body);
        Sent { id: "evt-1", timestamp, signature, body }.read().ok().map(|told| (told.event_type, told.claim))
    };
    let refund = |status: &str| format!(r#""refund_order_no":"r_h2r_1_1","status":"{status}""#);
    assert_eq!(said("payment", r#""status":"CLOSED""#), Some((EventType::Payment, Claim::Failed)));
    assert_eq!(said("payment", r#""status":"FAILED""#), Some((EventType::Payment, Claim::Failed)));
    assert_eq!(said("payment", r#""status":"PROCESSING""#), Some((EventType::Payment, Claim::Processing)));
    assert_eq!(said("refund", &refund("SUCCESS")), Some((EventType::Refund, Claim::Success)));
    assert_eq!(said("refund", &refund("FAILED")), Some((EventType::Refund, Claim::Failed)));
    assert_eq!(said("refund", &refund("CLOSED")), None, "a refund is not closed");
    assert_eq!(said("refund", r#""status":"SUCCESS""#), None, "whose refund?");
    assert_eq!(
        said("refund", r#""refund_order_no":"r_h2r_1_2","status":"SUCCESS""#),
        None,
        "another's refund"
    );
}

// RSA with SHA-256.

fn key_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name)
}

fn rsa_channel(public_key_file: PathBuf, layout: RsaLayout) -> Result<Channel, ChannelError> {
    let scheme = SchemeConfig::RsaSha256 { public_key_file, layout };
    Channel::new(&ChannelConfig { scheme, tolerance_s: 300 })
}

fn sign(key: &str, text: &str) -> String {
    let pem = std::fs::read_to_string(key_file(key)).unwrap();
    let key = SigningKey::<Sha256>::new(PrivateKey::from_pkcs8_pem(&pem).unwrap());
    STANDARD.encode(key.sign(text.as_bytes()).to_bytes())
}

fn body_layout() -> RsaLayout {
    RsaLayout::TimestampNonceBody {
        timestamp_header: "Wechatpay-Timestamp".to_owned(),
        nonce_header: "Wechatpay-Nonce".to_owned(),
        signature_header: "Wechatpay-Signature".to_owned(),
    }
}

fn read_rsa_body(timestamp: &str, nonce: &str, signature: &str, body: &str) -> Result<Told, Refused> {
    let sent = headers(&[
        ("wechatpay-timestamp", timestamp),
        ("wechatpay-nonce", nonce),
        ("wechatpay-signature", signature),
    ]);
    let channel = rsa_channel(key_file("channel.pub.pem"), body_layout()).unwrap();
    channel.read(&sent, body.as_bytes(), now())
}

#[test]
fn time_nonce_and_body_are_signed() {
    let signed = |seconds: i64| sign("channel.pem", &format!("{}\nn-1\n{BODY}\n", at(seconds)));
    let told = read_rsa_body(&at(0), "n-1", &signed(0), BODY).unwrap();
    assert_eq!(told.event_id.as_str(), "in-body");
    assert!(read_rsa_body(&at(-300), "n-1", &signed(-300), BODY).is_ok());
    assert_eq!(read_rsa_body(&at(-301), "n-1", &signed(-301), BODY), forged(Forged::Expired));
    assert_eq!(read_rsa_body(&at(301), "n-1", &signed(301), BODY), forged(Forged::Expired));
    let wrong = forged(Forged::WrongSignature);
    assert_eq!(read_rsa_body(&at(1), "n-1", &signed(0), BODY), wrong);
    assert_eq!(read_rsa_body(&at(0), "n-2", &signed(0), BODY), wrong);
    assert_eq!(read_rsa_body(&at(0), "n-1", &signed(0), &format!("{BODY} ")), wrong);
    let others = sign("other.pem", &format!("{}\nn-1\n{BODY}\n", at(0)));
    assert_eq!(read_rsa_body(&at(0), "n-1", &others, BODY), wrong);
    assert_eq!(read_rsa_body(&at(0), "n-1", &STANDARD.encode([1; 256]), BODY), wrong);
    assert_eq!(read_rsa_body(&at(0), "n-1", "AAAA", BODY), wrong);
    let malformed = |told| matches!(told, Err(Refused::Forged(Forged::Malformed(_))));
    assert!(malformed(read_rsa_body(&at(0), "n-1", "no base64", BODY)));
    assert!(malformed(read_rsa_body("soon", "n-1", &signed(0), BODY)));
    assert!(malformed(read_rsa_body(&at(0), "", &signed(0), BODY)));
    let no_id = BODY.replace("\"id\":\"in-body\",", "");
    let signature = sign("channel.pem", &format!("{}\nn-1\n{no_id}\n", at(0)));
    let read = read_rsa_body(&at(0), "n-1", &signature, &no_id);
    assert!(matches!(read, Err(Refused::NotAnEvent(no)) if no.field == "id"), "{read:?}");
}

const FORM: [(&str, &str); 7] = [
    ("id", "evt-9"),
    ("type", "payment"),
    ("trade_order_no", "h2r_1_1"),
    ("status", "SUCCESS"),
    ("amount", "1990"),
    ("currency", "CNY"),
    ("subject", "续签 a=b + 100%"),
];

/// A form in any order, signed over its sorted parameters.
fn form(pairs: &[(&str, &str)], key: &str) -> String {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable();
    let joined: Vec<String> = sorted.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let signature = sign(key, &joined.join("&"));
    let mut body = Serializer::new(String::new());
    body.extend_pairs(pairs).append_pair("sign_type", "RSA2").append_pair("sign", &signature);
    body.finish()
}

fn read_form(body: &str) -> Result<Told, Refused> {
    let channel = rsa_channel(key_file("channel.pub.pem"), RsaLayout::SortedForm).unwrap();
    assert_eq!(channel.acknowledgement(), Acknowledgement::WordSuccess);
    channel.read(&HeaderMap::new(), body.as_bytes(), now())
}

#[test]
fn a_forms_sorted_parameters_are_signed() {
    let good = form(&FORM, "channel.pem");
    let told = read_form(&good).unwrap();
    assert_eq!((told.event_id.as_str(), told.order_no.as_str()), ("evt-9", "h2r_1_1"));
    assert_eq!((told.claim, told.money.unwrap().amount()), (Claim::Success, 1990));
    let wrong = forged(Forged::WrongSignature);
    assert_eq!(read_form(&form(&FORM, "other.pem")), wrong);
    assert_eq!(read_form(&good.replace("1990", "1991")), wrong);
    assert_eq!(read_form(&good.replace("evt-9", "evt-8")), wrong);
    assert_eq!(read_form(&format!("{good}&extra=1")), wrong);
    assert_eq!(
        read_form(&good.replace("sign_type=RSA2", "sign_type=RSA")),
        forged(Forged::Malformed("sign_type"))
    );
    assert_eq!(read_form(&good.replace("&sign=", "&sing=")), forged(Forged::Malformed("sign")));
    assert_eq!(read_form(&format!("{good}&id=evt-9")), forged(Forged::Malformed("a parameter")));
    assert_eq!(read_form(""), forged(Forged::Malformed("sign")));
    for (name, field) in [("amount", "amount"), ("currency", "currency"), ("status", "status"), ("id", "id")]
    {
        let fewer: Vec<(&str, &str)> = FORM.into_iter().filter(|(other, _)| *other != name).collect();
        let read = read_form(&form(&fewer, "channel.pem"));
        assert!(matches!(read, Err(Refused::NotAnEvent(no)) if no.field == field), "{name}: {read:?}");
    }
}

#[test]
fn a_form_cannot_be_cut_otherwise_under_the_same_signature() {
    let good = form(&FORM, "channel.pem");
    // `amount=1990&currency=CNY` as one value reads the same once it is joined.
    let joined = good.replace("amount=1990&currency=CNY", "amount=1990%26currency%3DCNY");
    assert_ne!(joined, good);
    assert_eq!(read_form(&joined), forged(Forged::Malformed("a parameter")));
}

#[test]
fn keys_are_read_from_pem_several_while_one_replaces_another() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let pem = |name: &str| std::fs::read_to_string(key_file(name)).unwrap();
    let both = write("both.pem", &format!("{}\n{}", pem("other.pub.pem"), pem("channel.pub.pem")));
    let channel = rsa_channel(both, RsaLayout::SortedForm).unwrap();
    for key in ["channel.pem", "other.pem"] {
        assert!(channel.read(&HeaderMap::new(), form(&FORM, key).as_bytes(), now()).is_ok(), "{key}");
    }
    let missing = rsa_channel(folder.path().join("none.pem"), RsaLayout::SortedForm).unwrap_err();
    assert!(matches!(missing, ChannelError::Unreadable { .. }) && missing.to_string().contains("none.pem"));
    for (name, text) in [
        ("empty.pem", String::new()),
        ("private.pem", pem("channel.pem")),
        ("cut.pem", pem("channel.pub.pem")[..200].to_owned()),
    ] {
        let error = rsa_channel(write(name, &text), RsaLayout::SortedForm).unwrap_err();
        assert!(matches!(error, ChannelError::NoKey { .. }) && error.to_string().contains(name), "{error}");
    }
}

/// Bytes near an event, and any others.
fn some_body() -> impl Strategy<Value = Vec<u8>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..200);
    let cut = (0..BODY.len(), 0..40_usize, proptest::collection::vec(any::<u8>(), 0..8)).prop_map(
        |(at, length, patch)| {
            let mut body = BODY.as_bytes().to_vec();
            let end = (at + length).min(body.len());
            body.splice(at..end, patch);
            body
        },
    );
    prop_oneof![bytes, cut]
}

proptest! {
    #[test]
    fn whatever_is_signed_is_an_event_or_is_refused_by_its_member(body in some_body()) {
        let timestamp = at(0);
        let mut mac = Hmac::<Sha256>::new_from_slice(OLD).unwrap();
        mac.update(format!("evt-1.{timestamp}.").as_bytes());
        mac.update(&body);
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let sent = [
            ("webhook-id", "evt-1"), ("webhook-timestamp", &*timestamp), ("webhook-signature", &*signature),
        ];
        match webhooks().read(&headers(&sent), &body, now()) {
            Ok(told) => prop_assert!(told.order_no.parts().is_some()),
            Err(Refused::NotAnEvent(no)) => prop_assert!(!no.field.is_empty()),
            Err(Refused::Forged(forged)) => prop_assert!(false, "{forged}"),
        }
    }

    #[test]
    fn whatever_is_not_signed_is_forged(body in some_body(), signature in "\\PC{0,60}") {
        let Ok(value) = HeaderValue::from_str(&signature) else { return Ok(()) };
        let mut sent = headers(&[("webhook-id", "evt-1"), ("webhook-timestamp", &at(0))]);
        sent.insert("webhook-signature", value);
        let read = webhooks().read(&sent, &body, now());
        prop_assert!(matches!(read, Err(Refused::Forged(_))), "{read:?}");
        prop_assert!(matches!(read_form(&String::from_utf8_lossy(&body)), Err(Refused::Forged(_))));
    }
}
