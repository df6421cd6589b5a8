//! The wallet's suite: what the product relies on, whatever wallet is behind the port.

use flow_core::answer::{ChargeAnswer, Receipt, RefundAnswer};
use flow_core::flow::Flow;
use flow_core::ids::{RefundOrderNo, TradeOrderNo};

use super::far_side::{FarSide, FarSideFactory, late_flow, open_flow};
use crate::samples;

/// The wallet's suite, one test per case.
#[macro_export]
macro_rules! wallet_conformance {
    ($factory:expr) => {
        $crate::conformance_cases! { wallet; $factory;
            a_debit_charges_once_however_often_it_is_sent,
            a_query_tells_what_a_debit_told,
            a_failed_debit_stays_failed,
            an_unknown_charge_is_not_found,
            a_closed_number_is_never_charged,
            closing_a_charged_order_tells_of_the_charge,
            closing_a_failed_order_does_not_revive_it,
            a_number_with_other_parameters_is_a_conflict,
            a_debit_after_its_time_is_refused_for_good,
            a_refund_pays_back_once_however_often_it_is_sent,
            a_refund_query_tells_what_a_refund_told,
            an_unknown_refund_is_not_found,
            a_refund_before_the_charge_is_refused,
            more_than_the_charge_is_never_refunded,
            a_refund_number_with_other_parameters_is_a_conflict,
            racing_debits_charge_once,
            extreme_identities_and_amounts_pass_through,
        }
    };
}

/// The same number charges once; every answer carries the same receipt.
pub async fn a_debit_charges_once_however_often_it_is_sent(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    let first = charged(&*far, &flow).await;
    assert_eq!((first.user_id, &first.money), (flow.target.user_id, &flow.money));
    assert!(first.transaction.is_some(), "a charge has the wallet's own number");
    assert_eq!(charged(&*far, &flow).await, first);
    assert_eq!(facts(&*far, &flow).await, (1, 0));
}

/// A query repeats the debit's answer.
pub async fn a_query_tells_what_a_debit_told(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    let receipt = charged(&*far, &flow).await;
    assert_eq!(query(&*far, &flow).await, ChargeAnswer::Success(receipt));
}

/// An order that failed for want of funds stays failed when there are funds again.
pub async fn a_failed_debit_stays_failed(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    far.set_balance(flow.target.user_id, &samples::cny(flow.money.amount() - 1)).await;
    let refusal = debit(&*far, &flow).await;
    assert!(
        matches!(&refusal, ChargeAnswer::Rejected(code) if code.as_str() == "INSUFFICIENT_FUNDS"),
        "{refusal:?}"
    );
    far.set_balance(flow.target.user_id, &samples::cny(1_000_000)).await;
    assert_eq!(debit(&*far, &flow).await, refusal);
    assert_eq!(query(&*far, &flow).await, refusal);
    assert_eq!(facts(&*far, &flow).await, (0, 0));
}

/// "No such order" is an answer of its own, and no failure.
pub async fn an_unknown_charge_is_not_found(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    assert_eq!(query(&*far, &flow).await, ChargeAnswer::NotFound);
    assert_eq!(query(&*far, &flow).await, ChargeAnswer::NotFound, "asking creates nothing");
}

/// Closing an order that no debit reached bars the debit that arrives later.
pub async fn a_closed_number_is_never_charged(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    assert_eq!(close(&*far, &flow).await, ChargeAnswer::Closed);
    assert_eq!(close(&*far, &flow).await, ChargeAnswer::Closed);
    let late = debit(&*far, &flow).await;
    assert!(
        matches!(late, ChargeAnswer::Closed | ChargeAnswer::Rejected(_)),
        "a late debit was answered {late:?}"
    );
    let told = query(&*far, &flow).await;
    assert!(matches!(told, ChargeAnswer::Closed | ChargeAnswer::Rejected(_)), "{told:?}");
    assert_eq!(facts(&*far, &flow).await, (0, 0));
}

/// Closing comes too late for a charge: the answer is the charge, and it stays.
pub async fn closing_a_charged_order_tells_of_the_charge(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    let receipt = charged(&*far, &flow).await;
    assert_eq!(close(&*far, &flow).await, ChargeAnswer::Success(receipt.clone()));
    assert_eq!(query(&*far, &flow).await, ChargeAnswer::Success(receipt));
    assert_eq!(facts(&*far, &flow).await, (1, 0));
}

/// Closing a failed order leaves it as definitely not charged.
pub async fn closing_a_failed_order_does_not_revive_it(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    far.set_balance(flow.target.user_id, &samples::cny(1)).await;
    let refusal = debit(&*far, &flow).await;
    assert!(matches!(refusal, ChargeAnswer::Rejected(_)), "{refusal:?}");
    let closed = close(&*far, &flow).await;
    assert!(matches!(closed, ChargeAnswer::Rejected(_) | ChargeAnswer::Closed), "{closed:?}");
    far.set_balance(flow.target.user_id, &samples::cny(1_000_000)).await;
    let again = debit(&*far, &flow).await;
    assert!(matches!(again, ChargeAnswer::Rejected(_) | ChargeAnswer::Closed), "{again:?}");
    assert_eq!(facts(&*far, &flow).await, (0, 0));
}

/// Another amount, currency or user under a known number: a conflict, and the order is as it was.
pub async fn a_number_with_other_parameters_is_a_conflict(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    let receipt = charged(&*far, &flow).await;
    let mut others = [flow.clone(), flow.clone(), flow.clone()];
    others[0].money = samples::cny(flow.money.amount() + 1);
    others[1].money = samples::money(flow.money.amount(), "JPY");
    others[2].target.user_id = samples::user(77);
    for other in &others {
        assert_eq!(
            debit(&*far, other).await,
            ChargeAnswer::Conflict,
            "{} for {}",
            other.money,
            other.target.user_id
        );
    }
    assert_eq!(query(&*far, &flow).await, ChargeAnswer::Success(receipt));
    assert_eq!(facts(&*far, &flow).await, (1, 0));
}

/// A debit that arrives after its `not_after` is refused, and stays refused.
pub async fn a_debit_after_its_time_is_refused_for_good(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = late_flow(&*far, 1).await;
    let refusal = debit(&*far, &flow).await;
    assert!(matches!(refusal, ChargeAnswer::Rejected(_)), "{refusal:?}");
    assert_eq!(query(&*far, &flow).await, refusal);
    assert_eq!(facts(&*far, &flow).await, (0, 0));
}

/// The same refund number pays back once; every answer carries the same receipt.
pub async fn a_refund_pays_back_once_however_often_it_is_sent(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    charged(&*far, &flow).await;
    let first = refunded(&*far, &flow).await;
    assert_eq!((first.user_id, &first.money), (flow.target.user_id, &flow.money));
    assert_eq!(refunded(&*far, &flow).await, first);
    assert_eq!(facts(&*far, &flow).await, (1, 1));
}

/// A refund query repeats the refund's answer; the charge stays a charge.
pub async fn a_refund_query_tells_what_a_refund_told(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    let charge = charged(&*far, &flow).await;
    let receipt = refunded(&*far, &flow).await;
    assert_eq!(query_refund(&*far, &flow).await, RefundAnswer::Success(receipt));
    assert_eq!(query(&*far, &flow).await, ChargeAnswer::Success(charge));
}

/// "No such refund" is an answer of its own.
pub async fn an_unknown_refund_is_not_found(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    charged(&*far, &flow).await;
    assert_eq!(query_refund(&*far, &flow).await, RefundAnswer::NotFound);
}

/// Nothing is paid back that was not charged.
pub async fn a_refund_before_the_charge_is_refused(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    let answer = refund(&*far, &flow).await;
    assert!(matches!(answer, RefundAnswer::Rejected(_)), "{answer:?}");
    assert_eq!(facts(&*far, &flow).await, (0, 0));
}

/// Neither one refund larger than the charge nor two that add up to more.
pub async fn more_than_the_charge_is_never_refunded(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    charged(&*far, &flow).await;
    let mut larger = flow.clone();
    larger.money = samples::cny(flow.money.amount() + 1);
    let answer = refund(&*far, &larger).await;
    assert!(matches!(answer, RefundAnswer::Rejected(_) | RefundAnswer::Conflict), "{answer:?}");
    assert_eq!(facts(&*far, &flow).await, (1, 0));
    refunded(&*far, &flow).await;
    let mut second = samples::refund_order(&flow);
    let other = TradeOrderNo::derive(flow.target.user_id, samples::flow_id(9_999));
    second.refund_order_no = RefundOrderNo::derive(&other);
    let answer = far.wallet().refund(&second).await.answer;
    assert!(matches!(answer, RefundAnswer::Rejected(_) | RefundAnswer::Conflict), "{answer:?}");
    assert_eq!(facts(&*far, &flow).await, (1, 1));
}

/// Another amount under a known refund number: a conflict, and nothing moves.
pub async fn a_refund_number_with_other_parameters_is_a_conflict(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    charged(&*far, &flow).await;
    let receipt = refunded(&*far, &flow).await;
    let mut other = flow.clone();
    other.money = samples::cny(flow.money.amount() - 1);
    assert_eq!(refund(&*far, &other).await, RefundAnswer::Conflict);
    assert_eq!(query_refund(&*far, &flow).await, RefundAnswer::Success(receipt));
    assert_eq!(facts(&*far, &flow).await, (1, 1));
}

/// Debits of one number that arrive together charge once, and tell one story.
pub async fn racing_debits_charge_once(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    let (a, b, c, d) =
        tokio::join!(debit(&*far, &flow), debit(&*far, &flow), debit(&*far, &flow), debit(&*far, &flow));
    let receipt = charged(&*far, &flow).await;
    for answer in [a, b, c, d] {
        assert!(
            answer == ChargeAnswer::Success(receipt.clone()) || answer == ChargeAnswer::Processing,
            "{answer:?}"
        );
    }
    assert_eq!(facts(&*far, &flow).await, (1, 0));
}

/// Nothing is cut, rounded or folded on the way: the largest identities and amounts come back as they went.
pub async fn extreme_identities_and_amounts_pass_through(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let mut flow = open_flow(&*far, i64::MAX).await;
    flow.money = samples::money(i64::MAX, "ABCDEFGHIJKLMNOP");
    let receipt = charged(&*far, &flow).await;
    assert_eq!((receipt.user_id, &receipt.money), (flow.target.user_id, &flow.money));
    let receipt = refunded(&*far, &flow).await;
    assert_eq!((receipt.user_id, &receipt.money), (flow.target.user_id, &flow.money));
}

async fn debit(far: &dyn FarSide, flow: &Flow) -> ChargeAnswer {
    far.wallet().debit(&samples::charge_order(flow)).await.answer
}

async fn charged(far: &dyn FarSide, flow: &Flow) -> Receipt {
    match debit(far, flow).await {
        ChargeAnswer::Success(receipt) => receipt,
        answer @ (ChargeAnswer::Rejected(_)
        | ChargeAnswer::Closed
        | ChargeAnswer::Processing
        | ChargeAnswer::NotFound
        | ChargeAnswer::Conflict
        | ChargeAnswer::Unsupported
        | ChargeAnswer::None(_)) => panic!("the debit was answered {answer:?}"),
    }
}

async fn query(far: &dyn FarSide, flow: &Flow) -> ChargeAnswer {
    far.wallet().query(&flow.trade_order_no).await.answer
}

async fn close(far: &dyn FarSide, flow: &Flow) -> ChargeAnswer {
    far.wallet().close(&flow.trade_order_no).await.answer
}

async fn refund(far: &dyn FarSide, flow: &Flow) -> RefundAnswer {
    far.wallet().refund(&samples::refund_order(flow)).await.answer
}

async fn refunded(far: &dyn FarSide, flow: &Flow) -> Receipt {
    match refund(far, flow).await {
        RefundAnswer::Success(receipt) => receipt,
        answer @ (RefundAnswer::Rejected(_)
        | RefundAnswer::Processing
        | RefundAnswer::NotFound
        | RefundAnswer::Conflict
        | RefundAnswer::None(_)) => panic!("the refund was answered {answer:?}"),
    }
}

async fn query_refund(far: &dyn FarSide, flow: &Flow) -> RefundAnswer {
    far.wallet().query_refund(&flow.refund_order_no).await.answer
}

/// How many charges and refunds really happened.
async fn facts(far: &dyn FarSide, flow: &Flow) -> (usize, usize) {
    let facts = far.facts(&flow.trade_order_no).await;
    (facts.charges.len(), facts.refunds.len())
}
