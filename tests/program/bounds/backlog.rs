//! A backlog of any length: the daemon and `plan` need bounded memory, and an operator's change does not wait for it.

use super::lists::printed;
use super::support::World;
use super::{Running, configured, status_mib};
use std::time::{Duration, Instant};

/// Memory limit of the daemon and of a plan beside the program's own file, in MiB. Of a release build, 15 MiB of the
/// file are in memory, of a debug build 44.
const MOST: u64 = 112;

/// Inserts pending adjusts of +1 with so many blanks in their bodies, over some stock levels in turn.
async fn flood(world: &World, name: &str, (changes, blanks): (u32, usize), levels: &[(String, i64, i64)]) {
    let rows: Vec<String> = levels
        .iter()
        .enumerate()
        .map(|(at, (sku, warehouse, _))| format!("({at}, '{sku}', {warehouse})"))
        .collect();
    let (rows, filler) = (rows.join(", "), " ".repeat(blanks));
    world
        .sql(&format!(
            "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {changes} - 1) \
             INSERT INTO outbox (key, kind, body) \
             SELECT '{name}-' || n, 'quantity.adjust', '{{\"sku\":\"' || column2 || '\",\"warehouse_id\":' || column3 \
                 || ',\"delta\":1{filler}}}' \
             FROM n JOIN (VALUES {rows}) l ON l.column1 = n % {}",
            levels.len()
        ))
        .await;
}

/// Lets a program insert the changes, then plans them and starts the daemon, and then an operator changes another stock
/// level. Measures the memory of both, and the time until the operator's change is claimed.
#[expect(clippy::disallowed_methods, reason = "it is this machine's time that is measured")]
async fn operator_behind((changes, blanks): (u32, usize), levels: usize) -> (Duration, String) {
    let world = World::new().await;
    let config = configured(&world, "");
    world.track_all().await;
    let mut shop = world.shop().await;
    shop.retain(|(sku, _, quantity)| *quantity >= 20 && !sku.starts_with("KIT-"));
    let (sku, warehouse, quantity) = shop.pop().unwrap();
    shop.truncate(levels);
    assert_eq!(super::tallyd(&config, &["job", "run", "balances"]).await.status.code(), Some(0));
    flood(&world, "flood", (changes, blanks), &shop).await;

    let begun = Instant::now();
    let (_, of_plan) = printed(&config, &["plan"]).await;
    let planned = begun.elapsed();
    assert!(of_plan < MOST, "plan needed {of_plan} MiB");

    let mut running = Running::start(&config).await;
    running.until("daemon.ready").await;
    // The lines of calls with thousands of changes would fill the pipe.
    let Running { mut child, mut log } = running;
    let process = child.id().unwrap();
    tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
    let body = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"delta":-1}}"#);
    let begun = Instant::now();
    world
        .sql(&format!(
            "INSERT INTO outbox (key, kind, body, priority) VALUES ('operator', 'quantity.adjust', '{body}', 1)"
        ))
        .await;
    let claimed = "SELECT count(*) FROM outbox WHERE key = 'operator' AND exchange_id IS NOT NULL";
    world.until("the operator's change is claimed", async |world| world.number(claimed).await == 1).await;
    let took = begun.elapsed();
    flood(&world, "meanwhile", (changes / 4, blanks), &shop).await;
    world.until("it is applied", async |world| world.fate("operator").await.0 == "applied").await;
    let settled = "SELECT count(*) FROM outbox WHERE settled_at IS NOT NULL";
    // Two windows of the outbox: later ones need no other memory.
    let some = i64::from(changes.min(10_000));
    world.until("thousands are settled", async |world| world.number(settled).await > some).await;
    let peak = status_mib(process, "VmHWM:") - status_mib(process, "RssFile:");
    assert!(std::process::Command::new("kill").arg(process.to_string()).status().unwrap().success());
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    let figures = format!(
        "plan {planned:?}, {of_plan} MiB; an operator's change is claimed after {took:?}; the daemon needed {peak} MiB"
    );
    assert!(peak < MOST, "the daemon needed {peak} MiB");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 1);
    (took, figures)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_of_30_000_large_changes_takes_bounded_memory() {
    let (_, figures) = operator_behind((30_000, 5_000), 9).await;
    println!("30,000 changes of 5 kB: {figures}");
}

/// Ignored by default: `cargo test --release --test program -- --ignored million_pending --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "inserts a million changes twice, for minutes"]
async fn a_million_pending_changes_delay_an_operators_change_by_less_than_two_seconds() {
    for levels in [1, 40] {
        let (took, figures) = operator_behind((1_000_000, 0), levels).await;
        println!("a million changes of {levels} stock levels: {figures}");
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}
