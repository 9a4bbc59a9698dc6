//! The examples of `docs/database.md`, run as they stand against a database with a running daemon.
//!
//! The host's `sqlite3` runs SQL and shell, its `python3` runs Python. Only the path, the SKU and the
//! warehouse are replaced.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::support::{World, tool};
use std::process::{Command, Output};
use tallyd::outbox::ChangeKind;

/// Path, SKU and warehouses of the page.
const PATH: &str = "/var/lib/tallyd/tallyd.db";
const SKU: &str = "SKU-1";
const WAREHOUSES: [(&str, &str); 2] =
    [("\"warehouse_id\":3,", "\"warehouse_id\":{},"), ("'warehouse_id', 3,", "'warehouse_id', {},")];

/// Returns the fenced examples, in order: language and text.
fn examples() -> Vec<(&'static str, String)> {
    let page = include_str!("../../docs/database.md");
    let blocks = page.split("```").skip(1).step_by(2);
    blocks
        .map(|block| block.split_once('\n').unwrap())
        .map(|(language, text)| (language, text.to_owned()))
        .collect()
}

fn program(language: &str) -> Option<[&'static str; 2]> {
    match language {
        "python" => Some(["python3", "-c"]),
        "sh" => Some(["sh", "-c"]),
        "sql" => None,
        other => panic!("an example in {other}: say how it is run"),
    }
}

fn run(world: &World, language: &str, text: &str) -> Output {
    match program(language) {
        Some([program, argument]) => Command::new(program).arg(argument).arg(text).output().unwrap(),
        None => {
            let settings = ["-cmd", ".timeout 10000", "-cmd", "PRAGMA wal_autocheckpoint = 0"];
            Command::new("sqlite3").args(settings).arg(&world.path).arg(text).output().unwrap()
        }
    }
}

#[test]
fn the_page_has_every_kind_of_change() {
    let page = include_str!("../../docs/database.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for kind in ChangeKind::ALL {
        let name = format!("`{kind}`");
        assert!(rows.iter().any(|row| row.contains(&name)), "no row of docs/database.md has {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_page_works_beside_a_running_daemon() {
    if !tool("sqlite3") || !tool("python3") {
        return;
    }
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let (sku, warehouse, _) = world.shop().await.into_iter().find(|(_, _, quantity)| *quantity > 5).unwrap();
    assert!(!sku.contains(['\'', '"']), "{sku} would need quoting");
    let working = world.work().await;
    let mut heard = Vec::new();
    for (language, text) in examples() {
        let mut text = text.replace(PATH, world.path.to_str().unwrap()).replace(SKU, &sku);
        text = text.replace("\"warehouse_id\": 3,", &format!("\"warehouse_id\": {warehouse},"));
        for (named, ours) in WAREHOUSES {
            text = text.replace(named, &ours.replace("{}", &warehouse.to_string()));
        }
        let output = run(&world, language, &text);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && complaint.is_empty(), "{text}\n{complaint}");
        heard.push(said);
    }
    assert!(heard.len() >= 9, "the examples were not found");
    assert!(heard.iter().any(|said| said.contains(&format!("{sku}|{warehouse}|"))), "{heard:?}");
    assert!(heard.last().unwrap().starts_with("applied "), "the program saw its change done: {heard:?}");
    for key in ["pick-4711", "desk-7-0815", "count-2031-05-04-17"] {
        world
            .until("the change is settled", async |world| {
                !["pending", "sending"].contains(&world.fate(key).await.0.as_str())
            })
            .await;
        assert!(
            ["applied", "cancelled"].contains(&world.fate(key).await.0.as_str()),
            "{key}: {:?}",
            world.fate(key).await
        );
    }
    working.stop().await;
}
