//! An account with a daemon: the sandbox over sockets, the mirror read with plain SQL as other programs do.
//!
//! Tests ask the sandbox in process, so that their questions cost no quota and no journal entry.

use crate::support::cluster;
use crate::support::outsider::Outsider;
use axum::body::Bytes;
use axum::http::Request;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use tallyd::config::Config;
use tallyd::daemon::{Daemon, OnceReport, SystemClock};
use tallyd::sandbox::{Sandbox, SandboxAnswer, SandboxOptions, start_sandbox};
use tallyd::store::DatabaseLocation;

/// A sandbox, and a folder with the configuration, the keys and the database of a daemon.
pub(crate) struct Shop {
    pub(crate) sandbox: Sandbox,
    location: DatabaseLocation,
    dir: tempfile::TempDir,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::with(SandboxOptions::default()).await
    }

    /// Creates an account with these options; address and limits are the test's own, and no call waits.
    pub(crate) async fn with(shop: SandboxOptions) -> Self {
        let options = SandboxOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            skus: 20,
            orders: 6,
            calls_per_minute: 0,
            ..shop
        };
        let sandbox = start_sandbox(options).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let shop = Self { sandbox, location: cluster::new_location(&dir.path().join("tallyd.db")), dir };
        shop.write("integration-key", shop.sandbox.integration_key());
        shop.write("gateway-key", shop.sandbox.gateway_key());
        let text = format!(
            "[service]\nbase_url = \"http://{}\"\n[limits]\ncalls_per_minute = 60000\n[database]\n{}",
            shop.sandbox.local_addr(),
            cluster::location_toml(&shop.location)
        );
        shop.write("tallyd.toml", &text);
        shop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Changes the key, so that the daemon works for the company of this key.
    pub(crate) fn take_key(&self, integration_key: &str) {
        self.write("integration-key", integration_key);
    }

    pub(crate) fn config(&self) -> Config {
        Config::load(&self.path("tallyd.toml"), []).unwrap()
    }

    pub(crate) async fn daemon(&self) -> Daemon {
        Daemon::start(self.config(), Arc::new(SystemClock)).await.unwrap()
    }

    pub(crate) async fn once(&self) -> OnceReport {
        self.daemon().await.run_once().await.unwrap()
    }

    /// Runs `run --once` and asserts that every run succeeded.
    pub(crate) async fn good_once(&self) -> OnceReport {
        let once = self.once().await;
        assert!(once.is_good(), "{:?}", once.runs);
        once
    }

    /// Runs a command beside the configuration.
    pub(crate) async fn cli(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(self.path("tallyd.toml")).args(arguments).env_clear();
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Runs a reading command with `--json` and asserts success.
    pub(crate) async fn cli_json(&self, arguments: &[&str]) -> Value {
        let output = self.cli(&[arguments, &["--json"]].concat()).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Executes statements as another program.
    pub(crate) async fn execute(&self, sql: &str) {
        Outsider::at(&self.location).await.run(sql).await.unwrap();
    }

    /// Returns the names of a table's columns, in order.
    pub(crate) async fn columns(&self, table: &str) -> Vec<String> {
        let sql = match self.location.server() {
            Some(_) => format!(
                "SELECT CAST(column_name AS TEXT) FROM information_schema.columns \
                 WHERE table_schema = current_schema() AND table_name = '{table}' ORDER BY ordinal_position"
            ),
            None => format!("SELECT name FROM pragma_table_info('{table}') ORDER BY cid"),
        };
        let names: Vec<(String,)> = Outsider::at(&self.location).await.rows(&sql).await;
        names.into_iter().map(|(name,)| name).collect()
    }

    /// Returns the rows of a query, each a list of its columns, in order. Numbers are fractions, flags 0 and
    /// 1.
    pub(crate) async fn rows(&self, columns: &str, from: &str) -> Value {
        let list = if self.location.server().is_some() { "json_build_array" } else { "json_array" };
        let sql = format!("SELECT CAST({list}({columns}) AS TEXT) FROM {from}");
        let rows: Vec<(String,)> = Outsider::at(&self.location).await.rows(&sql).await;
        rows.iter().map(|(row,)| level(&serde_json::from_str(row).unwrap())).collect()
    }

    /// Returns the records of an answer, each a list of these fields.
    pub(crate) async fn served(&self, path: &str, fields: &[&str]) -> Value {
        records(&self.get(path).await["data"], fields)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.handle(Request::get(path), Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.handle(Request::post(path), body.to_string().into()).await
    }

    async fn handle(&self, request: axum::http::request::Builder, body: Bytes) -> Value {
        let request = request
            .header("svc-subscription-key", self.sandbox.integration_key())
            .header("gateway-subscription-key", self.sandbox.gateway_key())
            .header("content-type", "application/json");
        match self.sandbox.core().handle_request(request.body(body).unwrap()).await {
            SandboxAnswer::Full(response) if response.status() == 200 => {
                serde_json::from_slice(response.body()).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the number of calls of the operation so far.
    pub(crate) fn calls_of(&self, operation: &str) -> usize {
        self.sandbox.logged_calls().iter().filter(|call| call.operation == operation).count()
    }

    /// Creates a kit; returns its SKU, its product id and its components as the platform lists them.
    pub(crate) async fn kit(&self) -> (String, i64, Value) {
        let component = self.sandbox.stock_levels().await.unwrap().remove(0).sku;
        let body = json!({"Sku": "KIT-OF-TWO", "Name": "Two of them",
                          "Components": [{"Sku": component, "Quantity": 2}]});
        let id = self.post("/_sandbox/kits", body).await["ProductId"].as_i64().unwrap();
        let fields = ["Id", "Product.Id", "Product.Sku", "QuantityForKit"];
        ("KIT-OF-TWO".into(), id, self.served(&format!("/api/Inventory/{id}/kitcomponents"), &fields).await)
    }
}

/// Returns the records of a list, each a list of these fields; a dot leads into an object.
pub(crate) fn records(list: &Value, fields: &[&str]) -> Value {
    let record = |item: &Value| -> Value {
        fields
            .iter()
            .map(|field| item.pointer(&format!("/{}", field.replace('.', "/"))).map_or(Value::Null, level))
            .collect()
    };
    list.as_array().unwrap().iter().map(record).collect()
}

/// Normalises a value for a comparison: numbers become fractions, flags numbers, an empty text null.
fn level(value: &Value) -> Value {
    match value {
        Value::Bool(flag) => json!(f64::from(u8::from(*flag))),
        Value::Number(number) => json!(number.as_f64()),
        Value::String(text) if text.is_empty() => Value::Null,
        Value::Array(items) => items.iter().map(level).collect(),
        other => other.clone(),
    }
}
