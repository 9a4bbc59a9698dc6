//! First answers: a first start, unknown and missing SKUs, the short status, and keys that are for root only.

use crate::bounds::{Running, configured, tallyd};
use crate::support::World;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// User id of `nobody`, who may read no file of root.
const NOBODY: u32 = 65534;

async fn said(config: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = tallyd(config, args).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// Listing templates are read per storefront, so a first start reads the storefronts before them.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_reads_templates_after_the_storefronts_however_long_those_take() {
    let world = World::new().await;
    let config = configured(&world, "");
    let toml = std::fs::read_to_string(&config).unwrap();
    let enabled = toml.replace("[jobs.listing_templates]\nenabled = false\n", "");
    assert_ne!(enabled, toml);
    std::fs::write(&config, enabled).unwrap();
    let slow = json!([{"Operation": "GET /api/storefronts", "LatencyMs": 1500, "Times": 1}]);
    world.post("/_sandbox/faults", &slow).await;
    let mut daemon = Running::start(&config).await;
    let first = loop {
        let line = daemon.until("job.finished").await;
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["job"] == "listing_templates" {
            break line;
        }
    };
    assert_eq!(first["outcome"], "ok", "{first}");
    assert!(!first["message"].as_str().unwrap().starts_with("0 storefronts"), "{first}");
    assert!(world.number("SELECT count(*) FROM listing_template").await > 0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_finds_a_sku_in_another_case_and_says_that_it_knows_none_of_another_name() {
    let world = World::new().await;
    let config = configured(&world, "");
    world.track_all().await;
    world.once().await;
    let sku = world.shop().await[0].0.clone();
    let lower = sku.to_lowercase();
    assert_ne!(lower, sku);
    let (code, text) = said(&config, &["stock", &lower]).await;
    assert!(code == Some(0) && text.contains(&sku), "{text}");
    let (code, text) = said(&config, &["stock", "NO-SUCH-SKU", &sku]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&sku), "the other is shown: {text}");
    assert!(text.contains("no stock level of NO-SUCH-SKU is known and no change names it"), "{text}");
    let output = tallyd(&config, &["stock", "NO-SUCH-SKU", "--json"]).await;
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b"[]\n"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_missing_skus_are_listed_by_name() {
    let world = World::new().await;
    let config = configured(&world, "");
    world.track_all().await;
    world.once().await;
    assert_eq!(said(&config, &["sku", "list", "--missing"]).await.1, "no SKU is missing at the platform\n");
    let sku = world.shop().await[0].0.clone();
    world.sql(&format!("UPDATE product SET missing_since_ms = 1795327095861 WHERE sku = '{sku}'")).await;
    let (code, text) = said(&config, &["sku", "list", "--missing"]).await;
    assert_eq!(code, Some(0));
    let row = text.lines().nth(1).unwrap();
    assert!(row.starts_with(&sku) && row.contains("2026-11-22") && row.ends_with("yes"), "{text}");
    let (_, text) = said(&config, &["sku", "list", "--missing", "--json"]).await;
    let rows: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(rows, json!([{"sku": sku, "missing_since": "2026-11-22T05:58:15.861Z", "is_tracked": true}]));
    let (_, text) = said(&config, &["status", "--json"]).await;
    assert!(text.contains("see: tallyd sku list --missing"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_short_its_verdict_ends_it_and_all_shows_jobs_and_calls() {
    let world = World::new().await;
    let config = configured(&world, "");
    world.track_all().await;
    world.once().await;
    let (code, text) = said(&config, &["status"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("all is well\n") && !text.contains("last successful run"), "{text}");
    assert!(text.lines().count() < 8, "{text}");
    world.change("odd", "no.such.kind", "{}").await;
    world.once().await;
    let (code, text) = said(&config, &["status"]).await;
    assert_eq!(code, Some(3));
    assert!(text.ends_with("\n1 finding needs attention; jobs and calls: tallyd status --all\n"), "{text}");
    assert!(!text.contains("last successful run"), "{text}");
    let (_, text) = said(&config, &["status", "--all"]).await;
    assert!(text.contains("last successful run") && text.contains("calls in the last hour"), "{text}");
    assert!(text.ends_with("\n1 finding needs attention\n"), "{text}");
}

/// The packaged keys are for root only. A member of the group is told so, and that the rest is valid.
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stdout, reason = "a test that skips says so")]
async fn check_by_a_user_who_may_not_read_the_keys_says_so_and_calls_the_rest_valid() {
    let world = World::new().await;
    let config = configured(&world, "");
    let folder = config.parent().unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(folder, 0o755);
    mode(&config, 0o644);
    ["i", "g"].iter().for_each(|key| mode(&folder.join(key), 0o600));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(&config).arg("check").uid(NOBODY).gid(NOBODY);
    let Ok(output) = command.output() else {
        println!("skipped: this user cannot become another, or the other cannot reach the program");
        return;
    };
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("only its owner may read it; run the command with sudo"), "{text}");
    assert!(text.trim_end().ends_with("tallyd.toml is valid, but its keys are not confirmed"), "{text}");
    assert!(!text.contains("write it there"), "{text}");
}

/// A new warehouse has a stock level of 0 of each product, which no job has read yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_warehouse_that_was_just_created_is_no_difference() {
    let world = World::new().await;
    let config = configured(&world, "");
    world.track_all().await;
    for arguments in
        [&["run", "--once"][..], &["warehouse", "create", "--name", "New dock"], &["run", "--once"]]
    {
        let output = tallyd(&config, arguments).await;
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let output = tallyd(&config, &["verify"]).await;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("unexplained"), "{said}");
}
