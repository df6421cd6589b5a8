//! The pure decisions, shipped or with a fault: `decide`, `cas`, `create::judge`, and the rules they go by.

use chrono::{DateTime, Utc};
use flow_core::answer::{
    ChargeAnswer, ErrorCode, ExecuteAnswer, FactAnswer, NoAnswer, Receipt, RefundAnswer,
};
use flow_core::cas::{CasWrite, Change};
use flow_core::create::{self, PaymentRequest, Verdict};
use flow_core::decide::{self, Action, Decision, Entry, Evidence, Rules, Transition, refundable_from};
use flow_core::flow::{Flow, RefundReason};
use flow_core::ports::Lookup;
use flow_core::state::State;

use super::{Mutant, Subject};

impl Subject {
    /// The rules that a flow is decided by.
    pub fn rules(self, shipped: Rules) -> Rules {
        if self.is(Mutant::NoGrace) {
            Rules { wallet_in_flight_grace_ms: 0, ..shipped }
        } else if self.is(Mutant::NoSettleMargin) {
            Rules { settle_margin_ms: 0, ..shipped }
        } else {
            shipped
        }
    }

    /// `decide::next_action`.
    pub fn next_action(self, flow: &Flow, entry: Entry, now: DateTime<Utc>) -> Action {
        let free = flow.hold.is_none();
        if self.is(Mutant::SkipQuery) && free && (flow.state, entry) == (State::Paying, Entry::Found) {
            return Action::Debit;
        }
        if self.is(Mutant::DebitBeforePaying) && free && flow.state == State::WaitPay {
            return Action::Debit;
        }
        if self.is(Mutant::CancelIgnored) && flow.cancel.is_some() {
            return decide::next_action(&Flow { cancel: None, ..flow.clone() }, entry, now);
        }
        if self.is(Mutant::RefundForgotten) && flow.state == State::Payed && !flow.may_cause_effects(now) {
            return Action::RestTerminal;
        }
        if self.is(Mutant::SuccessRefunded) && flow.state == State::BizSuccess && !flow.may_cause_effects(now)
        {
            return Action::Refund;
        }
        decide::next_action(flow, entry, now)
    }

    /// `decide::decide`. Takes the rules as configured: [`Subject::rules`] is applied here.
    pub fn decide(self, flow: &Flow, evidence: &Evidence, rules: &Rules, now: DateTime<Utc>) -> Decision {
        let wrong = match flow.state {
            State::Paying => self.wrong_about_charge(flow, evidence),
            State::Payed => self.wrong_about_fact(flow, evidence),
            State::Refunding => self.wrong_about_refund(flow, evidence),
            State::WaitPay | State::PayFail | State::BizSuccess | State::Refunded => None,
        };
        match wrong {
            Some(transition) => Decision::Move(transition),
            None => decide::decide(flow, evidence, &self.rules(rules.clone()), now),
        }
    }

    fn wrong_about_charge(self, flow: &Flow, evidence: &Evidence) -> Option<Transition> {
        let (Evidence::Debit(answer) | Evidence::ChargeQuery(answer) | Evidence::Close(answer)) = evidence
        else {
            return None;
        };
        let failed = || Some(Transition::FailPayment(ErrorCode::clean("MUTANT")));
        let unknown = matches!(answer, ChargeAnswer::None(NoAnswer::Unknown(_)));
        if self.is(Mutant::TimeoutIsFailure) && matches!(evidence, Evidence::Debit(_)) && unknown {
            return failed();
        }
        if self.is(Mutant::NotFoundIsFailure) && answer == &ChargeAnswer::NotFound {
            return failed();
        }
        if self.is(Mutant::CloseUnconfirmed) && matches!(evidence, Evidence::Close(_)) && unknown {
            return failed();
        }
        if self.is(Mutant::ProcessingIsCharged) && answer == &ChargeAnswer::Processing {
            return Some(Transition::ConfirmPayment(receipt_of(flow)));
        }
        match answer {
            ChargeAnswer::Success(receipt) if self.is(Mutant::ReceiptUnchecked) => {
                Some(Transition::ConfirmPayment(receipt.clone()))
            }
            ChargeAnswer::Success(_)
            | ChargeAnswer::Rejected(_)
            | ChargeAnswer::Closed
            | ChargeAnswer::Processing
            | ChargeAnswer::NotFound
            | ChargeAnswer::Conflict
            | ChargeAnswer::Unsupported
            | ChargeAnswer::None(_) => None,
        }
    }

    fn wrong_about_fact(self, flow: &Flow, evidence: &Evidence) -> Option<Transition> {
        let Evidence::Business { executed, fact } = evidence else { return None };
        let foreign =
            matches!(fact, FactAnswer::Done { owner } if owner.as_str() != flow.trade_order_no.as_str());
        if self.is(Mutant::OwnerIgnored) && foreign {
            return Some(Transition::ConfirmBusiness);
        }
        let refused = matches!(executed, Some(ExecuteAnswer::Rejected(_)));
        if self.is(Mutant::RefundOnRejection) && refused && fact == &FactAnswer::NotDone {
            return Some(Transition::DecideRefund(RefundReason::DeadlinePassed));
        }
        None
    }

    fn wrong_about_refund(self, flow: &Flow, evidence: &Evidence) -> Option<Transition> {
        let (Evidence::Refund(answer) | Evidence::RefundQuery(answer)) = evidence else { return None };
        if self.is(Mutant::RefundProcessingIsRefunded) && answer == &RefundAnswer::Processing {
            return Some(Transition::ConfirmRefund(receipt_of(flow)));
        }
        if self.is(Mutant::RefundNotFoundIsRefunded) && answer == &RefundAnswer::NotFound {
            return Some(Transition::ConfirmRefund(receipt_of(flow)));
        }
        match answer {
            RefundAnswer::Success(receipt) if self.is(Mutant::ReceiptUnchecked) => {
                Some(Transition::ConfirmRefund(receipt.clone()))
            }
            RefundAnswer::Success(_)
            | RefundAnswer::Rejected(_)
            | RefundAnswer::Processing
            | RefundAnswer::NotFound
            | RefundAnswer::Conflict
            | RefundAnswer::None(_) => None,
        }
    }

    /// Evidence that is taken for granted instead of being asked for; the product takes nothing for granted.
    pub fn presumed(
        self,
        flow: &Flow,
        action: Action,
        rules: &Rules,
        now: DateTime<Utc>,
    ) -> Option<Evidence> {
        let unread = self.is(Mutant::RefundUnread)
            && action == Action::ReadFact
            && now >= refundable_from(flow, &self.rules(rules.clone()));
        unread.then_some(Evidence::Business { executed: None, fact: FactAnswer::NotDone })
    }

    /// `create::judge`.
    pub fn judge<'a>(self, request: &PaymentRequest, known: &'a Lookup, now: DateTime<Utc>) -> Verdict<'a> {
        match &known.latest {
            Some(latest) if known.request.is_none() && self.overlooks(latest) => {
                Verdict::Insert(latest.attempt_no.next())
            }
            Some(_) | None => create::judge(request, known, now),
        }
    }

    /// The unique key over the target: whether this attempt keeps another from being inserted.
    pub fn holds_target(self, attempt: &Flow) -> bool {
        !attempt.state.frees_target() && !self.overlooks(attempt)
    }

    fn overlooks(self, attempt: &Flow) -> bool {
        let open = !attempt.state.is_terminal();
        (self.is(Mutant::SecondWhileOpen) && open)
            || (self.is(Mutant::SecondAfterSuccess) && attempt.state == State::BizSuccess)
    }

    /// `CasWrite::matches`.
    pub fn matches(self, write: &CasWrite, row: &Flow) -> bool {
        if self.is(Mutant::CasById) {
            write.flow_id == row.id
        } else if self.is(Mutant::CasWithoutVersion) {
            (write.flow_id, write.from) == (row.id, row.state)
        } else {
            write.matches(row)
        }
    }

    /// `CasWrite::is_legal`.
    pub fn is_legal(self, write: &CasWrite) -> bool {
        let late_cancel = write.from == State::Payed && matches!(write.change, Change::RequestCancel { .. });
        (self.is(Mutant::LateCancel) && late_cancel) || write.is_legal()
    }

    /// Whether a wish to cancel is written in this state (`advance::people`).
    pub fn may_cancel(self, flow: &Flow) -> bool {
        let in_time = match flow.state {
            State::WaitPay | State::Paying => true,
            State::Payed => self.is(Mutant::LateCancel),
            State::PayFail | State::BizSuccess | State::Refunding | State::Refunded => false,
        };
        in_time && flow.cancel.is_none()
    }
}

fn receipt_of(flow: &Flow) -> Receipt {
    Receipt { user_id: flow.target.user_id, money: flow.money.clone(), transaction: None, at: None }
}
