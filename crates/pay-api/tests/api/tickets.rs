//! What people see of tickets, and what they may do about them.

use axum::body::Body;
use chrono::NaiveDate;
use flow_core::ids::{ChannelName, OrderRef};
use flow_core::ports::{NewTicket, Opened, ReconStore as _, TicketRecords};
use flow_core::recon::{Finding, FindingKind, Stake};
use flow_testkit::samples;
use serde_json::json;

use crate::harness::{Harness, ON_CALL, OPERATOR, Reply, SHOP, request};

async fn opened(harness: &Harness, order_no: &str, kind: FindingKind) {
    let stake = Stake { amount_minor: 5, currency: "CNY".to_owned() };
    let day = NaiveDate::from_ymd_opt(2026, 1, 2).unwrap();
    let new = NewTicket {
        channel: ChannelName::new("main").unwrap(),
        order_no: OrderRef::new(order_no).unwrap(),
        flow_id: None,
        findings: vec![Finding { day, kind, detail: "as seen".to_owned(), stake }],
        records: TicketRecords { local: Some("{\"amount\":5}".to_owned()), bill: Some("[{}]".to_owned()) },
        actor: samples::actor("pay-recon"),
    };
    assert_eq!(harness.recon.open_ticket(&new).await.unwrap(), Opened::Opened);
}

async fn act(harness: &Harness, key: &str, what: &str, body: serde_json::Value) -> Reply {
    let headers = [("content-type", "application/json")];
    let path = format!("/recon/tickets/{what}");
    harness.send(request("POST", &path, key, &headers, Body::from(body.to_string()))).await
}

#[tokio::test]
async fn tickets_are_listed_read_and_have_a_trail() {
    let harness = Harness::new();
    opened(&harness, "h2r_1_1", FindingKind::TimeGap).await;
    opened(&harness, "h2r_1_2", FindingKind::AmountDiffers).await;
    let list = harness.get(ON_CALL, "/recon/tickets?open=true&limit=1").await;
    assert_eq!((list.status, &list.body["has_more"]), (200, &true.into()), "{:#}", list.body);
    let newest = &list.body["tickets"][0];
    assert_eq!((&newest["ticket_id"], &newest["order_no"]), (&"2".into(), &"h2r_1_2".into()));
    let finding = &newest["findings"][0];
    assert_eq!((&finding["kind"], &finding["moves_money"]), (&"AMOUNT_DIFFERS".into(), &true.into()));
    assert!(finding["explanation"].is_string() && finding["confirm_first"].is_string());
    assert_eq!((&newest["local_record"]["amount"], &newest["bill_records"]), (&5.into(), &json!([{}])));
    let next = harness.get(ON_CALL, "/recon/tickets?limit=1&cursor=2").await;
    assert_eq!(next.body["tickets"][0]["ticket_id"], "1");
    let few = harness.get(ON_CALL, "/recon/tickets?kind=TIME_GAP&channel=main&state=OPEN").await;
    assert_eq!(few.body["tickets"].as_array().unwrap().len(), 1, "{:#}", few.body);
    let one = harness.get(OPERATOR, "/recon/tickets/1").await;
    assert_eq!((one.status, &one.body["order_no"]), (200, &"h2r_1_1".into()));
    let trail = harness.get(OPERATOR, "/recon/tickets/1/trail").await;
    let line = &trail.body["lines"][0];
    assert_eq!((&line["kind"], &line["actor"]), (&"OPENED".into(), &"pay-recon".into()), "{:#}", trail.body);
    assert_eq!(harness.get(OPERATOR, "/recon/tickets/9").await.body["code"], "ticket_not_found");
    assert_eq!(harness.get(SHOP, "/recon/tickets").await.status, 403);
    assert_eq!(harness.get(SHOP, "/recon/tickets/1").await.status, 403);
}

#[tokio::test]
async fn what_moves_money_is_ended_by_two_people_and_the_rest_by_one() {
    let harness = Harness::new();
    opened(&harness, "h2r_1_1", FindingKind::TimeGap).await;
    opened(&harness, "h2r_1_2", FindingKind::AmountDiffers).await;
    let assigned = act(&harness, ON_CALL, "1/assign", json!({ "to": "ann" })).await;
    assert_eq!((assigned.status, &assigned.body["state"]), (200, &"ASSIGNED".into()), "{:#}", assigned.body);
    let ignored = act(&harness, ON_CALL, "1/ignore", json!({ "reason": "known" })).await;
    assert_eq!((ignored.status, &ignored.body["state"]), (200, &"IGNORED".into()), "{:#}", ignored.body);
    let again = act(&harness, ON_CALL, "1/assign", json!({ "to": "bob" })).await;
    assert_eq!((again.status, &again.body["code"]), (409, &"ticket_closed".into()));

    let early = act(&harness, OPERATOR, "2/confirm", json!({})).await;
    assert_eq!((early.status, &early.body["code"]), (409, &"nothing_proposed".into()), "{:#}", early.body);
    let proposed = act(&harness, ON_CALL, "2/resolve", json!({ "reason": "paid back" })).await;
    assert_eq!((proposed.status, &proposed.body["state"]), (200, &"OPEN".into()), "{:#}", proposed.body);
    assert_eq!(proposed.body["proposed"]["reason"], "paid back");
    let alone = act(&harness, ON_CALL, "2/confirm", json!({})).await;
    assert_eq!((alone.status, &alone.body["code"]), (409, &"second_person_needed".into()));
    let confirmed = act(&harness, OPERATOR, "2/confirm", json!({})).await;
    assert_eq!(
        (confirmed.status, &confirmed.body["state"]),
        (200, &"RESOLVED".into()),
        "{:#}",
        confirmed.body
    );
    let trail = harness.get(OPERATOR, "/recon/tickets/2/trail").await;
    let kinds: Vec<&str> =
        trail.body["lines"].as_array().unwrap().iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["OPENED", "PROPOSED", "SETTLED"]);
}

#[tokio::test]
async fn a_wrong_body_changes_nothing() {
    let harness = Harness::new();
    opened(&harness, "h2r_1_1", FindingKind::TimeGap).await;
    let wrong = [
        ("1/resolve", json!({})),
        ("1/resolve", json!({ "reason": "" })),
        ("1/assign", json!({ "to": "a b" })),
    ];
    for (what, body) in wrong {
        let refused = act(&harness, ON_CALL, what, body).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (400, &"invalid_body".into()),
            "{:#}",
            refused.body
        );
    }
    assert_eq!(act(&harness, SHOP, "1/resolve", json!({ "reason": "mine" })).await.status, 403);
    assert_eq!(act(&harness, ON_CALL, "9/resolve", json!({ "reason": "x" })).await.status, 404);
    assert_eq!(harness.get(ON_CALL, "/recon/tickets/1").await.body["version"], 0);
}
