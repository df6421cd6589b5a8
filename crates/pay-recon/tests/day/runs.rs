//! Runs: bills that are refused, claims, facts that can't be read, tickets that close themselves.

use flow_bills::{BillError, NoStatement};
use flow_core::answer::{ChargeAnswer, FactAnswer, NoAnswer, UnknownCause};
use flow_core::ports::{ClaimPart, ReconStore as _};
use flow_core::recon::{BatchState, FindingKind, Partition};
use flow_core::state::State;
use flow_testkit::samples;
use pay_recon::run::{RunError, Task};

use crate::rig::{Rig, bill_of, channel, payment, today};

fn whole() -> Task {
    Task { day: today(), partition: Partition::WHOLE, is_dry: false }
}

#[tokio::test]
async fn a_bill_that_fails_its_gate_fails_the_batch_and_writes_no_ticket() {
    let mut rig = Rig::new();
    for _ in 0..5 {
        rig.agreeing(State::BizSuccess);
    }
    let half = rig.entries(today()).into_iter().take(2).collect();
    let refused =
        rig.run_bill(whole(), bill_of(half, Some(BillError::Truncated { what: "no trailer" }))).await;
    assert!(matches!(refused, Err(RunError::Bill(BillError::Truncated { .. }))), "{refused:?}");
    assert!(rig.store.tickets().is_empty());
    let batch = rig.store.batch(&channel().name, today()).await.unwrap().unwrap();
    assert_eq!(batch.state, BatchState::Failed);
    assert!(batch.reason.unwrap().contains("cut off"));
    assert!(rig.run(today()).await.is_clean());
    let batch = rig.store.batch(&channel().name, today()).await.unwrap().unwrap();
    assert_eq!((batch.state, batch.runs, batch.reason), (BatchState::Done, 2, None));
}

#[tokio::test]
async fn a_day_on_which_nothing_happened_is_believed_only_where_nothing_happened_here() {
    let no_bill = || {
        let error =
            BillError::NoStatement { meaning: NoStatement::NothingHappened, code: "NO_STATEMENT".to_owned() };
        bill_of(vec![], Some(error))
    };
    let mut rig = Rig::new();
    rig.agreeing(State::PayFail);
    assert!(rig.run_bill(whole(), no_bill()).await.unwrap().is_clean());
    rig.agreeing(State::BizSuccess);
    // The day has passed: what is paid now is of the next one.
    let mut rig = Rig::new();
    rig.agreeing(State::BizSuccess);
    let refused = rig.run_bill(whole(), no_bill()).await;
    assert!(matches!(refused, Err(RunError::NothingHappened { local_rows: 1 })), "{refused:?}");
    assert!(rig.store.tickets().is_empty());
    // A complete bill without rows is another matter.
    rig.run_bill(whole(), bill_of(vec![], None)).await.unwrap();
    assert_eq!(rig.found().len(), 1);
}

#[tokio::test]
async fn a_day_that_another_process_compares_is_left_alone() {
    let mut rig = Rig::new();
    rig.agreeing(State::BizSuccess);
    let want = ClaimPart {
        channel: channel().name,
        day: today(),
        partition: Partition::WHOLE,
        claim_ms: 86_400_000 * 7,
    };
    rig.store.claim_part(&want).await.unwrap();
    let refused = rig.run_bill(whole(), bill_of(rig.entries(today()), None)).await;
    assert!(matches!(refused, Err(RunError::Running)), "{refused:?}");
    let part = Task { partition: Partition::new(0, 2).unwrap(), ..whole() };
    let refused = rig.run_bill(part, bill_of(rig.entries(today()), None)).await;
    assert!(matches!(refused, Err(RunError::SplitOtherwise { parts: 1 })), "{refused:?}");
    // A process that died: its claim runs out.
    rig.clock.advance_ms(86_400_000 * 8);
    assert!(rig.run(today()).await.is_clean());
}

#[tokio::test]
async fn a_dry_run_says_what_it_would_find_and_writes_nothing() {
    let mut rig = Rig::new();
    let flow = rig.agreeing(State::Paying);
    let row = payment(&flow, rig.clock.now());
    rig.row(today(), row);
    let dry = Task { is_dry: true, ..whole() };
    let report = rig.run_bill(dry, bill_of(rig.entries(today()), None)).await.unwrap();
    assert_eq!((report.batch, report.tally.differing_orders), (None, 1));
    assert!(rig.store.tickets().is_empty() && rig.store.carries().is_empty());
    assert_eq!(rig.store.batch(&channel().name, today()).await.unwrap(), None);
    assert_eq!(rig.flows.flow(flow.id), Some(flow));
}

#[tokio::test]
async fn a_flow_that_an_answer_was_lost_for_is_woken_and_its_ticket_closes_itself() {
    let mut rig = Rig::new();
    *rig.business.done_when_executed.lock().unwrap() = true;
    let flow = rig.agreeing(State::Paying);
    let row = payment(&flow, rig.clock.now());
    rig.row(today(), row);
    let receipt = flow_core::answer::Receipt {
        transaction: Some(samples::reference(&format!("pay-{}", flow.id))),
        ..samples::receipt_for(&flow)
    };
    let number = flow.trade_order_no.to_string();
    rig.wallet.charges.lock().unwrap().insert(number, ChargeAnswer::Success(receipt));
    let report = rig.run(today()).await;
    assert_eq!((report.tally.woken_flows, report.tally.tickets.opened), (1, 1));
    assert_eq!(rig.flows.flow(flow.id).unwrap().state, State::BizSuccess);
    let tickets = rig.store.tickets();
    let trail = rig.store.ticket_trail(tickets[0].id, None, 10).await.unwrap();
    let kinds: Vec<&str> = trail.iter().map(|line| line.kind.as_str()).collect();
    // Charged here by the time of asking, hours after the bill has it: that, too, is said.
    assert_eq!(kinds, ["OPENED", "REPAIR", "CHANGED"]);
    assert_eq!(
        tickets[0].findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
        [FindingKind::TimeGap]
    );
    assert!(rig.flows.events_of(flow.id).iter().any(|event| event.trigger == "RECON"));
}

#[tokio::test]
async fn a_difference_of_money_holds_the_flow_once_and_people_may_release_it() {
    let mut rig = Rig::new();
    let flow = rig.agreeing(State::Payed);
    rig.last_row().amount_minor = 1;
    let report = rig.run(today()).await;
    assert_eq!(report.tally.held_flows, 1);
    let held = rig.flows.flow(flow.id).unwrap();
    assert!(held.hold.is_some() && held.state == State::Payed);
    let release = flow_core::cas::CasWrite {
        flow_id: flow.id,
        from: held.state,
        version: held.version,
        change: flow_core::cas::Change::Release,
        evidence: flow_core::cas::WriteEvidence::of(flow_core::flow::Trigger::Operator),
    };
    rig.flows.cas_now(&release).unwrap();
    let again = rig.run(today()).await;
    assert_eq!((again.tally.held_flows, again.tally.differing_orders), (0, 1));
    assert!(rig.flows.flow(flow.id).unwrap().hold.is_none(), "people decided");
}

#[tokio::test]
async fn facts_that_can_not_be_read_are_told_and_too_many_end_the_run() {
    let unknown = || FactAnswer::None(NoAnswer::Unknown(UnknownCause::ServerError));
    let mut rig = Rig::new();
    let flow = rig.agreeing(State::BizSuccess);
    rig.says(&flow, unknown());
    let report = rig.run(today()).await;
    assert_eq!((report.is_clean(), report.tally.facts_unreadable >= 1), (false, true));
    assert_eq!(rig.found()[flow.trade_order_no.as_str()], [FindingKind::FactUnreadable].into());
    let mut rig = Rig::new();
    for _ in 0..110 {
        let flow = rig.agreeing(State::BizSuccess);
        rig.says(&flow, unknown());
    }
    let refused = rig.run_bill(whole(), bill_of(rig.entries(today()), None)).await;
    assert!(matches!(refused, Err(RunError::FactsUnreadable { .. })), "{refused:?}");
    assert!(rig.store.tickets().is_empty(), "an outage of theirs is nobody's difference");
    let batch = rig.store.batch(&channel().name, today()).await.unwrap().unwrap();
    assert_eq!(batch.state, BatchState::Failed);
}

#[tokio::test]
async fn numbers_that_no_order_can_have_are_set_apart_and_the_day_is_not_clean() {
    let mut rig = Rig::new();
    let flow = rig.agreeing(State::BizSuccess);
    let mut row = payment(&flow, rig.clock.now());
    row.order_no = "订单".to_owned();
    rig.row(today(), row);
    let report = rig.run(today()).await;
    assert_eq!((report.tally.quarantined_rows, report.is_clean()), (1, false));
    assert_eq!(report.quarantined[0].line, 3);
    assert!(!report.quarantined[0].reason.contains('订'), "{}", report.quarantined[0].reason);
    assert!(rig.store.tickets().is_empty());
}
