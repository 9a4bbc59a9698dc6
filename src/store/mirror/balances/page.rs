//! A page of balances compared with the mirror, without SQL; `mod.rs` runs the statements.
//!
//! A record is written unless its digest equals the digest of its product. The digest covers the parsed values,
//! not the bytes, so a program that parses more fields writes the record again. The digest depends on the hash
//! function of the standard library; if that function changes, each product is compared column by column once.

use crate::client::wire::{ProductBalance, WarehouseBalance};
use crate::model::{ExchangeId, Sku, Timestamp};
use sqlx::types::Json;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// An answer to *Get product balances*.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BalancePage<'a> {
    /// Exchange that brought the answer; its id is the position at which it began.
    pub exchange_id: ExchangeId,
    /// Time at which the request was sent.
    pub observed_at: Timestamp,
    pub requested: &'a [Sku],
    pub products: &'a [ProductBalance<'a>],
    /// SKUs of returned records that could not be read.
    pub unreadable: &'a [Sku],
    /// True if a record came whose SKU could not be read: it may be that of any SKU that seems absent.
    pub has_unnamed_record: bool,
    /// True if all of the answer could be read.
    pub is_whole: bool,
}

/// Products of a page: the requested SKUs and the returned ones.
#[derive(Default)]
pub(super) struct PageMembers<'a> {
    /// SKUs without duplicates, requested ones first.
    pub(super) skus: Vec<&'a Sku>,
    /// Index into `skus` for each record.
    sku_indexes: Vec<usize>,
    /// Requested SKU and the spelling under which it came (docs/rules.md 8).
    pub(super) aliases: Vec<(&'a Sku, &'a Sku)>,
    /// Requested SKUs that came under no spelling.
    pub(super) absent: Vec<Sku>,
    /// Requested SKUs that came as a record that could not be read.
    pub(super) unreadable: Vec<Sku>,
    /// True if a readable record came for a requested SKU.
    pub(super) any_came: bool,
}

impl<'a> PageMembers<'a> {
    pub(super) fn from_page(page: &BalancePage<'a>) -> Self {
        if is_in_order(page) {
            let (skus, sku_indexes) = (page.requested.iter().collect(), (0..page.requested.len()).collect());
            return Self { skus, sku_indexes, any_came: true, ..Self::default() };
        }
        let mut index_of: HashMap<&str, usize> = HashMap::with_capacity(page.requested.len());
        let mut skus = Vec::with_capacity(page.requested.len());
        for sku in page.requested.iter().chain(page.products.iter().map(|product| &product.sku)) {
            index_of.entry(sku.as_str()).or_insert_with(|| {
                skus.push(sku);
                skus.len() - 1
            });
        }
        let sku_indexes = page.products.iter().map(|p| index_of[p.sku.as_str()]).collect();
        let mut members = Self { skus, sku_indexes, ..Self::default() };
        let came = members.returned_flags();
        let others: Vec<&Sku> = page.requested.iter().filter(|sku| !came[index_of[sku.as_str()]]).collect();
        members.any_came = others.len() < page.requested.len();
        members.match_spellings(page, &others);
        members
    }

    /// Returns true if each requested SKU came once, under the requested spelling, and no other came.
    pub(super) fn are_as_requested(&self, page: &BalancePage<'_>) -> bool {
        let is_one_each =
            self.skus.len() == page.requested.len() && self.skus.len() == self.sku_indexes.len();
        is_one_each && self.all_matched()
    }

    /// Returns true if each requested SKU came under the requested spelling and could be read.
    pub(super) fn all_matched(&self) -> bool {
        self.aliases.is_empty() && self.absent.is_empty() && self.unreadable.is_empty()
    }

    /// Returns for each member whether a record came for it.
    fn returned_flags(&self) -> Vec<bool> {
        let mut came = vec![false; self.skus.len()];
        self.sku_indexes.iter().for_each(|index| came[*index] = true);
        came
    }

    /// Matches the requested SKUs of `others`, which did not come under their own spelling. A SKU came under
    /// another spelling if exactly one returned spelling has its case key.
    fn match_spellings(&mut self, page: &BalancePage<'a>, others: &[&'a Sku]) {
        let mut case_keys: HashMap<String, Vec<&Sku>> = HashMap::new();
        for product in page.products.iter().filter(|_| !others.is_empty()) {
            case_keys.entry(product.sku.case_key()).or_default().push(&product.sku);
        }
        let unreadable: HashSet<String> = page.unreadable.iter().map(Sku::case_key).collect();
        for asked in others {
            let case_key = asked.case_key();
            match case_keys.get(&case_key).map(Vec::as_slice) {
                Some([only]) => self.aliases.push((*asked, *only)),
                _ if unreadable.contains(&case_key) => self.unreadable.push((*asked).clone()),
                _ => self.absent.push((*asked).clone()),
            }
        }
        self.any_came |= !self.aliases.is_empty();
    }
}

/// Returns true for the normal page, which needs no lookup: each requested SKU once, in order.
fn is_in_order(page: &BalancePage<'_>) -> bool {
    page.requested.len() == page.products.len()
        && page.requested.iter().zip(page.products).all(|(asked, product)| *asked == product.sku)
        && page.requested.is_sorted_by(|one, next| one.as_str() < next.as_str())
}

/// Rows of the mirror for a page's members, by the members' index.
pub(super) struct KnownProducts {
    products: Vec<Option<KnownProduct>>,
    newest: i64,
    /// Read batch of all members; `None` where they differ.
    pub(super) read_batch: Option<i64>,
    pub(super) read_batches: BTreeSet<i64>,
    /// True if a write overlaps or is unconfirmed, or a conflict is open: the page must be judged.
    pub(super) is_evidence: bool,
}

/// Row for [`KnownProducts`]: the found members as a JSON list, the largest product id, and `is_evidence`.
pub(super) type KnownProductsRow = (Json<Vec<KnownProductColumns>>, i64, bool);

struct KnownProduct {
    id: i64,
    digest: Option<i64>,
}

pub(super) struct ProductWrite<'a> {
    pub(super) id: i64,
    pub(super) is_new: bool,
    pub(super) fact: &'a ProductBalance<'a>,
    /// Digest of the record; `None`: the product will not hold exactly these facts.
    pub(super) digest: Option<i64>,
}

impl ProductWrite<'_> {
    /// Returns true if the product is new and no warehouse comes twice.
    pub(super) fn has_new_stock_levels(&self) -> bool {
        let levels = &self.fact.warehouses;
        let comes_twice = |(at, level): (usize, &WarehouseBalance<'_>)| {
            levels[..at].iter().any(|other| other.warehouse_id == level.warehouse_id)
        };
        self.is_new && !levels.iter().enumerate().any(comes_twice)
    }
}

/// Found product: index in the page, row id, digest, read batch.
type KnownProductColumns = (usize, i64, Option<i64>, Option<i64>);

impl KnownProducts {
    pub(super) fn from_row(
        (Json(found), newest, is_evidence): KnownProductsRow,
        members: &PageMembers<'_>,
    ) -> Self {
        let batches: BTreeSet<Option<i64>> = found.iter().map(|(_, _, _, batch)| *batch).collect();
        let is_one = found.len() == members.skus.len() && batches.len() == 1;
        let read_batch = batches.first().copied().flatten().filter(|_| is_one);
        let mut products: Vec<Option<KnownProduct>> = members.skus.iter().map(|_| None).collect();
        for (index, id, digest, _) in found {
            products[index] = Some(KnownProduct { id, digest });
        }
        let read_batches = batches.into_iter().flatten().collect();
        Self { products, newest, read_batch, read_batches, is_evidence }
    }

    /// Returns true if the mirror holds none of the members.
    pub(super) fn is_nothing(&self) -> bool {
        self.products.iter().all(Option::is_none)
    }

    pub(super) fn member_count(&self) -> u64 {
        self.products.len() as u64
    }

    /// Returns the records that must be written, of several for one product the last. `digests` has one for
    /// each record, `no_fact` the stock levels (product, warehouse) that keep an older fact.
    pub(super) fn records_to_write<'a>(
        &self,
        page: &BalancePage<'a>,
        members: &PageMembers<'_>,
        digests: &[Option<i64>],
        no_fact: &[(i64, i64)],
    ) -> Vec<ProductWrite<'a>> {
        let mut last = vec![0; members.skus.len()];
        members.sku_indexes.iter().enumerate().for_each(|(record, index)| last[*index] = record);
        let not_shown: HashSet<i64> = no_fact.iter().map(|(product, _)| *product).collect();
        let mut newest = self.newest;
        let mut rows = Vec::new();
        for (record, (fact, index)) in page.products.iter().zip(&members.sku_indexes).enumerate() {
            if last[*index] != record {
                continue;
            }
            let known = self.products[*index].as_ref();
            let is_exact = known.is_none_or(|product| !not_shown.contains(&product.id));
            let digest = digests[record].filter(|_| is_exact);
            if digest.is_some() && known.and_then(|product| product.digest) == digest {
                continue;
            }
            newest += i64::from(known.is_none());
            let id = known.map_or(newest, |product| product.id);
            rows.push(ProductWrite { id, is_new: known.is_none(), fact, digest });
        }
        rows
    }

    pub(super) fn not_returned(&self, members: &PageMembers<'_>) -> Vec<i64> {
        let absent = self.products.iter().zip(members.returned_flags()).filter(|(_, came)| !came);
        absent.filter_map(|(known, _)| Some(known.as_ref()?.id)).collect()
    }

    /// Returns the members to point to the page's new read batch; the insertion of new products sets it.
    pub(super) fn outside_batch<'a>(&self, members: &PageMembers<'a>) -> Vec<&'a Sku> {
        let known = self.products.iter().zip(members.returned_flags());
        let elsewhere = known.zip(&members.skus).filter(|((known, came), _)| known.is_some() || !came);
        elsewhere.map(|(_, sku)| *sku).collect()
    }
}

/// Returns the digest of each record of a page; `None` where part of the record could not be read.
pub(super) fn record_digests(page: &BalancePage<'_>) -> Vec<Option<i64>> {
    let digest = |fact: &ProductBalance<'_>| {
        let mut hasher = DefaultHasher::new();
        fact.hash(&mut hasher);
        hasher.finish().cast_signed()
    };
    page.products.iter().map(|fact| (!fact.is_partial).then(|| digest(fact))).collect()
}
