//! The alert rules, by `promtool`.

use super::{has_prometheus, kit_file, kit_text};
use serde::Deserialize;
use std::process::Command;

#[derive(Deserialize)]
struct RuleFile {
    groups: Vec<RuleGroup>,
}

#[derive(Deserialize)]
struct RuleGroup {
    rules: Vec<AlertRule>,
}

/// Alert rule of Prometheus or Loki.
#[derive(Deserialize)]
pub(super) struct AlertRule {
    pub(super) alert: String,
    pub(super) expr: String,
    labels: AlertLabels,
    annotations: AlertTexts,
}

#[derive(Deserialize)]
struct AlertLabels {
    severity: String,
}

#[derive(Deserialize)]
struct AlertTexts {
    summary: String,
    what_to_do: String,
}

/// Returns the rules of a file of the kit.
pub(super) fn alert_rules(name: &str) -> Vec<AlertRule> {
    let file: RuleFile = serde_saphyr::from_str(&kit_text(name)).unwrap();
    file.groups.into_iter().flat_map(|group| group.rules).collect()
}

#[test]
fn the_alert_rules_pass_their_tests() {
    if !has_prometheus("promtool") {
        return;
    }
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let output = Command::new("promtool").args(arguments).current_dir(kit_file("")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn every_alert_fires_in_a_test_and_says_what_to_do() {
    let tests = kit_text("alerts_test.yml");
    let rules = alert_rules("alerts.yml");
    assert!(rules.len() > 15, "{}", rules.len());
    for rule in rules.iter().chain(&alert_rules("loki.yml")) {
        let (name, texts) = (&rule.alert, &rule.annotations);
        assert!(["page", "ticket"].contains(&rule.labels.severity.as_str()), "{name}");
        assert!(!texts.summary.is_empty() && !texts.what_to_do.is_empty(), "{name}");
    }
    for rule in &rules {
        let fired = format!(r#"labels: '{{alertname="{}"}}'"#, rule.alert);
        assert!(tests.contains(&fired), "no test lets {} fire", rule.alert);
    }
}
