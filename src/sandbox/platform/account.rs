//! Company accounts by their keys, and the four rules of docs/interface.md, *Authentication*.
//!
//! The accounts are kept in memory beside their table, because every call needs an account and only the
//! control plane creates accounts. The rules have two parts, because a call is counted between them.
//! [`CompanyAccounts::identify_caller`] finds the company whose quota the call uses. [`CompanyAccount::check_permission`] decides if that
//! company may call.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use axum::http::HeaderMap;
use sqlx::{Row, SqliteConnection};

use crate::sandbox::http::answer::SandboxRefusal;
use crate::sandbox::operations::SandboxOperation;

const INTEGRATION_KEY: &str = "svc-subscription-key";
const GATEWAY_KEY: &str = "gateway-subscription-key";
const APPLICATION_ID: &str = "application-id";

/// A company account.
#[derive(Debug, Clone)]
pub(crate) struct CompanyAccount {
    pub(crate) id: i64,
    pub(crate) multi_warehousing: bool,
    is_subscribed: bool,
    application_id: Option<String>,
}

/// All accounts by integration key, and the gateway key.
#[derive(Debug)]
pub(crate) struct CompanyAccounts {
    gateway_key: String,
    by_key: RwLock<HashMap<String, CompanyAccount>>,
}

impl CompanyAccounts {
    /// Loads the accounts from the database.
    pub(crate) async fn load_accounts(
        db: &mut SqliteConnection,
        gateway_key: String,
    ) -> Result<Self, sqlx::Error> {
        let accounts = Self { gateway_key, by_key: RwLock::default() };
        accounts.reload_accounts(db).await?;
        Ok(accounts)
    }

    /// Reloads the accounts after a company was created.
    pub(crate) async fn reload_accounts(&self, db: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let rows = sqlx::query(
            "SELECT integration_key, id, multi_warehousing, is_subscribed, application_id FROM company",
        )
        .fetch_all(db)
        .await?;
        let by_key = rows.iter().map(|row| {
            let account = CompanyAccount {
                id: row.try_get(1)?,
                multi_warehousing: row.try_get(2)?,
                is_subscribed: row.try_get(3)?,
                application_id: row.try_get(4)?,
            };
            Ok((row.try_get(0)?, account))
        });
        let by_key = by_key.collect::<Result<_, sqlx::Error>>()?;
        *self.by_key.write().unwrap_or_else(PoisonError::into_inner) = by_key;
        Ok(())
    }

    /// Returns the account of an integration key.
    pub(crate) fn of_key(&self, key: &str) -> Option<CompanyAccount> {
        self.by_key.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Applies rule 1: the gateway key must be correct and the integration key known.
    ///
    /// A quantity update with an unknown key is answered 400 (rule 4), without a key 403 like all operations.
    pub(crate) fn identify_caller(
        &self,
        operation: &SandboxOperation,
        headers: &HeaderMap,
    ) -> Result<CompanyAccount, SandboxRefusal> {
        if header_text(headers, GATEWAY_KEY) != Some(&self.gateway_key) {
            return Err(SandboxRefusal::forbidden(
                "Access denied: the gateway subscription key is missing or not valid.",
            ));
        }
        let Some(key) = header_text(headers, INTEGRATION_KEY) else { return Err(invalid_key()) };
        self.of_key(key)
            .ok_or_else(|| if operation.answers_inactive_key_400 { inactive_key() } else { invalid_key() })
    }
}

impl CompanyAccount {
    /// Applies rules 2 to 4: a current subscription, and the application id of a marketplace application.
    pub(crate) fn check_permission(
        &self,
        operation: &SandboxOperation,
        headers: &HeaderMap,
    ) -> Result<(), SandboxRefusal> {
        if !self.is_subscribed {
            return Err(if operation.answers_inactive_key_400 { inactive_key() } else { invalid_key() });
        }
        match &self.application_id {
            Some(required) if header_text(headers, APPLICATION_ID) != Some(required) => {
                Err(SandboxRefusal::forbidden(
                    "The combination of subscription key and application id is not valid or does not belong to a \
                 company with a current subscription.",
                ))
            }
            _ => Ok(()),
        }
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn invalid_key() -> SandboxRefusal {
    SandboxRefusal::forbidden(
        "The subscription key is not valid or does not belong to a company with a current subscription.",
    )
}

fn inactive_key() -> SandboxRefusal {
    SandboxRefusal::bad_request("The integration key does not belong to a company with an active account.")
}
