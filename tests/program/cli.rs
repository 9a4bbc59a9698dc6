//! The program as an operator runs it: exit codes, the fields of `--json`, and the output streams.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::support::{World, tool};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A world with a configuration file for the program.
pub(super) struct Desk {
    pub(super) world: World,
    pub(super) config: PathBuf,
}

impl Desk {
    pub(super) async fn new() -> Self {
        let world = World::new().await;
        let config = world.path.with_file_name("tallyd.toml");
        std::fs::write(&config, world.toml("")).unwrap();
        Self { world, config }
    }

    /// Runs the program beside the sandbox, which lives in this process.
    pub(super) async fn run(&self, args: &[&str]) -> Output {
        let mut command = program(&self.config);
        command.args(args).stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    pub(super) async fn text(&self, args: &[&str]) -> String {
        let output = self.run(args).await;
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) async fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.text(args).await).unwrap()
    }
}

pub(super) fn program(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(config);
    command
}

/// Returns the names of an object's fields, in order.
pub(super) fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_first_hour() {
    let desk = Desk::new().await;
    assert!(desk.text(&["check"]).await.contains("is valid"));
    assert!(desk.text(&["check", "--online"]).await.contains("the platform accepts them"));
    let sku = desk.world.shop().await[0].0.clone();
    let order = desk.world.sandbox.order_ids().await.unwrap()[0].to_string();
    assert!(desk.text(&["sku", "add", &sku]).await.contains("1 SKU newly tracked"));
    assert!(desk.text(&["order", "track", &order]).await.contains("1 order newly tracked"));
    assert!(desk.text(&["run", "--once"]).await.contains(" SKUs read, "));

    let stock = desk.json(&["stock", &sku, "--json"]).await;
    let names = [
        "include_in_sync",
        "is_active",
        "observed_at",
        "pending_quantity",
        "product_id",
        "quantity",
        "sku",
        "warehouse_id",
        "warehouse_name",
    ];
    assert_eq!(fields(&stock[0]), names);
    let warehouse = stock[0]["warehouse_id"].to_string();
    let quantity = stock[0]["quantity"].as_i64().unwrap();

    desk.text(&["quantity", "adjust", &sku, &warehouse, "+4", "--key", "mine"]).await;
    let again = desk.text(&["quantity", "adjust", &sku, &warehouse, "+4", "--key", "mine"]).await;
    assert!(again.contains("1 known already by their keys"), "{again}");
    let stock = desk.json(&["stock", &sku, "--json"]).await;
    assert_eq!(stock[0]["pending_quantity"], quantity + 4);
    let plan = desk.json(&["plan", "--json"]).await;
    let call = &plan["calls"][0];
    assert_eq!(fields(call), ["body", "changes", "keys", "method", "operation", "path", "query"]);
    let body: Value = serde_json::from_str(call["body"].as_str().unwrap()).unwrap();
    assert_eq!((&body[0]["Quantity"], &call["keys"]), (&json!(quantity + 4), &json!(["mine"])), "{plan}");
    desk.text(&["run", "--once"]).await;
    let change = desk.json(&["outbox", "show", "mine", "--json"]).await;
    assert_eq!((change["state"].as_str(), change["written"].as_i64()), (Some("applied"), Some(quantity + 4)));

    let status = desk.json(&["status", "--json"]).await;
    assert_eq!(
        fields(&status),
        [
            "budget",
            "findings",
            "jobs",
            "journal",
            "leader",
            "mirror",
            "outbox",
            "paused",
            "standbys",
            "troubles",
            "units_at_risk",
            "well"
        ]
    );
    let runs = desk.json(&["job", "list", "--kind", "push", "--json"]).await;
    let run = runs[0]["id"].to_string();
    let shown = desk.json(&["job", "show", &run, "--json"]).await;
    let operation = shown["exchanges"][0]["operation"].as_str();
    assert_eq!(operation, Some("POST /api/inventory/updateQuantityOnHand"));
    assert!(desk.text(&["order", "show", &order]).await.contains("sold"));
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_say_what_kind_of_failure_it_is() {
    let desk = Desk::new().await;
    let cases: [(&[&str], i32, &str); 6] = [
        (&["stock"], 1, "there is no database"),
        (&["frobnicate"], 2, "frobnicate"),
        (&["sku", "add", " "], 2, "must not be empty"),
        (&["quantity", "set", "A", "1", "--", "-3"], 2, "quantity"),
        (&["job", "list", "--kind", "pull"], 2, "push"),
        (&["order", "show", "x"], 2, "invalid"),
    ];
    for (args, code, word) in cases {
        let output = desk.run(args).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
    std::fs::write(&desk.config, desk.world.toml("[limits]\ncals_per_minute = 3\n")).unwrap();
    let output = desk.run(&["check"]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("cals_per_minute") && said.contains("calls_per_minute"), "{said}");
}

/// The verdict of `check` is its last line, and a configuration whose keys cannot be read is not called valid.
#[tokio::test(flavor = "multi_thread")]
async fn check_calls_a_configuration_valid_only_after_its_keys_were_read() {
    let desk = Desk::new().await;
    for args in [&["check"][..], &["check", "--online"]] {
        let text = desk.text(args).await;
        let (checks, verdict) = text.trim_end().rsplit_once('\n').unwrap();
        assert!(verdict.ends_with("tallyd.toml is valid") && !checks.contains("valid"), "{text}");
    }
    let config = std::fs::read_to_string(&desk.config).unwrap();
    let key_file = config.lines().find_map(|line| line.strip_prefix("gateway_key_file = ")).unwrap();
    std::fs::remove_file(key_file.trim_matches('"')).unwrap();
    let output = desk.run(&["check"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("keys: ") && text.trim_end().ends_with("is NOT valid: correct the keys"), "{text}");
    assert!(!text.contains("is valid"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_person_makes_status_unhealthy() {
    let desk = Desk::new().await;
    desk.world.track_all().await;
    desk.text(&["run", "--once"]).await;
    let (sku, warehouse, quantity) = desk.world.shop().await[0].clone();
    let delta = format!("{}", -quantity - 70);
    desk.text(&["quantity", "adjust", &sku, &warehouse.to_string(), &delta, "--key", "too-much"]).await;
    desk.text(&["run", "--once"]).await;
    assert_eq!(desk.world.fate("too-much").await.0, "held");
    let output = desk.run(&["status"]).await;
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("1 change held"));
    assert!(desk.text(&["outbox", "cancel", "too-much"]).await.contains("cancelled"));
    assert_eq!(desk.run(&["outbox", "cancel", "too-much"]).await.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_on_the_command_line_is_made_at_the_service() {
    let desk = Desk::new().await;
    desk.world.track_all().await;
    desk.text(&["run", "--once"]).await;
    let file = desk.config.with_file_name("product.json");
    std::fs::write(&file, r#"{"Sku":"NEW-1","Name":"A new one"}"#).unwrap();
    desk.text(&["product", "create", file.to_str().unwrap(), "--key", "p"]).await;
    desk.text(&["warehouse", "create", "--name", "Attic", "--type", "Standard", "--key", "w"]).await;
    let made = desk.world.post("/api/Inventory", &json!({"Sku": "UPD-1", "Name": "Old"})).await;
    let mut product = made["data"]["Product"].clone();
    product["Name"] = "New".into();
    std::fs::write(&file, product.to_string()).unwrap();
    desk.text(&["product", "update", file.to_str().unwrap(), "--key", "u"]).await;
    let storefronts = desk.json(&["storefront", "list", "--json"]).await;
    let storefront = storefronts[0]["id"].to_string();
    let markup = desk.config.with_file_name("body.html");
    std::fs::write(&markup, "<p>{Name}</p>").unwrap();
    let body = ["--body-file", markup.to_str().unwrap(), "--key", "l"];
    let named = ["template", "create", "--storefront", storefront.as_str(), "--name", "Made by a test"];
    desk.text(&[&named[..], &body[..]].concat()).await;
    let order = desk.world.sandbox.order_ids().await.unwrap();
    let order = order.last().unwrap().to_string();
    desk.text(&["ship", &order, "--key", "s"]).await;
    desk.text(&["tracking", "submit", "--shipment-key", "s", "--number", "1Z1", "--key", "t"]).await;
    let refused = desk.run(&["warehouse", "create", "--name", ""]).await;
    assert_eq!(refused.status.code(), Some(2));
    desk.text(&["run", "--once"]).await;
    desk.text(&["run", "--once"]).await;
    for key in ["p", "w", "u", "l", "s", "t"] {
        let (state, reason, detail) = desk.world.fate(key).await;
        assert_eq!(state, "applied", "{key}: {reason} {detail}");
    }
    assert!(desk.world.sandbox.all_skus().await.unwrap().contains(&"NEW-1".to_owned()));
    assert!(desk.text(&["warehouse", "list"]).await.contains("Attic"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_is_said_first_and_makes_status_unhealthy() {
    let desk = Desk::new().await;
    desk.world.write_key("another-key");
    assert_eq!(desk.run(&["run", "--once"]).await.status.code(), Some(1));
    let output = desk.run(&["status"]).await;
    assert_eq!(output.status.code(), Some(3));
    assert!(
        String::from_utf8_lossy(&output.stdout).starts_with("the platform refuses the integration key from ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_file_imported_twice_changes_nothing_and_is_refused() {
    let desk = Desk::new().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let file = desk.config.with_file_name("counts.csv");
    std::fs::write(&file, format!("sku,warehouse_id,quantity\n\"{sku}\",{warehouse},12\n")).unwrap();
    let path = file.to_str().unwrap();
    assert!(desk.text(&["quantity", "import", path]).await.contains("is queued"));
    let again = desk.run(&["quantity", "import", path]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("the same lines were imported at 20"));
    let known = desk.text(&["quantity", "import", path, "--new-lines"]).await;
    assert!(known.contains("0 changes queued, 1 known already"), "{known}");
    std::fs::write(&file, format!("sku,warehouse_id,quantity\n{sku},{warehouse},x\n")).unwrap();
    let output = desk.run(&["quantity", "import", path]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2: `quantity` is `x`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_takes_nothing_and_a_column_that_is_not_read_is_named_before() {
    let desk = Desk::new().await;
    desk.world.make().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let file = desk.config.with_file_name("moves.csv");
    let path = file.to_str().unwrap();
    let moved = format!("-1;{warehouse};{sku};x\r\n");
    let lines = format!("{moved}x;{warehouse};{sku};x\r\n;;;\r\n");
    std::fs::write(&file, format!("delta;warehouse_id;sku;who\r\n{lines}")).unwrap();
    let output = desk.run(&["quantity", "import", path]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("line 3: `delta` is `x`") && said.contains("Nothing was imported"), "{said}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 0);
    let output = desk.run(&["quantity", "import", path, "--partial"]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("not imported: line 3") && said.contains("no column `who` is known"), "{said}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_import_names_its_bad_lines_and_takes_nothing_then() {
    let desk = Desk::new().await;
    let file = desk.config.with_file_name("list.csv");
    let path = file.to_str().unwrap();
    let cases: [(&[&str], &str, &str, &str); 3] = [
        (
            &["sku", "import"],
            "sku,who\nA,x\n,y\nB,z\n",
            "line 3: `sku` is empty",
            "SELECT count(*) FROM tracked_sku",
        ),
        (
            &["order", "import"],
            "order_id\n12\n-3\n13\n",
            "line 3: `order_id` is -3",
            "SELECT count(*) FROM tracked_order",
        ),
        (
            &["tracking", "import"],
            "shipment_id,tracking_number\n7,T-1\n,T-2\n8,T-1\n",
            "line 3: ",
            "SELECT count(*) FROM outbox",
        ),
    ];
    desk.world.make().await;
    for (command, lines, problem, count) in cases {
        std::fs::write(&file, lines).unwrap();
        let output = desk.run(&[command, &[path]].concat()).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
        assert!(said.contains(problem), "{command:?}: {said}");
        assert_eq!(desk.world.number(count).await, 0, "{command:?}");
        desk.text(&[command, &[path, "--partial"]].concat()).await;
        let again = desk.run(&[command, &[path, "--partial"]].concat()).await;
        assert_eq!(again.status.success(), command[0] != "tracking", "what is tracked is tracked once");
        assert_eq!(desk.world.number(count).await, 2, "{command:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_product_that_says_a_field_twice_is_refused_and_a_good_one_kept_as_it_is_written() {
    let desk = Desk::new().await;
    let file = desk.config.with_file_name("product.json");
    let path = file.to_str().unwrap();
    for command in ["create", "update"] {
        std::fs::write(&file, r#"{"Sku":"A","Name":"one","Name":"two"}"#).unwrap();
        let output = desk.run(&["product", command, path]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("Name") && said.contains("twice"), "{said}");
    }
    std::fs::write(&file, r#"{"FirstName":"a","FirstName":"b"}"#).unwrap();
    let output = desk.run(&["warehouse", "create", "--name", "W", "--contact", path]).await;
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let text = "{\n  \"Name\": \"B \\u00e9\",\n  \"Sku\": \"B\"\n}\n";
    std::fs::write(&file, text).unwrap();
    desk.text(&["product", "create", path, "--key", "p"]).await;
    let kept: String = desk.world.outsider().await.value("SELECT body FROM outbox WHERE key = 'p'").await;
    assert_eq!(kept, text);
}

/// The host's own `sqlite3`, if there is one, inserts and reads; the tests of the store try the same
/// statements.
#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_own_sqlite_inserts_and_reads() {
    if !tool("sqlite3") {
        return;
    }
    let desk = Desk::new().await;
    if desk.world.is_on_server("`sqlite3` opens files") {
        return;
    }
    desk.world.track_all().await;
    desk.text(&["run", "--once"]).await;
    let (sku, warehouse, quantity) = desk.world.shop().await[0].clone();
    let sql = format!(
        "PRAGMA busy_timeout = 10000; PRAGMA wal_autocheckpoint = 0; \
         INSERT INTO outbox (key, kind, body) VALUES ('s', 'quantity.adjust', \
         json_object('sku', '{}', 'warehouse_id', {warehouse}, 'delta', 2)); \
         SELECT pending_quantity FROM stock WHERE sku = '{}' AND warehouse_id = {warehouse};",
        sku.replace('\'', "''"),
        sku.replace('\'', "''"),
    );
    let output = Command::new("sqlite3").arg(&desk.world.path).arg(sql).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.ends_with(&format!("{}\n", quantity + 2)),
        "{said} {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_at_a_reload_leaves_the_first_running_and_sigterm_ends_it_in_order() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let desk = Desk::new().await;
    let mut child = tokio::process::Command::from(program(&desk.config))
        .arg("run")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut until = async |event: &str| loop {
        let line = log.next_line().await.unwrap().unwrap_or_else(|| panic!("the log ended before {event}"));
        if line.contains(&format!("\"event\":\"{event}\"")) {
            return line;
        }
    };
    until("daemon.ready").await;
    std::fs::write(&desk.config, "[service]\nbase_url = 7\n").unwrap();
    let pid = child.id().unwrap().to_string();
    let signal = |name: &str| Command::new("kill").args([name, &pid]).status().unwrap();
    signal("-HUP");
    assert!(until("config.refused").await.contains("base_url"));
    std::fs::write(&desk.config, desk.world.toml("")).unwrap();
    signal("-HUP");
    until("config.reloaded").await;
    signal("-TERM");
    until("daemon.stopped").await;
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demonstration_that_cannot_start_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    // The folder has the process id in its name, which `exec` keeps. A folder in place of a key ends the start.
    let script = r#"mkdir -p "$TMPDIR/tallyd-demo-$$/integration-key" && exec "$0" demo"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tallyd")]).env("TMPDIR", dir.path()).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot write"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_tells_agreement_from_drift_by_its_exit_code() {
    let desk = Desk::new().await;
    desk.world.track_all().await;
    desk.text(&["run", "--once"]).await;
    let agreed = desk.json(&["verify", "--calls", "2", "--json"]).await;
    let names = [
        "calls",
        "drift",
        "levels_compared",
        "levels_known",
        "median_age_seconds",
        "oldest_age_seconds",
        "skus",
        "trouble",
        "unexplained",
    ];
    assert_eq!(fields(&agreed), names);
    assert_eq!((&agreed["unexplained"], &agreed["calls"]), (&json!(0), &json!(1)));

    let (sku, warehouse, quantity) =
        desk.world.shop().await.into_iter().find(|(_, _, quantity)| *quantity > 2).unwrap();
    desk.world.sandbox.sell_units(&sku, warehouse, 2).await.unwrap();
    let output = desk.run(&["verify", "--json"]).await;
    assert_eq!(output.status.code(), Some(0), "a sale explains it");
    let differs: Value = serde_json::from_slice(&output.stdout).unwrap();
    let drift = &differs["drift"][0];
    assert_eq!(fields(drift), ["difference", "explained_by", "mirror", "service", "sku", "warehouse_id"]);
    assert_eq!((&drift["sku"], &drift["difference"]), (&json!(sku), &json!(-2)));
    let text = String::from_utf8(desk.run(&["verify"]).await.stdout).unwrap();
    assert!(text.starts_with("1 difference, explained"), "{text}");
    let raise = json!([{"Sku": sku, "WarehouseId": warehouse, "Quantity": quantity + 5}]);
    desk.world.post("/api/inventory/updateQuantityOnHand", &raise).await;
    let output = desk.run(&["verify"]).await;
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).unwrap();
    let named = format!("1 difference, 1 of them unexplained: {sku} in warehouse {warehouse}\n");
    assert!(text.starts_with(&named), "{text}");

    let working = desk.world.work().await;
    let beside = desk.run(&["verify"]).await;
    assert!(String::from_utf8_lossy(&beside.stdout).contains("compared "), "{beside:?}");
    let sessions = "SELECT count(*) FROM session WHERE ended_ms IS NULL";
    assert_eq!(desk.world.number(sessions).await, 1, "the daemon at work was asked");
    working.stop().await;
    assert_eq!(desk.run(&["verify", "--calls", "0"]).await.status.code(), Some(2));
}
