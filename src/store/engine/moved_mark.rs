//! Mark of a database that moved to the other engine: it never leads again.
//!
//! The mark is a trigger on each table that refuses every write, of any program and of any version of tallyd.
//! A program that still knows the old address only would otherwise insert changes that nobody sends. The event
//! `database.moved`, the last in the journal, has the sentence for people. Reads go on.

use super::connection::Connection;
use super::error::SqlContext;
use super::location::DatabaseLocation;
use super::table_rows::TableColumns;
use crate::model::Timestamp;
use crate::store::{Result, Store, StoreError, WriteTransaction};
use serde_json::json;
use sqlx::AssertSqlSafe;

/// Event of a move; the database that it moved to has it too.
const DATABASE_MOVED: &str = "database.moved";

impl Store {
    /// Fails with [`StoreError::Moved`] if the database moved away.
    pub(crate) async fn refuse_moved(&self) -> Result<()> {
        const ACTION: &str = "check if the database moved";
        let mut connection = self.writer.acquire().await.context(ACTION)?;
        let marked = match *connection {
            Connection::Sqlite(_) => {
                "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'moved_insert_event')"
            }
            Connection::Postgres(_) => {
                "SELECT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'moved' AND tgrelid = to_regclass('event'))"
            }
        };
        if connection.first_row(marked, ()).await.context(ACTION)? != Some((true,)) {
            return Ok(());
        }
        let sql = "SELECT detail->>'to', detail->>'sentence' FROM event WHERE kind = $1 \
                   ORDER BY position DESC LIMIT 1";
        let moved = connection.first_row(sql, (DATABASE_MOVED,)).await.context(ACTION)?;
        let (to, sentence) = moved.ok_or(sqlx::Error::RowNotFound).context(ACTION)?;
        Err(StoreError::Moved { to, sentence })
    }
}

/// Appends the event of a move and returns the sentence of the mark.
pub(super) async fn append_moved(
    write: &mut WriteTransaction,
    (from, to): (&DatabaseLocation, &DatabaseLocation),
    at: Timestamp,
) -> Result<String> {
    let sentence = format!(
        "the database {from} moved to {to} on {}, and nothing is written to it any more: set {} in [database] of the \
         configuration, or repeat `tallyd move` if it was interrupted",
        at.to_rfc3339(),
        to.to_settings().join(" and "),
    );
    let detail = json!({"from": from.to_string(), "to": to.to_string(), "sentence": sentence}).to_string();
    write.event_append(at, DATABASE_MOVED, "database", Some(&detail)).await?;
    Ok(sentence)
}

/// Makes every write to the tables fail with the sentence.
pub(super) async fn refuse_writes(
    marked: &mut Connection,
    tables: &[TableColumns],
    sentence: &str,
) -> Result<()> {
    let sentence = sentence.replace('\'', "''");
    for TableColumns { name, .. } in tables {
        let triggers = match marked {
            Connection::Sqlite(_) => ["insert", "update", "delete"]
                .map(|act| {
                    format!(
                        "CREATE TRIGGER moved_{act}_{name} BEFORE {act} ON {name} \
                         BEGIN SELECT RAISE(ABORT, '{sentence}'); END;"
                    )
                })
                .concat(),
            Connection::Postgres(_) => format!(
                "CREATE TRIGGER moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {name} \
                 EXECUTE FUNCTION refuse('{sentence}')"
            ),
        };
        marked.run(AssertSqlSafe(triggers)).await.context("mark the database as moved")?;
    }
    Ok(())
}
