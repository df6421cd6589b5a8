//! Tickets as on-call reads them, over HTTP.

use anyhow::Context as _;
use serde_json::Value;
use xtask::stack::ApiClient;

use super::plant::Differences;
use crate::commands::demo::scenes::expect_status;

/// Tickets asked for at once.
const PAGE_ROWS: u32 = 20;

/// Every ticket that somebody still has to look at, by its first kind.
pub(super) async fn open(on_call: &ApiClient) -> anyhow::Result<Vec<Value>> {
    let (mut tickets, mut cursor) = (Vec::new(), String::new());
    loop {
        let page =
            on_call.get(&format!("/recon/tickets?open=true&channel=main&limit={PAGE_ROWS}{cursor}")).await?;
        expect_status(&page, &[200])?;
        tickets.extend(page.body["tickets"].as_array().context("the answer has no tickets")?.iter().cloned());
        match page.body["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    tickets.sort_by_cached_key(|ticket| text(&ticket["findings"][0], "kind").to_owned());
    Ok(tickets)
}

/// The ticket of an order, open or not.
pub(super) async fn of_order(on_call: &ApiClient, order_no: &str) -> anyhow::Result<Value> {
    let page = on_call.get(&format!("/recon/tickets?channel=main&order_no={order_no}")).await?;
    expect_status(&page, &[200])?;
    let ticket = page.body["tickets"].get(0).with_context(|| format!("{order_no} has no ticket"))?;
    Ok(ticket.clone())
}

/// The kinds that tickets name, by order.
pub(super) fn differences(tickets: &[Value]) -> Differences {
    let of_ticket = |ticket: &Value| {
        let kinds = findings(ticket).map(|finding| text(finding, "kind").to_owned()).collect();
        (text(ticket, "order_no").to_owned(), kinds)
    };
    tickets.iter().map(of_ticket).collect()
}

/// Prints one line per difference.
pub(super) fn print(tickets: &[Value]) {
    println!("\n   {:<32} {:<18} {:>11}  confirm before it is repaired", "difference", "order", "amount");
    for ticket in tickets {
        for finding in findings(ticket) {
            let amount = format!("{} {}", finding["amount_minor"], text(finding, "currency"));
            println!(
                "   {:<32} {:<18} {amount:>11}  {}",
                text(finding, "kind"),
                text(ticket, "order_no"),
                text(finding, "confirm_first")
            );
        }
    }
    println!();
}

/// What was planted and not found, and what was found and not planted, in words; empty if the two are the same.
pub(super) fn unlike(planted: &Differences, found: &Differences) -> Vec<String> {
    let one_way = |these: &Differences, those: &Differences, what: &str| {
        let of_order = |(order_no, kinds): (&String, &std::collections::BTreeSet<String>)| {
            let known = those.get(order_no);
            let extra = kinds.iter().filter(|kind| known.is_none_or(|known| !known.contains(*kind)));
            extra.map(|kind| format!("{kind} of {order_no} {what}")).collect::<Vec<_>>()
        };
        these.iter().flat_map(of_order).collect::<Vec<_>>()
    };
    let missed = one_way(planted, found, "was planted and not found");
    let invented = one_way(found, planted, "was found and not planted");
    [missed, invented].concat()
}

fn findings(ticket: &Value) -> impl Iterator<Item = &Value> {
    ticket["findings"].as_array().into_iter().flatten()
}

pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ticket(order_no: &str, kinds: &[&str]) -> Value {
        let findings: Vec<Value> = kinds.iter().map(|kind| json!({ "kind": kind })).collect();
        json!({ "order_no": order_no, "findings": findings })
    }

    #[test]
    fn the_same_is_not_unlike_whatever_the_order() {
        let planted = differences(&[ticket("a", &["X", "Y"]), ticket("b", &["X"])]);
        let found = differences(&[ticket("b", &["X"]), ticket("a", &["Y", "X"])]);
        assert_eq!(unlike(&planted, &found), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_and_what_is_too_much_is_named() {
        let planted = differences(&[ticket("a", &["X", "Y"]), ticket("b", &["X"])]);
        let found = differences(&[ticket("a", &["X", "Z"]), ticket("c", &["X"])]);
        assert_eq!(
            unlike(&planted, &found),
            [
                "Y of a was planted and not found",
                "X of b was planted and not found",
                "Z of a was found and not planted",
                "X of c was found and not planted",
            ]
        );
    }
}
