//! Reasons of a change's state, each with the operator's options.
//!
//! The sentence with the numbers is the `detail` of the change. The texts here hold for every change with the
//! reason. `KEY` stands for the key of the change.

use crate::model::code_enum;
use serde::Serialize;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $todo:literal;)+) => {
        code_enum! {
            /// A code in the outbox's `reason`.
            #[derive(Serialize)]
            #[serde(rename_all = "snake_case")]
            pub enum Reason { $($(#[$doc])* $variant = $code),+ }
        }

        impl Reason {
            /// Returns the operator's options, with their commands.
            pub fn what_to_do(self) -> &'static str {
                match self { $(Reason::$variant => $todo),+ }
            }
        }
    };
}

reasons! {
    /// Held: the stock level would become negative.
    Negative = "negative", "count the stock level and insert a `quantity.set`, `tallyd outbox retry KEY` once more has come in, or `tallyd outbox cancel KEY`";
    /// Held: the stock level would exceed the platform's 32 bits.
    TooLarge = "too_large", "count the stock level and insert a `quantity.set`, or `tallyd outbox cancel KEY`";
    /// Held: the stock level drifted since the base of the count, and the policy asks the operator.
    Conflict = "conflict", "`tallyd outbox resolve KEY --use mine|theirs|N`";
    /// Held: the backlog would set too many stock levels to zero, or one write would change a stock level by more than
    /// `max_quantity_jump`.
    Brake = "brake", "check the numbers; `tallyd outbox release KEY` (or `--all`) sends it once, `tallyd outbox cancel KEY` cancels it";
    /// Held: no answer shows what the change names. The detail says what was asked for and what was answered.
    NotShown = "not_shown", "nothing if the change is right: tallyd asks again, and sends it once an answer shows what is missing (`tallyd outbox retry KEY` asks now); else `tallyd outbox cancel KEY`, and insert the change under a new key";
    /// Held: no fact near enough to the count can be its base.
    StaleBase = "stale_base", "count again, or accept the count as it is with `tallyd outbox resolve KEY --use mine` (`theirs` keeps the platform's quantity, N sets N)";
    /// Held: several SKUs differ from the SKU of the change only in case or blanks.
    AmbiguousSku = "ambiguous_sku", "`tallyd outbox cancel KEY` and insert the change with the exact spelling (`tallyd stock`)";
    /// Held: the platform accepted the last write and shows another quantity.
    Mismatch = "mismatch", "check the product at the platform (is it a kit?), then count it (`tallyd quantity set`), `tallyd outbox retry KEY`, `tallyd outbox resolve KEY --use mine|theirs|N` or `tallyd outbox cancel KEY`";
    /// Held: the database went back in time.
    ///
    /// The change may have been sent after the copy was made, also if it was inserted again since.
    Restored = "restored", "check at the platform whether it took effect; `tallyd outbox release KEY` sends it, `tallyd outbox cancel KEY` cancels it";
    /// Held: less is left of the order than the change ships.
    TooLittleLeft = "too_little_left", "see `tallyd order show`; then `tallyd outbox retry KEY` or `tallyd outbox cancel KEY`";
    /// Held: the shipment has another tracking number.
    TrackingConflict = "tracking_conflict", "correct it at the platform and `tallyd outbox retry KEY`, or `tallyd outbox cancel KEY`";
    /// Held: the thing to create exists already.
    Exists = "exists", "use the existing one and `tallyd outbox cancel KEY`, or rename one of them and `tallyd outbox retry KEY`";
    /// Held: the checks at the platform do not show whether the change took effect.
    Undecided = "undecided", "check at the platform (`tallyd outbox show KEY` shows the evidence), then `tallyd outbox resolve KEY --done` if it took effect, or `tallyd outbox resolve KEY --not-done` if it had no effect";

    /// Rejected: the kind is unknown, or the body is invalid for the kind.
    BadBody = "bad_body", "correct what the detail names, and insert the change under a new key (docs/database.md)";
    /// Rejected: the quantity of a kit follows from its components.
    Kit = "kit", "set the components' quantities (`tallyd product components`)";
    /// Rejected: the stock level drifted, and the policy prefers the platform's quantity.
    RemoteWins = "remote_wins", "nothing, or count again; the policy is `quantities.policy`";
    /// Rejected: the shipment of the tracking will never be created.
    NoShipment = "no_shipment", "see the shipment's change (`tallyd outbox show`); insert a new one and its tracking under new keys";
    /// Rejected: the platform refused the change; its message is in the detail.
    ServiceRefused = "service_refused", "correct the fault in the platform's message, and insert the change under a new key";

    /// Cancelled: a later count replaces the change.
    Superseded = "superseded", "nothing";
    /// Cancelled or rejected: the operator decided it.
    Operator = "operator", "nothing; to repeat it, insert it under a new key";
    /// Cancelled: the operator decided that it took effect.
    Landed = "landed", "nothing; it took effect before";

    /// Pending: another change of the same stock level, order or shipment is in flight, or must create its shipment.
    AwaitsOther = "awaits_other", "nothing if the detail names a change; it is sent after that. Else insert the `shipment.create` that it waits for, or `tallyd outbox cancel KEY` and insert it with the right key";
    /// Pending: quarantined, because isolated calls for its SKU, order or shipment fail.
    ///
    /// The platform's message is in the detail.
    SetAside = "set_aside", "nothing; tallyd retries it at the time in the detail; see `tallyd status`";
    /// Pending again: the call is proved not done, or a refusal of it cannot be judged yet.
    NotSent = "not_sent", "nothing; tallyd plans it again; see `tallyd status`";
    /// Pending again: checks at the platform show that the call had no effect.
    NotLanded = "not_landed", "nothing; tallyd plans it again";

    /// In doubt: the call was sent and no readable answer came.
    NoAnswer = "no_answer", "nothing yet: settle checks the platform (`tallyd outbox show KEY` shows the time); if you know the outcome, use `tallyd outbox resolve KEY`";
    /// In doubt: the answer does not state the outcome of this change.
    ///
    /// Pending: such an answer may have concerned another entry of the call, and this entry is sent isolated.
    Unmatched = "unmatched", "nothing yet: settle checks the platform (`tallyd outbox show KEY` shows the time); if you know the outcome, use `tallyd outbox resolve KEY`";
    /// In doubt: the change took effect, or another client made the same change.
    LandedOrAnother = "landed_or_another", "`tallyd outbox resolve KEY --shipment ID` if this change created it, else `tallyd outbox resolve KEY --not-done`";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_a_code_of_its_own_and_is_found_by_it() {
        let codes: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(codes.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.as_str()), Some(*reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        assert_eq!(Reason::from_code("because"), None);
    }

    #[test]
    fn every_reason_tells_the_operator_something() {
        for reason in Reason::ALL {
            assert!(!reason.what_to_do().is_empty(), "{reason}");
        }
    }
}
