//! Leadership of a server's schema: one daemon leads, the others stand by (docs/rules.md 23).
//!
//! The leader is the session whose id stands in the row of `journal_sequence`. Each write transaction of a daemon
//! locks that row by its id, so a daemon that was replaced commits nothing more, however long it was paused. No
//! clock decides that. A file has one host, whose lock is enough, so nothing here applies to it.

use super::error::SqlContext;
use super::leader::LeaderRow;
use super::lock::DatabaseLock;
use super::open::Store;
use super::server_check::LOOK_TIMEOUT;
use super::values::{SqlRow, SqlValues};
use super::watch;
use super::write_transaction::WriteTransaction;
use crate::model::Position;
use crate::model::time::whole_millis;
use crate::store::{Result, StoreError};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

/// Name of the daemons of one lock file, of which at most one runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonName {
    pub instance_id: String,
    /// Name of the host, as its kernel knows it.
    pub host_name: String,
}

impl DaemonName {
    /// Returns the name of the daemon that holds a lock.
    ///
    /// Fails if the lock file cannot be read or written.
    pub(crate) fn from_lock(lock: &DatabaseLock) -> io::Result<Self> {
        Ok(Self { instance_id: lock.instance_id()?, host_name: host_name() })
    }

    /// Returns the name of the daemon of a database; `None` if none ran on this host.
    ///
    /// Fails if the lock file cannot be read.
    pub(crate) fn of_database(path: &Path) -> io::Result<Option<Self>> {
        let instance_id = DatabaseLock::read_instance_id(path)?;
        Ok(instance_id.map(|instance_id| Self { instance_id, host_name: host_name() }))
    }
}

/// Returns the name of this host, as the kernel knows it.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Some(name.trim()).filter(|name| !name.is_empty()).unwrap_or("localhost").to_owned()
}

/// SQL: milliseconds of the server's clock.
macro_rules! server_ms {
    () => {
        "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}

impl Store {
    /// Returns true if another host may lead the database, which is on a server then.
    pub(crate) fn is_shared(&self) -> bool {
        self.location().server().is_some()
    }

    /// Returns who leads; `None` for a file.
    pub(crate) async fn leader(&self) -> Result<Option<LeaderRow>> {
        match self.is_shared() {
            true => self.read_leader().await.map(Some),
            false => Ok(None),
        }
    }

    /// Returns who leads the schema of a server, and notes the position that this host saw. A server that
    /// went back is known by it.
    pub(crate) async fn look_at_leader(&self) -> Result<LeaderRow> {
        let row = self.read_leader().await?;
        if let Some(file) = &self.position_file
            && file.read_position().is_none_or(|noted| noted.0 < row.position)
        {
            file.write_position(Position(row.position));
        }
        Ok(row)
    }

    /// Reads the leader's row; a server that is slow counts as one that does not answer.
    async fn read_leader(&self) -> Result<LeaderRow> {
        const ACTION: &str = "read which tallyd leads";
        let sql = concat!(
            "SELECT j.session_id, j.heartbeat, ",
            server_ms!(),
            " - j.heartbeat_ms AS silent_ms, j.position, (SELECT max(version) FROM _sqlx_migrations) AS schema_version, \
                    l.instance_id, l.host_name, l.began_ms, l.takeover_ms \
             FROM journal_sequence j LEFT JOIN leadership l ON l.session_id = j.session_id"
        );
        let mut writer = self.writer.acquire().await.context(ACTION)?;
        let read = match timeout(LOOK_TIMEOUT, writer.first_row(sql, ())).await {
            Ok(read) => read.context(ACTION)?,
            Err(_) => {
                writer.give_up();
                return Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())).context(ACTION);
            }
        };
        read.ok_or(sqlx::Error::RowNotFound).context(ACTION)
    }

    /// Leads from now on, if the row is still as it was `seen`; the leader before commits nothing more.
    /// Returns the id of the session to begin.
    pub(crate) async fn take_lead(&self, seen: &LeaderRow, name: &DaemonName) -> Result<Option<i64>> {
        let sql = concat!(
            "WITH led AS (UPDATE journal_sequence SET heartbeat = heartbeat + 1, heartbeat_ms = ",
            server_ms!(),
            ", session_id = nextval(pg_get_serial_sequence('session', 'id')) \
               WHERE session_id IS NOT DISTINCT FROM CAST($1 AS BIGINT) AND heartbeat = $2 \
               RETURNING session_id, heartbeat_ms) \
             INSERT INTO leadership (session_id, instance_id, host_name, began_ms) \
             SELECT session_id, $3, $4, heartbeat_ms FROM led RETURNING session_id"
        );
        let values = (seen.session_id, seen.heartbeat, name.instance_id.as_str(), name.host_name.as_str());
        let Some(session_id) = self.write_value(sql, values, "take the lead").await? else { return Ok(None) };
        self.fence.lead(session_id, Position(seen.position));
        Ok(Some(session_id))
    }

    /// Shows standbys that this leader lives.
    ///
    /// Fails with [`StoreError::is_fenced`] if another tallyd leads.
    pub(crate) async fn heartbeat(&self) -> Result<()> {
        let Some(session_id) = self.fence.session_id() else { return Ok(()) };
        let sql = concat!(
            "UPDATE journal_sequence SET heartbeat = heartbeat + 1, heartbeat_ms = ",
            server_ms!(),
            " WHERE session_id = $1 RETURNING position"
        );
        const ACTION: &str = "store the heartbeat";
        let position = self.write_value(sql, (session_id,), ACTION).await?;
        self.fence.check(position).context(ACTION)
    }

    /// Runs a statement outside of the fence, and returns the value of its first row.
    async fn write_value<T>(
        &self,
        sql: &'static str,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<Option<T>>
    where
        (T,): SqlRow,
    {
        let mut writer = self.writer.acquire().await.context(action)?;
        Ok(writer.first_row(sql, values).await.context(action)?.map(|(value,)| value))
    }

    /// Returns the hosts that stand by.
    pub(crate) async fn standbys(&self) -> Result<Vec<String>> {
        let Some(server) = self.location().server() else { return Ok(Vec::new()) };
        let prefix = server.standby_name("");
        let sql = "SELECT CAST(application_name AS TEXT) FROM pg_stat_activity \
                   WHERE starts_with(application_name, $1) ORDER BY application_name";
        let names: Vec<String> = self.fetch_column(sql, (prefix.as_str(),), "list the standbys").await?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    /// Notes the hosts that stand by, and the leader beside them.
    pub(crate) async fn note_standbys(&self) -> Result<()> {
        let Some(server) = self.location().server() else { return Ok(()) };
        let sql = concat!(
            "WITH s AS (SELECT substr(application_name, length($1) + 1) AS host FROM pg_stat_activity \
                        WHERE starts_with(application_name, $1)) \
             INSERT INTO host_seen (host_name, seen_ms) SELECT host, ",
            server_ms!(),
            " FROM (SELECT host FROM s UNION SELECT l.host_name FROM leadership l \
                    JOIN journal_sequence j ON j.session_id = l.session_id WHERE EXISTS (SELECT 1 FROM s)) seen \
             ON CONFLICT (host_name) DO UPDATE SET seen_ms = excluded.seen_ms RETURNING seen_ms"
        );
        let _: Option<i64> = self.write_value(sql, (server.standby_name(""),), "note the standbys").await?;
        Ok(())
    }

    /// Returns the hosts that stood by or led within a day and are away, each with the time it was last seen.
    /// The leader notes the hosts each minute.
    pub(crate) async fn standbys_away(&self) -> Result<Vec<(String, i64)>> {
        if !self.is_shared() {
            return Ok(Vec::new());
        }
        let sql = concat!(
            "SELECT host_name, seen_ms FROM host_seen WHERE ",
            server_ms!(),
            " - seen_ms BETWEEN 150000 AND 86400000 AND host_name NOT IN (SELECT l.host_name FROM leadership l \
             JOIN journal_sequence j ON j.session_id = l.session_id) ORDER BY host_name"
        );
        self.fetch_all(sql, (), "find the hosts that are away").await
    }

    /// Shows this process to [`Store::standbys`] until it leads.
    pub(crate) async fn show_standby(&self, host_name: Option<&str>) -> Result<()> {
        let Some(server) = self.location().server() else { return Ok(()) };
        let name = host_name.map_or_else(|| "tallyd".to_owned(), |host| server.standby_name(host));
        let sql = "SELECT set_config('application_name', $1, FALSE)";
        let _: Option<String> = self.write_value(sql, (name,), "show that this host stands by").await?;
        Ok(())
    }

    /// Fails with [`StoreError::Led`] if a daemon of another lock leads; that of this one is dead.
    pub(super) async fn refuse_led(&self, lock: &DatabaseLock) -> Result<()> {
        let Some(row) = self.leader().await?.filter(LeaderRow::lives) else { return Ok(()) };
        let failed = StoreError::of_opening(self.location());
        if row.is_named(&DaemonName::from_lock(lock).map_err(|error| failed(error.into()))?) {
            return Ok(());
        }
        Err(StoreError::Led {
            database: self.location().clone(),
            host: row.host_name.unwrap_or_else(|| "another host".into()),
        })
    }
}

impl LeaderRow {
    /// Returns true if the leader gave a sign of life lately, by the server's clock.
    pub(crate) fn lives(&self) -> bool {
        self.session_id.is_some() && self.silent_ms < LIVING_MS
    }

    /// Returns true if the last leader had this name.
    pub(crate) fn is_named(&self, name: &DaemonName) -> bool {
        (self.instance_id.as_ref(), self.host_name.as_ref())
            == (Some(&name.instance_id), Some(&name.host_name))
    }
}

/// Silence after which a leader counts as gone for a command, in milliseconds.
const LIVING_MS: i64 = 30_000;

impl WriteTransaction {
    /// Returns the session that this process leads with; `None` for a file and for a command.
    pub(in crate::store) fn leading_session(&self) -> Option<i64> {
        self.fence.session_id()
    }

    /// Waits for the insertions of programs, and delays others until the commit. On a file it does nothing.
    pub(super) async fn insertions_stop(&mut self) -> Result<()> {
        match self.is_on_server() {
            true => self.execute("SELECT id FROM change_sequence FOR UPDATE", (), "delay insertions").await,
            false => Ok(()),
        }
    }

    /// Stores how long the takeover took. On a file it does nothing.
    pub(crate) async fn takeover_store(&mut self, duration: Duration) -> Result<()> {
        let Some(session_id) = self.leading_session() else { return Ok(()) };
        let sql = "UPDATE leadership SET takeover_ms = $2 WHERE session_id = $1";
        let values = (session_id, whole_millis(duration));
        self.execute(sql, values, "store the duration of the takeover").await
    }

    /// Gives the lead up with this commit, and wakes the standbys. On a file it does nothing.
    pub(crate) async fn release_lead(&mut self) -> Result<()> {
        let Some(session_id) = self.leading_session() else { return Ok(()) };
        let sql = "UPDATE journal_sequence SET session_id = NULL WHERE session_id = $1; \
                   SELECT pg_notify($2, current_schema() || $3)";
        self.execute(sql, (session_id, watch::CHANNEL, watch::RELEASED), "give the lead up").await
    }
}
