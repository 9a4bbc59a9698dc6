//! The log rules for Loki and for Vector, applied to lines of the program.
//!
//! The rules are read in the part of their languages that they use: comparisons of fields joined by `|` (Loki)
//! and `&&` (Vector). Anything else fails. The lines are those of runs of the program, and the samples of
//! docs/logging.md for the events that a test cannot bring about. `.ci/log-rules` reads the rules with parsers of their
//! languages.

use super::alerts::alert_rules;
use super::kit_text;
use crate::support::World;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

/// Rules by name: alternatives of a field's value, all of which must hold.
type LogRules = BTreeMap<String, Vec<(String, BTreeSet<String>)>>;

#[derive(Deserialize)]
struct VectorFile {
    transforms: VectorTransforms,
}

#[derive(Deserialize)]
struct VectorTransforms {
    tallyd_routes: VectorRoutes,
}

#[derive(Deserialize)]
struct VectorRoutes {
    route: BTreeMap<String, String>,
}

/// Returns a field and its values of `event=~"a|b"`.
fn loki_filter(filter: &str) -> (String, BTreeSet<String>) {
    let (field, values) = filter.split_once('=').unwrap_or_else(|| panic!("not read: {filter}"));
    let is_pattern = values.starts_with('~');
    let values = values.trim_start_matches('~').trim_matches('"');
    let is_literal = |c: char| c.is_ascii_alphanumeric() || "._|".contains(c);
    assert!(values.chars().all(is_literal) && (is_pattern || !values.contains('|')), "not read: {filter}");
    (field.to_owned(), values.split('|').map(str::to_owned).collect())
}

fn loki_rules() -> LogRules {
    let rules = alert_rules("loki.yml").into_iter().map(|rule| {
        let (_, inner) = rule.expr.split_once(r#"{unit="tallyd.service"} | json | "#).unwrap();
        let (filters, _) = inner.split_once(" [").unwrap();
        (rule.alert, filters.split(" | ").map(loki_filter).collect())
    });
    rules.collect()
}

/// Returns a field and its values of `.event == "a"` or `includes(["a", "b"], .event)`.
fn vector_condition(condition: &str) -> (String, BTreeSet<String>) {
    let parsed = match condition.strip_prefix("includes(").and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => inner.rsplit_once(", .").map(|(list, field)| (field, list.to_owned())),
        None => condition.split_once(" == ").map(|(field, one)| (&field[1..], format!("[{one}]"))),
    };
    let (field, list) = parsed.unwrap_or_else(|| panic!("not read: {condition}"));
    (field.to_owned(), serde_json::from_str(&list).unwrap())
}

fn vector_rules() -> LogRules {
    let file: VectorFile = serde_saphyr::from_str(&kit_text("vector.yaml")).unwrap();
    let routes = file.transforms.tallyd_routes.route.into_iter();
    routes.map(|(name, rule)| (name, rule.split(" && ").map(vector_condition).collect())).collect()
}

/// Returns the names of the rules that a line matches.
fn matched(rules: &LogRules, line: &Value) -> BTreeSet<String> {
    let holds = |(field, values): &(String, BTreeSet<String>)| {
        line[field].as_str().is_some_and(|value| values.contains(value))
    };
    rules.iter().filter(|(_, rule)| rule.iter().all(holds)).map(|(name, _)| name.clone()).collect()
}

/// Returns the samples of docs/logging.md.
fn samples() -> Vec<Value> {
    let page = include_str!("../../../docs/logging.md");
    let (_, samples) = page.split_once("\n## Samples\n").unwrap();
    let samples = samples.split("\n## ").next().unwrap().lines();
    samples.filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the log lines of `run --once`.
async fn lines_of_a_run(world: &World, more: &str) -> Vec<Value> {
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml(more)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(config).args(["run", "--once"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let lines = String::from_utf8(output.stderr).unwrap();
    let parsed = lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")));
    parsed.collect()
}

fn matches(rules: &LogRules, lines: &[Value]) -> BTreeSet<String> {
    lines.iter().flat_map(|line| matched(rules, line)).collect()
}

fn names(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_rules_find_what_the_program_writes_and_nothing_in_an_ordinary_run() {
    let world = World::new().await;
    world.track_all().await;
    lines_of_a_run(&world, "").await;
    let levels = world.mirror().await;
    let (sku, warehouse, quantity) = levels.iter().find(|level| level.2 > 5).unwrap().clone();
    let adjust = |delta: i64| json!({"sku": sku, "warehouse_id": warehouse, "delta": delta}).to_string();
    world.change("ordinary", "quantity.adjust", &adjust(-1)).await;
    let ordinary = lines_of_a_run(&world, "").await;
    assert!(ordinary.iter().any(|line| line["event"] == "outbox.finished"), "{ordinary:#?}");
    assert_eq!(matches(&loki_rules(), &ordinary), names(&[]));
    assert_eq!(matches(&vector_rules(), &ordinary), names(&[]));

    world.change("held", "quantity.adjust", &adjust(-quantity - 100)).await;
    world.change("rejected", "quantity.fly", "{}").await;
    for (index, (sku, warehouse, _)) in levels.iter().filter(|level| level.2 > 0).enumerate() {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 0}).to_string();
        world.change(&format!("flood-{index}"), "quantity.set", &body).await;
    }
    let lines = lines_of_a_run(&world, "").await;
    let found = matches(&loki_rules(), &lines);
    assert_eq!(found, names(&["TallydAtOnce", "TallydNeedsAPerson", "TallydRejected"]), "{lines:#?}");
    assert_eq!(matches(&vector_rules(), &lines), names(&["decide", "page", "rejected"]));

    world.write_key("another-key-that-the-platform-does-not-know");
    let lines = lines_of_a_run(&world, "").await;
    assert!(matches(&loki_rules(), &lines).contains("TallydKeyRefused"), "{lines:#?}");
    assert!(matches(&vector_rules(), &lines).contains("key_refused"), "{lines:#?}");
}

/// Each rule with the events of the samples that it finds.
#[test]
fn the_log_rules_find_the_samples_of_their_events() {
    let rows = [
        (
            ("TallydAtOnce", "page"),
            "brake.tripped config.refused database.replaced database.restored disk.low quota.bad_requests",
        ),
        (("TallydEndsInTheMiddle", "recovered"), "daemon.recovered"),
        (("TallydKeyRefused", "key_refused"), "auth.refused"),
        (("TallydNeedsAPerson", "decide"), "conflict.opened outbox.held"),
        (("TallydTakenOver", "taken_over"), "lead.lost lead.taken"),
    ];
    let events = |rules: &LogRules, rule: &str| {
        let lines = samples().into_iter().filter(|line| matched(rules, line).contains(rule));
        lines.map(|line| line["event"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let (loki, vector) = (loki_rules(), vector_rules());
    for ((alert, route), expected) in rows {
        let expected: BTreeSet<String> = expected.split(' ').map(str::to_owned).collect();
        assert_eq!(events(&loki, alert), expected, "{alert}");
        assert_eq!(events(&vector, route), expected, "{route}");
    }
    assert_eq!(events(&loki, "TallydFinding"), names(&["health.finding"]));
    assert_eq!(events(&loki, "TallydIsStale"), names(&["stale"]));
    assert_eq!(events(&vector, "finding"), names(&["health.finding", "stale"]));
}

/// The tests inside vector.yaml, which `vector test` runs, by the same reading as above.
#[test]
fn the_tests_of_the_vector_file_hold() {
    let file: Value = serde_saphyr::from_str(&kit_text("vector.yaml")).unwrap();
    let tests = file["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 2);
    for test in tests {
        let text = test["inputs"][0]["log_fields"]["message"].as_str().unwrap();
        let line: Value = serde_json::from_str(text).unwrap();
        let routes = matched(&vector_rules(), &line);
        let route = |name: &Value| name.as_str().unwrap().strip_prefix("tallyd_routes.").unwrap().to_owned();
        for output in test["outputs"].as_array().into_iter().flatten() {
            assert!(routes.contains(&route(&output["extract_from"])), "{}", test["name"]);
        }
        for absent in test["no_outputs_from"].as_array().into_iter().flatten() {
            assert!(!routes.contains(&route(absent)), "{}", test["name"]);
        }
    }
}
