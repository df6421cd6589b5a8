//! The seven calls of the two contracts: parse, bound, hand over.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use chrono::DateTime;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::disturb;
use super::reply::Reply;
use crate::ledger::{Debit, Execution, Money, Refund, Target, decimal_id};
use crate::request::Request;
use crate::sim::Sim;

/// Longest order number, in bytes.
const MAX_NUMBER_BYTES: usize = 64;
/// Longest scene, business key, currency or reason, in bytes.
const MAX_TEXT_BYTES: usize = 255;

type RawBody = Result<Bytes, BytesRejection>;

#[derive(Deserialize)]
struct DebitRequest {
    trade_order_no: String,
    #[serde(with = "decimal_id")]
    user_id: u64,
    money: Money,
    not_after: Option<String>,
}

#[derive(Deserialize)]
struct RefundRequest {
    refund_order_no: String,
    trade_order_no: String,
    #[serde(with = "decimal_id")]
    user_id: u64,
    money: Money,
    reason: String,
}

#[derive(Deserialize)]
struct ExecutionRequest {
    trade_order_no: String,
    #[serde(flatten)]
    target: Target,
    not_after: String,
    /// Opaque to the simulator, but it must be a string.
    #[serde(rename = "context")]
    _context: Option<String>,
}

pub(super) async fn debit(State(sim): State<Arc<Sim>>, body: RawBody) -> Response {
    let parsed = parse::<DebitRequest>(body).and_then(|request| {
        number("trade_order_no", &request.trade_order_no)?;
        money(&request.money)?;
        let not_after_ms = request.not_after.as_deref().map(time_ms).transpose()?;
        let DebitRequest { trade_order_no, user_id, money, not_after: _ } = request;
        Ok(Request::Debit(Debit { trade_order_no, user_id, money, not_after_ms }))
    });
    answer(sim, parsed).await
}

pub(super) async fn query(State(sim): State<Arc<Sim>>, Path(trade_order_no): Path<String>) -> Response {
    let checked = number("trade_order_no", &trade_order_no);
    answer(sim, checked.map(|()| Request::Query { trade_order_no })).await
}

pub(super) async fn close(State(sim): State<Arc<Sim>>, Path(trade_order_no): Path<String>) -> Response {
    let checked = number("trade_order_no", &trade_order_no);
    answer(sim, checked.map(|()| Request::Close { trade_order_no })).await
}

pub(super) async fn refund(State(sim): State<Arc<Sim>>, body: RawBody) -> Response {
    let parsed = parse::<RefundRequest>(body).and_then(|request| {
        number("refund_order_no", &request.refund_order_no)?;
        number("trade_order_no", &request.trade_order_no)?;
        money(&request.money)?;
        text("reason", &request.reason)?;
        let RefundRequest { refund_order_no, trade_order_no, user_id, money, reason: _ } = request;
        Ok(Request::Refund(Refund { refund_order_no, trade_order_no, user_id, money }))
    });
    answer(sim, parsed).await
}

pub(super) async fn query_refund(
    State(sim): State<Arc<Sim>>,
    Path(refund_order_no): Path<String>,
) -> Response {
    let checked = number("refund_order_no", &refund_order_no);
    answer(sim, checked.map(|()| Request::QueryRefund { refund_order_no })).await
}

pub(super) async fn execute(State(sim): State<Arc<Sim>>, body: RawBody) -> Response {
    let parsed = parse::<ExecutionRequest>(body).and_then(|request| {
        number("trade_order_no", &request.trade_order_no)?;
        check_target(&request.target)?;
        let not_after_ms = time_ms(&request.not_after)?;
        let ExecutionRequest { trade_order_no, target, not_after: _, _context: _ } = request;
        Ok(Request::Execute(Execution { trade_order_no, target, not_after_ms }))
    });
    answer(sim, parsed).await
}

pub(super) async fn fact(State(sim): State<Arc<Sim>>, RawQuery(query): RawQuery) -> Response {
    answer(sim, target(query.as_deref()).map(Request::Fact)).await
}

/// The target a query string names.
pub(super) fn target(query: Option<&str>) -> Result<Target, BadInput> {
    let uri: Uri = format!("/?{}", query.unwrap_or_default()).parse().map_err(|_| BadInput::QueryString)?;
    let Query(target) = Query::<Target>::try_from_uri(&uri).map_err(BadInput::Query)?;
    check_target(&target)?;
    Ok(target)
}

async fn answer(sim: Arc<Sim>, request: Result<Request, BadInput>) -> Response {
    match request {
        Ok(request) => disturb::serve(sim, request).await,
        Err(bad) => bad.into_response(),
    }
}

fn parse<T: DeserializeOwned>(body: RawBody) -> Result<T, BadInput> {
    serde_json::from_slice(&body.map_err(BadInput::Body)?).map_err(BadInput::Json)
}

fn number(name: &'static str, value: &str) -> Result<(), BadInput> {
    let fits = (1..=MAX_NUMBER_BYTES).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(()) } else { Err(BadInput::Number(name)) }
}

fn text(name: &'static str, value: &str) -> Result<(), BadInput> {
    if (1..=MAX_TEXT_BYTES).contains(&value.len()) { Ok(()) } else { Err(BadInput::Text(name)) }
}

fn money(money: &Money) -> Result<(), BadInput> {
    text("money.currency", &money.currency)?;
    if money.amount > 0 { Ok(()) } else { Err(BadInput::Amount) }
}

fn check_target(target: &Target) -> Result<(), BadInput> {
    text("scene", &target.scene)?;
    text("biz_key", &target.biz_key)
}

fn time_ms(value: &str) -> Result<i64, BadInput> {
    let at = DateTime::parse_from_rfc3339(value).map_err(BadInput::Time)?;
    Ok(at.timestamp_millis())
}

/// A request that never got as far as the world: nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadInput {
    #[error("the body could not be read: {0}")]
    Body(BytesRejection),
    #[error("the body is not what the contract asks for: {0}")]
    Json(serde_json::Error),
    #[error("the query string is no query string")]
    QueryString,
    #[error("the query string is not what the contract asks for: {0}")]
    Query(QueryRejection),
    #[error("{0} must be 1 to {MAX_NUMBER_BYTES} visible ASCII characters")]
    Number(&'static str),
    #[error("{0} must be 1 to {MAX_TEXT_BYTES} bytes")]
    Text(&'static str),
    #[error("money.amount must be positive")]
    Amount,
    #[error("not_after must be an RFC 3339 time: {0}")]
    Time(chrono::ParseError),
}

impl IntoResponse for BadInput {
    fn into_response(self) -> Response {
        let (status, code) = match &self {
            Self::Body(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                (StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE")
            }
            Self::Body(_) | Self::Json(_) | Self::QueryString | Self::Query(_) | Self::Number(_) => {
                (StatusCode::BAD_REQUEST, "INVALID_REQUEST")
            }
            Self::Text(_) | Self::Amount | Self::Time(_) => (StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
        };
        Reply::error(status, code, self).into_response()
    }
}
