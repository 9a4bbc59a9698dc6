//! Why a wish stands where it stands: the typed `reason`, and what the operator can do about it.
//!
//! The sentence with the numbers is the wish's `detail`; what is said here is true of every wish with the reason.
//! `KEY` stands for the wish's key.

use std::fmt;
use std::str::FromStr;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal, $todo:literal;)+) => {
        /// A code in the outbox's `reason`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[doc = $doc])+ $variant),+ }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),+];

            /// The code in the table, the logs and `--json`.
            pub fn as_str(self) -> &'static str {
                match self { $(Reason::$variant => $code),+ }
            }

            /// What the operator can do, naming the command.
            pub fn what_to_do(self) -> &'static str {
                match self { $(Reason::$variant => $todo),+ }
            }
        }
    };
}

reasons! {
    /// Held: the cell would fall below zero.
    Negative = "negative", "count the cell and insert a `quantity.set`, or `tallyd outbox cancel KEY`";
    /// Held: the cell would exceed the service's 32 bits.
    TooLarge = "too_large", "count the cell and insert a `quantity.set`, or `tallyd outbox cancel KEY`";
    /// Held: both sides moved away from what was seen.
    Conflict = "conflict", "`tallyd outbox resolve KEY --use mine|theirs|N`";
    /// Held: the flush would zero too many cells.
    Brake = "brake", "look at the numbers; `tallyd outbox release KEY` (or `--all`) lets it go once, `tallyd outbox cancel KEY` drops it";
    /// Held: one write would change the cell by more than `hold_jump_over`.
    Jump = "jump", "look at the numbers; `tallyd outbox release KEY` lets it go once, `tallyd outbox cancel KEY` drops it";
    /// Held: the service returned nothing where much was known.
    LooksEmptied = "looks_emptied", "see whether the account is the right one (`tallyd check --online`), then `tallyd outbox release KEY`";
    /// Held: no answer shows the cell, or a part of the order or shipment.
    NoFact = "no_fact", "see `tallyd status` for why the service cannot be read, then `tallyd outbox retry KEY`";
    /// Held: no fact near enough to the count says what was on the service's side of it.
    StaleBase = "stale_base", "count again, or take the count as it is with `tallyd outbox resolve KEY --use mine` (`theirs` drops it, N takes N)";
    /// Held: answers minutes apart show no line of the order.
    UnknownOrder = "unknown_order", "nothing, if the id is right: it goes on by itself once the order is shown (`tallyd outbox retry KEY` looks now); else `tallyd outbox cancel KEY`, and insert the wish under a new key";
    /// Held: the product is there, but not linked to that warehouse.
    Unlinked = "unlinked", "insert a `quantity.set`, or link the product to the warehouse and `tallyd outbox retry KEY`";
    /// Held: several SKUs differ from the wish's only in case or blanks.
    AmbiguousSku = "ambiguous_sku", "`tallyd outbox cancel KEY` and insert the wish with the exact spelling (`tallyd stock`)";
    /// Held: the service accepted the cell's last write and shows something else.
    Mismatch = "mismatch", "look at the product there (is it a kit?), then count it (`tallyd quantity set`), `tallyd outbox retry KEY`, `tallyd outbox resolve KEY --use mine|theirs|N` or `tallyd outbox cancel KEY`";
    /// Held: it stood in a database that went back in time; it may have been done after the copy was made.
    Restored = "restored", "see at the service whether it was done; `tallyd outbox release KEY` does it, `tallyd outbox cancel KEY` does not";
    /// Held: less is left of the order than the wish wants to ship.
    TooLittleLeft = "too_little_left", "see `tallyd order show`; then `tallyd outbox retry KEY` or `tallyd outbox cancel KEY`";
    /// Held: the service does not say how much of the order is left.
    LeftUnknown = "left_unknown", "`tallyd outbox cancel KEY` and ship with explicit quantities (`tallyd ship ORDER --line ID=QTY`)";
    /// Held: the order's lines did not all fit into the answer.
    IncompleteOrder = "incomplete_order", "ship the order at the service itself, then `tallyd outbox cancel KEY`";
    /// Held: the shipment carries another tracking number.
    TrackingConflict = "tracking_conflict", "correct it at the service itself and `tallyd outbox retry KEY`, or `tallyd outbox cancel KEY`";
    /// Held: what should be created is there already.
    Exists = "exists", "use the one that is there and `tallyd outbox cancel KEY`, or rename one of them and `tallyd outbox retry KEY`";
    /// Held: a look at the service does not tell whether it was done.
    Undecided = "undecided", "look at the service (`tallyd outbox show KEY` has the evidence), then `tallyd outbox resolve KEY --landed` if it was done there, or `tallyd outbox resolve KEY --not-landed` if it was not";

    /// Rejected: the body makes no sense as a wish of its kind.
    BadBody = "bad_body", "correct the body and insert it under a new key";
    /// Rejected: there is no such kind of wish.
    UnknownKind = "unknown_kind", "insert it under a new key with one of the kinds in the README";
    /// Rejected: the service has no such SKU.
    UnknownSku = "unknown_sku", "create the product or correct the spelling, and insert the wish under a new key";
    /// Rejected: the service has no such warehouse. Held: answers minutes apart show no such link of an update's product.
    UnknownWarehouse = "unknown_warehouse", "see `tallyd warehouse list`, `tallyd outbox cancel KEY` if it is held, and insert the wish under a new key";
    /// Rejected: a kit's quantity follows from its components.
    Kit = "kit", "set the components' quantities (`tallyd product components`)";
    /// Rejected: the cell moved, and the policy lets the service win.
    RemoteWins = "remote_wins", "nothing, or count again; the policy is `quantities.policy`";
    /// Rejected: a product update wants to change a quantity.
    QuantityInUpdate = "quantity_in_update", "leave the quantities out of the update and insert a `quantity.set`";
    /// Rejected: a line belongs to another order or shipment. Held: answers minutes apart show it nowhere.
    ForeignLine = "foreign_line", "correct the line ids (`tallyd order show`), `tallyd outbox cancel KEY` if it is held, and insert the wish under a new key; a held one whose ids are right goes on by itself";
    /// Rejected: the shipment its tracking belongs to will never be made.
    NoShipment = "no_shipment", "see the shipment's wish (`tallyd outbox show`); insert a new one and its tracking under new keys";
    /// Rejected: the service's own words are in the detail. Held: it refuses to show what the wish names.
    ServiceRefused = "service_refused", "correct what the service complains about, and insert the wish under a new key; a held one is tried again by itself (`tallyd outbox retry KEY` tries now)";

    /// Cancelled: a later count says what the cell holds.
    Superseded = "superseded", "nothing";
    /// Cancelled or rejected: a person said so.
    Operator = "operator", "nothing; insert it under a new key to want it again";
    /// Cancelled: a person said that it had been done.
    Landed = "landed", "nothing; it was done before";

    /// Pending: its shipment is not there yet.
    AwaitsShipment = "awaits_shipment", "nothing; it is sent when its shipment is there";
    /// Pending: another wish for the same cell, order or shipment is under way.
    AwaitsOther = "awaits_other", "nothing; it is next";
    /// Pending: a call for its SKU, order or shipment alone fails; the service's words are in the detail.
    SetAside = "set_aside", "nothing; it is tried again by itself, the detail says when; see `tallyd status`";
    /// Pending: its product may be a kit, and the service does not say yet.
    AwaitsKit = "awaits_kit", "nothing; the service is asked for the product's components, and the wish goes on with its answer";
    /// Pending: its operation is held, see `status`.
    OperationHeld = "operation_held", "see `tallyd status`";
    /// Pending: an answer lacked what the wish names, which one answer does not prove absent.
    Unproved = "unproved", "nothing; it is looked at again by itself. If the wish is a mistake: `tallyd outbox cancel KEY`";
    /// Pending again: the call was proved not done.
    NotSent = "not_sent", "nothing; it is planned again";
    /// Pending again: looks at the service show that it did not land.
    NotLanded = "not_landed", "nothing; it is planned again";

    /// In doubt: the call was sent and no answer that can be read came.
    NoAnswer = "no_answer", "nothing yet: settle looks at the service (`tallyd outbox show KEY` says when); who knows better says so with `tallyd outbox resolve KEY`";
    /// In doubt: the answer does not say what became of it. Pending: such an answer may have meant another entry of the call,
    /// and this one is sent alone.
    Unmatched = "unmatched", "nothing yet: settle looks at the service (`tallyd outbox show KEY` says when); who knows better says so with `tallyd outbox resolve KEY`";
    /// In doubt: it landed, or somebody else did the same.
    LandedOrAnother = "landed_or_another", "`tallyd outbox resolve KEY --shipment ID` if it is ours, else `tallyd outbox resolve KEY --not-landed`";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = UnknownReason;
    fn from_str(code: &str) -> Result<Self, UnknownReason> {
        let found = Reason::ALL.iter().find(|reason| reason.as_str() == code);
        found.copied().ok_or_else(|| UnknownReason(code.into()))
    }
}

/// A code that is no reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the outbox knows no reason `{0}`; the row was written by another version of tallyd")]
pub struct UnknownReason(pub String);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_a_code_of_its_own_and_is_found_by_it() {
        let codes: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(codes.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse().as_ref(), Ok(reason));
        }
        assert!("because".parse::<Reason>().is_err());
    }

    #[test]
    fn every_reason_tells_the_operator_something() {
        for reason in Reason::ALL {
            assert!(!reason.what_to_do().is_empty(), "{reason}");
        }
    }
}
