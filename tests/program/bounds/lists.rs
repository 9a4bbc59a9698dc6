//! Lists: long ones are printed while they are read, and one odd row does not end them.

use super::support::outsider::quoted;
use super::support::{BALANCES, World, refusing_socket};
use super::{configured, program, tallyd};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

/// SKUs that are no UTF-8, more than one page holds.
const ODD: &str = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1500) \
                   INSERT INTO tracked_sku (sku) SELECT CAST(x'ff41' || CAST(n AS BLOB) AS TEXT) FROM n";

#[tokio::test(flavor = "multi_thread")]
async fn a_tracked_sku_that_is_no_utf8_is_listed_and_left_out_of_every_read() {
    let world = World::new().await;
    if world.is_on_server("SQLite takes any bytes as text") {
        return;
    }
    let config = configured(&world, "");
    world.track_all().await;
    world.sql(ODD).await;
    let listed = tallyd(&config, &["sku", "list"]).await;
    assert_eq!(listed.status.code(), Some(0), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(String::from_utf8(listed.stdout).unwrap().contains("\u{fffd}A"));
    let listed = tallyd(&config, &["sku", "list", "--json"]).await;
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let skus = world.sandbox.all_skus().await.unwrap();
    assert_eq!(listed.len(), skus.len() + 1500);
    let once = tallyd(&config, &["run", "--once"]).await;
    assert_eq!(once.status.code(), Some(0), "{}", String::from_utf8_lossy(&once.stdout));
    let mut read = world.mirror().await;
    read.retain(|(sku, ..)| !sku.starts_with("KIT-"));
    assert!(read == world.shop().await, "all others are read");
    assert!(world.calls(BALANCES) <= 3, "{} calls", world.calls(BALANCES));
}

/// Returns the output of a list, and the program's peak memory while it printed it, in MiB.
pub async fn printed(config: &Path, args: &[&str]) -> (Vec<u8>, u64) {
    let mut child = program(config).args(args).stdout(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id().unwrap());
    let (mut text, mut piece, mut peak) = (Vec::new(), vec![0; 1 << 16], 0);
    let mut stdout = child.stdout.take().unwrap();
    loop {
        let read = stdout.read(&mut piece).await.unwrap();
        let line = std::fs::read_to_string(&status).unwrap_or_default();
        let line = line.lines().find_map(|line| line.strip_prefix("VmHWM:").map(str::to_owned));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) / 1024);
        if read == 0 {
            break;
        }
        text.extend_from_slice(&piece[..read]);
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    (text, peak)
}

/// Inserts facts for a number of SKUs; the ids of `exchange` and `reading` are invented.
async fn fill(world: &World, skus: u32) {
    world.make().await;
    let mut other = world.outsider().await;
    if world.location.server().is_none() {
        other.run("PRAGMA foreign_keys = 0").await.unwrap();
    }
    let numbers =
        format!("WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {skus})");
    let name = "substr(CAST(10000000 + n AS TEXT), 2) || '-of-a-large-shop'";
    for insert in [
        format!("INSERT INTO tracked_sku (sku) SELECT 'SKU-' || {name} FROM n"),
        format!(
            "INSERT INTO product (id, sku, case_key, product_id, name) \
             SELECT n, 'SKU-' || {name}, 'sku-' || {name}, n, 'A product of a large shop' FROM n"
        ),
        "INSERT INTO balance (product, warehouse_id, quantity, fact_exchange_id, fact_ms) SELECT n, 1, n, 1, 1 FROM n".to_owned(),
    ] {
        other.run(&format!("{numbers} {insert}")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(
    clippy::disallowed_methods,
    reason = "the size is the caller's, and this machine's time is measured"
)]
async fn a_long_list_is_printed_while_it_is_read() {
    let skus = std::env::var("LIST_SKUS").map_or(60_000, |text| text.parse().unwrap());
    let world = World::new().await;
    let config = configured(&world, "");
    fill(&world, skus).await;
    for (args, lines) in [
        (vec!["stock"], skus + 1),
        (vec!["stock", "--json"], 11 * skus + 2),
        (vec!["sku", "list"], skus + 1),
        (vec!["sku", "list", "--json"], 4 * skus + 2),
    ] {
        let begun = Instant::now();
        let (text, peak) = printed(&config, &args).await;
        println!("{args:?} of {skus} SKUs: {} ms, {peak} MiB", begun.elapsed().as_millis());
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), lines as usize, "{args:?}");
        if args.contains(&"--json") {
            let rows: Vec<Value> = serde_json::from_slice(&text).unwrap();
            assert_eq!(rows.len(), skus as usize);
        }
        assert!(peak > 0 && peak < 56, "{args:?} needed {peak} MiB");
    }
}

/// Returns the steps of SQLite's machine, in thousands, that read a stock level with this many pending changes.
async fn steps_of_a_stock_level(
    world: &World,
    (sku, warehouse, quantity): &(String, i64, i64),
    changes: i64,
) -> u64 {
    let insert = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {changes}) \
         INSERT INTO outbox (key, kind, body) SELECT {changes} || ':' || n, 'quantity.adjust', \
             json_object('sku', {}, 'warehouse_id', {warehouse}, 'delta', 1) FROM n",
        quoted(sku)
    );
    world.sql(&insert).await;
    let mut other = world.outsider().await.into_sqlite();
    let steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&steps);
    other.lock_handle().await.unwrap().set_progress_handler(1000, move || {
        counted.fetch_add(1, Ordering::SeqCst);
        true
    });
    let sql = "SELECT pending_quantity FROM stock WHERE sku = $1 AND warehouse_id = $2";
    let pending: i64 = sqlx::query_scalar(sql).bind(sku).bind(warehouse).fetch_one(&mut other).await.unwrap();
    assert_eq!(pending, quantity + changes);
    steps.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_level_costs_by_the_number_of_its_pending_changes_not_by_its_square() {
    let world = World::new().await;
    if world.is_on_server("the steps of SQLite are counted") {
        return;
    }
    world.track_all().await;
    world.once().await;
    let levels = world.mirror().await;
    let few = steps_of_a_stock_level(&world, &levels[0], 500).await;
    let many = steps_of_a_stock_level(&world, &levels[1], 4000).await;
    assert!(few > 0 && many < 12 * few, "{few} thousand steps for 500 changes, {many} for 4000");
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "it is this machine's time that is measured")]
async fn where_nobody_answers_one_job_finds_out_for_all() {
    let world = World::new().await;
    world.track_all().await;
    let nobody = refusing_socket();
    let toml = world
        .toml("")
        .replace(&world.sandbox.local_addr().to_string(), &nobody.local_addr().unwrap().to_string());
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, toml.replace("enabled = false", "enabled = true")).unwrap();
    let begun = Instant::now();
    let once = tallyd(&config, &["run", "--once"]).await;
    let said = String::from_utf8(once.stdout).unwrap();
    assert_eq!(once.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be reached; these jobs did not run: warehouses, "), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
    println!("nobody answers: {:?}", begun.elapsed());
    assert_eq!(world.number("SELECT count(DISTINCT operation) FROM exchange").await, 1);
}

/// The database refuses a key that is too long, because each scan of the open changes reads the keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_a_bound_and_says_so_at_the_door() {
    let world = World::new().await;
    world.make().await;
    let mut other = world.outsider().await;
    for (key, kind, is_taken) in [
        ("k".repeat(1000), "k".repeat(1000), true),
        ("ä".repeat(501), "k".into(), false),
        ("k".into(), "k".repeat(1001), false),
    ] {
        let (key, kind) = (quoted(&key), quoted(&kind));
        let insert = format!("INSERT INTO outbox (key, kind, body) VALUES ({key}, {kind}, '{{}}')");
        match other.run(&insert).await {
            Ok(()) => assert!(is_taken),
            Err(why) => assert!(!is_taken && why.to_string().contains("at most 1000 bytes"), "{why}"),
        }
    }
}
