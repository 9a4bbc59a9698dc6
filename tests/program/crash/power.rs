//! A power cut: the disk keeps a prefix of the write-ahead log, perhaps with half a frame at its end. The
//! database opens from each prefix, and has every call that can have been sent by then.

use super::rig::{self, Hook, Life, Moved, Side, Wire};
use crate::support::World;
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tallyd::model::JobKind;
use tallyd::store::StoreOptions;

/// A push and a settle as the disk sees them: the database before, and the log of all writes since.
pub struct History {
    pub base: Vec<u8>,
    pub wal: Vec<u8>,
    pub left: Vec<Left>,
}

/// State at the send of a call: from then on the disk holds at least this much of the log.
pub struct Left {
    wal_bytes: usize,
    /// Changes that the call carries.
    carried: Vec<String>,
    /// Position in the file beside the database.
    position: i64,
}

/// Runs a push and a settle and notes each call as it is sent; returns the database and its log.
async fn record(world: &World) -> History {
    let left: Arc<Mutex<Vec<Left>>> = Arc::default();
    let (notes, path) = (Arc::clone(&left), world.path.clone());
    let hook: Hook = Box::new(move |_, side| {
        let (notes, path) = (Arc::clone(&notes), path.clone());
        Box::pin(async move {
            if side == Side::Before {
                let note = note(&path).await;
                notes.lock().unwrap().push(note);
            }
            true
        })
    });
    let inner = rig::transport(&rig::config(world, ""));
    let wire = Arc::new(Wire { inner, hook });
    let life = Life::begin(world, &Moved::new(), wire, StoreOptions::default()).await.unwrap();
    // The life keeps the database open, so that no other connection checkpoints the log when it closes.
    let base = std::fs::read(&world.path).unwrap();
    life.run(JobKind::Push).await;
    life.run(JobKind::Settle).await;
    assert!(std::fs::read(&world.path).unwrap() == base, "a checkpoint came in between");
    let wal = std::fs::read(beside(&world.path, "-wal")).unwrap();
    let left = std::mem::take(&mut *left.lock().unwrap());
    History { base, wal, left }
}

async fn note(path: &Path) -> Left {
    let mut other = open(path).await;
    let carried = sqlx::query_scalar("SELECT key FROM outbox WHERE state = 'sending'").fetch_all(&mut other);
    let carried = carried.await.unwrap();
    let line = std::fs::read_to_string(beside(path, ".position")).unwrap();
    let position = line.split_whitespace().next().unwrap().parse().unwrap();
    let wal_bytes = std::fs::metadata(beside(path, "-wal")).unwrap().len();
    Left { wal_bytes: usize::try_from(wal_bytes).unwrap(), carried, position }
}

pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub async fn open(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).pragma("wal_autocheckpoint", "0").connect().await.unwrap()
}

/// Returns the end of every frame, and a cut inside each frame.
fn cuts(wal: &[u8]) -> Vec<usize> {
    let page = u32::from_be_bytes(wal[8..12].try_into().unwrap()) as usize;
    let frame = 24 + page;
    let frames = (wal.len() - 32) / frame;
    assert!(frames > 60, "{frames} frames are no history");
    let torn = (0..frames).map(|n| 32 + n * frame + (n * 577) % frame);
    let whole = (0..=frames).map(|n| 32 + n * frame);
    let mut cuts: Vec<usize> = torn.chain(whole).collect();
    cuts.push(0);
    cuts
}

pub async fn check(path: &Path, cut: usize, left: &[Left]) {
    let mut db = open(path).await;
    let sound: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut db).await.unwrap();
    assert_eq!(sound, "ok", "cut at {cut}");
    let odd = "SELECT count(*) FROM outbox o WHERE o.state IN ('sending', 'in_doubt', 'applied') \
               AND NOT EXISTS (SELECT 1 FROM exchange e WHERE e.id = o.exchange_id)";
    let odd: i64 = sqlx::query_scalar(odd).fetch_one(&mut db).await.unwrap();
    assert_eq!(odd, 0, "cut at {cut}: a change is under way in a call nobody knows");
    let pending = sqlx::query_scalar("SELECT key FROM outbox WHERE state = 'pending'").fetch_all(&mut db);
    let pending: Vec<String> = pending.await.unwrap();
    let position: i64 =
        sqlx::query_scalar("SELECT position FROM journal_sequence").fetch_one(&mut db).await.unwrap();
    for call in left.iter().filter(|call| call.wal_bytes <= cut) {
        for key in &call.carried {
            assert!(!pending.contains(key), "cut at {cut}: `{key}` had left and would be sent again");
        }
        assert!(
            position >= call.position,
            "cut at {cut}: the position beside the database raises a false alarm"
        );
    }
}

/// Records adjusts of thirty stock levels, a shipment and a warehouse; `None` on a server, which has no such
/// log.
pub async fn history() -> Option<History> {
    let world = World::new().await;
    if world.is_on_server("the log is the one of a file") {
        return None;
    }
    world.make().await;
    let levels: Vec<_> = world.shop().await.into_iter().filter(|level| level.2 > 20).take(30).collect();
    for (n, level) in levels.iter().enumerate() {
        let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": -1});
        world.change(&format!("w{n}"), "quantity.adjust", &body.to_string()).await;
    }
    let order = world.sandbox.place_order(&[(&levels[0].0, 1)]).await.unwrap();
    world.change("ship", "shipment.create", &json!({"order_id": order}).to_string()).await;
    world.change("house", "warehouse.create", &json!({"Name": "Annex"}).to_string()).await;
    let history = record(&world).await;
    let carried: BTreeSet<&String> = history.left.iter().flat_map(|call| &call.carried).collect();
    assert_eq!(carried.len(), levels.len() + 2, "every change left");
    Some(history)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_prefix_of_the_log_opens_and_knows_what_can_have_left() {
    let Some(History { base, wal, left }) = history().await else { return };
    for cut in cuts(&wal) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        std::fs::write(&path, &base).unwrap();
        std::fs::write(beside(&path, "-wal"), &wal[..cut]).unwrap();
        check(&path, cut, &left).await;
    }
}
