//! The way from a process to wallet and business system and back: latency, loss, delay, doubling. What was sent goes
//! on without its sender.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flow_core::answer::{
    Answered, ChargeAnswer, Classified as _, ExecuteAnswer, FactAnswer, NoAnswer, RefundAnswer, UnknownCause,
};
use flow_core::ids::{RefundOrderNo, Target, TradeOrderNo};
use flow_core::ports::{Business, ChargeOrder, Execution, RefundOrder, Wallet};
use flow_testkit::fakes::Fault;
use flow_testkit::samples;
use pay_sim::ledger::Deferral;

use crate::dice::{Draw, Topic};
use crate::faults::{self, FarTrouble};
use crate::life::Life;
use crate::message::{Message, Reply};
use crate::mind;
use crate::site::{Site, flow_of_number};
use crate::time::sleep_ms;
use crate::trace::What;

/// How long a caller waits for an answer that does not come.
const PATIENCE_MS: u64 = 3_000;

/// Both systems, as one process reaches them.
pub(crate) struct Far {
    life: Arc<Life>,
    /// Flows of which this process has just heard that the far side does not have them.
    unheard_of: Mutex<BTreeSet<(Topic, i64)>>,
}

impl Far {
    pub(crate) fn new(life: Arc<Life>) -> Far {
        Far { life, unheard_of: Mutex::default() }
    }

    async fn ask(&self, message: Message) -> Reply {
        let site = &self.life.site;
        self.life.pass().await;
        let (topic, subject) = message.about();
        let message = mind::altered(site, message, self.follows_not_found(topic, subject));
        let mut draw = site.draw(topic, subject);
        site.note(self.life.who, What::Asked(topic, subject));
        let trouble = faults::of_call(site, self.life.who, &message, &mut draw);
        let reply = match mind::presumed(site, &message) {
            Some(presumed) => presumed,
            None => self.carry(message, trouble, &mut draw).await,
        };
        self.life.pass().await;
        let reply = mind::misread(site, reply);
        site.note(self.life.who, What::Heard(topic, subject, reply.label()));
        self.remember(topic, subject, &reply);
        reply
    }

    async fn carry(&self, message: Message, trouble: Option<FarTrouble>, draw: &mut Draw) -> Reply {
        let site = &self.life.site;
        let (there_ms, back_ms) = (site.latency_ms(draw), site.latency_ms(draw));
        let topic = message.about().0;
        let nothing = |cause| Reply::none(topic, NoAnswer::Unknown(cause));
        match trouble {
            None => self.round_trip(message, None, there_ms, back_ms).await,
            Some(FarTrouble::DiesBefore { down_ms }) => {
                self.life.crash(down_ms);
                nothing(UnknownCause::ConnectionLost)
            }
            Some(FarTrouble::DiesAfter { down_ms }) => {
                sleep_ms(there_ms).await;
                let _unheard = deliver(site, message, None).await;
                self.life.crash(down_ms);
                nothing(UnknownCause::ConnectionLost)
            }
            Some(FarTrouble::RequestLost(cause)) => {
                sleep_ms(if cause == UnknownCause::TimedOut { PATIENCE_MS } else { there_ms }).await;
                nothing(cause)
            }
            Some(FarTrouble::AnswerLost(cause)) => {
                let _unheard = self.round_trip(message, None, there_ms, back_ms).await;
                nothing(cause)
            }
            Some(FarTrouble::Late { after_ms }) => {
                site.later(after_ms, |site| async move {
                    let _unheard = deliver(&site, message, None).await;
                });
                sleep_ms(there_ms.min(after_ms)).await;
                nothing(UnknownCause::TimedOut)
            }
            Some(FarTrouble::Twice { after_ms }) => {
                let copy = message.clone();
                site.later(after_ms, |site| async move {
                    let _unheard = deliver(&site, copy, None).await;
                });
                self.round_trip(message, None, there_ms, back_ms).await
            }
            Some(FarTrouble::Refused { cause, retry_after_ms }) => {
                sleep_ms(there_ms).await;
                Reply::none(topic, NoAnswer::Unavailable { cause, retry_after_ms })
            }
            Some(FarTrouble::Served(fault)) => self.round_trip(message, Some(fault), there_ms, back_ms).await,
            Some(FarTrouble::HeardLate { after_ms }) => {
                self.round_trip(message, None, there_ms, after_ms).await
            }
            Some(FarTrouble::Overcharged) => {
                self.round_trip(overcharged(site, message), None, there_ms, back_ms).await
            }
            Some(FarTrouble::Slow { more_ms }) => {
                self.round_trip(message, None, there_ms + more_ms / 2, back_ms + more_ms / 2).await
            }
        }
    }

    async fn round_trip(&self, message: Message, fault: Option<Fault>, there_ms: u64, back_ms: u64) -> Reply {
        sleep_ms(there_ms).await;
        let reply = deliver(&self.life.site, message, fault).await;
        sleep_ms(back_ms).await;
        reply
    }

    fn follows_not_found(&self, topic: Topic, subject: i64) -> bool {
        self.unheard_of().remove(&(topic, subject))
    }

    fn remember(&self, topic: Topic, subject: i64, reply: &Reply) {
        let next = match reply {
            Reply::Charge(answered) if answered.answer == ChargeAnswer::NotFound => Topic::Debit,
            Reply::Refund(answered)
                if topic == Topic::QueryRefund
                    && matches!(answered.answer, RefundAnswer::NotFound | RefundAnswer::Rejected(_)) =>
            {
                Topic::Refund
            }
            Reply::Charge(_) | Reply::Refund(_) | Reply::Execute(_) | Reply::Fact(_) => return,
        };
        self.unheard_of().insert((next, subject));
    }

    fn unheard_of(&self) -> MutexGuard<'_, BTreeSet<(Topic, i64)>> {
        self.unheard_of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a wallet makes of a debit when it takes another amount. If it takes any, the flow is never to be taken for paid.
fn overcharged(site: &Site, message: Message) -> Message {
    match message {
        Message::Debit(order) => {
            site.overcharged(message_flow(&order));
            let money = samples::money(order.money.amount() + 1, order.money.currency().as_str());
            Message::Debit(ChargeOrder { money, ..order })
        }
        Message::Query(_)
        | Message::Close(_)
        | Message::Refund(_)
        | Message::QueryRefund(_)
        | Message::Execute(_)
        | Message::Fact(_) => message,
    }
}

fn message_flow(order: &ChargeOrder) -> i64 {
    flow_of_number(order.trade_order_no.as_str())
}

/// A message arrives: the far side's books change, and the change is looked at.
async fn deliver(site: &Arc<Site>, message: Message, fault: Option<Fault>) -> Reply {
    site.time.sync();
    if let Some(Fault::Defer(Deferral::UntilMs(due_ms))) = &fault {
        settle_later(site, &message, *due_ms);
    }
    let reply = message.arrive(site, fault).await;
    site.look_at_books(&message);
    reply
}

/// The far side carries out what it put off, whether anybody asks again or not.
fn settle_later(site: &Arc<Site>, message: &Message, due_ms: i64) {
    let Some(number) = message.trade_order_no().map(str::to_owned) else { return };
    let is_business = message.about().0 == Topic::Execute;
    let books = if is_business { &site.business } else { &site.wallet };
    let wait_ms = u64::try_from(due_ms - books.clock().now_ms()).unwrap_or(0);
    let message = message.clone();
    site.later(wait_ms, move |site| async move {
        site.time.sync();
        let books = if is_business { &site.business } else { &site.wallet };
        books.with(|world, now_ms| world.settle(&number, now_ms));
        site.look_at_books(&message);
    });
}

#[async_trait]
impl Wallet for Far {
    async fn debit(&self, order: &ChargeOrder) -> Answered<ChargeAnswer> {
        self.ask(Message::Debit(order.clone())).await.charge()
    }

    async fn query(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer> {
        self.ask(Message::Query(trade_order_no.clone())).await.charge()
    }

    async fn close(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer> {
        self.ask(Message::Close(trade_order_no.clone())).await.charge()
    }

    async fn refund(&self, order: &RefundOrder) -> Answered<RefundAnswer> {
        self.ask(Message::Refund(order.clone())).await.refund()
    }

    async fn query_refund(&self, refund_order_no: &RefundOrderNo) -> Answered<RefundAnswer> {
        self.ask(Message::QueryRefund(refund_order_no.clone())).await.refund()
    }
}

#[async_trait]
impl Business for Far {
    async fn execute(&self, execution: &Execution) -> Answered<ExecuteAnswer> {
        self.ask(Message::Execute(execution.clone())).await.execute()
    }

    async fn fact(&self, target: &Target) -> Answered<FactAnswer> {
        self.ask(Message::Fact(target.clone())).await.fact()
    }
}

impl Reply {
    fn label(&self) -> &'static str {
        match self {
            Reply::Charge(answered) => answered.answer.label(),
            Reply::Refund(answered) => answered.answer.label(),
            Reply::Execute(answered) => answered.answer.label(),
            Reply::Fact(answered) => answered.answer.label(),
        }
    }
}
