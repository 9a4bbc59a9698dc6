//! Companies: their keys, and the initial data of a new company.
//!
//! The default company is generated once, from the seed (seed/). A file with a company
//! keeps its data with any seed. Keys follow from the seed too, so that a demonstration can be repeated; for
//! secret keys, configure them.

use serde::Deserialize;
use sqlx::{Connection, SqliteConnection};

use crate::sandbox::random::SandboxRandom;
use crate::sandbox::seed::CompanySeed;
use crate::sandbox::store::values;
use crate::sandbox::{SandboxError, SandboxOptions};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct CompanyDefinition {
    pub(crate) name: String,
    subscribed: bool,
    application_id: Option<String>,
    #[serde(default)]
    multi_warehousing: bool,
}

/// Returns the integration key of the default company, and the gateway key of all companies.
pub(crate) async fn open_default_company(
    db: &mut SqliteConnection,
    options: &SandboxOptions,
    now_ms: i64,
) -> Result<(String, String), SandboxError> {
    let mut transaction = db.begin().await?;
    let db = &mut *transaction;
    let seed = stored_setting(db, "seed", None, options.seed.to_string()).await?;
    let mut random = SandboxRandom::new(seed.parse().unwrap_or(options.seed), "keys");
    let (own_key, gateway_key) = (random.random_key(), random.random_key());
    let gateway = stored_setting(db, "gateway_key", options.gateway_key.as_deref(), gateway_key).await?;
    let known = "SELECT id, integration_key FROM company WHERE is_default";
    let known: Option<(i64, String)> = sqlx::query_as(known).fetch_optional(&mut *db).await?;
    let integration = match (known, &options.integration_key) {
        (Some((_, stored)), None) => stored,
        (Some((company_id, _)), Some(key)) => {
            let set = "UPDATE company SET integration_key = ?2 WHERE id = ?1";
            sqlx::query(set).bind(company_id).bind(key).execute(&mut *db).await?;
            key.clone()
        }
        (None, key) => {
            let key = key.clone().unwrap_or(own_key);
            create_default_company(db, options, &key, now_ms).await?;
            key
        }
    };
    transaction.commit().await?;
    Ok((integration, gateway))
}

/// Returns a setting: the given value, else the stored value, else the first value, which is then stored.
async fn stored_setting(
    db: &mut SqliteConnection,
    name: &str,
    given: Option<&str>,
    first: String,
) -> Result<String, sqlx::Error> {
    let write = "INSERT INTO setting (name, value) VALUES (?1, coalesce(?2, ?3))
                 ON CONFLICT (name) DO UPDATE SET value = coalesce(?2, value) RETURNING value";
    sqlx::query_scalar_with(write, values!(name, given, first)).fetch_one(db).await
}

async fn create_default_company(
    db: &mut SqliteConnection,
    options: &SandboxOptions,
    integration_key: &str,
    now_ms: i64,
) -> Result<(), SandboxError> {
    let insert = "INSERT INTO company (name, integration_key, is_subscribed, multi_warehousing, is_default)
                  VALUES ('Harbour Goods', ?1, 1, 1, 1) RETURNING id";
    let company_id: i64 = sqlx::query_scalar(insert).bind(integration_key).fetch_one(&mut *db).await?;
    let random = SandboxRandom::new(options.seed, "shop");
    let mut seed = CompanySeed { db, company_id, now_ms, random };
    seed.fill_catalog(options).await?;
    seed.fill_history(options.orders).await
}

/// Creates a small company and returns its id and its integration key. It has a default warehouse (and a
/// second warehouse with multi-warehousing), a supplier, a storefront and no products.
pub(crate) async fn add_company(
    db: &mut SqliteConnection,
    company: &CompanyDefinition,
) -> Result<(i64, String), sqlx::Error> {
    let ordinal = "SELECT (SELECT value FROM setting WHERE name = 'seed'), (SELECT max(id) FROM company)";
    let (seed, ordinal): (String, i64) = sqlx::query_as(ordinal).fetch_one(&mut *db).await?;
    let key = SandboxRandom::new(seed.parse().unwrap_or_default(), &format!("company after {ordinal}"))
        .random_key();
    let CompanyDefinition { name, subscribed, application_id, multi_warehousing } = company;
    let insert = "INSERT INTO company
                      (name, integration_key, application_id, is_subscribed, multi_warehousing, is_default)
                  VALUES (?1, ?2, nullif(?3, ''), ?4, ?5, 0) RETURNING id";
    let company = values!(name, &key, application_id, subscribed, multi_warehousing);
    let company_id: i64 = sqlx::query_scalar_with(insert, company).fetch_one(&mut *db).await?;
    for (is_default, name) in [(true, "Main Warehouse"), (false, "Second Warehouse")] {
        if is_default || *multi_warehousing {
            let insert = "INSERT INTO warehouse (company_id, name, is_system_generated, is_default)
                          VALUES (?1, ?2, ?3, ?3)";
            sqlx::query_with(insert, values!(company_id, name, is_default)).execute(&mut *db).await?;
        }
    }
    for insert in [
        "INSERT INTO supplier (company_id, name) VALUES (?1, 'First Supplier')",
        "INSERT INTO storefront (company_id, name, type) VALUES (?1, 'First Storefront', 'Marketplace')",
    ] {
        sqlx::query(insert).bind(company_id).execute(&mut *db).await?;
    }
    Ok((company_id, key))
}
