//! The account of calls: who holds a place of the 60 s window. Pure; the only guard the quota rests on.
//!
//! A call holds a place from before it is sent until 60 s after its answer (rules.md 30). The service counted it at
//! some instant between the two, which we never learn; holding the place over the whole span means that no 60 s of
//! *its* time can contain more calls than there are places, whatever the network does to them. A log of send times
//! cannot promise that: two calls sent 60 s apart may arrive 59.6 s apart.
//!
//! It forgets on a restart. What it must be told then is written at [`Memory`](super::Memory).

use super::wait::Wait;
use crate::model::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// The service's window (service-interface.md, *Limits*: calls per minute) and one millisecond: a [`Moment`] is cut
/// to whole milliseconds, so two that are 60 000 apart may lie a hair less than 60 s apart.
pub(super) const WINDOW: Duration = Duration::from_millis(60_001);

/// The places in use.
#[derive(Debug, Default)]
pub(super) struct Account {
    in_flight: u32,
    /// When each concluded call was answered, oldest first; dropped when its place is free again.
    answered: VecDeque<Moment>,
}

impl Account {
    /// An account in which these calls were already answered. An instant later than `now` belongs to another boot
    /// and counts as now: no place is ever lost for longer than the window.
    pub(super) fn restored(answered: impl IntoIterator<Item = Moment>, now: Moment) -> Self {
        let mut answered: Vec<_> = answered.into_iter().map(|at| at.min(now)).collect();
        answered.sort_unstable();
        Self { in_flight: 0, answered: answered.into() }
    }

    /// Takes a place, before the call is sent.
    pub(super) fn take(&mut self) {
        self.in_flight += 1;
    }

    /// Frees a place at once. Only for a call that was never begun.
    pub(super) fn give_back(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The call has its answer, or will have none: its place is free one window from now.
    pub(super) fn answered(&mut self, now: Moment) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let last = self.answered.back().copied().unwrap_or(now);
        self.answered.push_back(now.max(last));
    }

    /// Forgets the calls whose place has become free.
    pub(super) fn sweep(&mut self, window: Duration, now: Moment) {
        while self.answered.front().is_some_and(|at| at.plus(window) <= now) {
            self.answered.pop_front();
        }
    }

    /// Places held, as of the last sweep.
    pub(super) fn held(&self) -> u32 {
        self.in_flight.saturating_add(u32::try_from(self.answered.len()).unwrap_or(u32::MAX))
    }

    /// Calls that have no answer yet.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// When the places held were answered, oldest first.
    pub(super) fn answers(&self) -> impl Iterator<Item = Moment> {
        self.answered.iter().copied()
    }

    /// Whether one more call leaves at most `limit` places held; if not, when enough of them will be free.
    pub(super) fn go(&self, limit: u32, window: Duration) -> Result<(), Wait> {
        let Some(too_many) = self.held().checked_sub(limit) else { return Ok(()) };
        let last_of_them = usize::try_from(too_many).ok().and_then(|index| self.answered.get(index));
        Err(last_of_them.map_or(Wait::Event, |at| Wait::Until(at.plus(window))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(account: &mut Account, now: i64) -> u32 {
        account.sweep(WINDOW, Moment(now));
        account.held()
    }

    #[test]
    fn a_place_is_held_from_before_the_send_until_a_window_after_the_answer() {
        let mut account = Account::default();
        account.take();
        assert_eq!(held(&mut account, 500_000), 1, "in flight, however long");
        account.answered(Moment(500_000));
        assert_eq!(
            held(&mut account, 560_000),
            1,
            "60 s after the answer, but clocks are cut to milliseconds"
        );
        assert_eq!(held(&mut account, 560_001), 0);
    }

    #[test]
    fn a_full_account_says_when_it_has_room() {
        let mut account = Account::restored([Moment(30), Moment(10), Moment(20)], Moment(40));
        account.take();
        let until = |at: i64| Err(Wait::Until(Moment(at).plus(WINDOW)));
        let cases = [(5, Ok(())), (4, until(10)), (3, until(20)), (2, until(30)), (1, Err(Wait::Event))];
        for (limit, expected) in cases {
            assert_eq!(account.go(limit, WINDOW), expected, "limit {limit}");
        }
    }

    #[test]
    fn an_answer_of_another_boot_holds_its_place_no_longer_than_a_fresh_one() {
        let mut account = Account::restored([Moment(9_000_000)], Moment(1_000));
        assert_eq!(held(&mut account, 61_000), 1);
        assert_eq!(held(&mut account, 61_001), 0);
    }

    #[test]
    fn a_call_never_begun_holds_nothing() {
        let mut account = Account::default();
        account.take();
        account.give_back();
        assert_eq!(account.held(), 0);
    }
}
