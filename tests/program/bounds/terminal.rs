//! The terminal: names, keys and messages of others reach it as harmless text, whichever command prints them.

use super::support::World;
use super::support::outsider::quoted;
use super::{configured, program, tallyd};
use serde_json::Value;
use std::path::Path;
use tallyd::sandbox::SandboxOptions;

/// Control characters: clear screen, set title, carriage return, line feed, text direction, hidden
/// characters.
const EVIL: &str = "A\u{1b}[2J\u{1b}]0;t\u{7}\r\nFORGED all is well\u{9b}2J\u{85}\u{7f}\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}\u{ad}Z";

/// Returns true for characters that no output may hold; a line feed is allowed only in our own layout.
fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n')
        || "\u{ad}\u{61c}\u{180e}\u{feff}".contains(c)
        || ('\u{200b}'..='\u{200f}').contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2060}'..='\u{206f}').contains(&c)
}

/// Runs a command; asserts that its output is not empty, safe and without a forged line; returns the output.
///
/// With `--json`, the output must be JSON.
async fn prints_safely(config: &Path, args: &[&str]) -> String {
    let output = tallyd(config, args).await;
    let said = [output.stdout.clone(), output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(!said.is_empty(), "{args:?} said nothing");
    assert!(!said.contains(is_unsafe), "{args:?}: {said:?}");
    for line in said.lines() {
        assert!(!line.trim_start().starts_with("FORGED"), "{args:?} prints a forged line: {said}");
    }
    if args.contains(&"--json") {
        let value: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{args:?}: {why}: {said}"));
        assert!(!value.is_null());
    }
    said
}

/// Creates a world in which every foreign text is hostile: changes in every state, names, messages, details.
async fn evil_world() -> (World, std::path::PathBuf, String) {
    let world = World::with(
        SandboxOptions { skus: 6, orders: 3, calls_per_minute: 0, ..SandboxOptions::default() },
        "[quantities]\npolicy = \"ask\"\n",
    )
    .await;
    let config = configured(&world, "").clone();
    let toml = std::fs::read_to_string(&config).unwrap().replace("enabled = false", "enabled = true");
    std::fs::write(&config, toml).unwrap();
    world.track_all().await;
    let once = tallyd(&config, &["run", "--once"]).await;
    assert_eq!(once.status.code(), Some(0), "{}", String::from_utf8_lossy(&once.stderr));
    let (sku, warehouse, _) = world.shop().await[0].clone();
    // Changes that are rejected, applied and pending, with hostile keys and errors.
    world.change(&format!("rejected {EVIL}"), &format!("kind {EVIL}"), "{}").await;
    let strange = serde_json::json!({"sku": EVIL, "warehouse_id": warehouse, "quantity": "x"});
    world.change(&format!("strange {EVIL}"), "quantity.set", &strange.to_string()).await;
    let good = serde_json::json!({"sku": sku, "warehouse_id": warehouse, "delta": 1});
    world.change(&format!("applied {EVIL}"), "quantity.adjust", &good.to_string()).await;
    tallyd(&config, &["run", "--once"]).await;
    world.change(&format!("pending {EVIL}"), "quantity.adjust", &good.to_string()).await;
    let product = serde_json::json!({"Sku": format!("NEW {EVIL}"), "Name": EVIL});
    world.change(&format!("product {EVIL}"), "product.create", &product.to_string()).await;
    poison(&world).await;
    (world, config, sku)
}

/// Writes the text into every column that the platform, a person or a program may fill.
async fn poison(world: &World) {
    let mut other = world.outsider().await;
    let evil = quoted(EVIL);
    for (table, column) in [
        ("warehouse", "name"),
        ("warehouse", "account_number"),
        ("warehouse", "type"),
        ("supplier", "name"),
        ("supplier", "account_number"),
        ("supplier", "url"),
        ("storefront", "name"),
        ("storefront", "type"),
        ("listing_template", "name"),
        ("product", "name"),
        ("product", "upc"),
        ("product", "type"),
        ("order_line_item", "product_name"),
        ("order_line_item", "sku"),
        ("shipment", "number"),
        ("shipment", "status"),
        ("shipment_line", "tracking_number"),
        ("shipment_line", "tracking_url"),
        ("shipment_line", "carrier_name"),
        ("run", "summary"),
        ("exchange", "message"),
        ("change_transition", "detail"),
        ("event", "subject"),
    ] {
        let done = other.run(&format!("UPDATE {table} SET {column} = {evil}")).await;
        done.unwrap_or_else(|why| panic!("{table}.{column}: {why}"));
    }
    other.run(&format!("UPDATE outbox SET revision = revision + 1, detail = {evil}")).await.unwrap();
    let detail = quoted(&serde_json::json!({EVIL: EVIL}).to_string());
    let event = format!(
        "INSERT INTO event (position, at_ms, kind, subject, detail) \
         SELECT position + 1, 0, {evil}, {evil}, {detail} FROM journal_sequence"
    );
    other.run(&event).await.unwrap();
    other.run("UPDATE journal_sequence SET position = position + 1").await.unwrap();
    other.track_skus(&[EVIL]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_lets_text_of_others_act_on_the_terminal() {
    let (world, config, sku) = evil_world().await;
    let order = world.sandbox.order_ids().await.unwrap()[0].to_string();
    let end = world.number("SELECT position FROM journal_sequence").await;
    let (end, exchange) = (end.to_string(), world.number("SELECT max(id) FROM exchange").await.to_string());
    let run = world.number("SELECT max(id) FROM run").await.to_string();
    let rejected = format!("rejected {EVIL}");
    let pending = format!("pending {EVIL}");
    let mut reading: Vec<Vec<&str>> = vec![
        vec!["status"],
        vec!["sku", "list"],
        vec!["order", "list"],
        vec!["order", "show", &order],
        vec!["stock"],
        vec!["stock", EVIL],
        vec!["product", "find", &sku],
        vec!["product", "find", EVIL],
        vec!["warehouse", "list"],
        vec!["supplier", "list"],
        vec!["storefront", "list"],
        vec!["template", "list"],
        vec!["report", "top-selling"],
        vec!["report", "business-health"],
        vec!["explain", &sku],
        vec!["plan"],
        vec!["verify", "--calls", "1"],
        vec!["outbox", "list"],
        vec!["outbox", "list", "--all"],
        vec!["outbox", "cancel", "--all"],
        vec!["sku", "list", "--missing"],
        vec!["outbox", "show", &rejected],
        vec!["outbox", "show", &pending],
        vec!["job", "list"],
        vec!["job", "show", &run],
        vec!["journal", "show"],
        vec!["journal", "show", &end],
        vec!["journal", "show", &exchange],
        vec!["journal", "diff", "1", &end],
    ];
    let strange = format!("strange {EVIL}");
    reading.push(vec!["outbox", "show", &strange]);
    let mut shown = 0;
    for args in &reading {
        let text = prints_safely(&config, args).await;
        shown += usize::from(text.contains("FORGED"));
        let has_json = !matches!(args.as_slice(), ["journal", "export"]);
        if has_json {
            let json = [args.as_slice(), &["--json"]].concat();
            let output = tallyd(&config, &json).await;
            if output.stdout.is_empty() {
                continue; // The command was refused; its output was tested above.
            }
            prints_safely(&config, &json).await;
        }
    }
    // The texts are printed, in a harmless form; commands that print nothing would prove nothing.
    assert!(shown >= 15, "only {shown} commands showed one of the texts");

    let shown = tallyd(&config, &["outbox", "show", &rejected, "--json"]).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["key"], rejected.as_str(), "a program reads what stands there");
    for line in prints_safely(&config, &["journal", "export"]).await.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }

    // Commands that act, and refusals.
    for args in [
        vec!["outbox", "show", EVIL],
        vec!["outbox", "retry", &rejected],
        vec!["outbox", "resolve", &rejected, "--done"],
        vec!["outbox", "cancel", &pending, EVIL],
        vec!["outbox", "release", EVIL],
        vec!["explain", EVIL],
        vec!["sku", "add", EVIL],
        vec!["quantity", "set", EVIL, "1", "2"],
        vec!["quantity", "set", &sku, "1", "2"],
        vec!["quantity", "set", &sku, EVIL, "2"],
        vec!["order", "show", "1"],
        vec!["product", "create", EVIL],
        vec!["quantity", "import", EVIL],
    ] {
        prints_safely(&config, &args).await;
    }
    let file = world.path.with_file_name("evil.csv");
    std::fs::write(&file, format!("sku,warehouse_id,quantity\n\"{EVIL}\",1,\"x{EVIL}\"\n")).unwrap();
    let said = prints_safely(&config, &["quantity", "import", file.to_str().unwrap()]).await;
    assert!(said.contains("line 2: "), "{said}");
}

/// No log line acts on a terminal, in either format.
#[tokio::test(flavor = "multi_thread")]
async fn no_line_of_the_log_acts_on_a_terminal() {
    for format in ["text", "json"] {
        let world = World::new().await;
        let config = configured(&world, &format!("[log]\nformat = \"{format}\"\nlevel = \"debug\"\n"));
        world.track_all().await;
        world.change(&format!("rejected {EVIL}"), &format!("kind {EVIL}"), "{}").await;
        let strange = serde_json::json!({"sku": "S", "warehouse_id": 1, "quantity": EVIL});
        world.change(&format!("strange {EVIL}"), "quantity.set", &strange.to_string()).await;
        let output = program(&config).args(["run", "--once"]).output().await.unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(log.contains("FORGED"), "{log}");
        assert!(!log.contains(is_unsafe), "{log:?}");
        let mut said = 0;
        for line in log.lines() {
            assert!(!line.starts_with("FORGED"), "{log}");
            if format == "json" {
                let line: Value = serde_json::from_str(line).unwrap();
                said += usize::from(line["key"] == format!("rejected {EVIL}"));
            }
        }
        assert!(format == "text" || said > 0, "a program reads what was written: {log}");
    }
}
