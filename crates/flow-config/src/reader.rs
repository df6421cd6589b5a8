//! Takes one table of the merged tree apart, key by key, and goes on after every problem.
//!
//! Serde stops at the first wrong key; an operator wants to see all of them. A reader returns `None` for a key that
//! is not usable, and then has noted why. Keys that nobody asked for are unknown, and are problems too.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the config crate's value kinds: all but a few are equally wrong"
)]

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use config::{Map, Value, ValueKind};
use flow_core::retry::Schedule;
use serde::de::DeserializeOwned;

use crate::layers::{is_from_environment, origin_note};
use crate::problems::Problems;
use crate::secret::Secret;

/// A table being taken apart.
pub(crate) struct Table<'p> {
    path: String,
    rest: BTreeMap<String, Value>,
    problems: &'p mut Problems,
}

/// Whole numbers that keys may hold.
pub(crate) trait Whole: Copy + Display + PartialOrd + TryFrom<i64> {}
impl Whole for u32 {}
impl Whole for u64 {}
impl Whole for usize {}
impl Whole for i64 {}

impl<'p> Table<'p> {
    /// The whole tree.
    pub(crate) fn root(entries: Map<String, Value>, problems: &'p mut Problems) -> Table<'p> {
        Table { path: String::new(), rest: entries.into_iter().collect(), problems }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Notes a problem of one key of this table.
    pub(crate) fn note(&mut self, key: &str, text: impl Into<String>) {
        self.problems.note(self.path_of(key), text);
    }

    fn note_value(&mut self, key: &str, value: &Value, text: &str) {
        self.note(key, format!("{text}{}", origin_note(value)));
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.rest.remove(key).filter(|value| value.kind != ValueKind::Nil)
    }

    fn take_required(&mut self, key: &str) -> Option<Value> {
        let value = self.take(key);
        if value.is_none() {
            self.note(key, "is missing");
        }
        value
    }

    /// Everything that was not asked for is unknown.
    pub(crate) fn finish(self) {
        for (key, value) in &self.rest {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            self.problems.note(path, format!("is not a known key{}", origin_note(value)));
        }
    }

    fn sub_table(&mut self, path: String, value: Value) -> Option<Table<'_>> {
        let note = origin_note(&value);
        let ValueKind::Table(entries) = value.kind else {
            self.problems.note(path, format!("must be a table, is {}{note}", describe(&value.kind)));
            return None;
        };
        Some(Table { path, rest: entries.into_iter().collect(), problems: self.problems })
    }

    fn read_sub<T>(
        &mut self,
        path: String,
        value: Value,
        read: impl FnOnce(&mut Table<'_>) -> Option<T>,
    ) -> Option<T> {
        let mut table = self.sub_table(path, value)?;
        let section = read(&mut table);
        table.finish();
        section
    }

    /// A table with fixed keys.
    pub(crate) fn section<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Table<'_>) -> Option<T>,
    ) -> Option<T> {
        let value = self.take_required(key)?;
        self.read_sub(self.path_of(key), value, read)
    }

    /// A table of tables under names of the operator's choosing; absent means empty.
    pub(crate) fn named<K: Ord, T, E: Display>(
        &mut self,
        key: &str,
        make_name: impl Fn(String) -> Result<K, E>,
        read: impl Fn(&mut Table<'_>) -> Option<T>,
    ) -> BTreeMap<K, T> {
        let Some(value) = self.take(key) else { return BTreeMap::new() };
        let path = self.path_of(key);
        let Some(mut table) = self.sub_table(path, value) else { return BTreeMap::new() };
        let mut all = BTreeMap::new();
        for (name, value) in std::mem::take(&mut table.rest) {
            let section = table.read_sub(table.path_of(&name), value, &read);
            match make_name(name.clone()) {
                Ok(made) => all.extend(section.map(|section| (made, section))),
                Err(error) => table.note(&name, format!("is no usable name: {error}")),
            }
        }
        all
    }

    /// An array of tables; absent means empty.
    pub(crate) fn list<T>(&mut self, key: &str, read: impl Fn(&mut Table<'_>) -> Option<T>) -> Vec<T> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let ValueKind::Array(items) = value.kind else {
            self.note_value(
                key,
                &value,
                &format!("must be an array of tables, is {}", describe(&value.kind)),
            );
            return Vec::new();
        };
        let path = self.path_of(key);
        let items = items.into_iter().enumerate();
        items.filter_map(|(i, item)| self.read_sub(format!("{path}[{i}]"), item, &read)).collect()
    }

    /// A whole number within a range.
    pub(crate) fn whole<T: Whole>(&mut self, key: &str, range: RangeInclusive<T>) -> Option<T> {
        let value = self.take_required(key)?;
        self.check_whole(key, &value, range)
    }

    /// A whole number within a range, with a default for an absent key.
    pub(crate) fn whole_or<T: Whole>(
        &mut self,
        key: &str,
        default: T,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        match self.take(key) {
            Some(value) => self.check_whole(key, &value, range),
            None => Some(default),
        }
    }

    fn check_whole<T: Whole>(&mut self, key: &str, value: &Value, range: RangeInclusive<T>) -> Option<T> {
        let number = whole_of(value).and_then(|number| T::try_from(number).ok());
        match number {
            Some(number) if range.contains(&number) => Some(number),
            Some(_) | None => {
                let (min, max) = range.into_inner();
                self.note_value(key, value, &format!("must be {min} to {max}, is {}", describe(&value.kind)));
                None
            }
        }
    }

    /// A list of whole numbers, not yet checked for range; from the environment: separated by commas.
    pub(crate) fn whole_list(&mut self, key: &str) -> Option<Vec<u64>> {
        let value = self.take_required(key)?;
        let numbers: Option<Vec<u64>> = match &value.kind {
            ValueKind::Array(items) => {
                items.iter().map(|item| whole_of(item).and_then(|n| u64::try_from(n).ok())).collect()
            }
            ValueKind::String(text) if is_from_environment(&value) => {
                text.split(',').map(|part| part.trim().parse().ok()).collect()
            }
            _ => None,
        };
        if numbers.is_none() {
            self.note_value(key, &value, "must be a list of whole numbers from 0 up");
        }
        numbers
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, key: &str) -> Option<bool> {
        let value = self.take_required(key)?;
        self.check_flag(key, &value)
    }

    /// `true` or `false`, with a default for an absent key.
    pub(crate) fn flag_or(&mut self, key: &str, default: bool) -> Option<bool> {
        match self.take(key) {
            Some(value) => self.check_flag(key, &value),
            None => Some(default),
        }
    }

    fn check_flag(&mut self, key: &str, value: &Value) -> Option<bool> {
        let flag = match &value.kind {
            ValueKind::Boolean(flag) => Some(*flag),
            ValueKind::String(text) if is_from_environment(value) => text.parse().ok(),
            _ => None,
        };
        if flag.is_none() {
            self.note_value(key, value, &format!("must be true or false, is {}", describe(&value.kind)));
        }
        flag
    }

    /// A text that a type makes sense of.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&mut self, key: &str) -> Option<T> {
        let value = self.take_required(key)?;
        let ValueKind::String(text) = &value.kind else {
            self.note_value(key, &value, &format!("must be a text, is {}", describe(&value.kind)));
            return None;
        };
        match text.parse() {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                self.note_value(key, &value, &format!("{error}, is {text:?}"));
                None
            }
        }
    }

    /// As [`Table::parsed`], for a text that may hold a secret when it is wrong: it is not shown.
    pub(crate) fn parsed_hidden<T: FromStr<Err: Display>>(&mut self, key: &str) -> Option<T> {
        let text = self.secret(key)?;
        match text.expose().parse() {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                self.note(key, error.to_string());
                None
            }
        }
    }

    /// As [`Table::parsed`], for a key that may be absent: `Some(None)` then.
    pub(crate) fn parsed_if_given<T: FromStr<Err: Display>>(&mut self, key: &str) -> Option<Option<T>> {
        if self.rest.contains_key(key) { self.parsed(key).map(Some) } else { Some(None) }
    }

    /// A list of texts that a type makes sense of; from the environment: separated by commas.
    pub(crate) fn parsed_list<T: FromStr>(&mut self, key: &str) -> Option<Vec<T>> {
        let value = self.take_required(key)?;
        let parsed: Option<Vec<T>> = match &value.kind {
            ValueKind::Array(items) => items
                .iter()
                .map(|item| match &item.kind {
                    ValueKind::String(text) => text.parse().ok(),
                    _ => None,
                })
                .collect(),
            ValueKind::String(text) if is_from_environment(&value) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| part.parse().ok()).collect()
            }
            _ => None,
        };
        if parsed.is_none() {
            self.note_value(key, &value, "must be a list of texts, each as the comment in default.toml says");
        }
        parsed
    }

    /// Whether a key is given.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.rest.contains_key(key)
    }

    /// A text that is never printed; must not be empty.
    pub(crate) fn secret(&mut self, key: &str) -> Option<Secret> {
        let value = self.take_required(key)?;
        match &value.kind {
            ValueKind::String(text) if !text.is_empty() => Some(Secret::new(text.clone())),
            _ => {
                self.note_value(key, &value, "must be a text that is not empty");
                None
            }
        }
    }

    /// A list of texts that are never printed; from the environment: separated by commas.
    pub(crate) fn secret_list(&mut self, key: &str) -> Option<Vec<Secret>> {
        let value = self.take_required(key)?;
        let secrets: Option<Vec<Secret>> = match &value.kind {
            ValueKind::Array(items) => items
                .iter()
                .map(|item| match &item.kind {
                    ValueKind::String(text) => Some(Secret::new(text.clone())),
                    _ => None,
                })
                .collect(),
            ValueKind::String(text) if is_from_environment(&value) => {
                Some(text.split(',').map(|part| Secret::new(part.trim().to_owned())).collect())
            }
            _ => None,
        };
        if secrets.is_none() {
            self.note_value(key, &value, "must be a list of texts");
        }
        secrets
    }

    /// What serde makes of a key's value. The first thing that is wrong is noted.
    pub(crate) fn deserialized<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let value = self.take_required(key)?;
        let note = origin_note(&value);
        match value.try_deserialize() {
            Ok(read) => Some(read),
            Err(error) => {
                self.note(key, format!("{error}{note}"));
                None
            }
        }
    }

    /// A retry schedule: a list of delays in milliseconds.
    pub(crate) fn schedule(&mut self, key: &str) -> Option<Schedule> {
        match Schedule::new(self.whole_list(key)?) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                self.note(key, error.to_string());
                None
            }
        }
    }

    /// As [`Table::secret`], for a key that may be absent: `Some(None)` then.
    pub(crate) fn secret_if_given(&mut self, key: &str) -> Option<Option<Secret>> {
        if self.rest.contains_key(key) { self.secret(key).map(Some) } else { Some(None) }
    }
}

fn whole_of(value: &Value) -> Option<i64> {
    match &value.kind {
        ValueKind::I64(number) => Some(*number),
        // A variable's value has no type of its own.
        ValueKind::String(text) if is_from_environment(value) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A value as a problem shows it: small ones as they are, the rest by their kind.
fn describe(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Boolean(flag) => flag.to_string(),
        ValueKind::I64(number) => number.to_string(),
        ValueKind::Float(number) => number.to_string(),
        ValueKind::String(text) if text.len() <= 40 => format!("{text:?}"),
        ValueKind::String(_) => "a long text".to_owned(),
        ValueKind::Table(_) => "a table".to_owned(),
        ValueKind::Array(_) => "an array".to_owned(),
        _ => "something else".to_owned(),
    }
}
