//! Tickets: one per order, written by version, with a trail.

use flow_core::ids::{Actor, OrderRef, Version};
use flow_core::ports::{CasOutcome, NewTicket, Opened, StoreError, TicketRecords, TicketWrite};
use flow_core::recon::{
    Finding, FindingKind, Next, Proposal, Stake, Ticket, TicketAction, TicketState, TrailKind, by_person,
};

use super::{ReconBench, ReconFactory, channel, date};
use crate::samples;

pub(super) fn finding(kind: FindingKind, amount_minor: u64) -> Finding {
    let stake = Stake { amount_minor, currency: "CNY".to_owned() };
    Finding { day: date(1), kind, detail: "bill 1 CNY, here 2 CNY".to_owned(), stake }
}

pub(super) fn new_ticket(order_no: &str, findings: Vec<Finding>) -> NewTicket {
    NewTicket {
        channel: channel("main"),
        order_no: OrderRef::new(order_no).unwrap(),
        flow_id: None,
        findings,
        records: TicketRecords { local: Some("{\"我\":1}".to_owned()), bill: Some("[]".to_owned()) },
        actor: samples::actor("pay-recon"),
    }
}

pub(super) async fn opened(bench: &ReconBench, order_no: &str, findings: Vec<Finding>) -> Ticket {
    let new = new_ticket(order_no, findings);
    assert_eq!(bench.store.open_ticket(&new).await.unwrap(), Opened::Opened);
    loaded(bench, order_no).await
}

pub(super) async fn loaded(bench: &ReconBench, order_no: &str) -> Ticket {
    let order_no = OrderRef::new(order_no).unwrap();
    bench.second.order_ticket(&channel("main"), &order_no).await.unwrap().expect("it was opened")
}

pub(super) fn next(
    ticket: &Ticket,
    kind: TrailKind,
    state: TicketState,
    findings: Vec<Finding>,
) -> TicketWrite {
    let next = Next {
        kind,
        state,
        findings,
        assigned_to: None,
        proposal: None,
        confirmed_by: None,
        note: Some("because".to_owned()),
    };
    write(ticket, next, "pay-recon")
}

pub(super) fn write(ticket: &Ticket, next: Next, actor: &str) -> TicketWrite {
    TicketWrite {
        id: ticket.id,
        version: ticket.version,
        next,
        flow_id: None,
        records: TicketRecords::default(),
        actor: samples::actor(actor),
    }
}

pub(super) async fn acted(bench: &ReconBench, order_no: &str, action: TicketAction, actor: &str) -> Ticket {
    let ticket = loaded(bench, order_no).await;
    let person = samples::actor(actor);
    let next = by_person(&ticket, action, &person).unwrap();
    let written = bench.store.write_ticket(&write(&ticket, next, actor)).await.unwrap();
    assert_eq!(written, CasOutcome::Applied);
    loaded(bench, order_no).await
}

/// Case counts, and so does the channel.
pub async fn an_order_has_one_ticket(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let found = vec![finding(FindingKind::TimeGap, 1)];
    opened(&bench, "h2r_1_1", found.clone()).await;
    let again = bench.second.open_ticket(&new_ticket("h2r_1_1", found.clone())).await.unwrap();
    assert_eq!(again, Opened::Exists);
    opened(&bench, "H2r_1_1", found.clone()).await;
    let elsewhere = NewTicket { channel: channel("other"), ..new_ticket("h2r_1_1", found) };
    assert_eq!(bench.store.open_ticket(&elsewhere).await.unwrap(), Opened::Opened);
    let nothing = bench.store.open_ticket(&new_ticket("h2r_2_2", vec![])).await;
    assert!(matches!(nothing, Err(StoreError::Guarded { .. })), "{nothing:?}");
}

/// Findings, both records, and what is frozen.
pub async fn a_ticket_comes_back_as_it_went_in(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let findings = vec![finding(FindingKind::AmountDiffers, 5), finding(FindingKind::UserDiffers, u64::MAX)];
    let ticket = opened(&bench, "h2r_1_1", findings.clone()).await;
    assert_eq!((ticket.state, ticket.version, ticket.flow_id), (TicketState::Open, Version::FIRST, None));
    assert_eq!((&ticket.findings, ticket.opened_at), (&findings, ticket.changed_at));
    assert_eq!(ticket.local_record.as_deref(), Some("{\"我\":1}"));
    let flow_id = Some(samples::flow_id(4));
    let known = TicketWrite {
        flow_id,
        records: TicketRecords { local: None, bill: Some("[2]".to_owned()) },
        ..next(&ticket, TrailKind::Changed, TicketState::Open, findings)
    };
    assert_eq!(bench.store.write_ticket(&known).await.unwrap(), CasOutcome::Applied);
    let ticket = loaded(&bench, "h2r_1_1").await;
    assert_eq!((ticket.flow_id, ticket.bill_records.as_deref()), (flow_id, Some("[2]")));
    assert_eq!(ticket.local_record.as_deref(), Some("{\"我\":1}"), "what is not compared anew stays");
    let long = Some("x".repeat(TicketRecords::MAX_BYTES + 1));
    let too_long = TicketWrite {
        records: TicketRecords { local: long, bill: None },
        ..next(&ticket, TrailKind::Changed, TicketState::Open, vec![finding(FindingKind::TimeGap, 1)])
    };
    let refused = bench.store.write_ticket(&too_long).await;
    assert!(matches!(refused, Err(StoreError::Guarded { .. })), "{refused:?}");
}

/// And what the guards refuse is refused.
pub async fn only_the_right_version_writes_a_ticket(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let ticket = opened(&bench, "h2r_1_1", vec![finding(FindingKind::TimeGap, 1)]).await;
    let gone = next(&ticket, TrailKind::Gone, TicketState::AutoFixed, vec![]);
    assert_eq!(bench.store.write_ticket(&gone).await.unwrap(), CasOutcome::Applied);
    assert_eq!(bench.second.write_ticket(&gone).await.unwrap(), CasOutcome::Lost);
    let ticket = loaded(&bench, "h2r_1_1").await;
    assert!(ticket.closed_at.is_some());
    let sideways = next(&ticket, TrailKind::Changed, TicketState::Resolved, vec![]);
    let refused = bench.store.write_ticket(&sideways).await;
    assert!(matches!(refused, Err(StoreError::Guarded { .. })), "{refused:?}");
    let found = vec![finding(FindingKind::TimeGap, 1)];
    let back = next(&ticket, TrailKind::Reopened, TicketState::Open, found.clone());
    assert_eq!(bench.store.write_ticket(&back).await.unwrap(), CasOutcome::Applied);
    let ticket = loaded(&bench, "h2r_1_1").await;
    assert_eq!((ticket.closed_at, ticket.version), (None, Version(2)));
    let half_gone = next(&ticket, TrailKind::Gone, TicketState::AutoFixed, found);
    let refused = bench.store.write_ticket(&half_gone).await;
    assert!(matches!(refused, Err(StoreError::Guarded { .. })), "{refused:?}");
}

/// Who, when, what, why.
pub async fn every_write_leaves_a_line_of_the_trail(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let found = vec![finding(FindingKind::TimeGap, 1), finding(FindingKind::UserDiffers, 2)];
    let ticket = opened(&bench, "h2r_1_1", found).await;
    let ann = samples::actor("ann");
    acted(&bench, "h2r_1_1", TicketAction::Assign { to: ann }, "bob").await;
    let current = loaded(&bench, "h2r_1_1").await;
    let gone = next(&current, TrailKind::Gone, TicketState::AutoFixed, vec![]);
    bench.store.write_ticket(&gone).await.unwrap();
    let trail = bench.second.ticket_trail(ticket.id, None, 10).await.unwrap();
    let told: Vec<String> = trail
        .iter()
        .map(|line| {
            let from = line.from.map_or("-", TicketState::as_str);
            format!(
                "{} {} {from} {} {} {}",
                line.version.0,
                line.kind,
                line.to.as_str(),
                line.actor,
                line.kinds
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "0 OPENED - OPEN pay-recon TIME_GAP,USER_DIFFERS",
            "1 ASSIGNED OPEN ASSIGNED bob TIME_GAP,USER_DIFFERS",
            "2 GONE ASSIGNED AUTO_FIXED pay-recon ",
        ]
    );
    assert_eq!(trail[2].note.as_deref(), Some("because"));
    assert!(trail.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let rest = bench.store.ticket_trail(ticket.id, Some(Version(0)), 1).await.unwrap();
    assert_eq!(rest, trail[1..2]);
}

/// Whatever the code above decides: the database refuses it.
pub async fn what_moves_money_is_not_ended_by_one_person(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let found = vec![finding(FindingKind::AmountDiffers, 5)];
    let ticket = opened(&bench, "h2r_1_1", found.clone()).await;
    let alone = next(&ticket, TrailKind::Settled, TicketState::Resolved, found.clone());
    let refused = bench.store.write_ticket(&alone).await;
    assert!(matches!(refused, Err(StoreError::Guarded { .. })), "{refused:?}");
    let resolve = TicketAction::Resolve { reason: "对过了".to_owned() };
    let proposed = acted(&bench, "h2r_1_1", resolve, "ann").await;
    let (ann, bob): (Actor, Actor) = (samples::actor("ann"), samples::actor("bob"));
    let proposal = Proposal { state: TicketState::Resolved, by: ann.clone(), reason: "对过了".to_owned() };
    assert_eq!((proposed.state, &proposed.proposal), (TicketState::Open, &Some(proposal.clone())));
    for wrong in [None, Some(ann)] {
        let mut alone = next(&proposed, TrailKind::Settled, TicketState::Resolved, found.clone());
        (alone.next.proposal, alone.next.confirmed_by) = (Some(proposal.clone()), wrong);
        let refused = bench.store.write_ticket(&alone).await;
        assert!(matches!(refused, Err(StoreError::Guarded { .. })), "{refused:?}");
    }
    let settled = acted(&bench, "h2r_1_1", TicketAction::Confirm, bob.as_str()).await;
    assert_eq!((settled.state, settled.findings), (TicketState::Resolved, found));
}
