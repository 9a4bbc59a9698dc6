//! Copies of the database that are put back, and changes that programs of the product insert beside the daemon.

use super::super::outsider::{Outsider, quoted};
use super::World;
use sqlx::Connection as _;
use std::path::{Path, PathBuf};
use tallyd::model::{Clock, JobKind, RunTrigger};

/// Tables of a schema, each with the columns that are stored as they are given.
const TABLES: &str = "SELECT CAST(c.table_name AS TEXT), \
        CAST(string_agg(quote_ident(c.column_name), ', ' ORDER BY c.ordinal_position) AS TEXT) \
    FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) \
    WHERE table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER' \
    GROUP BY c.table_name ORDER BY 1";

/// A copy of the database.
#[derive(Debug)]
pub enum DatabaseCopy {
    File(PathBuf),
    /// The tables of a schema in another schema, as a dump of a server holds them.
    Dump(String),
}

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
    pub async fn back_up(&mut self) -> DatabaseCopy {
        self.rest().await;
        let copy = self.dir.path().join("copy.db");
        remove_all(&copy);
        self.store().backup_create(&copy, self.clock.now(), |_, _| {}).await.unwrap();
        DatabaseCopy::File(copy)
    }

    /// Copies the files of the database as another tool does.
    pub async fn copy_files(&mut self) -> DatabaseCopy {
        self.rest().await;
        let copy = self.dir.path().join("copy.db");
        remove_all(&copy);
        copy_all(self.location.path(), &copy);
        DatabaseCopy::File(copy)
    }

    /// Copies the data of a server's schema, as a dump does.
    pub async fn dump(&mut self) -> DatabaseCopy {
        self.rest().await;
        let schema = self.location.server().expect("the database is on a server").schema().to_owned();
        let copy = format!("{schema}_copy");
        let sequences =
            "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()";
        let mut sql = format!(
            "BEGIN; DROP SCHEMA IF EXISTS {copy} CASCADE; CREATE SCHEMA {copy}; \
             CREATE TABLE {copy}.kept_sequence AS {sequences}; "
        );
        for (table, _) in self.outsider.rows::<(String, String)>(TABLES).await {
            sql += &format!("CREATE TABLE {copy}.{table} AS TABLE {table}; ");
        }
        self.outsider.run(&(sql + "COMMIT")).await.unwrap();
        DatabaseCopy::Dump(copy)
    }

    /// Ends the daemon and puts a copy of the database in place.
    ///
    /// [`World::start_restored`] starts the daemon again.
    pub async fn put_back(&mut self, copy: &DatabaseCopy) {
        self.amid.clear();
        let store = self.store().clone();
        self.end(0).await;
        store.close().await.unwrap();
        match copy {
            DatabaseCopy::File(copy) => self.put_file_back(copy).await,
            DatabaseCopy::Dump(copy) => self.load_dump(copy).await,
        }
    }

    async fn put_file_back(&mut self, copy: &Path) {
        // A connection that closes removes the log of the file that has its path then.
        let nothing = Outsider::at(&Path::new(":memory:").into()).await;
        std::mem::replace(&mut self.outsider, nothing).into_sqlite().close().await.unwrap();
        let database = self.location.path().to_owned();
        remove_all(&database);
        copy_all(copy, &database);
        self.outsider = Outsider::at(&self.location).await;
    }

    /// Replaces the data of a server's schema. No trigger acts, as in a restore of a dump.
    async fn load_dump(&mut self, copy: &str) {
        let tables: Vec<(String, String)> = self.outsider.rows(TABLES).await;
        let names: Vec<&str> = tables.iter().map(|(table, _)| table.as_str()).collect();
        let mut sql =
            format!("BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE {}; ", names.join(", "));
        for (table, columns) in &tables {
            sql += &format!(
                "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {copy}.{table}; "
            );
        }
        sql += &format!(
            "SELECT setval(format('%I.%I', current_schema(), sequencename)::regclass, coalesce(last_value, 1), \
             last_value IS NOT NULL) FROM {copy}.kept_sequence; COMMIT"
        );
        self.outsider.run(&sql).await.unwrap();
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
