//! The surface for tests and people: faults, mutants, balances, the ledger, and waiting for a call.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::contract;
use super::reply::{Reply, json};
use crate::callbacks::Plan;
use crate::faults::{Call, FaultSet, Rule};
use crate::ledger::{Anomaly, Command, OrderLedger, Switches, Totals, decimal_id};
use crate::signals::{Moment, Topic};
use crate::sim::Sim;

/// Orders read under one lock.
const PAGE_ORDERS: usize = 500;
/// Anomalies listed in a summary; all are counted.
const MAX_LISTED: usize = 1_000;
/// Longest wait, in milliseconds.
const MAX_WAIT_MS: u64 = 60_000;

type Input<T> = Result<Json<T>, JsonRejection>;
type Shared = State<Arc<Sim>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Balance {
    currency: String,
    amount: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    call: Call,
    trade_order_no: Option<String>,
    refund_order_no: Option<String>,
    user_id: Option<String>,
    scene: Option<String>,
    biz_key: Option<String>,
    #[serde(default)]
    at: Moment,
    count: Option<u32>,
    timeout_ms: Option<u64>,
}

#[derive(Default, Serialize)]
struct Summary {
    totals: Totals,
    anomaly_count: u64,
    anomalies: Vec<FoundAnomaly>,
    calls: std::collections::BTreeMap<&'static str, u32>,
}

#[derive(Serialize)]
struct FoundAnomaly {
    trade_order_no: String,
    anomalies: Vec<Anomaly>,
    charges: u32,
    refunds: u32,
    grants: u32,
}

pub(super) async fn healthz() -> Response {
    json(StatusCode::OK, &json!({"status": "ok"}))
}

pub(super) async fn add_fault(State(sim): Shared, rule: Input<Rule>) -> Response {
    let Json(rule) = match rule {
        Ok(rule) => rule,
        Err(rejection) => return Reply::invalid(rejection.body_text()).into_response(),
    };
    if let Err(bad) = FaultSet::check(&rule) {
        return Reply::error(StatusCode::UNPROCESSABLE_ENTITY, "BAD_RULE", bad).into_response();
    }
    match sim.add_fault(rule) {
        Ok(id) => json(StatusCode::CREATED, &json!({"id": id})),
        Err(full) => Reply::error(StatusCode::UNPROCESSABLE_ENTITY, "TOO_MANY_RULES", full).into_response(),
    }
}

pub(super) async fn list_faults(State(sim): Shared) -> Response {
    json(StatusCode::OK, &json!({"faults": sim.fault_report()}))
}

pub(super) async fn clear_faults(State(sim): Shared) -> StatusCode {
    sim.clear_faults();
    StatusCode::NO_CONTENT
}

pub(super) async fn remove_fault(State(sim): Shared, id: Result<Path<u64>, PathRejection>) -> Response {
    match id {
        Ok(Path(id)) if sim.remove_fault(id) => StatusCode::NO_CONTENT.into_response(),
        Ok(_) | Err(_) => {
            Reply::error(StatusCode::NOT_FOUND, "FAULT_NOT_FOUND", "there is no fault rule of this id")
                .into_response()
        }
    }
}

/// Switches not named are turned off.
pub(super) async fn set_mutants(State(sim): Shared, switches: Input<Switches>) -> Response {
    match switches {
        Ok(Json(switches)) => command(&sim, &Command::SetSwitches(switches)).await,
        Err(rejection) => Reply::invalid(rejection.body_text()).into_response(),
    }
}

pub(super) async fn get_mutants(State(sim): Shared) -> Response {
    json(StatusCode::OK, &sim.read(|world| world.switches().clone()))
}

pub(super) async fn set_callbacks(State(sim): Shared, plan: Input<Plan>) -> Response {
    let plan = match plan {
        Ok(Json(plan)) => plan,
        Err(rejection) => return Reply::invalid(rejection.body_text()).into_response(),
    };
    match sim.callbacks.set(plan) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(bad) => Reply::error(StatusCode::UNPROCESSABLE_ENTITY, "BAD_PLAN", bad).into_response(),
    }
}

pub(super) async fn get_callbacks(State(sim): Shared) -> Response {
    json(StatusCode::OK, &json!({ "plan": sim.callbacks.plan(), "counts": sim.callbacks.counts() }))
}

pub(super) async fn clear_callbacks(State(sim): Shared) -> StatusCode {
    sim.callbacks.clear();
    StatusCode::NO_CONTENT
}

pub(super) async fn set_balance(
    State(sim): Shared,
    Path(user_id): Path<String>,
    body: Input<Balance>,
) -> Response {
    let Some(user_id) = decimal_id::parse(&user_id) else {
        return Reply::invalid("user_id must be a decimal number").into_response();
    };
    match body {
        Ok(Json(Balance { currency, amount })) if amount >= 0 => {
            command(&sim, &Command::SetBalance { user_id, currency, amount }).await
        }
        Ok(_) => Reply::invalid("amount must not be negative").into_response(),
        Err(rejection) => Reply::invalid(rejection.body_text()).into_response(),
    }
}

pub(super) async fn order_ledger(State(sim): Shared, Path(trade_order_no): Path<String>) -> Response {
    json(StatusCode::OK, &sim.read(|world| world.ledger(&trade_order_no)))
}

pub(super) async fn target_ledger(State(sim): Shared, RawQuery(query): RawQuery) -> Response {
    match contract::target(query.as_deref()) {
        Ok(target) => json(StatusCode::OK, &sim.read(|world| world.target_ledger(&target))),
        Err(bad) => bad.into_response(),
    }
}

/// Page by page: exact once the world is quiet.
pub(super) async fn summary(State(sim): Shared) -> Response {
    let mut summary = Summary { calls: sim.call_totals(), ..Summary::default() };
    let mut after: Option<String> = None;
    loop {
        let page = sim.read(|world| world.ledgers_after(after.as_deref(), PAGE_ORDERS));
        let Some(last) = page.last() else { return json(StatusCode::OK, &summary) };
        after = Some(last.trade_order_no.clone());
        for order in page {
            summary.add(order);
        }
        tokio::task::yield_now().await;
    }
}

/// Every order as a line of JSON, in byte order of their numbers.
pub(super) async fn dump(State(sim): Shared) -> Response {
    let mut response = Response::new(Body::new(Dump { sim, after: None }));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}

pub(super) async fn reset(State(sim): Shared) -> Response {
    match sim.reset() {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => Reply::journal_failed(&error).into_response(),
    }
}

/// 200 once the count is reached, 408 when it is not in time.
pub(super) async fn wait(State(sim): Shared, wait: Result<Query<Wait>, QueryRejection>) -> Response {
    let wait = match wait {
        Ok(Query(wait)) => wait,
        Err(rejection) => return Reply::invalid(rejection.body_text()).into_response(),
    };
    let Some(topic) = wait.topic() else {
        return Reply::invalid(
            "name at most one of trade_order_no, refund_order_no, or user_id with scene and biz_key",
        )
        .into_response();
    };
    let limit = Duration::from_millis(wait.timeout_ms.unwrap_or(10_000).min(MAX_WAIT_MS));
    let reach = sim.signals.reach(wait.at, wait.call, &topic, wait.count.unwrap_or(1));
    match tokio::time::timeout(limit, reach).await {
        Ok(count) => json(StatusCode::OK, &json!({"count": count})),
        Err(_) => {
            let message = format!("only {} so far", sim.signals.seen(wait.at, wait.call, &topic));
            Reply::error(StatusCode::REQUEST_TIMEOUT, "WAIT_TIMEOUT", message).into_response()
        }
    }
}

async fn command(sim: &Sim, command: &Command) -> Response {
    match sim.command(command).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => Reply::journal_failed(&error).into_response(),
    }
}

impl Wait {
    fn topic(&self) -> Option<Topic> {
        let order = self.trade_order_no.clone().map(Topic::Order);
        let refund = self.refund_order_no.clone().map(Topic::Refund);
        let target = match (&self.user_id, &self.scene, &self.biz_key) {
            (None, None, None) => None,
            (Some(user_id), Some(scene), Some(biz_key)) => {
                let user_id = decimal_id::parse(user_id)?;
                let (scene, biz_key) = (scene.clone(), biz_key.clone());
                Some(Topic::Target(crate::ledger::Target { user_id, scene, biz_key }))
            }
            (Some(_) | None, _, _) => return None,
        };
        let mut topics = [order, refund, target].into_iter().flatten();
        let topic = topics.next().unwrap_or(Topic::Any);
        topics.next().is_none().then_some(topic)
    }
}

impl Summary {
    fn add(&mut self, order: OrderLedger) {
        self.totals.add(&order);
        let anomalies = order.anomalies();
        if anomalies.is_empty() {
            return;
        }
        self.anomaly_count += 1;
        if self.anomalies.len() < MAX_LISTED {
            let OrderLedger { trade_order_no, charges, refunds, grants, .. } = order;
            self.anomalies.push(FoundAnomaly { trade_order_no, anomalies, charges, refunds, grants });
        }
    }
}

/// The ledger as a body that is made page by page, as fast as the reader takes it.
struct Dump {
    sim: Arc<Sim>,
    after: Option<String>,
}

impl hyper::body::Body for Dump {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let page = self.sim.read(|world| world.ledgers_after(self.after.as_deref(), PAGE_ORDERS));
        let Some(last) = page.last() else { return Poll::Ready(None) };
        let last_no = last.trade_order_no.clone();
        let mut lines = Vec::new();
        for order in &page {
            serde_json::to_writer(&mut lines, order).expect("writing our own types to memory can not fail");
            lines.push(b'\n');
        }
        self.after = Some(last_no);
        Poll::Ready(Some(Ok(Frame::data(lines.into()))))
    }
}
