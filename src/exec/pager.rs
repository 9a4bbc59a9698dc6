//! Reading of a paged list to its last page, with detection of changes meanwhile.
//!
//! Each page is committed as it arrives. Other records are marked as missing only after a whole read with as
//! many records as the platform counts. An empty list is a failure if records were known, and changes
//! nothing.

use super::call::{AnsweredExchange, READ_ATTEMPTS};
use super::{JobContext, JobError, RunReport};
use crate::client::PlatformRequest;
use crate::client::wire::{DecodedAnswer, MalformedBody, PageParams};
use crate::model::{Lane, RunId};
use crate::store::{Durability, PlatformList, StoreError, WriteTransaction};
use std::collections::BTreeSet;

/// Most pages of a list; it ends an endless list.
const PAGES_MAX: u32 = 500;

/// A list that the platform returns page by page.
pub(crate) trait PagedList: Sync {
    /// Record of the list.
    type Record: Send + Sync;
    /// Returns the list's name for messages: "cannot read …".
    fn list_name(&self) -> String;
    /// Returns the list's table in the mirror.
    fn platform_list(&self) -> PlatformList;
    /// Returns the request for a page.
    fn page_request(&self, paging: PageParams) -> PlatformRequest;
    /// Parses an answer.
    fn decode_page(&self, body: &[u8]) -> Result<DecodedAnswer<Self::Record>, MalformedBody>;
    /// Records a page.
    async fn record_page(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        page: &DecodedAnswer<Self::Record>,
    ) -> Result<ListPageResult, StoreError>;
}

/// Result of recording a page.
#[derive(Debug)]
pub(crate) struct ListPageResult {
    /// Ids of the page's records.
    pub(crate) ids: Vec<i64>,
    /// Number of new or changed records.
    pub(crate) changed: u64,
}

/// State of a list while it is read.
#[derive(Debug, Default)]
pub(crate) struct ListProgress {
    listed: BTreeSet<i64>,
    parked: usize,
    /// The platform's own count (`TotalNumberOfEntries`).
    total: Option<i64>,
    /// Number of new, changed and missing records.
    pub(crate) changed: u64,
    is_cut: bool,
}

/// Reads a list to its last page.
pub(crate) async fn read_list<L: PagedList>(
    context: &JobContext,
    run: RunId,
    of: &L,
) -> Result<ListProgress, JobError> {
    read_list_within(READ_ATTEMPTS, context, run, of).await
}

/// Reads a list with at most `attempts` attempts at each page.
pub(crate) async fn read_list_within<L: PagedList>(
    attempts: usize,
    context: &JobContext,
    run: RunId,
    of: &L,
) -> Result<ListProgress, JobError> {
    let known = context.store.list_known_count(of.platform_list()).await?;
    let mut progress = ListProgress::default();
    let mut paging = PageParams::FIRST;
    loop {
        let answer =
            context.read_within(attempts, run, Lane::Poll, &of.list_name(), &of.page_request(paging)).await?;
        let page = context.decode_or_ignore(&answer, of.decode_page(&answer.reply.body)).await?;
        let mut write = context.store.begin_write(Durability::Normal).await?;
        context.exchange_end(&mut write, &answer).await?;
        let recorded = of.record_page(&mut write, &answer, &page).await?;
        let goes_on = progress.add_page(&page, &recorded);
        if !goes_on && progress.is_whole() && (known == 0 || !progress.listed.is_empty()) {
            let listed: Vec<i64> = progress.listed.iter().copied().collect();
            progress.changed += write.list_complete(of.platform_list(), &listed, answer.sent_at).await?;
        }
        write.commit().await?;
        if !goes_on {
            break;
        }
        progress.is_cut = paging.number() >= PAGES_MAX;
        if progress.is_cut {
            break;
        }
        paging = paging.next_page();
    }
    if progress.listed.is_empty() && known > 0 {
        let why = format!(
            "the platform lists none of {}, but {known} were known; nothing was changed",
            of.list_name()
        );
        return Err(JobError::Implausible(why));
    }
    Ok(progress)
}

impl ListProgress {
    /// Adds a page. Returns true if another page follows.
    fn add_page<T>(&mut self, page: &DecodedAnswer<T>, recorded: &ListPageResult) -> bool {
        let before = self.listed.len();
        self.listed.extend(&recorded.ids);
        self.parked += page.parked.len();
        self.changed += recorded.changed;
        self.total = page.page.and_then(|page| page.total_entries).or(self.total);
        let records = page.records.len() + page.parked.len();
        // A full page without a position may be the first of several.
        let may_go_on = page.page.is_none() && records >= PageParams::MAX_SIZE as usize;
        let brought_nothing = self.listed.len() == before && page.parked.is_empty();
        (page.has_more() || may_go_on) && !brought_nothing
    }

    /// Returns true if every record of the list was seen and readable.
    fn is_whole(&self) -> bool {
        !self.is_cut
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
            Some(total) if total != as_count(listed + parked) => {
                Some(format!("the platform names {total}: the list moved while it was read"))
            }
            _ => None,
        }
    }

    /// Returns the number of listed records.
    pub(crate) fn listed_count(&self) -> usize {
        self.listed.len()
    }

    /// Returns the report of the run; `nouns` as in "3 supplier(s)".
    pub(crate) fn run_report(&self, nouns: &str) -> RunReport {
        let mut summary = format!("{} {nouns} listed, {} new or changed", self.listed_count(), self.changed);
        if self.parked > 0 {
            summary.push_str(&format!(", {} made no sense", self.parked));
        }
        match self.anomaly_text() {
            Some(oddity) => RunReport::partial(format!("{summary}; {oddity}")),
            None => RunReport::ok(summary),
        }
    }
}

fn as_count(listed: usize) -> i64 {
    i64::try_from(listed).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::wire::{PageInfo, Supplier, decode_suppliers};

    /// Returns a page of suppliers with these ids, `x` for an unreadable record.
    fn page(ids: &[&str], place: Option<(i64, i64, i64)>) -> (DecodedAnswer<Supplier>, ListPageResult) {
        let records: Vec<String> = ids.iter().map(|id| format!(r#"{{"Id":"{id}"}}"#)).collect();
        let body = format!(r#"{{"data":[{}]}}"#, records.join(","));
        let mut page = decode_suppliers(body.as_bytes()).unwrap();
        page.page = place.map(|(current, pages, total)| PageInfo {
            current: Some(current),
            total_entries: Some(total),
            total_pages: Some(pages),
        });
        let ids = page.records.iter().map(|supplier| supplier.id.0).collect();
        (page, ListPageResult { ids, changed: 0 })
    }

    /// Rows: the pages, more to come after each, all records seen, a remark present.
    #[test]
    fn a_list_is_whole_only_with_every_record_the_service_counts() {
        type Pages<'a> = &'a [(&'a [&'a str], Option<(i64, i64, i64)>)];
        let cases: &[(&str, Pages<'_>, &[bool], bool, bool)] = &[
            ("one page", &[(&["1", "2"], Some((1, 1, 2)))], &[false], true, false),
            ("empty, and said so", &[(&[], Some((1, 0, 0)))], &[false], true, false),
            ("no word on pages", &[(&["1"], None)], &[false], true, false),
            ("cut", &[(&["1"], Some((1, 1, 2)))], &[false], false, true),
            ("more than counted", &[(&["1", "2"], Some((1, 1, 1)))], &[false], false, true),
            ("a record without sense", &[(&["1", "x"], Some((1, 1, 2)))], &[false], false, false),
            (
                "two pages",
                &[(&["1"], Some((1, 2, 2))), (&["2"], Some((2, 2, 2)))],
                &[true, false],
                true,
                false,
            ),
            (
                "one fell between the pages",
                &[(&["1", "2"], Some((1, 2, 3))), (&["2"], Some((2, 2, 3)))],
                &[true, false],
                false,
                true,
            ),
            (
                "the same page for ever",
                &[(&["1"], Some((1, 9, 9))), (&["1"], Some((1, 9, 9)))],
                &[true, false],
                false,
                true,
            ),
        ];
        for (what, pages, goes_on, is_whole, is_odd) in cases {
            let mut progress = ListProgress::default();
            for ((ids, place), expected) in pages.iter().zip(*goes_on) {
                let (page, recorded) = page(ids, *place);
                assert_eq!(progress.add_page(&page, &recorded), *expected, "{what}");
            }
            assert_eq!(
                (progress.is_whole(), progress.anomaly_text().is_some()),
                (*is_whole, *is_odd),
                "{what}"
            );
        }
    }

    #[test]
    fn a_full_page_without_a_word_on_pages_may_go_on() {
        let ids: Vec<String> = (1..=200).map(|id| id.to_string()).collect();
        let (page, recorded) = page(&ids.iter().map(String::as_str).collect::<Vec<_>>(), None);
        let mut progress = ListProgress::default();
        assert!(progress.add_page(&page, &recorded));
        assert!(!progress.add_page(&page, &recorded), "the same again is the end");
    }
}
