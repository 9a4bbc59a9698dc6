//! Adaptive number of SKUs per balances call, kept between the runs of a process. Pure.
//!
//! The platform documents no limit. The size doubles after a full page that worked and halves after a
//! failure. A size that failed is tried again only after [`RETRY_AFTER_PAGES`] pages in a row, because
//! otherwise every other page would fail.

/// Smallest page. Answers to so few SKUs are trusted to be complete.
pub(super) const PAGE_MIN: usize = 25;
/// Largest page. A larger one saves few calls, and each takes about 1 s longer; a failed page wastes as much.
const PAGE_MAX: usize = 1_000;
/// Consecutive pages after which a failed size is tried again.
const RETRY_AFTER_PAGES: u32 = 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct PageSize {
    size: usize,
    max_size: usize,
    /// The smallest size that failed recently.
    failed: Option<usize>,
    consecutive_pages: u32,
}

impl PageSize {
    /// Starts with a size, the proved one or else the configured one.
    pub(super) fn new(configured: usize, size: usize) -> Self {
        let most = PAGE_MAX.max(configured);
        Self { size: size.clamp(1, most), max_size: most, failed: None, consecutive_pages: 0 }
    }

    pub(super) fn get(self) -> usize {
        self.size
    }

    /// Records a page that worked. Only a full page raises the size.
    pub(super) fn record_success(&mut self, was_full: bool) {
        self.consecutive_pages += 1;
        if self.consecutive_pages >= RETRY_AFTER_PAGES {
            self.failed = None;
        }
        let larger = (self.size * 2).min(self.max_size);
        if was_full && self.failed.is_none_or(|failed| larger < failed) {
            self.size = larger;
        }
    }

    pub(super) fn record_failure(&mut self) {
        self.failed = Some(self.size);
        self.consecutive_pages = 0;
        self.size = (self.size / 2).max(PAGE_MIN.min(self.size));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_pages_work_and_stops_at_its_most() {
        let mut size = PageSize::new(200, 200);
        let sizes = [(); 5].map(|()| {
            size.record_success(true);
            size.get()
        });
        assert_eq!(sizes, [400, 800, 1000, 1000, 1000]);
        size.record_success(false);
        assert_eq!(PageSize::new(200, 800).get(), 800, "remembered");
    }

    #[test]
    fn a_size_that_failed_is_not_tried_at_every_other_page() {
        let mut size = PageSize::new(200, 200);
        size.record_failure();
        assert_eq!(size.get(), 100);
        for _ in 1..RETRY_AFTER_PAGES {
            size.record_success(true);
            assert_eq!(size.get(), 100);
        }
        size.record_success(true);
        assert_eq!(size.get(), 200, "but after many");
        (0..9).for_each(|_| size.record_failure());
        assert_eq!(size.get(), PAGE_MIN);
    }

    #[test]
    fn a_page_that_was_not_full_says_nothing_of_larger_ones() {
        let mut size = PageSize::new(40, 40);
        size.record_success(false);
        assert_eq!(size.get(), 40);
    }
}
