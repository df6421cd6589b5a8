//! Reading a JSON body: bounded in size, in UTF-8, JSON to its end, a single object.

use std::error::Error as StdError;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use pay_runtime::http::BodyError;

use crate::json::{Fields, Value};
use crate::problem::{Code, Problem};

/// Reads a body as one JSON object.
///
/// # Errors
/// 415, 413, 408, 400.
pub(crate) async fn read_json(headers: &HeaderMap, body: Body, max_bytes: usize) -> Result<Fields, Problem> {
    if !is_json(headers) {
        return Err(Problem::new(
            Code::UnsupportedMediaType,
            "send the body as `Content-Type: application/json`",
        )
        .at("Content-Type"));
    }
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > max_bytes as u64) {
        return Err(too_large(max_bytes));
    }
    let bytes =
        Limited::new(body, max_bytes).collect().await.map_err(|error| unread(&*error, max_bytes))?.to_bytes();
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        Problem::new(
            Code::MalformedJson,
            format!("the body is not UTF-8 from byte {} on", error.valid_up_to()),
        )
    })?;
    let value: Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => Problem::new(Code::MalformedJson, "the JSON ends too early"),
        serde_json::error::Category::Io
        | serde_json::error::Category::Syntax
        | serde_json::error::Category::Data => Problem::new(
            Code::MalformedJson,
            format!("the body is not JSON: line {}, column {}", error.line(), error.column()),
        ),
    })?;
    Fields::of(value, String::new())
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
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
