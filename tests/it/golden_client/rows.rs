//! The rows of the golden exchanges: the input of the client's request, and the expected reading of the
//! answer.
//!
//! Each exchange has one row. A row has in the client's types the content that the exchange has as JSON.
//! Where people hand over the platform's own JSON (products, warehouses, templates), the body is taken from
//! the exchange.

mod lists;
mod shipping;
mod stock;

use crate::client::wire::{self, *};
use crate::client::{CallReply, PlatformRequest, ThrottleKind, Verdict};
use crate::it::contract_support::Exchange;
use crate::model::{
    LineItemId, OrderId, ProductId, Quantity, ShipmentId, ShipmentItemId, Sku, StorefrontId, Timestamp,
    WarehouseId,
};
use serde_json::Value;
use std::time::Duration;

type Build = fn(&Exchange) -> PlatformRequest;

/// The client's way to the request of an exchange.
pub(crate) enum Writing {
    /// Builds and sends the request.
    Sends(Build),
    /// Has no builder for the request, for this reason.
    Cannot(#[allow(dead_code, reason = "for whoever reads the row")] &'static str),
}

/// The client's handling of one exchange.
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) writing: Writing,
    pub(crate) verdict: Verdict,
    /// Check of the reading of the answer.
    pub(crate) read: fn(&CallReply),
}

/// Returns the row of a request that is sent and accepted.
fn accepted(title: &'static str, build: Build, read: fn(&CallReply)) -> Row {
    Row { title, writing: Writing::Sends(build), verdict: Verdict::Accepted, read }
}

/// Returns the row of a request that is sent and not accepted.
fn not_accepted(title: &'static str, build: Build, verdict: Verdict) -> Row {
    Row { title, writing: Writing::Sends(build), verdict, read: has_message }
}

/// Returns the row of a request that the client never builds.
fn cannot(title: &'static str, why: &'static str, verdict: Verdict, read: fn(&CallReply)) -> Row {
    Row { title, writing: Writing::Cannot(why), verdict, read }
}

const MAIN: WarehouseId = WarehouseId(5101);
const SECOND: WarehouseId = WarehouseId(5102);
const REJECTED: Verdict = Verdict::Rejected { status: 400 };
const KEY_REFUSED: Verdict = Verdict::Refused;
const ID_REFUSED: Verdict = Verdict::Rejected { status: 403 };
const LINES_ALWAYS_NAMED: &str = "the client always names lines and quantities";
const KEYS_ALWAYS_SENT: &str = "the client always sends both keys";

/// Asserts that an answer that was not accepted has a message for a person.
fn has_message(reply: &CallReply) {
    assert!(reply.message.as_ref().is_some_and(|message| message.len() > 10), "{reply:?}");
}

fn body(exchange: &Exchange) -> &Value {
    exchange.request.body.as_ref().expect("the exchange has a body")
}

fn sku(text: &str) -> Sku {
    Sku::new(text).expect("a SKU")
}

pub(crate) fn rows() -> Vec<Row> {
    [stock::rows(), shipping::rows(), lists::rows(), refusals()].into_iter().flatten().collect()
}

fn refusals() -> Vec<Row> {
    let ask: Build = |_| wire::work_queue();
    let seconds = Duration::from_secs;
    vec![
        cannot("without an integration key", KEYS_ALWAYS_SENT, KEY_REFUSED, has_message),
        not_accepted("with an unknown integration key", ask, KEY_REFUSED),
        cannot("without a gateway key", KEYS_ALWAYS_SENT, KEY_REFUSED, has_message),
        not_accepted("with the key of a company without subscription", ask, KEY_REFUSED),
        not_accepted("a marketplace application without its id", ask, KEY_REFUSED),
        not_accepted("a marketplace application with the id of another", ask, KEY_REFUSED),
        accepted("a marketplace application with its id", ask, |reply| {
            assert_eq!(decode_work_queue(&reply.body).unwrap().iter().flatten().count(), 12);
        }),
        not_accepted(
            "the 121st call of a minute",
            ask,
            Verdict::Throttled(ThrottleKind::Rate { wait: seconds(60) }),
        ),
        not_accepted(
            "the fourth simultaneous call of an operation",
            ask,
            Verdict::Throttled(ThrottleKind::Concurrency),
        ),
        not_accepted(
            "a call after 500 bad requests in a day",
            ask,
            Verdict::Throttled(ThrottleKind::BadRequests { wait: seconds(86_100) }),
        ),
    ]
}
