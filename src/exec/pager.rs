//! Reading of a paged list to its last page, with detection of changes meanwhile.
//!
//! Each page is committed as it arrives. Other records are marked as missing only after a whole read with as
//! many records as the platform counts. An empty list is a failure if records were known, and changes
//! nothing.

use super::call::AnsweredExchange;
use super::reads::{ReadOrigin, TimedRead};
use super::{JobError, RunReport};
use crate::client::PlatformRequest;
use crate::client::wire::{DecodedAnswer, MalformedBody, PageParams};
use crate::model::counted;
use crate::projection;
use crate::store::{PlatformList, StoreError, WriteTransaction};
use serde::Serialize;
use std::collections::BTreeSet;
use std::pin::Pin;

/// Most pages of a list; it ends an endless list.
const PAGES_MAX: u32 = 500;

type DecodePage<T> = dyn Fn(&[u8]) -> Result<DecodedAnswer<T>, MalformedBody> + Send + Sync;
/// Page with its answer, in the transaction that records it.
type AnsweredPage<'p, T> = (&'p mut WriteTransaction, &'p AnsweredExchange, &'p DecodedAnswer<T>);
/// Projection of a page. Its output is the number of new or changed records.
type PageProjection<'p> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send + 'p>>;
type ProjectPage<T> = dyn for<'p> Fn(AnsweredPage<'p, T>) -> PageProjection<'p> + Send + Sync;

/// List of records of one type: its requests, its parser and the projection of a page.
pub(crate) struct PagedList<T> {
    pub(super) list: PlatformList,
    request: Box<dyn Fn(PageParams) -> PlatformRequest + Send + Sync>,
    decode: Box<DecodePage<T>>,
    id: fn(&T) -> i64,
    /// Without it, the answers are recorded as not applied.
    project: Option<Box<ProjectPage<T>>>,
}

#[derive(Debug, Default)]
pub(crate) struct ListProgress {
    /// Number of records that were known before.
    known: i64,
    pub(crate) listed: BTreeSet<i64>,
    parked: usize,
    /// Reason why the first of these is unreadable.
    parked_why: Option<String>,
    /// The platform's own count (`TotalNumberOfEntries`).
    total: Option<i64>,
    /// Number of new, changed and missing records.
    pub(crate) changed: u64,
    is_cut: bool,
    /// True if the platform's count differed between two pages.
    has_moved: bool,
}

impl<T: Serialize + Sync + 'static> PagedList<T> {
    /// Returns the list for reads whose records are stored as they are.
    pub(super) fn with_record_facts(self) -> Self {
        let list = self.list;
        self.with_facts(move |(write, answer, page)| {
            Box::pin(projection::project_list(write, answer.id, list, page))
        })
    }
}

impl<T> PagedList<T> {
    pub(super) fn new(
        list: PlatformList,
        request: impl Fn(PageParams) -> PlatformRequest + Send + Sync + 'static,
        decode: impl Fn(&[u8]) -> Result<DecodedAnswer<T>, MalformedBody> + Send + Sync + 'static,
        id: fn(&T) -> i64,
    ) -> Self {
        Self { list, request: Box::new(request), decode: Box::new(decode), id, project: None }
    }

    pub(super) fn with_facts(
        self,
        project: impl for<'p> Fn(AnsweredPage<'p, T>) -> PageProjection<'p> + Send + Sync + 'static,
    ) -> Self {
        Self { project: Some(Box::new(project)), ..self }
    }

    /// Reads to the last page, with at most `attempts` attempts at each. Returns the records only if they are `kept`.
    pub(crate) async fn read_pages(
        &self,
        origin: ReadOrigin<'_>,
        attempts: usize,
        kept: bool,
    ) -> Result<(TimedRead<Vec<T>>, ListProgress), JobError> {
        let context = origin.context;
        let (name, known) = (list_name(self.list), context.store.list_known_count(self.list).await?);
        let (mut progress, mut read) = (ListProgress { known, ..ListProgress::default() }, None);
        let mut paging = PageParams::FIRST;
        loop {
            let asked = (self.request)(paging);
            let (answer, page) = origin.read_decoded(attempts, &name, &asked, &self.decode).await?;
            let goes_on = progress.add_page(&page, self.id);
            if let Some(project) = &self.project {
                let mut write = context.begin_recording(&answer).await?;
                progress.changed += project((&mut write, &answer, &page)).await?;
                // A preflight proves its list by the known records, so it marks none of them missing.
                if !kept && !goes_on && progress.is_whole() && !progress.is_emptied() {
                    let listed: Vec<i64> = progress.listed.iter().copied().collect();
                    progress.changed += write.list_complete(self.list, &listed, answer.sent_at).await?;
                }
                write.commit().await?;
            } else {
                context.exchange_end_ignored(&answer).await?;
            }
            let mut seen = read.unwrap_or_else(|| TimedRead::from_answer(&answer, Vec::new()));
            seen.records.extend(page.records.into_iter().filter(|_| kept));
            progress.is_cut = goes_on && paging.number() >= PAGES_MAX;
            if !goes_on || progress.is_cut {
                return Ok((seen, progress));
            }
            (read, paging) = (Some(seen), paging.next_page());
        }
    }
}

impl ListProgress {
    /// Adds a page. Returns true if another page follows.
    fn add_page<T>(&mut self, page: &DecodedAnswer<T>, id: fn(&T) -> i64) -> bool {
        let before = self.listed.len();
        self.listed.extend(page.records.iter().map(id));
        self.parked += page.parked.len();
        self.parked_why =
            self.parked_why.take().or_else(|| page.parked.first().map(|parked| parked.why.clone()));
        self.has_moved |= page.note_total(&mut self.total);
        let brought_nothing = self.listed.len() == before && page.parked.is_empty();
        page.may_have_more() && !brought_nothing
    }

    /// Returns true if every record of the list was seen and readable.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_cut
            && !self.has_moved
            && self.parked == 0
            && self.total.is_none_or(|total| total == as_count(self.listed.len()))
    }

    fn is_emptied(&self) -> bool {
        self.listed.is_empty() && self.known > 0
    }

    /// Fails if the list is empty although records were known.
    pub(super) fn require_some(self, list: PlatformList) -> Result<Self, JobError> {
        if !self.is_emptied() {
            return Ok(self);
        }
        let (name, known) = (list_name(list), self.known);
        let why = format!("the platform lists none of {name}, but {known} were known; nothing was changed");
        Err(JobError::Implausible(why))
    }

    /// Fails unless all that the platform counts came and is readable. An absent record may be among the rest.
    pub(super) fn require_all(&self, list: PlatformList) -> Result<(), JobError> {
        let (name, came) = (list_name(list), self.listed.len());
        if let Some(why) = &self.parked_why {
            return Err(unreadable_part(&name, why));
        }
        if self.is_cut || self.has_moved || self.total.is_some_and(|total| total > as_count(came)) {
            return Err(JobError::Implausible(format!(
                "the platform returned {came} of {name}, and has more or changed the list meanwhile, so the answer \
                 decides nothing"
            )));
        }
        Ok(())
    }

    /// Returns a remark about a list that was cut or changed while it was read.
    pub(crate) fn anomaly_text(&self) -> Option<String> {
        let (listed, parked) = (self.listed.len(), self.parked);
        match self.total {
            _ if self.is_cut => Some(format!("it has more than {PAGES_MAX} pages; the rest was not read")),
            Some(total) if self.has_moved || total != as_count(listed + parked) => {
                Some(format!("the platform counts {total}: the list changed while it was read"))
            }
            _ => None,
        }
    }

    /// Returns the report of the run; `noun` as in "3 suppliers".
    pub(crate) fn run_report(&self, noun: &str) -> RunReport {
        let mut summary =
            format!("{} listed, {} new or changed", counted(self.listed.len(), noun), self.changed);
        if self.parked > 0 {
            summary.push_str(&format!(", {} unreadable", self.parked));
        }
        let report = match self.anomaly_text() {
            Some(anomaly) => RunReport::partial(format!("{summary}; {anomaly}")),
            None => RunReport::ok(summary),
        };
        report.with_effect(self.changed > 0)
    }
}

/// Returns the name of a list for messages: "cannot read …".
fn list_name(list: PlatformList) -> String {
    match list {
        PlatformList::Warehouses => "the warehouses".into(),
        PlatformList::Suppliers => "the suppliers".into(),
        PlatformList::Storefronts => "the storefronts".into(),
        PlatformList::HealthMonths => "the business health".into(),
        PlatformList::Templates(storefront) => format!("the listing templates of storefront {storefront}"),
        PlatformList::ShipmentItems(shipment) => format!("the items of shipment {shipment}"),
    }
}

/// Returns the error of an answer of which a part is unreadable. An absent record may be that part.
pub(super) fn unreadable_part(what: &str, why: &str) -> JobError {
    JobError::Implausible(format!("a part of {what} is unreadable ({why}), so the answer decides nothing"))
}

fn as_count(listed: usize) -> i64 {
    i64::try_from(listed).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::wire::{PageInfo, Supplier, decode_suppliers};

    /// Returns a page of suppliers with these ids, `x` for an unreadable record.
    fn page(ids: &str, position: Option<(i64, i64, i64)>) -> DecodedAnswer<Supplier> {
        let records: Vec<String> = ids.split(' ').map(|id| format!(r#"{{"Id":"{id}"}}"#)).collect();
        let records = if ids.is_empty() { String::new() } else { records.join(",") };
        let mut page = decode_suppliers(format!(r#"{{"data":[{records}]}}"#).as_bytes()).unwrap();
        page.page = position.map(|(current, pages, total)| PageInfo {
            current: Some(current),
            total_entries: Some(total),
            total_pages: Some(pages),
        });
        page
    }

    /// Rows: the pages, each with true if more is to come; all records seen; a remark present.
    #[test]
    fn a_list_is_whole_only_with_every_record_the_service_counts() {
        type Pages<'a> = &'a [(&'a str, Option<(i64, i64, i64)>, bool)];
        let cases: &[(&str, Pages<'_>, bool, bool)] = &[
            ("one page", &[("1 2", Some((1, 1, 2)), false)], true, false),
            ("empty, and it says so", &[("", Some((1, 0, 0)), false)], true, false),
            ("no word on pages", &[("1", None, false)], true, false),
            ("cut", &[("1", Some((1, 1, 2)), false)], false, true),
            ("more than counted", &[("1 2", Some((1, 1, 1)), false)], false, true),
            ("an unreadable record", &[("1 x", Some((1, 1, 2)), false)], false, false),
            ("two pages", &[("1", Some((1, 2, 2)), true), ("2", Some((2, 2, 2)), false)], true, false),
            ("lost between", &[("1 2", Some((1, 2, 3)), true), ("2", Some((2, 2, 3)), false)], false, true),
            (
                "one left meanwhile",
                &[("1 2", Some((1, 2, 4)), true), ("4", Some((2, 2, 3)), false)],
                false,
                true,
            ),
            (
                "one came meanwhile",
                &[("1 2", Some((1, 2, 3)), true), ("3 4", Some((2, 2, 4)), false)],
                false,
                true,
            ),
            ("the same again", &[("1", Some((1, 9, 9)), true), ("1", Some((1, 9, 9)), false)], false, true),
        ];
        for (what, pages, is_whole, is_odd) in cases {
            let mut progress = ListProgress::default();
            for (ids, position, goes_on) in *pages {
                assert_eq!(progress.add_page(&page(ids, *position), |row| row.id.0), *goes_on, "{what}");
            }
            let found = (progress.is_whole(), progress.anomaly_text().is_some());
            assert_eq!(found, (*is_whole, *is_odd), "{what}");
        }
    }

    #[test]
    fn a_full_page_without_a_word_on_pages_may_go_on() {
        let ids: Vec<String> = (1..=200).map(|id| id.to_string()).collect();
        let page = page(&ids.join(" "), None);
        let mut progress = ListProgress::default();
        assert!(progress.add_page(&page, |row| row.id.0));
        assert!(!progress.add_page(&page, |row| row.id.0), "the same again is the end");
        let mut unnumbered = page;
        unnumbered.page = Some(PageInfo { current: Some(1), total_entries: None, total_pages: None });
        assert!(
            ListProgress::default().add_page(&unnumbered, |row| row.id.0),
            "it states no number of pages"
        );
    }
}
