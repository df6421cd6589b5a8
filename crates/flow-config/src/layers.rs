//! The layers, and how a later one is laid over an earlier one: tables are merged key by key, anything else replaces.
//!
//! The `config` crate reads TOML into its tree of values, each with its origin. Its own environment source is not
//! used: it guesses types from a value's look, which turns a token of digits into a number and back.

use std::ffi::OsString;
use std::path::Path;

use config::{FileFormat, Format as _, Map, Value, ValueKind};

use crate::problems::{ConfigError, Problems};
use crate::{DEFAULTS, LoadOptions};

const ENV_PREFIX: &str = "PAY__";
const ENV_SEPARATOR: &str = "__";
const ENV_ORIGIN: &str = "the environment variable ";
/// Longest array that variables may build, entry by entry.
const MAX_ENV_LIST_ENTRIES: usize = 1000;

/// The built-in layer, the file and the environment, merged.
pub(crate) fn merged(
    options: &LoadOptions,
    problems: &mut Problems,
) -> Result<Map<String, Value>, ConfigError> {
    let mut root = parse(Path::new("config/default.toml (built in)"), None, DEFAULTS)?;
    if let Some(path) = &options.file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
        lay_over(&mut root, parse(path, Some(path.display().to_string()), &text)?);
    }
    // The order of an environment is arbitrary; a fixed order makes the outcome so.
    let mut vars: Vec<_> = options.env.iter().collect();
    vars.sort();
    for (name, value) in vars {
        apply_variable(&mut root, name, value, problems);
    }
    Ok(root)
}

fn parse(path: &Path, origin: Option<String>, text: &str) -> Result<Map<String, Value>, ConfigError> {
    FileFormat::Toml.parse(origin.as_ref(), text).map_err(|error| ConfigError::Malformed {
        path: path.to_owned(),
        text: without_quoted_lines(&error.to_string()),
    })
}

/// The parser's message shows the offending line behind a `|`; that line may hold a password.
fn without_quoted_lines(message: &str) -> String {
    let is_quoted =
        |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    let kept: Vec<&str> = message.lines().filter(|line| !is_quoted(line)).map(str::trim).collect();
    kept.join("; ")
}

fn lay_over(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value { kind: ValueKind::Table(old), .. }), Value { kind: ValueKind::Table(new), .. }) => {
                lay_over(old, new);
            }
            (Some(_) | None, value) => {
                under.insert(key, value);
            }
        }
    }
}

fn apply_variable(root: &mut Map<String, Value>, name: &OsString, value: &OsString, problems: &mut Problems) {
    let shown = name.to_string_lossy();
    let Some(path) = shown.strip_prefix(ENV_PREFIX) else { return };
    let Some(value) = value.to_str() else {
        problems.note(shown, "is not valid Unicode");
        return;
    };
    let parts: Vec<&str> = path.split(ENV_SEPARATOR).collect();
    if parts.iter().any(|part| part.is_empty()) {
        problems.note(shown, "must be PAY__SECTION__KEY, without an empty part");
        return;
    }
    let origin = format!("{ENV_ORIGIN}{shown}");
    if let Err(text) = set(root, &parts, &Value::new(Some(&origin), value), false) {
        problems.note(shown, text);
    }
}

/// Sets one variable's value. Variables are written in capitals, so a part means the key that is there already
/// whatever its case, else the lower-case one; currency codes alone are capitals.
fn set(
    table: &mut Map<String, Value>,
    parts: &[&str],
    value: &Value,
    holds_currencies: bool,
) -> Result<(), &'static str> {
    let [part, rest @ ..] = parts else { return Ok(()) };
    let present = table.keys().find(|key| key.eq_ignore_ascii_case(part)).cloned();
    let key = present.unwrap_or_else(|| {
        if holds_currencies { part.to_ascii_uppercase() } else { part.to_ascii_lowercase() }
    });
    if rest.is_empty() {
        table.insert(key, value.clone());
        return Ok(());
    }
    let holds_currencies = key == "currencies";
    let slot = table.entry(key).or_insert_with(|| Value::new(None, Map::<String, Value>::new()));
    set_within(slot, rest, value, holds_currencies)
}

fn set_within(
    slot: &mut Value,
    parts: &[&str],
    value: &Value,
    holds_currencies: bool,
) -> Result<(), &'static str> {
    match (&mut slot.kind, parts) {
        (ValueKind::Table(table), _) => set(table, parts, value, holds_currencies),
        (ValueKind::Array(items), [index, rest @ ..]) if !rest.is_empty() => {
            let index: usize =
                index.parse().map_err(|_| "needs an entry's number, from 0, after the list's name")?;
            if index == items.len() && index < MAX_ENV_LIST_ENTRIES {
                items.push(Value::new(None, Map::<String, Value>::new()));
            }
            let entry = items.get_mut(index).ok_or("names an entry behind the end of the list")?;
            set_within(entry, rest, value, false)
        }
        _ => Err("goes below a key that is not a table"),
    }
}

/// Whether a value was given by a variable, and so has no type of its own.
pub(crate) fn is_from_environment(value: &Value) -> bool {
    value.origin().is_some_and(|origin| origin.starts_with(ENV_ORIGIN))
}

/// Where a value was set, as the end of a problem; nothing for the built-in layer.
pub(crate) fn origin_note(value: &Value) -> String {
    value.origin().map(|origin| format!(" (set in {origin})")).unwrap_or_default()
}
