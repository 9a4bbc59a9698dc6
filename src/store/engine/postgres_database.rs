//! Account's schema on a PostgreSQL server: its address, and the settings of each connection to it.

use secrecy::{ExposeSecret as _, SecretString};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Prepared statements per connection: more than there are texts.
const STATEMENT_CACHE_SIZE: usize = 500;

/// Time for which a transaction may stay idle, and a client unreachable, before the server ends it. A write
/// transaction holds up all others, also one whose host is gone.
const LOST_CLIENT_TIMEOUT: &str = "10s";

/// Time in which a server must take a connection. The kernel would wait for two minutes for a host that is
/// gone, and notice its return as late.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Parameters of an address, after its `?`. Another one would be ignored, and its value shown in the log.
const PARAMETERS: [&str; 10] =
    ["host", "hostaddr", "port", "user", "dbname", "sslmode", "sslrootcert", "sslcert", "sslkey", "options"];

/// Schema of an account in a database of a PostgreSQL server.
#[derive(Clone)]
pub struct PostgresDatabase {
    url: String,
    schema: String,
    password: Option<SecretString>,
}

impl PostgresDatabase {
    /// Checks an address (`postgres://USER@HOST/DATABASE`, without a password) and the name of a schema.
    ///
    /// The server's certificate is verified, unless the server is on this machine.
    ///
    /// The error is a sentence that tells how to write the address or the name.
    pub fn new(url: &str, schema: &str) -> Result<Self, String> {
        let database = Self { url: url.to_owned(), schema: Self::check_schema(schema)?, password: None };
        if url_has_password(url) {
            return Err("the address must not contain a password; write it to its own file".into());
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err("write the address as postgres://USER@HOST/DATABASE".into());
        }
        if let Some(name) = parameters(url).find(|name| !PARAMETERS.contains(name)) {
            let known = PARAMETERS.join(", ");
            return Err(format!("it has the parameter `{name}`, and tallyd knows only {known}"));
        }
        let options: PgConnectOptions = url.parse().map_err(|error| format!("it cannot be read: {error}"))?;
        if options.get_database().is_none() {
            return Err("it names no database: write postgres://USER@HOST/DATABASE".into());
        }
        let verifies = matches!(options.get_ssl_mode(), PgSslMode::VerifyFull);
        if !is_local(&options) && parameters(url).any(|name| name == "sslmode") && !verifies {
            return Err(
                "the certificate of a server on another machine is always verified: leave out `sslmode`, \
                        and name the certificate of a private authority with `sslrootcert`"
                    .into(),
            );
        }
        Ok(database)
    }

    /// Checks the name of a schema, which stands in settings and statements as it is. With `_programs` it is
    /// the name of a role, of which PostgreSQL takes 63 bytes.
    ///
    /// The error is a sentence that tells how to write the name.
    pub(crate) fn check_schema(name: &str) -> Result<String, String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins_well = !name.starts_with(|c: char| c.is_ascii_digit()) && !name.starts_with("pg_");
        match !name.is_empty() && name.len() <= 54 && name.chars().all(is_plain) && begins_well {
            true => Ok(name.to_owned()),
            false => {
                Err("a schema's name has at most 54 lower-case letters, digits and underscores, and begins \
                          neither with a digit nor with pg_"
                    .into())
            }
        }
    }

    /// Returns the database with the password for its connections.
    pub(crate) fn with_password(self, password: Option<SecretString>) -> Self {
        Self { password, ..self }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the name of the account's schema.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns the recipe of a connection of this program.
    pub(super) fn connector(&self, access: Access) -> sqlx::Result<PostgresConnector> {
        let (read_only, idle) = match access {
            Access::Write => ("off", LOST_CLIENT_TIMEOUT),
            // A replay works for long between two statements on its snapshot.
            Access::Read => ("on", "0"),
        };
        let settings = [
            ("search_path", self.schema.as_str()),
            ("default_transaction_read_only", read_only),
            ("idle_in_transaction_session_timeout", idle),
            ("tcp_user_timeout", LOST_CLIENT_TIMEOUT),
            ("tcp_keepalives_idle", "5"),
            ("tcp_keepalives_interval", "2"),
            ("tcp_keepalives_count", "3"),
            ("timezone", "UTC"),
            // Floats as text have all their digits.
            ("extra_float_digits", "1"),
            // To compile a statement takes longer than to run it.
            ("jit", "off"),
            // A plan is kept, and the first ones are made while the tables are small: a page of 1000 SKUs that
            // scans 180,000 stock levels takes 40 ms instead of 2.
            ("enable_seqscan", "off"),
            // A bitmap has no order: it reads and sorts all rows behind the begin of a page.
            ("enable_bitmapscan", "off"),
        ];
        let settings = settings.map(|(name, value)| format!("SET {name} = '{value}'")).join("; ");
        Ok(PostgresConnector { options: self.bare_options()?, settings })
    }

    /// Returns the options of any program's connection to the server.
    ///
    /// Fails if the address is malformed.
    pub fn bare_options(&self) -> sqlx::Result<PgConnectOptions> {
        let mut options: PgConnectOptions = self.url.parse()?;
        if !is_local(&options) {
            options = options.ssl_mode(PgSslMode::VerifyFull);
        }
        if let Some(password) = &self.password {
            options = options.password(password.expose_secret());
        }
        Ok(options
            .application_name("tallyd")
            .extra_float_digits(None)
            .statement_cache_capacity(STATEMENT_CACHE_SIZE)
            .log_statements(tracing::log::LevelFilter::Trace)
            .log_slow_statements(tracing::log::LevelFilter::Warn, Duration::from_secs(1)))
    }

    /// Returns true if the server is reached by a socket.
    pub(super) fn has_socket(&self) -> bool {
        self.bare_options().is_ok_and(|options| is_socket(&options))
    }

    /// Returns the name of a standby's connection, of which the server keeps 63 bytes.
    pub(super) fn standby_name(&self, host_name: &str) -> String {
        let name = format!("standby {}@{host_name}", self.schema);
        name.chars().filter(char::is_ascii).take(63).collect()
    }

    /// Returns the statement that creates the schema unless it exists.
    pub(super) fn create_schema(&self) -> AssertSqlSafe<String> {
        AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS \"{}\"", self.schema))
    }
}

/// Recipe of a connection: its options, and the settings with which its session begins.
///
/// The settings are statements of their own. A pooler refuses or drops those of the first message.
#[derive(Clone)]
pub(super) struct PostgresConnector {
    pub(super) options: PgConnectOptions,
    settings: String,
}

impl PostgresConnector {
    /// Limits the time for which a statement waits for a lock.
    pub(super) fn with_lock_timeout(mut self, timeout: Duration) -> Self {
        self.settings.push_str(&format!("; SET lock_timeout = {}", timeout.as_millis()));
        self
    }

    pub(super) async fn connect(&self) -> sqlx::Result<PgConnection> {
        in_connect_time(async {
            let mut connection = self.options.connect().await?;
            self.apply_settings(&mut connection).await?;
            Ok(connection)
        })
        .await
    }

    pub(super) async fn apply_settings(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(self.settings.clone())).execute(connection).await.map(drop)
    }
}

/// Returns the connection, or an error if the server does not take it in time.
pub(super) async fn in_connect_time(
    connect: impl Future<Output = sqlx::Result<PgConnection>>,
) -> sqlx::Result<PgConnection> {
    let late = |_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
    timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(late)
}

/// Equal if they name the same schema.
impl PartialEq for PostgresDatabase {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, &self.schema) == (&other.url, &other.schema)
    }
}

impl fmt::Display for PostgresDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.url.split_once('?').map_or(self.url.as_str(), |(address, _)| address);
        write!(f, "{address}, schema {}", self.schema)
    }
}

impl fmt::Debug for PostgresDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Returns true if an address contains a password, which no message may show.
pub(crate) fn url_has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let address = rest.split_once('?').map_or(rest, |(address, _)| address);
    let has_user_password = address.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
    // A name in another spelling may be one.
    has_user_password || parameters(url).any(|name| name.contains("pass") || name.contains('%'))
}

/// Returns the names of an address's parameters as they are spelled.
fn parameters(url: &str) -> impl Iterator<Item = &str> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').map(|part| part.split('=').next().unwrap_or_default()).filter(|name| !name.is_empty())
}

fn is_socket(options: &PgConnectOptions) -> bool {
    options.get_socket().is_some() || options.get_host().starts_with('/')
}

fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    is_socket(options)
        || host.eq_ignore_ascii_case("localhost")
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_neither_taken_nor_shown() {
        let refused = [
            "postgres://me:word@db/stock",
            "postgres://me@db/stock?password=word",
            "postgres://me@db/stock?p%61ssword=word",
            "postgres://me@db/stock?sslmode=verify-full&passwd=word",
            "me:word@db/stock",
        ];
        for url in refused {
            assert!(url_has_password(url), "{url}");
            let why = PostgresDatabase::new(url, "north").unwrap_err();
            assert!(why.contains("must not contain a password"), "{why}");
        }
        assert!(!url_has_password("postgres://me@db:5432/stock"));
        let database = PostgresDatabase::new("postgres://me@db/stock?sslrootcert=/ca.pem", "north").unwrap();
        let database = database.with_password(Some("word".into()));
        assert_eq!(format!("{database:?}"), "postgres://me@db/stock, schema north");
    }

    #[test]
    fn a_server_on_another_machine_shows_a_certificate_that_is_verified() {
        let mode = |url| PostgresDatabase::new(url, "north").unwrap().bare_options().unwrap().get_ssl_mode();
        for url in ["postgres://me@db.example/stock", "postgres://me@10.0.0.1/stock?sslmode=verify-full"] {
            assert!(matches!(mode(url), PgSslMode::VerifyFull), "{url}");
        }
        let local = [
            "postgres://me@localhost/s",
            "postgres://me@[::1]/s",
            "postgres:///s?host=/run/postgresql",
            "postgres://127.0.0.1/s",
        ];
        for url in local {
            assert!(!matches!(mode(url), PgSslMode::VerifyFull), "{url}");
        }
        for weaker in ["disable", "prefer", "require", "verify-ca"] {
            let url = format!("postgres://me@db.example/stock?sslmode={weaker}");
            let why = PostgresDatabase::new(&url, "north").unwrap_err();
            assert!(why.contains("is always verified"), "{why}");
        }
    }

    #[test]
    fn an_address_or_a_name_that_cannot_work_is_refused_with_the_reason() {
        for (url, schema, part) in [
            ("mysql://me@db/stock", "north", "write the address as postgres://"),
            ("postgres://me@db", "north", "names no database"),
            ("postgres://me@db:port/stock", "north", "cannot be read"),
            ("postgres://me@db/stock?connect_timeout=3", "north", "the parameter `connect_timeout`"),
            ("postgres://me@db/stock", "North", "lower-case"),
            ("postgres://me@db/stock", "", "lower-case"),
            ("postgres://me@db/stock", "1st", "neither with a digit"),
            ("postgres://me@db/stock", "pg_north", "nor with pg_"),
            ("postgres://me@db/stock", &"n".repeat(55), "at most 54"),
        ] {
            let why = PostgresDatabase::new(url, schema).unwrap_err();
            assert!(why.contains(part), "{url} {schema}: {why}");
        }
    }
}
