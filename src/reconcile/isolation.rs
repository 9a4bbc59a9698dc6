//! Isolation: failing calls are split until the failing entry is isolated.
//!
//! The platform may fail for one SKU, order or shipment in any way: 500, 404, HTML, a cut body, a dropped
//! connection. Without isolation the same entries would be sent together again, would fail again, and would
//! block the others.
//!
//! # Bounds
//!
//! - A read, and a write that was refused as a whole, is halved ([`SuspectQueue`]). Of n entries, an entry that
//!   always fails is isolated after at most 1 + 2·⌈log₂ n⌉ calls. All others have succeeded then.
//! - A write of unknown outcome is checked first, after its quiet time. Only entries without effect are sent
//!   again, in calls of [`resend_size`] entries: isolated if one call was in doubt. Halving would cost each entry
//!   another quiet time at each step, and a call costs less. Many such entries at a time show that the
//!   platform failed, so they share calls, of half the usual size at most.
//!
//! # The platform or an entry
//!
//! An entry is quarantined only on proof ([`EntryFailures::is_proved_guilty`]), which has three conditions:
//!
//! - [`PROOF_FAILURES`] calls in a row with the entry failed.
//! - The last of these calls contained no other entry.
//! - Another call of the operation succeeded since the first of these calls.
//!
//! While no call succeeds, the platform fails: no entry is quarantined, and the callers pause with growing
//! delays. A quarantined entry that fails amid failures of others gets no longer delay
//! ([`EntryFailures::is_amid_others`]). In a pass of calls with one entry each, the answer before counts too if no second entry failed
//! after it ([`EntryFailures::note_isolated_failure`]).

use crate::model::{Moment, Operation, RetryDelays, UPDATE_MAX_ENTRIES};
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of failed calls in a row that prove an entry guilty, if other calls succeed meanwhile.
///
/// A network that loses one answer in four accuses a good entry in one of 64 cases. That entry is retried
/// after a minute.
pub(crate) const PROOF_FAILURES: usize = 3;
/// Number of consecutive failures that mean the platform.
pub(crate) const FAILURES_MAX: usize = 12;
/// Number of consecutive failures that need no pause. A single bad entry causes two or three.
const UNPAUSED_FAILURES: usize = 2;
/// Number of doublings of the delay for an entry without proof. Its longest delay is two minutes.
const PAUSE_DOUBLINGS: usize = 1;

/// Search for the entries that make calls fail: the parts of failed calls, each to be tried separately.
///
/// Failures without a success between them are tried again with growing pauses.
#[derive(Debug)]
pub(crate) struct SuspectQueue<T> {
    parts: Vec<Vec<T>>,
    /// Number of consecutive failures.
    failures: usize,
    /// Message of the first of them. It tells more than those of the parts.
    failure: String,
    delays: RetryDelays,
    not_before: Option<Moment>,
}

impl<T> Default for SuspectQueue<T> {
    fn default() -> Self {
        let (parts, failure, delays) = (Vec::new(), String::new(), RetryDelays::page_retry());
        Self { parts, failures: 0, failure, delays, not_before: None }
    }
}

impl<T> SuspectQueue<T> {
    /// Records a failed call and adds its entries in two halves.
    ///
    /// Returns an isolated entry, because it cannot be split.
    pub(crate) fn failed(&mut self, mut entries: Vec<T>, why: String, now: Moment) -> Option<T> {
        self.note_failure(why, now);
        if entries.len() < 2 {
            return entries.pop();
        }
        let right = entries.split_off(entries.len() / 2);
        self.parts.push(entries);
        self.parts.push(right);
        None
    }

    /// Records a failure that no entry caused.
    pub(crate) fn note_failure(&mut self, why: String, now: Moment) {
        if self.failures == 0 {
            self.failure = why;
        }
        self.failures += 1;
        if self.failures > UNPAUSED_FAILURES {
            self.not_before = self.delays.next().map(|delay| now.plus(delay));
        }
    }

    /// Records a successful call, which ends the pause.
    pub(crate) fn succeeded(&mut self) {
        *self = Self { parts: std::mem::take(&mut self.parts), ..Self::default() };
    }

    /// Adds entries to be tried together.
    pub(crate) fn add(&mut self, entries: Vec<T>) {
        if !entries.is_empty() {
            self.parts.push(entries);
        }
    }

    /// Returns the largest part.
    ///
    /// The success of the largest part is the earliest proof that the platform works.
    pub(crate) fn take(&mut self) -> Option<Vec<T>> {
        let parts = self.parts.iter().enumerate();
        let largest = parts.max_by_key(|(at, part)| (part.len(), usize::MAX - at))?.0;
        Some(self.parts.remove(largest))
    }

    /// Returns true if no part is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the end of the pause before the next call.
    pub(crate) fn not_before(&self) -> Option<Moment> {
        self.not_before
    }

    /// Returns the reason after so many consecutive failures that the platform fails, and not an entry.
    pub(crate) fn exhaustion(&self) -> Option<&str> {
        (self.failures >= FAILURES_MAX).then_some(self.failure.as_str())
    }
}

/// Returns the size of a call that resends `entries` of unknown outcome: half of a full call at most. Fewer share as
/// many calls as a full call holds entries.
pub(crate) fn resend_size(entries: usize) -> usize {
    entries.div_ceil(UPDATE_MAX_ENTRIES).clamp(1, UPDATE_MAX_ENTRIES / 2)
}

/// The failed calls of each entry since its last success, by operation.
///
/// The counts are kept in memory: after a restart no entry is suspect.
#[derive(Debug, Default)]
pub(crate) struct EntryFailures {
    /// Number of calls so far, which orders them without a clock.
    calls: u64,
    last_success: BTreeMap<Operation, u64>,
    entries: BTreeMap<(Operation, String), FailureStreak>,
}

#[derive(Clone, Copy, Debug)]
struct FailureStreak {
    first: u64,
    last: u64,
    last_at: Moment,
    /// Failed calls in a row.
    count: usize,
}

impl EntryFailures {
    /// Records a successful call with its entries.
    pub(crate) fn record_success<'a>(
        &mut self,
        operation: Operation,
        entries: impl IntoIterator<Item = &'a str>,
    ) {
        self.calls += 1;
        self.last_success.insert(operation, self.calls);
        self.clear_failures(operation, entries);
    }

    /// Clears the failures of these entries.
    pub(crate) fn clear_failures<'a>(
        &mut self,
        operation: Operation,
        entries: impl IntoIterator<Item = &'a str>,
    ) {
        for entry in entries {
            if self.entries.is_empty() {
                break;
            }
            self.entries.remove(&(operation, entry.to_owned()));
        }
    }

    /// Records a failed call with its entries.
    pub(crate) fn record_failure<'a>(
        &mut self,
        operation: Operation,
        entries: impl IntoIterator<Item = &'a str>,
        at: Moment,
    ) {
        self.calls += 1;
        let call = self.calls;
        for entry in entries {
            let failed = self.entries.entry((operation, entry.to_owned()));
            let failed = failed.or_insert(FailureStreak { first: call, last: call, last_at: at, count: 0 });
            *failed =
                FailureStreak { last: call, last_at: at, count: failed.count.saturating_add(1), ..*failed };
        }
    }

    /// Counts the answer before an isolated failure as if it came after the failure.
    ///
    /// The caller knows that no other entry failed since that answer. A later answer cannot come if no other
    /// entry is read.
    pub(crate) fn note_isolated_failure(&mut self, operation: Operation, entry: &str) {
        if let Some(failed) = self.entries.get_mut(&(operation, entry.to_owned())) {
            failed.first = 0;
        }
    }

    /// Returns true if the last call with the entry failed.
    pub(crate) fn is_suspect(&self, operation: Operation, entry: &str) -> bool {
        self.get(operation, entry).is_some()
    }

    /// Returns true if an entry that just failed in isolation is proved guilty.
    ///
    /// [`PROOF_FAILURES`] calls in a row with the entry failed, and another call of the operation succeeded since the
    /// first of them.
    pub(crate) fn is_proved_guilty(&self, operation: Operation, entry: &str) -> bool {
        let worked = self.last_success.get(&operation).copied().unwrap_or_default();
        self.get(operation, entry)
            .is_some_and(|failed| failed.count >= PROOF_FAILURES && worked > failed.first)
    }

    /// Returns true if a call with another entry than `known` failed since the newest success.
    ///
    /// The platform may have caused all failures since then.
    pub(crate) fn is_amid_others(&self, operation: Operation, known: impl Fn(&str) -> bool) -> bool {
        let last_success = self.last_success.get(&operation).copied().unwrap_or_default();
        let mut failed =
            self.entries.iter().filter(|((of, _), failed)| *of == operation && failed.last > last_success);
        failed.any(|((_, entry), _)| !known(entry))
    }

    /// Returns the end of the pause of an entry without proof, after [`PROOF_FAILURES`] failures or more.
    ///
    /// The pause is one minute, then two. It ends when another call of the operation succeeds: the platform
    /// works again, or the entry is guilty.
    pub(crate) fn paused_until(&self, operation: Operation, entry: &str) -> Option<Moment> {
        let failed = self.get(operation, entry).filter(|failed| failed.count >= PROOF_FAILURES)?;
        let worked = self.last_success.get(&operation).copied().unwrap_or_default();
        let delay = RetryDelays::quarantine_retry()
            .nth(PAUSE_DOUBLINGS.min(failed.count - PROOF_FAILURES))
            .unwrap_or(Duration::ZERO);
        (worked < failed.last).then(|| failed.last_at.plus(delay))
    }

    fn get(&self, operation: Operation, entry: &str) -> Option<&FailureStreak> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.get(&(operation, entry.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const READ: Operation = Operation::GetProductBalances;
    const PUSH: Operation = Operation::UpdateQuantityOnHand;

    /// Tries all entries until each succeeded or failed in isolation.
    ///
    /// Returns the number of calls and the culprits.
    fn run_search(entries: usize, bad: &[usize]) -> (usize, BTreeSet<usize>) {
        let (mut suspects, mut calls, mut isolated) = (SuspectQueue::default(), 0, BTreeSet::new());
        suspects.add((0..entries).collect());
        while let Some(part) = suspects.take() {
            calls += 1;
            if part.iter().any(|entry| bad.contains(entry)) {
                isolated.extend(suspects.failed(part, String::new(), Moment(0)));
            }
        }
        (calls, isolated)
    }

    #[test]
    fn a_culprit_is_found_in_two_calls_for_each_halving_wherever_it_stands() {
        for entries in [1_usize, 2, 3, 25, 200, 400, 1000] {
            let bound = 1 + 2 * usize::try_from(entries.next_power_of_two().ilog2()).unwrap();
            for bad in 0..entries {
                let (calls, isolated) = run_search(entries, &[bad]);
                assert_eq!(isolated, BTreeSet::from([bad]));
                assert!(calls <= bound, "{entries} entries, {bad}: {calls} calls, not {bound}");
            }
        }
    }

    #[test]
    fn several_culprits_are_found_and_the_others_go() {
        let (calls, isolated) = run_search(400, &[0, 1, 200, 399]);
        assert_eq!(isolated, BTreeSet::from([0, 1, 200, 399]));
        assert!(calls <= 4 * 19, "{calls}");
        assert_eq!(run_search(8, &[0, 1, 2, 3, 4, 5, 6, 7]).1.len(), 8);
    }

    #[test]
    fn the_largest_part_goes_first_because_it_shows_soonest_whether_the_platform_is_well() {
        let (mut suspects, at) = (SuspectQueue::default(), Moment(0));
        suspects.add(vec![1]);
        assert_eq!(suspects.failed(vec![2, 3, 4, 5, 6], String::new(), at), None);
        assert_eq!(suspects.take(), Some(vec![4, 5, 6]));
        assert_eq!(suspects.failed(vec![7], String::new(), at), Some(7));
        assert_eq!(suspects.parts.iter().flatten().copied().collect::<Vec<_>>(), [1, 2, 3]);
        suspects.add(Vec::new());
        let rest: Vec<_> = std::iter::from_fn(|| suspects.take()).collect();
        assert_eq!(rest, [vec![2, 3], vec![1]]);
    }

    #[test]
    fn failures_in_a_row_are_tried_again_with_growing_pauses_and_mean_the_platform_at_last() {
        let mut suspects = SuspectQueue::<i64>::default();
        let pauses: Vec<_> = (0..5)
            .map(|n| {
                suspects.note_failure(format!("failure {n}"), Moment(1_000));
                suspects.not_before().map(|at| at.0 - 1_000)
            })
            .collect();
        assert_eq!(pauses, [None, None, Some(200), Some(400), Some(800)]);
        (5..FAILURES_MAX).for_each(|_| {
            assert_eq!(suspects.exhaustion(), None);
            suspects.note_failure("a later one".into(), Moment(1_000));
        });
        assert_eq!(suspects.exhaustion(), Some("failure 0"));
        suspects.succeeded();
        assert_eq!((suspects.exhaustion(), suspects.not_before()), (None, None));
    }

    #[test]
    fn few_entries_go_isolated_and_many_share_calls_of_half_the_size_at_most() {
        assert_eq!([1, 24, 25, 26, 50, 51, 300, 5_000].map(resend_size), [1, 1, 1, 2, 2, 3, 12, 12]);
    }

    #[test]
    fn an_entry_is_guilty_only_if_others_succeed_around_its_failures() {
        let mut failures = EntryFailures::default();
        let at = Moment(0);
        failures.record_success(READ, ["B"]);
        (0..10).for_each(|_| failures.record_failure(READ, ["A", "B"], at));
        assert!(!failures.is_proved_guilty(READ, "A"), "nothing succeeded since: it is the platform");
        failures.record_success(READ, ["B"]);
        assert!(failures.is_proved_guilty(READ, "A"));
        assert!(!failures.is_suspect(READ, "B"), "who succeeds is innocent");
        assert!(!failures.is_suspect(PUSH, "A"), "of that operation only");
        failures.record_success(READ, ["A"]);
        (1..PROOF_FAILURES).for_each(|_| failures.record_failure(READ, ["A"], at));
        failures.record_success(READ, ["B"]);
        assert!(!failures.is_proved_guilty(READ, "A"), "two failures may be chance");
    }

    #[test]
    fn a_failure_amid_those_of_others_tells_nothing_until_a_call_succeeds() {
        let mut failures = EntryFailures::default();
        let is_known = |entry: &str| entry == "A";
        failures.record_failure(READ, ["A"], Moment(0));
        assert!(!failures.is_amid_others(READ, is_known), "no other entry fails");
        failures.record_failure(READ, ["B"], Moment(0));
        assert!(failures.is_amid_others(READ, is_known));
        assert!(!failures.is_amid_others(PUSH, is_known), "of that operation only");
        failures.record_success(READ, ["C"]);
        failures.record_failure(READ, ["A"], Moment(0));
        assert!(!failures.is_amid_others(READ, is_known), "the platform works again");
    }

    #[test]
    fn the_only_one_to_fail_after_an_answer_is_guilty_after_as_many_failures() {
        let mut failures = EntryFailures::default();
        failures.record_success(READ, ["B"]);
        for failed in 1..=PROOF_FAILURES {
            failures.record_failure(READ, ["A"], Moment(0));
            failures.note_isolated_failure(READ, "A");
            assert_eq!(failures.is_proved_guilty(READ, "A"), failed == PROOF_FAILURES, "{failed}");
        }
        failures.note_isolated_failure(READ, "B");
        assert!(!failures.is_suspect(READ, "B"), "who did not fail is not accused");
    }

    #[test]
    fn an_entry_without_proof_rests_until_another_succeeds() {
        let mut failures = EntryFailures::default();
        for _ in 1..PROOF_FAILURES {
            failures.record_failure(READ, ["A"], Moment(0));
        }
        assert_eq!(failures.paused_until(READ, "A"), None);
        failures.record_failure(READ, ["A"], Moment(1_000));
        assert_eq!(failures.paused_until(READ, "A"), Some(Moment(61_000)));
        (0..9).for_each(|_| failures.record_failure(READ, ["A"], Moment(2_000)));
        assert_eq!(failures.paused_until(READ, "A"), Some(Moment(122_000)), "never longer than two minutes");
        failures.record_success(READ, ["B"]);
        assert_eq!(failures.paused_until(READ, "A"), None);
    }
}
