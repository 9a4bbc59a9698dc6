//! A change and the platform: every answer, crash, check and decision of a person, in every order.
//!
//! The transitions are judged by the product's table (`State::may_become`), answers by its client
//! (`classify`, the decoders), checks by its decisions (`plan`, `settle`), decisions of persons by `Stand`.
//! The platform is simulated: a request takes effect at once, never, or late, up to just before the end of
//! the quiet time; a colleague may do the same. The code between a verdict and a transition (`push/claim.rs`,
//! `store/journal/run.rs`) reads and writes the database, so it is implemented here a second time, in
//! [`moved`] and [`Change::crash`]; tests/program/crash and tests/program/delivery test the real one.
//!
//! Time passes in steps of five minutes: two of them are the quiet time of creates. Persons are truthful, and
//! may decide at any time.

use super::explorer::Machine;
use crate::client::wire::{WriteOutcome, decode_created_shipments, decode_product_answer, decode_update};
use crate::client::{FailureKind, PlatformResponse, TransportError, Verdict, classify_outcome};
use crate::model::{LineItemId, Operation, OrderId, OrderLine, Quantity, ShipmentId, Timestamp};
use crate::outbox::{
    ChangeKind, ChangeState, ChangeStatus, Reason, Resolution, ResolutionStep, ShipmentCreate, ShipmentLine,
};
use crate::reconcile::in_doubt::{self, QUIET_CREATE, Settlement, WriteInDoubt, settle_write};
use crate::reconcile::shipments::{ClaimedLine, OrderSnapshot};
use crate::reconcile::{ChangePlan, creates, shipments};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const STEP: Duration = Duration::from_secs(300);
/// Number of steps after which an outstanding request never arrives.
const ARRIVES_WITHIN: u8 = 2;
/// Number of steps after a send that are distinguished.
const STEPS_MAX: u8 = 4;
const NAME: &str = "NEW-1";
const LINE: LineItemId = LineItemId(7);
const ORDER: OrderId = OrderId(5);
/// Units left of the order's line; enough for two shipments of two units and a colleague's.
const LEFT: i64 = 7;
const PARCEL: i64 = 2;
const OURS: ShipmentId = ShipmentId(80);
/// Quantity before the count, and its target.
const BEFORE: Quantity = Quantity(10);
const TARGET: Quantity = Quantity(7);

/// A planted fault, which the search must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Changes in doubt are settled as if the quiet time were over at the send.
    NoQuietTime,
    /// A change found `sending` after a crash becomes pending.
    CrashMeansPending,
    /// An answer of 500 is taken for a refusal.
    BrokenMeansRefused,
}

/// The kind of change, and the planted fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes {
    pub(crate) kind: ChangeKind,
    pub(crate) fault: Option<Fault>,
}

/// A change, and its true effects at the platform.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    state: ChangeState,
    reason: Option<Reason>,
    /// Steps since the last send.
    since: u8,
    /// True if the last send may still arrive.
    is_on_its_way: bool,
    /// True if the outcome of the last send is unknown: until an answer, two checks or a person decide it.
    is_unknown: bool,
    /// Number of times it took effect.
    done: u8,
    /// True if a colleague did something similar.
    rival: bool,
    /// Evidence of the claim: the colleague's record existed before, and the units left.
    seen: (bool, i64),
    /// Checks since the send: time, and the records found (ours, the colleague's).
    looks: Vec<(u8, u8, bool)>,
    was_braked: bool,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Refused,
    Throttled,
    BadRequest,
    NoConnection,
    BrokeBefore,
    BrokeAfter,
    LostBefore,
    LostAfter,
    LostLate,
}

const ENDS: [End; 10] = [
    End::Done,
    End::Refused,
    End::Throttled,
    End::BadRequest,
    End::NoConnection,
    End::BrokeBefore,
    End::BrokeAfter,
    End::LostBefore,
    End::LostAfter,
    End::LostLate,
];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Brake,
    Claim,
    Answer(End),
    /// The process dies during the call, which took or will take effect as the outcome states.
    Crash(End),
    /// A call that was given up takes effect now.
    Arrives,
    Look,
    FiveMinutes,
    Rival,
    Say(Resolution),
    Retry,
    Release,
    Cancel,
}

impl Machine for Changes {
    type State = Change;
    type Action = Action;

    fn start(&self) -> Change {
        Change {
            state: ChangeState::Pending,
            reason: None,
            since: 0,
            is_on_its_way: false,
            is_unknown: false,
            done: 0,
            rival: false,
            seen: (false, 0),
            looks: Vec::new(),
            was_braked: false,
        }
    }

    fn actions(&self, change: &Change) -> Vec<Action> {
        let mut actions = Vec::new();
        match change.state {
            ChangeState::Pending => {
                actions.push(Action::Claim);
                actions.extend((!change.was_braked).then_some(Action::Brake));
            }
            ChangeState::Sending => {
                actions.extend(ENDS.map(Action::Answer));
                actions.extend([End::LostBefore, End::LostAfter, End::LostLate].map(Action::Crash));
            }
            ChangeState::InDoubt => actions.extend(self.is_look_due(change).then_some(Action::Look)),
            ChangeState::Held | ChangeState::Applied | ChangeState::Rejected | ChangeState::Cancelled => {}
        }
        actions.extend(change.is_on_its_way.then_some(Action::Arrives));
        actions.extend((!change.rival).then_some(Action::Rival));
        let time_matters = change.is_on_its_way || change.state == ChangeState::InDoubt;
        actions.extend((time_matters && change.since < STEPS_MAX).then_some(Action::FiveMinutes));
        actions.extend(self.words(change));
        actions
    }

    fn step(&self, change: &Change, action: &Action) -> Result<Change, String> {
        let mut next = change.clone();
        match *action {
            Action::Brake => {
                next.was_braked = true;
                next.go(ChangeState::Held, Some(Reason::Brake))?;
            }
            Action::Claim => self.claim(&mut next)?,
            Action::Answer(end) => self.answer(&mut next, end)?,
            Action::Crash(end) => self.crash(&mut next, end)?,
            Action::Arrives => next.arrive(),
            Action::Look => self.look(&mut next)?,
            Action::FiveMinutes => {
                next.since += 1;
                next.is_on_its_way &= next.since < ARRIVES_WITHIN;
            }
            Action::Rival => next.rival = true,
            Action::Say(word) => self.said(&mut next, word)?,
            Action::Retry | Action::Release => next.go(ChangeState::Pending, None)?,
            Action::Cancel => next.go(ChangeState::Cancelled, Some(Reason::Operator))?,
        }
        Ok(next)
    }

    fn check(&self, change: &Change) -> Result<(), String> {
        if change.done > 1 && self.kind != ChangeKind::QuantitySet {
            return Err("done twice".into());
        }
        if change.state == ChangeState::Applied && change.done == 0 {
            return Err("applied, and never done".into());
        }
        let is_lost =
            change.state == ChangeState::Rejected && change.done > 0 && self.kind != ChangeKind::QuantitySet;
        if is_lost && change.reason != Some(Reason::Operator) {
            return Err("rejected, and done all the same".into());
        }
        let is_claimed = change.state.is_in_flight();
        if change.is_unknown && !is_claimed && change.reason != Some(Reason::Undecided) {
            return Err("nobody knows what became of the last send, and nobody asks".into());
        }
        Ok(())
    }

    fn is_end(&self, change: &Change) -> bool {
        change.state.is_final()
    }
}

impl Change {
    /// Makes a transition, if the product's table has it.
    fn go(&mut self, to: ChangeState, reason: Option<Reason>) -> Result<(), String> {
        if !self.state.may_become(to) {
            return Err(format!("{} to {to} is no move", self.state));
        }
        (self.state, self.reason) = (to, reason);
        Ok(())
    }

    fn arrive(&mut self) {
        self.done += 1;
        self.is_on_its_way = false;
    }

    fn left(&self) -> i64 {
        LEFT - PARCEL * i64::from(self.done) - if self.rival { PARCEL } else { 0 }
    }

    /// Returns the quantity that the count's stock level shows.
    fn quantity(&self) -> Quantity {
        let quantity = if self.done > 0 { TARGET } else { BEFORE };
        if self.rival { Quantity(quantity.0 - 1) } else { quantity }
    }
}

/// Returns the platform's records of the name: ours, and the colleague's.
fn found(done: u8, rival: bool) -> Vec<creates::FoundRecord> {
    let ours =
        (0..done).map(|n| creates::FoundRecord { id: 100 + i64::from(n), name: NAME.into(), equal: true });
    let theirs = rival.then(|| creates::FoundRecord { id: 9, name: NAME.to_lowercase(), equal: false });
    ours.chain(theirs).collect()
}

fn at(step: u8) -> Timestamp {
    Timestamp(0).plus(STEP * u32::from(step))
}

impl Changes {
    fn operation(&self) -> Operation {
        match self.kind {
            ChangeKind::ShipmentCreate => Operation::CreateShipments,
            ChangeKind::QuantitySet => Operation::UpdateQuantityOnHand,
            _ => Operation::CreateProduct,
        }
    }

    /// Does the preflight, the product's plan, and the claim.
    fn claim(&self, change: &mut Change) -> Result<(), String> {
        if change.is_unknown {
            return Err("sent again while nobody knows what became of the last send".into());
        }
        let stop = match self.kind {
            ChangeKind::ShipmentCreate => {
                let lines = vec![line(change.left())];
                let known = OrderSnapshot { lines, has_unreadable: false, is_complete: true };
                stop(shipments::plan_shipment(&order(), Some(&known), true))
            }
            ChangeKind::QuantitySet => None,
            _ => stop(creates::plan_create(NAME, Some(&found(change.done, change.rival)))),
        };
        if let Some((state, reason)) = stop {
            return change.go(state, Some(reason));
        }
        change.go(ChangeState::Sending, None)?;
        (change.since, change.seen, change.is_unknown) = (0, (change.rival, change.left()), true);
        change.looks.clear();
        Ok(())
    }

    /// Applies the outcome of the call, as the client judges it.
    fn answer(&self, change: &mut Change, end: End) -> Result<(), String> {
        change.done += u8::from(matches!(end, End::Done | End::BrokeAfter | End::LostAfter));
        change.is_on_its_way = end == End::LostLate;
        let came = self.came(end);
        let (to, reason) = match classify_outcome(self.operation(), &came, at(0)) {
            Verdict::Accepted => self.told(&came.map(|answer| answer.body).unwrap_or_default()),
            _ if self.fault == Some(Fault::BrokenMeansRefused)
                && matches!(end, End::BrokeBefore | End::BrokeAfter) =>
            {
                (ChangeState::Rejected, Some(Reason::ServiceRefused))
            }
            verdict => moved(verdict),
        };
        change.is_unknown = to == ChangeState::InDoubt;
        change.go(to, reason)?;
        // A change that is refused in isolation is rejected, once it is pending again (`Deliver::refused`).
        if end == End::BadRequest {
            change.go(ChangeState::Rejected, Some(Reason::ServiceRefused))
        } else {
            Ok(())
        }
    }

    /// Applies the next start, which finds the change `sending` (`Write::session_begin`).
    fn crash(&self, change: &mut Change, end: End) -> Result<(), String> {
        change.done += u8::from(end == End::LostAfter);
        change.is_on_its_way = end == End::LostLate;
        if self.fault == Some(Fault::CrashMeansPending) {
            return change.go(ChangeState::Pending, Some(Reason::NotSent));
        }
        change.go(ChangeState::InDoubt, Some(Reason::NoAnswer))
    }

    fn came(&self, end: End) -> Result<PlatformResponse, TransportError> {
        let answer = |status, body: &str| {
            Ok(PlatformResponse { status, body: body.into(), ..PlatformResponse::default() })
        };
        let lost = |kind| TransportError { kind, what: "lost".into(), status: None, retry_after: None };
        match end {
            End::Done => answer(200, self.body(true)),
            End::Refused => answer(200, self.body(false)),
            End::Throttled => answer(429, ""),
            End::BadRequest => answer(400, r#"{"Message":"no"}"#),
            End::BrokeBefore | End::BrokeAfter => answer(500, "<html>"),
            End::NoConnection => Err(lost(FailureKind::Unsent)),
            End::LostBefore | End::LostAfter | End::LostLate => Err(lost(FailureKind::Timeout)),
        }
    }

    fn body(&self, done: bool) -> &'static str {
        match (self.kind, done) {
            (ChangeKind::ShipmentCreate, true) => {
                r#"{"status":"Success","messages":[],"data":[{"Request":{"OrderId":5},"Shipment":{"Id":80,
                    "Items":[{"Id":81,"ShipmentId":80,"OrderLineItemId":7,"QuantityShipped":2}]},"WasSuccessful":true}]}"#
            }
            (ChangeKind::ShipmentCreate, false) => {
                r#"{"status":"Success","data":[{"Request":{"OrderId":5},"WasSuccessful":false,"Messages":["no"]}]}"#
            }
            (ChangeKind::QuantitySet, true) => r#"{"status":"Success","messages":[],"data":""}"#,
            (ChangeKind::QuantitySet, false) => {
                r#"{"status":"Failure","messages":["Index 0: no"],"data":""}"#
            }
            (_, true) => {
                r#"{"status":"Success","data":{"Product":{"Id":100,"Sku":"NEW-1"},"WasSuccessful":true,"Messages":[]}}"#
            }
            (_, false) => {
                r#"{"status":"Success","data":{"Product":null,"WasSuccessful":false,"Messages":["no"]}}"#
            }
        }
    }

    /// Decodes an answer of the expected form with the product's decoder.
    fn told(&self, body: &[u8]) -> (ChangeState, Option<Reason>) {
        use crate::client::wire::UpdateStatus;
        let outcome = match self.kind {
            ChangeKind::ShipmentCreate => {
                decode_created_shipments(body).ok().and_then(|answer| Some(answer.records.first()?.outcome()))
            }
            ChangeKind::QuantitySet => decode_update(body).ok().map(|answer| match answer.status {
                UpdateStatus::Success => WriteOutcome::Done,
                UpdateStatus::Failure => WriteOutcome::Refused,
                UpdateStatus::PartialSuccess | UpdateStatus::Unknown(_) => WriteOutcome::Unclear,
            }),
            _ => decode_product_answer(body).ok().map(|answer| answer.outcome()),
        };
        match outcome {
            Some(WriteOutcome::Done) => (ChangeState::Applied, None),
            Some(WriteOutcome::Refused) => (ChangeState::Rejected, Some(Reason::ServiceRefused)),
            Some(WriteOutcome::Unclear) | None => (ChangeState::InDoubt, Some(Reason::Unmatched)),
        }
    }

    /// Returns the decision of the checks so far.
    fn settlement(&self, change: &Change) -> Settlement {
        // With the fault, the request counts as sent long ago.
        let sent_at = if self.fault == Some(Fault::NoQuietTime) { at(0).minus(QUIET_CREATE) } else { at(0) };
        let looks = change
            .looks
            .iter()
            .map(|(step, done, rival)| (at(*step), Change { done: *done, rival: *rival, ..change.clone() }));
        match self.kind {
            ChangeKind::ShipmentCreate => {
                let claimed =
                    [ClaimedLine { line_item_id: LINE, quantity: PARCEL, left_before: Some(change.seen.1) }];
                let look = |(sent_at, then): (Timestamp, Change)| in_doubt::EffectCheck {
                    sent_at,
                    shown: BTreeMap::from([(LINE, then.left())]),
                };
                shipments::settle_shipment(&claimed, sent_at, &looks.map(look).collect::<Vec<_>>())
            }
            ChangeKind::QuantitySet => {
                let quiet = in_doubt::quiet_quantity(STEP);
                let write = WriteInDoubt { before: Some(BEFORE), target: TARGET, sent_at, quiet };
                let look = |(sent_at, then): (Timestamp, Change)| in_doubt::EffectCheck {
                    sent_at,
                    shown: in_doubt::CheckResult::Returned(Some(then.quantity())),
                };
                settle_write(&write, &looks.map(look).collect::<Vec<_>>(), &[])
            }
            _ if change.looks.is_empty() => Settlement::CheckAgain { not_before: sent_at },
            _ => {
                let seen: BTreeSet<i64> = change.seen.0.then_some(9).into_iter().collect();
                let look = |(sent_at, then): (Timestamp, Change)| in_doubt::EffectCheck {
                    sent_at,
                    shown: Some(found(then.done, then.rival)),
                };
                creates::settle_create(NAME, &seen, sent_at, &looks.map(look).collect::<Vec<_>>())
            }
        }
    }

    fn is_look_due(&self, change: &Change) -> bool {
        let looked_now = change.looks.last().is_some_and(|(step, ..)| *step == change.since);
        match self.settlement(change) {
            Settlement::CheckAgain { not_before } => !looked_now && not_before <= at(change.since),
            Settlement::TookEffect(_) | Settlement::HadNoEffect | Settlement::Undecided { .. } => false,
        }
    }

    /// Makes a check and applies its decision (`settle/decide.rs`).
    fn look(&self, change: &mut Change) -> Result<(), String> {
        change.looks.push((change.since, change.done, change.rival));
        match self.settlement(change) {
            Settlement::CheckAgain { .. } => Ok(()),
            Settlement::TookEffect(_) => {
                change.is_unknown = false;
                change.go(ChangeState::Applied, None)
            }
            Settlement::HadNoEffect => {
                change.is_unknown = false;
                change.go(ChangeState::Pending, Some(Reason::NotLanded))
            }
            Settlement::Undecided { reason: Reason::LandedOrAnother, .. } => {
                change.reason = Some(Reason::LandedOrAnother);
                Ok(())
            }
            Settlement::Undecided { reason, .. } => change.go(ChangeState::Held, Some(reason)),
        }
    }

    fn stand<'a>(&self, change: &Change) -> ChangeStatus<'a> {
        ChangeStatus { key: "k", kind: self.kind, state: change.state, reason: change.reason }
    }

    /// Returns every true decision that the product accepts.
    fn words(&self, change: &Change) -> Vec<Action> {
        let stand = self.stand(change);
        let is_true = |word: &Resolution| match word {
            Resolution::TookEffect | Resolution::Shipment(_) => change.done > 0,
            Resolution::HadNoEffect => change.done == 0 && !change.is_on_its_way,
            Resolution::Mine | Resolution::Theirs | Resolution::Exactly(_) => true,
        };
        let words = [
            Resolution::TookEffect,
            Resolution::HadNoEffect,
            Resolution::Shipment(OURS),
            Resolution::Mine,
            Resolution::Theirs,
            Resolution::Exactly(TARGET),
        ];
        let sensible = words.into_iter().filter(|word| is_true(word) && stand.resolution_step(*word).is_ok());
        let mut actions: Vec<Action> = sensible.map(Action::Say).collect();
        actions.extend(stand.check_retry().is_ok().then_some(Action::Retry));
        let is_braked = change.state == ChangeState::Held && change.reason == Some(Reason::Brake);
        actions.extend(is_braked.then_some(Action::Release));
        // A person who knows of the effect does not withdraw the change; a person who does not has to look
        // first.
        let may_cancel = stand.check_cancel().is_ok() && !change.is_unknown;
        actions.extend(may_cancel.then_some(Action::Cancel));
        actions
    }

    /// Applies a decision (`store/outbox/resolve.rs`).
    fn said(&self, change: &mut Change, word: Resolution) -> Result<(), String> {
        let step = self.stand(change).resolution_step(word)?;
        change.is_unknown = false;
        match step {
            ResolutionStep::Apply => change.go(ChangeState::Applied, None),
            ResolutionStep::Finish => change.go(ChangeState::Cancelled, Some(Reason::Landed)),
            ResolutionStep::Requeue => change.go(ChangeState::Pending, Some(Reason::NotLanded)),
            ResolutionStep::ReplaceCount(_) => change.go(ChangeState::Pending, None),
            ResolutionStep::Reject => change.go(ChangeState::Rejected, Some(Reason::Operator)),
            ResolutionStep::Adopt(_) => {
                let claimed =
                    [ClaimedLine { line_item_id: LINE, quantity: PARCEL, left_before: Some(change.seen.1) }];
                shipments::check_adoption(&claimed, &[(LINE, PARCEL)], None)?;
                change.go(ChangeState::Applied, None)
            }
        }
    }
}

/// Returns the transition for an answer without records (`carry::unanswered`).
fn moved(verdict: Verdict) -> (ChangeState, Option<Reason>) {
    match verdict {
        Verdict::Transient | Verdict::InDoubt => (ChangeState::InDoubt, Some(Reason::NoAnswer)),
        Verdict::Throttled(_) | Verdict::NotSent | Verdict::Rejected { .. } | Verdict::Refused => {
            (ChangeState::Pending, Some(Reason::NotSent))
        }
        Verdict::Accepted => (ChangeState::InDoubt, Some(Reason::Unmatched)),
    }
}

/// Returns the transition for a plan that does not send.
fn stop<T>(plan: ChangePlan<T>) -> Option<(ChangeState, Reason)> {
    match plan {
        ChangePlan::Send(_) | ChangePlan::ReadFirst => None,
        ChangePlan::Held { reason, .. } => Some((ChangeState::Held, reason)),
        ChangePlan::Rejected { reason, .. } => Some((ChangeState::Rejected, reason)),
    }
}

fn order() -> ShipmentCreate {
    let line = ShipmentLine { line_item_id: LINE, quantity: Some(PARCEL) };
    ShipmentCreate { order_id: ORDER, lines: Some(vec![line]) }
}

fn line(left: i64) -> OrderLine {
    OrderLine {
        order_id: ORDER,
        line_item_id: LINE,
        sku: None,
        product_id: None,
        quantity_sold: LEFT,
        quantity_left: Some(left),
        unit_price: None,
        supplier_id: None,
        warehouse_id: None,
    }
}
