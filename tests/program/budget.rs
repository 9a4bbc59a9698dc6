//! What `check` and `status` say of the quota.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use crate::support::World;
use serde_json::json;
use tallyd::daemon::run_job;
use tallyd::model::{JobKind, RunTrigger};
use tallyd::sandbox::SandboxOptions;

/// Runs the program beside the world's database, asserts its exit code, and returns its output.
async fn printed(world: &World, more: &str, args: &[&str], code: i32) -> String {
    let file = world.path.with_file_name("tallyd.toml");
    std::fs::write(&file, world.toml(more)).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(file).args(args).env_clear();
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_how_old_facts_can_get_and_what_gives_way_first() {
    let options = SandboxOptions { skus: 40, orders: 6, calls_per_minute: 0, ..SandboxOptions::default() };
    let extra = "[jobs.balances]\nschedule = \"*/10 * * * * *\"\nskus_per_call = 1\n";
    let world = World::with(options, extra).await;
    world.track_all().await;
    let tight = printed(&world, "[limits]\ncalls_per_minute = 60\n", &["check"], 0).await;
    assert!(tight.contains("the schedules do NOT fit into the quota: balances loses calls first"), "{tight}");
    let roomy = printed(&world, "", &["check"], 0).await;
    assert!(!roomy.contains("do NOT fit") && roomy.contains(" spare"), "{roomy}");
    let of_orders = roomy.lines().rfind(|line| line.starts_with("order_lines")).unwrap();
    assert!(of_orders.contains("3.0") && of_orders.ends_with("2 min"), "an interval, six calls: {of_orders}");
}

#[tokio::test(flavor = "multi_thread")]
async fn status_has_the_last_hour_by_lane_and_operation_and_the_lines_of_the_ledger() {
    let limits = "[limits]\ncalls_per_minute = 6000\nbad_requests_per_day = 10\n";
    let options = SandboxOptions { skus: 40, orders: 0, calls_per_minute: 0, ..SandboxOptions::default() };
    let world = World::with(options, limits).await;
    let queue = "GET /api/Company/WorkQueue";
    world.post("/_sandbox/faults", &json!([{"Operation": queue, "Status": 400, "Times": 3}])).await;
    let daemon = world.daemon().await;
    for _ in 0..4 {
        run_job(daemon.context(), JobKind::WorkQueue, RunTrigger::Schedule).await.unwrap();
    }
    drop(daemon);
    // No daemon runs any more, and status reports that.
    let text = printed(&world, "", &["status", "--all"], 3).await;
    let row = text.lines().find(|line| line.contains(queue)).unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        ["poll", "GET", "/api/Company/WorkQueue", "4", "0"]
    );
    assert!(text.contains("3 answers of 400 in 24 h (bulk pushes stop at 6, "), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&printed(&world, "", &["status", "--json"], 3).await).unwrap();
    let hour = json!([{"lane": "poll", "operation": queue, "calls": 4, "throttled": 0}]);
    assert_eq!(json["budget"]["last_hour"], hour);
    assert_eq!(json["budget"]["bad_requests"]["soft_line"], 6);
}
