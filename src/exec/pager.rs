//! Reading of a paged list to its last page, with detection of changes meanwhile.
//!
//! Each page is committed as it arrives. Other records are marked as missing only after a whole read with as
//! many records as the platform counts. An empty list is a failure if records were known, and changes
//! nothing.

use super::call::AnsweredExchange;
use super::{JobContext, JobError, RunReport};
use crate::client::PlatformRequest;
use crate::client::wire::{DecodedAnswer, MalformedBody, PageParams};
use crate::model::{Lane, RunId, counted};
use crate::projection;
use crate::store::{PlatformList, StoreError, WriteTransaction};
use serde::Serialize;
use std::collections::BTreeSet;
use std::pin::Pin;

/// Most pages of a list; it ends an endless list.
pub(crate) const PAGES_MAX: u32 = 500;

/// Page with its answer, in the transaction that records it.
type AnsweredPage<'p, T> = (&'p mut WriteTransaction, &'p AnsweredExchange, &'p DecodedAnswer<T>);
/// Projection of a page. Its output is the number of new or changed records.
type PageProjection<'p> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send + 'p>>;
pub(super) type ProjectPage<T> = dyn for<'p> Fn(AnsweredPage<'p, T>) -> PageProjection<'p> + Sync;

/// Returns the projection of a list whose records are stored as they are.
pub(super) fn project_to<T: Serialize + Sync>(
    list: PlatformList,
) -> impl for<'p> Fn(AnsweredPage<'p, T>) -> PageProjection<'p> + Sync {
    move |(write, answer, page)| Box::pin(projection::project_list(write, answer.id, list, page))
}

pub(super) struct ListReader<'a> {
    pub(super) attempts: usize,
    pub(super) context: &'a JobContext,
    pub(super) run: RunId,
    pub(super) list: PlatformList,
}

#[derive(Debug, Default)]
pub(crate) struct ListProgress {
    listed: BTreeSet<i64>,
    parked: usize,
    /// The platform's own count (`TotalNumberOfEntries`).
    total: Option<i64>,
    /// Number of new, changed and missing records.
    pub(crate) changed: u64,
    is_cut: bool,
    /// True if the platform's count differed between two pages.
    has_moved: bool,
}

impl ListReader<'_> {
    pub(super) async fn read_pages<T>(
        self,
        request: impl Fn(PageParams) -> PlatformRequest,
        decode: impl Fn(&[u8]) -> Result<DecodedAnswer<T>, MalformedBody>,
        id: fn(&T) -> i64,
        project: &ProjectPage<T>,
    ) -> Result<ListProgress, JobError> {
        let Self { attempts, context, run, list } = self;
        let (name, known) = (list_name(list), context.store.list_known_count(list).await?);
        let (mut progress, mut paging) = (ListProgress::default(), PageParams::FIRST);
        loop {
            let asked = request(paging);
            let (answer, page) =
                context.read_decoded(attempts, run, Lane::Poll, &name, &asked, &decode).await?;
            let mut write = context.begin_recording(&answer).await?;
            progress.changed += project((&mut write, &answer, &page)).await?;
            let goes_on = progress.add_page(&page, id);
            if !goes_on && progress.is_whole() && (known == 0 || !progress.listed.is_empty()) {
                let listed: Vec<i64> = progress.listed.iter().copied().collect();
                progress.changed += write.list_complete(list, &listed, answer.sent_at).await?;
            }
            write.commit().await?;
            progress.is_cut = goes_on && paging.number() >= PAGES_MAX;
            if !goes_on || progress.is_cut {
                break;
            }
            paging = paging.next_page();
        }
        if progress.listed.is_empty() && known > 0 {
            let why =
                format!("the platform lists none of {name}, but {known} were known; nothing was changed");
            return Err(JobError::Implausible(why));
        }
        Ok(progress)
    }
}

impl ListProgress {
    /// Adds a page. Returns true if another page follows.
    fn add_page<T>(&mut self, page: &DecodedAnswer<T>, id: fn(&T) -> i64) -> bool {
        let before = self.listed.len();
        self.listed.extend(page.records.iter().map(id));
        self.parked += page.parked.len();
        self.has_moved |= page.note_total(&mut self.total);
        let brought_nothing = self.listed.len() == before && page.parked.is_empty();
        page.may_have_more() && !brought_nothing
    }

    /// Returns true if every record of the list was seen and readable.
    fn is_whole(&self) -> bool {
        !self.is_cut
            && !self.has_moved
            && self.parked == 0
            && self.total.is_none_or(|total| total == as_count(self.listed.len()))
    }

    /// Returns the ids of the list if it was read whole and is not empty.
    pub(super) fn into_whole_ids(self) -> Option<BTreeSet<i64>> {
        (self.is_whole() && !self.listed.is_empty()).then_some(self.listed)
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

fn as_count(listed: usize) -> i64 {
    i64::try_from(listed).unwrap_or(i64::MAX)
}

/// Returns the name of a list for messages: "cannot read …".
pub(super) fn list_name(list: PlatformList) -> String {
    match list {
        PlatformList::Warehouses => "the warehouses".into(),
        PlatformList::Suppliers => "the suppliers".into(),
        PlatformList::Storefronts => "the storefronts".into(),
        PlatformList::HealthMonths => "the business health".into(),
        PlatformList::Templates(storefront) => format!("the listing templates of storefront {storefront}"),
        PlatformList::ShipmentItems(shipment) => format!("the items of shipment {shipment}"),
    }
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
