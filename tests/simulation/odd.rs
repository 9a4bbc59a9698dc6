//! Oddities of the platform beyond the faults of the network.
//!
//! They are entries that always fail, a lapsed account, a platform that fails for minutes, orders that show
//! something else, and odd answers. All of it stands between the daemon and the sandbox, which is not
//! involved. A failed call never reaches the sandbox. An odd answer is an answer of the sandbox, rewritten
//! ([`super::rewrite`]).

use super::rewrite::Oddity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tallyd::client::PlatformRequest;
use tallyd::model::{CallEffect, Operation};

/// Form of a failure without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// An answer with this status.
    Status(u16),
    /// An HTML page with 200.
    Html,
    /// A list without records.
    Empty,
    /// A head of 200 and half a body.
    Cut,
    /// A dropped connection.
    Dropped,
    /// No answer.
    Silent,
}

impl How {
    /// Failures of a single entry.
    pub const OF_ENTRIES: [How; 8] = [
        How::Status(500),
        How::Status(404),
        How::Status(422),
        How::Status(403),
        How::Html,
        How::Cut,
        How::Dropped,
        How::Silent,
    ];
    /// Failures of the whole platform.
    pub const OF_SICKNESS: [How; 5] =
        [How::Status(500), How::Status(404), How::Html, How::Empty, How::Dropped];

    /// Returns true if the failure is a refusal of the content, which proves that it had no effect.
    pub fn is_refusal(self) -> bool {
        matches!(self, How::Status(400..=499))
    }
}

/// An entry, and the operation that fails for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poison {
    pub operation: Operation,
    /// Text of the entry in the body, with its quotes, or in the path.
    pub entry: String,
    pub how: How,
}

impl Poison {
    fn is_in(&self, request: &PlatformRequest) -> bool {
        let body = request.body.as_deref().unwrap_or_default();
        let names = |text: &[u8]| text.windows(self.entry.len()).any(|part| part == self.entry.as_bytes());
        request.operation == self.operation && (names(body) || names(request.path.as_bytes()))
    }
}

/// An entry that always fails, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Reads that name the SKU.
    Sku(String),
    /// Updates that hold an entry of the SKU.
    Entry(String),
    /// Reads of the order.
    Order(i64),
    /// Creates of shipments that hold one for the order.
    Parcel(i64),
}

impl Subject {
    /// Returns the calls that fail for the entry.
    pub fn poisons(&self, how: How) -> Vec<Poison> {
        let poison = |operation, entry: String| Poison { operation, entry, how };
        let named = |sku: &String| Value::from(sku.as_str()).to_string();
        match self {
            Subject::Sku(sku) => [Operation::GetProductBalances, Operation::GetProducts]
                .map(|operation| poison(operation, named(sku)))
                .into(),
            Subject::Entry(sku) => vec![poison(Operation::UpdateQuantityOnHand, named(sku))],
            Subject::Order(order) => vec![
                poison(Operation::GetOrderLineItems, format!("\"OrderId\":{order}")),
                poison(Operation::WarehouseAllocation, format!("/orders/{order}/")),
            ],
            Subject::Parcel(order) => {
                vec![poison(Operation::CreateShipments, format!("\"OrderId\":{order}"))]
            }
        }
    }
}

/// A lapsed account: updates of quantities are answered 400, other calls 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// Failure of the work queue, the call that proves a key.
    pub probe: How,
    /// True if reads are still answered, as by a cache in front of the platform.
    pub reads_work: bool,
}

/// The oddities in force.
#[derive(Clone, Debug, Default)]
pub struct Odd {
    /// Percentage of the reads with an odd answer, by oddity.
    pub rates: BTreeMap<Oddity, i64>,
    pub poisons: Vec<Poison>,
    /// Failure of every call.
    pub sick: Option<How>,
    /// The lapse of the account.
    pub lapse: Option<Lapse>,
    /// Cancelled orders, which have no lines any more.
    pub emptied: BTreeSet<i64>,
    /// Orders that a colleague shipped completely; those shipments may be cancelled.
    pub closed: BTreeSet<i64>,
    /// Orders whose allocations name another product than their lines, by its SKU and id.
    pub substituted: BTreeMap<i64, (String, i64)>,
    /// Last answer of each operation, with its subject; rests of lists of which a record moved between two pages, with
    /// the total that their second pages state.
    pub last: BTreeMap<&'static str, (String, Value)>,
    pub moved: BTreeMap<String, (i64, Vec<Value>)>,
}

impl Odd {
    /// Ends the oddities of calls and answers; orders stay as they are.
    pub fn calm(&mut self) {
        let Self { rates, poisons, sick, lapse, substituted, last, moved, .. } = self;
        last.clear();
        moved.clear();
        rates.clear();
        poisons.clear();
        substituted.clear();
        (*sick, *lapse) = (None, None);
    }

    /// Ends the failure of an entry.
    pub fn cure(&mut self, subject: &Subject) {
        self.poisons.retain(|poison| !subject.poisons(poison.how).contains(poison));
    }

    /// Returns true if nothing but single entries fails.
    pub fn is_fair(&self) -> bool {
        self.rates.keys().all(|oddity| *oddity == Oddity::Float)
            && self.sick.is_none()
            && self.lapse.is_none()
    }

    /// Returns the failure of the call, if there is one.
    pub fn troubles(&self, request: &PlatformRequest) -> Option<How> {
        if self.sick.is_some() {
            return self.sick;
        }
        match (self.lapse, request.operation) {
            (Some(lapse), Operation::WorkQueue) => return Some(lapse.probe),
            (Some(_), Operation::UpdateQuantityOnHand) => return Some(How::Status(400)),
            (Some(lapse), of) if of.effect() == CallEffect::Write || !lapse.reads_work => {
                return Some(How::Status(403));
            }
            _ => {}
        }
        self.poisons.iter().find(|poison| poison.is_in(request)).map(|poison| poison.how)
    }
}
