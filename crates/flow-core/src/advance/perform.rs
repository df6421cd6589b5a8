//! Performs the action that was decided on, through the downstream's gate. Decides nothing.

use super::Advancer;
use crate::answer::{Answered, ChargeAnswer, Classified, ExecuteAnswer, FactAnswer, NoAnswer, RefundAnswer};
use crate::crash::Spot;
use crate::decide::{Action, Evidence};
use crate::downstream::Turn;
use crate::flow::{Flow, RefundReason};
use crate::ids::DownstreamRef;
use crate::ports::{ChargeOrder, Execution, RefundOrder};

/// What an action brought to light, with what the audit log keeps of it.
pub(super) struct Performed {
    pub(super) evidence: Evidence,
    pub(super) request_id: Option<DownstreamRef>,
    pub(super) latency_ms: Option<u32>,
    /// By the monotonic clock, before the question was sent whose answer is the evidence.
    pub(super) asked_at_ms: u64,
}

impl Performed {
    fn from_call<A>(
        asked_at_ms: u64,
        result: Result<(Answered<A>, u32), NoAnswer>,
        none: impl FnOnce(NoAnswer) -> A,
        evidence: impl FnOnce(A) -> Evidence,
    ) -> Performed {
        match result {
            Ok((answered, took_ms)) => Performed {
                asked_at_ms,
                evidence: evidence(answered.answer),
                request_id: answered.request_id,
                latency_ms: Some(took_ms),
            },
            Err(refused) => Performed {
                evidence: evidence(none(refused)),
                request_id: None,
                latency_ms: None,
                asked_at_ms,
            },
        }
    }
}

impl Advancer {
    pub(super) async fn perform(&self, flow: &Flow, action: Action, turn: Turn) -> Performed {
        match action {
            // Resting is never performed, and entering PAYING calls nobody: the write itself is the action.
            Action::RestTerminal | Action::RestHeld | Action::EnterPaying => {
                let asked_at_ms = self.clock.monotonic_ms();
                Performed { evidence: Evidence::Entering, request_id: None, latency_ms: None, asked_at_ms }
            }
            Action::Debit => self.debit(flow, turn).await,
            Action::QueryCharge => self.query_charge(flow, turn).await,
            Action::CloseCharge => self.close_charge(flow, turn).await,
            Action::ExecuteThenReadFact => self.execute_then_read_fact(flow, turn).await,
            Action::ReadFact => self.read_fact(flow, turn, None).await,
            Action::Refund => self.refund(flow, turn).await,
            Action::QueryRefund => self.query_refund(flow, turn).await,
        }
    }

    async fn debit(&self, flow: &Flow, turn: Turn) -> Performed {
        let order = ChargeOrder {
            trade_order_no: flow.trade_order_no.clone(),
            user_id: flow.target.user_id,
            money: flow.money.clone(),
            not_after: flow.deadline,
        };
        let asked_at_ms = self.clock.monotonic_ms();
        let call = self
            .downstreams
            .call_wallet(&flow.wallet, Spot::Debit, Action::Debit.as_str(), turn, |wallet| async move {
                wallet.debit(&order).await
            })
            .await;
        Performed::from_call(asked_at_ms, call, ChargeAnswer::None, Evidence::Debit)
    }

    async fn query_charge(&self, flow: &Flow, turn: Turn) -> Performed {
        let number = flow.trade_order_no.clone();
        let asked_at_ms = self.clock.monotonic_ms();
        let call = self
            .downstreams
            .call_wallet(&flow.wallet, Spot::Query, Action::QueryCharge.as_str(), turn, |wallet| async move {
                wallet.query(&number).await
            })
            .await;
        Performed::from_call(asked_at_ms, call, ChargeAnswer::None, Evidence::ChargeQuery)
    }

    async fn close_charge(&self, flow: &Flow, turn: Turn) -> Performed {
        let number = flow.trade_order_no.clone();
        let asked_at_ms = self.clock.monotonic_ms();
        let call = self
            .downstreams
            .call_wallet(&flow.wallet, Spot::Close, Action::CloseCharge.as_str(), turn, |wallet| async move {
                wallet.close(&number).await
            })
            .await;
        Performed::from_call(asked_at_ms, call, ChargeAnswer::None, Evidence::Close)
    }

    async fn execute_then_read_fact(&self, flow: &Flow, turn: Turn) -> Performed {
        let execution = Execution {
            trade_order_no: flow.trade_order_no.clone(),
            target: flow.target.clone(),
            not_after: flow.deadline,
            context: flow.context.clone(),
        };
        let asked_at_ms = self.clock.monotonic_ms();
        let call = self
            .downstreams
            .call_business(
                &flow.business,
                Spot::Execute,
                Action::ExecuteThenReadFact.as_str(),
                turn,
                |business| async move { business.execute(&execution).await },
            )
            .await;
        let executed = match call {
            Ok((answered, _)) => answered.answer,
            Err(refused) => ExecuteAnswer::None(refused),
        };
        tracing::debug!(flow_id = %flow.id, outcome = executed.label(), "executed");
        if let ExecuteAnswer::None(refused) = executed
            && refused.is_our_gates()
        {
            // Nothing went out, so there is nothing to see yet; what the gate can bear is for others.
            let fact = FactAnswer::None(refused);
            let evidence = Evidence::Business { executed: Some(executed), fact };
            return Performed { evidence, request_id: None, latency_ms: None, asked_at_ms };
        }
        self.read_fact(flow, Turn::Patient, Some(executed)).await
    }

    async fn read_fact(&self, flow: &Flow, turn: Turn, executed: Option<ExecuteAnswer>) -> Performed {
        let target = flow.target.clone();
        let asked_at_ms = self.clock.monotonic_ms();
        let call = self
            .downstreams
            .call_business(
                &flow.business,
                Spot::Fact,
                Action::ReadFact.as_str(),
                turn,
                |business| async move { business.fact(&target).await },
            )
            .await;
        Performed::from_call(asked_at_ms, call, FactAnswer::None, |fact| Evidence::Business {
            executed,
            fact,
        })
    }

    async fn refund(&self, flow: &Flow, turn: Turn) -> Performed {
        let order = RefundOrder {
            refund_order_no: flow.refund_order_no.clone(),
            trade_order_no: flow.trade_order_no.clone(),
            user_id: flow.target.user_id,
            money: flow.money.clone(),
            reason: flow.refund.as_ref().map_or(RefundReason::ByHand, |terms| terms.reason),
        };
        let asked_at_ms = self.clock.monotonic_ms();
        let call = self
            .downstreams
            .call_wallet(&flow.wallet, Spot::Refund, Action::Refund.as_str(), turn, |wallet| async move {
                wallet.refund(&order).await
            })
            .await;
        Performed::from_call(asked_at_ms, call, RefundAnswer::None, Evidence::Refund)
    }

    async fn query_refund(&self, flow: &Flow, turn: Turn) -> Performed {
        let number = flow.refund_order_no.clone();
        let asked_at_ms = self.clock.monotonic_ms();
        let call = self
            .downstreams
            .call_wallet(
                &flow.wallet,
                Spot::QueryRefund,
                Action::QueryRefund.as_str(),
                turn,
                |wallet| async move { wallet.query_refund(&number).await },
            )
            .await;
        Performed::from_call(asked_at_ms, call, RefundAnswer::None, Evidence::RefundQuery)
    }
}
