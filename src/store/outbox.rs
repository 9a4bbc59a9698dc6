//! The outbox: wishes and their moves. Every move names the state it expects, so that nothing is moved twice.

use super::error::Doing;
use super::text::{BodyText, Text, body_column};
use super::{Store, StoreError, Write};
use crate::model::{Cell, ExchangeId, Sku, Timestamp, WarehouseId, WishId, cut_reason};
use crate::outbox::{State, Stored};
use serde::Serialize;
use sqlx::FromRow;
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};

/// A wish as it stands in the table.
#[derive(Clone, Debug, FromRow)]
pub struct WishRow {
    /// Its id; the order of ids is the order of commits.
    pub id: i64,
    /// The caller's own name for it.
    #[sqlx(try_from = "Text")]
    pub key: String,
    /// What kind of wish.
    #[sqlx(try_from = "Text")]
    pub kind: String,
    /// Its body as inserted.
    #[sqlx(try_from = "BodyText")]
    pub body: Stored,
    /// 1: an operator's; 0: bulk.
    pub priority: i64,
    /// Where it stands.
    pub state: String,
    /// Why, as a short word.
    pub reason: Option<String>,
    /// Why, as a sentence.
    pub detail: Option<String>,
    /// Time at which it was inserted, RFC 3339, by the clock of the program that did.
    pub created_at: String,
    /// Time at which the daemon first saw it, RFC 3339, where that clock was ahead.
    pub dated_at: Option<String>,
    /// When it was applied, rejected or cancelled.
    pub settled_at: Option<String>,
    /// What the count was made against.
    pub base_quantity: Option<i64>,
    /// Our sum at that time.
    pub base_ours: Option<i64>,
    /// When that fact was observed.
    pub base_ms: Option<i64>,
    /// The journal's position when it was inserted.
    pub position: Option<i64>,
    /// Number of times it was changed.
    pub moves: i64,
    /// The exchange that carried it.
    pub exchange_id: Option<i64>,
    /// The quantity that was written for it.
    pub written: Option<i64>,
    /// Our side of a conflict.
    pub mine: Option<String>,
    /// The service's side of a conflict.
    pub theirs: Option<String>,
    /// When a person let it go past a brake.
    pub released_ms: Option<i64>,
    /// A person's word on a count in conflict, as JSON: `[number, quantity, ours]`, the latter two being the fact of
    /// that moment; all null: the count as it is.
    pub word: Option<String>,
    /// The host's calendar was set back between the moment that a count names and its insertion.
    pub is_dated_twice: bool,
}

/// An open wish for a cell.
#[derive(Clone, Debug, FromRow)]
pub struct OpenWish {
    /// The wish.
    #[sqlx(flatten)]
    pub wish: WishRow,
    /// The SKU of its cell, in the service's spelling where that is known.
    pub cell_sku: String,
    /// The warehouse of its cell.
    pub warehouse: i64,
}

/// One move of one wish.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The wish.
    pub id: WishId,
    /// Where it goes.
    pub to: &'static str,
    /// Why, as a short word.
    pub reason: Option<&'static str>,
    /// Why, as a sentence.
    pub detail: Option<String>,
    /// Our side of a conflict.
    pub mine: Option<String>,
    /// The service's side of a conflict.
    pub theirs: Option<String>,
}

impl Verdict {
    /// A move with a sentence, which is cut where it is too long, and a reason where the state needs one.
    pub fn new(id: WishId, to: State, reason: Option<&'static str>, detail: impl Into<String>) -> Self {
        Self {
            id,
            to: to.as_str(),
            reason,
            detail: Some(cut_reason(detail.into())),
            mine: None,
            theirs: None,
        }
    }
}

/// A wish taken into an exchange, with the quantity its cell is set to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Claim {
    /// The wish.
    pub id: WishId,
    /// What is written for its cell, where it is a quantity wish.
    pub written: Option<i64>,
}

/// Which wishes to list.
#[derive(Clone, Debug, Default)]
pub struct OutboxFilter {
    /// Only these states; empty: all.
    pub states: Vec<String>,
    /// Only this kind.
    pub kind: Option<String>,
    /// At most so many, newest first.
    pub limit: u32,
}

/// True of a count that names its moment, where a call after that moment was sent earlier by the calendar than the call
/// before it, or where the count was inserted earlier than that call. Steps of less than a minute are the daily business of
/// a clock that is kept right.
macro_rules! calendar_goes_back {
    () => {
        "(kind = 'quantity.set' AND octet_length(body) <= 262144 AND json_type(body, '$.counted_at') = 'text' \
          AND EXISTS (SELECT 1 FROM (SELECT at, lag(at) OVER (ORDER BY id) AS before FROM ( \
              SELECT e.id, e.sent_ms AS at FROM exchange e WHERE e.id <= outbox.position \
                 AND e.sent_ms > (julianday(upper(trim(json_extract(body, '$.counted_at')))) - 2440587.5) * 86400000 \
              UNION ALL SELECT 9223372036854775807, \
                  (julianday(coalesce(dated_at, created_at)) - 2440587.5) * 86400000)) \
              WHERE before > at + 60000))"
    };
}

macro_rules! columns {
    () => {
        concat!(
            "SELECT id, key, kind, ",
            body_column!(),
            ", priority, state, reason, detail, created_at, dated_at, settled_at, \
             base_quantity, base_own_delta AS base_ours, base_ms, position, revision AS moves, exchange_id, \
                 written, mine, theirs, released_ms, \
             (SELECT json_array(c.quantity, c.base_quantity, c.base_own_delta) FROM count_resolution c \
              WHERE c.change_id = outbox.id) AS word, ",
            calendar_goes_back!(),
            " AS is_dated_twice"
        )
    };
}

pub(super) const COLUMNS: &str = concat!(columns!(), " FROM outbox");

/// True if the outbox's door says that the key is known with another body.
fn is_key_of_another(error: &sqlx::Error) -> bool {
    let said = error.as_database_error().map(|error| error.message());
    said.is_some_and(|said| said.contains("this key already names another change"))
}

const MOVE: &str = "UPDATE outbox SET revision = revision + 1, state = m.value->>'to', \
        reason = m.value->>'reason', detail = m.value->>'detail', mine = m.value->>'mine', \
        theirs = m.value->>'theirs', state_changed_ms = ?3, \
        settled_at = iif(m.value->>'to' IN ('applied', 'rejected', 'cancelled'), ?4, NULL) \
    FROM json_each(?1) m WHERE outbox.id = m.value->>'id' AND state = ?2";

impl Store {
    /// The pending wishes, operators' first, then in order.
    pub async fn outbox_pending(&self) -> Result<Vec<WishRow>, StoreError> {
        self.outbox_pending_after(WishId(0)).await
    }

    /// The pending wishes that came after `after`, operators' first, then in order.
    pub async fn outbox_pending_after(&self, after: WishId) -> Result<Vec<WishRow>, StoreError> {
        // With the priorities named, what came lately is found in the index and the others are not walked past.
        let sql = format!(
            "{COLUMNS} WHERE state = 'pending' AND priority IN (1, 0) AND id > ?1 ORDER BY priority DESC, id"
        );
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(after.0);
        query.fetch_all(&mut *self.read().await?).await.doing("read the pending wishes")
    }

    /// The pending wishes that ship or track, operators' first, then in order.
    pub async fn outbox_parcels(&self) -> Result<Vec<WishRow>, StoreError> {
        let sql = format!(
            "{COLUMNS} WHERE state = 'pending' AND kind IN ('shipment.create', 'tracking.submit') \
             ORDER BY priority DESC, id"
        );
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql));
        query.fetch_all(&mut *self.read().await?).await.doing("read the pending parcels")
    }

    /// The pending and held wishes of these cells however they spell them, in order. The cells are named as
    /// [`Self::cells_meant`] names them.
    pub async fn outbox_open_of(&self, cells: &[Cell]) -> Result<Vec<OpenWish>, StoreError> {
        outbox_open_of(&mut *self.read().await?, cells).await
    }

    /// The cells of held wishes that a count applied since may include, as the wishes name them.
    pub async fn outbox_overtaken(&self) -> Result<Vec<Cell>, StoreError> {
        let sql = "SELECT DISTINCT o.sku, o.warehouse_id FROM outbox o \
                   WHERE o.state IN ('sending', 'held', 'in_doubt') AND o.state = 'held' AND o.sku IS NOT NULL \
                     AND o.warehouse_id IS NOT NULL AND EXISTS (SELECT 1 FROM outbox s \
                         WHERE s.sku IN (SELECT n.spelling FROM sku_spelling m JOIN sku_spelling n \
                                             ON n.case_key = m.case_key AND n.product = m.product \
                                                 WHERE m.spelling = o.sku \
                                         UNION ALL SELECT o.sku) \
                           AND s.warehouse_id = o.warehouse_id AND (s.state = 'applied' OR s.reason = 'landed') \
                           AND s.sku IS NOT NULL AND s.kind = 'quantity.set' AND s.id > o.id)";
        let rows: Vec<(Text, i64)> = sqlx::query_as(sql)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read which wishes were overtaken")?;
        let cell = |(sku, warehouse): (Text, i64)| {
            Some(Cell { sku: Sku::new(String::from(sku)).ok()?, warehouse_id: WarehouseId(warehouse) })
        };
        Ok(rows.into_iter().filter_map(cell).collect())
    }

    /// The wishes that are about to make a product: pending, in flight or in doubt.
    pub async fn outbox_products_to_come(&self) -> Result<Vec<WishRow>, StoreError> {
        let sql = format!(
            "{COLUMNS} WHERE kind = 'product.create' AND state IN ('pending', 'sending', 'in_doubt') ORDER BY id"
        );
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql));
        query.fetch_all(&mut *self.read().await?).await.doing("read the products to come")
    }

    /// Wishes for people to read.
    pub async fn outbox_list(&self, filter: &OutboxFilter) -> Result<Vec<WishRow>, StoreError> {
        let sql = format!(
            "{COLUMNS} WHERE (json_array_length(?1) = 0 OR state IN (SELECT value FROM json_each(?1))) \
               AND (?2 IS NULL OR kind = ?2) ORDER BY id DESC LIMIT ?3"
        );
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(super::cells::json(&filter.states));
        let query = query.bind(&filter.kind).bind(filter.limit);
        query.fetch_all(&mut *self.read().await?).await.doing("list the wishes")
    }

    /// One wish by its key.
    pub async fn outbox_show(&self, key: &str) -> Result<Option<WishRow>, StoreError> {
        let sql = format!("{COLUMNS} WHERE key = ?1");
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(key);
        query.fetch_optional(&mut *self.read().await?).await.doing("read a wish")
    }

    /// The keys of these wishes.
    pub async fn outbox_keys(&self, wishes: &[WishId]) -> Result<BTreeMap<WishId, String>, StoreError> {
        let sql = "SELECT id, key FROM outbox WHERE id IN (SELECT value FROM json_each(?1))";
        let query = sqlx::query_as(sql).bind(super::cells::json(wishes));
        let rows: Vec<(i64, Text)> =
            query.fetch_all(&mut *self.read().await?).await.doing("read the keys of wishes")?;
        Ok(rows.into_iter().map(|(id, key)| (WishId(id), key.into())).collect())
    }

    /// The movements whose keys begin with `name` and a colon, newest first: key and body. Those of very large files are
    /// not all wanted.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn outbox_movements_named(&self, name: &str) -> Result<Vec<(String, String)>, StoreError> {
        let sql = "SELECT key, body FROM outbox WHERE key > ?1 || ':' AND key < ?1 || ';' \
                     AND kind = 'quantity.adjust' AND octet_length(body) <= 4096 ORDER BY id DESC LIMIT 100000";
        let rows: Vec<(Text, Text)> = sqlx::query_as(sql)
            .bind(name)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read the movements of earlier files")?;
        Ok(rows.into_iter().map(|(key, body)| (key.into(), body.into())).collect())
    }

    /// How many wishes stand in each state.
    pub async fn outbox_counts(&self) -> Result<Vec<(String, i64)>, StoreError> {
        let sql = "SELECT state, count(*) FROM outbox GROUP BY state ORDER BY state";
        sqlx::query_as(sql).fetch_all(&mut *self.read().await?).await.doing("count the wishes")
    }
}

pub(super) async fn outbox_open_of(
    from: &mut SqliteConnection,
    cells: &[Cell],
) -> Result<Vec<OpenWish>, StoreError> {
    let sql = concat!(
        "WITH k AS (SELECT value->>0 AS cell_sku, CAST(value->>1 AS INTEGER) AS warehouse, value->>2 AS cell_fold \
                    FROM json_each(?1)) ",
        columns!(),
        ", k.cell_sku, k.warehouse \
         FROM k CROSS JOIN outbox ON outbox.warehouse_id = k.warehouse AND outbox.sku IN ( \
             SELECT m.spelling FROM sku_spelling m WHERE m.case_key = k.cell_fold AND m.sku = k.cell_sku \
             UNION ALL SELECT k.cell_sku) \
         WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND outbox.sku IS NOT NULL \
           AND state IN ('pending', 'held') ORDER BY id"
    );
    let query = sqlx::query_as(sql).bind(super::cells::named(cells));
    query.fetch_all(from).await.doing("read the wishes of some cells")
}

impl Write {
    /// Inserts a wish; `false`: the key is known, and nothing changed.
    pub async fn outbox_insert(
        &mut self,
        key: &str,
        kind: &str,
        body: &str,
        priority: i64,
    ) -> Result<bool, StoreError> {
        let sql = "INSERT INTO outbox (key, kind, body, priority) VALUES (?1, ?2, ?3, ?4)";
        let done =
            sqlx::query(sql).bind(key).bind(kind).bind(body).bind(priority).execute(&mut *self.tx).await;
        match done {
            Err(error) if is_key_of_another(&error) => Err(StoreError::KeyTaken { key: key.to_owned() }),
            done => Ok(done.doing("insert a wish")?.rows_affected() > 0),
        }
    }

    /// Moves wishes that stand in `from`; the number moved is returned, the others were moved by somebody else.
    pub async fn outbox_move(
        &mut self,
        from: State,
        moves: &[Verdict],
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        let query = sqlx::query(MOVE).bind(super::cells::json(moves)).bind(from.as_str());
        let done = query.bind(at.0).bind(at.rfc3339()).execute(&mut *self.tx).await;
        Ok(done.doing("move wishes")?.rows_affected())
    }

    /// The same; those that were moved are returned.
    pub async fn outbox_move_each(
        &mut self,
        from: State,
        moves: &[Verdict],
        at: Timestamp,
    ) -> Result<BTreeSet<WishId>, StoreError> {
        let sql = format!("{MOVE} RETURNING id");
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(super::cells::json(moves));
        let query = query.bind(from.as_str()).bind(at.0).bind(at.rfc3339());
        let moved: Vec<i64> = query.fetch_all(&mut *self.tx).await.doing("move wishes")?;
        Ok(moved.into_iter().map(WishId).collect())
    }

    /// Dates wishes that are said to be inserted in the future: `at` stands for their insertion from now on.
    pub async fn outbox_date(&mut self, wishes: &[WishId], at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, dated_at = ?2 \
                   WHERE id IN (SELECT value FROM json_each(?1)) AND dated_at IS NULL AND created_at > ?2";
        let query = sqlx::query(sql).bind(super::cells::json(wishes)).bind(at.rfc3339());
        query.execute(&mut *self.tx).await.map(drop).doing("date wishes that came from the future")
    }

    /// Takes pending wishes into an exchange; the number taken is returned.
    pub async fn outbox_claim(
        &mut self,
        exchange: ExchangeId,
        claims: &[Claim],
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, state = 'sending', reason = NULL, \
                   detail = NULL, \
                       exchange_id = ?2, written = m.value->>'written', state_changed_ms = ?3 \
                   FROM json_each(?1) m WHERE outbox.id = m.value->>'id' AND state = 'pending'";
        let query = sqlx::query(sql).bind(super::cells::json(claims)).bind(exchange.0).bind(at.0);
        Ok(query.execute(&mut *self.tx).await.doing("claim wishes")?.rows_affected())
    }

    /// Says anew why wishes stand where they stand; one that says so already is left alone.
    pub async fn outbox_note(
        &mut self,
        state: State,
        notes: &[Verdict],
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, reason = m.value->>'reason', \
                       detail = m.value->>'detail', state_changed_ms = ?3 \
                   FROM json_each(?1) m WHERE outbox.id = m.value->>'id' AND state = ?2 \
                     AND (reason IS NOT m.value->>'reason' OR detail IS NOT m.value->>'detail')";
        let query = sqlx::query(sql).bind(super::cells::json(notes)).bind(state.as_str()).bind(at.0);
        Ok(query.execute(&mut *self.tx).await.doing("note why wishes wait")?.rows_affected())
    }

    /// Writes down the policies in force, for the `stock` view; warehouse 0 stands for all others.
    pub async fn quantity_policies(&mut self, policies: &[(i64, &str)]) -> Result<(), StoreError> {
        let json = super::cells::json(policies);
        sqlx::query("DELETE FROM quantity_policy")
            .execute(&mut *self.tx)
            .await
            .doing("write the policies")?;
        let sql = "INSERT INTO quantity_policy (warehouse_id, policy) \
                   SELECT value->>0, value->>1 FROM json_each(?1)";
        sqlx::query(sql).bind(json).execute(&mut *self.tx).await.map(drop).doing("write the policies")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::REASON_MAX_CHARS;

    #[test]
    fn what_the_service_says_at_length_is_kept_as_a_sentence() {
        let said = format!("the service refused it: {}", "x".repeat(1_000_000));
        let verdict = Verdict::new(WishId(1), State::Rejected, Some("service_refused"), said);
        assert_eq!(verdict.detail.unwrap().chars().count(), REASON_MAX_CHARS + 1);
    }
}
