//! What a claim means beside a flow: the whole table.

#![allow(clippy::unwrap_used, reason = "tests")]

use flow_core::callback::{Claim, Contradiction, EventType, Statement, Verdict, judge};
use flow_core::state::State;
use flow_testkit::samples;

/// Rows are claims; columns are the states in the order of [`State::ALL`].
const TABLE: &str = "
                     WAIT_PAY        PAYING          PAY_FAIL           PAYED             BIZ_SUCCESS       REFUNDING         REFUNDED
PAYMENT SUCCESS      later           later           PAID_THOUGH_FAILED agrees            agrees            agrees            PAID_THOUGH_REFUNDED
PAYMENT FAILED       later           later           agrees             FAILED_THOUGH_PAID FAILED_THOUGH_PAID FAILED_THOUGH_PAID FAILED_THOUGH_PAID
PAYMENT PROCESSING   agrees          agrees          agrees             agrees            agrees            agrees            agrees
REFUND  SUCCESS      REFUNDED_UNASKED REFUNDED_UNASKED REFUNDED_UNASKED REFUNDED_UNASKED  REFUNDED_UNASKED  later             agrees
REFUND  FAILED       REFUND_UNASKED  REFUND_UNASKED  REFUND_UNASKED     REFUND_UNASKED    REFUND_UNASKED    agrees            agrees
REFUND  PROCESSING   REFUND_UNASKED  REFUND_UNASKED  REFUND_UNASKED     REFUND_UNASKED    REFUND_UNASKED    agrees            agrees
";

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Agrees => "agrees",
        Verdict::NotYet => "later",
        Verdict::Contradicts(how) => how.as_str(),
    }
}

#[test]
fn every_claim_beside_every_state() {
    let mut lines = TABLE.trim_start_matches('\n').lines();
    let columns: Vec<State> =
        lines.next().unwrap().split_whitespace().map(|word| State::parse(word).unwrap()).collect();
    assert_eq!(columns.len(), State::ALL.len());
    let mut cells = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (event_type, claim) = (EventType::parse(words[0]).unwrap(), Claim::parse(words[1]).unwrap());
        for (state, expected) in columns.iter().zip(&words[2..]) {
            let flow = samples::flow(1, *state, chrono::DateTime::UNIX_EPOCH);
            let said = Statement { event_type, claim, money: Some(flow.money.clone()) };
            assert_eq!(word(judge(&said, &flow)), *expected, "{event_type:?} {claim:?} {state}");
            let silent = Statement { money: None, ..said.clone() };
            assert_eq!(judge(&silent, &flow), judge(&said, &flow), "an amount that is ours changes nothing");
            cells += 1;
        }
    }
    assert_eq!(cells, EventType::ALL.len() * Claim::ALL.len() * State::ALL.len());
}

#[test]
fn another_amount_or_currency_contradicts_whatever_the_state() {
    for state in State::ALL {
        for event_type in EventType::ALL {
            for claim in Claim::ALL {
                let flow = samples::flow(1, state, chrono::DateTime::UNIX_EPOCH);
                let amount = flow.money.amount() + 1;
                let more = Statement { event_type, claim, money: Some(samples::cny(amount)) };
                assert_eq!(judge(&more, &flow), Verdict::Contradicts(Contradiction::OtherAmount));
                let other = samples::money(flow.money.amount(), "POINTS");
                let other = Statement { event_type, claim, money: Some(other) };
                assert_eq!(judge(&other, &flow), Verdict::Contradicts(Contradiction::OtherCurrency));
            }
        }
    }
}

#[test]
fn notes_fit_their_column_and_differ() {
    let mut notes: Vec<&str> = Contradiction::ALL.iter().map(|how| how.as_str()).collect();
    assert!(notes.iter().all(|note| note.len() <= 64));
    notes.sort_unstable();
    notes.dedup();
    assert_eq!(notes.len(), Contradiction::ALL.len());
}
