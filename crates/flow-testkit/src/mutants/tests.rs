//! Names are unique, and the shipped subject behaves as the product.

use std::collections::BTreeSet;

use chrono::DateTime;
use flow_core::answer::{ChargeAnswer, FactAnswer, NoAnswer, RefundAnswer, UnknownCause};
use flow_core::decide::{self, Entry, Evidence, Rules};
use flow_core::state::State;

use super::{Mutant, Subject, WriteHeard};
use crate::samples;

#[test]
fn every_mutant_has_a_name_of_its_own_and_a_sentence() {
    let names: BTreeSet<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
    let listed: BTreeSet<Mutant> = Mutant::ALL.into_iter().collect();
    assert_eq!((names.len(), listed.len()), (Mutant::ALL.len(), Mutant::ALL.len()));
    for mutant in Mutant::ALL {
        assert_eq!(Mutant::named(mutant.name()), Some(mutant));
        assert!(mutant.explain().ends_with('.'), "{}", mutant.name());
    }
}

#[test]
fn the_shipped_subject_decides_as_the_product() {
    let rules = Rules {
        wallet_can_close: false,
        wallet_in_flight_grace_ms: 1000,
        settle_margin_ms: 1000,
        business_unreadable_hold_ms: 1000,
        refund_tries_before_hold: 2,
    };
    let start = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
    let unknown = NoAnswer::Unknown(UnknownCause::TimedOut);
    let evidence = [
        Evidence::Entering,
        Evidence::Debit(ChargeAnswer::None(unknown)),
        Evidence::ChargeQuery(ChargeAnswer::NotFound),
        Evidence::Business { executed: None, fact: FactAnswer::NotDone },
        Evidence::RefundQuery(RefundAnswer::NotFound),
    ];
    for state in State::ALL {
        let flow = samples::flow(1, state, start);
        for now in [start, flow.deadline, flow.deadline + chrono::TimeDelta::seconds(2)] {
            for entry in [Entry::JustEntered, Entry::Found] {
                let shipped = Subject::SHIPPED.next_action(&flow, entry, now);
                assert_eq!(shipped, decide::next_action(&flow, entry, now));
            }
            for evidence in &evidence {
                let shipped = Subject::SHIPPED.decide(&flow, evidence, &rules, now);
                assert_eq!(shipped, decide::decide(&flow, evidence, &rules, now));
            }
        }
    }
    for heard in [WriteHeard::Applied, WriteHeard::Lost, WriteHeard::Unknown] {
        assert_eq!(Subject::SHIPPED.heard(heard), heard);
    }
}
