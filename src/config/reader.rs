//! Typed reading of keys from a tree of values. Problems are collected, so that reading does not stop.
//!
//! Each key is named once, where it is read, with its default. A key that is read is known, so the list of
//! known keys is always complete. That list serves *did you mean* and the test of the packaged file. After a
//! problem the default is used, but never returned, because a configuration with problems is an error.

use super::layers::{self, ConfigValue, TomlTable, ValueKind, is_from_environment, show_masked};
use super::problem::ConfigProblem;
use super::units;
use crate::model::nearest_name;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

#[derive(Default)]
pub(super) struct ReaderReport {
    pub(super) problems: Vec<ConfigProblem>,
    /// The dotted keys that were read.
    pub(super) known: BTreeSet<String>,
}

pub(super) struct SectionReader<'a> {
    report: &'a mut ReaderReport,
    path: String,
    values: TomlTable,
    known: Vec<String>,
}

impl<'a> SectionReader<'a> {
    /// Reads the table at `path` with `read`; keys that `read` leaves are problems.
    pub(super) fn read_table<T>(
        report: &'a mut ReaderReport,
        path: String,
        values: TomlTable,
        read: impl FnOnce(&mut SectionReader<'_>) -> T,
    ) -> T {
        let mut reader = SectionReader { report, path, values, known: Vec::new() };
        let read = read(&mut reader);
        reader.report_unread();
        read
    }

    /// Reads the table `key` with `read`; a missing table counts as empty.
    pub(super) fn read_section<T>(&mut self, key: &str, read: impl FnOnce(&mut SectionReader<'_>) -> T) -> T {
        let path = self.path_of(key);
        let values = match self.take_value(key) {
            Some(ConfigValue { kind: ValueKind::Table(values), .. }) => values,
            Some(other) => {
                self.report_value(key, &other, format!("this is a table; write [{path}] and its keys"));
                TomlTable::new()
            }
            None => TomlTable::new(),
        };
        SectionReader::read_table(self.report, path, values, read)
    }

    /// Reads the list of tables `key`, each with `read`; tables that `read` refuses are left out.
    pub(super) fn read_tables<T>(
        &mut self,
        key: &str,
        mut read: impl FnMut(&mut SectionReader<'_>) -> Option<T>,
    ) -> Vec<T> {
        let path = self.path_of(key);
        let found = self.take_value(key);
        let mut tables = Vec::new();
        for value in
            self.list_of(key, found, &format!("this is a list of tables; write [[{path}]] and its keys"))
        {
            match value {
                ConfigValue { kind: ValueKind::Table(table), .. } => {
                    tables.extend(SectionReader::read_table(self.report, path.clone(), table, &mut read));
                }
                other => self.report_value(key, &other, format!("write it as a table, below [[{path}]]")),
            }
        }
        tables
    }

    /// Reads a list of texts, each through `parse`; those that it refuses are left out.
    pub(super) fn read_texts<T>(&mut self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let wanted = "write a list of texts, such as [\"a\", \"b\"]";
        let found = self.take_key(key);
        let mut texts = Vec::new();
        for value in self.list_of(key, found, wanted) {
            match text_of(&value).map_or_else(|| Err(wanted.into()), &parse) {
                Ok(text) => texts.push(text),
                Err(why) => self.report_value(key, &value, why),
            }
        }
        texts
    }

    fn list_of(&mut self, key: &str, found: Option<ConfigValue>, wanted: &str) -> Vec<ConfigValue> {
        match found {
            Some(ConfigValue { kind: ValueKind::Array(values), .. }) => values,
            Some(other) => {
                self.report_value(key, &other, wanted.into());
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    pub(super) fn problem_count(&self) -> usize {
        self.report.problems.len()
    }

    /// Returns the keys present, for tables whose keys are data.
    pub(super) fn present_keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.values.keys().cloned().collect();
        keys.sort();
        keys
    }

    pub(super) fn read_text(&mut self, key: &str, default: &str) -> String {
        self.read_parsed(key, default, |text| Ok(text.to_owned()))
    }

    /// Reads text through `parse`, which also parses the default.
    pub(super) fn read_parsed<T: Default>(
        &mut self,
        key: &str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        self.read_quoted(key, default, "write text in quotes", parse)
    }

    /// Reads like [`SectionReader::read_parsed`]; `wanted` is the advice for a value that is not text.
    fn read_quoted<T: Default>(
        &mut self,
        key: &str,
        default: &str,
        wanted: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        let found = self.take_key(key).unwrap_or_else(|| default.into());
        let read = text_of(&found).map_or_else(|| Err(wanted.into()), parse);
        read.map_err(|why| self.report_value(key, &found, why)).unwrap_or_default()
    }

    /// Reads text; empty text is `None`.
    pub(super) fn read_optional<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.read_parsed(key, "", |text| if text.is_empty() { Ok(None) } else { parse(text).map(Some) })
    }

    pub(super) fn read_code<T: Copy + Display>(&mut self, key: &str, default: T, values: &[T]) -> T {
        let Some(found) = self.take_key(key) else { return default };
        let known: Vec<_> = values.iter().map(T::to_string).collect();
        if let Some(index) = text_of(&found).and_then(|text| known.iter().position(|code| code == text)) {
            return values[index];
        }
        let text = show_masked(&found);
        self.report_value(key, &found, format!("write one of {}", known.join(", ")));
        self.suggest_key(text.trim_matches('"'), known.iter().map(String::as_str));
        default
    }

    /// Reads a duration; `least` and `most` are written as in the file.
    pub(super) fn read_duration(&mut self, key: &str, default: &str, least: &str, most: &str) -> Duration {
        self.read_quoted(key, default, "write it in quotes and with its unit, such as \"30s\"", |text| {
            let duration = units::parse_duration(text)?;
            let is_within =
                (units::parse_duration(least)?..=units::parse_duration(most)?).contains(&duration);
            is_within.then_some(duration).ok_or_else(|| format!("must be {least} to {most}"))
        })
    }

    pub(super) fn read_size(&mut self, key: &str, default: &str) -> u64 {
        let positive = |bytes| if bytes == 0 { Err("must be more than nothing".into()) } else { Ok(bytes) };
        let wanted = "write it in quotes and with its unit, such as \"1 GiB\"";
        self.read_quoted(key, default, wanted, |text| units::parse_size(text).and_then(positive))
    }

    pub(super) fn read_integer(&mut self, key: &str, default: u32, range: RangeInclusive<u32>) -> u32 {
        let range = i64::from(*range.start())..=i64::from(*range.end());
        let read = self.read_bare(key, "a whole number", |number| check_range(&range, number));
        read.and_then(|number| u32::try_from(number).ok()).unwrap_or(default)
    }

    pub(super) fn read_fraction(&mut self, key: &str, default: f64, range: RangeInclusive<f64>) -> f64 {
        self.read_bare(key, "a number", |number| check_range(&range, number)).unwrap_or(default)
    }

    pub(super) fn read_flag(&mut self, key: &str, default: bool) -> bool {
        self.read_bare(key, "true or false", Ok).unwrap_or(default)
    }

    /// Reads a value that the file has without quotes; `None` if it is missing or invalid.
    fn read_bare<T: FromStr>(
        &mut self,
        key: &str,
        wanted: &str,
        check: impl Fn(T) -> Result<T, String>,
    ) -> Option<T> {
        let found = self.take_key(key)?;
        let read = match text_of(&found) {
            Some(_) if !is_from_environment(&found) => Err(format!("write {wanted} without quotes")),
            _ => found.kind.to_string().trim().parse().map_err(|_| format!("write {wanted}")),
        };
        read.and_then(check).map_err(|why| self.report_value(key, &found, why)).ok()
    }

    /// Records a problem between values that are each valid.
    pub(super) fn add_problem(&mut self, key: &str, value: impl Display, why: String) {
        self.push_problem(key, false, Some(value.to_string()), why);
    }

    /// Refuses `key` if its text holds a secret, which is not shown.
    pub(super) fn refuse_key_if(&mut self, key: &str, has_secret: impl Fn(&str) -> bool, why: &str) {
        if self.values.get(key).and_then(text_of).is_some_and(has_secret) {
            self.refuse_key(key, why);
        }
    }

    /// Refuses `key` if present. Its value is not shown, because it may be a secret.
    pub(super) fn refuse_key(&mut self, key: &str, why: &str) {
        if let Some(found) = self.values.remove(key) {
            self.push_problem(key, is_from_environment(&found), None, why.into());
        }
    }

    fn take_value(&mut self, key: &str) -> Option<ConfigValue> {
        self.known.push(key.to_owned());
        self.values.remove(key)
    }

    /// Takes the value of a key that is no table, and adds the key to the known ones.
    fn take_key(&mut self, key: &str) -> Option<ConfigValue> {
        self.report.known.insert(self.path_of(key));
        self.take_value(key)
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn report_value(&mut self, key: &str, found: &ConfigValue, why: String) {
        self.push_problem(key, is_from_environment(found), Some(show_masked(found)), why);
    }

    fn push_problem(&mut self, key: &str, from_environment: bool, value: Option<String>, why: String) {
        let path = self.path_of(key);
        let variable = from_environment.then(|| layers::variable_name(&path));
        self.report.problems.push(ConfigProblem { path, variable, value, why, nearest: None, line: None });
    }

    pub(super) fn suggest_key<'k>(&mut self, name: &str, known: impl IntoIterator<Item = &'k str>) {
        if let Some(last) = self.report.problems.last_mut() {
            last.nearest = nearest_name(name, known).map(str::to_owned);
        }
    }

    /// Reports each key that was not read, because a misspelt key would silently leave its default in force.
    fn report_unread(mut self) {
        for key in self.present_keys() {
            let Some(found) = self.values.remove(&key) else { continue };
            let is_table = matches!(found.kind, ValueKind::Table(_));
            let path = self.path_of(&key);
            let variable =
                below_environment(&found).map(|rest| layers::variable_name(&format!("{path}{rest}")));
            let why = if is_table { "there is no such table" } else { "there is no such key" }.into();
            let nearest = nearest_name(&key, self.known.iter().map(String::as_str)).map(str::to_owned);
            // The value is not shown, because a misspelt key may hold a secret.
            let problem = ConfigProblem { path, variable, why, nearest, ..ConfigProblem::default() };
            self.report.problems.push(problem);
        }
    }
}

/// Returns the rest of the path to a value of the environment within `found`.
fn below_environment(found: &ConfigValue) -> Option<String> {
    match &found.kind {
        ValueKind::String(_) if is_from_environment(found) => Some(String::new()),
        ValueKind::Table(table) => {
            table.iter().find_map(|(key, value)| Some(format!(".{key}{}", below_environment(value)?)))
        }
        _ => None,
    }
}

fn text_of(value: &ConfigValue) -> Option<&str> {
    if let ValueKind::String(text) = &value.kind { Some(text) } else { None }
}

fn check_range<T: PartialOrd + Display>(range: &RangeInclusive<T>, value: T) -> Result<T, String> {
    let is_within = range.contains(&value);
    is_within.then_some(value).ok_or_else(|| format!("must be {} to {}", range.start(), range.end()))
}
