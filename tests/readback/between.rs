//! What stands between the daemon and the sandbox, and a dock with it in place.

use crate::support::Dock;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use tallyd::client::{HttpTransport, Request, Response, Sending, Transport};
use tallyd::model::{JobKind, Operation};

/// What is done to requests and answers on their way.
#[derive(Default)]
struct Rules {
    /// Cells that balances show otherwise: as so many units, or not at all.
    shown: BTreeMap<(String, i64), Option<i64>>,
    /// SKUs that balances leave out.
    left_out: BTreeSet<String>,
    /// SKUs whose entries never reach the service.
    lost: BTreeSet<String>,
    /// The only word said on updates.
    words: Option<String>,
    /// Balances are refused once an update was answered.
    is_blind: bool,
    /// An update was answered.
    is_updated: bool,
}

pub struct Between {
    http: HttpTransport,
    rules: Mutex<Rules>,
}

impl Transport for Between {
    fn send(&self, mut request: Request) -> Sending<'_> {
        let operation = request.operation;
        if operation == Operation::UpdateQuantityOnHand {
            self.lose_entries(&mut request);
        }
        Box::pin(async move {
            let mut response = self.http.send(request).await?;
            match operation {
                Operation::GetProductBalances => self.show(&mut response),
                Operation::UpdateQuantityOnHand => self.say(&mut response),
                _ => {}
            }
            Ok(response)
        })
    }
}

impl Between {
    fn lose_entries(&self, request: &mut Request) {
        let rules = self.rules.lock().unwrap();
        let mut entries: Vec<Value> = serde_json::from_slice(request.body.as_deref().unwrap()).unwrap();
        entries.retain(|entry| !rules.lost.contains(entry["Sku"].as_str().unwrap()));
        request.body = Some(serde_json::to_vec(&entries).unwrap());
    }

    fn show(&self, response: &mut Response) {
        let rules = self.rules.lock().unwrap();
        if rules.is_blind && rules.is_updated {
            *response = Response { status: 404, ..Response::default() };
            return;
        }
        let mut products: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
        products.retain(|product| !rules.left_out.contains(product["Sku"].as_str().unwrap()));
        for product in &mut products {
            let sku = product["Sku"].as_str().unwrap().to_owned();
            let cells = product["Warehouses"].as_array_mut().unwrap();
            let rule = |cell: &Value| {
                let warehouse = crate::support::whole(&cell["WarehouseId"]);
                rules.shown.get(&(sku.clone(), warehouse)).copied()
            };
            cells.retain(|cell| rule(cell) != Some(None));
            for cell in cells {
                if let Some(Some(quantity)) = rule(cell) {
                    cell["QuantityOnHand"] = json!(quantity);
                }
            }
        }
        response.body = serde_json::to_vec(&products).unwrap();
    }

    fn say(&self, response: &mut Response) {
        let mut rules = self.rules.lock().unwrap();
        rules.is_updated = true;
        if let Some(words) = &rules.words {
            let answer = json!({"status": "Partial Success", "messages": [words], "data": ""});
            response.body = serde_json::to_vec(&answer).unwrap();
        }
    }
}

/// A cell with enough in it to be sold from.
#[derive(Clone, Debug)]
pub struct Cell {
    pub sku: String,
    pub warehouse: i64,
    pub quantity: i64,
}

/// A dock with the transport in between.
pub struct Scene {
    dock: Dock,
    between: Arc<Between>,
}

impl Deref for Scene {
    type Target = Dock;
    fn deref(&self) -> &Dock {
        &self.dock
    }
}

impl Scene {
    pub async fn open() -> Self {
        let mut between = None;
        let dock = Dock::open_over(|http| {
            let made = Arc::new(Between { http, rules: Mutex::default() });
            between = Some(Arc::clone(&made));
            Some(made)
        });
        let dock = dock.await;
        Self { dock, between: between.unwrap() }
    }

    /// Cells of different products that hold at least 20, all tracked and read.
    pub async fn cells(&self) -> Vec<Cell> {
        let stock = self.sandbox.stock().await.unwrap();
        let mut cells: Vec<Cell> = stock
            .into_iter()
            .filter(|row| row.quantity >= 20)
            .map(|row| Cell { sku: row.sku, warehouse: row.warehouse_id, quantity: row.quantity })
            .collect();
        cells.dedup_by(|a, b| a.sku == b.sku);
        for cell in &cells {
            let insert = sqlx::query("INSERT INTO tracked_sku (sku) VALUES (?1)").bind(&cell.sku);
            insert.execute(&mut self.outsider().await).await.unwrap();
        }
        self.run(JobKind::Balances).await;
        cells
    }

    pub async fn set(&self, key: &str, cell: &Cell, quantity: i64) {
        let body = json!({"sku": cell.sku, "warehouse_id": cell.warehouse, "quantity": quantity});
        self.wish(key, "quantity.set", body).await;
    }

    pub async fn adjust(&self, key: &str, cell: &Cell, delta: i64) {
        let body = json!({"sku": cell.sku, "warehouse_id": cell.warehouse, "delta": delta});
        self.wish(key, "quantity.adjust", body).await;
    }

    /// From now on balances leave the product out.
    pub fn leave_out(&self, cell: &Cell) {
        self.between.rules.lock().unwrap().left_out.insert(cell.sku.clone());
    }

    /// Balances show the cell as holding `quantity`, or as not there.
    pub fn show(&self, cell: &Cell, quantity: Option<i64>) {
        let name = (cell.sku.clone(), cell.warehouse);
        self.between.rules.lock().unwrap().shown.insert(name, quantity);
    }

    /// Balances show what is.
    pub fn show_all(&self) {
        self.between.rules.lock().unwrap().shown.clear();
    }

    /// Updates of these never arrive, and the service only says these words.
    pub fn lose(&self, lost: &[&Cell], words: &str) {
        let mut rules = self.between.rules.lock().unwrap();
        rules.lost = lost.iter().map(|cell| cell.sku.clone()).collect();
        rules.words = Some(words.to_owned());
    }

    /// Balances cannot be read after an update, or can again.
    pub fn blind(&self, is_blind: bool) {
        let mut rules = self.between.rules.lock().unwrap();
        (rules.is_blind, rules.is_updated) = (is_blind, false);
    }

    /// Updates arrive, and the service says what it has to say.
    pub fn restore(&self) {
        let mut rules = self.between.rules.lock().unwrap();
        (rules.lost, rules.words) = (BTreeSet::new(), None);
    }

    /// What the shop holds.
    pub async fn holds(&self, cell: &Cell) -> i64 {
        self.cell(&cell.sku, cell.warehouse).await
    }

    /// What the `stock` view says.
    pub async fn fact(&self, cell: &Cell) -> i64 {
        let sql = "SELECT quantity FROM stock WHERE sku = ?1 AND warehouse_id = ?2";
        let query = sqlx::query_scalar(sql).bind(&cell.sku).bind(cell.warehouse);
        query.fetch_one(&mut self.outsider().await).await.unwrap()
    }

    /// (key, kind, mine, theirs, what to do) of every open conflict.
    pub async fn conflicts(&self) -> Vec<(String, String, String, Option<String>, String)> {
        let sql = "SELECT key, kind, mine, theirs, what_to_do FROM open_conflict ORDER BY key";
        sqlx::query_as(sql).fetch_all(&mut self.outsider().await).await.unwrap()
    }

    /// How long from now the next look is due.
    pub async fn look_due_in_ms(&self) -> Option<i64> {
        let due = tallyd::job::settle_due(self.daemon().context()).await.unwrap();
        due.map(|due| due.0 - self.daemon().context().now().0)
    }
}
