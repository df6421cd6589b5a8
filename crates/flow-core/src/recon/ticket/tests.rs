//! The life of a ticket, row by row.

use super::*;

fn day(number: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 3, number).unwrap()
}

fn finding(on: u32, kind: FindingKind) -> Finding {
    let stake = Stake { amount_minor: 100, currency: "CNY".to_owned() };
    Finding { day: day(on), kind, detail: "as seen".to_owned(), stake }
}

fn ticket(state: TicketState, findings: Vec<Finding>) -> Ticket {
    Ticket {
        id: TicketId::new(1).unwrap(),
        channel: ChannelName::new("main").unwrap(),
        order_no: OrderRef::new("h2r_1_1").unwrap(),
        flow_id: None,
        state,
        version: Version(3),
        findings,
        local_record: None,
        bill_records: None,
        assigned_to: None,
        proposal: None,
        opened_at: DateTime::default(),
        changed_at: DateTime::default(),
        closed_at: None,
    }
}

fn result(on: u32, found: Vec<Finding>) -> DiffResult {
    DiffResult { day: day(on), found, carried: vec![], explained: vec![] }
}

fn written(after: AfterDiff) -> Next {
    match after {
        AfterDiff::Write(next) => next,
        other @ (AfterDiff::Nothing | AfterDiff::Open(_)) => panic!("{other:?}"),
    }
}

const AMOUNT: FindingKind = FindingKind::AmountDiffers;
const GAP: FindingKind = FindingKind::TimeGap;
const MISSING: FindingKind = FindingKind::LocalPaidWalletNothing;

#[test]
fn the_same_comparison_again_writes_nothing_in_any_state() {
    for state in TicketState::ALL {
        let findings = if state == TicketState::AutoFixed { vec![] } else { vec![finding(1, AMOUNT)] };
        let found = findings.clone();
        assert_eq!(
            after_diff(Some(&ticket(state, findings)), &result(1, found)),
            AfterDiff::Nothing,
            "{state:?}"
        );
    }
    assert_eq!(after_diff(None, &result(1, vec![])), AfterDiff::Nothing);
}

#[test]
fn a_difference_opens_closes_and_reopens_one_ticket() {
    let found = vec![finding(1, AMOUNT)];
    assert_eq!(after_diff(None, &result(1, found.clone())), AfterDiff::Open(found.clone()));
    let gone = written(after_diff(Some(&ticket(TicketState::Assigned, found.clone())), &result(1, vec![])));
    assert_eq!((gone.kind, gone.state, gone.findings.len()), (TrailKind::Gone, TicketState::AutoFixed, 0));
    let back = written(after_diff(Some(&ticket(TicketState::AutoFixed, vec![])), &result(1, found.clone())));
    assert_eq!((back.kind, back.state), (TrailKind::Reopened, TicketState::Open));
    assert_eq!(back.findings, found);
}

#[test]
fn what_people_settled_stays_settled_until_there_is_something_they_have_not_seen() {
    let seen = vec![finding(1, AMOUNT), finding(1, GAP)];
    for state in [TicketState::Resolved, TicketState::Ignored] {
        let settled = ticket(state, seen.clone());
        let fewer = written(after_diff(Some(&settled), &result(1, vec![finding(1, GAP)])));
        assert_eq!((fewer.kind, fewer.state), (TrailKind::Changed, state));
        let more = [seen.clone(), vec![finding(1, FindingKind::UserDiffers)]].concat();
        let again = written(after_diff(Some(&settled), &result(1, more)));
        assert_eq!((again.kind, again.state), (TrailKind::Reopened, TicketState::Open));
        let gone = written(after_diff(Some(&settled), &result(1, vec![])));
        assert_eq!((gone.kind, gone.state), (TrailKind::Gone, state));
    }
}

#[test]
fn a_day_replaces_its_own_differences_and_leaves_the_others() {
    let of_two_days = ticket(TicketState::Open, vec![finding(1, AMOUNT), finding(4, MISSING)]);
    let next = written(after_diff(Some(&of_two_days), &result(1, vec![])));
    assert_eq!((next.kind, next.state), (TrailKind::Changed, TicketState::Open));
    assert_eq!(next.findings, [finding(4, MISSING)]);
    let explained = DiffResult { explained: vec![(day(4), MISSING)], ..result(5, vec![]) };
    let next = written(after_diff(Some(&of_two_days), &explained));
    assert_eq!(next.findings, [finding(1, AMOUNT)]);
    let carried = DiffResult { carried: vec![finding(4, MISSING)], ..result(5, vec![]) };
    assert_eq!(after_diff(Some(&of_two_days), &carried), AfterDiff::Nothing);
}

#[test]
fn what_moves_money_wants_two_people_and_the_rest_one() {
    let (ann, bob) = (Actor::new("ann").unwrap(), Actor::new("bob").unwrap());
    let resolve = || TicketAction::Resolve { reason: "paid back".to_owned() };
    let small = ticket(TicketState::Open, vec![finding(1, GAP)]);
    let next = by_person(&small, resolve(), &ann).unwrap();
    assert_eq!((next.kind, next.state), (TrailKind::Settled, TicketState::Resolved));

    let mut large = ticket(TicketState::Open, vec![finding(1, AMOUNT)]);
    assert_eq!(by_person(&large, TicketAction::Confirm, &bob), Err(TicketRefusal::NothingProposed));
    let proposed = by_person(&large, resolve(), &ann).unwrap();
    assert_eq!((proposed.kind, proposed.state), (TrailKind::Proposed, TicketState::Open));
    large.proposal = proposed.proposal;
    let same = by_person(&large, TicketAction::Confirm, &ann);
    assert_eq!(same, Err(TicketRefusal::SamePerson { by: ann.clone() }));
    let confirmed = by_person(&large, TicketAction::Confirm, &bob).unwrap();
    assert_eq!((confirmed.kind, confirmed.state), (TrailKind::Settled, TicketState::Resolved));
    assert_eq!(confirmed.confirmed_by, Some(bob));
    // A proposal is for the differences that were there.
    let more = result(2, vec![finding(2, AMOUNT)]);
    assert_eq!(written(after_diff(Some(&large), &more)).proposal, None);
}

#[test]
fn a_closed_ticket_is_nobodys() {
    let ann = Actor::new("ann").unwrap();
    for state in TicketState::ALL.into_iter().filter(|state| !state.is_open()) {
        let refused = by_person(&ticket(state, vec![]), TicketAction::Assign { to: ann.clone() }, &ann);
        assert_eq!(refused, Err(TicketRefusal::Closed { state }));
    }
}
