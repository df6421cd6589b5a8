//! Taking in a body, within bounds of size and time. What it says is read elsewhere.

use std::error::Error as StdError;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use pay_runtime::http::BodyError;

use super::headers::only;
use crate::problem::{Code, Problem};

/// The whole of a JSON body, unread.
///
/// # Errors
/// 415, 413, 408, 400.
pub(crate) async fn take_json(headers: &HeaderMap, body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
    if !is_json(headers) {
        return Err(Problem::new(
            Code::UnsupportedMediaType,
            "send the body as `Content-Type: application/json`",
        )
        .at("Content-Type"));
    }
    take_bytes(headers, body, max_bytes).await
}

/// The whole of a body, of whatever kind, byte for byte.
///
/// # Errors
/// 413, 408, 400.
pub(crate) async fn take_bytes(headers: &HeaderMap, body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > max_bytes as u64) {
        return Err(too_large(max_bytes));
    }
    let whole = Limited::new(body, max_bytes).collect().await;
    whole.map(|body| body.to_bytes()).map_err(|error| unread(&*error, max_bytes))
}

fn is_json(headers: &HeaderMap) -> bool {
    let Ok(Some(value)) = only(headers, &header::CONTENT_TYPE) else { return false };
    let Ok(value) = value.to_str() else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn too_large(max_bytes: usize) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
        format!("the body is larger than {max_bytes} bytes; nothing was recorded"),
    )
}

fn unread(error: &(dyn StdError + 'static), max_bytes: usize) -> Problem {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return too_large(max_bytes);
        }
        if let Some(BodyError::TimedOut { limit_ms }) = error.downcast_ref() {
            return Problem::new(
                Code::RequestTimeout,
                format!("the body did not arrive within {limit_ms} ms; nothing was recorded; send it again"),
            );
        }
        cause = error.source();
    }
    Problem::new(Code::BodyUnreadable, "the body ended early; nothing was recorded; send it again")
}
