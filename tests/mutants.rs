//! The seeded bugs (`tests/mutants/*.patch`) stay valid: each still applies to the sources, names existing
//! tests, and stands in `docs/mutants.md`. Only `tests/mutants/run.sh` shows that the tests kill them,
//! because it builds each.
//!
//! A patch applies here if its old lines stand in their file once and in one piece, without git. That is
//! stricter than `git apply`, so that a patch never applies at another place than intended.

#![allow(clippy::unwrap_used, reason = "a helper of a test may end the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const BUGS: usize = 84;
/// Places of the suites: binaries, and the modules of tests/it and tests/program.
const SUITES: [&str; 3] = ["tests", "tests/it", "tests/program"];

struct Bug {
    name: String,
    text: String,
}

/// A hunk of the patch: its file, and the lines before and after.
struct Hunk {
    file: String,
    old: String,
    new: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// Returns all seeded bugs, by name.
fn bugs() -> Vec<Bug> {
    let entries = std::fs::read_dir(root().join("tests/mutants")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let bug = |path: PathBuf| Bug {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        text: read(path),
    };
    let is_patch = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "patch");
    let mut bugs: Vec<Bug> = paths.filter(is_patch).map(bug).collect();
    bugs.sort_by(|one, two| one.name.cmp(&two.name));
    bugs
}

impl Bug {
    /// Returns the tests that kill the bug: the suite, and the name within.
    fn killers(&self) -> Vec<(&str, &str)> {
        let line = self.text.lines().find_map(|line| line.strip_prefix("Killed-by: ")).unwrap_or_default();
        line.split_whitespace().filter_map(|killer| killer.split_once('/')).collect()
    }

    fn hunks(&self) -> Vec<Hunk> {
        let (mut file, mut hunks) = (String::new(), Vec::<Hunk>::new());
        for line in self.text.lines() {
            if let Some(path) = line.strip_prefix("+++ b/") {
                file = path.to_owned();
            } else if line.starts_with("--- a/") {
                // The next file; its name follows.
            } else if line.starts_with("@@") {
                hunks.push(Hunk { file: file.clone(), old: String::new(), new: String::new() });
            } else if let (Some(hunk), Some((mark, rest))) = (hunks.last_mut(), line.split_at_checked(1)) {
                let line = format!("{rest}\n");
                match mark {
                    " " => [&mut hunk.old, &mut hunk.new].into_iter().for_each(|side| side.push_str(&line)),
                    "-" => hunk.old.push_str(&line),
                    "+" => hunk.new.push_str(&line),
                    _ => {}
                }
            }
        }
        hunks
    }
}

/// Returns true if the suite has a test of this name: `lib`, or a file or folder of [`SUITES`].
fn is_there(suite: &str, name: &str) -> bool {
    let mut paths = match suite {
        "lib" => vec![root().join("src")],
        suite => {
            let places = SUITES.iter().map(|folder| root().join(folder).join(suite));
            places.flat_map(|place| [place.with_extension("rs"), place]).collect()
        }
    };
    let wanted = format!("fn {name}(");
    while let Some(path) = paths.pop() {
        if let Ok(entries) = std::fs::read_dir(&path) {
            paths.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") && read(path).contains(&wanted)
        {
            return true;
        }
    }
    false
}

#[test]
fn every_seeded_bug_still_applies_to_the_sources() {
    let bugs = bugs();
    let numbers: BTreeSet<Option<usize>> =
        bugs.iter().map(|bug| bug.name.split('-').next()?.parse().ok()).collect();
    // The number of a deleted bug stays free, so that a number always names the same bug.
    assert!(!numbers.contains(&None) && numbers.len() == bugs.len(), "each has a number of its own");
    assert_eq!(bugs.len(), BUGS, "all of them");
    let mut wrong = Vec::new();
    for bug in &bugs {
        let hunks = bug.hunks();
        assert!(!hunks.is_empty(), "{} changes nothing", bug.name);
        for Hunk { file, old, new } in hunks {
            let found = read(&file).matches(&old).count();
            if found != 1 || old == new || !(file.starts_with("src/") || file.starts_with("migrations/")) {
                wrong.push(format!("{}: its lines stand {found} time(s) in {file}", bug.name));
            }
        }
    }
    assert!(wrong.is_empty(), "write these bugs anew for the sources as they are:\n{}", wrong.join("\n"));
}

#[test]
fn every_seeded_bug_names_the_tests_that_kill_it_and_stands_on_its_page() {
    let page = read("docs/mutants.md");
    let mut wrong = Vec::new();
    for bug in bugs() {
        let row = page.lines().find(|line| line.contains(&format!("`{}`", bug.name))).unwrap_or_default();
        let killers = bug.killers();
        if row.is_empty() || killers.is_empty() {
            wrong.push(format!("{}: no row in docs/mutants.md, or no test is said to kill it", bug.name));
        }
        for (suite, name) in killers {
            if !is_there(suite, name) {
                wrong.push(format!("{}: there is no test {suite}/{name}", bug.name));
            }
            if !row.contains(&format!("`{name}`")) {
                wrong.push(format!("{}: its row in docs/mutants.md does not name {name}", bug.name));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
