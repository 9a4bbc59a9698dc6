//! Resolution of a change by a person: an event, then its effect, in one transaction (docs/rules.md 37).
//!
//! `outbox` decides the effect of each resolution; this module applies it. The daemon is notified by the
//! event and acts at once. All changes of one entry (one stock level in one call) share the outcome.

use super::changes::{COLUMNS, Verdict, WishRow};
use super::in_doubt::{DOUBTS, DoubtRow};
use crate::model::{ExchangeId, Position, Quantity, Timestamp, WishId};
use crate::outbox::{self, Body, Reason, Resolution, Stand, State, Step};
use crate::store::engine::error::Doing;
use crate::store::journal::event::RESOLVED;
use crate::store::mirror::stock_levels::CellWrite;
use crate::store::{StoreError, Write};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use std::time::Duration;

/// Effect of a resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Keys of the moved changes: those of one entry.
    pub keys: Vec<String>,
    /// New state.
    pub state: State,
    /// Next step, as a sentence.
    pub next: String,
}

/// Accepted decision, or the reason for its refusal as a sentence.
pub type Said<T> = Result<T, String>;

/// Fact against which a number is measured: quantity, own delta, time of observation.
type FactNow = (i64, i64, Option<i64>);

impl Write {
    /// Applies a resolution to the change with this key.
    ///
    /// An impossible resolution returns a sentence with the possible ones, and nothing is written.
    pub async fn outbox_resolve(
        &mut self,
        key: &str,
        word: Resolution,
        max_base_age: Duration,
        at: Timestamp,
    ) -> Result<Said<Resolved>, StoreError> {
        let Some(wish) = self.outbox_find(key).await? else { return Ok(Err(unknown())) };
        let (from, step) = match stand(&wish).and_then(|stand| Ok((stand.state, stand.resolve(word)?))) {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let id = WishId(wish.id);
        match step {
            Step::Applied => self.decide(&wish, from, APPLIED, at).await.map(Ok),
            Step::Over => self.decide(&wish, from, OVER, at).await.map(Ok),
            Step::Again => self.decide(&wish, from, AGAIN, at).await.map(Ok),
            Step::Adopt(shipment) => {
                self.say(key, &json!({"said": "shipment", "shipment_id": shipment}), at).await?;
                self.adoption_ask(id, shipment).await?;
                let next = format!("settle compares shipment {shipment} with what was sent and says so here");
                Ok(Ok(Resolved { keys: vec![wish.key], state: State::InDoubt, next }))
            }
            Step::Count(number) => self.count(&wish, number, max_base_age, at).await,
            Step::Dropped => {
                self.say(key, &json!({"said": "theirs"}), at).await?;
                let detail = format!("the operator lets the service's number stand{}", numbers(&wish));
                let verdict = Verdict::new(id, State::Rejected, Some(Reason::Operator.as_str()), &detail);
                self.outbox_move(State::Held, &[verdict], at).await?;
                Ok(Ok(Resolved { keys: vec![wish.key], state: State::Rejected, next: detail }))
            }
        }
    }

    /// Requeues a held change after its cause was fixed.
    pub async fn outbox_retry(&mut self, key: &str, at: Timestamp) -> Result<Said<()>, StoreError> {
        let Some(wish) = self.outbox_find(key).await? else { return Ok(Err(unknown())) };
        if let Err(why) = stand(&wish).and_then(|stand| stand.retry()) {
            return Ok(Err(why));
        }
        self.say(key, &json!({"said": "retry"}), at).await?;
        let verdict = Verdict::new(WishId(wish.id), State::Pending, None, "planned anew by the operator");
        self.outbox_move(State::Held, &[verdict], at).await?;
        Ok(Ok(()))
    }

    /// Cancels the change with this key and returns true if its state allowed that (`pending` or `held`).
    pub async fn outbox_cancel(&mut self, key: &str, at: Timestamp) -> Result<bool, StoreError> {
        let Some(wish) = self.outbox_find(key).await? else { return Ok(false) };
        let Some(from) = wish.state.parse().ok().filter(|state: &State| state.may_become(State::Cancelled))
        else {
            return Ok(false);
        };
        self.say(key, &json!({"said": "cancel"}), at).await?;
        let reason = Some(Reason::Operator.as_str());
        let verdict = Verdict::new(WishId(wish.id), State::Cancelled, reason, "cancelled by the operator");
        self.outbox_move(from, &[verdict], at).await?;
        // The write behind the change is now never decided and must not block later changes of the stock
        // level.
        self.cells_free(at).await?;
        Ok(true)
    }

    /// Ends a doubt by a person's decision, for all changes of the entry.
    async fn decide(
        &mut self,
        wish: &WishRow,
        from: State,
        end: End,
        at: Timestamp,
    ) -> Result<Resolved, StoreError> {
        let entry = self.entry_of(wish).await?;
        let keys: Vec<String> = entry.iter().map(|row| row.key.clone()).collect();
        let cell = entry.first().and_then(|row| Some((row, cell_write(row)?)));
        let write = cell.as_ref().map(|(row, cell)| {
            json!({"exchange": row.exchange_id, "sent_ms": row.sent_ms, "sku": row.cell_sku, "cell": cell})
        });
        let said = if end.landed { "landed" } else { "not landed" };
        self.say(&wish.key, &json!({"said": said, "keys": keys, "write": write}), at).await?;
        if let (true, Some((row, cell))) = (end.landed, &cell) {
            let exchange = ExchangeId(row.exchange_id);
            self.cell_landed(exchange, Timestamp(row.sent_ms), cell, at).await?;
        }
        if end.landed {
            self.made(&entry, at).await?;
        }
        let reason = end.reason.map(Reason::as_str);
        let verdict = |row: &DoubtRow| Verdict::new(WishId(row.id), end.to, reason, end.detail);
        let moves: Vec<Verdict> = entry.iter().map(verdict).collect();
        self.outbox_move(from, &moves, at).await?;
        self.adoption_end(WishId(wish.id)).await?;
        self.cells_free(at).await?;
        Ok(Resolved { keys, state: end.to, next: end.detail.into() })
    }

    /// Records the SKUs of created products as discovered, as their answer would have done.
    async fn made(&mut self, entry: &[DoubtRow], at: Timestamp) -> Result<(), StoreError> {
        for row in entry {
            if let Ok(Body::ProductCreate(create)) = outbox::read(&row.kind, &row.body) {
                self.learnt_sku_made(ExchangeId(row.exchange_id), &create.sku, at).await?;
            }
        }
        Ok(())
    }

    /// Returns the changes of the entry: those of one stock level in one call with the state and reason of
    /// `wish`.
    async fn entry_of(&mut self, wish: &WishRow) -> Result<Vec<DoubtRow>, StoreError> {
        let sql = format!("{DOUBTS} WHERE o.exchange_id = ?1 ORDER BY o.id");
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(wish.exchange_id);
        let rows: Vec<DoubtRow> =
            query.fetch_all(&mut *self.tx).await.doing("read the wishes of a call in doubt")?;
        let cell = |row: &DoubtRow| row.product.zip(row.warehouse_id);
        let of_wish = rows.iter().find(|row| row.id == wish.id).and_then(cell);
        let is_of_entry = |row: &DoubtRow| {
            row.id == wish.id
                || (of_wish.is_some()
                    && cell(row) == of_wish
                    && row.state == wish.state
                    && row.reason == wish.reason)
        };
        Ok(rows.into_iter().filter(is_of_entry).collect())
    }

    /// Stores a person's number, or the decision for the count's own, and requeues the count.
    async fn count(
        &mut self,
        wish: &WishRow,
        number: Option<Quantity>,
        max_base_age: Duration,
        at: Timestamp,
    ) -> Result<Said<Resolved>, StoreError> {
        let fact = self.fact_now(wish).await?;
        let near = fact.filter(|(_, _, observed)| {
            observed.is_some_and(|observed| at.since(Timestamp(observed)) <= max_base_age)
        });
        if number.is_some() && near.is_none() {
            let known =
                fact.map_or("is not known".into(), |(quantity, ..)| format!("was {quantity}, long ago"));
            return Ok(Err(format!(
                "a number said now is measured against what the service holds now, and that {known}; let the daemon \
                 read the cell, or insert a new count"
            )));
        }
        let base = near.filter(|_| number.is_some());
        self.say(&wish.key, &json!({"said": "use", "quantity": number, "base": base}), at).await?;
        let sql = "INSERT INTO count_resolution (change_id, quantity, base_quantity, base_own_delta) \
                   VALUES (?1, ?2, ?3, ?4) \
                   ON CONFLICT (change_id) DO UPDATE SET quantity = excluded.quantity, \
                       base_quantity = excluded.base_quantity, base_own_delta = excluded.base_own_delta";
        let query = sqlx::query(sql).bind(wish.id).bind(number.map(|number| number.0));
        let query = query.bind(base.map(|(quantity, ..)| quantity)).bind(base.map(|(_, ours, _)| ours));
        query.execute(&mut *self.tx).await.doing("keep a person's word on a count")?;
        let detail = match number {
            None => "to be taken as counted, by the operator's word".to_owned(),
            Some(number) => format!("to become {number}, by the operator's word"),
        };
        let verdict = Verdict::new(WishId(wish.id), State::Pending, None, &detail);
        self.outbox_move(State::Held, &[verdict], at).await?;
        Ok(Ok(Resolved { keys: vec![wish.key.clone()], state: State::Pending, next: detail }))
    }

    async fn fact_now(&mut self, wish: &WishRow) -> Result<Option<FactNow>, StoreError> {
        let sql = "SELECT b.quantity, b.own_delta, coalesce(b.fact_ms, r.observed_ms) \
                   FROM change_stock_level c \
                   JOIN product p ON p.id = c.product \
                   JOIN balance b ON b.product = p.id AND b.warehouse_id = c.warehouse_id \
                   LEFT JOIN read_batch r ON r.id = p.read_batch_id WHERE c.change_id = ?1 \
                   AND b.unlinked_ms IS NULL";
        let found = sqlx::query_as(sql).bind(wish.id).fetch_optional(&mut *self.tx).await;
        found.doing("read the fact of a wish's cell")
    }

    async fn say(&mut self, key: &str, said: &Value, at: Timestamp) -> Result<Position, StoreError> {
        self.event_append(at, RESOLVED, key, Some(&said.to_string())).await
    }

    async fn outbox_find(&mut self, key: &str) -> Result<Option<WishRow>, StoreError> {
        let query = sqlx::query_as(AssertSqlSafe(format!("{COLUMNS} WHERE key = ?1"))).bind(key);
        query.fetch_optional(&mut *self.tx).await.doing("read a wish")
    }
}

#[derive(Clone, Copy)]
struct End {
    landed: bool,
    to: State,
    reason: Option<Reason>,
    detail: &'static str,
}

const APPLIED: End =
    End { landed: true, to: State::Applied, reason: None, detail: "the operator says that it was done" };
const OVER: End = End {
    landed: true,
    to: State::Cancelled,
    reason: Some(Reason::Landed),
    detail: "the operator says that it had been done, so there is nothing left to do",
};
const AGAIN: End = End {
    landed: false,
    to: State::Pending,
    reason: Some(Reason::NotLanded),
    detail: "the operator says that it was not done, so it is planned anew",
};

fn unknown() -> String {
    "there is no wish with this key".into()
}

/// Returns the part of a change on which the possible resolutions depend.
fn stand(wish: &WishRow) -> Said<Stand<'_>> {
    let unreadable =
        || format!("its row ({}, {}) was written by another version of tallyd", wish.kind, wish.state);
    Ok(Stand {
        key: &wish.key,
        kind: wish.kind.parse().map_err(|_| unreadable())?,
        state: wish.state.parse().map_err(|_| unreadable())?,
        reason: wish.reason.as_deref().and_then(|reason| reason.parse().ok()),
    })
}

/// Returns the write of the row's entry; `None` if it wrote no stock level.
fn cell_write(row: &DoubtRow) -> Option<CellWrite> {
    Some(CellWrite {
        product: row.product?,
        warehouse_id: row.warehouse_id?,
        before: row.before.map(Quantity),
        written: Quantity(row.written?),
    })
}

/// Returns both sides of a conflict as a text; empty where they are unknown.
fn numbers(wish: &WishRow) -> String {
    match (&wish.theirs, &wish.mine) {
        (Some(theirs), Some(mine)) => format!(": {theirs}, not {mine}"),
        _ => String::new(),
    }
}
