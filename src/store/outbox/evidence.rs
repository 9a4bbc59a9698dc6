//! Evidence of changes other than quantities: their requests and the created objects.

use crate::model::{ChangeId, ShipmentId};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store, WriteTransaction};
use serde::Serialize;
use serde_json::Value;
use sqlx_macros::FromRow;
use std::collections::BTreeSet;

/// Evidence stored with the claim of a change that is no quantity; later decisions need nothing else.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClaimEvidence {
    pub id: ChangeId,
    pub kind: &'static str,
    /// Key for which at most one change may be in flight or in doubt.
    pub ordering_key: String,
    /// Lines and quantities, or the ids that existed before.
    pub evidence: Value,
}

/// Change that another change names by its key, for the shipment that it creates.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct ReferencedChange {
    pub kind: String,
    pub state: String,
    /// Id of the created object at the platform.
    pub created_id: Option<i64>,
}

impl Store {
    /// Returns the ordering keys of the changes in flight or in doubt.
    pub(crate) async fn delivery_keys_in_flight(&self) -> Result<BTreeSet<String>> {
        let sql = "SELECT d.ordering_key FROM outbox o JOIN delivery d ON d.change_id = o.id \
                   WHERE o.state IN ('sending', 'held', 'in_doubt') AND o.state IN ('sending', 'in_doubt')";
        let keys = self.fetch_column(sql, (), "read the ordering keys of the changes in flight").await?;
        Ok(keys.into_iter().collect())
    }

    /// Returns kind, state and created id of the change with this key.
    pub(crate) async fn delivery_by_key(&self, key: &str) -> Result<Option<ReferencedChange>> {
        let sql = "SELECT o.kind, o.state, d.created_id FROM outbox o \
                   LEFT JOIN delivery d ON d.change_id = o.id \
                   WHERE o.key = $1";
        self.fetch_optional(sql, (key,), "read the change that creates a shipment").await
    }

    /// Returns the change that created this shipment.
    pub(crate) async fn shipment_creator(&self, shipment: ShipmentId) -> Result<Option<ChangeId>> {
        let sql = "SELECT change_id FROM delivery WHERE kind = 'shipment.create' AND created_id = $1";
        let creator =
            self.fetch_optional(sql, (shipment,), "find the change that created a shipment").await?;
        Ok(creator.map(|(change,)| change))
    }
}

impl WriteTransaction {
    /// Stores the evidence of changes, as a part of the claim.
    pub(crate) async fn delivery_evidence_store(&mut self, claims: &[ClaimEvidence]) -> Result<()> {
        if claims.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO delivery (change_id, kind, ordering_key, evidence) \
                   SELECT CAST(value->>'id' AS BIGINT), value->>'kind', value->>'ordering_key', \
                          json_extract(value, '$.evidence') \
                   FROM json_each($1) WHERE true \
                   ON CONFLICT (change_id) DO UPDATE SET ordering_key = excluded.ordering_key, \
                       evidence = excluded.evidence";
        self.execute(sql, (json_rows(claims),), "store the evidence of changes").await
    }

    /// Stores the id of the object that a change created; a change without a stored claim has no row.
    pub(crate) async fn delivery_created(&mut self, change: ChangeId, created_id: i64) -> Result<()> {
        let sql = "UPDATE delivery SET created_id = $2 WHERE change_id = $1";
        self.execute(sql, (change, created_id), "store the id of a created object").await
    }

    /// Requests that `settle` adopts a shipment as the result of a change in doubt.
    pub async fn adoption_request(&mut self, change: ChangeId, shipment: ShipmentId) -> Result<()> {
        let sql = "INSERT INTO adoption (change_id, shipment_id) VALUES ($1, $2) \
                   ON CONFLICT (change_id) DO UPDATE SET shipment_id = excluded.shipment_id";
        self.execute(sql, (change, shipment), "request the adoption of a shipment").await
    }

    /// Deletes the request to adopt a shipment.
    pub(crate) async fn adoption_end(&mut self, change: ChangeId) -> Result<()> {
        let sql = "DELETE FROM adoption WHERE change_id = $1";
        self.execute(sql, (change,), "delete the request to adopt a shipment").await
    }
}
