//! What a batch came to, for people: one HTML page, a CSV of tickets, JSON. Pure: texts from a batch and its tickets.

use std::fmt::Write as _;

use flow_core::ports::Batch;
use flow_core::recon::{Finding, FindingKind, Ticket};
use serde_json::{Value, json};

/// Everything as JSON.
pub fn as_json(batch: &Batch, tickets: &[Ticket]) -> Value {
    json!({
        "batch": batch.id.to_string(),
        "channel": batch.channel.as_str(),
        "day": batch.day,
        "state": batch.state.as_str(),
        "parts": batch.parts,
        "parts_done": batch.parts_done,
        "runs": batch.runs,
        "reason": batch.reason,
        "started_at": batch.started_at,
        "finished_at": batch.finished_at,
        "bill": batch.bill.as_ref().map(|bill| json!({
            "sha256": bill.sha256, "bytes": bill.bytes, "source": bill.source,
        })),
        "is_clean": batch.tally.is_clean(),
        "tally": batch.tally,
        "tickets": tickets.iter().map(ticket_json).collect::<Vec<_>>(),
    })
}

/// A ticket as JSON.
pub fn ticket_json(ticket: &Ticket) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "day": finding.day,
            "kind": finding.kind.as_str(),
            "detail": finding.detail,
            "explanation": finding.kind.explanation(),
            "confirm_first": finding.kind.confirm(),
            "moves_money": finding.kind.moves_money(),
            "amount_minor": finding.stake.amount_minor,
            "currency": finding.stake.currency,
        })
    };
    let record =
        |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    json!({
        "id": ticket.id.to_string(),
        "channel": ticket.channel.as_str(),
        "order_no": ticket.order_no.as_str(),
        "flow_id": ticket.flow_id.map(|id| id.to_string()),
        "state": ticket.state.as_str(),
        "version": ticket.version.0,
        "findings": ticket.findings.iter().map(finding).collect::<Vec<_>>(),
        "local_record": record(&ticket.local_record),
        "bill_records": record(&ticket.bill_records),
        "assigned_to": ticket.assigned_to.as_ref().map(|person| person.as_str()),
        "proposed": ticket.proposal.as_ref().map(|proposal| json!({
            "state": proposal.state.as_str(), "by": proposal.by.as_str(), "reason": proposal.reason,
        })),
        "opened_at": ticket.opened_at,
        "changed_at": ticket.changed_at,
        "closed_at": ticket.closed_at,
    })
}

/// One line per finding of each ticket.
pub fn as_csv(tickets: &[Ticket]) -> String {
    let mut text =
        "ticket,channel,order_no,flow_id,state,day,kind,amount_minor,currency,detail,assigned_to,opened_at\n"
            .to_owned();
    for ticket in tickets {
        for finding in &ticket.findings {
            let cells = [
                ticket.id.to_string(),
                ticket.channel.to_string(),
                ticket.order_no.to_string(),
                ticket.flow_id.map(|id| id.to_string()).unwrap_or_default(),
                ticket.state.as_str().to_owned(),
                finding.day.to_string(),
                finding.kind.as_str().to_owned(),
                finding.stake.amount_minor.to_string(),
                finding.stake.currency.clone(),
                finding.detail.clone(),
                ticket.assigned_to.as_ref().map(ToString::to_string).unwrap_or_default(),
                ticket.opened_at.to_rfc3339(),
            ];
            let quoted: Vec<String> = cells.iter().map(|cell| csv_cell(cell)).collect();
            text.push_str(&quoted.join(","));
            text.push('\n');
        }
    }
    text
}

/// Quoted where it must be, and never taken for a formula by a spreadsheet: what a bill says may begin with anything.
fn csv_cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// The page that a colleague of finance reads.
pub fn as_html(batch: &Batch, tickets: &[Ticket]) -> String {
    let mut page = String::new();
    let title = format!("{} {}", html(batch.channel.as_str()), batch.day);
    // Writing into a string does not fail.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Reconciliation {title}</title>\n\
         <style>body{{font-family:sans-serif;margin:2em;max-width:70em}}table{{border-collapse:collapse;margin:1em 0}}\
         td,th{{border:1px solid #bbb;padding:.3em .6em;text-align:left;vertical-align:top}}td.n{{text-align:right}}\
         </style></head><body>\n<h1>Reconciliation {title}</h1>\n"
    );
    let verdict = match (batch.state.as_str(), batch.tally.is_clean()) {
        ("DONE", true) => "Every order agrees.".to_owned(),
        ("DONE", false) => {
            let tally = &batch.tally;
            format!(
                "{} of {} orders differ; {} rows of the bill and {} business records could not be read.",
                tally.differing_orders, tally.orders, tally.quarantined_rows, tally.facts_unreadable
            )
        }
        (state, true | false) => {
            format!("{state}: {}", batch.reason.as_deref().unwrap_or("not compared to the end yet"))
        }
    };
    let _ = writeln!(page, "<p><strong>{}</strong></p>", html(&verdict));
    if let Some(bill) = &batch.bill {
        let _ = writeln!(
            page,
            "<p>Bill: {} ({} bytes, SHA-256 {})</p>",
            html(&bill.source),
            bill.bytes,
            bill.sha256
        );
    }
    sums(batch, &mut page);
    kinds(batch, tickets, &mut page);
    oldest(tickets, &mut page);
    page.push_str("</body></html>\n");
    page
}

fn sums(batch: &Batch, page: &mut String) {
    page.push_str(
        "<h2>Totals, in minor units</h2>\n<table><tr><th>currency</th><th>paid, bill</th><th>paid, here</th>\
         <th>refunded, bill</th><th>refunded, here</th></tr>\n",
    );
    for (currency, sums) in &batch.tally.sums {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{}</td></tr>",
            html(currency),
            sums.bill_paid_minor,
            sums.local_paid_minor,
            sums.bill_refunded_minor,
            sums.local_refunded_minor
        );
    }
    page.push_str("</table>\n<p>Totals that agree prove nothing; every order was compared.</p>\n");
}

fn kinds(batch: &Batch, tickets: &[Ticket], page: &mut String) {
    page.push_str("<h2>Differences by kind</h2>\n<table><tr><th>kind</th><th>orders</th><th>open, amount</th><th>what it means</th></tr>\n");
    for kind in FindingKind::ALL {
        let Some(count) = batch.tally.by_kind.get(kind.as_str()) else { continue };
        let open = tickets.iter().filter(|ticket| ticket.state.is_open()).flat_map(|ticket| &ticket.findings);
        let mut amounts = std::collections::BTreeMap::<&str, u64>::new();
        for finding in open.filter(|finding| finding.kind == *kind) {
            let sum = amounts.entry(&finding.stake.currency).or_default();
            *sum = sum.saturating_add(finding.stake.amount_minor);
        }
        let amounts: Vec<String> =
            amounts.iter().map(|(currency, sum)| format!("{sum} {}", html(currency))).collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=n>{count}</td><td class=n>{}</td><td>{}<br><em>To be confirmed first:</em> {}</td></tr>",
            kind.as_str(),
            amounts.join("<br>"),
            html(kind.explanation()),
            html(kind.confirm())
        );
    }
    page.push_str("</table>\n");
}

/// Rows of the table of tickets.
const OLDEST_ROWS: usize = 200;

fn oldest(tickets: &[Ticket], page: &mut String) {
    let mut open: Vec<&Ticket> = tickets.iter().filter(|ticket| ticket.state.is_open()).collect();
    open.sort_by_key(|ticket| (ticket.opened_at, ticket.id));
    let _ = writeln!(
        page,
        "<h2>Open tickets, oldest first ({})</h2>\n<table><tr><th>ticket</th><th>order</th><th>since</th><th>state</th>\
         <th>differences</th></tr>",
        open.len()
    );
    for ticket in open.iter().take(OLDEST_ROWS) {
        let lines: Vec<String> = ticket
            .findings
            .iter()
            .map(|finding| format!("{} {}: {}", finding.day, finding.kind.as_str(), html(&finding.detail)))
            .collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            ticket.id,
            html(ticket.order_no.as_str()),
            ticket.opened_at.format("%F %T UTC"),
            ticket.state.as_str(),
            lines.join("<br>")
        );
    }
    page.push_str("</table>\n");
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, NaiveDate};
    use flow_core::ids::{BatchId, ChannelName, OrderRef, TicketId, Version};
    use flow_core::recon::{BatchState, CurrencySums, Stake, Tally, TicketState};

    use super::*;

    fn day() -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 1, 2).unwrap()
    }

    fn batch() -> Batch {
        Batch {
            id: BatchId::new(7).unwrap(),
            channel: ChannelName::new("main").unwrap(),
            day: day(),
            state: BatchState::Done,
            parts: 1,
            parts_done: 1,
            runs: 1,
            tally: Tally {
                orders: 10,
                differing_orders: 1,
                by_kind: [("AMOUNT_DIFFERS".to_owned(), 1)].into(),
                sums: [("CNY".to_owned(), CurrencySums { bill_paid_minor: 77, ..CurrencySums::default() })]
                    .into(),
                ..Tally::default()
            },
            bill: None,
            reason: None,
            started_at: None,
            finished_at: None,
        }
    }

    fn ticket(detail: &str) -> Ticket {
        let stake = Stake { amount_minor: 5, currency: "CNY".to_owned() };
        Ticket {
            id: TicketId::new(3).unwrap(),
            channel: ChannelName::new("main").unwrap(),
            order_no: OrderRef::new("<b>").unwrap(),
            flow_id: None,
            state: TicketState::Open,
            version: Version(0),
            findings: vec![Finding {
                day: day(),
                kind: FindingKind::AmountDiffers,
                detail: detail.to_owned(),
                stake,
            }],
            local_record: Some("{\"amount\":1}".to_owned()),
            bill_records: None,
            assigned_to: None,
            proposal: None,
            opened_at: DateTime::default(),
            changed_at: DateTime::default(),
            closed_at: None,
        }
    }

    #[test]
    fn the_page_has_sums_kinds_and_tickets_and_nothing_of_a_bill_as_markup() {
        let page = as_html(&batch(), &[ticket("<script>x</script>")]);
        for part in ["1 of 10 orders differ", "<td class=n>77</td>", "AMOUNT_DIFFERS", "5 CNY", "&lt;b&gt;"] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert!(!page.contains("<script>") && !page.contains("<b>"));
    }

    #[test]
    fn a_cell_is_no_formula_and_no_other_cell() {
        assert_eq!(csv_cell("=1+1"), "'=1+1");
        assert_eq!(csv_cell("a,b\"c"), "\"a,b\"\"c\"");
        let text = as_csv(&[ticket("one, two")]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("\"one, two\""), "{text}");
    }

    #[test]
    fn json_has_the_explanation_and_both_records() {
        let value = as_json(&batch(), &[ticket("x")]);
        assert_eq!(value["tickets"][0]["local_record"]["amount"], 1);
        assert_eq!(value["tickets"][0]["findings"][0]["moves_money"], true);
        assert_eq!(value["tally"]["sums"]["CNY"]["bill_paid_minor"], 77);
    }
}
