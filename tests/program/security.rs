//! The promises of SECURITY.md that no other test holds.
//!
//! Hostile text stays text, the sandbox stays on this machine, and keys are never sent in the clear.
//! secrets.rs searches for leaked keys; tests/it/client_http.rs has redirects and sizes.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::support::World;
use std::process::{Command, Output, Stdio};

/// Names that would do harm if pasted into a statement, a path, a log line or a terminal.
const HOSTILE: [&str; 6] = [
    "x'); DROP TABLE outbox; --",
    "\" OR 1=1 --",
    "?1",
    "../../etc/passwd",
    "a%00b&Sku=c",
    "\u{202e}evil\u{1b}[2J",
];

async fn run(world: &World, args: &[&str]) -> Output {
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml("")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(config).args(args).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_names_and_nothing_else() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let before = world.mirror().await;
    let tables = match world.location.server() {
        Some(_) => "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace",
        None => "SELECT count(*) FROM sqlite_schema",
    };
    let schema = world.number(tables).await;
    for (number, name) in HOSTILE.iter().enumerate() {
        for args in [
            &["sku", "add", "--", name][..],
            &["stock", "--json", "--", name],
            &["quantity", "adjust", "--unknown", "--key", name, "--", name, "1", "1"],
            &["quantity", "adjust", "--", name, name, "1"],
            &["outbox", "show", "--", name],
            &["outbox", "list", "--state", name],
        ] {
            let code = run(&world, args).await.status.code();
            assert!(code.is_some_and(|code| code < 3), "{args:?}: {code:?}");
        }
        let body = serde_json::json!({"sku": name, "warehouse_id": 1, "delta": 1}).to_string();
        world.change(&format!("change {number} {name}"), "quantity.adjust", &body).await;
    }
    world.once().await;
    assert_eq!(world.number(tables).await, schema, "no table came or went");
    assert_eq!(world.mirror().await, before, "nobody else's stock moved");
    let kept = world.number("SELECT count(*) FROM outbox WHERE key LIKE 'change %'").await;
    assert_eq!(kept, i64::try_from(HOSTILE.len()).unwrap());
    for (number, name) in HOSTILE.iter().enumerate() {
        let (state, ..) = world.fate(&format!("change {number} {name}")).await;
        assert!(["rejected", "held"].contains(&state.as_str()), "{name:?} is {state}");
    }
}

#[test]
fn the_sandbox_does_not_listen_beyond_this_machine_unless_told() {
    let sandbox = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.args(["sandbox", "--listen", "0.0.0.0:0"]).args(more).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap()
    };
    let refused = sandbox(&[]);
    assert_ne!(refused.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--allow-remote"));
}

#[test]
fn no_setting_sends_keys_in_the_clear_over_a_network() {
    for address in [
        "http://service.example",
        "http://127.0.0.1.service.example",
        "http://localhost.service.example",
        "http://192.168.1.7",
        "http://[fe80::1]",
        "http://0.0.0.0",
        "http://127.1",
        "http://2130706433",
        "ftp://127.0.0.1",
        "http://127.0.0.1@service.example",
        "http://service.example\\@127.0.0.1",
    ] {
        let config = tallyd::config::Config::default_for(address);
        assert!(config.is_err(), "{address} is taken");
    }
    for address in
        ["https://service.example", "http://127.0.0.1:8399", "http://localhost:8399", "http://[::1]:8399"]
    {
        tallyd::config::Config::default_for(address).unwrap();
    }
}
