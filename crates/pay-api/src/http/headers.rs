//! `Idempotency-Key`, `Prefer`, and headers that may be given once.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use flow_core::ids::IdempotencyKey;

use crate::problem::{Code, Problem};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// A header was given more than once, and which one counts would depend on who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenTwice;

/// A header that may be given once, if it is there.
pub(crate) fn only<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, GivenTwice> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(GivenTwice),
    }
}

/// The request's key: 1 to 255 visible ASCII characters, bare or as a quoted string (RFC 8941). Both spellings are
/// the same key.
///
/// # Errors
/// 400: missing, given twice, or not of its form.
pub fn idempotency_key(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
    let invalid = |detail: String| Problem::new(Code::IdempotencyKeyInvalid, detail).at("Idempotency-Key");
    let given = only(headers, &IDEMPOTENCY_KEY)
        .map_err(|GivenTwice| invalid("Idempotency-Key was given more than once".to_owned()))?;
    let Some(value) = given else {
        return Err(Problem::new(
            Code::IdempotencyKeyMissing,
            "send an Idempotency-Key: a fresh one for every payment, the same one for every repetition of it",
        )
        .at("Idempotency-Key"));
    };
    let text = value
        .to_str()
        .map_err(|_| invalid("Idempotency-Key has characters other than visible ASCII".to_owned()))?
        .trim();
    let key = if text.starts_with('"') {
        unquote(text)
            .ok_or_else(|| invalid("Idempotency-Key begins a quoted string and does not end it".to_owned()))?
    } else {
        text.to_owned()
    };
    IdempotencyKey::new(key).map_err(|error| invalid(error.to_string()))
}

/// The text inside a quoted string; `None` if it is not one. `\"` and `\\` are its only escapes.
fn unquote(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"').filter(|_| text.len() >= 2)?;
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => match chars.next()? {
                escaped @ ('"' | '\\') => plain.push(escaped),
                _ => return None,
            },
            _ => plain.push(c),
        }
    }
    Some(plain)
}

/// The wait that `Prefer: wait=N` asks for, in milliseconds. A preference that cannot be read is ignored, as RFC 7240
/// wants it.
pub fn preferred_wait_ms(headers: &HeaderMap) -> Option<u64> {
    headers
        .get_all(&PREFER)
        .iter()
        // By the byte: an unreadable preference must not take its readable neighbours with it.
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|preference| std::str::from_utf8(preference).ok())
        .filter_map(|preference| preference.split(';').next()?.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
        .and_then(|(_, seconds)| seconds.trim().trim_matches('"').parse::<u64>().ok())
        .map(|seconds| seconds.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for value in values {
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    #[test]
    fn keys_quoted_and_bare_are_the_same() {
        let longest = "k".repeat(255);
        let quoted_longest = format!("\"{longest}\"");
        for (given, key) in [
            ("abc", "abc"),
            ("\"abc\"", "abc"),
            ("  abc ", "abc"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#"a"b\c"#, r#"a"b\c"#),
            ("'; DROP_TABLE--", ""),
            (&longest, &longest),
            (&quoted_longest, &longest),
        ] {
            let read = idempotency_key(&headers("idempotency-key", &[given]));
            if key.is_empty() {
                assert_eq!(
                    read.unwrap_err().code(),
                    Code::IdempotencyKeyInvalid,
                    "{given}: a space is not visible"
                );
            } else {
                assert_eq!(read.unwrap().as_str(), key, "{given}");
            }
        }
    }

    #[test]
    fn wrong_keys_are_refused() {
        let long = "k".repeat(256);
        for given in ["", "\"\"", "\"", "\"abc", "\"a\"b\"", r#""a\b""#, r#""a\""#, "a b", "schlüssel", &long]
        {
            let error = idempotency_key(&headers("idempotency-key", &[given])).unwrap_err();
            assert_eq!(error.code(), Code::IdempotencyKeyInvalid, "{given:?}");
        }
        let twice = idempotency_key(&headers("idempotency-key", &["a", "a"])).unwrap_err();
        assert_eq!(twice.code(), Code::IdempotencyKeyInvalid);
        let none = idempotency_key(&HeaderMap::new()).unwrap_err();
        assert_eq!(none.code(), Code::IdempotencyKeyMissing);
    }

    #[test]
    fn waits_are_read_and_nonsense_is_ignored() {
        for (given, wait_ms) in [
            ("wait=3", Some(3_000)),
            ("respond-async, wait=10", Some(10_000)),
            ("Wait = 0", Some(0)),
            ("wait=\"2\"; x=1", Some(2_000)),
            ("wait=-1", None),
            ("wait=1.5", None),
            ("wait", None),
            ("waiting=3", None),
            ("", None),
        ] {
            assert_eq!(preferred_wait_ms(&headers("prefer", &[given])), wait_ms, "{given:?}");
        }
        assert_eq!(preferred_wait_ms(&headers("prefer", &["respond-async", "wait=4"])), Some(4_000));
        let mut odd = HeaderMap::new();
        odd.append("prefer", HeaderValue::from_bytes(b"note=\"\x9b\", wait=4").unwrap());
        assert_eq!(
            preferred_wait_ms(&odd),
            Some(4_000),
            "what can not be read is ignored, its neighbours are not"
        );
    }
}
