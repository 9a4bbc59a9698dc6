//! State that the limiter needs at its start, so that a restart does not evade the quota.

use super::adaptive_limit::Share;
use super::admission::Desk;
use super::bad_requests::{Full, Ledger};
use super::dual_instant::Now;
use super::hold::Hold;
use super::holds::Holds;
use super::settings::Settings;
use super::window::Account;
use crate::model::{Moment, Operation, Timestamp};
use serde::{Deserialize, Serialize};

/// State of earlier runs.
///
/// `places` and `bad_requests` come from the journal, because only the commit before a send survives a crash.
/// `kept` is [`Limiter::memory`](super::Limiter::memory)`().kept`, stored whenever a
/// [`Notice`](super::Notice) reports a change of it. An empty memory is right for a new database only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Calls of the last minutes.
    ///
    /// *After a restart on the same boot*: every call answered within the last two minutes as
    /// [`Place::Answered`] with the moment of its answer; older answers are ignored. Every call given up
    /// without an answer as [`Place::GivenUp`]. Every claimed call without a conclusion as
    /// [`Place::Unanswered`], regardless of its age.
    ///
    /// *On another boot* the journal's moments are meaningless, and the calendar may have been set. Then the
    /// list is the newest `calls_per_minute` calls of the journal, each as [`Place::Answered`] with the
    /// moment of the start.
    pub places: Vec<Place>,
    /// Answers of 400 in the last 24 h with their operations; older ones are ignored.
    ///
    /// Answers of another boot get the moment computed from their timestamps. Timestamps alone are not
    /// enough: a calendar set ahead by an hour between two starts dropped an hour of answers. In a million
    /// simulated calls 525 then came within a day.
    pub bad_requests: Vec<(Moment, Operation)>,
    /// State that the journal does not contain.
    pub kept: Kept,
}

/// A reservation made by an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Ends 60 s after this moment; a moment in the future counts as the start.
    Answered(Moment),
    /// Ends likewise. Its slot is free the grace time after this moment, because the platform may still work
    /// on the call.
    GivenUp(Operation, Moment),
    /// May still be in flight: ends 60 s after the start, and its slot is free after the grace time.
    Unanswered(Operation),
}

/// Stored state in calendar time, so that it survives a reboot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The holds in force.
    ///
    /// A hold of an operation being judged is returned too. The program must continue the judging after the
    /// start, or release the operation.
    pub holds: Vec<Hold>,
    /// Adaptive limit after its last reduction, in thousandths, and the time of that reduction.
    pub shrunk: Option<(u32, Timestamp)>,
    /// Time of the last unexpected 429.
    pub guarded_since: Option<Timestamp>,
    /// Time of the throttle for bad requests, and true if a call was answered since.
    ///
    /// If the flag is out of date, one more call goes alone.
    pub ledger_full: Option<(Timestamp, bool)>,
}

impl Desk {
    /// Restores the state of a starting program from earlier runs.
    pub(super) fn restored(settings: Settings, memory: Memory, now: Now) -> Self {
        let mut desk = Self::new(settings);
        let Memory { places, bad_requests, kept } = memory;
        let answered = places.iter().map(|place| match place {
            Place::Answered(at) | Place::GivenUp(_, at) => *at,
            Place::Unanswered(_) => now.moment,
        });
        desk.account = Account::restored(answered, now.moment);
        for place in &places {
            match place {
                Place::Answered(_) => {}
                Place::GivenUp(operation, at) => desk.slots.linger(*operation, (*at).min(now.moment)),
                Place::Unanswered(operation) => desk.slots.linger(*operation, now.moment),
            }
        }
        let full = kept.ledger_full.map(|(since, proved)| Full { since: now.past(since), proved });
        desk.ledger = Ledger::restored(bad_requests, full);
        desk.holds = Holds::restored(&kept.holds, now);
        desk.share = Share {
            shrunk: kept.shrunk.map(|(permille, since)| (permille, now.past(since))),
            guarded_since: kept.guarded_since.map(|since| now.past(since)),
            proved: true,
        };
        desk.sweep(now.moment);
        desk
    }

    /// Returns the state for the next start.
    pub(super) fn memory(&mut self, now: Now) -> Memory {
        self.sweep(now.moment);
        let answered = self.account.answers().map(Place::Answered);
        let unanswered = self.slots.calls().map(Place::Unanswered);
        let kept = Kept {
            holds: self.holds.list(now),
            shrunk: self.share.shrunk.map(|(permille, since)| (permille, now.timestamp(since))),
            guarded_since: self.share.guarded_since.map(|since| now.timestamp(since)),
            ledger_full: self.ledger.full().map(|full| (now.timestamp(full.since), full.proved)),
        };
        Memory {
            places: answered.chain(unanswered).collect(),
            bad_requests: self.ledger.answers().collect(),
            kept,
        }
    }
}
