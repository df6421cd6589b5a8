//! Refusals in the OpenAPI document: made from the table of codes, so that the two cannot differ.

use std::collections::BTreeMap;

use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use super::{Code, PROBLEM_JSON};

/// The responses that refuse with these codes, by status.
pub(crate) fn responses(codes: &[Code]) -> BTreeMap<String, RefOr<Response>> {
    let mut lines: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for code in codes {
        let meaning = code.meaning();
        let retry = if meaning.retryable { " (retryable)" } else { "" };
        lines.entry(meaning.status.as_u16()).or_default().push(format!(
            "`{}`: {}{retry}",
            code.as_str(),
            meaning.title
        ));
    }
    let response = |lines: Vec<String>| {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        ResponseBuilder::new().description(lines.join("; ")).content(PROBLEM_JSON, content).build()
    };
    lines.into_iter().map(|(status, lines)| (status.to_string(), RefOr::T(response(lines)))).collect()
}

/// Declares a type that stands for the refusals of one route in its `responses(…)`.
macro_rules! refusals {
    ($name:ident: $($code:ident),+ $(,)?) => {
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::Response>,
            > {
                $crate::problem::responses(&[$($crate::problem::Code::$code),+])
            }
        }
    };
}

pub(crate) use refusals;
