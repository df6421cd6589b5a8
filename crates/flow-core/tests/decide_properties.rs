//! What holds for every decision, whatever the flow, the rules, the evidence and the time.

mod situations;

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::answer::{
    ChargeAnswer, Classified, ExecuteAnswer, FactAnswer, NoAnswer, Receipt, RefundAnswer,
};
use flow_core::decide::{
    Action, Decision, Entry, Evidence, Rules, Transition, decide, next_action, refundable_from,
};
use flow_core::flow::{CancelRequest, Flow, Hold, HoldReason};
use flow_core::ids::OrderRef;
use flow_core::state::State;
use flow_testkit::samples;
use proptest::prelude::*;
use proptest::sample::select;

use situations::{code, created_at, no_answers};

const HOUR_MS: i64 = 3_600_000;

fn moment(ms: i64) -> DateTime<Utc> {
    created_at() + TimeDelta::milliseconds(ms)
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (any::<bool>(), 0..HOUR_MS as u64, 0..HOUR_MS as u64, 0..HOUR_MS as u64, 0..20_u32).prop_map(
        |(wallet_can_close, grace, margin, unreadable, tries)| Rules {
            wallet_can_close,
            wallet_in_flight_grace_ms: grace,
            settle_margin_ms: margin,
            business_unreadable_hold_ms: unreadable,
            refund_tries_before_hold: tries,
        },
    )
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let times = (0..2 * HOUR_MS, 0..3 * HOUR_MS, proptest::option::of(0..2 * HOUR_MS));
    (select(&State::ALL[..]), times, any::<bool>(), 0..30_u32).prop_map(
        |(state, (deadline_ms, entered_ms, cancel_ms), held, tries)| {
            let mut flow = samples::flow(1, state, created_at());
            flow.deadline = moment(deadline_ms);
            flow.state_entered_at = moment(entered_ms);
            flow.retry_count = tries;
            flow.cancel = cancel_ms.map(|ms| CancelRequest { at: moment(ms), by: samples::actor("shop") });
            let by = samples::actor("alice");
            flow.hold = held.then(|| Hold { reason: HoldReason::Operator, since: moment(0), by });
            flow
        },
    )
}

fn any_receipt() -> impl Strategy<Value = Receipt> {
    (1..3_i64, 99..102_i64, select(vec!["CNY", "JPY"])).prop_map(|(user, amount, currency)| Receipt {
        user_id: samples::user(user),
        money: samples::money(amount, currency),
        transaction: None,
        at: None,
    })
}

fn any_charge() -> impl Strategy<Value = ChargeAnswer> {
    prop_oneof![
        any_receipt().prop_map(ChargeAnswer::Success),
        Just(ChargeAnswer::Rejected(code("NO_FUNDS"))),
        Just(ChargeAnswer::Closed),
        Just(ChargeAnswer::Processing),
        Just(ChargeAnswer::NotFound),
        Just(ChargeAnswer::Conflict),
        Just(ChargeAnswer::Unsupported),
        select(no_answers()).prop_map(ChargeAnswer::None),
    ]
}

fn any_refund() -> impl Strategy<Value = RefundAnswer> {
    prop_oneof![
        any_receipt().prop_map(RefundAnswer::Success),
        Just(RefundAnswer::Rejected(code("ACCOUNT_CLOSED"))),
        Just(RefundAnswer::Processing),
        Just(RefundAnswer::NotFound),
        Just(RefundAnswer::Conflict),
        select(no_answers()).prop_map(RefundAnswer::None),
    ]
}

fn any_execution() -> impl Strategy<Value = Option<ExecuteAnswer>> {
    prop_oneof![
        Just(None),
        Just(Some(ExecuteAnswer::Done)),
        Just(Some(ExecuteAnswer::Processing)),
        Just(Some(ExecuteAnswer::Rejected(code("TASK_CLOSED")))),
        Just(Some(ExecuteAnswer::Conflict)),
        select(no_answers()).prop_map(|no_answer| Some(ExecuteAnswer::None(no_answer))),
    ]
}

fn any_fact() -> impl Strategy<Value = FactAnswer> {
    prop_oneof![
        select(vec!["h2r_1_1", "h2r_1_2", "H2R_1_1", "legacy-7"]).prop_map(|owner| FactAnswer::Done {
            owner: OrderRef::new(owner).expect("a valid order number")
        }),
        Just(FactAnswer::NotDone),
        Just(FactAnswer::Contradiction),
        select(no_answers()).prop_map(FactAnswer::None),
    ]
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    prop_oneof![
        Just(Evidence::Entering),
        any_charge().prop_map(Evidence::Debit),
        any_charge().prop_map(Evidence::ChargeQuery),
        any_charge().prop_map(Evidence::Close),
        (any_execution(), any_fact()).prop_map(|(executed, fact)| Evidence::Business { executed, fact }),
        any_refund().prop_map(Evidence::Refund),
        any_refund().prop_map(Evidence::RefundQuery),
    ]
}

/// Whether our own gate refused a call that this evidence needed.
fn gates_in(evidence: &Evidence) -> bool {
    let no_answer = match evidence {
        Evidence::Entering => None,
        Evidence::Debit(answer) | Evidence::ChargeQuery(answer) | Evidence::Close(answer) => {
            answer.no_answer()
        }
        Evidence::Business { executed, fact: FactAnswer::NotDone } => {
            executed.as_ref().and_then(Classified::no_answer)
        }
        Evidence::Business { executed: _, fact } => fact.no_answer(),
        Evidence::Refund(answer) | Evidence::RefundQuery(answer) => answer.no_answer(),
    };
    no_answer.is_some_and(NoAnswer::is_our_gates)
}

fn any_now() -> impl Strategy<Value = DateTime<Utc>> {
    (0..6 * HOUR_MS).prop_map(moment)
}

/// Whether the evidence, by itself, says something definite. A wallet's "no such order" becomes definite by the grace
/// of a wallet that cannot close, and by nothing else.
fn is_definite(evidence: &Evidence) -> bool {
    let charge = |answer: &ChargeAnswer| match answer {
        ChargeAnswer::Success(_) | ChargeAnswer::Rejected(_) | ChargeAnswer::Closed => true,
        ChargeAnswer::Processing
        | ChargeAnswer::NotFound
        | ChargeAnswer::Conflict
        | ChargeAnswer::Unsupported
        | ChargeAnswer::None(_) => false,
    };
    match evidence {
        Evidence::Entering => true,
        Evidence::Debit(answer) | Evidence::ChargeQuery(answer) | Evidence::Close(answer) => charge(answer),
        Evidence::Business { fact, .. } => match fact {
            FactAnswer::Done { .. } | FactAnswer::NotDone => true,
            FactAnswer::Contradiction | FactAnswer::None(_) => false,
        },
        Evidence::Refund(answer) | Evidence::RefundQuery(answer) => match answer {
            RefundAnswer::Success(_) => true,
            RefundAnswer::Rejected(_)
            | RefundAnswer::Processing
            | RefundAnswer::NotFound
            | RefundAnswer::Conflict
            | RefundAnswer::None(_) => false,
        },
    }
}

fn receipt_in(evidence: &Evidence) -> Option<&Receipt> {
    match evidence {
        Evidence::Debit(answer) | Evidence::ChargeQuery(answer) | Evidence::Close(answer) => match answer {
            ChargeAnswer::Success(receipt) => Some(receipt),
            ChargeAnswer::Rejected(_)
            | ChargeAnswer::Closed
            | ChargeAnswer::Processing
            | ChargeAnswer::NotFound
            | ChargeAnswer::Conflict
            | ChargeAnswer::Unsupported
            | ChargeAnswer::None(_) => None,
        },
        Evidence::Refund(answer) | Evidence::RefundQuery(answer) => match answer {
            RefundAnswer::Success(receipt) => Some(receipt),
            RefundAnswer::Rejected(_)
            | RefundAnswer::Processing
            | RefundAnswer::NotFound
            | RefundAnswer::Conflict
            | RefundAnswer::None(_) => None,
        },
        Evidence::Entering | Evidence::Business { .. } => None,
    }
}

fn is_grace(evidence: &Evidence) -> bool {
    matches!(
        evidence,
        Evidence::ChargeQuery(ChargeAnswer::NotFound)
            | Evidence::Close(ChargeAnswer::NotFound | ChargeAnswer::Unsupported)
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn only_a_definite_answer_moves_money(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(),
    ) {
        if let Decision::Move(transition) = decide(&flow, &evidence, &rules, now) {
            let by_grace = is_grace(&evidence) && matches!(transition, Transition::FailPayment(_));
            prop_assert!(is_definite(&evidence) || by_grace, "{transition:?} on {evidence:?}");
        }
    }

    #[test]
    fn the_grace_fails_a_payment_only_when_it_is_over(
        flow in any_flow(), rules in any_rules(), now in any_now(), asked_to_close in any::<bool>(),
    ) {
        let not_found = ChargeAnswer::NotFound;
        let evidence = if asked_to_close { Evidence::Close(not_found) } else { Evidence::ChargeQuery(not_found) };
        if let Decision::Move(transition) = decide(&flow, &evidence, &rules, now) {
            prop_assert!(matches!(transition, Transition::FailPayment(_)));
            let grace = TimeDelta::milliseconds(rules.wallet_in_flight_grace_ms as i64);
            prop_assert!(now >= flow.deadline + grace, "a cancellation shortens nothing");
            prop_assert!(asked_to_close || !rules.wallet_can_close);
        }
    }

    #[test]
    fn a_move_starts_where_the_flow_is_and_a_terminal_flow_never_moves(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(),
    ) {
        let decision = decide(&flow, &evidence, &rules, now);
        if let Decision::Move(transition) = &decision {
            prop_assert_eq!(transition.edge().from(), flow.state);
        }
        if flow.state.is_terminal() {
            prop_assert_eq!(decision, Decision::Reload);
            prop_assert_eq!(next_action(&flow, Entry::Found, now), Action::RestTerminal);
            prop_assert_eq!(next_action(&flow, Entry::JustEntered, now), Action::RestTerminal);
        }
    }

    #[test]
    fn no_refund_while_an_execution_can_still_succeed(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(),
    ) {
        if let Decision::Move(Transition::DecideRefund(_)) = decide(&flow, &evidence, &rules, now) {
            let Evidence::Business { fact, .. } = &evidence else {
                return Err(TestCaseError::fail(format!("a refund was decided on {evidence:?}")));
            };
            match fact {
                FactAnswer::Done { owner } => prop_assert_ne!(owner.as_str(), flow.trade_order_no.as_str()),
                FactAnswer::NotDone => {
                    prop_assert!(now >= refundable_from(&flow, &rules));
                    let settled = flow.deadline + TimeDelta::milliseconds(rules.settle_margin_ms as i64);
                    prop_assert!(flow.cancel.is_some() || now >= settled);
                }
                FactAnswer::Contradiction | FactAnswer::None(_) => prop_assert!(false, "a blind refund on {fact:?}"),
            }
        }
    }

    #[test]
    fn a_receipt_that_differs_never_moves(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(),
    ) {
        let Some(receipt) = receipt_in(&evidence) else { return Ok(()) };
        let same = receipt.user_id == flow.target.user_id && receipt.money == flow.money;
        match decide(&flow, &evidence, &rules, now) {
            Decision::Move(_) => prop_assert!(same),
            Decision::Hold(_) => prop_assert!(!same),
            Decision::Reload => {}
            other @ (Decision::Stay { .. } | Decision::Leave { .. } | Decision::Follow(_)) => {
                prop_assert!(false, "{other:?}")
            }
        }
    }

    #[test]
    fn a_row_is_left_unwritten_exactly_when_our_own_gate_let_nothing_out(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(),
    ) {
        let went_out = match &evidence {
            Evidence::Business { executed: Some(executed), fact: _ } => executed.may_have_acted(),
            Evidence::Business { executed: None, fact: _ } | Evidence::Entering | Evidence::Debit(_)
            | Evidence::ChargeQuery(_) | Evidence::Close(_) | Evidence::Refund(_) | Evidence::RefundQuery(_) => false,
        };
        match decide(&flow, &evidence, &rules, now) {
            Decision::Leave { .. } => prop_assert!(gates_in(&evidence) && !went_out, "{evidence:?}"),
            Decision::Stay { code, .. } => {
                let ours = ["UNAVAILABLE.BREAKER_OPEN", "UNAVAILABLE.BUDGET_SPENT"].contains(&code.as_str());
                prop_assert!(!ours || went_out, "{evidence:?} was written down as {code}");
            }
            Decision::Move(_) | Decision::Follow(_) | Decision::Hold(_) | Decision::Reload => {}
        }
    }

    #[test]
    fn no_debit_and_no_execution_once_effects_are_barred(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(), entered in any::<bool>(),
    ) {
        let entry = if entered { Entry::JustEntered } else { Entry::Found };
        let mut chosen = vec![next_action(&flow, entry, now)];
        if let Decision::Follow(action) = decide(&flow, &evidence, &rules, now) {
            chosen.push(action);
        }
        for action in chosen {
            let causes = matches!(action, Action::Debit | Action::ExecuteThenReadFact);
            prop_assert!(!causes || flow.may_cause_effects(now), "{action:?}");
        }
    }

    #[test]
    fn a_flow_found_so_asks_before_it_moves_money(flow in any_flow(), now in any_now()) {
        let action = next_action(&flow, Entry::Found, now);
        prop_assert!(!matches!(action, Action::Debit | Action::Refund | Action::CloseCharge), "{action:?}");
    }

    #[test]
    fn a_follow_up_is_one_action_of_the_same_state_and_does_not_loop(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(),
    ) {
        if let Decision::Follow(action) = decide(&flow, &evidence, &rules, now) {
            let (state, asked) = match action {
                Action::Debit | Action::CloseCharge => {
                    (State::Paying, matches!(evidence, Evidence::ChargeQuery(_)))
                }
                Action::Refund => (State::Refunding, matches!(evidence, Evidence::RefundQuery(_))),
                Action::RestTerminal | Action::RestHeld | Action::EnterPaying | Action::QueryCharge
                | Action::ExecuteThenReadFact | Action::ReadFact | Action::QueryRefund => {
                    return Err(TestCaseError::fail(format!("{action:?} follows {evidence:?}")));
                }
            };
            prop_assert_eq!(flow.state, state);
            prop_assert!(asked, "only a query is followed up: {:?} by {:?}", evidence, action);
        }
    }

    #[test]
    fn a_wake_up_lies_in_the_future(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(),
    ) {
        if let Decision::Stay { wake_by: Some(wake_by), .. } = decide(&flow, &evidence, &rules, now) {
            prop_assert!(wake_by > now, "wake by {wake_by}, now {now}");
        }
    }

    #[test]
    fn a_hold_does_not_change_what_evidence_means(
        flow in any_flow(), evidence in any_evidence(), rules in any_rules(), now in any_now(),
    ) {
        let free = Flow { hold: None, ..flow.clone() };
        prop_assert_eq!(decide(&flow, &evidence, &rules, now), decide(&free, &evidence, &rules, now));
    }

    #[test]
    fn rules_at_the_edge_of_their_range_do_not_overflow(
        flow in any_flow(), evidence in any_evidence(), can_close in any::<bool>(), now in any_now(),
    ) {
        let rules = Rules {
            wallet_can_close: can_close,
            wallet_in_flight_grace_ms: u64::MAX,
            settle_margin_ms: u64::MAX,
            business_unreadable_hold_ms: u64::MAX,
            refund_tries_before_hold: u32::MAX,
        };
        let decision = decide(&flow, &evidence, &rules, now);
        let refund_after_all = matches!(
            &decision, Decision::Move(Transition::DecideRefund(reason)) if reason.as_str() == "DEADLINE_PASSED"
        );
        prop_assert!(!refund_after_all, "an endless margin has no end");
    }
}
