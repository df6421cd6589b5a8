//! The forms in the served document against the readers: whoever makes requests from the document alone is understood, and
//! what the document excludes is refused.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use regex::Regex;
use serde_json::Value;

use crate::contract::document;
use crate::harness::{Harness, OPERATOR, SHOP};

/// Where a parameter goes in a request.
struct Place {
    name: &'static str,
    path: &'static str,
    schema: Value,
}

impl Place {
    fn of(document: &Value, path: &'static str, name: &'static str) -> Place {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
        let parameter = parameters.iter().find(|parameter| parameter["name"] == name).unwrap();
        Place { name, path, schema: parameter["schema"].clone() }
    }

    /// Whether the document allows the text here.
    fn allows(&self, text: &str) -> bool {
        let schema = &self.schema;
        let matches = |pattern: &Value| {
            Regex::new(&pattern.as_str().unwrap().replace('$', r"\z")).unwrap().is_match(text)
        };
        let fits = |max: &Value| max.as_u64().is_none_or(|max| text.len() as u64 <= max);
        let within = |number: u64| {
            schema["minimum"].as_u64().unwrap() <= number && number <= schema["maximum"].as_u64().unwrap()
        };
        match schema["type"].as_str().unwrap() {
            "integer" => text.bytes().all(|b| b.is_ascii_digit()) && text.parse().is_ok_and(within),
            _ if schema["enum"].is_array() => {
                schema["enum"].as_array().unwrap().iter().any(|word| word == text)
            }
            _ => matches(&schema["pattern"]) && fits(&schema["maxLength"]),
        }
    }

    fn uri(&self, text: &str) -> String {
        let encoded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        if self.path.contains(&format!("{{{}}}", self.name)) {
            return self.path.replace(&format!("{{{}}}", self.name), &encoded.replace('+', "%20"));
        }
        let path =
            self.path.replace("{flow_id}", "1").replace("{event_id}", "evt_1_1").replace("{ticket_id}", "1");
        format!("{path}?{}={encoded}", self.name)
    }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,21}",
        "92233720368547758[0-9]{2}",
        "184467440737095516[0-9]{2}",
        "42949672[89][0-9]",
        "(r_)?h2r_[0-9a-zA-Z]{1,14}_[0-9a-z]{1,14}",
        "(r_)?h2r_1y2p0ij32e8e[0-9a-z]_1y2p0[h-k]j32e8e7",
        "evt_[0-9]{1,20}_[0-9]{1,20}",
        "evt_92233720368547758[0-9]{2}_92233720368547758[0-9]{2}",
        "[ -~]{1,12}",
        "[A-Za-z0-9_.-]{30,66}",
        "[!-~]{158,162}",
        "[A-Z]{4,7}_?[A-Z]{0,7}",
        prop::sample::select(vec![
            "WAIT_PAY",
            "PAYING",
            "PAY_FAIL",
            "PAYED",
            "BIZ_SUCCESS",
            "REFUNDING",
            "REFUNDED",
            "PENDING",
            "DELIVERED",
            "DEAD",
            "OPEN",
            "AUTO_FIXED",
            "TIME_GAP",
            "AMOUNT_DIFFERS"
        ])
        .prop_map(str::to_owned),
    ]
}

#[test]
fn every_parameter_is_read_as_the_document_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let harness = Harness::new();
    let document = document();
    let (flow, flows, events) =
        ("/payment-flows/{flow_id}", "/payment-flows", "/payment-flows/{flow_id}/events");
    let mut places = vec![
        Place::of(&document, flow, "flow_id"),
        Place::of(&document, flow, "wait"),
        Place::of(&document, flow, "since_version"),
        Place::of(&document, events, "cursor"),
        Place::of(&document, events, "limit"),
    ];
    let of_list = [
        "user_id",
        "scene",
        "biz_key",
        "trade_order_no",
        "refund_order_no",
        "caller",
        "state",
        "min_age_ms",
        "limit",
        "cursor",
    ];
    places.extend(of_list.map(|name| Place::of(&document, flows, name)));
    let (told, attempts) = ("/notifications", "/notifications/{event_id}/attempts");
    places.extend(["delivery", "caller", "limit", "cursor"].map(|name| Place::of(&document, told, name)));
    places.extend(["event_id", "limit", "cursor"].map(|name| Place::of(&document, attempts, name)));
    let (tickets, trail) = ("/recon/tickets", "/recon/tickets/{ticket_id}/trail");
    let of_tickets = ["channel", "order_no", "state", "kind", "assigned_to", "limit", "cursor"];
    places.extend(of_tickets.map(|name| Place::of(&document, tickets, name)));
    places.extend(["ticket_id", "limit", "cursor"].map(|name| Place::of(&document, trail, name)));
    for place in places {
        let key = if place.path.starts_with("/notifications") || place.path.starts_with("/recon") {
            OPERATOR
        } else {
            SHOP
        };
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 400,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let outcome = runner.run(&texts(), |text| {
            // A path's "." and ".." are not its own.
            prop_assume!(!text.chars().all(|c| c == '.'));
            let reply = runtime.block_on(harness.get(key, &place.uri(&text)));
            let refused = reply.status == 400 && reply.body["field"] == place.name;
            prop_assert_eq!(!refused, place.allows(&text), "{} {:?}: {:#}", place.name, text, reply.body);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{} of {}: {error}", place.name, place.path));
    }
}

/// The key's form, and the user's in the body, without a request.
#[test]
fn the_key_and_the_user_are_read_as_the_document_says() {
    let document = document();
    let parameters = document["paths"]["/payments"]["post"]["parameters"].as_array().unwrap();
    let key = parameters.iter().find(|parameter| parameter["name"] == "Idempotency-Key").unwrap();
    let pattern =
        |schema: &Value| Regex::new(&schema["pattern"].as_str().unwrap().replace('$', r"\z")).unwrap();
    let key_form = pattern(&key["schema"]);
    let user_form = pattern(&document["components"]["schemas"]["PaymentBody"]["properties"]["user_id"]);
    let texts = prop_oneof![
        "[!-~]{1,12}",
        "\"([!-~]|\\\\\\\\|\\\\\"){0,6}\"?",
        "[!-~]{250,260}",
        "\"[a-z]{250,260}\"",
        "[0-9]{1,21}",
        "92233720368547758[0-9]{2}",
    ];
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&texts, |text| {
        let mut headers = axum::http::HeaderMap::new();
        headers.insert("idempotency-key", text.parse().unwrap());
        prop_assert_eq!(
            pay_api::idempotency_key(&headers).is_ok(),
            key_form.is_match(&text),
            "key {:?}",
            text
        );
        let is_user = text.parse::<flow_core::ids::UserId>().is_ok();
        prop_assert_eq!(is_user, user_form.is_match(&text), "user {:?}", text);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
