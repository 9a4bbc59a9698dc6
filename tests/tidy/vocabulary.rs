//! The names of the sources: a type has a name of its own, and no name uses a word that only we know.
//!
//! docs/glossary.md has the terms. A name that must break a rule stands in a list with its reason.

use crate::{Source, over_all, sources};
use std::collections::BTreeMap;

/// Private words, each with the term of docs/glossary.md.
const PRIVATE_WORDS: &[(&str, &str)] = &[
    ("wish", "change"),
    ("wishes", "changes"),
    ("tally", "summary"),
    ("unlucky", "previously failed"),
    ("looker", "origin"),
    ("parcel", "shipment"),
    ("parcels", "shipments"),
    ("desk", "admission"),
    ("ledger", "bad-request budget"),
    ("insist", "retry"),
    ("gather", "load"),
    ("foresee", "preview"),
    ("refold", "project"),
    ("seat", "connection"),
];

/// Names that several types may have, each with its reason.
const SHARED_NAMES: &[(&str, &str)] =
    &[("Command", "the subcommands of a command, by the convention of clap")];

/// Opening words of a doc comment that describe the thing by its use.
const WEAK_OPENINGS: &[&str] =
    &["What", "Whether", "How", "When", "Where", "Why", "Which", "Who", "One", "So", "Nobody", "Somebody"];

/// Returns the names that the file gives to types. Associated types are no types of their own.
fn type_names(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for line in source.code.lines() {
        let mut words =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let is_nested = line.starts_with(' ');
        while let Some(word) = words.next() {
            let declares =
                matches!(word, "struct" | "enum" | "trait" | "union") || (word == "type" && !is_nested);
            if declares {
                found.extend(
                    words.next().filter(|name| name.starts_with(char::is_uppercase)).map(str::to_owned),
                );
                break;
            }
        }
    }
    found
}

fn shared_types(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for source in sources {
        for name in type_names(source) {
            places.entry(name).or_default().push(&source.path);
        }
    }
    places.retain(|name, files| files.len() > 1 && SHARED_NAMES.iter().all(|(shared, _)| shared != name));
    places.into_iter().map(|(name, files)| format!("`{name}` is a type in {}", files.join(", "))).collect()
}

/// Returns a message for each identifier, and for a path, that has a private word as a part.
fn check_words(source: &Source) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let path = source.path.trim_end_matches(".rs");
    let names = source.code.split(|c| !is_name(c)).chain(path.split('/'));
    let mut wrong = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        for part in parts(name) {
            if let Some((word, term)) = PRIVATE_WORDS.iter().find(|(word, _)| *word == part) {
                wrong.push(format!("{}: `{name}` says {word}; the glossary says {term}", source.path));
            }
        }
    }
    wrong.dedup();
    wrong
}

/// Returns the parts of a name in small letters: `InDoubtRow` and `in_doubt_row` have the same.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut begins = true;
    for c in name.chars() {
        if c == '_' {
            begins = true;
            continue;
        }
        match parts.last_mut() {
            Some(part) if !begins && !c.is_uppercase() => part.push(c),
            _ => parts.push(c.to_lowercase().collect()),
        }
        begins = false;
    }
    parts
}

/// Returns a message for each doc comment that opens with a weak word.
fn check_openings(source: &Source) -> Vec<String> {
    let comment = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(|text| text.trim().to_owned())
    };
    let mut wrong = Vec::new();
    let mut before = None;
    for line in source.text.lines() {
        let text = comment(line);
        if let (None, Some(text)) = (&before, &text) {
            let first = text.split(' ').next().unwrap_or("");
            if WEAK_OPENINGS.contains(&first) {
                wrong.push(format!("{}: a doc comment opens with {first}: `{text}`", source.path));
            }
        }
        before = text;
    }
    wrong
}

#[test]
fn a_type_has_a_name_of_its_own() {
    let shared = shared_types(&sources());
    assert!(shared.is_empty(), "\n{}", shared.join("\n"));
}

#[test]
fn names_use_the_words_of_the_glossary() {
    over_all(check_words);
}

#[test]
fn doc_comments_name_the_thing_first() {
    over_all(check_openings);
}

#[test]
fn planted_names_are_found() {
    let source = |text: &str| Source::new("src/push/x.rs", text);
    let twice =
        [source("pub struct Row;\n"), source("enum Row {}\nimpl Iterator for X {\n    type Item = u8;\n}\n")];
    assert_eq!(shared_types(&twice).len(), 1);
    assert_eq!(
        shared_types(&[source("struct Row;\n"), source("enum Command {}\n"), source("enum Command {}\n")])
            .len(),
        0
    );

    assert_eq!(check_words(&source("fn f(wish: u8) {}")).len(), 1);
    assert_eq!(check_words(&source("struct WishRow;")).len(), 1);
    assert_eq!(check_words(&source("// a wish\nlet x = \"wish\"; let gathering = 1;")).len(), 0);
    assert_eq!(check_words(&Source::new("src/push/parcels.rs", "")).len(), 1);

    assert_eq!(check_openings(&source("/// What a call asks.\nfn f() {}\n")).len(), 1);
    assert_eq!(check_openings(&source("/// A call.\n/// What it asks is a SKU.\nfn f() {}\n")).len(), 0);
}
