//! Strict reading of JSON: no field twice, none unknown, no number through a float, every complaint with its path.
//!
//! serde's derived readers take an array for a struct, report no path and word their complaints for programmers; a
//! payment is worth a reader that says which field is wrong and why.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::problem::{Code, Problem};

/// Any JSON value. Fields keep their order, and a field that occurs twice is kept twice, to be complained about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number that is a 64-bit integer as written.
    Integer(i64),
    /// Any other number: with a point, with an exponent, or too large.
    OtherNumber,
    /// A string.
    Text(String),
    /// An array. No field of ours is one, so the elements are checked for being JSON and dropped.
    Array,
    /// An object.
    Object(Vec<(String, Value)>),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool => "a boolean",
            Value::Integer(_) => "an integer",
            Value::OtherNumber => "a number that is no 64-bit integer",
            Value::Text(_) => "a string",
            Value::Array => "an array",
            Value::Object(_) => "an object",
        }
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Bool)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::OtherNumber, Value::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::OtherNumber)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        while elements.next_element::<Value>()?.is_some() {}
        Ok(Value::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            if fields.len() == MAX_FIELDS {
                return Err(A::Error::custom("too many fields"));
            }
            fields.push(entry);
        }
        Ok(Value::Object(fields))
    }
}

/// Reads a body: UTF-8, JSON to its end, a single object.
///
/// # Errors
/// 400.
pub(crate) fn object(body: &[u8]) -> Result<Fields, Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
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

/// Most fields of one object: many times more than any of ours has.
const MAX_FIELDS: usize = 256;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// The fields of one object, taken out one by one; [`Fields::finish`] complains about those that are left.
#[derive(Debug)]
pub(crate) struct Fields {
    path: String,
    left: Vec<(String, Value)>,
}

impl Fields {
    /// The fields of a value that must be an object; `path` is where it stands, empty for the body itself.
    ///
    /// # Errors
    /// 400: no object, or a field twice.
    pub(crate) fn of(value: Value, path: String) -> Result<Fields, Problem> {
        let Value::Object(left) = value else {
            return Err(wrong(&path, &format!("must be an object, and is {}", value.kind())));
        };
        let fields = Fields { path, left };
        for (i, (name, _)) in fields.left.iter().enumerate() {
            if fields.left.iter().skip(i + 1).any(|(other, _)| other == name) {
                return Err(wrong(&fields.path_of(name), "is given twice"));
            }
        }
        Ok(fields)
    }

    /// Takes a field that must be there.
    ///
    /// # Errors
    /// 400 if it is missing.
    pub(crate) fn take(&mut self, name: &str) -> Result<Field, Problem> {
        self.take_if_given(name).ok_or_else(|| wrong(&self.path_of(name), "is missing"))
    }

    /// Takes a field that may be absent; `null` counts as absent.
    pub(crate) fn take_if_given(&mut self, name: &str) -> Option<Field> {
        let at = self.left.iter().position(|(other, _)| other == name)?;
        let (_, value) = self.left.swap_remove(at);
        (value != Value::Null).then(|| Field { path: self.path_of(name), value })
    }

    /// Complains about a field that nobody took.
    ///
    /// # Errors
    /// 400, naming it.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => Err(wrong(&self.path_of(name), "is not a known field")),
        }
    }

    fn path_of(&self, name: &str) -> String {
        // A name is the client's own text: kept short, so that an answer stays small.
        let name: String = name.chars().take(64).collect();
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }
}

/// One field, with its path.
#[derive(Debug)]
pub(crate) struct Field {
    path: String,
    value: Value,
}

impl Field {
    /// The field as a string.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn text(self) -> Result<String, Problem> {
        match self.value {
            Value::Text(text) => Ok(text),
            other @ (Value::Null
            | Value::Bool
            | Value::Integer(_)
            | Value::OtherNumber
            | Value::Array
            | Value::Object(_)) => {
                Err(wrong(&self.path, &format!("must be a string, and is {}", other.kind())))
            }
        }
    }

    /// The field as a string that a checked type accepts.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn parsed<T>(self) -> Result<T, Problem>
    where
        T: TryFrom<String>,
        T::Error: fmt::Display,
    {
        let path = self.path.clone();
        T::try_from(self.text()?).map_err(|error| invalid(&path, error.to_string()))
    }

    /// The field as a whole number, written as one.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn integer(self) -> Result<i64, Problem> {
        match self.value {
            Value::Integer(number) => Ok(number),
            other @ (Value::Null
            | Value::Bool
            | Value::OtherNumber
            | Value::Text(_)
            | Value::Array
            | Value::Object(_)) => {
                Err(wrong(&self.path, &format!("must be an integer, and is {}", other.kind())))
            }
        }
    }

    /// The field as an object.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn object(self) -> Result<Fields, Problem> {
        Fields::of(self.value, self.path)
    }
}

fn wrong(path: &str, what: &str) -> Problem {
    let place = if path.is_empty() { "the body" } else { path };
    invalid(path, format!("{place} {what}"))
}

/// A field that is not of its form; `detail` is a whole sentence.
pub(crate) fn invalid(path: &str, detail: impl Into<String>) -> Problem {
    let problem = Problem::new(Code::InvalidBody, detail.into());
    if path.is_empty() { problem } else { problem.at(path.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_are_integers_as_written_or_nothing() {
        assert_eq!(read("9223372036854775807"), Value::Integer(i64::MAX));
        assert_eq!(read("-9223372036854775808"), Value::Integer(i64::MIN));
        for other in [
            "9223372036854775808",
            "1.0",
            "1e2",
            "-0",
            "1e400000".get(..3).unwrap(),
            "123456789012345678901234567890",
        ] {
            assert_eq!(read(other), Value::OtherNumber, "{other}");
        }
    }

    #[test]
    fn fields_are_known_once_and_all_taken() {
        let twice = Fields::of(read(r#"{"a":1,"a":1}"#), String::new()).unwrap_err();
        assert_eq!(twice, invalid("a", "a is given twice"));
        let mut fields = Fields::of(read(r#"{"a":{"b":1,"x":2},"c":null}"#), String::new()).unwrap();
        let mut inner = fields.take("a").unwrap().object().unwrap();
        assert_eq!(inner.take("b").unwrap().integer().unwrap(), 1);
        assert_eq!(inner.finish().unwrap_err(), invalid("a.x", "a.x is not a known field"));
        assert!(fields.take_if_given("c").is_none());
        assert_eq!(fields.take("d").unwrap_err(), invalid("d", "d is missing"));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(serde_json::from_str::<Value>(&deep).is_err());
    }
}
