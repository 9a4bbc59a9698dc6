//! Resolutions: an operator's decision about a change, and the resulting transition (docs/rules.md 16, 23).
//!
//! The function is pure. Every combination of state, reason, kind and resolution is decided here. An invalid
//! resolution is rejected with the valid command. A change in a final state cannot be resolved.

use super::{Kind, Reason, State};
use crate::model::{Quantity, ShipmentId};

/// An operator's decision, as `outbox resolve` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The change took effect.
    Landed,
    /// The change had no effect and will have none.
    NotLanded,
    /// The change created this shipment.
    Shipment(ShipmentId),
    /// The quantity of the change is correct.
    Mine,
    /// The quantity of the platform is correct.
    Theirs,
    /// This quantity is correct.
    Exactly(Quantity),
}

/// The transition that a resolution causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// In doubt to applied.
    Applied,
    /// Held to cancelled: the change took effect before, and no transition leads from held to applied.
    Over,
    /// To pending: the change had no effect.
    Again,
    /// `settle` compares the shipment and adopts it if it matches.
    Adopt(ShipmentId),
    /// To pending with the decided quantity; `None` keeps the quantity of the count.
    Count(Option<Quantity>),
    /// To rejected: the platform's quantity stays.
    Dropped,
}

/// The parts of a change that a resolution depends on.
#[derive(Clone, Copy, Debug)]
pub struct Stand<'a> {
    /// Key, for the commands in messages.
    pub key: &'a str,
    /// Kind of the change.
    pub kind: Kind,
    /// Current state.
    pub state: State,
    /// Reason of the state.
    pub reason: Option<Reason>,
}

/// The action that a held change requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// `outbox release`, for a brake or a database that went back in time.
    Release,
    /// A decision about the effect of the change.
    Outcome,
    /// A decision about the correct quantity.
    Number,
    /// Repair of the cause, then `outbox retry`.
    Mending,
}

impl Reason {
    fn need(self) -> Need {
        match self {
            Reason::Brake | Reason::Jump | Reason::Restored => Need::Release,
            Reason::Undecided => Need::Outcome,
            Reason::Conflict | Reason::StaleBase | Reason::Mismatch => Need::Number,
            _ => Need::Mending,
        }
    }
}

impl Stand<'_> {
    /// Returns the transition for a resolution.
    ///
    /// # Errors
    /// A message with the reason of the refusal and the valid command.
    pub fn resolve(&self, word: Resolution) -> Result<Step, String> {
        match self.state {
            State::InDoubt => self.of_doubt(word),
            State::Held => match self.held_for()?.need() {
                Need::Release => Err(self.release_first()),
                Need::Outcome => self.of_outcome(word),
                Need::Number => self.of_number(word),
                Need::Mending => Err(self.held_as("no word decides that")),
            },
            State::Pending => Err(format!("it is pending and in its turn; {}", self.say("cancel"))),
            State::Sending => Err("it is in a call right now; look again when that was answered".into()),
            State::Applied | State::Rejected | State::Cancelled => Err(self.settled()),
        }
    }

    /// Checks that `outbox retry` may plan the change again.
    ///
    /// # Errors
    /// A message with the reason of the refusal and the valid command.
    pub fn retry(&self) -> Result<(), String> {
        match self.state {
            State::Held => match (self.held_for()?, self.held_for()?.need()) {
                // A mismatch may be corrected at the platform meanwhile, which a new read shows.
                (Reason::Mismatch, _) | (_, Need::Mending) => Ok(()),
                (_, Need::Release) => Err(self.release_first()),
                (_, Need::Outcome | Need::Number) => Err(self.held_as("that takes a decision")),
            },
            State::InDoubt => Err(format!(
                "it was sent and its outcome is unknown, so it is never sent again blindly; {}",
                self.outcome()
            )),
            State::Pending | State::Sending => Err(format!("it is {} already", self.state)),
            State::Applied | State::Rejected | State::Cancelled => Err(self.settled()),
        }
    }

    fn of_doubt(&self, word: Resolution) -> Result<Step, String> {
        match (word, self.kind) {
            (Resolution::Landed, Kind::ShipmentCreate) => Err(format!(
                "without the shipment's id its tracking could never go; find it at the service, then {}",
                self.say("resolve --shipment ID")
            )),
            (Resolution::Landed, _) => Ok(Step::Applied),
            (Resolution::NotLanded, _) => Ok(Step::Again),
            (Resolution::Shipment(id), Kind::ShipmentCreate) => Ok(Step::Adopt(id)),
            (Resolution::Shipment(_), _) => {
                Err(format!("a {} makes no shipment; {}", self.kind, self.outcome()))
            }
            (Resolution::Mine | Resolution::Theirs | Resolution::Exactly(_), _) => {
                Err(format!("it is in doubt, no numbers stand against each other; {}", self.outcome()))
            }
        }
    }

    fn of_outcome(&self, word: Resolution) -> Result<Step, String> {
        match word {
            Resolution::Landed => Ok(Step::Over),
            Resolution::NotLanded => Ok(Step::Again),
            Resolution::Shipment(_) => {
                Err(self.held_as("a shipment is adopted by a wish in doubt, no more by one that is held"))
            }
            Resolution::Mine | Resolution::Theirs | Resolution::Exactly(_) => {
                Err(self.held_as("the question is whether it was done, not which number holds"))
            }
        }
    }

    fn of_number(&self, word: Resolution) -> Result<Step, String> {
        match (word, self.kind) {
            (Resolution::Theirs, _) => Ok(Step::Dropped),
            (Resolution::Mine, Kind::QuantitySet) => Ok(Step::Count(None)),
            (Resolution::Exactly(quantity), Kind::QuantitySet) => Ok(Step::Count(Some(quantity))),
            (Resolution::Mine | Resolution::Exactly(_), _) => Err(format!(
                "only a count has a number of its own, and this is a {}; {}, or resolve it with `--use theirs`",
                self.kind,
                self.say("retry")
            )),
            (Resolution::Landed | Resolution::NotLanded | Resolution::Shipment(_), _) => {
                Err(self.held_as("the question is which number holds, not whether it was done"))
            }
        }
    }

    fn held_for(&self) -> Result<Reason, String> {
        self.reason.ok_or_else(|| {
            format!("it is held for a reason this version does not know; {}", self.say("cancel"))
        })
    }

    fn release_first(&self) -> String {
        self.held_as("a brake is lifted by a release alone")
    }

    /// Returns the hold reason, `why`, and the operator's options.
    fn held_as(&self, why: &str) -> String {
        match self.reason {
            Some(reason) => format!("it is held as {reason}: {why}; {}", reason.advice(self.key)),
            None => why.into(),
        }
    }

    fn settled(&self) -> String {
        format!("it is {}, which is final; insert it under a new key to want it again", self.state)
    }

    /// Returns the commands that state the outcome of a change in doubt.
    fn outcome(&self) -> String {
        let landed = if self.kind == Kind::ShipmentCreate { "--shipment ID" } else { "--landed" };
        format!("{} if it was done, `--not-landed` if not", self.say(&format!("resolve {landed}")))
    }

    /// Returns an `outbox` command for this change, with the key between verb and flags.
    fn say(&self, command: &str) -> String {
        let (verb, flags) = command
            .split_once(' ')
            .map_or((command, String::new()), |(verb, flags)| (verb, format!(" {flags}")));
        format!("`tallyd outbox {verb} {}{flags}`", shown(self.key))
    }
}

impl Reason {
    /// Returns [`Reason::what_to_do`] with the key in its commands.
    pub fn advice(self, key: &str) -> String {
        self.what_to_do().replace("KEY", &shown(key))
    }
}

/// Returns the key, quoted for a shell if necessary.
pub fn shown(key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:/@+".contains(c);
    if key.chars().all(is_plain) { key.into() } else { format!("'{}'", key.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Resolution::{Exactly, Landed, Mine, NotLanded, Shipment, Theirs};

    const ID: ShipmentId = ShipmentId(5);
    const N: Quantity = Quantity(7);
    const WORDS: [Resolution; 6] = [Landed, NotLanded, Shipment(ID), Mine, Theirs, Exactly(N)];

    fn stand(kind: Kind, state: State, reason: Option<Reason>) -> Stand<'static> {
        Stand { key: "a key", kind, state, reason }
    }

    /// Rows: a state and reason. Columns: resolutions in the order of `WORDS`.
    #[test]
    fn each_word_leads_where_it_makes_sense_and_nowhere_else() {
        let (set, adjust, ship) = (Kind::QuantitySet, Kind::QuantityAdjust, Kind::ShipmentCreate);
        let (over, again, done) = (Some(Step::Over), Some(Step::Again), Some(Step::Applied));
        let (mine, seven, dropped) =
            (Some(Step::Count(None)), Some(Step::Count(Some(N))), Some(Step::Dropped));
        let adopt = Some(Step::Adopt(ID));
        let doubt = |kind| stand(kind, State::InDoubt, Some(Reason::NoAnswer));
        let held = |kind, reason| stand(kind, State::Held, Some(reason));
        let cases = [
            (doubt(set), [done, again, None, None, None, None]),
            (doubt(Kind::ProductCreate), [done, again, None, None, None, None]),
            (doubt(Kind::TrackingSubmit), [done, again, None, None, None, None]),
            (doubt(ship), [None, again, adopt, None, None, None]),
            (held(adjust, Reason::Undecided), [over, again, None, None, None, None]),
            (held(ship, Reason::Undecided), [over, again, None, None, None, None]),
            (held(set, Reason::Conflict), [None, None, None, mine, dropped, seven]),
            (held(set, Reason::StaleBase), [None, None, None, mine, dropped, seven]),
            (held(adjust, Reason::Mismatch), [None, None, None, None, dropped, None]),
            (held(set, Reason::Brake), [None; 6]),
            (held(set, Reason::Negative), [None; 6]),
        ];
        for (stand, expected) in cases {
            for (word, expected) in WORDS.into_iter().zip(expected) {
                assert_eq!(stand.resolve(word).ok(), expected, "{stand:?} {word:?}");
            }
        }
        for state in [State::Pending, State::Sending, State::Applied, State::Rejected, State::Cancelled] {
            assert!(WORDS.iter().all(|word| stand(set, state, None).resolve(*word).is_err()), "{state}");
        }
    }

    #[test]
    fn a_refusal_names_the_command_that_makes_sense() {
        let held = |reason| stand(Kind::QuantitySet, State::Held, Some(reason));
        let doubt = |kind| stand(kind, State::InDoubt, Some(Reason::NoAnswer));
        let cases = [
            (doubt(Kind::ShipmentCreate).resolve(Landed).unwrap_err(), "resolve 'a key' --shipment ID"),
            (doubt(Kind::QuantitySet).resolve(Mine).unwrap_err(), "resolve 'a key' --landed` if"),
            (held(Reason::Brake).resolve(Mine).unwrap_err(), "tallyd outbox release 'a key'"),
            (held(Reason::Restored).retry().unwrap_err(), "tallyd outbox release 'a key'"),
            (held(Reason::Conflict).resolve(Landed).unwrap_err(), "--use mine|theirs|N"),
            (held(Reason::Conflict).retry().unwrap_err(), "--use mine|theirs|N"),
            (held(Reason::Undecided).retry().unwrap_err(), "resolve 'a key' --not-landed"),
            (doubt(Kind::ShipmentCreate).retry().unwrap_err(), "resolve 'a key' --shipment ID"),
            (held(Reason::Negative).resolve(Mine).unwrap_err(), "outbox cancel 'a key'"),
        ];
        for (said, expected) in cases {
            assert!(said.contains(expected), "{said}");
        }
        let rejected = stand(Kind::QuantitySet, State::Rejected, Some(Reason::Kit));
        assert!(rejected.retry().unwrap_err().contains("final"));
    }

    #[test]
    fn each_held_wish_can_be_let_go_by_a_command() {
        for (reason, kind) in
            Reason::ALL.iter().flat_map(|reason| Kind::ALL.iter().map(move |kind| (*reason, *kind)))
        {
            let held = stand(kind, State::Held, Some(reason));
            let lifts = [reason.need() == Need::Release, held.retry().is_ok()];
            let words = WORDS.iter().any(|word| held.resolve(*word).is_ok());
            assert!(lifts.contains(&true) || words, "{reason} of {kind}");
        }
    }

    #[test]
    fn what_was_mended_may_be_tried_again() {
        for reason in
            [Reason::NoFact, Reason::Unlinked, Reason::TooLittleLeft, Reason::Exists, Reason::Mismatch]
        {
            assert_eq!(stand(Kind::QuantitySet, State::Held, Some(reason)).retry(), Ok(()), "{reason}");
        }
    }

    #[test]
    fn a_key_is_quoted_only_where_a_shell_would_take_it_apart() {
        for (key, said) in
            [("feed-7.a:b/c@d+e", "feed-7.a:b/c@d+e"), ("it's", r"'it'\''s'"), ("a;b", "'a;b'")]
        {
            let expected = format!("correct it at the service itself and `tallyd outbox retry {said}`");
            let advice = Reason::TrackingConflict.advice(key);
            assert!(advice.starts_with(&expected), "{key}: {advice}");
        }
    }
}
