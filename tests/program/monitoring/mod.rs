//! The monitoring kit of docs/monitoring: its rules on lines and metrics of the program, by the tools that read
//! them.
//!
//! The tests that need `promtool` or `prometheus` are left out where the host has none. With
//! `TALLYD_TEST_PROMETHEUS=require` they fail there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

mod alerts;
mod dashboard;
mod log_rules;

use crate::support::cluster::leave_out_unless_required;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the variable that demands Prometheus.
const SWITCH: &str = "TALLYD_TEST_PROMETHEUS";

/// Returns the path of a file of the kit.
fn kit_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring").join(name)
}

fn kit_text(name: &str) -> String {
    std::fs::read_to_string(kit_file(name)).unwrap()
}

/// Returns true if the host has a program of Prometheus; prints or, with the switch, asserts it.
fn has_prometheus(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        leave_out_unless_required(SWITCH, &format!("{program} (Debian: prometheus)"));
    }
    found
}

/// Returns the metrics that a text names.
fn metrics_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tallyd_")).map(str::to_owned).collect()
}

/// `the_metrics_file_holds_what_its_page_promises` compares the page with the metrics of a daemon.
#[test]
fn every_metric_of_the_kit_is_a_metric_of_the_page() {
    let page = include_str!("../../../docs/operations.md");
    let rows = page.lines().filter(|line| line.starts_with("| `tallyd_"));
    let known: BTreeSet<&str> = rows.map(|row| row.split(['`', '{']).nth(1).unwrap()).collect();
    let files = ["alerts.yml", "alerts_test.yml", "dashboard.json"].map(|name| (name, kit_text(name)));
    for (name, text) in files {
        let named = metrics_of(&text);
        assert!(named.len() > 10, "{name}: {named:?}");
        for metric in named {
            assert!(known.contains(metric.as_str()), "{name}: no page describes {metric}");
        }
    }
}

#[test]
fn the_package_brings_each_file_of_the_kit() {
    let manifest = include_str!("../../../Cargo.toml");
    for entry in std::fs::read_dir(kit_file("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let asset = format!(r#"["docs/monitoring/{name}", "usr/share/tallyd/monitoring/", "644"]"#);
        assert!(manifest.contains(&asset), "Cargo.toml lacks {asset}");
    }
}
