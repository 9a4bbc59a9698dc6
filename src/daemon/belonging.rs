//! One database belongs to one address and company (rules.md 21).
//!
//! When the address or the integration key is another than last time, the first call lists the warehouses. If one is
//! known, the key was merely exchanged; if none is, nothing is sent: the wishes here are not meant for that company.

use super::error::StartError;
use crate::job::{self, Context, JobError};
use crate::journal::RunOutcome;
use crate::model::{JobKind, Trigger, WarehouseId};
use crate::store::{Belonging, Durability, StoreError};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeSet;

/// What is spoken to, and as whom.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) base_url: String,
    /// None where the requests do not go over HTTP.
    pub(super) integration_key: Option<SecretString>,
}

impl Account {
    fn key(&self) -> Option<&str> {
        self.integration_key.as_ref().map(ExposeSecret::expose_secret)
    }

    /// Whether the database is known to be of this account.
    pub(super) async fn is_known(&self, context: &Context) -> Result<bool, StoreError> {
        Ok(context.store.belonging().await?.fits(&self.base_url, self.key()))
    }

    /// Proves that the database is of this account, with a call if need be, and remembers it.
    pub(super) async fn prove(&self, context: &Context) -> Result<(), StartError> {
        let belonging = context.store.belonging().await?;
        if !belonging.fits(&self.base_url, self.key()) {
            let known = context.store.warehouse_list().await?;
            let known: BTreeSet<WarehouseId> = known.into_iter().map(|row| WarehouseId(row.id)).collect();
            if !known.is_empty() && !self.lists_any(context, &known).await? {
                return Err(StartError::OtherAccount {
                    base_url: self.base_url.clone(),
                    known: known.len(),
                    database: context.store.path().to_owned(),
                });
            }
        }
        Ok(self.note(context, &belonging).await?)
    }

    async fn note(&self, context: &Context, belonging: &Belonging) -> Result<(), StoreError> {
        let mut write = context.store.begin(Durability::Full).await?;
        write.belonging_note(belonging, &self.base_url, self.key()).await?;
        write.commit().await
    }

    /// In a run of its own, so that it stands in the journal.
    async fn lists_any(&self, context: &Context, known: &BTreeSet<WarehouseId>) -> Result<bool, StartError> {
        let mut write = context.store.begin(Durability::Normal).await?;
        let (session, now) = (context.session_id, context.now());
        let run = write.run_begin(session, JobKind::Warehouses, Trigger::Operator, now).await?;
        write.commit().await?;
        let found = job::lists_any(context, run, known).await;
        let (outcome, summary) = match &found {
            Ok(true) => (RunOutcome::Ok, "another address or key, and the same company".to_owned()),
            Ok(false) => (RunOutcome::Failed, "another address or key, and another company".to_owned()),
            Err(error) => (RunOutcome::Failed, error.to_string()),
        };
        let mut write = context.store.begin(Durability::Normal).await?;
        write.run_close(run, outcome, &summary, context.now()).await?;
        write.commit().await?;
        found.map_err(|error| match error {
            JobError::Store(error) => error.into(),
            error => StartError::Unproved(format!(
                "the address or the integration key is another than last time, and {} cannot be asked whether it is \
                 the same company: {error}",
                self.base_url
            )),
        })
    }
}
