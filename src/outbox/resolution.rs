//! Resolutions: an operator's decision about a change, and the resulting transition (docs/rules.md 6, 14).
//!
//! The function is pure. Every combination of state, reason, kind and resolution is decided here. An invalid
//! resolution is rejected with the valid command. A change in a final state cannot be resolved.

use super::{ChangeKind, ChangeState, Reason};
use crate::model::{Quantity, ShipmentId};
use ChangeState::{Applied, Cancelled, Held, InDoubt, Pending, Rejected, Sending};
use RequiredAction::{DecideEffect, DecideQuantity, FixCause, Release};
use Resolution::{Exactly, HadNoEffect, Mine, Shipment, Theirs, TookEffect};

/// An operator's decision, as `outbox resolve` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    TookEffect,
    /// The change had no effect and will have none.
    HadNoEffect,
    Shipment(ShipmentId),
    /// The quantity of the change is correct.
    Mine,
    /// The quantity of the platform is correct.
    Theirs,
    Exactly(Quantity),
}

/// The transition that a resolution causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolutionStep {
    Apply,
    /// Held to cancelled: the change took effect before, and no transition leads from held to applied.
    Finish,
    /// To pending: the change had no effect.
    Requeue,
    /// `settle` compares the shipment and adopts it if it matches.
    Adopt(ShipmentId),
    /// To pending with the decided quantity; `None` keeps the quantity of the count.
    ReplaceCount(Option<Quantity>),
    /// To rejected: the platform's quantity stays.
    Reject,
}

/// The parts of a change that a resolution depends on.
#[derive(Clone, Copy, Debug)]
pub struct ChangeStatus<'a> {
    /// Key, for the commands in messages.
    pub key: &'a str,
    pub kind: ChangeKind,
    pub state: ChangeState,
    pub reason: Option<Reason>,
}

/// The action that a held change requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequiredAction {
    /// `outbox release`, for a brake or a database that went back in time.
    Release,
    /// A decision about the effect of the change.
    DecideEffect,
    /// A decision about the correct quantity.
    DecideQuantity,
    /// Repair of the cause, then `outbox retry`.
    FixCause,
}

impl Reason {
    fn required_action(self) -> RequiredAction {
        match self {
            Reason::Brake | Reason::Restored => Release,
            Reason::Undecided => DecideEffect,
            Reason::Conflict | Reason::StaleBase | Reason::Mismatch => DecideQuantity,
            _ => FixCause,
        }
    }
}

impl ChangeStatus<'_> {
    /// Returns the transition for a resolution.
    ///
    /// The error is a sentence with the reason of the refusal and the valid command.
    pub fn resolution_step(&self, resolution: Resolution) -> Result<ResolutionStep, String> {
        match self.state {
            InDoubt => self.resolve_in_doubt(resolution),
            Held => match self.hold_reason()?.required_action() {
                Release => Err(self.release_first()),
                DecideEffect => self.resolve_effect(resolution),
                DecideQuantity => self.resolve_quantity(resolution),
                FixCause => Err(self.describe_hold("no resolution applies")),
            },
            Pending => Err(format!("it is pending and will be sent; {}", self.outbox_command("cancel"))),
            Sending => Err("its call is in flight; try again after the answer".into()),
            Applied | Rejected | Cancelled => Err(self.already_final()),
        }
    }

    /// Checks that `outbox release` may let the change go on.
    ///
    /// The error is a sentence with the reason of the refusal and the valid command.
    pub fn check_release(&self) -> Result<(), String> {
        match self.state {
            Held => match self.hold_reason()?.required_action() {
                Release => Ok(()),
                DecideEffect | DecideQuantity | FixCause => Err(self.describe_hold("no brake holds it")),
            },
            Pending | Sending => Err(format!("it is {}, and nothing holds it", self.state)),
            InDoubt => Err(format!(
                "it was sent and its outcome is unknown, which a release does not decide; {}",
                self.outcome_commands()
            )),
            Applied | Rejected | Cancelled => Err(self.already_final()),
        }
    }

    /// Checks that `outbox retry` may plan the change again.
    ///
    /// The error is a sentence with the reason of the refusal and the valid command.
    pub fn check_retry(&self) -> Result<(), String> {
        match self.state {
            Held => match (self.hold_reason()?, self.hold_reason()?.required_action()) {
                // A mismatch may be corrected at the platform meanwhile, which a new read shows.
                (Reason::Mismatch, _) | (_, FixCause) => Ok(()),
                (_, Release) => Err(self.release_first()),
                (_, DecideEffect | DecideQuantity) => Err(self.describe_hold("a person must decide it")),
            },
            InDoubt => Err(format!(
                "it was sent and its outcome is unknown, so it is not sent again without a check; {}",
                self.outcome_commands()
            )),
            Pending | Sending => Err(format!("it is {} already", self.state)),
            Applied | Rejected | Cancelled => Err(self.already_final()),
        }
    }

    /// Checks that `outbox cancel` may withdraw the change. A change that may have taken effect is decided
    /// instead: its stock level would lose the effect, and a repetition under another key would have it
    /// twice. The error is a sentence with the reason of the refusal and the valid command.
    pub fn check_cancel(&self) -> Result<(), String> {
        match self.state {
            Held if self.reason == Some(Reason::Undecided) => {
                Err(self.describe_hold("it may have taken effect"))
            }
            Pending | Held => Ok(()),
            InDoubt => Err(format!("it was sent and its outcome is unknown; {}", self.outcome_commands())),
            Sending => Err("its call is in flight; try again after the answer".into()),
            Applied | Rejected | Cancelled => Err(self.already_final()),
        }
    }

    fn resolve_in_doubt(&self, resolution: Resolution) -> Result<ResolutionStep, String> {
        match (resolution, self.kind) {
            (TookEffect, ChangeKind::ShipmentCreate) => Err(format!(
                "its tracking needs the shipment's id; find the id at the platform, then {}",
                self.outbox_command("resolve --shipment ID")
            )),
            (TookEffect, _) => Ok(ResolutionStep::Apply),
            (HadNoEffect, _) => Ok(ResolutionStep::Requeue),
            (Shipment(id), ChangeKind::ShipmentCreate) => Ok(ResolutionStep::Adopt(id)),
            (Shipment(_), _) => {
                Err(format!("a {} creates no shipment; {}", self.kind, self.outcome_commands()))
            }
            (Mine | Theirs | Exactly(_), _) => {
                Err(format!("it is in doubt, and no two quantities disagree; {}", self.outcome_commands()))
            }
        }
    }

    fn resolve_effect(&self, resolution: Resolution) -> Result<ResolutionStep, String> {
        match resolution {
            TookEffect => Ok(ResolutionStep::Finish),
            HadNoEffect => Ok(ResolutionStep::Requeue),
            Shipment(_) => {
                Err(self.describe_hold("only a change in doubt can adopt a shipment, and this one is held"))
            }
            Mine | Theirs | Exactly(_) => Err(self
                .describe_hold("the open question is whether it took effect, not which quantity is correct")),
        }
    }

    fn resolve_quantity(&self, resolution: Resolution) -> Result<ResolutionStep, String> {
        match (resolution, self.kind) {
            (Theirs, _) => Ok(ResolutionStep::Reject),
            (Mine, ChangeKind::QuantitySet) => Ok(ResolutionStep::ReplaceCount(None)),
            (Exactly(quantity), ChangeKind::QuantitySet) => Ok(ResolutionStep::ReplaceCount(Some(quantity))),
            (Mine | Exactly(_), _) => Err(format!(
                "only a count has a quantity of its own, and this is a {}; {}, or resolve it with `--use theirs`",
                self.kind,
                self.outbox_command("retry")
            )),
            (TookEffect | HadNoEffect | Shipment(_), _) => Err(self
                .describe_hold("the open question is which quantity is correct, not whether it took effect")),
        }
    }

    fn hold_reason(&self) -> Result<Reason, String> {
        self.reason.ok_or_else(|| {
            format!("it is held for a reason unknown to this version; {}", self.outbox_command("cancel"))
        })
    }

    fn release_first(&self) -> String {
        self.describe_hold("only a release ends this hold")
    }

    /// Returns the hold reason, `why`, and the operator's options.
    fn describe_hold(&self, why: &str) -> String {
        match self.reason {
            Some(reason) => format!("it is held ({reason}): {why}; {}", reason.advice_for(self.key)),
            None => why.into(),
        }
    }

    fn already_final(&self) -> String {
        format!("it is {}, which is final; to repeat it, insert it under a new key", self.state)
    }

    /// Returns the commands that state the outcome of a change in doubt.
    fn outcome_commands(&self) -> String {
        let done = if self.kind == ChangeKind::ShipmentCreate { "--shipment ID" } else { "--done" };
        format!("{} if it took effect, `--not-done` if not", self.outbox_command(&format!("resolve {done}")))
    }

    /// Returns an `outbox` command for this change, with the key between verb and flags.
    fn outbox_command(&self, command: &str) -> String {
        let (verb, flags) = command
            .split_once(' ')
            .map_or((command, String::new()), |(verb, flags)| (verb, format!(" {flags}")));
        format!("`tallyd outbox {verb} {}{flags}`", quote_key(self.key))
    }
}

impl Reason {
    /// Returns [`Reason::what_to_do`] with the key in its commands.
    pub fn advice_for(self, key: &str) -> String {
        self.what_to_do().replace("KEY", &quote_key(key))
    }
}

/// Returns the key, quoted for a shell if necessary.
pub(crate) fn quote_key(key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:/@+".contains(c);
    if key.chars().all(is_plain) { key.into() } else { format!("'{}'", key.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ShipmentId = ShipmentId(5);
    const N: Quantity = Quantity(7);
    const RESOLUTIONS: [Resolution; 6] = [TookEffect, HadNoEffect, Shipment(ID), Mine, Theirs, Exactly(N)];

    fn status(kind: ChangeKind, state: ChangeState, reason: Option<Reason>) -> ChangeStatus<'static> {
        ChangeStatus { key: "a key", kind, state, reason }
    }

    /// Rows: a state and reason. Columns: resolutions in the order of `RESOLUTIONS`.
    #[test]
    fn each_resolution_applies_to_its_states_only() {
        let (set, adjust, ship) =
            (ChangeKind::QuantitySet, ChangeKind::QuantityAdjust, ChangeKind::ShipmentCreate);
        let (over, again, done) =
            (Some(ResolutionStep::Finish), Some(ResolutionStep::Requeue), Some(ResolutionStep::Apply));
        let replace = |quantity| Some(ResolutionStep::ReplaceCount(quantity));
        let (mine, seven, dropped) = (replace(None), replace(Some(N)), Some(ResolutionStep::Reject));
        let adopt = Some(ResolutionStep::Adopt(ID));
        let doubt = |kind| status(kind, InDoubt, Some(Reason::NoAnswer));
        let held = |kind, reason| status(kind, Held, Some(reason));
        let cases = [
            (doubt(set), [done, again, None, None, None, None]),
            (doubt(ChangeKind::ProductCreate), [done, again, None, None, None, None]),
            (doubt(ChangeKind::TrackingSubmit), [done, again, None, None, None, None]),
            (doubt(ship), [None, again, adopt, None, None, None]),
            (held(adjust, Reason::Undecided), [over, again, None, None, None, None]),
            (held(ship, Reason::Undecided), [over, again, None, None, None, None]),
            (held(set, Reason::Conflict), [None, None, None, mine, dropped, seven]),
            (held(set, Reason::StaleBase), [None, None, None, mine, dropped, seven]),
            (held(adjust, Reason::Mismatch), [None, None, None, None, dropped, None]),
            (held(set, Reason::Brake), [None; 6]),
            (held(set, Reason::Negative), [None; 6]),
        ];
        for (status, expected) in cases {
            for (resolution, expected) in RESOLUTIONS.into_iter().zip(expected) {
                assert_eq!(status.resolution_step(resolution).ok(), expected, "{status:?} {resolution:?}");
            }
        }
        let has_no_resolution = |state: &ChangeState| !matches!(state, InDoubt | Held);
        for state in ChangeState::ALL.iter().copied().filter(has_no_resolution) {
            for resolution in RESOLUTIONS {
                assert!(status(set, state, None).resolution_step(resolution).is_err(), "{state}");
            }
        }
    }

    #[test]
    fn a_refusal_names_the_command_that_makes_sense() {
        let held = |reason| status(ChangeKind::QuantitySet, Held, Some(reason));
        let doubt = |kind| status(kind, InDoubt, Some(Reason::NoAnswer));
        let ship = ChangeKind::ShipmentCreate;
        let cases = [
            (doubt(ship).resolution_step(TookEffect).unwrap_err(), "resolve 'a key' --shipment ID"),
            (doubt(ChangeKind::QuantitySet).resolution_step(Mine).unwrap_err(), "resolve 'a key' --done` if"),
            (held(Reason::Brake).resolution_step(Mine).unwrap_err(), "tallyd outbox release 'a key'"),
            (held(Reason::Restored).check_retry().unwrap_err(), "tallyd outbox release 'a key'"),
            (held(Reason::Conflict).resolution_step(TookEffect).unwrap_err(), "--use mine|theirs|N"),
            (held(Reason::Conflict).check_retry().unwrap_err(), "--use mine|theirs|N"),
            (held(Reason::Undecided).check_retry().unwrap_err(), "resolve 'a key' --not-done"),
            (held(Reason::Undecided).check_cancel().unwrap_err(), "tallyd outbox resolve 'a key' --done"),
            (doubt(ship).check_cancel().unwrap_err(), "resolve 'a key' --shipment ID"),
            (doubt(ship).check_retry().unwrap_err(), "resolve 'a key' --shipment ID"),
            (doubt(ship).check_release().unwrap_err(), "resolve 'a key' --shipment ID"),
            (held(Reason::Negative).check_release().unwrap_err(), "(negative): no brake holds it; count"),
            (held(Reason::Conflict).check_release().unwrap_err(), "--use mine|theirs|N"),
            (held(Reason::Negative).resolution_step(Mine).unwrap_err(), "outbox cancel 'a key'"),
        ];
        for (message, expected) in cases {
            assert!(message.contains(expected), "{message}");
        }
        let rejected = status(ChangeKind::QuantitySet, Rejected, Some(Reason::Kit));
        assert!(rejected.check_retry().unwrap_err().contains("final"));
    }

    #[test]
    fn each_held_change_can_be_let_go_by_a_command() {
        let kinds_of = |reason| ChangeKind::ALL.iter().map(move |kind| (reason, *kind));
        for (reason, kind) in Reason::ALL.iter().copied().flat_map(kinds_of) {
            let held = status(kind, Held, Some(reason));
            let is_released = held.check_release().is_ok();
            let is_resolved = RESOLUTIONS.iter().any(|resolution| held.resolution_step(*resolution).is_ok());
            assert!(is_released || is_resolved || held.check_retry().is_ok(), "{reason} of {kind}");
        }
    }

    #[test]
    fn what_was_mended_may_be_tried_again() {
        use Reason::{Exists, Mismatch, NotShown, TooLittleLeft};
        for reason in [NotShown, TooLittleLeft, Exists, Mismatch] {
            let held = status(ChangeKind::QuantitySet, Held, Some(reason));
            assert_eq!(held.check_retry(), Ok(()), "{reason}");
        }
    }

    #[test]
    fn a_key_is_quoted_only_where_a_shell_would_take_it_apart() {
        for (key, advice) in
            [("feed-7.a:b/c@d+e", "feed-7.a:b/c@d+e"), ("it's", r"'it'\''s'"), ("a;b", "'a;b'")]
        {
            let expected = format!("correct it at the platform and `tallyd outbox retry {advice}`");
            let advice = Reason::TrackingConflict.advice_for(key);
            assert!(advice.starts_with(&expected), "{key}: {advice}");
        }
    }
}
