//! Consistency of the log lines and `docs/logging.md`, which promises names, levels and fields for queries
//! and alerts.
//!
//! The sources are read as text: each call of a tracing macro, the event it names and the fields it carries.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test may end the test")]

use crate::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Levels and fields of an event, over all places that log it.
#[derive(Debug, Default)]
struct Emitted {
    levels: BTreeSet<String>,
    fields: BTreeSet<String>,
}

#[derive(Debug)]
struct Row {
    levels: BTreeSet<String>,
    fields: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/logging.md")).unwrap()
}

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((name, text.split("#[cfg(test)]").next().unwrap().to_owned()));
        }
    }
}

/// Returns every call of a tracing macro below `src`: file, level, arguments.
fn calls() -> Vec<(String, &'static str, Vec<String>)> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let levels = [
        ("error!(", "ERROR"),
        ("warn!(", "WARN"),
        ("info!(", "INFO"),
        ("debug!(", "DEBUG"),
        ("trace!(", "TRACE"),
    ];
    let mut calls = Vec::new();
    for (file, text) in &files {
        for (name, level) in levels {
            for (at, _) in text.match_indices(&format!("tracing::{name}")) {
                calls.push((file.clone(), level, arguments(&text[at + "tracing::".len() + name.len()..])));
            }
        }
    }
    assert!(calls.len() > 20, "the log lines were not found");
    calls
}

/// Returns the arguments up to the closing parenthesis, split at the top-level commas.
fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let mut arguments = vec![String::new()];
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().unwrap().push(c);
    }
    arguments
        .iter()
        .map(|argument| argument.trim().to_owned())
        .filter(|argument| !argument.is_empty())
        .collect()
}

/// Returns the event's name and its fields, which stand before the message.
fn fields(arguments: &[String]) -> (Option<&'static str>, BTreeSet<String>) {
    let before = arguments.iter().take_while(|argument| !argument.starts_with('"'));
    let (mut name, mut fields) = (None, BTreeSet::new());
    for argument in before {
        let (field, value) = argument.split_once(" = ").unwrap_or((argument, ""));
        match value.strip_prefix("event::") {
            Some(constant) if field == "event" => name = Some(named(constant)),
            _ => {
                fields.insert(field.trim_start_matches(['%', '?']).to_owned());
            }
        }
    }
    (name, fields)
}

/// Returns the value of a constant of `telemetry::event`, read from its source.
fn named(constant: &str) -> &'static str {
    let source = std::fs::read_to_string(root().join("src/telemetry/mod.rs")).unwrap();
    let (_, rest) =
        source.split_once(&format!(" {constant} = \"")).unwrap_or_else(|| panic!("no event {constant}"));
    let name = rest.split('"').next().unwrap();
    event::ALL.iter().find(|known| **known == name).unwrap()
}

fn emitted() -> BTreeMap<&'static str, Emitted> {
    let mut events: BTreeMap<_, Emitted> = BTreeMap::new();
    for (_, level, arguments) in calls() {
        if let (Some(name), fields) = fields(&arguments) {
            let event = events.entry(name).or_default();
            event.levels.insert(level.into());
            event.fields.extend(fields);
        }
    }
    events
}

/// Returns the page's table: event, level, fields.
fn rows() -> BTreeMap<String, Row> {
    let page = page();
    let (_, table) = page.split_once("\n## Events\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let words = |level: &str| {
        level.split(',').map(|w| w.trim().trim_matches('`').to_owned()).filter(|w| !w.is_empty()).collect()
    };
    let lines = table.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let levels: Vec<&str> = line.split('|').map(str::trim).collect();
            (
                levels[1].trim_matches('`').to_owned(),
                Row { levels: words(levels[2]), fields: words(levels[3]) },
            )
        })
        .collect()
}

#[test]
fn the_page_says_of_each_event_the_levels_and_fields_it_is_written_with() {
    let (emitted, rows) = (emitted(), rows());
    let mut wrong = Vec::new();
    for (name, event) in &emitted {
        match rows.get(*name) {
            None => wrong.push(format!("docs/logging.md has no row for {name}")),
            Some(row) if row.fields != event.fields => {
                wrong
                    .push(format!("{name}: written with {:?}, the page says {:?}", event.fields, row.fields));
            }
            Some(row) if row.levels != event.levels => {
                wrong.push(format!("{name}: written at {:?}, the page says {:?}", event.levels, row.levels));
            }
            Some(_) => {}
        }
    }
    let known = |name: &&String| emitted.contains_key(name.as_str());
    wrong.extend(rows.keys().filter(|name| !known(name)).map(|name| format!("nothing writes {name}")));
    let absent = |name: &&&str| !rows.contains_key(**name);
    wrong.extend(
        event::ALL.iter().filter(absent).map(|name| format!("docs/logging.md has no row for {name}")),
    );
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_line_of_ours_carries_its_event() {
    let nameless = |(file, level, arguments): &(String, &str, Vec<String>)| {
        let counts = !["DEBUG", "TRACE"].contains(level) && !file.starts_with("src/sandbox/");
        (counts && fields(arguments).0.is_none()).then(|| format!("{file}: {arguments:?}"))
    };
    let nameless: Vec<_> = calls().iter().filter_map(nameless).collect();
    assert!(nameless.is_empty(), "\n{}", nameless.join("\n"));
}

#[test]
fn each_event_has_a_sample_line_with_fields_of_its_row() {
    let page = page();
    let (_, samples) = page.split_once("\n## Samples\n").unwrap();
    let samples = samples.split("```").nth(1).unwrap().trim_start_matches("json\n");
    let rows = rows();
    let mut seen = BTreeSet::new();
    for line in samples.lines().filter(|line| !line.is_empty()) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let sample = value.as_object().unwrap();
        let name = sample["event"].as_str().unwrap();
        let row = rows.get(name).unwrap_or_else(|| panic!("{name} has no row"));
        assert!(row.levels.contains(sample["level"].as_str().unwrap()), "{line}");
        let own = ["timestamp", "level", "message", "event", "target"];
        let ours: BTreeSet<_> = sample.keys().filter(|key| !own.contains(&key.as_str())).cloned().collect();
        assert!(ours.is_subset(&row.fields), "{line}");
        assert!(row.fields.is_empty() || name == "daemon.warning" || !ours.is_empty(), "{line}: no field");
        seen.insert(name.to_owned());
    }
    let missing: Vec<_> = rows.keys().filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "no sample line: {missing:?}");
}

/// Returns the module of a source file, as a log line names it.
fn target(file: &str) -> String {
    let module = file.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    format!("tallyd::{}", module.replace('/', "::"))
}

/// Returns true if the message has the form of a format string: its fixed parts, in their order.
fn has_form(message: &str, format: &str) -> bool {
    let mut text = String::new();
    let mut lines = format.trim_matches('"').split("\\\n");
    text.push_str(lines.next().unwrap_or_default());
    lines.for_each(|line| text.push_str(line.trim_start()));
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while let Some((fixed, after)) = rest.split_once('{') {
        parts.push(fixed);
        rest = after.split_once('}').unwrap().1;
    }
    if parts.is_empty() {
        return message == rest;
    }
    let Some(mut left) = message.strip_prefix(parts[0]).and_then(|left| left.strip_suffix(rest)) else {
        return false;
    };
    parts[1..].iter().all(|part| match left.find(part) {
        Some(at) => {
            left = &left[at + part.len()..];
            true
        }
        None => false,
    })
}

#[test]
fn the_form_of_a_message_is_that_of_its_format() {
    let format = "\"{count} change(s) of {name} wait; \\\n             see {}\"";
    assert!(has_form("3 change(s) of A wait; see tallyd status", format));
    assert!(!has_form("3 change(s) wait; see tallyd status", format));
    assert!(!has_form("3 change(s) of A wait", format));
    assert!(has_form("tallyd is ready", "\"tallyd is ready\""));
    assert!(!has_form("tallyd is ready now", "\"tallyd is ready\""));
}

#[test]
fn each_sample_has_the_level_fields_target_and_form_of_a_line_in_the_sources() {
    let page = page();
    let (_, samples) = page.split_once("\n## Samples\n").unwrap();
    let samples = samples.split("```").nth(1).unwrap().trim_start_matches("json\n");
    let calls = calls();
    let mut invented = Vec::new();
    for line in samples.lines().filter(|line| !line.is_empty()) {
        let sample: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| sample[key].as_str().unwrap();
        let own = ["timestamp", "level", "message", "event", "target"];
        let keys = sample.as_object().unwrap().keys();
        let ours: BTreeSet<_> = keys.filter(|key| !own.contains(&key.as_str())).cloned().collect();
        let is_written = calls.iter().any(|(file, level, arguments)| {
            let (name, names) = fields(arguments);
            let format = arguments.iter().find(|argument| argument.starts_with('"'));
            name == Some(text("event"))
                && *level == text("level")
                && target(file) == text("target")
                && ours.is_subset(&names)
                && format.is_some_and(|format| has_form(text("message"), format))
        });
        if !is_written {
            invented.push(line);
        }
    }
    assert!(invented.is_empty(), "no source writes these samples:\n{}", invented.join("\n"));
}

#[test]
fn what_an_alert_names_exists() {
    let page = page();
    let (_, alerts) = page.split_once("\n## What to alert on\n").unwrap();
    let alerts = alerts.split("\n## ").next().unwrap();
    let names: Vec<_> = alerts.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(names.len() >= 5, "{names:?}");
    for line in names {
        let name = line.split('`').nth(1).unwrap();
        assert!(event::ALL.contains(&name), "{name} is no event");
    }
}
