//! Wishes that are no quantities: what they were sent with, and what they made.

use super::cells::json;
use super::error::Doing;
use super::{Store, StoreError, Write};
use crate::model::{ShipmentId, WishId};
use serde::Serialize;
use serde_json::Value;
use sqlx::FromRow;
use std::collections::BTreeSet;

/// What is kept with the claim of a wish that is no quantity: all that judging it later needs.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    /// The wish.
    pub id: WishId,
    /// Its kind's name.
    pub kind: &'static str,
    /// What only one wish at a time may be under way for.
    pub subject: String,
    /// Lines and quantities, or the ids that were there before.
    pub claimed: Value,
}

/// A wish that another names by its key, as the one whose shipment it means.
#[derive(Clone, Debug, FromRow)]
pub struct NamedWish {
    /// Its kind.
    pub kind: String,
    /// Where it stands.
    pub state: String,
    /// The service's id of what it made.
    pub made_id: Option<i64>,
}

impl Store {
    /// The subjects of the wishes that are in flight or in doubt.
    pub async fn delivery_under_way(&self) -> Result<BTreeSet<String>, StoreError> {
        let sql = "SELECT d.ordering_key FROM outbox o JOIN delivery d ON d.change_id = o.id \
                   WHERE o.state IN ('sending', 'held', 'in_doubt') AND o.state IN ('sending', 'in_doubt')";
        let subjects: Vec<String> = sqlx::query_scalar(sql)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read what is under way")?;
        Ok(subjects.into_iter().collect())
    }

    /// The wish with this key, as far as its shipment goes.
    pub async fn delivery_named(&self, key: &str) -> Result<Option<NamedWish>, StoreError> {
        let sql = "SELECT o.kind, o.state, d.created_id AS made_id FROM outbox o \
                   LEFT JOIN delivery d ON d.change_id = o.id \
                   WHERE o.key = ?1";
        let named = sqlx::query_as(sql).bind(key).fetch_optional(&mut *self.read().await?).await;
        named.doing("read the wish that makes a shipment")
    }

    /// The wish that made this shipment, if one did.
    pub async fn shipment_owner(&self, shipment: ShipmentId) -> Result<Option<WishId>, StoreError> {
        let sql = "SELECT change_id FROM delivery WHERE kind = 'shipment.create' AND created_id = ?1";
        let owner: Option<i64> = sqlx::query_scalar(sql)
            .bind(shipment.0)
            .fetch_optional(&mut *self.read().await?)
            .await
            .doing("look for the wish that made a shipment")?;
        Ok(owner.map(WishId))
    }
}

impl Write {
    /// Keeps what wishes are sent with; part of the claim.
    pub async fn delivery_claim(&mut self, kept: &[Kept]) -> Result<(), StoreError> {
        if kept.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO delivery (change_id, kind, ordering_key, evidence) \
                   SELECT value->>'id', value->>'kind', value->>'subject', json_extract(value, '$.claimed') \
                   FROM json_each(?1) WHERE true \
                   ON CONFLICT (change_id) DO UPDATE SET ordering_key = excluded.ordering_key, \
                       evidence = excluded.evidence";
        let done = sqlx::query(sql).bind(json(kept)).execute(&mut *self.tx).await;
        done.map(drop).doing("keep what wishes are sent with")
    }

    /// Notes the service's id of what a wish made. One that a person resolved without a claim of ours has no row.
    pub async fn delivery_made(&mut self, wish: WishId, made_id: i64) -> Result<(), StoreError> {
        let sql = "UPDATE delivery SET created_id = ?2 WHERE change_id = ?1";
        let done = sqlx::query(sql).bind(wish.0).bind(made_id).execute(&mut *self.tx).await;
        done.map(drop).doing("note what a wish made")
    }

    /// Asks settle to take a shipment for the one a wish in doubt made.
    pub async fn adoption_ask(&mut self, wish: WishId, shipment: ShipmentId) -> Result<(), StoreError> {
        let sql = "INSERT INTO adoption (change_id, shipment_id) VALUES (?1, ?2) \
                   ON CONFLICT (change_id) DO UPDATE SET shipment_id = excluded.shipment_id";
        let done = sqlx::query(sql).bind(wish.0).bind(shipment.0).execute(&mut *self.tx).await;
        done.map(drop).doing("ask for a shipment to be adopted")
    }

    /// The question was answered.
    pub async fn adoption_end(&mut self, wish: WishId) -> Result<(), StoreError> {
        let done = sqlx::query("DELETE FROM adoption WHERE change_id = ?1").bind(wish.0);
        done.execute(&mut *self.tx).await.map(drop).doing("end an adoption")
    }
}
