//! Every rule of `docs/rules.md` names the tests that hold it, and each of these tests exists.

#![allow(clippy::unwrap_used, reason = "a helper of a test may end the test")]

use std::path::{Path, PathBuf};

/// Numbers of the rules.
const RULES: std::ops::RangeInclusive<u32> = 1..=23;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the rules of the page: number, and the part of the section that names the tests.
fn rules() -> Vec<(u32, String)> {
    let page = std::fs::read_to_string(root().join("docs/rules.md")).unwrap();
    let rule = |section: &str| {
        let number = section.split_once(". ")?.0.parse().ok()?;
        Some((number, section.split_once("*Held by:*").map_or("", |(_, tests)| tests).to_owned()))
    };
    page.split("\n## ").skip(1).filter_map(rule).collect()
}

/// Returns the names in backticks.
fn named(part: &str) -> Vec<&str> {
    part.split('`').skip(1).step_by(2).collect()
}

/// Returns the names of all tests.
fn tests() -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join("src"), root().join("tests")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.extend(tests_of(&path));
            }
        }
    }
    found
}

fn tests_of(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let after = |part: &str| Some(part.split_once("fn ")?.1.split_once('(')?.0.to_owned());
    let attributes = ["test]\n", "multi_thread\")]\n", "start_paused = true)]\n"];
    let marked = attributes.iter().flat_map(|attribute| text.split(*attribute).skip(1)).filter_map(after);
    let listed = text.split("\non_both_engines!(").skip(1).filter_map(|list| list.split_once(");"));
    let listed = listed.flat_map(|(list, _)| list.split(',')).map(|name| name.trim().to_owned());
    marked.chain(listed).collect()
}

#[test]
fn every_rule_names_the_tests_that_hold_it_and_they_are_there() {
    let (rules, tests) = (rules(), tests());
    assert!(tests.len() > 400, "the tests were not found");
    let listed: Vec<u32> = rules.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(listed, RULES.collect::<Vec<_>>(), "each rule has one section, in order");
    let mut missing = Vec::new();
    for (rule, part) in &rules {
        let names = named(part);
        if names.is_empty() {
            missing.push(format!("rule {rule} names no test"));
        }
        let gone = names.into_iter().filter(|name| !tests.iter().any(|test| test == name));
        missing.extend(gone.map(|name| format!("rule {rule}: there is no test `{name}`")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The README and the help define a quantity (docs/glossary.md, *Terms*).
#[test]
fn what_a_quantity_means_is_said_in_the_readme_and_in_the_help() {
    let meaning = "on the shelf, less what is sold and not yet picked";
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    // The page is the printed help; a test of `tallyd man` compares the two.
    let reference = std::fs::read_to_string(root().join("docs/reference.md")).unwrap();
    let help = reference.split("\n## ").find(|help| help.starts_with("tallyd quantity\n")).unwrap();
    for (name, text) in [("README.md", readme.as_str()), ("tallyd quantity --help", help)] {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(meaning), "{name}");
    }
}
