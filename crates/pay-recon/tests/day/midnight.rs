//! Entries near midnight wait for the neighbour before they become tickets; a match takes them out, with a wrong amount, too.

use chrono::TimeDelta;
use flow_core::flow::Flow;
use flow_core::recon::FindingKind;
use flow_core::state::State;

use crate::rig::{Rig, at, date, payment, today};

/// Paid two seconds before the end of the day, by our clock.
fn late(rig: &mut Rig) -> Flow {
    rig.clock.advance_to(at("2026-01-02T23:59:57Z"));
    let flow = rig.flow(flow_testkit::samples::target(77, "late"), State::BizSuccess);
    rig.owns(&flow, &flow);
    flow
}

#[tokio::test]
async fn a_row_in_the_next_days_bill_is_waited_for_and_matched() {
    let mut rig = Rig::new();
    let flow = late(&mut rig);
    rig.row(date(3), payment(&flow, at("2026-01-03T00:00:01Z")));
    let first = rig.run(today()).await;
    assert_eq!((first.tally.waiting_entries, first.is_clean()), (1, true));
    assert_eq!(rig.store.carries().len(), 1);
    let second = rig.run(date(3)).await;
    assert_eq!((second.is_clean(), second.tally.carried_matches), (true, 1));
    assert!(rig.store.tickets().is_empty());
    // The day of our record is told of the row, so that running it again finds it.
    let told = rig.store.carries();
    assert_eq!(
        told.iter().map(|carry| (carry.day, carry.waits_for)).collect::<Vec<_>>(),
        [(date(3), today())]
    );
    assert!(rig.run(today()).await.is_clean() && rig.store.tickets().is_empty());
    assert!(rig.run(date(3)).await.is_clean() && rig.store.tickets().is_empty());
}

#[tokio::test]
async fn what_waits_in_vain_becomes_a_ticket_of_its_own_day_once() {
    let mut rig = Rig::new();
    let flow = late(&mut rig);
    rig.run(today()).await;
    assert!(rig.store.tickets().is_empty());
    let second = rig.run(date(3)).await;
    assert!(!second.is_clean());
    let tickets = rig.store.tickets();
    let [ticket] = tickets.as_slice() else { panic!("{tickets:?}") };
    assert_eq!(ticket.order_no.as_str(), flow.trade_order_no.as_str());
    let findings: Vec<_> = ticket.findings.iter().map(|finding| (finding.day, finding.kind)).collect();
    assert_eq!(findings, [(today(), FindingKind::LocalSuccessWalletNothing)]);
    // In whatever order the days are run again, it is the same ticket.
    for day in [today(), date(3), date(3), today()] {
        rig.run(day).await;
        assert_eq!(rig.store.tickets(), tickets, "{day}");
    }
}

#[tokio::test]
async fn a_match_over_midnight_with_a_wrong_amount_has_a_kind_of_its_own() {
    let mut rig = Rig::new();
    let flow = late(&mut rig);
    let mut row = payment(&flow, at("2026-01-03T00:00:01Z"));
    row.amount_minor += 1;
    rig.row(date(3), row);
    rig.run(today()).await;
    rig.run(date(3)).await;
    let found = rig.found();
    assert_eq!(found[flow.trade_order_no.as_str()], [FindingKind::CarriedAmountDiffers].into());
}

#[tokio::test]
async fn a_row_in_the_bill_before_explains_a_charge_of_the_day_after() {
    let mut rig = Rig::new();
    // The bill has it before midnight, our clock after it.
    rig.clock.advance_to(at("2026-01-03T00:00:01Z"));
    let flow = rig.flow(flow_testkit::samples::target(78, "early"), State::BizSuccess);
    rig.owns(&flow, &flow);
    rig.row(today(), payment(&flow, at("2026-01-02T23:59:59Z")));
    assert!(rig.run(today()).await.is_clean());
    assert!(rig.run(date(3)).await.is_clean());
    assert!(rig.store.tickets().is_empty());
}

#[tokio::test]
async fn a_row_that_comes_days_late_closes_the_ticket_that_missed_it() {
    let mut rig = Rig::new();
    let flow = rig.agreeing(State::BizSuccess);
    let row = rig.bills.get_mut(&today()).unwrap().pop().unwrap();
    rig.run(today()).await;
    assert_eq!(rig.found()[flow.trade_order_no.as_str()], [FindingKind::LocalSuccessWalletNothing].into());
    rig.row(date(5), row);
    rig.run(date(5)).await;
    assert!(rig.found().is_empty(), "{:?}", rig.found());
    // And the day that had missed it finds it when it is run again.
    assert!(rig.run(today()).await.is_clean());
}

#[tokio::test]
async fn a_foreign_charge_near_midnight_waits_too_and_one_at_noon_does_not() {
    let mut rig = Rig::new();
    let flow = rig.agreeing(State::BizSuccess);
    let mut row = payment(&flow, at("2026-01-02T23:55:00Z"));
    row.order_no = "foreign".to_owned();
    rig.row(today(), row.clone());
    rig.run(today()).await;
    assert!(rig.store.tickets().is_empty());
    rig.run(date(3)).await;
    assert_eq!(rig.found()["foreign"], [FindingKind::WalletPaidNoFlow].into());
    let mut rig = Rig::new();
    row.at -= TimeDelta::hours(12);
    rig.row(today(), row);
    rig.run(today()).await;
    assert_eq!(rig.found()["foreign"], [FindingKind::WalletPaidNoFlow].into());
}
