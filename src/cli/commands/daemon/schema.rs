//! `schema`: prints the SQL of the roles, the schema and the rights on a server.

use crate::cli::context::CliContext;
use crate::cli::{CommandFailure, CommandResult};

/// Prints the SQL without a connection and without the password.
pub(in crate::cli) fn schema_command(context: &CliContext) -> CommandResult {
    let database = context.config()?.database;
    let Some(server) = &database.server else {
        return Err(CommandFailure::failed(format!(
            "cannot print the roles of the database {}: it is a file, and a file has no roles. Its group gives access: \
             `sudo adduser USER tallyd` lets USER read and insert changes (files 0660, folder 2770). For roles, set \
             `url` in [database] to a PostgreSQL server",
            database.path.display()
        )));
    };
    let sql = server.rights_sql().map_err(|error| {
        CommandFailure::usage(format!(
            "cannot read the role in `url` of [database]: {error}; correct the address"
        ))
    })?;
    Ok(sql.into())
}
