//! The binding of a database to one address and account at the platform (docs/rules.md 13).
//!
//! If the address or the integration key differs from the last start, the first call lists the warehouses. If
//! the list holds a known warehouse, only the key was replaced. If it holds none, nothing is sent, because
//! the queued changes were made for another account.

use super::start_error::StartError;
use crate::exec::{self, JobContext, JobError, RunEnd};
use crate::journal::RunOutcome;
use crate::model::{JobKind, RunTrigger, WarehouseId};
use crate::store::{Durability, OTHER_ACCOUNT, StoreError};
use crate::sync;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeSet;

#[derive(Clone)]
pub(super) struct AccountIdentity {
    pub(super) base_url: String,
    /// The integration key; `None` if requests do not go over HTTP.
    pub(super) integration_key: Option<SecretString>,
}

impl AccountIdentity {
    fn key_text(&self) -> Option<&str> {
        self.integration_key.as_ref().map(ExposeSecret::expose_secret)
    }

    pub(super) async fn is_bound(&self, context: &JobContext) -> Result<bool, StoreError> {
        Ok(context.store.account_binding().await?.is_compatible(&self.base_url, self.key_text()))
    }

    /// Verifies that the database belongs to this account and stores the binding. Lists the warehouses if the
    /// address or the key is new and warehouses are known.
    pub(super) async fn verify_binding(&self, context: &JobContext) -> Result<(), StartError> {
        let binding = context.store.account_binding().await?;
        if !binding.is_compatible(&self.base_url, self.key_text()) {
            let known: BTreeSet<WarehouseId> = context.store.warehouse_ids().await?.into_iter().collect();
            if !known.is_empty() && !self.lists_known_warehouse(context, &known).await? {
                return Err(StartError::OtherAccount {
                    base_url: self.base_url.clone(),
                    known: known.len(),
                    database: context.store.location().clone(),
                });
            }
        }
        let mut write = context.store.begin_write(Durability::Full).await?;
        write.account_binding_store(&binding, &self.base_url, self.key_text()).await?;
        Ok(write.commit().await?)
    }

    /// Lists the warehouses in a run of its own, so that the journal records the call.
    async fn lists_known_warehouse(
        &self,
        context: &JobContext,
        known: &BTreeSet<WarehouseId>,
    ) -> Result<bool, StartError> {
        let list = async |run| {
            let found = sync::lists_any_warehouse(context, run, known).await;
            let (outcome, summary) = match &found {
                Ok(true) => (RunOutcome::Ok, "another address or key of the same account".to_owned()),
                Ok(false) => (RunOutcome::Failed, OTHER_ACCOUNT.to_owned()),
                Err(error) => (RunOutcome::Failed, error.to_string()),
            };
            (found, (outcome, summary))
        };
        let (job, end) = ((JobKind::Warehouses, RunTrigger::Operator), RunEnd::Beside(Durability::Normal));
        let found = exec::with_run(context, job, end, None, list).await?;
        found.map_err(|error| match error {
            JobError::Store(error) => error.into(),
            error => StartError::Unverified(format!(
                "the address or the integration key differs from the last start, and the check that {} has the same \
                 account failed: {error}",
                self.base_url
            )),
        })
    }
}
