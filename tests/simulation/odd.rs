//! Oddities of the service, beyond what the way does to a call: entries that always fail, an account that lapsed, a
//! platform that is sick for some minutes, orders that show something else, answers that are not as they should be.
//!
//! All of it stands between the daemon and the sandbox, which knows nothing of it: a call that is troubled never reaches
//! it, an answer that is odd is one of its own, rewritten ([`super::rewrite`]).

use super::rewrite::Oddity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tallyd::client::Request;
use tallyd::model::{Effect, Operation};

/// The way in which a call fails; nothing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is answered with this status.
    Status(u16),
    /// A page for people, with 200.
    Html,
    /// A list without records.
    Empty,
    /// A head of 200 and half a body.
    Cut,
    /// The connection drops.
    Dropped,
    /// No answer ever comes.
    Silent,
}

impl How {
    /// Each way in which one entry fails.
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
    /// Each way in which a sick platform answers.
    pub const OF_SICKNESS: [How; 5] =
        [How::Status(500), How::Status(404), How::Html, How::Empty, How::Dropped];

    /// True if it reads as a refusal of the content, so that the caller knows that nothing was done.
    pub fn is_refusal(self) -> bool {
        matches!(self, How::Status(400..=499))
    }
}

/// An entry, and the operation that fails for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poison {
    pub operation: Operation,
    /// As it stands in the body, quotes and all, or in the path.
    pub entry: String,
    pub how: How,
}

impl Poison {
    fn is_in(&self, request: &Request) -> bool {
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
    /// The calls that fail for it.
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

/// An account that lapsed: updates of quantities are answered 400, others 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// The work queue, by which a key is proved, fails in this way.
    pub probe: How,
    /// Reads are still answered, as by a cache before the service.
    pub reads_work: bool,
}

/// The oddities of the moment.
#[derive(Clone, Debug, Default)]
pub struct Odd {
    /// Percent of the reads whose answer is odd, by how.
    pub rates: BTreeMap<Oddity, i64>,
    pub poisons: Vec<Poison>,
    /// Every call fails in this way.
    pub sick: Option<How>,
    /// The account lapsed.
    pub lapse: Option<Lapse>,
    /// Orders that were cancelled: they have no lines any more.
    pub emptied: BTreeSet<i64>,
    /// Orders of which a colleague made parcels of all that was left, which he may cancel.
    pub closed: BTreeSet<i64>,
    /// Orders whose allocations name another product than their lines, by its SKU and id.
    pub substituted: BTreeMap<i64, (String, i64)>,
}

impl Odd {
    /// Nothing is wrong with calls or answers; orders stay as they are.
    pub fn calm(&mut self) {
        let Self { rates, poisons, sick, lapse, substituted, .. } = self;
        rates.clear();
        poisons.clear();
        substituted.clear();
        (*sick, *lapse) = (None, None);
    }

    /// The entry works again.
    pub fn cure(&mut self, subject: &Subject) {
        self.poisons.retain(|poison| !subject.poisons(poison.how).contains(poison));
    }

    /// True if only entries fail, and these alone.
    pub fn is_fair(&self) -> bool {
        self.rates.keys().all(|oddity| *oddity == Oddity::Float)
            && self.sick.is_none()
            && self.lapse.is_none()
    }

    /// The way in which the call fails, if it does.
    pub fn troubles(&self, request: &Request) -> Option<How> {
        if self.sick.is_some() {
            return self.sick;
        }
        match (self.lapse, request.operation) {
            (Some(lapse), Operation::WorkQueue) => return Some(lapse.probe),
            (Some(_), Operation::UpdateQuantityOnHand) => return Some(How::Status(400)),
            (Some(lapse), of) if of.effect() == Effect::Write || !lapse.reads_work => {
                return Some(How::Status(403));
            }
            _ => {}
        }
        self.poisons.iter().find(|poison| poison.is_in(request)).map(|poison| poison.how)
    }
}
