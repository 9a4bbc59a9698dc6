//! Kinds of fault. Each can be enabled alone: `TALLYD_WEATHER=lack,twice`, or disabled:
//! `TALLYD_WEATHER=-people`. `TALLYD_WEATHER=none` is a week without any fault.

use super::super::rewrite::Oddity;
use super::super::world::Ending;
use super::agenda::Act;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Calls that are lost, cut, late or broken.
    Storm,
    /// A key that is wrong for a while.
    Key,
    /// Replicas with a delay of some seconds, or of up to a minute.
    Lag,
    Late,
    /// Kills, other configurations, suspends, clock steps.
    Host,
    /// Other programs on the account.
    Burst,
    /// Answers with missing, unreadable or doubled records, without records, or with decimal points.
    Lack,
    Unreadable,
    Empty,
    Twice,
    Floats,
    /// A SKU, an entry or an order that always fails.
    Poison,
    /// A platform that fails every call for some minutes.
    Sick,
    /// An account that lapses while the probe fails.
    Lapse,
    /// Changes in other spellings.
    Spelling,
    /// Orders that close, reopen or are cancelled.
    Orders,
    /// Kits that become products and back, and substitutes in allocations.
    Kits,
    /// Products that are gone.
    Gone,
    /// Decisions of persons at arbitrary moments.
    People,
    /// Other programs that lock the database.
    Lock,
    /// Forms of the page that are sent twice, or long after the page was loaded.
    Forms,
    /// Files that are brought again under another name, or in part and then corrected.
    Files,
    /// Copies of the database that are put back.
    Restore,
    /// Answers without a field, answers about another subject, lists whose total moves between pages.
    Fields,
    /// Triggers of other programs that refuse commits of answers.
    Trigger,
    /// Strikes at the daemon that leads, of two hosts, and calendars that differ.
    Pause,
    Death,
    Cut,
    Stop,
    Apart,
}

impl Kind {
    const ALL: [(&'static str, Kind); 30] = [
        ("storm", Kind::Storm),
        ("key", Kind::Key),
        ("lag", Kind::Lag),
        ("late", Kind::Late),
        ("host", Kind::Host),
        ("burst", Kind::Burst),
        ("lack", Kind::Lack),
        ("unreadable", Kind::Unreadable),
        ("empty", Kind::Empty),
        ("twice", Kind::Twice),
        ("floats", Kind::Floats),
        ("poison", Kind::Poison),
        ("sick", Kind::Sick),
        ("lapse", Kind::Lapse),
        ("spelling", Kind::Spelling),
        ("orders", Kind::Orders),
        ("kits", Kind::Kits),
        ("gone", Kind::Gone),
        ("people", Kind::People),
        ("lock", Kind::Lock),
        ("forms", Kind::Forms),
        ("files", Kind::Files),
        ("restore", Kind::Restore),
        ("fields", Kind::Fields),
        ("trigger", Kind::Trigger),
        ("pause", Kind::Pause),
        ("death", Kind::Death),
        ("cut", Kind::Cut),
        ("stop", Kind::Stop),
        ("apart", Kind::Apart),
    ];

    /// Returns the kind that an act belongs to; trade and the calm belong to none.
    pub fn of(act: Act) -> Option<Kind> {
        Some(match act {
            Act::Weather(..) => Kind::Storm,
            Act::WrongKey(_) => Kind::Key,
            Act::Lag(lag_ms) => {
                if lag_ms > super::trial::LATE_MS {
                    Kind::Late
                } else {
                    Kind::Lag
                }
            }
            Act::Kill | Act::Reconfigure | Act::Suspend | Act::Resume | Act::Calendar(_) => Kind::Host,
            Act::Burst(_) => Kind::Burst,
            Act::Odd(Oddity::Lack, _) => Kind::Lack,
            Act::Odd(Oddity::Unreadable, _) => Kind::Unreadable,
            Act::Odd(Oddity::Empty, _) => Kind::Empty,
            Act::Odd(Oddity::Twice, _) => Kind::Twice,
            Act::Odd(Oddity::Float, _) => Kind::Floats,
            Act::Odd(..) => Kind::Fields,
            Act::Poison | Act::Cure => Kind::Poison,
            Act::Sick(_) => Kind::Sick,
            Act::Lapse(_) => Kind::Lapse,
            Act::CloseOrder | Act::ReopenOrder | Act::CancelOrder => Kind::Orders,
            Act::Kit | Act::KitTurns => Kind::Kits,
            Act::Gone => Kind::Gone,
            Act::Pair | Act::Word => Kind::People,
            Act::Lock(_) => Kind::Lock,
            Act::Form(_) | Act::FormAgain | Act::FormOpened | Act::FormLate | Act::Office(_) => Kind::Forms,
            Act::File(_) | Act::FileAgain => Kind::Files,
            Act::Copied(_) | Act::Restored(_) | Act::Released => Kind::Restore,
            Act::Refusal(_) => Kind::Trigger,
            Act::Strike(_, Ending::Pause(..)) => Kind::Pause,
            Act::Strike(_, Ending::Death(_)) => Kind::Death,
            Act::Strike(_, Ending::Cut(_)) => Kind::Cut,
            Act::Strike(_, Ending::Stop(_)) => Kind::Stop,
            Act::Apart(..) => Kind::Apart,
            _ => return None,
        })
    }
}

/// The enabled kinds.
#[derive(Clone, Debug)]
pub struct Kinds(Vec<Kind>);

impl Kinds {
    /// Returns the kinds that the environment names, by default all of them.
    ///
    /// # Panics
    /// If the environment names an unknown kind.
    pub fn chosen() -> Self {
        let said = std::env::var("TALLYD_WEATHER").unwrap_or_default();
        let (off, on): (Vec<&str>, Vec<&str>) =
            said.split(',').filter(|name| !name.is_empty()).partition(|name| name.starts_with('-'));
        let known = |name: &str| name == "none" || Kind::ALL.iter().any(|(of, _)| *of == name);
        let strange = off.iter().map(|name| &name[1..]).chain(on.iter().copied()).find(|name| !known(name));
        assert_eq!(strange, None, "TALLYD_WEATHER knows {:?}", Kind::ALL.map(|(name, _)| name));
        let is_on =
            |name: &str| (on.is_empty() || on.contains(&name)) && !off.iter().any(|off| &off[1..] == name);
        Self(Kind::ALL.iter().filter(|(name, _)| is_on(name)).map(|(_, kind)| *kind).collect())
    }

    /// Returns the chosen kinds that a world of two hosts has.
    pub fn of_two_hosts() -> Self {
        Self::chosen().without(&[Kind::Forms, Kind::Files, Kind::Restore, Kind::Trigger])
    }

    /// Returns the kinds of a world without any fault.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns these kinds without some.
    pub fn without(self, kinds: &[Kind]) -> Self {
        Self(self.0.into_iter().filter(|kind| !kinds.contains(kind)).collect())
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.0.contains(&kind)
    }

    /// Returns true if the act may happen with the enabled kinds.
    pub fn allow(&self, act: Act) -> bool {
        act == Act::Lag(0) || Kind::of(act).is_none_or(|kind| self.has(kind))
    }
}
