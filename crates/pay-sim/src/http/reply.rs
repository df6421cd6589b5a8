//! Answers as the contracts spell them, still typed, so that a fault can spoil a single member.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;

use crate::journal::JournalError;
use crate::ledger::{
    CloseRefusal, DebitRefusal, DebitStatus, DebitView, ExecuteRefusal, ExecutionView, FactStatus, FactView,
    Money, RefundRefusal, RefundStatus, RefundView, Target,
};
use crate::request::Answer;

/// A status and a body of one of the contracts.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: ReplyBody,
    pub(super) retry_after_s: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ReplyBody {
    Debit(DebitBody),
    Refund(RefundBody),
    Execution(ExecutionBody),
    Fact(FactBody),
    Error(ErrorBody),
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct DebitBody {
    pub(super) trade_order_no: String,
    pub(super) status: DebitStatus,
    #[serde(flatten)]
    pub(super) detail: MoneyDetail,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RefundBody {
    pub(super) refund_order_no: String,
    pub(super) trade_order_no: String,
    pub(super) status: RefundStatus,
    #[serde(flatten)]
    pub(super) detail: MoneyDetail,
}

/// What debit and refund answers have in common.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct MoneyDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) money: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transaction_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finished_at: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ExecutionBody {
    status: FactStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_order_no: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal_code: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct FactBody {
    /// Whoever asked must be able to tell that the answer is theirs.
    #[serde(flatten)]
    target: Target,
    pub(super) status: FactStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner_order_no: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finished_at: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ErrorBody {
    pub(super) code: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner_order_no: Option<String>,
}

impl Reply {
    pub(super) fn ok(body: ReplyBody) -> Self {
        Self { status: StatusCode::OK, body, retry_after_s: None }
    }

    pub(super) fn error(status: StatusCode, code: &'static str, message: impl std::fmt::Display) -> Self {
        let body = ErrorBody { code, message: message.to_string(), owner_order_no: None };
        Self { status, body: ReplyBody::Error(body), retry_after_s: None }
    }

    /// 400: nothing was recorded.
    pub(super) fn invalid(message: impl std::fmt::Display) -> Self {
        Self::error(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
    }

    /// 500: the caller must take the outcome for unknown.
    pub(super) fn journal_failed(error: &JournalError) -> Self {
        tracing::error!(%error, "journal failed");
        Self::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "INTERNAL",
            "the call could not be recorded; query its outcome",
        )
    }

    pub(super) fn debit(view: DebitView) -> Self {
        Self::ok(ReplyBody::Debit(DebitBody {
            trade_order_no: view.trade_order_no,
            status: view.status,
            detail: MoneyDetail {
                user_id: view.user_id.map(|id| id.to_string()),
                money: view.money,
                transaction_id: view.transaction_id,
                failure_code: view.failure_code,
                finished_at: view.finished_at_ms.and_then(rfc3339_ms),
            },
        }))
    }

    fn refund(view: RefundView) -> Self {
        Self::ok(ReplyBody::Refund(RefundBody {
            refund_order_no: view.refund_order_no,
            trade_order_no: view.trade_order_no,
            status: view.status,
            detail: MoneyDetail {
                user_id: Some(view.user_id.to_string()),
                money: Some(view.money),
                transaction_id: view.transaction_id,
                failure_code: view.failure_code,
                finished_at: view.finished_at_ms.and_then(rfc3339_ms),
            },
        }))
    }

    fn execution(view: ExecutionView) -> Self {
        Self::ok(ReplyBody::Execution(ExecutionBody {
            status: view.status,
            owner_order_no: view.owner_order_no,
            refusal_code: view.refusal_code,
        }))
    }

    fn fact(target: Target, view: FactView) -> Self {
        Self::ok(ReplyBody::Fact(FactBody {
            target,
            status: view.status,
            owner_order_no: view.owner_order_no,
            finished_at: view.finished_at_ms.and_then(rfc3339_ms),
        }))
    }

    fn not_found(code: &'static str) -> Self {
        Self::error(StatusCode::NOT_FOUND, code, "nothing was ever accepted under this number")
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Debit(Ok(view)) | Answer::Query(Some(view)) | Answer::Close(Ok(view)) => {
                Self::debit(view)
            }
            Answer::Debit(Err(refusal)) => refusal.into(),
            Answer::Query(None) => Self::not_found("ORDER_NOT_FOUND"),
            Answer::Close(Err(refusal)) => refusal.into(),
            Answer::Refund(Ok(view)) | Answer::QueryRefund(Some(view)) => Self::refund(view),
            Answer::Refund(Err(refusal)) => refusal.into(),
            Answer::QueryRefund(None) => Self::not_found("REFUND_NOT_FOUND"),
            Answer::Execute(Ok(view)) => Self::execution(view),
            Answer::Execute(Err(refusal)) => refusal.into(),
            Answer::Fact { target, view } => Self::fact(target, view),
        }
    }
}

impl From<DebitRefusal> for Reply {
    fn from(refusal: DebitRefusal) -> Self {
        let (status, code) = match refusal {
            DebitRefusal::OrderConflict => (StatusCode::CONFLICT, "ORDER_CONFLICT"),
            DebitRefusal::InvalidAmount => (StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
        };
        Self::error(status, code, refusal)
    }
}

impl From<CloseRefusal> for Reply {
    fn from(refusal: CloseRefusal) -> Self {
        let (status, code) = match refusal {
            CloseRefusal::Unsupported => (StatusCode::NOT_IMPLEMENTED, "CLOSE_UNSUPPORTED"),
        };
        Self::error(status, code, refusal)
    }
}

impl From<RefundRefusal> for Reply {
    fn from(refusal: RefundRefusal) -> Self {
        let (status, code) = match refusal {
            RefundRefusal::RefundConflict => (StatusCode::CONFLICT, "REFUND_CONFLICT"),
            RefundRefusal::OrderNotCharged => (StatusCode::UNPROCESSABLE_ENTITY, "ORDER_NOT_CHARGED"),
            RefundRefusal::RefundExceedsCharge => (StatusCode::UNPROCESSABLE_ENTITY, "REFUND_EXCEEDS_CHARGE"),
            RefundRefusal::InvalidAmount => (StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
        };
        Self::error(status, code, refusal)
    }
}

impl From<ExecuteRefusal> for Reply {
    fn from(refusal: ExecuteRefusal) -> Self {
        let message = refusal.to_string();
        let (code, owner_order_no) = match refusal {
            ExecuteRefusal::DeadlinePassed => ("DEADLINE_PASSED", None),
            ExecuteRefusal::OwnedByOther { owner_order_no } => ("OWNED_BY_OTHER", Some(owner_order_no)),
            ExecuteRefusal::ExecutionConflict => ("EXECUTION_CONFLICT", None),
        };
        let body = ReplyBody::Error(ErrorBody { code, message, owner_order_no });
        Self { status: StatusCode::CONFLICT, body, retry_after_s: None }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = json(self.status, &self.body);
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A JSON response.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).expect("our own bodies have string keys and no failing serializers");
    raw_json(status, bytes)
}

/// A response that claims to be JSON.
pub(super) fn raw_json(status: StatusCode, bytes: impl Into<Body>) -> Response {
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn rfc3339_ms(at_ms: i64) -> Option<String> {
    DateTime::from_timestamp_millis(at_ms).map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true))
}
