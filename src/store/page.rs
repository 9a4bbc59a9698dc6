//! A page of balances beside what the mirror holds of it: who is in it, how the answer spells them, and which records
//! must be written. No statement stands here; `balances.rs` makes them from this.
//!
//! A record is written unless its digest is the one its product carries. The digest is taken of what was understood, not
//! of the bytes, so that a program that understands more writes it again. It is no promise between releases: where the
//! hash of the standard library changes, each product is compared column by column once more.

use crate::model::{ExchangeId, Moment, Quantity, Sku, Timestamp, WarehouseId};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The service's word on one product (`ProductBalance`).
#[derive(Clone, Debug, Hash)]
pub struct BalanceFact<'a> {
    /// In the service's spelling.
    pub sku: Sku,
    /// `Id`.
    pub product_id: Option<i64>,
    /// `UPC`.
    pub upc: Option<Cow<'a, str>>,
    /// `QuantityOnHand` of the product: kept and shown, never a cell's fact.
    pub total: Option<i64>,
    /// `Warehouses[]`.
    pub cells: Vec<CellBalance<'a>>,
    /// False where an entry of `Warehouses[]` could not be read: then none counts as vanished, and a cell that the
    /// record does not show keeps its age.
    pub is_whole: bool,
}

/// The service's word on one cell (`ProductBalance.Warehouses[]`).
#[derive(Clone, Debug, Hash)]
pub struct CellBalance<'a> {
    /// `WarehouseId`.
    pub warehouse_id: WarehouseId,
    /// `QuantityOnHand`.
    pub quantity: Quantity,
    /// `WarehouseSKU`.
    pub warehouse_sku: Option<Cow<'a, str>>,
    /// `IsActive`.
    pub is_active: Option<bool>,
    /// `IncludeInSyncBalance`.
    pub include_in_sync: Option<bool>,
}

/// One answer to *Get product balances*.
#[derive(Clone, Copy, Debug)]
pub struct BalancePage<'a> {
    /// The exchange that brought it; its id is the position at which it began.
    pub exchange_id: ExchangeId,
    /// When its request was sent.
    pub observed_at: Timestamp,
    /// The same since boot; none where what did not come is not counted.
    pub moment: Option<Moment>,
    /// What was asked for.
    pub asked: &'a [Sku],
    /// What came.
    pub products: &'a [BalanceFact<'a>],
    /// The SKUs of records that came and could not be read.
    pub unreadable: &'a [Sku],
    /// A record came whose SKU could not be read either: it may be of any SKU that seems absent.
    pub hides: bool,
    /// All of it made sense.
    pub is_whole: bool,
}

/// The products a page is about: what was asked for, and what came.
pub(super) struct Members<'a> {
    /// Each once; what was asked for stands first.
    pub(super) skus: Vec<&'a Sku>,
    /// Where each record's product stands among them.
    places: Vec<usize>,
    /// What was asked for, and the spelling it came under (rules.md 12).
    pub(super) aliases: Vec<(&'a Sku, &'a Sku)>,
    /// What was asked for and did not come under any spelling.
    pub(super) absent: Vec<Sku>,
    /// SKUs that were asked for and came as a record that could not be read.
    pub(super) unreadable: Vec<Sku>,
    /// A record that can be read came for something that was asked for.
    pub(super) any_came: bool,
}

impl<'a> Members<'a> {
    pub(super) fn of(page: &BalancePage<'a>) -> Self {
        if is_in_step(page) {
            let (skus, places) = (page.asked.iter().collect(), (0..page.asked.len()).collect());
            let (absent, unreadable) = (Vec::new(), Vec::new());
            return Self { skus, places, aliases: Vec::new(), absent, unreadable, any_came: true };
        }
        let mut place_of: HashMap<&str, usize> = HashMap::with_capacity(page.asked.len());
        let mut skus = Vec::with_capacity(page.asked.len());
        for sku in page.asked.iter().chain(page.products.iter().map(|product| &product.sku)) {
            place_of.entry(sku.as_str()).or_insert_with(|| {
                skus.push(sku);
                skus.len() - 1
            });
        }
        let places: Vec<usize> = page.products.iter().map(|p| place_of[p.sku.as_str()]).collect();
        let (absent, unreadable) = (Vec::new(), Vec::new());
        let mut members = Self { skus, places, aliases: Vec::new(), absent, unreadable, any_came: false };
        let came = members.came();
        let others: Vec<&Sku> = page.asked.iter().filter(|sku| !came[place_of[sku.as_str()]]).collect();
        members.any_came = others.len() < page.asked.len();
        members.spell(page, &others);
        members
    }

    /// Whether each SKU that was asked for came, once and as it was spelled, and nothing else did.
    pub(super) fn are_as_asked(&self, page: &BalancePage<'_>) -> bool {
        let is_one_each = self.skus.len() == page.asked.len() && self.skus.len() == self.places.len();
        is_one_each && self.aliases.is_empty() && self.absent.is_empty() && self.unreadable.is_empty()
    }

    /// Which of the members a record came for.
    fn came(&self) -> Vec<bool> {
        let mut came = vec![false; self.skus.len()];
        self.places.iter().for_each(|place| came[*place] = true);
        came
    }

    /// How the answer spells what did not come as it was asked for: otherwise, if one spelling alone folds to it.
    fn spell(&mut self, page: &BalancePage<'a>, others: &[&'a Sku]) {
        let mut folds: HashMap<String, Vec<&Sku>> = HashMap::new();
        for product in page.products.iter().filter(|_| !others.is_empty()) {
            folds.entry(product.sku.fold()).or_default().push(&product.sku);
        }
        let unreadable: HashSet<String> = page.unreadable.iter().map(Sku::fold).collect();
        for asked in others {
            let fold = asked.fold();
            match folds.get(&fold).map(Vec::as_slice) {
                Some([only]) => self.aliases.push((*asked, *only)),
                _ if unreadable.contains(&fold) => self.unreadable.push((*asked).clone()),
                _ => self.absent.push((*asked).clone()),
            }
        }
        self.any_came |= !self.aliases.is_empty();
    }
}

/// Whether each record is of the SKU at its place among those that were asked for, each of them once: as pages come where
/// nothing is odd, and then nobody has to be looked for.
fn is_in_step(page: &BalancePage<'_>) -> bool {
    page.asked.len() == page.products.len()
        && page.asked.iter().zip(page.products).all(|(asked, product)| *asked == product.sku)
        && page.asked.is_sorted_by(|one, next| one.as_str() < next.as_str())
}

/// What the mirror holds of a page's members, each at its place.
pub(super) struct Known {
    products: Vec<Option<Product>>,
    newest: i64,
    /// The reading that all members are of, if they are of one.
    pub(super) reading: Option<i64>,
    /// All their readings.
    pub(super) readings: BTreeSet<i64>,
    /// A write of ours is about, or a conflict is open: what the page shows of cells is to be looked at.
    pub(super) is_evidence: bool,
}

/// The same as SQLite finds it: the members, as a list of place, id, digest, reading and 1 where the last answer lacked a
/// known product; the newest id of all; whether the page is evidence.
pub(super) type Found = (String, i64, bool);

struct Product {
    id: i64,
    digest: Option<i64>,
    /// The service is known to have it, and the last answer lacked it.
    was_lacked: bool,
}

/// A record to be written.
pub(super) struct Row<'a> {
    /// The product's row.
    pub(super) id: i64,
    /// The mirror did not hold it.
    pub(super) is_new: bool,
    /// What the service said.
    pub(super) fact: &'a BalanceFact<'a>,
    /// By which the same record is known again; none where the product will not hold exactly what it says.
    pub(super) digest: Option<i64>,
}

impl Row<'_> {
    /// Whether none of its cells stands already, and none comes twice.
    pub(super) fn has_new_cells(&self) -> bool {
        let cells = &self.fact.cells;
        let comes_twice = |(at, cell): (usize, &CellBalance<'_>)| {
            cells[..at].iter().any(|other| other.warehouse_id == cell.warehouse_id)
        };
        self.is_new && !cells.iter().enumerate().any(comes_twice)
    }
}

/// A product that was found: its place in the page, its row, its digest and reading, and 1 if the last answer lacked it.
type FoundProduct = (usize, i64, Option<i64>, Option<i64>, i64);

impl Known {
    /// Takes what was found.
    pub(super) fn read((found, newest, is_evidence): Found, members: &Members<'_>) -> Self {
        let found: Vec<FoundProduct> = serde_json::from_str(&found)
            .expect("SQLite wrote the list, from columns it holds to be integers");
        let mut readings: BTreeSet<Option<i64>> =
            found.iter().map(|(_, _, _, reading, _)| *reading).collect();
        let is_one = found.len() == members.skus.len() && readings.len() == 1;
        let reading = readings.first().copied().flatten().filter(|_| is_one);
        readings.remove(&None);
        let mut products: Vec<Option<Product>> = members.skus.iter().map(|_| None).collect();
        for (place, id, digest, _, was_lacked) in found {
            products[place] = Some(Product { id, digest, was_lacked: was_lacked == 1 });
        }
        let readings = readings.into_iter().flatten().collect();
        Self { products, newest, reading, readings, is_evidence }
    }

    /// Whether the mirror holds none of them.
    pub(super) fn is_nothing(&self) -> bool {
        self.products.iter().all(Option::is_none)
    }

    /// How many members the page has.
    pub(super) fn members(&self) -> u64 {
        self.products.len() as u64
    }

    /// The records that must be written; of several for one product the last speaks. `digests`: those of the page's records;
    /// `no_fact`: cells (product, warehouse) that keep an older fact.
    pub(super) fn to_write<'a>(
        &self,
        page: &BalancePage<'a>,
        members: &Members<'_>,
        digests: &[Option<i64>],
        no_fact: &[(i64, i64)],
    ) -> Vec<Row<'a>> {
        let mut last = vec![0; members.skus.len()];
        members.places.iter().enumerate().for_each(|(record, place)| last[*place] = record);
        let kept: HashSet<i64> = no_fact.iter().map(|(product, _)| *product).collect();
        let mut newest = self.newest;
        let mut rows = Vec::new();
        for (record, (fact, place)) in page.products.iter().zip(&members.places).enumerate() {
            if last[*place] != record {
                continue;
            }
            let known = self.products[*place].as_ref();
            let is_exact = known.is_none_or(|product| !kept.contains(&product.id));
            let digest = digests[record].filter(|_| is_exact);
            if digest.is_some() && known.and_then(|product| product.digest) == digest {
                continue;
            }
            let id = known.map_or_else(
                || {
                    newest += 1;
                    newest
                },
                |product| product.id,
            );
            rows.push(Row { id, is_new: known.is_none(), fact, digest });
        }
        rows
    }

    /// True if a record came of a product that the last answer lacked.
    pub(super) fn any_came_again(&self, members: &Members<'_>) -> bool {
        let mut places = self.products.iter().zip(members.came());
        places.any(|(known, came)| came && known.as_ref().is_some_and(|product| product.was_lacked))
    }

    /// The products that no record came for, as far as the mirror holds them.
    pub(super) fn not_come(&self, members: &Members<'_>) -> Vec<i64> {
        let places = self.products.iter().zip(members.came()).filter(|(_, came)| !came);
        places.filter_map(|(known, _)| Some(known.as_ref()?.id)).collect()
    }

    /// The members that do not come with the page's new reading and must be pointed to it.
    pub(super) fn elsewhere<'a>(&self, members: &Members<'a>) -> Vec<&'a Sku> {
        let places = self.products.iter().zip(members.came());
        let elsewhere = places.zip(&members.skus).filter(|((known, came), _)| known.is_some() || !came);
        elsewhere.map(|(_, sku)| *sku).collect()
    }
}

/// By which each record of a page is known again; none where part of it could not be read.
pub(super) fn digests(page: &BalancePage<'_>) -> Vec<Option<i64>> {
    let digest = |fact: &BalanceFact<'_>| {
        let mut hasher = DefaultHasher::new();
        fact.hash(&mut hasher);
        hasher.finish().cast_signed()
    };
    page.products.iter().map(|fact| fact.is_whole.then(|| digest(fact))).collect()
}
