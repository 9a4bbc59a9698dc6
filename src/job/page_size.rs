//! How many SKUs a balances call takes: up while it works, halved where it does not, remembered over restarts. Pure.
//!
//! The service names no limit, so it has to be found. A size that failed is not tried again until many pages in a row have
//! worked: a service that answers 500 above some size would else fail on every other page.

/// The smallest page: what the service returns of so few SKUs is trusted to be whole.
pub(super) const PAGE_MIN: usize = 25;
/// The largest: beyond it a call saved is a second of answer more, and a page that fails costs as much.
const PAGE_MAX: usize = 1_000;
/// So many pages in a row that worked make a size that failed worth another try.
const TRY_AGAIN: u32 = 20;

/// The size of the next page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageSize {
    size: usize,
    most: usize,
    /// The smallest size that failed lately.
    failed: Option<usize>,
    in_a_row: u32,
}

impl PageSize {
    /// Begins with what is configured, or with what was proved since.
    pub(super) fn new(configured: usize, proved: Option<usize>) -> Self {
        let most = PAGE_MAX.max(configured);
        Self { size: proved.unwrap_or(configured).clamp(1, most), most, failed: None, in_a_row: 0 }
    }

    /// SKUs of the next page.
    pub(super) fn get(self) -> usize {
        self.size
    }

    /// A page worked. One that was not full says nothing of larger ones.
    pub(super) fn worked(&mut self, was_full: bool) {
        self.in_a_row += 1;
        if self.in_a_row >= TRY_AGAIN {
            self.failed = None;
        }
        let larger = (self.size * 2).min(self.most);
        if was_full && self.failed.is_none_or(|failed| larger < failed) {
            self.size = larger;
        }
    }

    /// A page was too much.
    pub(super) fn failed(&mut self) {
        self.failed = Some(self.size);
        self.in_a_row = 0;
        self.size = (self.size / 2).max(PAGE_MIN.min(self.size));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_pages_work_and_stops_at_its_most() {
        let mut size = PageSize::new(200, None);
        let sizes = [(); 5].map(|()| {
            size.worked(true);
            size.get()
        });
        assert_eq!(sizes, [400, 800, 1000, 1000, 1000]);
        size.worked(false);
        assert_eq!(PageSize::new(200, Some(800)).get(), 800, "remembered");
    }

    #[test]
    fn a_size_that_failed_is_not_tried_at_every_other_page() {
        let mut size = PageSize::new(200, None);
        size.failed();
        assert_eq!(size.get(), 100);
        for _ in 1..TRY_AGAIN {
            size.worked(true);
            assert_eq!(size.get(), 100);
        }
        size.worked(true);
        assert_eq!(size.get(), 200, "but after many");
        (0..9).for_each(|_| size.failed());
        assert_eq!(size.get(), PAGE_MIN);
    }

    #[test]
    fn a_page_that_was_not_full_says_nothing_of_larger_ones() {
        let mut size = PageSize::new(40, None);
        size.worked(false);
        assert_eq!(size.get(), 40);
    }
}
