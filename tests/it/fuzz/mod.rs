//! Fuzzing on a stable compiler: each target is a function that takes bytes and panics if an invariant is
//! broken. fuzz/ hands the same functions to cargo-fuzz (docs/reliability.md, *Fuzzing*).
//!
//! Here each target gets the corpus and some hundred inputs made from it. The inputs follow from
//! `TALLYD_SEED` (1), so a failure is reproducible; `TALLYD_FUZZ_SECONDS` continues with further seeds for
//! that time. A failing input is minimised and written to the folder of temporary files; added to the corpus,
//! it is tried in every run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a target ends the test at a surprise"
)]

mod attribution;
mod changes;
mod choices;
mod configuration;
mod requests;
mod shop;
mod table;
mod wire;

use crate::it::openapi::interface;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    /// Replaces the rest by the rest of another input.
    Splice(Index, Vec<u8>),
}

impl Edit {
    fn apply(self, input: &mut Vec<u8>) {
        let len = input.len();
        match self {
            Edit::Set(at, byte) if len > 0 => input[at.index(len)] = byte,
            Edit::Insert(at, bytes) => {
                let at = at.index(len + 1);
                input.splice(at..at, bytes);
            }
            Edit::Remove(at, count) if len > 0 => {
                let at = at.index(len);
                input.drain(at..(at + count).min(len));
            }
            Edit::Repeat(at, count) if len > 0 => {
                let at = at.index(len);
                let part = input[at..(at + count).min(len)].to_vec();
                input.splice(at..at, part);
            }
            Edit::Splice(at, other) => {
                let at = at.index(len + 1);
                input.truncate(at);
                input.extend(other.into_iter().skip(at));
            }
            Edit::Set(..) | Edit::Remove(..) | Edit::Repeat(..) => {}
        }
    }
}

fn edit(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        2 => (any::<Index>(), vec(any::<u8>(), 1..6)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        1 => (any::<Index>(), 1..40_usize).prop_map(|(at, count)| Edit::Remove(at, count)),
        1 => (any::<Index>(), 1..40_usize).prop_map(|(at, count)| Edit::Repeat(at, count)),
        1 => (any::<Index>(), select(corpus)).prop_map(|(at, other)| Edit::Splice(at, other)),
    ]
}

/// Returns an input of the corpus with some edits, or random bytes.
fn inputs(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edited = (select(corpus.clone()), vec(edit(corpus), 0..8)).prop_map(|(mut input, edits)| {
        edits.into_iter().for_each(|edit| edit.apply(&mut input));
        input
    });
    prop_oneof![4 => edited, 1 => vec(any::<u8>(), 0..200)]
}

/// Returns the corpus of a target, by name. It is never empty, because an empty corpus tests nothing.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|cause| panic!("{}: {cause}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a whole number"))
}

/// Replays the corpus, then tries `cases` inputs of each seed until the time is over.
fn fuzz(target: &str, cases: u32, check: fn(&[u8])) {
    let corpus = corpus(target);
    for (file, input) in &corpus {
        let held = std::panic::catch_unwind(|| check(input));
        assert!(held.is_ok(), "the input is {}", file.display());
    }
    let seeds: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    let until = Instant::now() + Duration::from_secs(number("TALLYD_FUZZ_SECONDS").unwrap_or(0));
    let first = number("TALLYD_SEED").unwrap_or(1);
    let mut tried = 0_u64;
    for seed in first.. {
        trial(target, seed, cases, inputs(seeds.clone()), check);
        tried += u64::from(cases);
        if Instant::now() >= until {
            break;
        }
    }
    println!("{target}: {} of the corpus and {tried} others", seeds.len());
}

fn trial(target: &str, seed: u64, cases: u32, inputs: impl Strategy<Value = Vec<u8>>, check: fn(&[u8])) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let ran = quietly(|| {
        TestRunner::new_with_rng(config, rng).run(&inputs, |input| {
            check(&input);
            Ok(())
        })
    });
    match ran {
        Ok(()) => {}
        Err(TestError::Abort(why)) => panic!("{target}, seed {seed}: {why}"),
        Err(TestError::Fail(why, input)) => {
            let file = std::env::temp_dir().join(format!("tallyd-fuzz-{target}-{seed}"));
            std::fs::write(&file, &input).unwrap();
            panic!(
                "{target}, seed {seed}: {why}\n{}\nthe input is in {}",
                input.escape_ascii(),
                file.display()
            );
        }
    }
}

/// Suppresses panic messages, because minimising an input fails a thousand times; only the last failure is
/// printed.
fn quietly<T>(tried: impl FnOnce() -> T) -> T {
    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info)
            }
        }));
    });
    QUIET.set(true);
    let done = tried();
    QUIET.set(false);
    done
}

#[test]
fn answers_are_decoded_whole_or_refused() {
    fuzz("wire", 2_000, wire::check);
}

#[test]
fn messages_refuse_the_entries_they_mean() {
    fuzz("attribution", 2_000, attribution::check);
}

#[test]
fn a_configuration_is_read_or_its_problems_are_named() {
    fuzz("configuration", 60, configuration::check);
}

#[test]
fn a_table_is_taken_whole_or_its_lines_are_named() {
    fuzz("table", 1_000, table::check);
}

#[test]
fn a_change_that_is_taken_makes_a_request_that_is_taken() {
    fuzz("changes", 600, changes::check);
}

#[test]
fn requests_leave_the_sandbox_in_order() {
    fuzz("requests", 60, requests::check);
}
