//! A wallet and a business system that answer at once, or when a test opens the gate.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use flow_core::answer::{
    Answered, ChargeAnswer, ErrorCode, ExecuteAnswer, FactAnswer, Receipt, RefundAnswer,
};
use flow_core::flow::Flow;
use flow_core::ids::{OrderRef, RefundOrderNo, Target, TradeOrderNo};
use flow_core::ports::{Business, ChargeOrder, Execution, RefundOrder, Wallet};
use flow_testkit::samples::receipt_for;
use tokio::sync::watch;

/// What the wallet says to a debit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Charges,
    Refuses,
    StaysSilent,
}

pub(crate) struct ScriptedWallet {
    mood: Mutex<Mood>,
    open: watch::Sender<bool>,
    charged: Mutex<HashMap<TradeOrderNo, ChargeAnswer>>,
    debits: AtomicU32,
}

impl ScriptedWallet {
    pub(crate) fn new() -> ScriptedWallet {
        ScriptedWallet {
            mood: Mutex::new(Mood::Charges),
            open: watch::Sender::new(true),
            charged: Mutex::default(),
            debits: AtomicU32::new(0),
        }
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// Calls that come from now on wait for [`ScriptedWallet::open_gate`].
    pub(crate) fn shut_gate(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open_gate(&self) {
        self.open.send_replace(true);
    }

    /// The charge of this flow has happened by now.
    pub(crate) fn settle(&self, flow: &Flow) {
        self.charged
            .lock()
            .unwrap()
            .insert(flow.trade_order_no.clone(), ChargeAnswer::Success(receipt_for(flow)));
    }

    pub(crate) fn debits(&self) -> u32 {
        self.debits.load(Ordering::SeqCst)
    }

    async fn pass_gate(&self) {
        self.open.subscribe().wait_for(|open| *open).await.expect("the sender lives as long as the wallet");
    }
}

#[async_trait]
impl Wallet for ScriptedWallet {
    async fn debit(&self, order: &ChargeOrder) -> Answered<ChargeAnswer> {
        self.debits.fetch_add(1, Ordering::SeqCst);
        self.pass_gate().await;
        let answer = match *self.mood.lock().unwrap() {
            Mood::Charges => ChargeAnswer::Success(Receipt {
                user_id: order.user_id,
                money: order.money.clone(),
                transaction: None,
                at: None,
            }),
            Mood::Refuses => ChargeAnswer::Rejected(ErrorCode::clean("INSUFFICIENT_BALANCE")),
            Mood::StaysSilent => ChargeAnswer::Processing,
        };
        self.charged.lock().unwrap().insert(order.trade_order_no.clone(), answer.clone());
        Answered::bare(answer)
    }

    async fn query(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer> {
        let known = self.charged.lock().unwrap().get(trade_order_no).cloned();
        Answered::bare(known.unwrap_or(ChargeAnswer::NotFound))
    }

    async fn close(&self, _: &TradeOrderNo) -> Answered<ChargeAnswer> {
        Answered::bare(ChargeAnswer::Closed)
    }

    async fn refund(&self, order: &RefundOrder) -> Answered<RefundAnswer> {
        Answered::bare(RefundAnswer::Success(Receipt {
            user_id: order.user_id,
            money: order.money.clone(),
            transaction: None,
            at: None,
        }))
    }

    async fn query_refund(&self, _: &RefundOrderNo) -> Answered<RefundAnswer> {
        Answered::bare(RefundAnswer::NotFound)
    }
}

#[derive(Default)]
pub(crate) struct ScriptedBusiness {
    owners: Mutex<HashMap<Target, OrderRef>>,
}

#[async_trait]
impl Business for ScriptedBusiness {
    async fn execute(&self, execution: &Execution) -> Answered<ExecuteAnswer> {
        let owner = OrderRef::new(execution.trade_order_no.as_str()).unwrap();
        self.owners.lock().unwrap().insert(execution.target.clone(), owner);
        Answered::bare(ExecuteAnswer::Done)
    }

    async fn fact(&self, target: &Target) -> Answered<FactAnswer> {
        let owner = self.owners.lock().unwrap().get(target).cloned();
        Answered::bare(owner.map_or(FactAnswer::NotDone, |owner| FactAnswer::Done { owner }))
    }
}
