//! Move of a database to the other engine: every row with its id, compared table by table.
//!
//! At no moment may both databases lead, because each would send the same changes. So the
//! order of the two commits is:
//!
//! 1. The target is filled and compared, but nobody can use it yet: a file has another name, a server has not
//!    committed.
//! 2. The source commits the mark (`moved_mark`). From here on it never leads again.
//! 3. The target gets its position file, then its commit or its name.
//!
//! Before 2 an interrupted move leaves the source as it was. Between 2 and 3 neither side leads: the mark
//! says that the move is to be repeated. The repetition copies the marked source again and changes
//! nothing in it. The other order would leave two databases that lead, after a crash between the commits.
//! A daemon that is started on the target meanwhile makes an empty database, which has no changes to
//! send; the repetition refuses to overwrite it.
//!
//! The source is locked against the writes of other programs until its mark is committed, so no change is lost
//! between copy and mark. A target is never overwritten, also not the side that an earlier move left behind: the
//! operator removes or renames it first. The schema of a server may exist, without rows of its own.

use super::backup::PartialCopy;
use super::connection::Connection;
use super::error::SqlContext;
use super::files::{GROUP_MODE, resolve_path, with_suffix};
use super::location::DatabaseLocation;
use super::position_file::PositionFile;
use super::table_rows::{self, ROWS_PER_INSERT, ReplacedText, TableColumns, TableSum, to_json};
use super::{migrations, moved_mark, reader};
use crate::model::{Decider, Position, Timestamp};
use crate::store::{DatabaseLock, Durability, LockError, Result, Store, StoreError, WriteTransaction};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use std::fs::Permissions;
use std::future::poll_fn;
use std::os::unix::fs::PermissionsExt as _;

/// Tables in which a migration inserts a row.
const SEEDED_TABLES: [&str; 3] = ["journal_sequence", "quantity_policy", "account_binding"];

const ACTION: &str = "copy the tables";

#[derive(Clone, Debug)]
pub struct MoveReport {
    /// Copied tables; none if the database had moved there already.
    pub tables: Vec<MovedTable>,
    pub replaced: Vec<ReplacedText>,
    /// State of the source, as a sentence.
    pub sentence: String,
}

/// Copied table, equal in both databases.
#[derive(Clone, Debug)]
pub struct MovedTable {
    pub name: String,
    pub rows: u64,
}

#[derive(Clone, Copy)]
struct MoveEnds<'a> {
    from: &'a DatabaseLocation,
    to: &'a DatabaseLocation,
}

enum MoveTarget {
    File(Connection, PartialCopy),
    Server(Box<Store>, WriteTransaction),
}

/// Copies a database to an empty place of the other engine and marks it as moved.
///
/// `progress` gets the number of finished steps and of all.
///
/// Fails if a daemon runs on either side, if the target is not empty, and if a table differs.
pub async fn move_database(
    from: &DatabaseLocation,
    to: &DatabaseLocation,
    (at, decider): (Timestamp, &Decider),
    mut progress: impl FnMut(usize, usize),
) -> Result<MoveReport> {
    let ends = MoveEnds { from, to };
    if let Err(missing @ StoreError::Missing { .. }) = reader::open_reader(from).await {
        return Err(missing);
    }
    let lock = ends.lock(from)?;
    // With a server, the files of this host may be those of the database file.
    let is_shared = resolve_path(from.path()) == resolve_path(to.path());
    let other = if is_shared { None } else { Some(ends.lock(to)?) };
    let (source, mark) = match Store::open(from, &lock).await {
        Err(StoreError::Moved { to: place, sentence }) if place == to.to_string() => {
            (Store::open_beside(from).await?, Some(sentence))
        }
        opened => (opened?.decided_by(decider), None),
    };
    if let Some(sentence) = &mark
        && ends.is_complete(&source).await
    {
        return Ok(MoveReport { tables: Vec::new(), replaced: Vec::new(), sentence: sentence.clone() });
    }
    if let Some(sign) = source.rollback_sign(None).await? {
        let reason = format!(
            "{}. Start tallyd on it once, which holds the changes that may have been sent since, then repeat the move",
            sign.description
        );
        return Err(ends.refused(reason));
    }
    let mut target = MoveTarget::create(ends, other.as_ref().unwrap_or(&lock)).await?;
    let mut write = source.begin_write(Durability::Full).await?;
    let tables = table_rows::shared_tables(&mut write.tx, target.connection()).await?;
    lock_tables(&mut write, &tables).await?;
    let sentence = match &mark {
        Some(sentence) => sentence.clone(),
        None => moved_mark::append_moved(&mut write, (from, to), at).await?,
    };
    let copied = ends.copy_all(&mut write.tx, target.connection(), &tables, &mut progress).await?;
    let position = write.fetch_value("SELECT position FROM journal_sequence", (), ACTION).await?;
    if mark.is_none() {
        moved_mark::refuse_writes(&mut write.tx, &tables, &sentence).await?;
    }
    progress(2 * tables.len(), 2 * tables.len());
    write.commit().await?;
    target.publish(ends, position).await.map_err(|error| {
        ends.refused(format!(
            "{error}. {from} is marked as moved already, so no tallyd works on either of them: repeat the move"
        ))
    })?;
    // A failed checkpoint of the side left behind loses nothing.
    drop(source.close().await);
    Ok(MoveReport { sentence, ..copied })
}

impl MoveEnds<'_> {
    fn refused(self, reason: impl Into<String>) -> StoreError {
        StoreError::refused(format!("move {} to {}", self.from, self.to), reason)
    }

    fn lock(self, location: &DatabaseLocation) -> Result<DatabaseLock> {
        DatabaseLock::acquire(location.path()).map_err(|error| match error {
            LockError::Held { .. } => self.refused(format!(
                "a running daemon uses {location}: stop it (`sudo systemctl stop tallyd`) and repeat the move"
            )),
            error => error.into(),
        })
    }

    /// Returns true if the target is this database already. The salt tells the databases of accounts apart.
    async fn is_complete(self, source: &Store) -> bool {
        let Ok(target) = Store::open_beside(self.to).await else { return false };
        let salts = (source.account_binding().await, target.account_binding().await);
        matches!(salts, (Ok(source), Ok(target)) if source.salt == target.salt)
    }

    async fn copy_all(
        self,
        source: &mut Connection,
        target: &mut Connection,
        tables: &[TableColumns],
        progress: &mut impl FnMut(usize, usize),
    ) -> Result<MoveReport> {
        self.clear(target, tables).await?;
        let triggers = disable_triggers(target, tables).await?;
        let steps = 2 * tables.len();
        let (mut sums, mut replaced) = (Vec::new(), Vec::new());
        for (done, table) in tables.iter().enumerate() {
            progress(done, steps);
            sums.push(self.copy_table(source, target, table, &mut replaced).await?);
        }
        copy_last_ids(source, target).await?;
        target.run(AssertSqlSafe(triggers)).await.context(ACTION)?;
        for (done, (table, sum)) in tables.iter().zip(&sums).enumerate() {
            progress(tables.len() + done, steps);
            if TableSum::of(target, table.query()).await.context("compare a table")? != *sum {
                let name = &table.name;
                return Err(self.refused(format!(
                    "the copy's table {name} differs from the original; check both disks"
                )));
            }
        }
        let names = tables.iter().zip(sums);
        let tables =
            names.map(|(table, sum)| MovedTable { name: table.name.clone(), rows: sum.rows }).collect();
        Ok(MoveReport { tables, replaced, sentence: String::new() })
    }

    async fn copy_table(
        self,
        source: &mut Connection,
        target: &mut Connection,
        table: &TableColumns,
        replaced: &mut Vec<ReplacedText>,
    ) -> Result<TableSum> {
        let copied = async {
            let (mut sum, mut rows) = (TableSum::default(), Vec::with_capacity(ROWS_PER_INSERT));
            let mut read = table_rows::read_rows(source, table.query());
            while let Some(row) = poll_fn(&mut read).await {
                let mut row = row?;
                table.make_storable(&mut row, replaced);
                sum.add_row(&row);
                rows.push(row);
                if rows.len() == ROWS_PER_INSERT {
                    target.change(table.insertion(target), (to_json(&rows),)).await?;
                    rows.clear();
                }
            }
            target.change(table.insertion(target), (to_json(&rows),)).await?;
            Ok(sum)
        };
        copied.await.map_err(|error: sqlx::Error| {
            self.refused(format!("the table {} cannot be copied: {error}", table.name))
        })
    }

    /// Refuses a target with rows that no migration inserted, and deletes those.
    async fn clear(self, target: &mut Connection, tables: &[TableColumns]) -> Result<()> {
        let sql = "SELECT position FROM journal_sequence";
        let mut is_used = target.first_row(sql, ()).await.context(ACTION)? != Some((0_i64,));
        for TableColumns { name, .. } in tables {
            let sql = format!("SELECT EXISTS (SELECT 1 FROM {name})");
            let has_rows = target.first_row(AssertSqlSafe(sql), ()).await.context(ACTION)? == Some((true,));
            is_used |= has_rows && !SEEDED_TABLES.contains(&name.as_str());
        }
        if is_used {
            return Err(self.refused(NOT_EMPTY));
        }
        let sql = SEEDED_TABLES.map(|table| format!("DELETE FROM {table};")).concat();
        target.run(AssertSqlSafe(sql)).await.context(ACTION)
    }
}

const NOT_EMPTY: &str = "there is a database at the target, and a move overwrites none: name an empty place, or \
                         rename or remove what is there (a file with its -wal; a schema by ALTER SCHEMA … RENAME TO …)";

impl MoveTarget {
    async fn create(ends: MoveEnds<'_>, lock: &DatabaseLock) -> Result<Self> {
        if ends.to.server().is_some() {
            let store = match Store::open(ends.to, lock).await {
                Err(StoreError::Moved { .. }) => return Err(ends.refused(NOT_EMPTY)),
                opened => opened?,
            };
            let mut write = store.begin_write(Durability::Full).await?;
            write.allow_pauses().await?;
            return Ok(Self::Server(Box::new(store), write));
        }
        let path = resolve_path(ends.to.path());
        if ["", "-wal", "-journal"].iter().any(|suffix| with_suffix(&path, suffix).exists()) {
            return Err(ends.refused(NOT_EMPTY));
        }
        let partial = PartialCopy::create_file(&path)?;
        // The file is synced before it gets its name, and a file left behind is never opened.
        let options = SqliteConnectOptions::new()
            .filename(&partial.path)
            .journal_mode(SqliteJournalMode::Off)
            .synchronous(SqliteSynchronous::Off)
            .foreign_keys(false)
            .log_statements(tracing::log::LevelFilter::Trace);
        let mut connection = options.connect().await.opening(ends.to)?;
        let made = migrations::OF_SQLITE.run_direct(None, &mut connection, false).await;
        made.map_err(|source| StoreError::Migrate { database: ends.to.clone(), source })?;
        let mut connection = Connection::Sqlite(connection);
        connection.run("BEGIN").await.context(ACTION)?;
        Ok(Self::File(connection, partial))
    }

    fn connection(&mut self) -> &mut Connection {
        match self {
            Self::File(connection, _) => connection,
            Self::Server(_, write) => &mut write.tx,
        }
    }

    /// Makes the target usable: first its position file, without which a start would take it for a copy.
    async fn publish(self, ends: MoveEnds<'_>, position: Position) -> Result<()> {
        let path = resolve_path(ends.to.path());
        PositionFile::for_database(&path).create_synced(position);
        match self {
            Self::Server(store, write) => {
                write.commit().await?;
                store.close().await
            }
            Self::File(mut connection, partial) => {
                connection.run("COMMIT").await.context(ACTION)?;
                connection.close().await.context("close the copy")?;
                let opened = std::fs::set_permissions(&partial.path, Permissions::from_mode(GROUP_MODE));
                opened.map_err(StoreError::of_file("set the permissions of", &partial.path))?;
                partial.publish_as(&path).await
            }
        }
    }
}

/// Keeps other programs from writing to a server's tables until the commit. SQLite has one writer anyway.
async fn lock_tables(write: &mut WriteTransaction, tables: &[TableColumns]) -> Result<()> {
    write.allow_pauses().await?;
    if let Connection::Postgres(_) = *write.tx {
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let sql = format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", names.join(", "));
        write.tx.run(AssertSqlSafe(sql)).await.context("lock the tables")?;
    }
    Ok(())
}

/// Disables guards, journals and notifications, and returns the statements that enable them again.
async fn disable_triggers(target: &mut Connection, tables: &[TableColumns]) -> Result<String> {
    let (disable, enable): (String, String) = match target {
        Connection::Sqlite(_) => {
            let sql =
                "SELECT 'DROP TRIGGER ' || name || ';', sql || ';' FROM sqlite_schema WHERE type = 'trigger'";
            target.rows::<(String, String)>(sql, ()).await.context(ACTION)?.into_iter().unzip()
        }
        Connection::Postgres(_) => {
            let set = |table: &TableColumns, to| format!("ALTER TABLE {} {to} TRIGGER USER;", table.name);
            tables.iter().map(|table| (set(table, "DISABLE"), set(table, "ENABLE"))).unzip()
        }
    };
    target.run(AssertSqlSafe(disable)).await.context(ACTION)?;
    Ok(enable)
}

/// Copies the last id that each table gave, because an id never names two rows.
async fn copy_last_ids(source: &mut Connection, target: &mut Connection) -> Result<()> {
    const SEQUENCES: &str = "SELECT CAST(t.relname AS TEXT), CAST(s.relname AS TEXT) FROM pg_class s \
        JOIN pg_depend d ON d.objid = s.oid AND d.deptype IN ('a', 'i') JOIN pg_class t ON t.oid = d.refobjid \
        WHERE s.relkind = 'S' AND s.relnamespace = CAST(current_schema() AS regnamespace)";
    let (_, server) = table_rows::file_and_server(source, target);
    let sequences: Vec<(String, String)> = server.rows(SEQUENCES, ()).await.context(ACTION)?;
    for (table, sequence) in sequences {
        let sql = match source {
            Connection::Sqlite(_) => format!(
                "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0), \
                            coalesce((SELECT max(id) FROM {table}), 0))"
            ),
            Connection::Postgres(_) => {
                format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}")
            }
        };
        let last = source.first_row(AssertSqlSafe(sql), ()).await.context(ACTION)?;
        let last = last.map_or(0, |(last,): (i64,)| last);
        let sql = match target {
            Connection::Sqlite(_) => format!(
                "DELETE FROM sqlite_sequence WHERE name = '{table}'; \
                 INSERT INTO sqlite_sequence (name, seq) SELECT name, {last} FROM sqlite_schema \
                 WHERE name = '{table}' AND sql LIKE '%AUTOINCREMENT%' AND {last} > 0"
            ),
            Connection::Postgres(_) => {
                format!("SELECT setval('{sequence}', greatest({last}, 1), {last} > 0)")
            }
        };
        target.run(AssertSqlSafe(sql)).await.context(ACTION)?;
    }
    Ok(())
}
