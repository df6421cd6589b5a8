//! The rows of the design's two tables, one test each, beside the case that must not be taken for it.

mod situations;

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::answer::{ChargeAnswer, ExecuteAnswer, FactAnswer, NoAnswer, RefundAnswer, UnavailableCause};
use flow_core::decide::{
    Action, Decision, Entry, Evidence, Pace, Rules, Transition, decide, next_action, refundable_from,
};
use flow_core::flow::{HoldReason, RefundReason};
use flow_core::state::State;

use situations::{
    CANCEL_MS, DEADLINE_MS, GRACE_MS, SETTLE_MARGIN_MS, Situation, TRIES_BEFORE_HOLD, UNAVAILABLE, UNKNOWN,
    UNREADABLE_HOLD_MS, all_evidence, at, code, no_answers, owned_by, owned_by_us, receipt, wrong_receipts,
};

const EARLY_MS: i64 = 120_000;
const REFUNDABLE_MS: i64 = DEADLINE_MS + SETTLE_MARGIN_MS;

fn action(situation: Situation, entry: Entry, now_ms: i64) -> Action {
    next_action(&situation.flow(), entry, at(now_ms))
}

fn decided(situation: Situation, evidence: &Evidence, now_ms: i64) -> Decision {
    decide(&situation.flow(), evidence, &situation.rules(), at(now_ms))
}

fn paying() -> Situation {
    Situation::plain(State::Paying)
}

fn payed() -> Situation {
    Situation::plain(State::Payed)
}

fn refunding() -> Situation {
    Situation::plain(State::Refunding)
}

fn fact(fact: FactAnswer) -> Evidence {
    Evidence::Business { executed: None, fact }
}

/// Neither moves nor freezes nor acts again: the flow is tried later.
fn stays(decision: &Decision) -> bool {
    matches!(decision, Decision::Stay { .. } | Decision::Leave { .. })
}

fn about_a_charge(answer: ChargeAnswer) -> [Evidence; 3] {
    [Evidence::Debit(answer.clone()), Evidence::ChargeQuery(answer.clone()), Evidence::Close(answer)]
}

#[test]
fn wait_pay_enters_paying_before_the_wallet_hears_of_it() {
    let waiting = Situation::plain(State::WaitPay);
    for situation in [waiting, Situation { cancelled: true, ..waiting }] {
        for now_ms in [EARLY_MS, DEADLINE_MS, 10 * DEADLINE_MS] {
            assert_eq!(action(situation, Entry::Found, now_ms), Action::EnterPaying);
            let entered = decided(situation, &Evidence::Entering, now_ms);
            assert_eq!(entered, Decision::Move(Transition::EnterPaying));
        }
    }
}

#[test]
fn paying_just_entered_debits() {
    assert_eq!(action(paying(), Entry::JustEntered, DEADLINE_MS - 1), Action::Debit);
}

#[test]
fn paying_never_debits_past_its_deadline_or_cancelled() {
    assert_eq!(action(paying(), Entry::JustEntered, DEADLINE_MS), Action::QueryCharge);
    let cancelled = Situation { cancelled: true, ..paying() };
    assert_eq!(action(cancelled, Entry::JustEntered, EARLY_MS), Action::QueryCharge);
}

#[test]
fn paying_found_so_asks_first() {
    assert_eq!(action(paying(), Entry::Found, EARLY_MS), Action::QueryCharge);
}

#[test]
fn a_charge_that_is_ours_is_confirmed() {
    for evidence in about_a_charge(ChargeAnswer::Success(receipt())) {
        let confirmed = Decision::Move(Transition::ConfirmPayment(receipt()));
        for now_ms in [EARLY_MS, DEADLINE_MS, 10 * DEADLINE_MS] {
            assert_eq!(decided(paying(), &evidence, now_ms), confirmed);
        }
    }
}

#[test]
fn a_charge_that_differs_is_held() {
    let reasons = [HoldReason::UserMismatch, HoldReason::CurrencyMismatch, HoldReason::AmountMismatch];
    for ((_, wrong), reason) in wrong_receipts().into_iter().zip(reasons) {
        for evidence in about_a_charge(ChargeAnswer::Success(wrong)) {
            assert_eq!(decided(paying(), &evidence, EARLY_MS), Decision::Hold(reason));
        }
    }
}

#[test]
fn a_definite_refusal_fails_the_payment() {
    for evidence in about_a_charge(ChargeAnswer::Rejected(code("NO_FUNDS"))) {
        let failed = Decision::Move(Transition::FailPayment(code("NO_FUNDS")));
        assert_eq!(decided(paying(), &evidence, EARLY_MS), failed);
    }
    for evidence in about_a_charge(ChargeAnswer::Closed) {
        let moved = decided(paying(), &evidence, EARLY_MS);
        assert!(matches!(moved, Decision::Move(Transition::FailPayment(_))), "{moved:?}");
    }
}

#[test]
fn no_answer_is_no_refusal() {
    for no_answer in no_answers() {
        for evidence in about_a_charge(ChargeAnswer::None(no_answer)) {
            for now_ms in [EARLY_MS, DEADLINE_MS, 100 * DEADLINE_MS] {
                assert!(stays(&decided(paying(), &evidence, now_ms)), "{evidence:?} at {now_ms}");
            }
        }
    }
    for evidence in about_a_charge(ChargeAnswer::Processing) {
        assert!(stays(&decided(paying(), &evidence, 100 * DEADLINE_MS)), "{evidence:?}");
    }
}

#[test]
fn only_what_was_surely_not_executed_does_not_count_as_a_try() {
    let pace = |no_answer| match decided(paying(), &Evidence::Debit(ChargeAnswer::None(no_answer)), EARLY_MS)
    {
        Decision::Stay { pace, .. } => pace,
        other @ (Decision::Move(_)
        | Decision::Leave { .. }
        | Decision::Follow(_)
        | Decision::Hold(_)
        | Decision::Reload) => {
            panic!("{other:?}")
        }
    };
    assert_eq!(pace(UNAVAILABLE), Pace::Postponed { retry_after_ms: Some(7_000) });
    assert_eq!(pace(UNKNOWN), Pace::Counted);
}

#[test]
fn the_audit_log_keeps_the_class_of_the_answer() {
    let business = |fact| Evidence::Business { executed: Some(ExecuteAnswer::Done), fact };
    let labels = [
        (Evidence::Entering, "ENTERING"),
        (Evidence::Debit(ChargeAnswer::NotFound), "NOT_FOUND"),
        (Evidence::ChargeQuery(ChargeAnswer::Processing), "PROCESSING"),
        (Evidence::Close(ChargeAnswer::Closed), "CLOSED"),
        (business(FactAnswer::NotDone), "NOT_DONE"),
        (business(FactAnswer::None(UNKNOWN)), "UNKNOWN.TIMED_OUT"),
        (Evidence::Refund(RefundAnswer::Conflict), "CONFLICT"),
        (Evidence::RefundQuery(RefundAnswer::None(UNAVAILABLE)), "UNAVAILABLE.THROTTLED"),
    ];
    for (evidence, label) in labels {
        assert_eq!(evidence.label(), label);
    }
}

#[test]
fn what_our_own_gate_refused_leaves_the_row_as_it_is() {
    for cause in [UnavailableCause::BreakerOpen, UnavailableCause::BudgetSpent] {
        let refused = NoAnswer::Unavailable { cause, retry_after_ms: Some(7_000) };
        let leave = Decision::Leave { retry_after_ms: Some(7_000) };
        for evidence in about_a_charge(ChargeAnswer::None(refused)) {
            assert_eq!(decided(paying(), &evidence, EARLY_MS), leave, "{evidence:?}");
        }
        let refunds = [
            Evidence::Refund(RefundAnswer::None(refused)),
            Evidence::RefundQuery(RefundAnswer::None(refused)),
        ];
        for evidence in refunds {
            assert_eq!(decided(refunding(), &evidence, EARLY_MS), leave, "{evidence:?}");
        }
        let business = |executed, fact| Evidence::Business { executed, fact };
        let unread = FactAnswer::None(refused);
        assert_eq!(decided(payed(), &business(None, unread.clone()), EARLY_MS), leave);
        let not_sent = Some(ExecuteAnswer::None(refused));
        assert_eq!(decided(payed(), &business(not_sent.clone(), unread.clone()), EARLY_MS), leave);
        assert_eq!(decided(payed(), &business(not_sent, FactAnswer::NotDone), EARLY_MS), leave);
        // An execution that went out is a try, even if our gate did not let us see what it did.
        for sent in [ExecuteAnswer::Done, ExecuteAnswer::None(UNKNOWN)] {
            let Decision::Stay { pace, .. } =
                decided(payed(), &business(Some(sent), unread.clone()), EARLY_MS)
            else {
                panic!("an execution was not written down")
            };
            assert_eq!(pace, Pace::Counted);
        }
    }
}

#[test]
fn not_found_before_the_deadline_debits_again_under_the_same_number() {
    let not_found = Evidence::ChargeQuery(ChargeAnswer::NotFound);
    for can_close in [true, false] {
        let situation = Situation { can_close, ..paying() };
        assert_eq!(decided(situation, &not_found, DEADLINE_MS - 1), Decision::Follow(Action::Debit));
    }
}

#[test]
fn not_found_after_the_deadline_closes_and_does_not_debit() {
    let not_found = Evidence::ChargeQuery(ChargeAnswer::NotFound);
    assert_eq!(decided(paying(), &not_found, DEADLINE_MS), Decision::Follow(Action::CloseCharge));
    let cancelled = Situation { cancelled: true, ..paying() };
    assert_eq!(decided(cancelled, &not_found, EARLY_MS), Decision::Follow(Action::CloseCharge));
}

#[test]
fn not_found_alone_never_fails_a_payment_that_can_be_closed() {
    let not_found = Evidence::ChargeQuery(ChargeAnswer::NotFound);
    for now_ms in [DEADLINE_MS, DEADLINE_MS + GRACE_MS, 100 * DEADLINE_MS] {
        assert_eq!(decided(paying(), &not_found, now_ms), Decision::Follow(Action::CloseCharge));
    }
}

#[test]
fn a_wallet_that_cannot_close_gets_the_grace() {
    let cannot = Situation { can_close: false, ..paying() };
    let not_found = Evidence::ChargeQuery(ChargeAnswer::NotFound);
    let end_ms = DEADLINE_MS + GRACE_MS;
    match decided(cannot, &not_found, end_ms - 1) {
        Decision::Stay { wake_by, .. } => assert_eq!(wake_by, Some(at(end_ms))),
        other @ (Decision::Move(_)
        | Decision::Leave { .. }
        | Decision::Follow(_)
        | Decision::Hold(_)
        | Decision::Reload) => {
            panic!("{other:?}")
        }
    }
    let moved = decided(cannot, &not_found, end_ms);
    assert!(matches!(moved, Decision::Move(Transition::FailPayment(_))), "{moved:?}");
}

#[test]
fn a_close_that_says_unsupported_gets_the_grace_too() {
    for answer in [ChargeAnswer::Unsupported, ChargeAnswer::NotFound] {
        let close = Evidence::Close(answer);
        assert!(stays(&decided(paying(), &close, DEADLINE_MS + GRACE_MS - 1)));
        let moved = decided(paying(), &close, DEADLINE_MS + GRACE_MS);
        assert!(matches!(moved, Decision::Move(Transition::FailPayment(_))), "{moved:?}");
    }
}

#[test]
fn a_conflict_is_held() {
    for evidence in about_a_charge(ChargeAnswer::Conflict) {
        assert_eq!(decided(paying(), &evidence, EARLY_MS), Decision::Hold(HoldReason::WalletConflict));
    }
}

#[test]
fn payed_before_the_deadline_executes_and_after_it_only_reads() {
    for entry in [Entry::JustEntered, Entry::Found] {
        assert_eq!(action(payed(), entry, DEADLINE_MS - 1), Action::ExecuteThenReadFact);
        assert_eq!(action(payed(), entry, DEADLINE_MS), Action::ReadFact);
        let cancelled = Situation { cancelled: true, ..payed() };
        assert_eq!(action(cancelled, entry, EARLY_MS), Action::ReadFact);
    }
}

#[test]
fn done_for_us_is_success_whenever_it_is_seen() {
    for situation in [payed(), Situation { cancelled: true, ..payed() }] {
        for now_ms in [EARLY_MS, DEADLINE_MS, REFUNDABLE_MS, 100 * DEADLINE_MS] {
            let success = Decision::Move(Transition::ConfirmBusiness);
            assert_eq!(decided(situation, &fact(owned_by_us()), now_ms), success);
        }
    }
}

#[test]
fn done_for_another_is_refunded_at_once() {
    let refund = Decision::Move(Transition::DecideRefund(RefundReason::OwnedByOther));
    // Our own number, but not quite: no folding of case, no prefix, no trimming.
    for owner in ["h2r_1_2", "H2R_1_1", "h2r_1_11", "h2r_1", "r_h2r_1_1"] {
        assert_eq!(decided(payed(), &fact(owned_by(owner)), EARLY_MS), refund, "{owner}");
    }
}

#[test]
fn an_execution_that_says_done_is_not_believed_without_the_fact() {
    let claimed = Evidence::Business { executed: Some(ExecuteAnswer::Done), fact: FactAnswer::NotDone };
    assert!(stays(&decided(payed(), &claimed, EARLY_MS)));
    let unread = Evidence::Business { executed: Some(ExecuteAnswer::Done), fact: FactAnswer::None(UNKNOWN) };
    assert!(stays(&decided(payed(), &unread, EARLY_MS)));
}

#[test]
fn a_refused_execution_is_not_refunded_before_the_margin_is_over() {
    let executed = Some(ExecuteAnswer::Rejected(code("TASK_CLOSED")));
    let refused = Evidence::Business { executed, fact: FactAnswer::NotDone };
    for now_ms in [EARLY_MS, DEADLINE_MS, REFUNDABLE_MS - 1] {
        assert!(stays(&decided(payed(), &refused, now_ms)), "at {now_ms}");
    }
}

#[test]
fn a_margin_that_no_calendar_holds_never_ends() {
    for settle_margin_ms in [u64::MAX, u64::MAX / 2, u64::MAX / 2 - 1] {
        let rules = Rules { settle_margin_ms, ..payed().rules() };
        assert_eq!(refundable_from(&payed().flow(), &rules), DateTime::<Utc>::MAX_UTC, "{settle_margin_ms}");
    }
    let rules = Rules { settle_margin_ms: 86_400_000, ..payed().rules() };
    assert_eq!(refundable_from(&payed().flow(), &rules), at(DEADLINE_MS) + TimeDelta::days(1));
}

#[test]
fn not_done_is_refunded_from_deadline_plus_margin_on() {
    assert_eq!(refundable_from(&payed().flow(), &payed().rules()), at(REFUNDABLE_MS));
    let not_done = fact(FactAnswer::NotDone);
    match decided(payed(), &not_done, REFUNDABLE_MS - 1) {
        Decision::Stay { wake_by, .. } => assert_eq!(wake_by, Some(at(REFUNDABLE_MS))),
        other @ (Decision::Move(_)
        | Decision::Leave { .. }
        | Decision::Follow(_)
        | Decision::Hold(_)
        | Decision::Reload) => {
            panic!("{other:?}")
        }
    }
    let refund = Decision::Move(Transition::DecideRefund(RefundReason::DeadlinePassed));
    assert_eq!(decided(payed(), &not_done, REFUNDABLE_MS), refund);
}

#[test]
fn a_cancelled_payment_that_was_charged_is_refunded_without_waiting() {
    let cancelled = Situation { cancelled: true, ..payed() };
    let refund = Decision::Move(Transition::DecideRefund(RefundReason::Cancelled));
    assert_eq!(decided(cancelled, &fact(FactAnswer::NotDone), CANCEL_MS), refund);
    assert!(
        stays(&decided(payed(), &fact(FactAnswer::NotDone), CANCEL_MS)),
        "its twin that was not cancelled waits"
    );
}

#[test]
fn a_contradicting_fact_is_held_and_neither_refunded_nor_confirmed() {
    for now_ms in [EARLY_MS, REFUNDABLE_MS, 100 * DEADLINE_MS] {
        let held = decided(payed(), &fact(FactAnswer::Contradiction), now_ms);
        assert_eq!(held, Decision::Hold(HoldReason::BusinessContradiction));
    }
}

#[test]
fn an_unreadable_fact_is_never_refunded_blindly() {
    for no_answer in no_answers() {
        let unreadable = fact(FactAnswer::None(no_answer));
        let limit_ms = REFUNDABLE_MS + UNREADABLE_HOLD_MS;
        for now_ms in [EARLY_MS, DEADLINE_MS, REFUNDABLE_MS, limit_ms - 1] {
            assert!(stays(&decided(payed(), &unreadable, now_ms)), "{no_answer:?} at {now_ms}");
        }
        for now_ms in [limit_ms, 100 * DEADLINE_MS] {
            assert_eq!(decided(payed(), &unreadable, now_ms), Decision::Hold(HoldReason::BusinessUnreadable));
        }
    }
}

#[test]
fn an_execution_with_other_parameters_is_held() {
    let executed = Some(ExecuteAnswer::Conflict);
    let conflict = Evidence::Business { executed: executed.clone(), fact: FactAnswer::NotDone };
    assert_eq!(decided(payed(), &conflict, EARLY_MS), Decision::Hold(HoldReason::BusinessConflict));
    let but_ours = Evidence::Business { executed, fact: owned_by_us() };
    assert_eq!(
        decided(payed(), &but_ours, EARLY_MS),
        Decision::Move(Transition::ConfirmBusiness),
        "the fact decides"
    );
}

#[test]
fn refunding_just_entered_refunds_and_found_so_asks_first() {
    for now_ms in [EARLY_MS, 100 * DEADLINE_MS] {
        assert_eq!(action(refunding(), Entry::JustEntered, now_ms), Action::Refund);
        assert_eq!(action(refunding(), Entry::Found, now_ms), Action::QueryRefund);
    }
}

#[test]
fn a_full_refund_is_confirmed_and_a_different_one_is_held() {
    for evidence in about_a_refund(RefundAnswer::Success(receipt())) {
        let confirmed = Decision::Move(Transition::ConfirmRefund(receipt()));
        assert_eq!(decided(refunding(), &evidence, EARLY_MS), confirmed);
    }
    let reasons = [HoldReason::UserMismatch, HoldReason::CurrencyMismatch, HoldReason::AmountMismatch];
    for ((_, wrong), reason) in wrong_receipts().into_iter().zip(reasons) {
        for evidence in about_a_refund(RefundAnswer::Success(wrong)) {
            assert_eq!(decided(refunding(), &evidence, EARLY_MS), Decision::Hold(reason));
        }
    }
}

#[test]
fn a_refund_not_found_is_sent_again_under_the_same_number() {
    let again = decided(refunding(), &Evidence::RefundQuery(RefundAnswer::NotFound), EARLY_MS);
    assert_eq!(again, Decision::Follow(Action::Refund));
    let odd = decided(refunding(), &Evidence::Refund(RefundAnswer::NotFound), EARLY_MS);
    assert!(stays(&odd), "a refund that is answered so must not loop: {odd:?}");
}

#[test]
fn a_refused_refund_is_tried_again_and_then_held_but_never_given_up() {
    let refused = RefundAnswer::Rejected(code("ACCOUNT_CLOSED"));
    let spent = Situation { tries_spent: true, ..refunding() };
    assert!(stays(&decided(refunding(), &Evidence::Refund(refused.clone()), EARLY_MS)));
    let again = decided(refunding(), &Evidence::RefundQuery(refused.clone()), EARLY_MS);
    assert_eq!(again, Decision::Follow(Action::Refund));
    for evidence in about_a_refund(refused) {
        assert_eq!(decided(spent, &evidence, EARLY_MS), Decision::Hold(HoldReason::RefundRefused));
    }
    assert_eq!(spent.flow().retry_count, TRIES_BEFORE_HOLD);
}

#[test]
fn an_unknown_refund_is_asked_about_for_ever() {
    for no_answer in no_answers() {
        for evidence in about_a_refund(RefundAnswer::None(no_answer)) {
            for situation in [refunding(), Situation { tries_spent: true, ..refunding() }] {
                assert!(stays(&decided(situation, &evidence, 1_000 * DEADLINE_MS)), "{evidence:?}");
            }
        }
    }
}

fn about_a_refund(answer: RefundAnswer) -> [Evidence; 2] {
    [Evidence::Refund(answer.clone()), Evidence::RefundQuery(answer)]
}

#[test]
fn people_hold_a_flow_and_the_machine_rests() {
    for state in [State::WaitPay, State::Paying, State::Payed, State::Refunding] {
        let held = Situation { held: true, ..Situation::plain(state) };
        assert_eq!(action(held, Entry::Found, EARLY_MS), Action::RestHeld, "{state}");
        assert_ne!(action(Situation::plain(state), Entry::Found, EARLY_MS), Action::RestHeld, "{state}");
    }
}

#[test]
fn evidence_for_another_state_is_never_decided_upon() {
    let pairs = all_evidence().len() * State::ALL.len();
    let mut reloads = 0;
    for state in State::ALL {
        for (_, evidence) in all_evidence() {
            let belongs = match &evidence {
                Evidence::Entering => State::WaitPay,
                Evidence::Debit(_) | Evidence::ChargeQuery(_) | Evidence::Close(_) => State::Paying,
                Evidence::Business { .. } => State::Payed,
                Evidence::Refund(_) | Evidence::RefundQuery(_) => State::Refunding,
            };
            let reload = decided(Situation::plain(state), &evidence, EARLY_MS) == Decision::Reload;
            assert_eq!(reload, state != belongs, "{state} and {evidence:?}");
            reloads += usize::from(reload);
        }
    }
    assert_eq!((pairs, reloads), (693, 594));
}

#[test]
fn a_wallet_that_cannot_close_is_believed_only_after_the_deadline_even_when_cancelled() {
    // The debit carries `not_after = deadline`, and that is the only bar this wallet knows. A process that read the row
    // before the cancellation and stalled sends its debit later than `cancel + grace`, and the wallet takes it.
    let cannot = Situation { can_close: false, cancelled: true, ..paying() };
    let not_found = Evidence::ChargeQuery(ChargeAnswer::NotFound);
    let too_early = decided(cannot, &not_found, CANCEL_MS + GRACE_MS);
    assert!(stays(&too_early), "failed while the wallet would still accept a debit: {too_early:?}");
}
