//! Effect of each call outcome on the quota (docs/rules.md 30, 31, 33).

use super::admission::{Desk, Grant};
use super::bad_requests::Line;
use super::dual_instant::Now;
use super::hold::{Reason, Scope};
use super::outcome::{Notice, Outcome};
use std::time::Duration;

impl Desk {
    /// Records the outcome of a call and returns the changes.
    ///
    /// The slot becomes free or lingers, and the reservation ends one window from now. All holds that follow
    /// from the outcome are in force before another call is granted.
    pub(super) fn conclude(&mut self, grant: Grant, outcome: Outcome, now: Now) -> Vec<Notice> {
        self.sweep(now.moment);
        let held = self.account.held();
        self.account.answered(now.moment);
        self.free_slot(grant, outcome, now);
        let mut notices = self.follow(grant, outcome, held, now);
        if self.share.recovered(now.moment) {
            notices.push(Notice::ShareRecovered);
        }
        self.serve(None, now.moment);
        notices
    }

    fn free_slot(&mut self, grant: Grant, outcome: Outcome, now: Now) {
        if outcome == Outcome::TimedOut {
            self.slots.release_late(grant.operation, now.moment);
        } else {
            self.slots.release(grant.operation);
        }
        let admitted = matches!(outcome, Outcome::Answered | Outcome::BadRequest | Outcome::RefusedKey);
        if admitted {
            self.ledger.prove(grant.since);
            self.share.answered(grant.since);
            self.block.admitted();
            self.refused_since = self.refused_since.filter(|since| grant.since <= *since);
        }
        if outcome != Outcome::ConcurrencyThrottled {
            self.holds.completed(grant.operation, admitted);
        }
    }

    /// Applies the outcome. `held`: the reservations in use at the answer, the call's own included.
    fn follow(&mut self, grant: Grant, outcome: Outcome, held: u32, now: Now) -> Vec<Notice> {
        match outcome {
            Outcome::Answered | Outcome::NotSent | Outcome::TimedOut => Vec::new(),
            Outcome::BadRequest => self.bad_request(grant, now),
            Outcome::RateThrottled(wait) => self.rate_throttled(grant, wait, held, now),
            Outcome::ConcurrencyThrottled => self.concurrency_throttled(grant, now),
            Outcome::BadRequestThrottled(wait) => self.bad_request_throttled(wait, now),
            Outcome::RefusedKey if grant.operation.carries_id() => Vec::new(),
            Outcome::RefusedKey => {
                let why = format!("{} was answered 403", grant.operation);
                let new = self.holds.refuse(why, now.moment);
                self.started(new, Scope::Key, Reason::RefusedKey, now)
            }
        }
    }

    fn bad_request(&mut self, grant: Grant, now: Now) -> Vec<Notice> {
        let line = self.ledger.record(grant.operation, self.settings.bad_requests_per_day, now.moment);
        let count = self.ledger.count();
        let notice = line.map(|line| match line {
            Line::Soft => Notice::SoftLine { count },
            Line::Hard => Notice::HardLine { count },
        });
        notice.into_iter().collect()
    }

    fn rate_throttled(&mut self, grant: Grant, wait: Duration, held: u32, now: Now) -> Vec<Notice> {
        let new = self.holds.order(Reason::Rate, wait, now.moment);
        let mut notices = self.started(new, Scope::Account, Reason::Rate, now);
        self.refused_since = Some(now.moment);
        if self.share.throttled(held, self.settings.limit(), grant.since, now.moment) {
            let permille = self.share.permille(now.moment);
            notices.push(Notice::ShareShrunk { permille, limit: self.limit(now.moment), held });
        }
        notices
    }

    fn concurrency_throttled(&mut self, grant: Grant, now: Now) -> Vec<Notice> {
        let others = self.slots.in_flight(grant.operation);
        let new = self.holds.taken(grant.operation, others, grant.since, now.moment);
        let mut notices = self.started(new, Scope::Operation(grant.operation), Reason::Concurrency, now);
        if self.refused_since.is_none_or(|since| grant.since > since)
            && let Some(silence) = self.block.refused(grant.operation)
        {
            let new = self.holds.order(Reason::Blocked, silence, now.moment);
            self.refused_since = Some(now.moment);
            notices.extend(self.started(new, Scope::Account, Reason::Blocked, now));
        }
        notices
    }

    fn bad_request_throttled(&mut self, wait: Duration, now: Now) -> Vec<Notice> {
        let new = self.holds.order(Reason::BadRequests, wait, now.moment);
        let mut notices = self.started(new, Scope::Account, Reason::BadRequests, now);
        self.ledger.fill(now.moment);
        let until = self.ledger.full_until().unwrap_or(now.moment);
        notices.push(Notice::LedgerFull { until: now.timestamp(until) });
        notices
    }

    /// Returns the notice of a hold that was just set, if `new`.
    pub(super) fn started(&self, new: bool, scope: Scope, reason: Reason, now: Now) -> Vec<Notice> {
        let holds = self.holds.list(now).into_iter();
        let set = holds.filter(|hold| new && hold.scope == scope && hold.reason == reason);
        set.map(Notice::HoldStarted).collect()
    }
}
