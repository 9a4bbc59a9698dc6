//! The list envelope, and the reading of its records (*Response envelopes*).
//!
//! A list is first read as a whole, which is fast. If that fails it is read record by record, so that an
//! unreadable record is parked alone and the others are kept.

use super::PageParams;
use super::lenient::{self, LenientObject};
use crate::model::{Sku, cut_reason};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Characters stored of a parked record; the exchange's body has the whole.
const RAW_MAX_CHARS: usize = 2000;

#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "lenient::opt")]
    pub(crate) status: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "lenient::texts")]
    pub(crate) messages: Vec<String>,
    #[serde(default, deserialize_with = "lenient::nested")]
    pub(crate) pagination: Option<PageInfo>,
    #[serde(borrow, default, deserialize_with = "lenient::present")]
    pub(crate) data: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// Reads a body. A list is refused, because serde would read its items as the fields in their order.
    pub(crate) fn from_body(body: &'a [u8]) -> Result<Self, serde_json::Error> {
        match body.trim_ascii_start().first() {
            Some(b'[') => Err(serde::de::Error::custom("it is a list where an envelope was expected")),
            _ => serde_json::from_slice(body),
        }
    }

    pub(crate) fn read(what: &'static str, body: &'a [u8]) -> Result<Self, MalformedBody> {
        Self::from_body(body).map_err(|error| MalformedBody::new(what, error))
    }

    /// Returns the list in `data`. None is an empty one only if the platform counts no record.
    pub(crate) fn list(&self) -> &'a str {
        let counts_none = self.pagination.is_some_and(|page| page.total_entries == Some(0));
        let none = if counts_none { "[]" } else { "null" };
        self.data.map(RawValue::get).filter(|list| *list != "null").unwrap_or(none)
    }

    pub(crate) fn into_answer<T>(self, (records, parked): ReadRecords<T>) -> DecodedAnswer<T> {
        DecodedAnswer { records, parked, page: self.pagination }
    }

    pub(crate) fn is_failure(&self) -> bool {
        let status = self.status.as_deref().unwrap_or_default().trim();
        status.eq_ignore_ascii_case("failure") || status.eq_ignore_ascii_case("error")
    }
}

/// Position of a page in its list (`pagination`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct PageInfo {
    #[serde(rename = "CurrentPage", default, deserialize_with = "lenient::opt")]
    pub current: Option<i64>,
    #[serde(rename = "TotalNumberOfEntries", default, deserialize_with = "lenient::opt")]
    pub total_entries: Option<i64>,
    #[serde(rename = "TotalNumberOfPages", default, deserialize_with = "lenient::opt")]
    pub total_pages: Option<i64>,
}

/// An unreadable record, or part of one, that was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParkedRecord {
    pub index: usize,
    /// The SKU of the record, if readable. It may be any SKU otherwise.
    pub sku: Option<Sku>,
    pub why: String,
    /// The record as received, truncated to 2,000 characters.
    pub raw: String,
}

impl ParkedRecord {
    pub(crate) fn new(index: usize, why: impl ToString, raw: &RawValue) -> Self {
        let named = serde_json::from_str::<LenientObject<NamedRecord>>(raw.get()).ok();
        let sku = named.and_then(|LenientObject(named)| named.sku.or(named.sku_number));
        Self { index, sku, why: why.to_string(), raw: raw.get().chars().take(RAW_MAX_CHARS).collect() }
    }

    /// Returns the name of the record: its SKU, or else its id at the platform.
    pub(crate) fn subject(&self) -> Option<String> {
        const IDS: [&str; 7] =
            ["OrderLineItemId", "LineItemId", "ShipmentId", "SalesOrderId", "OrderId", "Id", "ProductId"];
        let id = || {
            let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&self.raw).ok()?;
            IDS.iter().find_map(|name| {
                let id = fields.get(*name).filter(|id| !id.is_null())?;
                Some(format!("{name} {}", id.as_str().map_or_else(|| id.to_string(), str::to_owned)))
            })
        };
        self.sku.as_ref().map(Sku::to_string).or_else(id)
    }
}

#[derive(Deserialize)]
struct NamedRecord {
    #[serde(rename = "Sku", default, deserialize_with = "lenient::opt")]
    sku: Option<Sku>,
    #[serde(rename = "SkuNumber", default, deserialize_with = "lenient::opt")]
    sku_number: Option<Sku>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedAnswer<T> {
    pub records: Vec<T>,
    pub(crate) parked: Vec<ParkedRecord>,
    pub(crate) page: Option<PageInfo>,
}

impl<T> DecodedAnswer<T> {
    pub(crate) fn has_more(&self) -> bool {
        self.page.is_some_and(|page| page.total_pages.unwrap_or(1) > page.current.unwrap_or(1))
    }

    /// Returns true if another page follows or may follow: a full page may be the first of several unless
    /// it states the number of pages.
    pub(crate) fn may_have_more(&self) -> bool {
        let is_full = self.records.len() + self.parked.len() >= PageParams::MAX_SIZE as usize;
        self.has_more() || (is_full && self.page.and_then(|page| page.total_pages).is_none())
    }

    /// Returns true if the answer is the whole list, as far as it shows. Each record is readable, no page
    /// follows, and the platform counts no more records than came. For operations called for one page only.
    pub(crate) fn is_complete(&self) -> bool {
        self.parked.is_empty() && !self.has_more() && !self.counts_more_than(self.records.len())
    }

    /// Notes the platform's count of the whole list. Returns true if an earlier page had another count, so that records
    /// may have moved from page to page.
    pub(crate) fn note_total(&self, total: &mut Option<i64>) -> bool {
        let now = self.page.and_then(|page| page.total_entries);
        let before = std::mem::replace(total, now.or(*total));
        before.is_some() && before != *total
    }

    /// Returns true if the platform counts more records in the whole list than came.
    pub(crate) fn counts_more_than(&self, came: usize) -> bool {
        let counted = self.page.and_then(|page| page.total_entries).unwrap_or(0);
        usize::try_from(counted).is_ok_and(|counted| counted > came)
    }
}

/// Error for a body that is no answer to its operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer to {what} cannot be read: {why}; its exchange is in the journal")]
pub(crate) struct MalformedBody {
    pub(super) what: &'static str,
    pub(super) why: String,
}

impl MalformedBody {
    pub(crate) fn new(what: &'static str, why: impl ToString) -> Self {
        Self { what, why: cut_reason(why.to_string()) }
    }
}

/// Records of a list that are used, and those that are parked.
pub(crate) type ReadRecords<T> = (Vec<T>, Vec<ParkedRecord>);

/// Reads an envelope whose `data` is a list of records of one subject: an order, a month and so on. A record
/// that names another subject than the request is parked, because nothing is known of the one asked for.
pub(crate) fn decode_list<'a, T: Deserialize<'a>>(
    what: &'static str,
    body: &'a [u8],
    is_asked: impl Fn(&T) -> bool,
) -> Result<DecodedAnswer<T>, MalformedBody> {
    let envelope = Envelope::read(what, body)?;
    let read = read_records(what, envelope.list(), is_asked)?;
    Ok(envelope.into_answer(read))
}

/// Reads as [`decode_list`] a list of records with ids, each of which counts once ([`read_records_once`]).
pub(crate) fn decode_list_once<'a, T: Deserialize<'a> + PartialEq, K: Ord + Clone>(
    what: &'static str,
    body: &'a [u8],
    id: fn(&T) -> &K,
    is_asked: impl Fn(&T) -> bool,
) -> Result<DecodedAnswer<T>, MalformedBody> {
    let envelope = Envelope::read(what, body)?;
    let read = read_records_once(what, envelope.list(), id, is_asked)?;
    Ok(envelope.into_answer(read))
}

/// Reads a list, and parks each record that is unreadable or not usable. Takes text, because one UTF-8 check is
/// faster than one for each string.
fn read_records<'a, T: Deserialize<'a>>(
    what: &'static str,
    list: &'a str,
    is_usable: impl Fn(&T) -> bool,
) -> Result<ReadRecords<T>, MalformedBody> {
    if let Ok(whole) = serde_json::from_str::<Vec<LenientObject<T>>>(list)
        && whole.iter().all(|LenientObject(record)| is_usable(record))
    {
        return Ok((whole.into_iter().map(|LenientObject(record)| record).collect(), Vec::new()));
    }
    let raws: Vec<&RawValue> = serde_json::from_str(list).map_err(|error| MalformedBody::new(what, error))?;
    let (mut records, mut parked) = (Vec::new(), Vec::new());
    for (index, raw) in raws.into_iter().enumerate() {
        match serde_json::from_str(raw.get()) {
            Ok(LenientObject(record)) if is_usable(&record) => records.push(record),
            Ok(_) => parked.push(ParkedRecord::new(
                index,
                "it names another subject than the one asked for or one that cannot be, or differs from a record of \
                 the same thing, which stands twice",
                raw,
            )),
            Err(error) => parked.push(ParkedRecord::new(index, error, raw)),
        }
    }
    Ok((records, parked))
}

/// Reads a list of records with ids. Equal records of one id count once. Differing records are parked, because none of
/// them is known to be right.
pub(crate) fn read_records_once<'a, T: Deserialize<'a> + PartialEq, K: Ord + Clone>(
    what: &'static str,
    list: &'a str,
    id: fn(&T) -> &K,
    is_usable: impl Fn(&T) -> bool,
) -> Result<ReadRecords<T>, MalformedBody> {
    let (records, parked) = read_records(what, list, &is_usable)?;
    // An ordinary answer is sorted as the request was.
    let mut seen = BTreeSet::new();
    if records.is_sorted_by(|one, next| id(one) < id(next)) || records.iter().all(|one| seen.insert(id(one)))
    {
        return Ok((records, parked));
    }
    let differs = |one: &&T| records.iter().any(|other| id(one) == id(other) && *one != other);
    let differing: BTreeSet<K> = records.iter().filter(differs).map(id).cloned().collect();
    let (mut records, parked) =
        read_records(what, list, |record| is_usable(record) && !differing.contains(id(record)))?;
    let mut seen = BTreeSet::new();
    records.retain(|record| seen.insert(id(record).clone()));
    Ok((records, parked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct IdRecord {
        #[serde(rename = "Id", deserialize_with = "lenient::req")]
        id: i64,
    }

    fn decoded(body: &str) -> DecodedAnswer<IdRecord> {
        decode_list("a list", body.as_bytes(), |_| true).unwrap()
    }

    fn ids(body: &str) -> (Vec<i64>, Vec<usize>) {
        let decoded = decoded(body);
        let parked = decoded.parked.iter().map(|parked| parked.index);
        (decoded.records.iter().map(|record| record.id).collect(), parked.collect())
    }

    #[test]
    fn a_record_without_sense_is_parked_alone() {
        let body = r#"{"status":"Success","data":[{"Id":1.0},{"Id":"x"},null,{},{"Id":"5","New":{}},[6]]}"#;
        assert_eq!(ids(body), (vec![1, 5], vec![1, 2, 3, 5]));
    }

    #[test]
    fn a_list_is_empty_only_if_the_answer_says_so() {
        let none = r#"{"pagination":{"TotalNumberOfEntries":0},"data":null}"#;
        for body in [r#"{"messages":null,"pagination":null,"data":[]}"#, none] {
            assert_eq!(ids(body), (vec![], vec![]), "{body}");
        }
        let counted = r#"{"pagination":{"TotalNumberOfEntries":1},"data":null}"#;
        let without = ["{}", r#"{"data":null}"#, r#"{"Data":[]}"#, counted];
        for body in without.into_iter().chain(["", "<html>", "[]", r#"{"data":{}}"#, r#"{"data":[{"Id":1}"#])
        {
            assert!(decode_list::<IdRecord>("a list", body.as_bytes(), |_| true).is_err(), "{body}");
        }
    }

    #[test]
    fn a_list_goes_on_until_its_last_page() {
        let cases = [
            (r#"{"CurrentPage":1,"TotalNumberOfEntries":3.0,"TotalNumberOfPages":2}"#, true),
            (r#"{"CurrentPage":"2","TotalNumberOfPages":"2"}"#, false),
            (r#"{"TotalNumberOfPages":2}"#, true),
            (r#"{"CurrentPage":1,"TotalNumberOfPages":0}"#, false),
            ("null", false),
            ("\"none\"", false),
        ];
        for (page, more) in cases {
            let body = format!(r#"{{"pagination":{page},"data":[]}}"#);
            assert_eq!(decoded(&body).has_more(), more, "{page}");
        }
    }

    #[test]
    fn an_answer_that_counts_more_than_it_shows_is_not_complete() {
        let cases = [
            (r#"{"CurrentPage":1,"TotalNumberOfEntries":1,"TotalNumberOfPages":1}"#, "[]", false),
            (r#"{"CurrentPage":1,"TotalNumberOfEntries":0,"TotalNumberOfPages":1}"#, "[]", true),
            (r#"{"CurrentPage":1,"TotalNumberOfEntries":1,"TotalNumberOfPages":1}"#, r#"[{"Id":1}]"#, true),
            (r#"{"CurrentPage":1,"TotalNumberOfEntries":1,"TotalNumberOfPages":2}"#, r#"[{"Id":1}]"#, false),
            (r#"{"TotalNumberOfEntries":-1}"#, "[]", true),
            ("null", r#"[{"Id":1}]"#, true),
            ("null", r#"[{"Id":1},7]"#, false),
        ];
        for (page, data, is_complete) in cases {
            let body = format!(r#"{{"pagination":{page},"data":{data}}}"#);
            assert_eq!(decoded(&body).is_complete(), is_complete, "{body}");
        }
    }

    #[test]
    fn a_parked_record_names_its_sku() {
        for (raw, sku, subject) in [
            (r#"{"SkuNumber":"A"}"#, Some("A"), Some("A")),
            (r#"{"Id":7,"OrderId":"x","Quantity":{}}"#, None, Some("OrderId x")),
            (r#"{"Id":7,"Sku":17}"#, None, Some("Id 7")),
            ("[1]", None, None),
        ] {
            let parked = ParkedRecord::new(0, "odd", serde_json::from_str(raw).unwrap());
            assert_eq!(
                (parked.sku.as_ref().map(Sku::as_str), parked.subject().as_deref()),
                (sku, subject),
                "{raw}"
            );
        }
    }
}
