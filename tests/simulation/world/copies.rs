//! Copies of the database that are put back, and changes that programs of the product insert beside the daemon.

use super::super::outsider::{Outsider, quoted};
use super::World;
use sqlx::Connection as _;
use std::path::{Path, PathBuf};
use tallyd::model::{Clock, JobKind, RunTrigger};

/// Row of a change that a program of the product inserted.
#[derive(Clone, Debug, sqlx_macros::FromRow)]
pub struct InsertedChange {
    pub key: String,
    pub body: String,
}

/// Change that a program keeps, to insert it again.
#[derive(Clone, Debug, sqlx_macros::FromRow)]
pub struct KeptChange {
    pub key: String,
    pub kind: String,
    pub body: String,
    pub priority: i64,
}

impl World {
    /// Returns the id of the last change.
    pub async fn last_change(&mut self) -> i64 {
        self.number("SELECT coalesce(max(id), 0) FROM outbox").await
    }

    /// Returns the changes that another program inserted after this one, and dates them by the world's clock.
    pub async fn inserted_since(&mut self, last: i64) -> Vec<InsertedChange> {
        let sql = format!("SELECT key, body FROM outbox WHERE id > {last} ORDER BY id");
        let inserted: Vec<InsertedChange> = self.outsider.rows(&sql).await;
        if !inserted.is_empty() {
            let at = quoted(&self.clock.now().to_rfc3339());
            let dated =
                format!("UPDATE outbox SET revision = revision + 1, created_at = {at} WHERE id > {last}");
            self.outsider.run(&dated).await.unwrap();
            self.changes += u64::try_from(inserted.len()).unwrap();
            self.plan_job(JobKind::Push, self.clock.now_ms() + super::GATHER_MS, RunTrigger::Outbox);
        }
        inserted
    }

    /// Inserts changes again that a restore lost, with their keys.
    pub async fn insert_again(&mut self, changes: &[KeptChange]) {
        let at = quoted(&self.clock.now().to_rfc3339());
        for change in changes {
            let [key, kind, body] = [&change.key, &change.kind, &change.body].map(|text| quoted(text));
            let insertion = format!(
                "BEGIN; INSERT INTO outbox (key, kind, body, priority) VALUES ({key}, {kind}, {body}, {}); \
                 UPDATE outbox SET revision = revision + 1, created_at = {at} WHERE key = {key}; COMMIT",
                change.priority
            );
            self.outsider.run(&insertion).await.unwrap();
        }
    }

    /// Copies the database by the product, which marks the copy.
    pub async fn back_up(&mut self) -> PathBuf {
        self.rest().await;
        let copy = self.dir.path().join("copy.db");
        remove_all(&copy);
        self.store().backup_create(&copy, self.clock.now(), |_, _| {}).await.unwrap();
        copy
    }

    /// Copies the files of the database as another tool does.
    pub async fn copy_files(&mut self) -> PathBuf {
        self.rest().await;
        let copy = self.dir.path().join("copy.db");
        remove_all(&copy);
        copy_all(self.location.path(), &copy);
        copy
    }

    /// Ends the daemon and puts a copy of the database in place.
    ///
    /// [`World::start_restored`] starts the daemon again.
    pub async fn put_back(&mut self, copy: &Path) {
        self.amid.clear();
        let store = self.store().clone();
        self.end(0).await;
        store.close().await.unwrap();
        // A connection that closes removes the log of the file that has its path then.
        let nothing = Outsider::at(&Path::new(":memory:").into()).await;
        std::mem::replace(&mut self.outsider, nothing).into_sqlite().close().await.unwrap();
        let database = self.location.path().to_owned();
        remove_all(&database);
        copy_all(copy, &database);
        self.outsider = Outsider::at(&self.location).await;
    }

    /// Starts the daemon on the database that was put back.
    pub async fn start_restored(&mut self) {
        let daemon = self.hosts[0].start_alone(&self.plan).await;
        self.install(0, daemon, super::supervise::PlannedJobs::new());
        self.plan_job(JobKind::Push, self.clock.now_ms(), RunTrigger::Outbox);
        self.plan_job(JobKind::Settle, self.clock.now_ms(), RunTrigger::Outbox);
        self.arm(0).await;
    }
}

/// Names of the files of a database.
fn files(database: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    })
}

fn remove_all(database: &Path) {
    for file in files(database).iter().filter(|file| file.exists()) {
        std::fs::remove_file(file).unwrap();
    }
}

/// Copies a database and its log.
fn copy_all(from: &Path, to: &Path) {
    for (from, to) in files(from).iter().zip(files(to)).take(2).filter(|(from, _)| from.exists()) {
        std::fs::copy(from, to).unwrap();
    }
}
