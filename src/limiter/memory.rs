//! What the limiter must be told at its start so that a restart is no way round the quota.

use super::account::Account;
use super::desk::Desk;
use super::hold::Hold;
use super::holds::Holds;
use super::ledger::{Full, Ledger};
use super::now::Now;
use super::settings::Settings;
use super::share::Share;
use crate::model::{Moment, Operation, Timestamp};
use serde::{Deserialize, Serialize};

/// Everything the limiter has to know of earlier runs.
///
/// `places` and `bad_requests` come from the journal, because only what is committed before a call leaves survives a
/// crash. `kept` is [`Limiter::memory`](super::Limiter::memory)`().kept`, written down whenever a
/// [`Notice`](super::Notice) says that it has changed. An empty memory is right for a new database only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The calls of the last minutes.
    ///
    /// *After a restart on the same boot*: every call claimed and answered within the last two minutes as
    /// [`Place::Answered`] with the moment of its answer (more does no harm: what is past is ignored), every one given up
    /// without an answer as [`Place::GivenUp`], and every call claimed and not concluded as [`Place::Unanswered`], however
    /// old its claim.
    ///
    /// *On another boot* the moments of the journal mean nothing and its timestamps may have been set: the newest
    /// `calls_per_minute` calls of the journal, all of them as [`Place::Answered`] with the moment of the start.
    pub places: Vec<Place>,
    /// Every answer of 400 of the last 24 h and its operation; more does no harm. Those of another boot at the moment
    /// that their timestamps tell. *Timestamps alone let a calendar that is set ahead an hour between two starts forget an
    /// hour of them: in a million simulated calls 525 came within a day.*
    pub bad_requests: Vec<(Moment, Operation)>,
    /// What the journal does not tell.
    pub kept: Kept,
}

/// A place of the window that an earlier run took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Free 60 s after this moment; a moment that is yet to come counts as the start.
    Answered(Moment),
    /// The same, and its slot is free the grace time after it: the service may have been at work on it for so long.
    GivenUp(Operation, Moment),
    /// May still be under way: free 60 s after the start, and its slot after the grace time.
    Unanswered(Operation),
}

/// Plain data, written in calendar time so that it survives a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The holds in force. One of an operation to be judged is handed back too: whoever starts the limiter has to see
    /// to it that the judging goes on, or release it.
    pub holds: Vec<Hold>,
    /// The last time our part shrank, and what it left in thousandths.
    pub shrunk: Option<(u32, Timestamp)>,
    /// The last unexpected 429.
    pub guarded_since: Option<Timestamp>,
    /// Since when the ledger of bad requests is full, and whether a call has been answered since; if that is out of
    /// date, one more call goes alone.
    pub ledger_full: Option<(Timestamp, bool)>,
}

impl Desk {
    /// The desk of a program that starts, knowing what it must of earlier runs.
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

    /// What a successor must be told.
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
