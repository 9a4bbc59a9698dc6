//! Pauses of the pushes: no write leaves, reads go on, and nothing is lost.

use super::gate::gated;
use super::support::{BALANCES, Dock, UPDATE};
use serde_json::{Value, json};
use tallyd::model::Operation;

/// Returns a stock level with enough stock.
async fn level(dock: &Dock) -> (String, i64, i64) {
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let row = stock.into_iter().find(|row| row.quantity >= 20).unwrap();
    (row.sku, row.warehouse_id, row.quantity)
}

async fn take_two(dock: &Dock, key: &str, sku: &str, warehouse: i64) {
    let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": -2});
    dock.change(key, "quantity.adjust", body).await;
}

async fn status(dock: &Dock) -> Value {
    let (_, text) = dock.tallyd(&["status", "--json"]).await;
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_pushes_survive_a_restart_while_reads_go_on_and_resume_merges() {
    let mut dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    dock.track_skus(&[&sku]).await;
    let said = dock.done(&["pause", "--why", "stocktaking"]).await;
    assert!(said.contains("until `tallyd resume push`: stocktaking; changes are accepted"), "{said}");
    dock.restart().await;
    let at_work = dock.work();
    take_two(&dock, "wait", &sku, warehouse).await;
    dock.sandbox.sell_units(&sku, warehouse, 5).await.unwrap();
    let reads = dock.calls(BALANCES);
    dock.done(&["job", "run", "balances"]).await;
    assert!(dock.calls(BALANCES) > reads, "reads go on");
    let refused = dock.refused(&["job", "run", "push"]).await;
    assert!(refused.contains("push: paused: it did not run, because push is paused since"), "{refused}");
    assert_eq!((dock.state("wait").await.as_str(), dock.calls(UPDATE)), ("pending", 0));

    let (code, text) = dock.tallyd(&["status"]).await;
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("push is paused since ") && first.contains("stocktaking; 1 change pending"),
        "{text}"
    );
    assert_eq!(code, 0, "a pause is no fault: {text}");
    let paused = &status(&dock).await["paused"][0];
    assert_eq!(
        (&paused["job"], &paused["why"], &paused["until"]),
        (&"push".into(), &"stocktaking".into(), &Value::Null)
    );

    assert_eq!(dock.done(&["resume"]).await, "push: resumed\n");
    dock.until("wait", "applied").await;
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 5 - 2, "merged with the sale of the meantime");
    assert_eq!(dock.refused(&["resume", "push"]).await, "push: it was not paused\n");
    assert_eq!(status(&dock).await["paused"], json!([]));
    drop(at_work);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_in_progress_sends_no_write_after_the_pause() {
    let (dock, mut gate) = gated().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    take_two(&dock, "wait", &sku, warehouse).await;
    gate.close();
    let pause = async {
        let read = gate.leaving_to(Operation::GetProductBalances).await;
        dock.done(&["pause", "push", "--why", "a fire drill"]).await;
        gate.open();
        read.go();
    };
    let (summary, ()) = tokio::join!(dock.push(), pause);
    assert!(summary.contains("push is paused since"), "{summary}");
    assert_eq!((dock.state("wait").await.as_str(), dock.calls(UPDATE)), ("pending", 0));
    let outcome = "SELECT count(*) FROM run WHERE job = 'push' AND outcome = 'interrupted'";
    assert_eq!(dock.number(outcome).await, 1, "a pause is no failure of the run");

    dock.done(&["resume"]).await;
    dock.push().await;
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_ends_by_itself_and_a_run_once_respects_it() {
    let mut dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    take_two(&dock, "wait", &sku, warehouse).await;
    dock.done(&["pause", "push", "warehouses", "--for", "1h", "--why", "moving house"]).await;
    dock.leave();
    let said = dock.done(&["run", "--once"]).await;
    for job in ["push", "warehouses"] {
        assert!(said.contains(&format!("did not run: {job} is paused since")), "{said}");
    }
    assert_eq!(dock.calls(UPDATE), 0);

    // A later pause replaces the first.
    dock.done(&["pause", "--for", "1s", "--why", "nearly done"]).await;
    dock.restart().await;
    let _at_work = dock.work();
    dock.until("wait", "applied").await;
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 2);
    let ends = "SELECT count(*) FROM event WHERE kind = 'job.resumed' AND subject = 'push'";
    assert_eq!(dock.number(ends).await, 1);
    let begins = "SELECT count(*) FROM event WHERE kind = 'job.paused' AND subject = 'push'";
    assert_eq!(dock.number(begins).await, 2, "each decision is in the journal");
    assert_eq!(status(&dock).await["paused"][0]["job"], "warehouses", "the other one goes on");
}
