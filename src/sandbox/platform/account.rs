//! Company accounts by their keys, and the four rules of docs/interface.md, *Authentication*.
//!
//! The accounts are kept in memory beside their table, because every call needs an account and only the
//! control plane creates accounts. The rules have two parts, because a call is counted between them.
//! [`CompanyAccounts::identify_caller`] finds the company whose quota the call uses. [`CompanyAccount::check_permission`] decides if that
//! company may call.

use std::collections::HashMap;
use std::sync::Mutex;

use axum::http::{HeaderMap, HeaderName};
use sqlx::SqliteConnection;

use crate::sandbox::SandboxHeaders;
use crate::sandbox::http::answer::SandboxRefusal;
use crate::sandbox::lock_mutex;
use crate::sandbox::operations::SandboxOperation;

#[derive(Debug, Clone, sqlx_macros::FromRow)]
pub(crate) struct CompanyAccount {
    integration_key: String,
    pub(crate) id: i64,
    pub(crate) multi_warehousing: bool,
    is_subscribed: bool,
    application_id: Option<String>,
}

#[derive(Debug)]
pub(crate) struct CompanyAccounts {
    pub(crate) gateway_key: String,
    pub(crate) headers: SandboxHeaders,
    by_key: Mutex<HashMap<String, CompanyAccount>>,
}

impl CompanyAccounts {
    pub(crate) fn new(gateway_key: String, headers: SandboxHeaders) -> Self {
        Self { gateway_key, headers, by_key: Mutex::default() }
    }

    pub(crate) async fn reload_accounts(&self, db: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let accounts: Vec<CompanyAccount> = sqlx::query_as(
            "SELECT integration_key, id, multi_warehousing, is_subscribed, application_id FROM company",
        )
        .fetch_all(db)
        .await?;
        let by_key = accounts.into_iter().map(|account| (account.integration_key.clone(), account));
        *lock_mutex(&self.by_key) = by_key.collect();
        Ok(())
    }

    pub(crate) fn of_key(&self, key: &str) -> Option<CompanyAccount> {
        lock_mutex(&self.by_key).get(key).cloned()
    }

    /// Applies rule 1: the gateway key must be correct and the integration key known. A quantity update with
    /// an unknown key is answered 400 (rule 2), without a key 403 like all operations.
    pub(crate) fn identify_caller(
        &self,
        operation: &SandboxOperation,
        headers: &HeaderMap,
    ) -> Result<CompanyAccount, SandboxRefusal> {
        if header_text(headers, &self.headers.gateway_key_header) != Some(&self.gateway_key) {
            return Err(SandboxRefusal::forbidden(
                "Access denied: the gateway subscription key is missing or not valid.",
            ));
        }
        let key = header_text(headers, &self.headers.integration_key_header).ok_or_else(invalid_key)?;
        self.of_key(key).ok_or_else(|| inactive_key(operation))
    }
}

impl CompanyAccount {
    /// Applies rules 1 to 4: a current subscription, and the application id of a marketplace application.
    pub(crate) fn check_permission(
        &self,
        operation: &SandboxOperation,
        headers: &HeaderMap,
        names: &SandboxHeaders,
    ) -> Result<(), SandboxRefusal> {
        if !self.is_subscribed {
            return Err(inactive_key(operation));
        }
        if self.application_id.is_some()
            && self.application_id.as_deref() != header_text(headers, &names.application_id_header)
        {
            return Err(SandboxRefusal::forbidden(
                "The combination of subscription key and application id is not valid or does not belong to a \
                 company with a current subscription.",
            ));
        }
        Ok(())
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn invalid_key() -> SandboxRefusal {
    SandboxRefusal::forbidden(
        "The subscription key is not valid or does not belong to a company with a current subscription.",
    )
}

fn inactive_key(operation: &SandboxOperation) -> SandboxRefusal {
    if !operation.answers_inactive_key_400 {
        return invalid_key();
    }
    SandboxRefusal::bad_request("The integration key does not belong to a company with an active account.")
}
