//! The structure of the sources: imports between rooms, files that may name a crate, sizes.
//!
//! It reads the sources as text, with comments and literals blanked, so that it needs no compiler. The
//! parsing is rough and fails only on unusual code. [`ROOMS`] is the map of the rooms, and a newcomer may
//! begin there. Each rule is also tried on a planted violation, because a check that finds nothing may have
//! checked nothing.

#![allow(clippy::unwrap_used, reason = "a helper of a test may end the test")]

mod vocabulary;

use std::path::{Path, PathBuf};

/// Rooms, each with the rooms it may import.
///
/// First stand nouns and pure rooms, then the edges, then the rooms that join them. Every room may import
/// `telemetry::event` (names only). Of `client`, `store` names the records of the wire alone, so that a record has one
/// type from the wire to the mirror. No room below `daemon` imports `config`. The sandbox imports nothing.
const ROOMS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("outbox", &["model"]),
    ("reconcile", &["model", "outbox"]),
    ("journal", &["model"]),
    ("schedule", &["model"]),
    ("telemetry", &["model"]),
    ("limiter", &["model"]),
    ("client", &["model"]),
    ("store", &["model", "outbox", "journal", "client", "reconcile"]),
    ("projection", &["model", "journal", "client", "store"]),
    ("exec", &["model", "outbox", "reconcile", "journal", "limiter", "client", "store", "projection"]),
    ("health", &["model", "outbox", "limiter", "store"]),
    ("notify", &["model", "outbox", "client", "store", "health"]),
    // It reads sections into the settings of the rooms that use them.
    (
        "config",
        &["model", "schedule", "telemetry", "reconcile", "limiter", "client", "exec", "store", "notify"],
    ),
    (
        "sync",
        &["model", "outbox", "reconcile", "journal", "schedule", "client", "store", "projection", "exec"],
    ),
    ("settle", &["model", "outbox", "reconcile", "client", "store", "exec"]),
    (
        "push",
        &[
            "model",
            "outbox",
            "reconcile",
            "limiter",
            "client",
            "store",
            "projection",
            "exec",
            "settle", // an answer that names no entries is checked at once
        ],
    ),
    ("explain", &["model", "outbox", "store", "push"]),
    (
        "daemon",
        &[
            "model",
            "outbox",
            "reconcile",
            "journal",
            "schedule",
            "limiter",
            "client",
            "store",
            "config",
            "projection",
            "exec",
            "sync",
            "settle",
            "push",
            "health",
            "notify",
            "telemetry",
        ],
    ),
    // The data that the command line and the page share.
    (
        "present",
        &[
            "model",
            "outbox",
            "reconcile",
            "schedule",
            "limiter",
            "store",
            "config",
            "exec",
            "settle",
            "health",
            "daemon",
            "explain",
        ],
    ),
    ("sandbox", &[]),
    (
        "web",
        &[
            "model",
            "outbox",
            "exec",
            "config",
            "store",
            "health",
            "daemon",
            "explain",
            "present",
            "telemetry",
        ],
    ),
    (
        "cli",
        &[
            "model",
            "outbox",
            "reconcile",
            "journal",
            "schedule",
            "telemetry",
            "limiter",
            "client",
            "store",
            "projection",
            "exec",
            "config",
            "sync",
            "settle",
            "push",
            "health",
            "daemon",
            "notify",
            "explain",
            "present",
            "sandbox",
            "web",
        ],
    ),
];

/// Crates with the only files or folders that may name them.
const CRATES: &[(&str, &[&str])] = &[
    ("governor", &["src/limiter/pacer.rs"]),
    ("backoff", &["src/model/backoff.rs", "src/model/mod.rs"]), // mod.rs names its own module
    ("tokio_cron_scheduler", &["src/schedule/driver.rs"]),
    ("croner", &["src/schedule/rule.rs"]),
    ("reqwest", &["src/client/"]),
    ("sqlx", &["src/store/", "src/sandbox/"]),
    ("sqlx_macros", &["src/store/", "src/sandbox/"]),
    ("sqlx::sqlite", &["src/store/engine/", "src/sandbox/"]),
    ("axum", &["src/sandbox/", "src/web/"]),
    ("hyper", &["src/web/server.rs", "src/sandbox/http/server.rs"]),
    ("hyper_util", &["src/web/server.rs", "src/sandbox/http/server.rs"]),
    ("maud", &["src/web/"]),
    ("tracing_subscriber", &["src/telemetry/"]),
    ("clap", &["src/cli/", "src/main.rs", "src/sandbox/mod.rs"]), // the options of the sandbox are its command's
    ("console", &["src/cli/"]),
    ("nix", &["src/cli/decider.rs"]),
    ("sd_notify", &["src/daemon/"]),
];

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;
/// Fields that the JSON log writer uses itself; a field of ours with such a name would be written twice.
const BANNED_FIELDS: [&str; 5] = ["level", "target", "timestamp", "message", "span"];

struct Source {
    path: String,
    text: String,
    /// Text with comments and literals blanked, with unchanged lines.
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into(), code: blank(text) }
    }

    /// Returns the room: `src/store/pool.rs` and `src/store.rs` belong to `store`, `src/main.rs` and
    /// `src/lib.rs` to none.
    fn room(&self) -> Option<&str> {
        let inner = self.path.strip_prefix("src/")?;
        let room = inner.split('/').next()?.trim_end_matches(".rs");
        ROOMS.iter().map(|(name, _)| *name).find(|name| *name == room)
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.contains("/tests/")
    }

    /// Returns the code before the file's unit tests.
    fn without_tests(&self) -> &str {
        if self.is_test() { "" } else { self.code.split("#[cfg(test)]").next().unwrap_or("") }
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
                found.push(Source::new(name, &read(&path)));
            }
        }
    }
    assert!(found.len() > 10, "the sources were not found");
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Replaces comments and the content of literals by spaces; lines keep their positions.
fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = literal_or_comment(rest);
        let taken = if skipped > 0 { skipped } else { first.len_utf8() };
        let (token, after) = rest.split_at(taken);
        let keep = |c: char| if skipped == 0 || c == '\n' { c } else { ' ' };
        out.extend(token.chars().map(keep));
        rest = after;
    }
    out
}

/// Returns the length of the comment, string or character literal that `rest` begins with; 0 if there is
/// none.
fn literal_or_comment(rest: &str) -> usize {
    let until =
        |from: usize, end: &str| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return until(2, "*/");
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            return until(hashes + 2, &format!("\"{}", "#".repeat(hashes)));
        }
    }
    match rest.as_bytes() {
        [b'"', ..] => quoted(rest, '"'),
        [b'\'', b'\\', ..] => quoted(rest, '\''),
        [b'\'', ..] if rest.chars().nth(2) == Some('\'') => {
            rest.char_indices().nth(3).map_or(rest.len(), |(at, _)| at)
        }
        _ => 0,
    }
}

fn quoted(rest: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\\' if !escaped => escaped = true,
            c if c == end && !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// Returns the first names that follow `prefix` (`crate::`), groups in braces included.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(members(group)),
            None => names.push(path_head(rest)),
        }
    }
    names
}

/// Returns the members of a group up to its closing brace, each with its second segment: `model::time`.
fn members(group: &str) -> Vec<String> {
    let mut depth = 1;
    let mut members = vec![String::new()];
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => members.push(String::new()),
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if let Some(last) = members.last_mut().filter(|_| c != ',') {
            last.push(c);
        }
    }
    members.iter().map(|member| path_head(member.trim())).filter(|name| !name.is_empty()).collect()
}

/// Returns the first two segments, because `telemetry::event` is open to every room.
fn path_head(path: &str) -> String {
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(path.len());
    path[..end].split("::").take(2).collect::<Vec<_>>().join("::").trim_end_matches(':').to_owned()
}

fn check_imports(source: &Source) -> Vec<String> {
    let Some(room) = source.room() else { return Vec::new() };
    let allowed = ROOMS.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, allowed)| *allowed);
    let mut imported = names_after(&source.code, "crate::");
    imported.extend(names_after(&source.code, "tallyd::"));
    if !source.is_test() {
        imported.extend(names_after(source.without_tests(), &"super::".repeat(depth(&source.path))));
    }
    let forbidden = |name: &&String| {
        let head = name.split("::").next().unwrap_or("");
        let is_room = ROOMS.iter().any(|(room, _)| *room == head);
        is_room && head != room && !allowed.contains(&head) && *name != "telemetry::event"
    };
    imported
        .iter()
        .filter(forbidden)
        .map(|name| format!("{}: `{room}` may not import `{name}`", source.path))
        .collect()
}

/// Returns the number of modules above the file's own contents, the crate's root included.
fn depth(path: &str) -> usize {
    let inner = path.trim_start_matches("src/").trim_end_matches("/mod.rs");
    inner.split('/').count()
}

fn check_crates(source: &Source) -> Vec<String> {
    let named = |name: &str| {
        let used = source.code.match_indices(&format!("{name}::")).any(|(at, _)| {
            !source.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
        });
        used || source.code.contains(&format!("use {name} as "))
    };
    let strays = CRATES
        .iter()
        .filter(|(name, doors)| named(name) && !doors.iter().any(|door| source.path.starts_with(door)));
    strays
        .map(|(name, doors)| format!("{}: names `{name}`, which stays behind {}", source.path, doors[0]))
        .collect()
}

fn check_shape(source: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    if !source.text.starts_with("//!") {
        wrong.push(format!("{}: does not open with what it is (`//!`)", source.path));
    }
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        wrong.push(format!("{}: {lines} lines, at most {FILE_LINES}", source.path));
    }
    for (name, lines) in functions(source.without_tests()) {
        if lines > FUNCTION_LINES {
            wrong.push(format!("{}: `{name}` has {lines} lines, at most {FUNCTION_LINES}", source.path));
        }
    }
    wrong
}

/// Returns every function with a body, and its lines from signature to closing brace.
fn functions(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if let Some(body) = body(&code[at..]).filter(|_| !name.is_empty()) {
            found.push((name, body.lines().count()));
        }
    }
    found
}

/// Returns the text from a signature to the closing brace of its body; `None` for a declaration without a
/// body.
fn body(from: &str) -> Option<&str> {
    let (mut depth, mut parens) = (0usize, 0usize);
    for (at, c) in from.char_indices() {
        match c {
            '(' | '[' => parens += 1,
            ')' | ']' => parens = parens.saturating_sub(1),
            ';' if depth == 0 && parens == 0 => return None,
            '{' => depth += 1,
            '}' if depth <= 1 => return Some(&from[..=at]),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn check_log_fields(source: &Source) -> Vec<String> {
    let macros = ["trace!(", "debug!(", "info!(", "warn!(", "error!("];
    let mut wrong = Vec::new();
    for (at, name) in macros.iter().flat_map(|name| source.code.match_indices(name)) {
        let arguments = source.code[at + name.len()..].split(';').next().unwrap_or("");
        for field in BANNED_FIELDS {
            let named = |part: &str| {
                part.split('=').next().is_some_and(|left| left.trim() == field) && part.contains('=')
            };
            if arguments.split(',').any(named) {
                wrong.push(format!("{}: a log field named `{field}`", source.path));
            }
        }
    }
    wrong
}

/// Returns a message for each dependency whose group has no opening comment.
fn check_reasons(manifest: &str) -> Vec<String> {
    let (mut in_dependencies, mut reasoned) = (false, false);
    let mut wrong = Vec::new();
    for line in manifest.lines() {
        match line.trim() {
            "" => reasoned = false,
            line if line.starts_with('[') => {
                (in_dependencies, reasoned) = (line.ends_with("dependencies]"), false)
            }
            line if line.starts_with('#') => reasoned = true,
            line if in_dependencies && !reasoned => {
                wrong.push(format!("Cargo.toml: no reason beside `{line}`"))
            }
            _ => {}
        }
    }
    wrong
}

/// Applies a rule to all sources.
fn over_all(check: impl Fn(&Source) -> Vec<String>) {
    let wrong: Vec<_> = sources().iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn rooms_import_only_what_the_map_allows() {
    over_all(check_imports);
}

#[test]
fn crates_stay_behind_their_doors() {
    over_all(check_crates);
}

#[test]
fn files_say_what_they_are_and_stay_small() {
    over_all(check_shape);
}

#[test]
fn log_fields_do_not_collide_with_the_writers_own() {
    over_all(check_log_fields);
}

#[test]
fn every_room_is_on_the_map_and_the_map_has_no_circles() {
    for source in sources() {
        let known = source.room().is_some() || ["src/lib.rs", "src/main.rs"].contains(&source.path.as_str());
        assert!(known, "{} is in a room that is not on the map", source.path);
    }
    for (at, (room, allowed)) in ROOMS.iter().enumerate() {
        let above = |name: &&&str| !ROOMS[..at].iter().any(|(earlier, _)| earlier == *name);
        assert_eq!(allowed.iter().find(above), None, "`{room}` may only import what stands above it");
    }
}

#[test]
fn every_dependency_has_its_reason() {
    assert_eq!(check_reasons(&read(&root().join("Cargo.toml"))), Vec::<String>::new());
}

#[test]
fn the_unit_of_one_account_and_of_several_differ_in_paths_only() {
    let body = |name: &str| {
        let text = read(&root().join("systemd").join(name));
        text.split_once("\n\n").unwrap().1.to_owned()
    };
    let several = body("tallyd@.service").replace("tallyd/%i", "tallyd").replace(" (%i)", "");
    assert_eq!(several, body("tallyd.service"));
}

#[test]
fn planted_violations_are_found() {
    let imports = |path: &str, text: &str| check_imports(&Source::new(path, text)).len();
    assert_eq!(imports("src/store/pool.rs", "use crate::exec::JobError;"), 1);
    assert_eq!(
        imports("src/client/transport/http.rs", "use crate::{model::Sku, store::{Writer, Reader}};"),
        1
    );
    assert_eq!(imports("src/limiter/mod.rs", "fn f() { crate::config::Config::load(); }"), 1);
    assert_eq!(imports("src/push/send.rs", "use crate::sandbox::Sandbox;"), 1);
    assert_eq!(imports("src/store/pool.rs", "use super::super::exec::JobError;"), 1);
    assert_eq!(imports("src/sandbox/platform/company.rs", "use crate::model::Sku;"), 1);
    assert_eq!(imports("src/store/pool.rs", "use crate::telemetry;"), 1);
    assert_eq!(imports("src/web/mod.rs", "use crate::cli::output;"), 1);
    let fine = "use crate::{model::{Sku, time}, telemetry::event};\nuse super::client;\n// crate::client\nconst S: &str = \"crate::client\";";
    assert_eq!(imports("src/store/pool.rs", fine), 0);
    assert_eq!(imports("src/cli/commands/demo/mod.rs", "use crate::sandbox::Sandbox;"), 0);

    let crates = |path: &str, text: &str| check_crates(&Source::new(path, text)).len();
    assert_eq!(crates("src/exec/mod.rs", "let pool: sqlx::Pool<Sqlite>;"), 1);
    assert_eq!(crates("src/limiter/window.rs", "use governor::Quota;"), 1);
    assert_eq!(crates("src/store/outbox/changes.rs", "use sqlx::sqlite::SqliteRow;"), 1);
    assert_eq!(crates("src/limiter/pacer.rs", "use governor::Quota;\nuse my_sqlx::X;"), 0);

    let shape = |text: &str| check_shape(&Source::new("src/model/x.rs", text)).len();
    let long = format!("//! x\nfn long() {{\n{}}}\n", "    step();\n".repeat(FUNCTION_LINES));
    assert_eq!(shape("fn f() {}"), 1);
    assert_eq!(shape(&long), 1);
    assert_eq!(shape(&format!("//! x\n#[cfg(test)]\n{}", &long[6..])), 0);
    assert_eq!(shape(&"//! x\n".repeat(FILE_LINES + 1)), 1);
    assert_eq!(shape("//! x\nfn f(a: [u8; 2]) -> char { '\"' }\nfn g() { let _ = '{'; }\n"), 0);

    let fields = |text: &str| check_log_fields(&Source::new("src/exec/x.rs", text)).len();
    assert_eq!(fields("info!(event = event::STALE, level = 3, \"old\");"), 1);
    assert_eq!(fields("info!(target: \"x\", event = event::STALE, age_s, \"level = {level}\");"), 0);

    assert_eq!(check_reasons("[dependencies]\nserde = \"1\"\n").len(), 1);
    assert_eq!(check_reasons("[dependencies]\n# Wire types.\nserde = \"1\"\nserde_json = \"1\"\n").len(), 0);
}
