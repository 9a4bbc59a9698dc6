//! Sliding window of 60 s: the reservations in use. Pure; the quota rests on this guard alone.
//!
//! A call holds a reservation from before it is sent until 60 s after its answer (docs/rules.md 19). The
//! platform counts the call at an unknown instant between send and answer. Holding the reservation over the
//! whole span guarantees that no 60 s of the platform's time contain more calls than reservations. A log of
//! send times cannot guarantee that: two calls sent 60 s apart may arrive 59.6 s apart.
//!
//! The window is not stored. [`PersistedState`](super::PersistedState) lists the input for a restart.

use super::instant::AdmissionWait;
use crate::model::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// The platform's window, within which a call counts (docs/interface.md, *Limits*: calls per minute).
pub(crate) const QUOTA_WINDOW: Duration = Duration::from_mins(1);
/// The window with a millisecond more, because a [`Moment`] is truncated to whole milliseconds.
pub(super) const WINDOW_LENGTH: Duration = QUOTA_WINDOW.saturating_add(Duration::from_millis(1));

#[derive(Debug, Default)]
pub(super) struct SlidingWindow {
    pub(super) in_flight: u32,
    /// Moments of the answers of completed calls, and ends of the quiet times of calls given up, oldest first. Swept
    /// when the reservation ends.
    pub(super) answer_times: VecDeque<Moment>,
}

impl SlidingWindow {
    /// Restores a window from the answer times of earlier calls.
    pub(super) fn from_answers(mut answered: Vec<Moment>) -> Self {
        answered.sort_unstable();
        Self { in_flight: 0, answer_times: answered.into() }
    }

    pub(super) fn reserve_call(&mut self) {
        self.in_flight += 1;
    }

    /// Ends a reservation at once. Only for a call that was never begun.
    pub(super) fn cancel_reservation(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Records the last moment at which the platform may have counted the call.
    pub(super) fn record_answer(&mut self, at: Moment) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let place = self.answer_times.partition_point(|other| *other <= at);
        self.answer_times.insert(place, at);
    }

    pub(super) fn remove_ended(&mut self, window: Duration, now: Moment) {
        while self.answer_times.front().is_some_and(|at| at.plus(window) <= now) {
            self.answer_times.pop_front();
        }
    }

    /// Returns the reservations in use, as of the last sweep.
    pub(super) fn reservations(&self) -> u32 {
        self.in_flight.saturating_add(u32::try_from(self.answer_times.len()).unwrap_or(u32::MAX))
    }

    /// Checks that one more call leaves at most `limit` reservations in use. Otherwise returns
    /// the wait for the next end.
    pub(super) fn check_limit(&self, limit: u32, window: Duration) -> Result<(), AdmissionWait> {
        let Some(too_many) = self.reservations().checked_sub(limit) else { return Ok(()) };
        let last_of_them = usize::try_from(too_many).ok().and_then(|index| self.answer_times.get(index));
        Err(last_of_them.map_or(AdmissionWait::Event, |at| AdmissionWait::Until(at.plus(window))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservations_at(window: &mut SlidingWindow, now: i64) -> u32 {
        window.remove_ended(WINDOW_LENGTH, Moment(now));
        window.reservations()
    }

    #[test]
    fn a_reservation_is_held_from_before_the_send_until_a_window_after_the_answer() {
        let mut window = SlidingWindow::default();
        window.reserve_call();
        assert_eq!(reservations_at(&mut window, 500_000), 1, "in flight, however long");
        window.record_answer(Moment(500_000));
        assert_eq!(reservations_at(&mut window, 560_000), 1, "clocks are cut to milliseconds");
        assert_eq!(reservations_at(&mut window, 560_001), 0);
    }

    #[test]
    fn a_full_window_returns_the_time_of_its_next_free_reservation() {
        let mut window = SlidingWindow::from_answers(vec![Moment(30), Moment(10), Moment(20)]);
        window.reserve_call();
        let until = |at: i64| Err(AdmissionWait::Until(Moment(at).plus(WINDOW_LENGTH)));
        let cases =
            [(5, Ok(())), (4, until(10)), (3, until(20)), (2, until(30)), (1, Err(AdmissionWait::Event))];
        for (limit, expected) in cases {
            assert_eq!(window.check_limit(limit, WINDOW_LENGTH), expected, "limit {limit}");
        }
    }

    #[test]
    fn a_call_counted_later_ends_after_those_counted_before() {
        let mut window = SlidingWindow::default();
        (0..3).for_each(|_| window.reserve_call());
        [90_000, 31_000, 32_000].into_iter().for_each(|at| window.record_answer(Moment(at)));
        let left = [91_001, 92_001, 150_000, 150_001].map(|now| reservations_at(&mut window, now));
        assert_eq!(left, [2, 1, 1, 0]);
    }

    #[test]
    fn a_call_never_begun_holds_nothing() {
        let mut window = SlidingWindow::default();
        window.reserve_call();
        window.cancel_reservation();
        assert_eq!(window.reservations(), 0);
    }
}
