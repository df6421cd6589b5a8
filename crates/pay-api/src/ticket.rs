//! The bodies of what people do about tickets: their shape and their strict reading.

use flow_core::ids::Actor;
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::{invalid, object};
use crate::problem::Problem;

/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 500;

/// To whom a ticket is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignBody {
    /// The person.
    #[schema(value_type = String, max_length = 64, pattern = "^[!-~]+$", example = "ann")]
    pub to: Actor,
}

impl AssignBody {
    /// Reads a body.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn parse(bytes: &[u8]) -> Result<AssignBody, Problem> {
        let mut fields = object(bytes)?;
        let to = fields.take("to")?.parsed()?;
        fields.finish()?;
        Ok(AssignBody { to })
    }
}

/// Why a ticket is ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonBody {
    /// Why, for whoever reads the trail.
    #[schema(min_length = 1, max_length = 500, example = "paid back by hand, receipt 4711")]
    pub reason: String,
}

impl ReasonBody {
    /// Reads a body.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn parse(bytes: &[u8]) -> Result<ReasonBody, Problem> {
        let mut fields = object(bytes)?;
        let reason = fields.take("reason")?.text()?;
        fields.finish()?;
        let chars = reason.chars().count();
        if chars == 0 || chars > MAX_REASON_CHARS {
            let detail = format!("reason must have 1 to {MAX_REASON_CHARS} characters, and has {chars}");
            return Err(invalid("reason", detail));
        }
        Ok(ReasonBody { reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_strictly() {
        assert_eq!(AssignBody::parse(br#"{"to":"ann"}"#).unwrap().to.as_str(), "ann");
        for wrong in [&br#"{}"#[..], br#"{"to":""}"#, br#"{"to":"a b"}"#, br#"{"to":"a","x":1}"#, b"[]", b""]
        {
            assert!(AssignBody::parse(wrong).is_err());
        }
        assert_eq!(ReasonBody::parse("{\"reason\":\"对过了\"}".as_bytes()).unwrap().reason, "对过了");
        let long = format!("{{\"reason\":\"{}\"}}", "x".repeat(501));
        for wrong in ["{}", "{\"reason\":\"\"}", "{\"reason\":7}", &long] {
            assert!(ReasonBody::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
