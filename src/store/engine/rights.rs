//! Roles of an account's schema and their rights, as SQL for `psql`.
//!
//! The grants on tables are those of a migration, because no table exists before the first start. Default privileges
//! would grant rights on every table.

use super::postgres_database::PostgresDatabase;
use sqlx::postgres::PgConnectOptions;

/// SQL: the rights of the programs, where the tables exist.
const RIGHTS: &str = include_str!("../../../migrations/postgres/0009_rights.sql");

impl PostgresDatabase {
    /// Returns the SQL that creates the owner, the schema and the group of its programs with its rights.
    ///
    /// It may run before and after the first start, and again.
    ///
    /// Fails if the address is malformed.
    pub(crate) fn rights_sql(&self) -> sqlx::Result<String> {
        let options: PgConnectOptions = self.url().parse()?;
        let owner = options.get_username();
        let group = format!("{}_programs", self.schema());
        let schema = quote_name(self.schema());
        let [create_owner, create_group] = [create_role(owner, "LOGIN"), create_role(&group, "NOLOGIN")];
        let [owner, group] = [owner, &group].map(quote_name);
        Ok(format!(
            r#"-- The role of the daemon and of its commands, and the schema that it owns.
{create_owner}
CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {owner};

-- The group of the programs. Each program has a login of its own in it. A transaction that a program leaves open
-- holds up other programs, and a role does not inherit settings, so each login has its own line:
--   CREATE ROLE picker LOGIN IN ROLE {group};
--   ALTER ROLE picker SET idle_in_transaction_session_timeout = '10s';
--   ALTER ROLE picker SET search_path = {schema};
{create_group}
GRANT USAGE ON SCHEMA {schema} TO {group};

SET search_path = {schema};
{RIGHTS}"#
        ))
    }
}

/// Returns the SQL that creates a role unless it exists.
fn create_role(role: &str, attribute: &str) -> String {
    let (text, name) = (role.replace('\'', "''"), quote_name(role));
    format!(
        "DO $role$\nBEGIN\n    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{text}') THEN\n        \
         CREATE ROLE {name} {attribute};\n    END IF;\nEND\n$role$;"
    )
}

fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_of_the_address_is_quoted() {
        let url = "postgres://o%27brien%20%22x%22@db.example/stock";
        let sql = PostgresDatabase::new(url, "order").unwrap().rights_sql().unwrap();
        for part in [
            "rolname = 'o''brien \"x\"'",
            "CREATE ROLE \"o'brien \"\"x\"\"\" LOGIN;",
            "CREATE SCHEMA IF NOT EXISTS \"order\" AUTHORIZATION \"o'brien \"\"x\"\"\";",
            "CREATE ROLE \"order_programs\" NOLOGIN;",
        ] {
            assert!(sql.contains(part), "{part}: {sql}");
        }
    }
}
