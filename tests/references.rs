//! Every reference to a page, a section or a numbered rule resolves in this repository.
//!
//! Checked are `NAME.md` with or without a path, and the anchor behind it (by GitHub's rules). Checked too
//! are the title in `docs/NAME.md, *Title*`, the numbers behind `docs/rules.md`, and relative links of
//! documents. A reference may span several lines.

#![allow(clippy::unwrap_used, reason = "a helper of a test may end the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files and folders that are read.
const PLACES: &[&str] = &[
    "src",
    "tests",
    "benches",
    "fuzz",
    "migrations",
    "config",
    "systemd",
    "docs",
    "README.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "Cargo.toml",
];
/// Endings of the files that are read. Patches of seeded bugs quote sources, which are read themselves.
const ENDINGS: &[&str] = &["rs", "sql", "toml", "sh", "service", "yaml", "md"];

/// Headings of each page, by its path.
type Pages = BTreeMap<String, Vec<String>>;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns path and text of each file except this one, whose planted violations do not resolve.
fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut paths: Vec<PathBuf> = PLACES.iter().map(|place| root().join(place)).collect();
    while let Some(path) = paths.pop() {
        let is_read =
            |path: &Path| path.extension().is_some_and(|end| ENDINGS.iter().any(|read| end == *read));
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let inner = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            paths.extend(inner.filter(|path| !path.ends_with("target")));
        } else if is_read(&path) && name != "tests/references.rs" {
            found.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// Returns the headings of a page, without those in fenced code.
fn headings(page: &str) -> Vec<String> {
    let mut in_code = false;
    let heading = |line: &str| {
        in_code ^= line.starts_with("```");
        let text = line.trim_start_matches('#');
        (!in_code && text.len() < line.len() && text.starts_with(' ')).then(|| text.trim().to_owned())
    };
    page.lines().filter_map(heading).collect()
}

/// Returns the anchors of headings: small letters, no punctuation, hyphens for blanks; repeated ones are
/// numbered.
fn anchors(headings: &[String]) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor = heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

/// Returns a path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the text in one line, without the leaders of comments.
fn flattened(file: &str, text: &str) -> String {
    let leaders: &[&str] = if file.ends_with(".md") { &[] } else { &["//!", "///", "//", "--", "#"] };
    let mut flat = String::with_capacity(text.len());
    for line in text.lines().map(str::trim) {
        let line = leaders.iter().find_map(|leader| line.strip_prefix(*leader)).unwrap_or(line);
        flat.push_str(line.trim_start());
        flat.push(' ');
    }
    flat
}

/// Returns the numbers of rules at the begin of a text: ` 7, 16`, ` 30–34`, ` 1 and 3`.
fn numbers(text: &str) -> Vec<u32> {
    let (mut numbers, mut rest) = (Vec::new(), text.strip_prefix(' '));
    while let Some(text) = rest {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(number) = text[..digits].parse() else { break };
        numbers.push(number);
        rest = [", ", " and ", "–", "-"].iter().find_map(|between| text[digits..].strip_prefix(*between));
    }
    numbers
}

/// Returns the part of a reference that its page lacks; `behind` is the text behind the page's name.
fn lacks(page: &str, headings: &[String], behind: &str) -> Option<String> {
    if let Some(anchor) = behind.strip_prefix('#') {
        let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_'));
        let anchor = anchor.split(ends).next().unwrap_or("");
        return (!anchors(headings).contains(anchor)).then(|| format!("#{anchor}"));
    }
    if let Some(title) = behind.strip_prefix(", *") {
        let title = title.split('*').next().unwrap_or("");
        return (!headings.iter().any(|heading| heading == title)).then(|| format!(", *{title}*"));
    }
    let is_rule = |number: &u32| headings.iter().any(|heading| heading.starts_with(&format!("{number}. ")));
    let numbers = if page == "docs/rules.md" { numbers(behind) } else { Vec::new() };
    numbers.into_iter().find(|number| !is_rule(number)).map(|number| format!(" {number}"))
}

/// Returns the number of references in a text, and those that do not resolve.
fn check(pages: &Pages, file: &str, text: &str) -> (usize, Vec<String>) {
    let (mut count, mut wrong, flat) = (0, Vec::new(), flattened(file, text));
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (at, _) in flat.match_indices(".md") {
        let (before, behind) = (&flat[..at], &flat[at + 3..]);
        let start = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "_./-".contains(c)).len();
        let (led, name) = (&flat[..start], &flat[start..at + 3]);
        let is_address = led.ends_with(':') && name.starts_with("//");
        if name == ".md" || is_address || behind.starts_with(|c: char| c.is_alphanumeric()) {
            continue;
        }
        let mut paths = vec![normal(&format!("{folder}/{name}"))];
        if !(file.ends_with(".md") && led.ends_with("](")) {
            paths.push(normal(name)); // of prose and code; a link counts from its own page
        }
        count += 1;
        match paths.iter().find_map(|path| pages.get_key_value(path)) {
            None => wrong.push(format!("{file}: there is no page {name}")),
            Some((page, headings)) => {
                let part = lacks(page, headings, behind);
                wrong.extend(part.map(|part| format!("{file}: {page} lacks {part}")));
            }
        }
    }
    let links = flat.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    for (target, _) in links.filter(|(target, _)| file.ends_with(".md") && !target.contains(".md")) {
        let is_there = match target.strip_prefix('#') {
            Some(anchor) => anchors(&headings(text)).contains(anchor),
            None => target.contains("://") || root().join(normal(&format!("{folder}/{target}"))).exists(),
        };
        count += 1;
        wrong.extend((!is_there).then(|| format!("{file}: the link {target} leads nowhere")));
    }
    (count, wrong)
}

fn pages(files: &[(String, String)]) -> Pages {
    let pages = files.iter().filter(|(name, _)| name.ends_with(".md"));
    pages.map(|(name, text)| (name.clone(), headings(text))).collect()
}

#[test]
fn every_reference_leads_to_a_page_a_section_or_a_rule() {
    let files = files();
    let (pages, mut count, mut wrong) = (pages(&files), 0, Vec::new());
    for (name, text) in &files {
        let (found, faults) = check(&pages, name, text);
        count += found;
        wrong.extend(faults);
    }
    assert!(files.len() > 300 && count > 200, "only {count} references in {} files were found", files.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Returns the files, folders, tests, constants and macros in a page's code spans that do not exist. A path
/// counts from the root, from `src`, or from the folder of the tests of crashes. A name in capitals exists if
/// a source has it.
fn unknown_names(page: &str, [functions, macros, words]: &[BTreeSet<&str>; 3]) -> Vec<String> {
    let spans = page.split('`').skip(1).step_by(2);
    let is_name = |span: &str, more: &str| {
        span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || more.contains(c))
    };
    let is_path = |span: &str| {
        let is_file = ENDINGS.iter().any(|end| span.ends_with(&format!(".{end}")));
        (is_file || span.contains('/')) && !span.starts_with('/') && is_name(span, "_./-")
    };
    let exists =
        |path: &str| ["", "src", "tests/program/crash"].iter().any(|at| root().join(at).join(path).exists());
    let is_test = |span: &str| span.matches('_').count() >= 4 && is_name(span, "_");
    let is_constant = |span: &str| {
        span.len() > 1 && span.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let is_macro = |span: &str| span.strip_suffix('!').is_some_and(|name| is_name(name, "_"));
    let is_unknown = |span: &&str| {
        (is_path(span) && !exists(span))
            || (is_test(span) && !functions.contains(span))
            || (is_constant(span) && !words.contains(span))
            || (is_macro(span) && !macros.contains(span.trim_end_matches('!')))
    };
    spans.filter(is_unknown).map(str::to_owned).collect()
}

#[test]
fn the_architecture_names_files_and_tests_that_exist() {
    let files = files();
    let ends = |end: &'static str| files.iter().filter(move |(name, _)| name.ends_with(end));
    let sources = || ends(".rs").map(|(_, text)| text.as_str());
    let functions =
        sources().flat_map(|text| text.split("fn ").skip(1)).filter_map(|rest| rest.split('(').next());
    let macros = sources()
        .flat_map(|text| text.split("macro_rules! ").skip(1))
        .filter_map(|rest| rest.split(' ').next());
    let statements = ends(".sql").map(|(_, text)| text.as_str());
    let words =
        sources().chain(statements).flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '_')));
    let names = [functions.collect(), macros.collect(), words.collect()];
    let (_, page) = files.iter().find(|(name, _)| name == "docs/architecture.md").unwrap();
    assert_eq!(unknown_names(page, &names), Vec::<String>::new());
    let planted = "In ```\ncode\n``` `push/foresee.rs`, `store/nowhere`, `a_test_that_is_not_there`, \
                   `NO_SUCH_CONSTANT`, `no_such_macro!`; `push/brake.rs`, `/etc/x`, `JOBS`, `events!`";
    assert_eq!(unknown_names(planted, &names).len(), 5);
}

#[test]
fn planted_violations_are_found() {
    let pages = pages(&files());
    let wrong = |file: &str, text: &str| check(&pages, file, text).1.len();
    assert_eq!(wrong("src/x.rs", "/// In the order of positions (rules.md 3)."), 1, "no such page beside it");
    assert_eq!(wrong("src/x.rs", "/// In the order of positions (docs/rules.md 5, 42)."), 1, "no such rule");
    assert_eq!(wrong("src/x.rs", "/// As far as we know (docs/rules.md\n/// 0–3)."), 1, "on the next line");
    assert_eq!(wrong("migrations/x.sql", "-- docs/nowhere.md"), 1);
    assert_eq!(wrong("src/x.rs", "//! docs/rules.md#nowhere"), 1);
    assert_eq!(wrong("src/x.rs", "//! docs/interface.md, *Get no\n//! such thing*"), 1);
    assert_eq!(wrong("docs/x.md", "[a](docs/rules.md), [b](#here), [c](nowhere.txt), [d](../src)"), 3);
    let fine = "/// docs/rules.md 4, 6, docs/rules.md 19–23: [`limiter`](super::limiter), README.md,\n\
                /// docs/reconciliation.md#two-writers-measured, https://a.example/b.md,\n\
                /// docs/interface.md, *Update\n\
                /// quantity on hand*";
    assert_eq!(wrong("src/limiter/x.rs", fine), 0);
    let fine = "# Here\n[a](rules.md#our-own-write-is-no-sale), [b](#here), docs/journal.md";
    assert_eq!(wrong("docs/x.md", fine), 0);
}
