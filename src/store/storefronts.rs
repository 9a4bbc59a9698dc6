//! The list of active storefronts, and the listing templates of each.

use super::error::Doing;
use super::{Store, StoreError, Write};
use crate::model::{ExchangeId, StorefrontId};
use serde::Serialize;
use sqlx::FromRow;

/// The service's word on one storefront (*Storefront*).
#[derive(Clone, Debug, Serialize)]
pub struct StorefrontFact {
    /// `Id`.
    pub id: StorefrontId,
    /// `Name`.
    pub name: Option<String>,
    /// `IsActive`.
    pub is_active: Option<bool>,
    /// `Type`, the kind of channel.
    pub kind: Option<String>,
    /// `StorefrontProperties` as JSON.
    pub properties: Option<String>,
}

/// The service's word on one listing template (*ListingTemplate*).
#[derive(Clone, Debug, Serialize)]
pub struct TemplateFact {
    /// `Id`.
    pub id: i64,
    /// `Name`.
    pub name: Option<String>,
    /// `Body`, which may hold markup.
    pub body: Option<String>,
}

/// A storefront, as `storefront list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub struct StorefrontRow {
    /// The storefront.
    pub id: i64,
    /// Its name.
    pub name: Option<String>,
    /// The kind of channel.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Whether it is in use.
    pub is_active: Option<bool>,
    /// Its free-form properties, as the JSON they came as.
    pub properties: Option<String>,
    /// Since when the service no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

/// A listing template, as `template list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub struct TemplateRow {
    /// The template.
    pub id: i64,
    /// The storefront it belongs to.
    pub storefront_id: i64,
    /// Its name.
    pub name: Option<String>,
    /// Its text.
    pub body: Option<String>,
    /// Since when the service no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

impl Store {
    /// The storefronts, also those the service no longer lists.
    pub async fn storefront_list(&self) -> Result<Vec<StorefrontRow>, StoreError> {
        let sql = "SELECT id, name, type AS kind, is_active, properties, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM storefront ORDER BY id";
        sqlx::query_as(sql).fetch_all(&mut *self.read().await?).await.doing("list the storefronts")
    }

    /// The storefronts the service lists.
    pub async fn storefront_ids(&self) -> Result<Vec<StorefrontId>, StoreError> {
        let sql = "SELECT id FROM storefront WHERE missing_since_ms IS NULL ORDER BY id";
        let ids: Vec<i64> = sqlx::query_scalar(sql)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read the storefronts")?;
        Ok(ids.into_iter().map(StorefrontId).collect())
    }

    /// The listing templates of a storefront, or of all; also those the service no longer lists.
    pub async fn template_list(&self, of: Option<StorefrontId>) -> Result<Vec<TemplateRow>, StoreError> {
        let sql = "SELECT id, storefront_id, name, body, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM listing_template WHERE ?1 IS NULL OR storefront_id = ?1 ORDER BY storefront_id, id";
        let query = sqlx::query_as(sql).bind(of.map(|id| id.0));
        query.fetch_all(&mut *self.read().await?).await.doing("list the listing templates")
    }
}

impl Write {
    /// Records storefronts of one page of the list; how many are new or changed is returned.
    pub async fn mirror_storefronts(
        &mut self,
        exchange: ExchangeId,
        storefronts: &[StorefrontFact],
    ) -> Result<u64, StoreError> {
        let sql = "INSERT INTO storefront (id, name, is_active, type, properties, exchange_id) \
                   SELECT value->>'id', value->>'name', value->>'is_active', value->>'kind', \
                          value->>'properties', ?2 FROM json_each(?1) WHERE true \
                   ON CONFLICT (id) DO UPDATE SET name = excluded.name, is_active = excluded.is_active, \
                       type = excluded.type, properties = excluded.properties, \
                       exchange_id = excluded.exchange_id, missing_since_ms = NULL \
                   WHERE (name, is_active, type, properties) \
                       IS NOT (excluded.name, excluded.is_active, excluded.type, excluded.properties) \
                       OR missing_since_ms IS NOT NULL";
        let query = sqlx::query(sql).bind(super::cells::json(storefronts)).bind(exchange.0);
        Ok(query.execute(&mut *self.tx).await.doing("record storefronts")?.rows_affected())
    }

    /// Records templates of one page of a storefront's list; how many are new or changed is returned.
    pub async fn mirror_templates(
        &mut self,
        exchange: ExchangeId,
        storefront: StorefrontId,
        templates: &[TemplateFact],
    ) -> Result<u64, StoreError> {
        let sql = "INSERT INTO listing_template (id, storefront_id, name, body, exchange_id) \
                   SELECT value->>'id', ?3, value->>'name', value->>'body', ?2 FROM json_each(?1) WHERE true \
                   ON CONFLICT (id) DO UPDATE SET storefront_id = excluded.storefront_id, name = excluded.name, \
                       body = excluded.body, exchange_id = excluded.exchange_id, missing_since_ms = NULL \
                   WHERE (storefront_id, name, body) \
                       IS NOT (excluded.storefront_id, excluded.name, excluded.body) \
                       OR missing_since_ms IS NOT NULL";
        let query = sqlx::query(sql).bind(super::cells::json(templates)).bind(exchange.0).bind(storefront.0);
        Ok(query.execute(&mut *self.tx).await.doing("record listing templates")?.rows_affected())
    }
}
