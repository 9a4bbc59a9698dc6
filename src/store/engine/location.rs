//! Location of an account's database: a file, or a schema on a PostgreSQL server.

use super::postgres_database::PostgresDatabase;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Location of the database of an account.
#[derive(Clone, Debug)]
pub struct DatabaseLocation {
    path: PathBuf,
    server: Option<Arc<PostgresDatabase>>,
}

impl DatabaseLocation {
    /// Returns the location of a schema on a server; `path` names the files that this host keeps.
    pub fn on_server(server: PostgresDatabase, path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), server: Some(Arc::new(server)) }
    }

    /// Returns the path of the database file; with a server, the beginning of the names of this host's files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the server; `None` for a file.
    pub fn server(&self) -> Option<&PostgresDatabase> {
        self.server.as_deref()
    }

    /// Returns the name of the setting that tells this database from others.
    pub(crate) fn setting(&self) -> &'static str {
        if self.server.is_some() { "database.schema" } else { "database.path" }
    }

    /// Returns the lines of `[database]` that name it.
    pub(crate) fn to_settings(&self) -> Vec<String> {
        match &self.server {
            Some(server) => {
                vec![format!("url = {:?}", server.url()), format!("schema = {:?}", server.schema())]
            }
            None => vec![format!("path = {:?}", self.path), "no url".into()],
        }
    }

    /// Returns true if it is a file that does not exist.
    pub fn is_missing_file(&self) -> bool {
        self.server.is_none() && !self.path.exists()
    }
}

impl From<PathBuf> for DatabaseLocation {
    fn from(path: PathBuf) -> Self {
        Self { path, server: None }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for DatabaseLocation {
    fn from(path: &P) -> Self {
        path.as_ref().to_owned().into()
    }
}

impl From<&DatabaseLocation> for DatabaseLocation {
    fn from(location: &DatabaseLocation) -> Self {
        location.clone()
    }
}

impl fmt::Display for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "{server}"),
            None => write!(f, "{}", self.path.display()),
        }
    }
}
