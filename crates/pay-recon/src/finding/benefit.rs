//! Does the business system say of the benefit what our record says?

use flow_core::recon::FindingKind;
use flow_core::state::State;

use super::{Found, View};
use crate::order::{Fact, Order};

/// The business record against state and charge.
pub(super) fn compare(order: &Order, view: &View<'_>, found: &mut Found<'_>) {
    let Some(flow) = &order.local else { return };
    let state = flow.state;
    match &order.fact {
        Fact::NotAsked => {}
        Fact::Unreadable(class) => {
            found.add(
                FindingKind::FactUnreadable,
                format!("here it is {state}, the business system: {class}"),
            );
        }
        Fact::NotDone => match state {
            State::BizSuccess => {
                found.add(
                    FindingKind::SuccessWithoutBenefit,
                    format!("here it is {state}, the benefit is not done"),
                );
            }
            State::WaitPay
            | State::Paying
            | State::PayFail
            | State::Payed
            | State::Refunding
            | State::Refunded => {}
        },
        Fact::Contradiction => match state {
            State::Payed => {
                let detail = format!("here it is {state}, the benefit is done and has no owner");
                found.add(FindingKind::PayedBenefitUnattributed, detail);
            }
            State::BizSuccess => {
                let detail = format!("here it is {state}, the business record contradicts itself");
                found.add(FindingKind::SuccessWithoutBenefit, detail);
            }
            State::WaitPay | State::Paying | State::PayFail | State::Refunding | State::Refunded => {}
        },
        Fact::DoneForThis => done_for_this(state, !view.charges.is_empty(), found),
        Fact::DoneForOther { owner, owner_was_charged } => {
            done_for_other(state, !view.charges.is_empty(), owner, *owner_was_charged, found);
        }
    }
}

fn done_for_this(state: State, is_billed: bool, found: &mut Found<'_>) {
    match (state, is_billed) {
        (State::BizSuccess, true | false) => {}
        (State::Payed, true | false) | (State::WaitPay | State::Paying | State::PayFail, true) => {
            let detail = format!("here it is {state}, the benefit is done for this order");
            found.add(FindingKind::PayedBenefitUnattributed, detail);
        }
        (State::WaitPay | State::Paying | State::PayFail, false)
        | (State::Refunding | State::Refunded, true | false) => {
            let detail = format!("here it is {state}, the benefit is done for this order");
            found.add(FindingKind::BenefitWithoutPayment, detail);
        }
    }
}

fn done_for_other(
    state: State,
    is_billed: bool,
    owner: &str,
    owner_was_charged: bool,
    found: &mut Found<'_>,
) {
    let kind =
        if owner_was_charged { FindingKind::TwoAttemptsCharged } else { FindingKind::BenefitOwnedByOther };
    match (state, is_billed) {
        (State::Payed | State::BizSuccess, true | false)
        | (State::WaitPay | State::Paying | State::PayFail, true) => {
            found.add(kind, format!("here it is {state}, the benefit is done for {owner}"));
        }
        // Not charged, or being paid back: as it should be.
        (State::WaitPay | State::Paying | State::PayFail, false)
        | (State::Refunding | State::Refunded, true | false) => {}
    }
}
