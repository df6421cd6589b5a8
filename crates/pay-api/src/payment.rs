//! The body of `POST /payments`: its shape, its strict reading, its canonical form.

use chrono::{DateTime, Datelike as _, Utc};
use flow_core::ids::{BizKey, Fingerprint, Scene, Target, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::{Field, Fields, invalid, object};
use crate::problem::{Code, Problem};

/// Most characters of a context.
pub(crate) const MAX_CONTEXT_CHARS: usize = 4_096;

/// A payment to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
// For the document: what reads refuses unknown fields by itself.
#[serde(deny_unknown_fields)]
pub struct PaymentBody {
    /// The paying user: a whole number from 1 to 2^63-1, as a string.
    #[schema(value_type = String, example = "38922")]
    pub user_id: UserId,
    /// The kind of purchase, as configured.
    #[schema(value_type = String, max_length = 32, pattern = "^[A-Za-z0-9_.-]+$", example = "renew")]
    pub scene: Scene,
    /// The long-lived business goal within user and scene: at most one attempt at it is open or successful.
    #[schema(value_type = String, max_length = 160, pattern = "^[!-~]+$", example = "R:38922:7:2026-01-01")]
    pub biz_key: BizKey,
    /// What is charged.
    pub money: MoneyBody,
    /// From this moment on nothing is started any more (RFC 3339). Kept to the millisecond.
    pub deadline: DateTime<Utc>,
    /// Opaque text handed to the business system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub context: Option<String>,
}

/// An amount to be charged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Money)]
#[serde(deny_unknown_fields)]
pub struct MoneyBody {
    /// Minor units, written as an integer: no point, no exponent, no quotes.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_i64, example = 1200)]
    pub amount: i64,
    /// Code of the currency or asset.
    #[schema(max_length = 16, pattern = "^[A-Z][A-Z0-9_]*$", example = "CNY")]
    pub currency: String,
}

impl PaymentBody {
    /// Reads the bytes of a body; nothing of it is compared with a scene's rules yet.
    ///
    /// # Errors
    /// 400, naming the field where there is one; 422 for a context that is too long.
    pub fn parse(body: &[u8]) -> Result<PaymentBody, Problem> {
        PaymentBody::read(object(body)?)
    }

    fn read(mut fields: Fields) -> Result<PaymentBody, Problem> {
        let user_id = fields.take("user_id")?.parsed()?;
        let scene = fields.take("scene")?.parsed()?;
        let biz_key = fields.take("biz_key")?.parsed()?;
        let mut money = fields.take("money")?.object()?;
        let amount = money.take("amount")?.integer()?;
        let currency = money.take("currency")?.text()?;
        money.finish()?;
        let deadline = read_deadline(fields.take("deadline")?)?;
        let context = fields.take_if_given("context").map(Field::text).transpose()?;
        fields.finish()?;
        if context.as_ref().is_some_and(|text| text.chars().count() > MAX_CONTEXT_CHARS) {
            let detail =
                format!("context is longer than {MAX_CONTEXT_CHARS} characters; nothing was recorded");
            return Err(Problem::new(Code::ContextTooLong, detail).at("context"));
        }
        Ok(PaymentBody { user_id, scene, biz_key, money: MoneyBody { amount, currency }, deadline, context })
    }

    /// What is paid for.
    pub fn target(&self) -> Target {
        Target { user_id: self.user_id, scene: self.scene.clone(), biz_key: self.biz_key.clone() }
    }

    /// What an `Idempotency-Key` is bound to: method, resource and this body as we understood it, so that white
    /// space, the order of fields and the time zone of the deadline make no difference.
    pub fn fingerprint(&self) -> Fingerprint {
        let canonical = serde_json::to_vec(self).expect("strings, numbers and times always serialise");
        Fingerprint::of(&[b"POST", b"/payments", &canonical])
    }
}

fn read_deadline(field: Field) -> Result<DateTime<Utc>, Problem> {
    let text = field.text()?;
    DateTime::parse_from_rfc3339(&text)
        .ok()
        // The database keeps milliseconds: what it cannot keep must not be part of what was asked for.
        .and_then(|moment| DateTime::from_timestamp_millis(moment.timestamp_millis()))
        // In UTC, the first and the last moments of other zones are in years that RFC 3339 cannot write.
        .filter(|moment| (0..=9_999).contains(&moment.year()))
        .ok_or_else(|| invalid("deadline", "deadline is no RFC 3339 time, such as 2026-01-01T00:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PaymentBody {
        PaymentBody::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_same_wish_in_other_words_has_the_same_fingerprint() {
        let one = read(
            r#"{"user_id":"1","scene":"s","biz_key":"b","money":{"amount":5,"currency":"CNY"},
                "deadline":"2026-01-01T08:00:00.0004+08:00","context":null}"#,
        );
        let two = read(
            r#"{ "deadline":"2026-01-01T00:00:00Z", "money":{"currency":"CNY","amount":5},
                 "biz_key":"\u0062", "scene":"s", "user_id":"1" }"#,
        );
        assert_eq!(one, two);
        assert_eq!(one.fingerprint(), two.fingerprint());
    }

    #[test]
    fn a_deadline_that_utc_can_not_write_is_refused() {
        let with = |deadline: &str| {
            let body = format!(
                r#"{{"user_id":"1","scene":"s","biz_key":"b","money":{{"amount":5,"currency":"CNY"}},"deadline":"{deadline}"}}"#
            );
            PaymentBody::parse(body.as_bytes()).is_ok()
        };
        assert!(with("9999-12-31T23:59:59Z") && with("0000-01-01T00:00:00Z"));
        assert!(!with("9999-12-31T23:59:59-01:00") && !with("0000-01-01T00:00:00+01:00"));
    }

    #[test]
    fn every_field_is_part_of_the_fingerprint() {
        let base = read(
            r#"{"user_id":"1","scene":"s","biz_key":"b","money":{"amount":5,"currency":"CNY"},
                "deadline":"2026-01-01T00:00:00Z","context":"c"}"#,
        );
        let mut others = vec![base.clone(); 7];
        others[0].user_id = UserId::new(2).unwrap();
        others[1].scene = Scene::new("t").unwrap();
        others[2].biz_key = BizKey::new("B").unwrap();
        others[3].money.amount = 6;
        others[4].money.currency = "JPY".to_owned();
        others[5].deadline += chrono::TimeDelta::milliseconds(1);
        others[6].context = None;
        for other in others {
            assert_ne!(other.fingerprint(), base.fingerprint(), "{other:?}");
        }
    }
}
