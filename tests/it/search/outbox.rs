//! A change and the platform: every answer, crash, check and decision of a person, in every order.
//!
//! The transitions are judged by the product's table (`State::may_become`), answers by its client
//! (`classify`, the decoders), checks by its decisions (`plan`, `settle`), decisions of persons by `Stand`.
//! The platform is simulated: a request takes effect at once, never, or late, up to just before the end of
//! the quiet time; a colleague may do the same. The code between a verdict and a transition (`push/claim.rs`,
//! `store/journal/run.rs`) reads and writes the database, so it is implemented here a second time, in
//! [`moved`] and [`Wish::crash`]; tests/program/crash and tests/program/delivery test the real one.
//!
//! Time passes in steps of five minutes: two of them are the quiet time of creates. Persons are truthful, and
//! may decide at any time.

use super::explorer::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tallyd::client::wire::{Outcome, decode_created_shipments, decode_product_answer, decode_update};
use tallyd::client::{FailureKind, Response, Sent, TransportError, Verdict, classify};
use tallyd::model::{LineItemId, Operation, OrderId, OrderLine, Quantity, ShipmentId, Timestamp};
use tallyd::outbox::{Kind, Reason, Resolution, ShipmentCreate, ShipmentLine, Stand, State, Step};
use tallyd::reconcile::doubt::{self, QUIET_CREATE, Settlement, WriteInDoubt, settle_write};
use tallyd::reconcile::shipment::{ClaimedLine, OrderFact};
use tallyd::reconcile::{Plan, create, shipment};

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
pub(crate) struct Wishes {
    pub(crate) kind: Kind,
    pub(crate) fault: Option<Fault>,
}

/// A change, and its true effects at the platform.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    state: State,
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

impl Machine for Wishes {
    type State = Wish;
    type Action = Action;

    fn start(&self) -> Wish {
        Wish {
            state: State::Pending,
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

    fn actions(&self, wish: &Wish) -> Vec<Action> {
        let mut actions = Vec::new();
        match wish.state {
            State::Pending => {
                actions.push(Action::Claim);
                actions.extend((!wish.was_braked).then_some(Action::Brake));
            }
            State::Sending => {
                actions.extend(ENDS.map(Action::Answer));
                actions.extend([End::LostBefore, End::LostAfter, End::LostLate].map(Action::Crash));
            }
            State::InDoubt => actions.extend(self.is_look_due(wish).then_some(Action::Look)),
            State::Held | State::Applied | State::Rejected | State::Cancelled => {}
        }
        actions.extend(wish.is_on_its_way.then_some(Action::Arrives));
        actions.extend((!wish.rival).then_some(Action::Rival));
        let time_matters = wish.is_on_its_way || wish.state == State::InDoubt;
        actions.extend((time_matters && wish.since < STEPS_MAX).then_some(Action::FiveMinutes));
        actions.extend(self.words(wish));
        actions
    }

    fn step(&self, wish: &Wish, action: &Action) -> Result<Wish, String> {
        let mut next = wish.clone();
        match *action {
            Action::Brake => {
                next.was_braked = true;
                next.go(State::Held, Some(Reason::Brake))?;
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
            Action::Retry | Action::Release => next.go(State::Pending, None)?,
            Action::Cancel => next.go(State::Cancelled, Some(Reason::Operator))?,
        }
        Ok(next)
    }

    fn check(&self, wish: &Wish) -> Result<(), String> {
        if wish.done > 1 && self.kind != Kind::QuantitySet {
            return Err("done twice".into());
        }
        if wish.state == State::Applied && wish.done == 0 {
            return Err("applied, and never done".into());
        }
        let is_lost = wish.state == State::Rejected && wish.done > 0 && self.kind != Kind::QuantitySet;
        if is_lost && wish.reason != Some(Reason::Operator) {
            return Err("rejected, and done all the same".into());
        }
        let is_claimed = wish.state.is_under_way();
        if wish.is_unknown && !is_claimed && wish.reason != Some(Reason::Undecided) {
            return Err("nobody knows what became of the last send, and nobody asks".into());
        }
        Ok(())
    }

    fn is_end(&self, wish: &Wish) -> bool {
        wish.state.is_settled()
    }
}

impl Wish {
    /// Makes a transition, if the product's table has it.
    fn go(&mut self, to: State, reason: Option<Reason>) -> Result<(), String> {
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
fn found(done: u8, rival: bool) -> Vec<create::Found> {
    let ours = (0..done).map(|n| create::Found { id: 100 + i64::from(n), name: NAME.into(), equal: true });
    let theirs = rival.then(|| create::Found { id: 9, name: NAME.to_lowercase(), equal: false });
    ours.chain(theirs).collect()
}

fn at(step: u8) -> Timestamp {
    Timestamp(0).plus(STEP * u32::from(step))
}

impl Wishes {
    fn operation(&self) -> Operation {
        match self.kind {
            Kind::ShipmentCreate => Operation::CreateShipments,
            Kind::QuantitySet => Operation::UpdateQuantityOnHand,
            _ => Operation::CreateProduct,
        }
    }

    /// Does the preflight, the product's plan, and the claim.
    fn claim(&self, wish: &mut Wish) -> Result<(), String> {
        if wish.is_unknown {
            return Err("sent again while nobody knows what became of the last send".into());
        }
        let stop = match self.kind {
            Kind::ShipmentCreate => stop(shipment::plan(&order(), OrderFact::Known(&[line(wish.left())]))),
            Kind::QuantitySet => None,
            _ => stop(create::plan(NAME, Some(&found(wish.done, wish.rival)))),
        };
        if let Some((state, reason)) = stop {
            return wish.go(state, Some(reason));
        }
        wish.go(State::Sending, None)?;
        (wish.since, wish.seen, wish.is_unknown) = (0, (wish.rival, wish.left()), true);
        wish.looks.clear();
        Ok(())
    }

    /// Applies the outcome of the call, as the client judges it.
    fn answer(&self, wish: &mut Wish, end: End) -> Result<(), String> {
        wish.done += u8::from(matches!(end, End::Done | End::BrokeAfter | End::LostAfter));
        wish.is_on_its_way = end == End::LostLate;
        let came = self.came(end);
        let (to, reason) = match classify(self.operation(), &came, at(0)) {
            Verdict::Accepted => self.told(&came.map(|answer| answer.body).unwrap_or_default()),
            _ if self.fault == Some(Fault::BrokenMeansRefused)
                && matches!(end, End::BrokeBefore | End::BrokeAfter) =>
            {
                (State::Rejected, Some(Reason::ServiceRefused))
            }
            verdict => moved(verdict),
        };
        wish.is_unknown = to == State::InDoubt;
        wish.go(to, reason)?;
        // A change that is refused in isolation is rejected, once it is pending again (`Deliver::refused`).
        if end == End::BadRequest { wish.go(State::Rejected, Some(Reason::ServiceRefused)) } else { Ok(()) }
    }

    /// Applies the next start, which finds the change `sending` (`Write::session_begin`).
    fn crash(&self, wish: &mut Wish, end: End) -> Result<(), String> {
        wish.done += u8::from(end == End::LostAfter);
        wish.is_on_its_way = end == End::LostLate;
        if self.fault == Some(Fault::CrashMeansPending) {
            return wish.go(State::Pending, Some(Reason::NotSent));
        }
        wish.go(State::InDoubt, Some(Reason::NoAnswer))
    }

    fn came(&self, end: End) -> Result<Response, TransportError> {
        let answer = |status, body: &str| Ok(Response { status, body: body.into(), ..Response::default() });
        let lost =
            |sent, kind| TransportError { sent, kind, what: "lost".into(), status: None, retry_after: None };
        match end {
            End::Done => answer(200, self.body(true)),
            End::Refused => answer(200, self.body(false)),
            End::Throttled => answer(429, ""),
            End::BadRequest => answer(400, r#"{"Message":"no"}"#),
            End::BrokeBefore | End::BrokeAfter => answer(500, "<html>"),
            End::NoConnection => Err(lost(Sent::No, FailureKind::Connect)),
            End::LostBefore | End::LostAfter | End::LostLate => Err(lost(Sent::Maybe, FailureKind::Timeout)),
        }
    }

    fn body(&self, done: bool) -> &'static str {
        match (self.kind, done) {
            (Kind::ShipmentCreate, true) => {
                r#"{"status":"Success","messages":[],"data":[{"Request":{"OrderId":5},"Shipment":{"Id":80,
                    "Items":[{"Id":81,"ShipmentId":80,"OrderLineItemId":7,"QuantityShipped":2}]},"WasSuccessful":true}]}"#
            }
            (Kind::ShipmentCreate, false) => {
                r#"{"status":"Success","data":[{"Request":{"OrderId":5},"WasSuccessful":false,"Messages":["no"]}]}"#
            }
            (Kind::QuantitySet, true) => r#"{"status":"Success","messages":[],"data":""}"#,
            (Kind::QuantitySet, false) => r#"{"status":"Failure","messages":["Index 0: no"],"data":""}"#,
            (_, true) => {
                r#"{"status":"Success","data":{"Product":{"Id":100,"Sku":"NEW-1"},"WasSuccessful":true,"Messages":[]}}"#
            }
            (_, false) => {
                r#"{"status":"Success","data":{"Product":null,"WasSuccessful":false,"Messages":["no"]}}"#
            }
        }
    }

    /// Decodes an answer of the expected form with the product's decoder.
    fn told(&self, body: &[u8]) -> (State, Option<Reason>) {
        use tallyd::client::wire::UpdateStatus;
        let outcome = match self.kind {
            Kind::ShipmentCreate => {
                decode_created_shipments(body).ok().and_then(|told| Some(told.records.first()?.outcome()))
            }
            Kind::QuantitySet => decode_update(body).ok().map(|told| match told.status {
                UpdateStatus::Success => Outcome::Done,
                UpdateStatus::Failure => Outcome::Refused,
                UpdateStatus::PartialSuccess | UpdateStatus::Unknown(_) => Outcome::Unclear,
            }),
            _ => decode_product_answer(body).ok().map(|told| told.outcome()),
        };
        match outcome {
            Some(Outcome::Done) => (State::Applied, None),
            Some(Outcome::Refused) => (State::Rejected, Some(Reason::ServiceRefused)),
            Some(Outcome::Unclear) | None => (State::InDoubt, Some(Reason::Unmatched)),
        }
    }

    /// Returns the decision of the checks so far.
    fn settlement(&self, wish: &Wish) -> Settlement<()> {
        // With the fault, the request counts as sent long ago.
        let sent_at = if self.fault == Some(Fault::NoQuietTime) { at(0).minus(QUIET_CREATE) } else { at(0) };
        let looks = wish
            .looks
            .iter()
            .map(|(step, done, rival)| (at(*step), Wish { done: *done, rival: *rival, ..wish.clone() }));
        match self.kind {
            Kind::ShipmentCreate => {
                let claimed =
                    [ClaimedLine { line_item_id: LINE, quantity: PARCEL, left_before: Some(wish.seen.1) }];
                let look = |(sent_at, then): (Timestamp, Wish)| shipment::Look {
                    sent_at,
                    left: BTreeMap::from([(LINE, then.left())]),
                };
                shipment::settle(&claimed, sent_at, &looks.map(look).collect::<Vec<_>>())
            }
            Kind::QuantitySet => {
                let quiet = doubt::quiet_quantity(STEP);
                let write = WriteInDoubt { before: Some(BEFORE), target: TARGET, sent_at, quiet };
                let look = |(sent_at, then): (Timestamp, Wish)| doubt::Look {
                    sent_at,
                    shown: doubt::Shown::Cell(Some(then.quantity())),
                };
                settle_write(&write, &looks.map(look).collect::<Vec<_>>(), &[]).map(|_| ())
            }
            _ if wish.looks.is_empty() => Settlement::LookAgain { not_before: sent_at },
            _ => {
                let seen: BTreeSet<i64> = wish.seen.0.then_some(9).into_iter().collect();
                let look = |(sent_at, then): (Timestamp, Wish)| create::Look {
                    sent_at,
                    found: Some(found(then.done, then.rival)),
                };
                create::settle(NAME, &seen, sent_at, &looks.map(look).collect::<Vec<_>>()).map(|_| ())
            }
        }
    }

    fn is_look_due(&self, wish: &Wish) -> bool {
        let looked_now = wish.looks.last().is_some_and(|(step, ..)| *step == wish.since);
        match self.settlement(wish) {
            Settlement::LookAgain { not_before } => !looked_now && not_before <= at(wish.since),
            Settlement::Landed(()) | Settlement::NotLanded | Settlement::Undecided { .. } => false,
        }
    }

    /// Makes a check and applies its decision (`settle/decide.rs`).
    fn look(&self, wish: &mut Wish) -> Result<(), String> {
        wish.looks.push((wish.since, wish.done, wish.rival));
        match self.settlement(wish) {
            Settlement::LookAgain { .. } => Ok(()),
            Settlement::Landed(()) => {
                wish.is_unknown = false;
                wish.go(State::Applied, None)
            }
            Settlement::NotLanded => {
                wish.is_unknown = false;
                wish.go(State::Pending, Some(Reason::NotLanded))
            }
            Settlement::Undecided { reason: Reason::LandedOrAnother, .. } => {
                wish.reason = Some(Reason::LandedOrAnother);
                Ok(())
            }
            Settlement::Undecided { reason, .. } => wish.go(State::Held, Some(reason)),
        }
    }

    fn stand<'a>(&self, wish: &Wish) -> Stand<'a> {
        Stand { key: "k", kind: self.kind, state: wish.state, reason: wish.reason }
    }

    /// Returns every true decision that the product accepts.
    fn words(&self, wish: &Wish) -> Vec<Action> {
        let stand = self.stand(wish);
        let is_true = |word: &Resolution| match word {
            Resolution::Landed | Resolution::Shipment(_) => wish.done > 0,
            Resolution::NotLanded => wish.done == 0 && !wish.is_on_its_way,
            Resolution::Mine | Resolution::Theirs | Resolution::Exactly(_) => true,
        };
        let words = [
            Resolution::Landed,
            Resolution::NotLanded,
            Resolution::Shipment(OURS),
            Resolution::Mine,
            Resolution::Theirs,
            Resolution::Exactly(TARGET),
        ];
        let sensible = words.into_iter().filter(|word| is_true(word) && stand.resolve(*word).is_ok());
        let mut actions: Vec<Action> = sensible.map(Action::Say).collect();
        actions.extend(stand.retry().is_ok().then_some(Action::Retry));
        let is_braked = wish.state == State::Held && wish.reason == Some(Reason::Brake);
        actions.extend(is_braked.then_some(Action::Release));
        // A person who knows of the effect does not withdraw the change; a person who does not has to look
        // first.
        let may_cancel = wish.state.may_become(State::Cancelled) && !wish.is_unknown;
        actions.extend(may_cancel.then_some(Action::Cancel));
        actions
    }

    /// Applies a decision (`store/outbox/resolve.rs`).
    fn said(&self, wish: &mut Wish, word: Resolution) -> Result<(), String> {
        let step = self.stand(wish).resolve(word)?;
        wish.is_unknown = false;
        match step {
            Step::Applied => wish.go(State::Applied, None),
            Step::Over => wish.go(State::Cancelled, Some(Reason::Landed)),
            Step::Again => wish.go(State::Pending, Some(Reason::NotLanded)),
            Step::Count(_) => wish.go(State::Pending, None),
            Step::Dropped => wish.go(State::Rejected, Some(Reason::Operator)),
            Step::Adopt(_) => {
                let claimed =
                    [ClaimedLine { line_item_id: LINE, quantity: PARCEL, left_before: Some(wish.seen.1) }];
                shipment::adopt(&claimed, &[(LINE, PARCEL)], None)?;
                wish.go(State::Applied, None)
            }
        }
    }
}

/// Returns the transition for an answer without records (`carry::unanswered`).
fn moved(verdict: Verdict) -> (State, Option<Reason>) {
    match verdict {
        Verdict::Transient | Verdict::InDoubt => (State::InDoubt, Some(Reason::NoAnswer)),
        Verdict::Throttled(_) | Verdict::NotSent | Verdict::Rejected { .. } | Verdict::Refused { .. } => {
            (State::Pending, Some(Reason::NotSent))
        }
        Verdict::Accepted => (State::InDoubt, Some(Reason::Unmatched)),
    }
}

/// Returns the transition for a plan that does not send.
fn stop<T>(plan: Plan<T>) -> Option<(State, Reason)> {
    match plan {
        Plan::Go(_) | Plan::Read => None,
        Plan::Held { reason, .. } => Some((State::Held, reason)),
        // The simulated platform answers completely, so a record that an answer lacks does not exist.
        Plan::Lacking { reason, .. } | Plan::Rejected { reason, .. } => Some((State::Rejected, reason)),
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
        warehouse_id: None,
    }
}
