//! Every rule of synchronisation has a row in `docs/reconciliation.md` that names the tests which hold it, and each of
//! them is there.

#![allow(clippy::unwrap_used, reason = "a helper of a test may end the test")]

use std::path::{Path, PathBuf};

const HEADING: &str = "## Which test holds which rule";
/// The rules the table speaks of; the later ones are the budget's and the journal's.
const RULES: std::ops::RangeInclusive<u32> = 1..=29;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The table's rows: rule, and the cell that names its tests.
fn rows() -> Vec<(u32, String)> {
    let page = std::fs::read_to_string(root().join("docs/reconciliation.md")).unwrap();
    let table = page.split(HEADING).nth(1).unwrap_or_default().split("\n## ").next().unwrap_or_default();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        Some((cells.first()?.parse().ok()?, (*cells.get(2)?).to_owned()))
    };
    table.lines().filter_map(row).collect()
}

/// The names in backticks.
fn named(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The names of all tests.
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
    text.split("test]\n").skip(1).chain(text.split("multi_thread\")]\n").skip(1)).filter_map(after).collect()
}

#[test]
fn every_rule_names_the_tests_that_hold_it_and_they_are_there() {
    let (rows, tests) = (rows(), tests());
    assert!(tests.len() > 400, "the tests were not found");
    let listed: Vec<u32> = rows.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(listed, RULES.collect::<Vec<_>>(), "each rule has one row, in order");
    let mut missing = Vec::new();
    for (rule, cell) in &rows {
        let names = named(cell);
        if names.is_empty() {
            missing.push(format!("rule {rule} names no test"));
        }
        let gone = names.into_iter().filter(|name| !tests.iter().any(|test| test == name));
        missing.extend(gone.map(|name| format!("rule {rule}: there is no test `{name}`")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// rules.md 14.
#[test]
fn what_a_quantity_means_is_said_in_the_readme_and_in_the_help() {
    let meaning = "on the shelf, less what is sold and not yet picked";
    for file in ["README.md", "src/cli/quantity.rs"] {
        let text = std::fs::read_to_string(root().join(file)).unwrap().replace("/// ", "");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(meaning), "{file}");
    }
}
