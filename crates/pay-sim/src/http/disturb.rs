//! Carries a call out, with whatever fault strikes it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};

use super::reply::{DebitBody, FactBody, MoneyDetail, Reply, ReplyBody, raw_json};
use crate::callbacks::Event;
use crate::faults::{Contradiction, Fault, Stage, UnavailableMode};
use crate::ledger::{Course, DebitStatus, Deferral, FactStatus, RefundStatus};
use crate::request::Request;
use crate::signals::Moment;
use crate::sim::{Sim, now_ms};

/// Marks a response that must never be sent: the connection is closed instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Severed;

/// A document that breaks off.
const TRUNCATED_BODY: &str = r#"{"trade_order_no":"h2r_","status":"SUCC"#;

/// Answers one call of the contracts.
pub(super) async fn serve(sim: Arc<Sim>, request: Request) -> Response {
    let struck = sim.strike(&request);
    if struck.is_none() && sim.latency().is_zero() {
        let reply = deliver(&sim, &request, &Course::Normal, &[Moment::Arrived, Moment::Applied]).await;
        return reply.into_response();
    }
    // A task of its own: a caller that gives up during a delay must not keep the call from the world.
    match tokio::spawn(disturbed(sim, request, struck)).await {
        Ok(response) => response,
        Err(join) => std::panic::resume_unwind(join.into_panic()),
    }
}

async fn disturbed(sim: Arc<Sim>, request: Request, struck: Option<(Fault, Stage)>) -> Response {
    sim.signals.count(&[Moment::Arrived], request.call(), request.topics());
    tokio::time::sleep(sim.latency()).await;
    let Some((fault, stage)) = struck else {
        return apply(&sim, &request, &Course::Normal).await.into_response();
    };
    match fault {
        Fault::Drop => spoiled(&sim, &request, stage, severed()).await,
        Fault::Status { status, retry_after_s, not_executed } => {
            spoiled(&sim, &request, stage, failure(status, retry_after_s, not_executed)).await
        }
        Fault::Garbage { body } => {
            let body = body.map_or_else(|| Body::from(TRUNCATED_BODY), Body::from);
            spoiled(&sim, &request, stage, raw_json(StatusCode::OK, body)).await
        }
        Fault::Unavailable { mode: UnavailableMode::Status503, not_executed } => {
            failure(503, Some(1), not_executed)
        }
        Fault::Unavailable { mode: UnavailableMode::Refused, .. } => severed(),
        Fault::Delay { ms } => delayed(&sim, &request, stage, ms).await.into_response(),
        Fault::Processing { after_ms } => processing(&sim, &request, after_ms).await.into_response(),
        Fault::Refuse { code } => apply(&sim, &request, &Course::Refuse { code }).await.into_response(),
        Fault::Duplicate { second_after_ms: 0 } => {
            let first = apply(&sim, &request, &Course::Normal).await;
            apply(&sim, &request, &Course::Normal).await;
            first.into_response()
        }
        Fault::Duplicate { second_after_ms } => {
            let first = apply(&sim, &request, &Course::Normal).await;
            apply_later(sim, request, second_after_ms);
            first.into_response()
        }
        Fault::Late { after_ms } => {
            apply_later(sim, request, after_ms);
            severed()
        }
        Fault::WrongAmount | Fault::WrongUser | Fault::WrongCurrency | Fault::Contradict { .. } => {
            let mut reply = apply(&sim, &request, &Course::Normal).await;
            falsify(&mut reply.body, &fault);
            reply.into_response()
        }
    }
}

/// Delivers to the world, and counts it.
async fn deliver(sim: &Sim, request: &Request, course: &Course, moments: &[Moment]) -> Reply {
    match sim.deliver(request, course).await {
        Ok(answer) => {
            if let Some(event) = Event::of(&answer) {
                sim.callbacks.tell(event).await;
            }
            sim.signals.count(moments, request.call(), request.topics());
            answer.into()
        }
        Err(error) => Reply::journal_failed(&error),
    }
}

async fn apply(sim: &Sim, request: &Request, course: &Course) -> Reply {
    deliver(sim, request, course, &[Moment::Applied]).await
}

/// Delivers after a while, with nobody to answer to. A reset in between loses it.
fn apply_later(sim: Arc<Sim>, request: Request, after_ms: u64) {
    let epoch = sim.epoch();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        if sim.epoch() == epoch {
            apply(&sim, &request, &Course::Normal).await;
        }
    });
}

/// The fault's own response instead of the world's, on either side of the commit.
async fn spoiled(sim: &Sim, request: &Request, stage: Stage, response: Response) -> Response {
    match stage {
        Stage::Before => {}
        Stage::After => drop(apply(sim, request, &Course::Normal).await),
    }
    response
}

async fn delayed(sim: &Sim, request: &Request, stage: Stage, ms: u64) -> Reply {
    let wait = tokio::time::sleep(Duration::from_millis(ms));
    match stage {
        Stage::Before => {
            wait.await;
            apply(sim, request, &Course::Normal).await
        }
        Stage::After => {
            let reply = apply(sim, request, &Course::Normal).await;
            wait.await;
            reply
        }
    }
}

async fn processing(sim: &Arc<Sim>, request: &Request, after_ms: Option<u64>) -> Reply {
    let deferral = match after_ms {
        Some(ms) => Deferral::UntilMs(now_ms().saturating_add_unsigned(ms)),
        None => Deferral::NextQuery,
    };
    match request {
        Request::Debit(_) | Request::Refund(_) | Request::Execute(_) => {
            let reply = apply(sim, request, &Course::Defer(deferral.clone())).await;
            if let (Deferral::UntilMs(due_ms), Some(no)) = (deferral, request.trade_order_no()) {
                sim.settle_at(no.to_owned(), due_ms);
            }
            reply
        }
        Request::Query { .. } | Request::QueryRefund { .. } | Request::Fact(_) => {
            let mut reply = apply(sim, request, &Course::Normal).await;
            claim_processing(&mut reply.body);
            reply
        }
        Request::Close { trade_order_no } => {
            let unknown = || {
                let (trade_order_no, status) = (trade_order_no.clone(), DebitStatus::Processing);
                Reply::ok(ReplyBody::Debit(DebitBody {
                    trade_order_no,
                    status,
                    detail: MoneyDetail::default(),
                }))
            };
            let view = sim.read(|world| world.debit_view(trade_order_no));
            let mut reply = view.map_or_else(unknown, Reply::debit);
            claim_processing(&mut reply.body);
            reply
        }
    }
}

fn claim_processing(body: &mut ReplyBody) {
    let detail = match body {
        ReplyBody::Debit(debit) => {
            debit.status = DebitStatus::Processing;
            &mut debit.detail
        }
        ReplyBody::Refund(refund) => {
            refund.status = RefundStatus::Processing;
            &mut refund.detail
        }
        ReplyBody::Execution(_) | ReplyBody::Fact(_) | ReplyBody::Error(_) => return,
    };
    detail.transaction_id = None;
    detail.failure_code = None;
    detail.finished_at = None;
}

/// Changes the one member the fault is about, where the body has it.
fn falsify(body: &mut ReplyBody, fault: &Fault) {
    let detail = match body {
        ReplyBody::Debit(debit) => &mut debit.detail,
        ReplyBody::Refund(refund) => &mut refund.detail,
        ReplyBody::Fact(fact) => {
            if let Fault::Contradict { shape } = fault {
                contradict(fact, *shape);
            }
            return;
        }
        ReplyBody::Execution(_) | ReplyBody::Error(_) => return,
    };
    match fault {
        Fault::WrongAmount => {
            if let Some(money) = &mut detail.money {
                money.amount = money.amount.wrapping_add(1);
            }
        }
        Fault::WrongCurrency => {
            if let Some(money) = &mut detail.money {
                money.currency = if money.currency == "XXX" { "XTS" } else { "XXX" }.to_owned();
            }
        }
        Fault::WrongUser => {
            let other = if detail.user_id.as_deref() == Some("1") { "2" } else { "1" };
            detail.user_id = detail.user_id.is_some().then(|| other.to_owned());
        }
        Fault::Drop | Fault::Delay { .. } | Fault::Status { .. } | Fault::Garbage { .. } => {}
        Fault::Processing { .. } | Fault::Refuse { .. } | Fault::Unavailable { .. } => {}
        Fault::Duplicate { .. } | Fault::Late { .. } | Fault::Contradict { .. } => {}
    }
}

fn contradict(fact: &mut FactBody, shape: Contradiction) {
    match shape {
        Contradiction::DoneWithoutOwner => {
            fact.status = FactStatus::Done;
            fact.owner_order_no = None;
        }
        Contradiction::NotDoneWithOwner => {
            fact.status = FactStatus::NotDone;
            fact.owner_order_no.get_or_insert_with(|| "order_of_nobody".to_owned());
        }
    }
}

/// `not_executed` is the promise that nothing was committed: [`crate::faults::Rule::check`] lets it pass only where that is true.
fn failure(status: u16, retry_after_s: Option<u32>, not_executed: bool) -> Response {
    let status =
        StatusCode::from_u16(status).expect("rules with other statuses than 429 and 5xx are refused");
    let code = match status {
        StatusCode::TOO_MANY_REQUESTS => "THROTTLED",
        StatusCode::SERVICE_UNAVAILABLE if not_executed => "NOT_EXECUTED",
        StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    let mut reply = Reply::error(status, code, "a scripted fault");
    let throttled = status == StatusCode::TOO_MANY_REQUESTS;
    reply.retry_after_s = retry_after_s.or(throttled.then_some(1));
    reply.into_response()
}

fn severed() -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(Severed);
    response
}
