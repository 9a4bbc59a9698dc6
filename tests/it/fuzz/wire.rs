//! Answers of the platform: any bytes, and valid answers with places changed.
//!
//! An input is the operation (one byte), the outcome (one byte), the number of changed places and the places,
//! then the body. Invariants: nothing panics; only a 2xx is accepted. An accepted answer to a read can be
//! decoded, and none of its records is lost (each is read or parked) or invented (only an object is a
//! record). A wait lies between a second and a day.

use super::choices::Choices;
use crate::client::wire::{self, DecodedAnswer, MalformedBody, StoredRequest};
use crate::client::{CallReply, FailureKind, PlatformResponse, ThrottleKind, TransportError, Verdict};
use crate::model::{CallEffect, LineItemId, Month, Operation, OrderId, ShipmentId, StorefrontId, Timestamp};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const STATUSES: [u16; 16] = [200, 200, 200, 200, 201, 204, 302, 400, 401, 403, 404, 408, 413, 429, 500, 503];
const WAITS: [Option<&str>; 6] = [
    None,
    Some("7"),
    Some(""),
    Some("99999999999999999999"),
    Some("-1"),
    Some("Wed, 21 Oct 2026 07:28:00 GMT"),
];
/// Names of fields and values of the interface, for the changed places.
const WORDS: &[&str] = &[
    "Id",
    "Sku",
    "Name",
    "status",
    "messages",
    "data",
    "pagination",
    "QuantityOnHand",
    "Warehouses",
    "WarehouseId",
    "WasSuccessful",
    "Messages",
    "Request",
    "Shipment",
    "Items",
    "Product",
    "Success",
    "Failure",
    "Error",
    "28",
    "28.0",
    "2026-10-15T12:00:00",
    "Partial Success",
    "",
    " ",
    "A-100",
    "true",
    "N",
];

/// Judges and decodes one answer.
pub(crate) fn check(data: &[u8]) {
    let mut choices = Choices::new(data);
    let operation = choices.of(Operation::ALL);
    let outcome = choices.byte();
    let changes = choices.below(4);
    let decisions: Vec<[u8; 6]> = (0..changes).map(|_| std::array::from_fn(|_| choices.byte())).collect();
    let body = changed(choices.rest(), &decisions);
    let reply = CallReply::from_outcome(operation, came(outcome, &body), Timestamp(1_792_065_600_000));
    judged(&reply);
    if reply.verdict == Verdict::Accepted {
        read_whole(operation, &reply.body);
    }
    drop(decode(operation, &body));
    let request = StoredRequest { operation, target: operation.path(), body: &body };
    drop((
        request.skus(),
        request.order(),
        request.quantities(),
        request.shipped_orders(),
        request.product(),
    ));
}

/// Returns a JSON body with its places changed; another body stays as it is.
fn changed(body: &[u8], decisions: &[[u8; 6]]) -> Vec<u8> {
    let Some(mut value) = serde_json::from_slice::<Value>(body).ok().filter(|_| !decisions.is_empty()) else {
        return body.to_vec();
    };
    for bytes in decisions {
        Choices::new(bytes).change(&mut value, WORDS);
    }
    value.to_string().into_bytes()
}

/// Returns the outcome of the call: an answer, whole or cut, or none.
fn came(outcome: u8, body: &[u8]) -> Result<PlatformResponse, TransportError> {
    let status = STATUSES[usize::from(outcome & 15)];
    let retry_after = WAITS[usize::from(outcome >> 4) % WAITS.len()].map(str::to_owned);
    if outcome >> 4 < 14 {
        return Ok(PlatformResponse { status, retry_after, body: body.to_vec() });
    }
    let what = "lost".to_owned();
    // An answer's head proves that the request was sent.
    Err(match (outcome & 1 == 0, outcome & 2 > 0) {
        (true, _) => TransportError { kind: FailureKind::Unsent, what, status: None, retry_after: None },
        (false, head) => TransportError {
            kind: FailureKind::Cut,
            what,
            status: head.then_some(status),
            retry_after: retry_after.filter(|_| head),
        },
    })
}

fn judged(reply: &CallReply) {
    let is_success = reply.status.is_some_and(|status| (200..300).contains(&status));
    match reply.verdict {
        Verdict::Accepted => assert!(is_success && reply.failure.is_none(), "{reply:?}"),
        Verdict::Throttled(ThrottleKind::Rate { wait } | ThrottleKind::BadRequests { wait }) => {
            assert!((Duration::from_secs(1)..=DAY).contains(&wait), "a wait of {wait:?}");
        }
        Verdict::Transient => {
            assert_eq!(reply.operation.effect(), CallEffect::Read, "a write is never sent again blindly")
        }
        Verdict::InDoubt => assert_eq!(reply.operation.effect(), CallEffect::Write),
        Verdict::Rejected { status } => assert!((400..500).contains(&status) && !is_success),
        Verdict::Throttled(ThrottleKind::Concurrency) | Verdict::Refused | Verdict::NotSent => {
            assert!(!is_success)
        }
    }
    let answer = reply.message.as_ref().map(|message| message.chars().count());
    assert!(answer.is_none_or(|chars| (1..=300).contains(&chars)), "{:?}", reply.message);
    assert_eq!(reply.message.is_none(), reply.verdict == Verdict::Accepted);
}

/// Asserts that every record of an accepted list is read or parked, and that only objects are records.
fn read_whole(operation: Operation, body: &[u8]) {
    let Some(counts) = decode(operation, body) else {
        // Any object may be a work queue; the decoder rejects an object without a single count.
        let is_judged_later = operation.effect() == CallEffect::Write || operation == Operation::WorkQueue;
        assert!(is_judged_later, "an accepted read that cannot be decoded: {}", shown(body));
        return;
    };
    let Some(items) = items(operation, body) else { return };
    let objects = items.iter().filter(|item| item.get().starts_with('{')).count();
    let parked: BTreeSet<usize> = counts.parked.iter().copied().collect();
    assert!(counts.records <= objects, "{} records of {objects} objects: {}", counts.records, shown(body));
    assert!(parked.iter().all(|index| *index < items.len()), "parked beyond the list: {}", shown(body));
    assert!(counts.records + parked.len() >= items.len(), "a record was lost: {}", shown(body));
}

/// Returns the raw records of an answer, if its operation lists records.
fn items(operation: Operation, body: &[u8]) -> Option<Vec<Box<RawValue>>> {
    if operation.effect() == CallEffect::Write || operation == Operation::WorkQueue {
        return None;
    }
    if operation == Operation::GetProductBalances {
        return serde_json::from_slice(body).ok();
    }
    #[derive(serde::Deserialize)]
    struct Envelope {
        data: Option<Vec<Box<RawValue>>>,
    }
    Some(serde_json::from_slice::<Envelope>(body).ok()?.data.unwrap_or_default())
}

/// A decoder's result for a list.
struct Counts {
    records: usize,
    parked: Vec<usize>,
}

impl Counts {
    fn of<T>(decoded: Result<DecodedAnswer<T>, MalformedBody>) -> Option<Self> {
        let decoded = decoded.map_err(|error| assert!(!error.to_string().is_empty())).ok()?;
        let _goes_on = decoded.has_more();
        Some(Self {
            records: decoded.records.len(),
            parked: decoded.parked.iter().map(|parked| parked.index).collect(),
        })
    }

    /// Returns the count of an answer that is a single record; `None` if it cannot be decoded.
    fn one<T>(decoded: Result<T, MalformedBody>) -> Option<Self> {
        decoded.ok().map(|_| Self { records: 1, parked: Vec::new() })
    }
}

fn decode(operation: Operation, body: &[u8]) -> Option<Counts> {
    match operation {
        Operation::CreateProduct | Operation::UpdateProduct => Counts::one(wire::decode_product_answer(body)),
        Operation::UpdateQuantityOnHand => Counts::one(wire::decode_update(body)),
        Operation::GetProducts => Counts::of(wire::decode_products(body)),
        Operation::GetProductBalances => Counts::of(wire::decode_balances(body)),
        Operation::TopSelling => Counts::of(wire::decode_top_selling(body, Month::new(2026, 9).unwrap())),
        Operation::KitComponents => Counts::of(wire::decode_kit_components(body)),
        Operation::CreateShipments => Counts::of(wire::decode_created_shipments(body)),
        Operation::SubmitTracking => Counts::of(wire::decode_tracking_answers(body)),
        Operation::ShipmentLineItems => Counts::of(wire::decode_shipment_line_items(body, ShipmentId(1))),
        Operation::GetOrderLineItems => Counts::of(wire::decode_order_line_items(body, OrderId(1))),
        Operation::WarehouseAllocation => Counts::of(wire::decode_allocations(body, LineItemId(1))),
        Operation::CreateWarehouse => Counts::one(wire::decode_created_warehouse(body)),
        Operation::ListWarehouses => Counts::of(wire::decode_warehouses(body)),
        Operation::ListSuppliers => Counts::of(wire::decode_suppliers(body)),
        Operation::ListStorefronts => Counts::of(wire::decode_storefronts(body)),
        Operation::CreateListingTemplate => Counts::one(wire::decode_created_template(body)),
        Operation::ListListingTemplates => Counts::of(wire::decode_listing_templates(body, StorefrontId(1))),
        Operation::BusinessHealth => Counts::of(wire::decode_business_health(body)),
        Operation::WorkQueue => Counts::one(wire::decode_work_queue(body)),
    }
}

fn shown(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}
