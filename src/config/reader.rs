//! Typed reading of keys from a tree of values. Problems are collected, so that reading does not stop.
//!
//! Each key is named once, where it is read, with its default. A key that is read is known, so the list of
//! known keys is always complete. That list serves *did you mean* and the test of the packaged file. After a
//! problem the default is used, but never returned, because a configuration with problems is an error.

use super::layers::{self, ConfigValue, TomlTable};
use super::problem::{ConfigProblem, nearest_key};
use super::units;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The results of a reading besides the values.
#[derive(Default)]
pub(super) struct ReaderReport {
    pub(super) problems: Vec<ConfigProblem>,
    /// The dotted keys that were read.
    pub(super) known: BTreeSet<String>,
}

/// A table of the tree while its keys are read.
pub(super) struct SectionReader<'a> {
    report: &'a mut ReaderReport,
    path: String,
    values: TomlTable,
    known: Vec<String>,
}

impl<'a> SectionReader<'a> {
    /// Reads the tree's root with `read`; keys that `read` leaves are problems.
    pub(super) fn read_root<T>(
        values: TomlTable,
        report: &'a mut ReaderReport,
        read: impl FnOnce(&mut SectionReader<'_>) -> T,
    ) -> T {
        let mut reader = SectionReader { report, path: String::new(), values, known: Vec::new() };
        let read = read(&mut reader);
        reader.report_unread();
        read
    }

    /// Reads the table `key` with `read`; a missing table counts as empty.
    pub(super) fn read_section<T>(&mut self, key: &str, read: impl FnOnce(&mut SectionReader<'_>) -> T) -> T {
        let values = match self.take_value(key) {
            Some(ConfigValue::Table(values)) => values,
            Some(other) => {
                self.report_value(
                    key,
                    &other,
                    format!("this is a table; write [{}] and its keys", self.path_of(key)),
                );
                TomlTable::new()
            }
            None => TomlTable::new(),
        };
        let path = self.path_of(key);
        let mut inner = SectionReader { report: self.report, path, values, known: Vec::new() };
        let read = read(&mut inner);
        inner.report_unread();
        read
    }

    /// Returns the keys present, for tables whose keys are data.
    pub(super) fn present_keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.values.keys().cloned().collect();
        keys.sort();
        keys
    }

    /// Reads text, which may be empty.
    pub(super) fn read_text(&mut self, key: &str, default: &str) -> String {
        self.read_parsed(key, default, |text| Ok(text.to_owned()))
    }

    /// Reads text through `parse`, which also parses the default.
    pub(super) fn read_parsed<T>(
        &mut self,
        key: &str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T
    where
        T: Default,
    {
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
        self.note_known(key);
        let found = self.take_value(key).unwrap_or_else(|| ConfigValue::Text(default.to_owned()));
        let read = match &found {
            ConfigValue::Text(text) | ConfigValue::FromEnvironment(text) => parse(text),
            _ => Err(wanted.into()),
        };
        self.value_or_problem(key, &found, read).unwrap_or_default()
    }

    /// Reads text; empty text is `None`.
    pub(super) fn read_optional<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.read_parsed(key, "", |text| if text.is_empty() { Ok(None) } else { parse(text).map(Some) })
    }

    /// Reads one of the values by its code.
    pub(super) fn read_code<T: Copy + Display>(&mut self, key: &str, default: T, values: &[T]) -> T {
        self.note_known(key);
        let Some(found) = self.take_value(key) else { return default };
        if let ConfigValue::Text(text) | ConfigValue::FromEnvironment(text) = &found
            && let Some(value) = values.iter().find(|value| value.to_string() == *text)
        {
            return *value;
        }
        let known: Vec<_> = values.iter().map(T::to_string).collect();
        let text = found.show_masked();
        self.report_value(key, &found, format!("write one of {}", known.join(", ")));
        self.suggest_key(nearest_key(text.trim_matches('"'), known.iter().map(String::as_str)));
        default
    }

    /// Reads a duration with its unit, within `range`.
    pub(super) fn read_duration(
        &mut self,
        key: &str,
        default: &str,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        self.read_quoted(key, default, "write it in quotes and with its unit, such as \"30s\"", |text| {
            let duration = units::parse_duration(text)?;
            let (least, most) =
                (units::format_duration(*range.start()), units::format_duration(*range.end()));
            check_range(&range, duration).map_err(|_| format!("must be {least} to {most}"))
        })
    }

    /// Reads a size with its unit, in bytes, above zero.
    pub(super) fn read_size(&mut self, key: &str, default: &str) -> u64 {
        let positive = |bytes| if bytes == 0 { Err("must be more than nothing".into()) } else { Ok(bytes) };
        let wanted = "write it in quotes and with its unit, such as \"1 GiB\"";
        self.read_quoted(key, default, wanted, |text| units::parse_size(text).and_then(positive))
    }

    /// Reads a whole number within `range`.
    pub(super) fn read_integer(&mut self, key: &str, default: u32, range: RangeInclusive<u32>) -> u32 {
        self.note_known(key);
        let Some(found) = self.take_value(key) else { return default };
        let number = match &found {
            ConfigValue::Integer(number) => Ok(*number),
            ConfigValue::FromEnvironment(text) => {
                text.trim().parse().map_err(|_| "write a whole number".to_owned())
            }
            ConfigValue::Text(_) => Err("write the number without quotes".into()),
            _ => Err("write a whole number".into()),
        };
        let read = number.and_then(|number| {
            let outside = |_| format!("must be {} to {}", range.start(), range.end());
            u32::try_from(number)
                .map_err(|_| ())
                .and_then(|number| check_range(&range, number))
                .map_err(outside)
        });
        self.value_or_problem(key, &found, read).unwrap_or(default)
    }

    /// Reads a number within `range`, whole or not.
    pub(super) fn read_fraction(&mut self, key: &str, default: f64, range: RangeInclusive<f64>) -> f64 {
        self.note_known(key);
        let Some(found) = self.take_value(key) else { return default };
        let number = match &found {
            ConfigValue::Float(number) => Ok(*number),
            ConfigValue::Integer(number) => Ok(f64::from(i32::try_from(*number).unwrap_or(i32::MAX))),
            ConfigValue::FromEnvironment(text) => {
                text.trim().parse().map_err(|_| "write a number".to_owned())
            }
            ConfigValue::Text(_) => Err("write the number without quotes".into()),
            _ => Err("write a number".into()),
        };
        let outside = |()| format!("must be {} to {}", range.start(), range.end());
        let read = number.and_then(|number| check_range(&range, number).map_err(outside));
        self.value_or_problem(key, &found, read).unwrap_or(default)
    }

    /// Reads `true` or `false`.
    pub(super) fn read_flag(&mut self, key: &str, default: bool) -> bool {
        self.note_known(key);
        let Some(found) = self.take_value(key) else { return default };
        let read = match &found {
            ConfigValue::Flag(flag) => Ok(*flag),
            ConfigValue::FromEnvironment(text) => {
                text.trim().parse().map_err(|_| "write true or false".to_owned())
            }
            _ => Err("write true or false, without quotes".into()),
        };
        self.value_or_problem(key, &found, read).unwrap_or(default)
    }

    /// Records a problem between values that are each valid.
    pub(super) fn add_problem(&mut self, key: &str, value: impl Display, why: String) {
        let problem = ConfigProblem {
            path: self.path_of(key),
            variable: None,
            value: Some(value.to_string()),
            why,
            nearest: None,
        };
        self.report.problems.push(problem);
    }

    /// Refuses `key` if present. Its value is not shown, because it may be a secret.
    pub(super) fn refuse_key(&mut self, key: &str, why: &str) {
        if let Some(found) = self.values.remove(key).map(ConfigValue::from) {
            self.report_unusable(key, found.is_from_environment(), why);
        }
    }

    fn take_value(&mut self, key: &str) -> Option<ConfigValue> {
        self.known.push(key.to_owned());
        self.values.remove(key).map(ConfigValue::from)
    }

    fn note_known(&mut self, key: &str) {
        let path = self.path_of(key);
        self.report.known.insert(path);
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn value_or_problem<T>(&mut self, key: &str, found: &ConfigValue, read: Result<T, String>) -> Option<T> {
        read.map_err(|why| self.report_value(key, found, why)).ok()
    }

    fn report_value(&mut self, key: &str, found: &ConfigValue, why: String) {
        self.report_unusable(key, found.is_from_environment(), &why);
        if let Some(last) = self.report.problems.last_mut() {
            last.value = Some(found.show_masked());
        }
    }

    fn report_unusable(&mut self, key: &str, from_environment: bool, why: &str) {
        let path = self.path_of(key);
        let variable = from_environment.then(|| layers::variable_name(&path));
        self.report.problems.push(ConfigProblem {
            path,
            variable,
            value: None,
            why: why.into(),
            nearest: None,
        });
    }

    pub(super) fn suggest_key(&mut self, nearest: Option<String>) {
        if let Some(last) = self.report.problems.last_mut() {
            last.nearest = nearest;
        }
    }

    /// Reports each key that was not read, because a misspelt key would silently leave its default in force.
    fn report_unread(mut self) {
        for key in self.present_keys() {
            let Some(found) = self.values.remove(&key).map(ConfigValue::from) else { continue };
            let is_table = matches!(found, ConfigValue::Table(_));
            let path = self.path_of(&key);
            let variable =
                below_environment(&found).map(|rest| layers::variable_name(&format!("{path}{rest}")));
            let why = if is_table { "there is no such table" } else { "there is no such key" }.into();
            let nearest = nearest_key(&key, self.known.iter().map(String::as_str));
            // The value is not shown, because a misspelt key may hold a secret.
            self.report.problems.push(ConfigProblem { path, variable, value: None, why, nearest });
        }
    }
}

/// Returns the rest of the path to a value of the environment within `found`.
fn below_environment(found: &ConfigValue) -> Option<String> {
    match found {
        ConfigValue::FromEnvironment(_) => Some(String::new()),
        ConfigValue::Table(table) => table.iter().find_map(|(key, value)| {
            let rest = below_environment(&ConfigValue::from(value.clone()))?;
            Some(format!(".{key}{rest}"))
        }),
        _ => None,
    }
}

fn check_range<T: PartialOrd>(range: &RangeInclusive<T>, value: T) -> Result<T, ()> {
    if range.contains(&value) { Ok(value) } else { Err(()) }
}
