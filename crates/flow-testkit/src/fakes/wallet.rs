//! The wallet's face of the fake world.

use async_trait::async_trait;
use chrono::DateTime;
use flow_core::answer::{Answered, ChargeAnswer, ErrorCode, Receipt, RefundAnswer};
use flow_core::ids::{DownstreamRef, RefundOrderNo, TradeOrderNo, UserId};
use flow_core::money::{Currency, Money};
use flow_core::ports::{ChargeOrder, RefundOrder, Wallet};
use pay_sim::ledger::{
    CloseRefusal, Debit, DebitRefusal, DebitStatus, DebitView, Refund, RefundRefusal, RefundStatus,
    RefundView,
};

use super::fault::Path;
use super::{Call, FakeWorld, LateMessage, Lie, sim_money, sim_user};

/// A wallet that keeps its contract, until the script says otherwise.
#[derive(Debug, Clone)]
pub struct FakeWallet {
    pub(super) world: FakeWorld,
}

#[async_trait]
impl Wallet for FakeWallet {
    async fn debit(&self, order: &ChargeOrder) -> Answered<ChargeAnswer> {
        let debit = Debit {
            trade_order_no: order.trade_order_no.as_str().to_owned(),
            user_id: sim_user(order.user_id),
            money: sim_money(&order.money),
            not_after_ms: Some(order.not_after.timestamp_millis()),
        };
        let path = Path::of(self.world.script.enter(Call::Debit));
        let answer = match path {
            Path::Through(course, lie) => lied_charge(
                charge_answer(self.world.with(|world, now_ms| world.debit_as(&debit, &course, now_ms))),
                lie,
            ),
            Path::AnswerLost(no_answer) => {
                drop(self.world.with(|world, now_ms| world.debit(&debit, now_ms)));
                ChargeAnswer::None(no_answer)
            }
            Path::HeldBack(no_answer) => {
                self.world.hold_back(LateMessage::Debit(debit));
                ChargeAnswer::None(no_answer)
            }
            Path::NotSent(no_answer) => ChargeAnswer::None(no_answer),
        };
        self.answered(Call::Debit, answer).await
    }

    async fn query(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer> {
        let answer = match Path::of(self.world.script.enter(Call::Query)) {
            Path::Through(_, lie) => {
                let view = self.world.with(|world, now_ms| world.query(trade_order_no.as_str(), now_ms));
                lied_charge(view.map_or(ChargeAnswer::NotFound, charge_state), lie)
            }
            Path::AnswerLost(no_answer) | Path::HeldBack(no_answer) | Path::NotSent(no_answer) => {
                ChargeAnswer::None(no_answer)
            }
        };
        self.answered(Call::Query, answer).await
    }

    async fn close(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer> {
        let no = trade_order_no.as_str();
        let answer = match Path::of(self.world.script.enter(Call::Close)) {
            Path::Through(_, lie) => {
                let answer = match self.world.with(|world, now_ms| world.close(no, now_ms)) {
                    Ok(view) => charge_state(view),
                    Err(CloseRefusal::Unsupported) => ChargeAnswer::Unsupported,
                };
                lied_charge(answer, lie)
            }
            Path::AnswerLost(no_answer) => {
                drop(self.world.with(|world, now_ms| world.close(no, now_ms)));
                ChargeAnswer::None(no_answer)
            }
            Path::HeldBack(no_answer) => {
                self.world.hold_back(LateMessage::Close(no.to_owned()));
                ChargeAnswer::None(no_answer)
            }
            Path::NotSent(no_answer) => ChargeAnswer::None(no_answer),
        };
        self.answered(Call::Close, answer).await
    }

    async fn refund(&self, order: &RefundOrder) -> Answered<RefundAnswer> {
        let refund = Refund {
            refund_order_no: order.refund_order_no.as_str().to_owned(),
            trade_order_no: order.trade_order_no.as_str().to_owned(),
            user_id: sim_user(order.user_id),
            money: sim_money(&order.money),
        };
        let answer = match Path::of(self.world.script.enter(Call::Refund)) {
            Path::Through(course, lie) => {
                let result = self.world.with(|world, now_ms| world.refund_as(&refund, &course, now_ms));
                lied_refund(refund_answer(result), lie)
            }
            Path::AnswerLost(no_answer) => {
                drop(self.world.with(|world, now_ms| world.refund(&refund, now_ms)));
                RefundAnswer::None(no_answer)
            }
            Path::HeldBack(no_answer) => {
                self.world.hold_back(LateMessage::Refund(refund));
                RefundAnswer::None(no_answer)
            }
            Path::NotSent(no_answer) => RefundAnswer::None(no_answer),
        };
        self.answered(Call::Refund, answer).await
    }

    async fn query_refund(&self, refund_order_no: &RefundOrderNo) -> Answered<RefundAnswer> {
        let answer = match Path::of(self.world.script.enter(Call::QueryRefund)) {
            Path::Through(_, lie) => {
                let view =
                    self.world.with(|world, now_ms| world.query_refund(refund_order_no.as_str(), now_ms));
                lied_refund(view.map_or(RefundAnswer::NotFound, refund_state), lie)
            }
            Path::AnswerLost(no_answer) | Path::HeldBack(no_answer) | Path::NotSent(no_answer) => {
                RefundAnswer::None(no_answer)
            }
        };
        self.answered(Call::QueryRefund, answer).await
    }
}

impl FakeWallet {
    async fn answered<A>(&self, call: Call, answer: A) -> Answered<A> {
        // The effect is there; others may act before the answer is heard.
        self.world.script.leave(call);
        tokio::task::yield_now().await;
        Answered { answer, request_id: reference("wallet-request") }
    }
}

fn charge_answer(result: Result<DebitView, DebitRefusal>) -> ChargeAnswer {
    match result {
        Ok(view) => charge_state(view),
        Err(DebitRefusal::OrderConflict) => ChargeAnswer::Conflict,
        Err(DebitRefusal::InvalidAmount) => ChargeAnswer::Rejected(ErrorCode::clean("INVALID_AMOUNT")),
    }
}

fn charge_state(view: DebitView) -> ChargeAnswer {
    match view.status {
        DebitStatus::Success => match (view.user_id, view.money) {
            (Some(user_id), Some(money)) => {
                ChargeAnswer::Success(receipt(user_id, &money, view.transaction_id, view.finished_at_ms))
            }
            (None, Some(_) | None) | (Some(_), None) => ChargeAnswer::Conflict,
        },
        DebitStatus::Failed => {
            ChargeAnswer::Rejected(ErrorCode::clean(&view.failure_code.unwrap_or_default()))
        }
        DebitStatus::Processing => ChargeAnswer::Processing,
        DebitStatus::Closed => ChargeAnswer::Closed,
    }
}

fn refund_answer(result: Result<RefundView, RefundRefusal>) -> RefundAnswer {
    let rejected = |code| RefundAnswer::Rejected(ErrorCode::clean(code));
    match result {
        Ok(view) => refund_state(view),
        Err(RefundRefusal::RefundConflict) => RefundAnswer::Conflict,
        Err(RefundRefusal::OrderNotCharged) => rejected("ORDER_NOT_CHARGED"),
        Err(RefundRefusal::RefundExceedsCharge) => rejected("REFUND_EXCEEDS_CHARGE"),
        Err(RefundRefusal::InvalidAmount) => rejected("INVALID_AMOUNT"),
    }
}

fn refund_state(view: RefundView) -> RefundAnswer {
    match view.status {
        RefundStatus::Success => RefundAnswer::Success(receipt(
            view.user_id,
            &view.money,
            view.transaction_id,
            view.finished_at_ms,
        )),
        RefundStatus::Failed => {
            RefundAnswer::Rejected(ErrorCode::clean(&view.failure_code.unwrap_or_default()))
        }
        RefundStatus::Processing => RefundAnswer::Processing,
    }
}

fn receipt(
    user_id: u64,
    money: &pay_sim::ledger::Money,
    transaction: Option<String>,
    at_ms: Option<i64>,
) -> Receipt {
    const OURS: &str = "the world only knows what we sent to it";
    let user_id = i64::try_from(user_id).ok().and_then(|number| UserId::new(number).ok()).expect(OURS);
    let currency = Currency::new(money.currency.clone()).expect(OURS);
    Receipt {
        user_id,
        money: Money::new(money.amount, currency).expect(OURS),
        transaction: transaction.and_then(|text| reference(&text)),
        at: at_ms.and_then(DateTime::from_timestamp_millis),
    }
}

fn reference(text: &str) -> Option<DownstreamRef> {
    DownstreamRef::new(text).ok()
}

fn lied_charge(answer: ChargeAnswer, lie: Option<Lie>) -> ChargeAnswer {
    match (lie, answer) {
        (None, answer) => answer,
        (Some(Lie::Processing), _) => ChargeAnswer::Processing,
        (Some(Lie::NotFound), _) => ChargeAnswer::NotFound,
        (Some(Lie::Conflict | Lie::Contradiction), _) => ChargeAnswer::Conflict,
        (
            Some(lie @ (Lie::WrongAmount | Lie::WrongUser | Lie::WrongCurrency)),
            ChargeAnswer::Success(receipt),
        ) => ChargeAnswer::Success(forged(receipt, lie)),
        (Some(Lie::WrongAmount | Lie::WrongUser | Lie::WrongCurrency), answer) => answer,
    }
}

fn lied_refund(answer: RefundAnswer, lie: Option<Lie>) -> RefundAnswer {
    match (lie, answer) {
        (None, answer) => answer,
        (Some(Lie::Processing), _) => RefundAnswer::Processing,
        (Some(Lie::NotFound), _) => RefundAnswer::NotFound,
        (Some(Lie::Conflict | Lie::Contradiction), _) => RefundAnswer::Conflict,
        (
            Some(lie @ (Lie::WrongAmount | Lie::WrongUser | Lie::WrongCurrency)),
            RefundAnswer::Success(receipt),
        ) => RefundAnswer::Success(forged(receipt, lie)),
        (Some(Lie::WrongAmount | Lie::WrongUser | Lie::WrongCurrency), answer) => answer,
    }
}

fn forged(mut receipt: Receipt, lie: Lie) -> Receipt {
    const NEAR: &str = "one more than a valid value is valid";
    match lie {
        Lie::WrongAmount => {
            receipt.money =
                Money::new(receipt.money.amount() + 1, receipt.money.currency().clone()).expect(NEAR);
        }
        Lie::WrongUser => receipt.user_id = UserId::new(receipt.user_id.get() + 1).expect(NEAR),
        Lie::WrongCurrency => {
            let other = Currency::new("FORGED").expect("a valid code");
            receipt.money = Money::new(receipt.money.amount(), other).expect("the amount was valid before");
        }
        Lie::Processing | Lie::Conflict | Lie::NotFound | Lie::Contradiction => {}
    }
    receipt
}
