//! Snapshot of the open changes and facts of stock levels, and the plans made from it.
//!
//! The plan is made for the batch and again for every call at its send. `tallyd plan` shows it without
//! sending.

use super::snapshot_rows::{applied_after, created_at, known_sku, last_set, moment_of, pairs, twins, word};
use crate::client::wire::QuantityUpdate;
use crate::exec::{Context, QuantitySettings};
use crate::model::{Cell, ExchangeId, Moment, ProductId, Quantity, Sku, Timestamp, WarehouseId, WishId};
use crate::outbox::{self, Body, Reason, State};
use crate::reconcile::base::at_count;
use crate::reconcile::packing::Entry;
use crate::reconcile::{
    Base, CellFact, CellInput, CellPlan, CellWish, Change, Count, CountMark, Decision, Lack, Outcome, Pair,
    Standing, decide,
};
use crate::store::{CellRow, CellSeen, KIT, OpenWish, Store, StoreError, Verdict, WishRow};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time for which a read serves the writes it was made for, even if `max_fact_age` is shorter.
pub(super) const OWN_READ_SERVES: Duration = Duration::from_secs(5);

/// Exchange in which each stock level was read for its write. The entry is removed once that write is
/// completed.
pub(super) type OwnReads = BTreeMap<Cell, ExchangeId>;

/// Inputs that all stock levels of a snapshot share.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    /// Settings in force.
    pub(super) settings: &'a QuantitySettings,
    /// Time of the snapshot.
    pub(super) now: Timestamp,
    /// The time since boot, by which the age of facts is measured.
    pub(super) moment: Moment,
    /// Reads that this push made for its writes, by stock level.
    pub(super) own_reads: &'a OwnReads,
    /// Warehouses that are proved not to exist.
    pub(super) no_such: &'a BTreeSet<WarehouseId>,
}

/// Empty set of warehouses.
pub(super) static NONE: BTreeSet<WarehouseId> = BTreeSet::new();

/// Stock level with its changes and its plan.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Stock level by the platform's spelling of the SKU if known. Reads and writes use this spelling.
    pub(super) cell: Cell,
    /// Spelling that the platform is expected to have; the brakes count by it.
    pub(super) foreseen_sku: Sku,
    /// Row of the product, once the platform was asked for it.
    pub(super) product: Option<i64>,
    /// Plan by the facts that are fresh.
    pub(super) plan: CellPlan,
    /// Plan as if the known facts were fresh; the brakes judge by it.
    pub(super) foreseen: CellPlan,
    /// True if the brakes count the stock level: no kit, active, not missing.
    pub(super) counts: bool,
    /// True if all its pending changes were released from a brake.
    pub(super) released: bool,
    /// Pending changes, in order.
    pub(super) pending: Vec<WishId>,
    /// True if a pending change has an operator's priority.
    pub(super) urgent: bool,
    /// Manner in which the last answer lacked the SKU or a part of its record.
    pub(super) lack: Option<Lack>,
    /// True if held changes wait for an answer that shows the stock level. `settle` checks it for them.
    pub(super) is_awaited: bool,
    /// True if the warehouse is absent from the list of warehouses as last read.
    pub(super) is_unlisted: bool,
    /// True if a pending change had no effect in a call of unknown outcome.
    pub(super) did_not_land: bool,
    /// True if a pending change had no effect in a call whose answer named no entry.
    pub(super) may_be_refused: bool,
    /// Product that may be a kit. Its components are read before anything is decided.
    pub(super) perhaps_kit: Option<ProductId>,
    /// True if the plan uses a fact that would be read again first. Only a preview has such plans.
    pub(super) is_stale: bool,
    /// Exchange of the fact.
    pub(super) fact_exchange: ExchangeId,
    /// Time since boot at which the fact's request was sent. `None` if that was another boot.
    pub(super) fact_at: Option<Moment>,
    /// Rows that the plan was made from. A plan that needs no call is carried out only if they are unchanged.
    pub(super) seen: CellSeen,
}

/// Snapshot of the outbox for a push.
#[derive(Debug)]
pub(super) struct Gathered {
    /// Stock levels with changes: operators' first, then the oldest.
    pub(super) works: Vec<Work>,
    /// Changes whose body is invalid.
    pub(super) rejected: Vec<Verdict>,
    /// Newest change of the snapshot.
    pub(super) newest: WishId,
}

impl Default for Gathered {
    fn default() -> Self {
        Self { works: Vec::new(), rejected: Vec::new(), newest: WishId(0) }
    }
}

impl Work {
    /// Returns the entry that sets the stock level to `quantity`.
    pub(super) fn update(&self, quantity: Quantity) -> QuantityUpdate {
        QuantityUpdate { sku: self.cell.sku.clone(), warehouse_id: self.cell.warehouse_id, quantity }
    }

    /// Returns the stock level as an entry for packing.
    pub(super) fn entry(&self) -> Entry<'_> {
        Entry { sku: &self.cell.sku, urgent: self.urgent }
    }

    /// Returns the move that a decision requires.
    pub(super) fn verdict(&self, decision: &Decision) -> Verdict {
        let id = decision.id;
        match &decision.outcome {
            Outcome::Settles { how } => Verdict::new(id, State::Applied, None, how),
            Outcome::Held { reason, detail, mine, theirs } => Verdict {
                mine: mine.map(|n| n.to_string()),
                theirs: theirs.map(|n| n.to_string()),
                ..Verdict::new(id, State::Held, Some(reason.as_str()), detail)
            },
            Outcome::Rejected { reason, detail } => {
                Verdict::new(id, State::Rejected, Some(reason.as_str()), detail)
            }
            Outcome::Cancelled { reason, detail } => {
                Verdict::new(id, State::Cancelled, Some(reason.as_str()), detail)
            }
        }
    }
}

/// Loads the pending quantity changes and plans each stock level, all of them or `only` these. Spellings of
/// the same SKU are one stock level here, by the platform's spelling.
pub(super) async fn gather(
    store: &Store,
    look: Look<'_>,
    only: Option<&[Cell]>,
) -> Result<Gathered, StoreError> {
    let mut gathered = Gathered::default();
    let named = match only {
        Some(cells) => cells.to_vec(),
        None => gathered.validate(store.outbox_pending().await?),
    };
    let order = once(store.cells_meant(&named).await?);
    let awaited = awaited(store).await?;
    let mut wishes = open_wishes(store, &order).await?;
    let rows = store.cell_rows(&order).await?;
    let listed: BTreeSet<WarehouseId> = store.warehouse_ids().await?.into_iter().collect();
    for (cell, row) in order.into_iter().zip(rows) {
        if row.product_id.is_none() && awaited.contains(&cell.sku.fold()) {
            continue;
        }
        let open = wishes.remove(&(cell.sku.as_str().to_owned(), cell.warehouse_id.0)).unwrap_or_default();
        let is_listed = listed.is_empty() || listed.contains(&cell.warehouse_id);
        gathered.works.extend(look.work(cell, row, &open, is_listed)?);
    }
    Ok(gathered)
}

/// Returns each stock level once, in the position of its first occurrence.
pub(super) fn once(cells: Vec<Cell>) -> Vec<Cell> {
    let mut seen = BTreeSet::new();
    cells.into_iter().filter(|cell| seen.insert(cell.clone())).collect()
}

/// Changes inserted after a given change, read but not planned.
#[derive(Debug)]
pub(super) struct Arrived {
    /// Stock levels, operators' first, each with true if an operator's change names it.
    pub(super) cells: Vec<(Cell, bool)>,
    /// Changes whose body is invalid.
    pub(super) rejected: Vec<Verdict>,
    /// Changes whose time of insertion is in the future.
    pub(super) ahead: Vec<WishId>,
    /// Newest change of all.
    pub(super) newest: WishId,
}

/// Returns the pending quantity changes inserted after `after`. With `after` 0 it adds the stock levels of
/// held changes that an applied count may supersede.
pub(super) async fn arrived(store: &Store, after: WishId, now: Timestamp) -> Result<Arrived, StoreError> {
    let mut gathered = Gathered { newest: after, ..Gathered::default() };
    let wishes = store.outbox_pending_after(after).await?;
    let mut ahead = Vec::new();
    for wish in wishes.iter().filter(|wish| wish.dated_at.is_none()) {
        if moment_of(&wish.created_at)? > now {
            ahead.push(WishId(wish.id));
        }
    }
    let (urgent, bulk): (Vec<_>, Vec<_>) = wishes.into_iter().partition(|wish| wish.priority > 0);
    let (urgent, bulk) = (gathered.validate(urgent), gathered.validate(bulk));
    let urgent = once(store.cells_meant(&urgent).await?).into_iter().map(|cell| (cell, true));
    // `settle` may also have found a count applied that supersedes held changes. One search a run is enough.
    let overtaken = if after == WishId(0) { store.outbox_overtaken().await? } else { Vec::new() };
    let bulk = [bulk, overtaken].concat();
    let bulk = once(store.cells_meant(&bulk).await?).into_iter().map(|cell| (cell, false));
    let cells = urgent.chain(bulk).collect();
    Ok(Arrived { cells, rejected: gathered.rejected, ahead, newest: gathered.newest })
}

impl Gathered {
    /// Parses every body. Returns the stock levels of the valid ones, in order, each once.
    fn validate(&mut self, wishes: Vec<WishRow>) -> Vec<Cell> {
        let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
        for wish in wishes {
            let id = WishId(wish.id);
            self.newest = self.newest.max(id);
            match outbox::read(&wish.kind, &wish.body) {
                Ok(body) => order.extend(body.cell().filter(|cell| seen.insert((*cell).clone())).cloned()),
                Err(why) => {
                    self.rejected.push(Verdict::new(
                        id,
                        State::Rejected,
                        Some(why.reason.as_str()),
                        why.detail,
                    ));
                }
            }
        }
        order
    }
}

/// Returns the case keys of SKUs that a pending change creates. Their quantity changes wait for the product
/// instead of being rejected.
async fn awaited(store: &Store) -> Result<BTreeSet<String>, StoreError> {
    let creates = store.outbox_products_to_come().await?;
    let body = |wish: &WishRow| outbox::read(&wish.kind, &wish.body).ok();
    Ok(creates.iter().filter_map(body).filter_map(|body| body.sku().map(Sku::fold)).collect())
}

/// Returns the open changes by stock level (SKU and warehouse).
async fn open_wishes(
    store: &Store,
    cells: &[Cell],
) -> Result<BTreeMap<(String, i64), Vec<WishRow>>, StoreError> {
    let mut open: BTreeMap<(String, i64), Vec<WishRow>> = BTreeMap::new();
    for OpenWish { wish, cell_sku, warehouse } in store.outbox_open_of(cells).await? {
        // An invalid body is rejected elsewhere.
        if outbox::read(&wish.kind, &wish.body).is_ok() {
            open.entry((cell_sku, warehouse)).or_default().push(wish);
        }
    }
    Ok(open)
}

impl<'a> Look<'a> {
    /// Returns the inputs of a snapshot at this time.
    pub(super) fn now(context: &Context, settings: &'a QuantitySettings, own_reads: &'a OwnReads) -> Self {
        Self { settings, now: context.now(), moment: context.moment(), own_reads, no_such: &NONE }
    }

    /// Returns the stock level with its plan. `None` while a write of it is in flight or in doubt, or while a
    /// second read must confirm an accepted write.
    fn work(
        &self,
        cell: Cell,
        row: CellRow,
        open: &[WishRow],
        is_listed: bool,
    ) -> Result<Option<Work>, StoreError> {
        if row.is_busy {
            return Ok(None);
        }
        let wishes = open.iter().map(|wish| self.wish(wish, &row));
        let wishes: Vec<CellWish> = wishes.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let mut input = CellInput {
            cell: &cell,
            fact: self.fact(&cell, &row, is_listed, newest(open))?,
            last_set: last_set(&row)?,
            wishes: &wishes,
            policy: self.settings.policy_of(cell.warehouse_id),
        };
        let perhaps_kit = input.fact == CellFact::PerhapsKit;
        let plan = decide(&input);
        let mut foreseen = plan.clone();
        if let (CellFact::Unread, Some(quantity), Some(ours)) = (&input.fact, row.quantity, row.ours) {
            input.fact = CellFact::Known(Pair { quantity: Quantity(quantity), ours });
            foreseen = decide(&input);
        }
        let pending = open.iter().filter(|wish| wish.state == State::Pending.as_str());
        let foreseen_sku = row.sku.as_deref().map(known_sku).transpose()?;
        let lack = lack(&row);
        let has =
            |reason: Reason| pending.clone().any(|wish| wish.reason.as_deref() == Some(reason.as_str()));
        Ok(Some(Work {
            foreseen_sku: foreseen_sku.unwrap_or_else(|| cell.sku.clone()),
            product: row.product,
            plan,
            foreseen,
            counts: row.is_active && !row.is_missing && !row.vanished && row.kind.as_deref() != Some(KIT),
            released: pending.clone().all(|wish| wish.released_ms.is_some()),
            urgent: pending.clone().any(|wish| wish.priority > 0),
            did_not_land: has(Reason::NotLanded),
            may_be_refused: has(Reason::Unmatched),
            pending: pending.map(|wish| WishId(wish.id)).collect(),
            lack: lack.or((row.was_asked && row.product_id.is_none()).then_some(Lack::Silent)),
            is_awaited: lack.is_some() && !row.is_missing && open.iter().any(waits_to_be_shown),
            is_unlisted: input.fact == CellFact::Unlisted,
            perhaps_kit: row.product_id.map(ProductId).filter(|_| perhaps_kit),
            is_stale: false,
            fact_exchange: ExchangeId(row.fact_exchange_id.unwrap_or(0)),
            fact_at: row.fact_moment.map(Moment),
            seen: CellSeen {
                cell: cell.clone(),
                open: open.iter().map(|wish| (wish.id, wish.moves)).collect(),
                row,
            },
            cell,
        }))
    }

    /// Returns the fact of the stock level that a write may depend on. `newest` is the position of its newest
    /// pending change. Only an answer younger than `newest` makes it a kit: a product may stop being a kit,
    /// and a refused adjust is lost.
    fn fact(&self, cell: &Cell, row: &CellRow, is_listed: bool, newest: i64) -> Result<CellFact, StoreError> {
        let own = self.own_reads.get(cell).copied();
        if !row.was_asked {
            return Ok(CellFact::Unread);
        }
        if row.product_id.is_none() && row.twins > 1 {
            return Ok(CellFact::AmbiguousSku(twins(row)?));
        }
        if row.is_missing {
            // The product may be back, and another spelling that waits for an answer may be the product. An old
            // answer refuses no change.
            let is_absent = lack(row) == Some(Lack::Absent) && !row.twin_is_awaited;
            let is_gone = is_absent && self.is_fresh(row.asked_moment, row.asked_position, own);
            return Ok(if is_gone { CellFact::UnknownSku } else { CellFact::Unread });
        }
        if row.product_id.is_none() {
            return Ok(CellFact::Unread);
        }
        let is_kit = row.kind.as_deref() == Some(KIT);
        if is_kit && row.type_exchange_id.is_some_and(|said| said > newest) {
            // The SKU may name another product by now.
            let is_shown = row.lack.is_none() && row.asked_position.is_some_and(|asked| asked > newest);
            return Ok(if is_shown { CellFact::Kit } else { CellFact::Unread });
        }
        if is_kit || row.may_be_kit {
            return Ok(CellFact::PerhapsKit);
        }
        Ok(match (row.quantity.filter(|_| !row.vanished), row.ours) {
            (Some(quantity), Some(ours)) if self.is_fresh(row.fact_moment, row.fact_exchange_id, own) => {
                let pair = Pair { quantity: Quantity(quantity), ours };
                if row.is_disputed { CellFact::Disputed(pair) } else { CellFact::Known(pair) }
            }
            (None, _) if row.lack.is_none() && self.is_fresh(row.asked_moment, row.asked_position, own) => {
                if is_listed {
                    CellFact::Unlinked
                } else if self.no_such.contains(&cell.warehouse_id) {
                    CellFact::UnknownWarehouse
                } else {
                    CellFact::Unlisted
                }
            }
            _ => CellFact::Unread,
        })
    }

    /// Returns true if the fact may serve a write: it is young enough, or was read for this write. The age is
    /// measured by the time since boot, because a calendar that is set back makes an old fact young. A fact
    /// of another boot is never fresh, because its age is unknown.
    fn is_fresh(&self, sent: Option<i64>, exchange: Option<i64>, own: Option<ExchangeId>) -> bool {
        let Some(sent) = sent.map(Moment).filter(|moment| *moment <= self.moment) else { return false };
        let age = self.moment.since(sent);
        let is_own = exchange.zip(own).is_some_and(|(exchange, own)| exchange >= own.0);
        age <= self.settings.max_fact_age || (is_own && age <= OWN_READ_SERVES)
    }

    /// Returns a change of the stock level. `None` if its body is invalid or not about quantities.
    fn wish(&self, wish: &WishRow, row: &CellRow) -> Result<Option<CellWish>, StoreError> {
        let created_at = created_at(wish, self.now)?;
        let Ok(body) = outbox::read(&wish.kind, &wish.body) else { return Ok(None) };
        let change = match body {
            Body::QuantitySet(set) => {
                // A time of count that the calendar passed twice does not order the count before others.
                let counted_at = set.counted_at.filter(|_| !wish.is_dated_twice);
                let mark = CountMark { id: WishId(wish.id), created_at, counted_at };
                let base = match counted_at {
                    _ if wish.is_dated_twice => Base::Unsure,
                    Some(_) if set.seen.is_none() => {
                        at_count(mark.moment(), &pairs(row)?, self.settings.max_base_age)
                    }
                    _ => self.base(wish, created_at, set.seen.is_some(), row),
                };
                let quantity = set.quantity;
                let applied_after = applied_after(&mark, row)?;
                Change::Set(Count { quantity, counted_at, base, applied_after, word: word(wish)? })
            }
            Body::QuantityAdjust(adjust) => Change::Adjust(adjust.delta),
            Body::ShipmentCreate(_)
            | Body::TrackingSubmit(_)
            | Body::ProductCreate(_)
            | Body::ProductUpdate(_)
            | Body::WarehouseCreate(_)
            | Body::ListingTemplateCreate(_) => return Ok(None),
        };
        let standing = if wish.state == State::Pending.as_str() { Standing::Pending } else { Standing::Held };
        Ok(Some(CellWish { id: WishId(wish.id), created_at, standing, change }))
    }

    /// Returns the fact that a count is measured against. The database stored it at the insertion, or with
    /// the first read after it. A fact that was too old at the insertion does not serve (docs/rules.md 3).
    fn base(&self, wish: &WishRow, created_at: Timestamp, was_seen: bool, row: &CellRow) -> Base {
        if let (Some(quantity), Some(ours)) = (wish.base_quantity, wish.base_ours) {
            let age = wish.base_ms.map(|ms| created_at.since(Timestamp(ms)));
            if was_seen || age.is_some_and(|age| age <= self.settings.max_base_age) {
                return Base::Known(Pair { quantity: Quantity(quantity), ours });
            }
        }
        let was_read_since = row.fact_exchange_id.zip(wish.position).is_some_and(|(fact, then)| fact > then);
        if was_read_since { Base::Missed } else { Base::Awaited }
    }
}

/// Returns the manner in which the last answer lacked the SKU. An unknown code counts as
/// [`Lack::Unreadable`].
fn lack(row: &CellRow) -> Option<Lack> {
    row.lack.as_deref().map(|word| Lack::of(word).unwrap_or(Lack::Unreadable))
}

fn waits_to_be_shown(wish: &WishRow) -> bool {
    wish.state == State::Held.as_str() && wish.reason.as_deref() == Some(Reason::NoFact.as_str())
}

/// Returns the position at which the newest pending change was inserted.
fn newest(open: &[WishRow]) -> i64 {
    let pending = open.iter().filter(|wish| wish.state == State::Pending.as_str());
    pending.filter_map(|wish| wish.position).max().unwrap_or(0)
}
