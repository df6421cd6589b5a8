//! What the document says of each parameter's form: exactly what the readers accept, so that whoever generates requests
//! from the document is never refused for their form. `tests/api/forms.rs` compares the two.

use std::fmt::Write as _;

use flow_core::ids::{Actor, BizKey, CallerId, ChannelName, IdempotencyKey, OrderRef, Scene};
use flow_core::notify::Delivery;
use flow_core::recon::{FindingKind, TicketState};
use flow_core::state::State;
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::{Object, ObjectBuilder, OpenApi, RefOr};

use super::get_flow::MAX_WAIT_S;
use super::list_flows::MAX_AGE_MS;

/// Digits of both number systems, in order.
const DIGITS: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
/// The greatest id, as a decimal number and as the part of an order number.
const MAX_ID: &str = "9223372036854775807";
const MAX_ID_BASE36: &str = "1y2p0ij32e8e7";
const MAX_VERSION: &str = "18446744073709551615";
const MAX_ATTEMPT: &str = "4294967295";

/// Puts the forms into the document.
pub(super) fn describe(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            for parameter in operation.parameters.iter_mut().flatten() {
                let RefOr::T(parameter) = parameter else { continue };
                if let Some(form) = form(path, parameter) {
                    parameter.schema = Some(RefOr::T(Schema::Object(form.build())));
                }
            }
        }
    }
    let payment = document.components.as_mut().and_then(|parts| parts.schemas.get_mut("PaymentBody"));
    if let Some(RefOr::T(Schema::Object(body))) = payment
        && let Some(RefOr::T(Schema::Object(user_id))) = body.properties.get_mut("user_id")
    {
        user_id.pattern = Some(id_pattern());
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post].into_iter().flatten()
}

fn form(path: &str, parameter: &Parameter) -> Option<ObjectBuilder> {
    let whole = |min: u64, max: u64| {
        Object::builder().schema_type(SchemaType::Type(Type::Integer)).minimum(Some(min)).maximum(Some(max))
    };
    let name = |max_chars| text("^[A-Za-z0-9_.-]+$").max_length(Some(max_chars));
    Some(match parameter.name.as_str() {
        "flow_id" | "user_id" | "ticket_id" => text(id_pattern()),
        "cursor" if path.ends_with("/events") || path.ends_with("/trail") => {
            text(format!("^(?:0|{})$", up_to(MAX_VERSION, 10)))
        }
        "cursor" if path.ends_with("/attempts") => text(format!("^{}$", up_to(MAX_ATTEMPT, 10))),
        "cursor" if path == "/notifications" => text(event_id()),
        "cursor" => text(id_pattern()),
        "event_id" => text(event_id()),
        "delivery" => Object::builder()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(Delivery::ALL.iter().copied().map(Delivery::as_str))),
        "trade_order_no" => text(format!("^{}$", trade_order_no())),
        "refund_order_no" => text(format!("^r_{}$", trade_order_no())),
        "scene" => name(Scene::MAX_CHARS),
        "caller" => name(CallerId::MAX_CHARS),
        "biz_key" => text("^[!-~]+$").max_length(Some(BizKey::MAX_CHARS)),
        "channel" if path.starts_with("/recon/") => name(ChannelName::MAX_CHARS),
        "order_no" => text("^[!-~]+$").max_length(Some(OrderRef::MAX_CHARS)),
        "assigned_to" => text("^[!-~]+$").max_length(Some(Actor::MAX_CHARS)),
        "kind" => Object::builder()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(FindingKind::ALL.iter().copied().map(FindingKind::as_str))),
        "state" if path.starts_with("/recon/") => Object::builder()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(TicketState::ALL.map(TicketState::as_str))),
        "state" => Object::builder()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(State::ALL.map(State::as_str))),
        "min_age_ms" => whole(0, MAX_AGE_MS),
        "limit" => whole(1, u32::MAX.into()),
        "wait" => whole(0, MAX_WAIT_S),
        "since_version" => whole(0, u64::MAX),
        "Idempotency-Key" => text(idempotency_key()),
        _ => return None,
    })
}

fn text(pattern: impl Into<String>) -> ObjectBuilder {
    Object::builder().schema_type(SchemaType::Type(Type::String)).pattern(Some(pattern))
}

fn id_pattern() -> String {
    format!("^{}$", up_to(MAX_ID, 10))
}

fn event_id() -> String {
    format!("^evt_{0}_(?:0|{0})$", up_to(MAX_ID, 10))
}

fn trade_order_no() -> String {
    format!("h2r_{0}_{0}", up_to(MAX_ID_BASE36, 36))
}

/// Bare, so that it does not begin as a quoted string does; or a quoted string with its two escapes.
fn idempotency_key() -> String {
    let max = IdempotencyKey::MAX_CHARS;
    format!(r#"^(?:[!#-~][!-~]{{0,{}}}|"(?:[!#-\[\]-~]|\\["\\]){{1,{max}}}")$"#, max - 1)
}

/// A pattern for the whole numbers from 1 to `max`, each in its one spelling, in a system of so many digits.
fn up_to(max: &str, base: usize) -> String {
    let top = base - 1;
    let mut pattern = format!(
        "(?:{}{}{{0,{}}}|",
        digits(1, top).unwrap_or_default(),
        any(base),
        max.len().saturating_sub(2)
    );
    // As long as the greatest, the same up to some place, and less there.
    for (place, digit) in max.char_indices() {
        let value = DIGITS.find(digit).unwrap_or_default();
        let lowest = usize::from(place == 0);
        let Some(less) = value.checked_sub(1).and_then(|below| digits(lowest, below)) else { continue };
        // Writing to a String cannot fail.
        let _ = write!(pattern, "{}{less}{}{{{}}}|", &max[..place], any(base), max.len() - place - 1);
    }
    pattern + max + ")"
}

fn any(base: usize) -> String {
    digits(0, base - 1).unwrap_or_default()
}

/// A class of the digits from one to another; `None` if there are none.
fn digits(low: usize, high: usize) -> Option<String> {
    const NINE: usize = 9;
    let digit = |value: usize| &DIGITS[value..=value];
    if low > high {
        return None;
    }
    Some(match (low <= NINE, high <= NINE) {
        (true, true) => format!("[{}-{}]", digit(low), digit(high)),
        (true, false) => format!("[{}-9a-{}]", digit(low), digit(high)),
        (false, _) => format!("[{}-{}]", digit(low), digit(high)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_bound_can_be_read() {
        assert_eq!(up_to("305", 10), "(?:[1-9][0-9]{0,1}|[1-2][0-9]{2}|30[0-4][0-9]{0}|305)");
        assert_eq!(up_to("1b", 36), "(?:[1-9a-z][0-9a-z]{0,0}|1[0-9a-a][0-9a-z]{0}|1b)");
    }
}
