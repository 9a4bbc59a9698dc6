//! The rows about orders and shipments: *Create shipments* to *Get warehouse allocation of an order line
//! item*.

use super::*;

pub(super) fn rows() -> Vec<Row> {
    [creates(), items(), tracking(), orders(), all_allocations()].into_iter().flatten().collect()
}

fn order(order_id: i64, lines: &[(i64, i64)]) -> ShipmentOrder {
    let line = |(id, quantity): &(i64, i64)| ShipmentOrderLine {
        line_item_id: LineItemId(*id),
        quantity: *quantity,
    };
    ShipmentOrder { order_id: OrderId(order_id), lines: Some(lines.iter().map(line).collect()) }
}

/// Returns the single created shipment of an answer, with its items as id, line and quantity.
fn shipped(reply: &CallReply) -> (Shipment, Vec<(ShipmentItemId, LineItemId, i64)>) {
    let mut created = decode_created_shipments(&reply.body).unwrap().records;
    assert_eq!((created[0].outcome(), created[0].order_id()), (WriteOutcome::Done, Some(OrderId(8001))));
    let shipment = created.remove(0).record.unwrap();
    let items = shipment.items.iter().map(|item| (item.id, item.line_item_id, item.quantity)).collect();
    (shipment, items)
}

fn creates() -> Vec<Row> {
    vec![
        cannot(
            "a whole order is shipped without naming lines",
            LINES_ALWAYS_NAMED,
            Verdict::Accepted,
            |reply| {
                let (_, items) = shipped(reply);
                let expected = [
                    (ShipmentItemId(8301), LineItemId(8101), 5),
                    (ShipmentItemId(8302), LineItemId(8102), 2),
                ];
                assert_eq!(items, expected);
            },
        ),
        accepted(
            "named quantities of named lines are shipped",
            |_| create_shipments(&[order(8001, &[(8101, 3), (8102, 2)])]),
            |reply| {
                let (shipment, items) = shipped(reply);
                let expected = [
                    (ShipmentItemId(8301), LineItemId(8101), 3),
                    (ShipmentItemId(8302), LineItemId(8102), 2),
                ];
                assert_eq!(items, expected);
                assert_eq!((shipment.id, shipment.order_id()), (ShipmentId(8201), Some(OrderId(8001))));
                assert_eq!(shipment.status(), Some("Unshipped"));
                assert_eq!(shipment.items[0].is_shipped(), Some(false));
                assert_eq!(shipment.fulfillment_warehouse_id, Some(WarehouseId(5101)));
            },
        ),
        cannot(
            "a line without Quantity ships what is left of it",
            LINES_ALWAYS_NAMED,
            Verdict::Accepted,
            |reply| {
                assert_eq!(shipped(reply).1, [(ShipmentItemId(8301), LineItemId(8101), 2)]);
            },
        ),
        cannot(
            "an order with shipments needs its lines named",
            LINES_ALWAYS_NAMED,
            Verdict::Accepted,
            |reply| {
                let created = decode_created_shipments(&reply.body).unwrap().records;
                assert_eq!(
                    (created.len(), created[0].outcome(), &created[0].record),
                    (1, WriteOutcome::Refused, &None)
                );
            },
        ),
        accepted(
            "of two orders one is shipped",
            |_| create_shipments(&[order(8001, &[(8101, 5)]), order(8002, &[(8103, 2)])]),
            |reply| {
                assert_eq!(shipped(reply).1, [(ShipmentItemId(8301), LineItemId(8101), 5)]);
                let refused = &decode_created_shipments(&reply.body).unwrap().records[1];
                assert_eq!(
                    (refused.outcome(), refused.order_id()),
                    (WriteOutcome::Refused, Some(OrderId(8002)))
                );
                assert_eq!(refused.messages.len(), 1);
            },
        ),
        not_accepted(
            "a shipment that fails at the platform",
            |_| create_shipments(&[order(8001, &[(8101, 5)])]),
            Verdict::InDoubt,
        ),
    ]
}

fn items() -> Vec<Row> {
    vec![
        accepted(
            "a shipment of which one item is on its way",
            |_| shipment_line_items(ShipmentId(8201), PageParams::FIRST),
            |reply| {
                let items = decode_shipment_line_items(&reply.body, ShipmentId(8201)).unwrap();
                let [sent, waiting] = &items.records[..] else { panic!("two items: {items:?}") };
                assert_eq!(
                    (sent.is_shipped(), sent.is_confirmed, sent.quantity),
                    (Some(true), Some(true), 5)
                );
                assert_eq!(sent.carrier, Some(Carrier { id: 2, name: Some("FedEx".to_owned()) }));
                assert_eq!(sent.tracking_number.as_deref(), Some("1Z007"));
                assert_eq!(sent.tracking_url.as_deref(), Some("https://track.example/7"));
                assert_eq!(sent.estimated_delivery, Timestamp::parse("2026-10-18"));
                assert_eq!(
                    (waiting.is_shipped(), &waiting.tracking_number, &waiting.carrier),
                    (Some(false), &None, &None)
                );
                assert_eq!(waiting.sku.as_deref(), Some("B-200"));
                assert!(!items.has_more());
            },
        ),
        accepted(
            "the second page of a shipment",
            |_| shipment_line_items(ShipmentId(8201), PageParams::new(2, 1).unwrap()),
            |reply| {
                let items = decode_shipment_line_items(&reply.body, ShipmentId(8201)).unwrap();
                assert_eq!((items.records.len(), items.records[0].id), (1, ShipmentItemId(8302)));
                assert!(!items.has_more());
            },
        ),
    ]
}

fn submission(shipment_id: i64, number: Option<&str>, lines: &[(i64, Option<&str>)]) -> TrackingSubmission {
    let line = |(id, number): &(i64, Option<&str>)| ShipmentItemTracking {
        item_id: ShipmentItemId(*id),
        carrier_id: None,
        tracking_number: number.map(str::to_owned),
        tracking_url: None,
        estimated_delivery_date: None,
    };
    TrackingSubmission {
        shipment_id: ShipmentId(shipment_id),
        carrier_id: None,
        tracking_number: number.map(str::to_owned),
        tracking_url: None,
        shipped_date: None,
        lines: lines.iter().map(line).collect(),
    }
}

fn outcomes(reply: &CallReply) -> Vec<(Option<ShipmentId>, WriteOutcome)> {
    let answers = decode_tracking_answers(&reply.body).unwrap().records;
    answers.iter().map(|answer| (answer.shipment_id(), answer.submission_outcome())).collect()
}

fn tracking() -> Vec<Row> {
    let done: fn(&CallReply) =
        |reply| assert_eq!(outcomes(reply), [(Some(ShipmentId(8201)), WriteOutcome::Done)]);
    vec![
        accepted(
            "each item has its own number",
            |_| {
                let mut whole = submission(8201, None, &[(8301, Some("1Z001")), (8302, Some("1Z002"))]);
                whole.carrier_id = Some(2);
                whole.tracking_url = Some("https://track.example/1".to_owned());
                whole.shipped_date = Some("2026-10-15".to_owned());
                whole.lines[0].estimated_delivery_date = Some("2026-10-18T12:00:00".to_owned());
                whole.lines[1].carrier_id = Some(3);
                submit_tracking(&[whole])
            },
            done,
        ),
        accepted(
            "items fall back to the base number",
            |_| submit_tracking(&[submission(8201, Some("1Z003"), &[(8301, None), (8302, None)])]),
            done,
        ),
        cannot("without lines all that remains is sent", LINES_ALWAYS_NAMED, Verdict::Accepted, done),
        accepted(
            "an item without any number is not sent",
            |_| submit_tracking(&[submission(8201, None, &[(8301, None)])]),
            |reply| assert_eq!(outcomes(reply), [(Some(ShipmentId(8201)), WriteOutcome::Refused)]),
        ),
        accepted(
            "of two shipments one is known",
            |_| {
                submit_tracking(&[
                    submission(8201, None, &[(8301, Some("1Z005"))]),
                    submission(77, None, &[(78, Some("1Z006"))]),
                ])
            },
            |reply| {
                let expected = [
                    (Some(ShipmentId(8201)), WriteOutcome::Done),
                    (Some(ShipmentId(77)), WriteOutcome::Refused),
                ];
                assert_eq!(outcomes(reply), expected);
            },
        ),
    ]
}

fn orders() -> Vec<Row> {
    vec![
        accepted(
            "an order of which some is tied to a shipment",
            |_| get_order_line_items(OrderId(8001)),
            |reply| {
                let lines = decode_order_line_items(&reply.body, OrderId(8001)).unwrap();
                let first = lines.records[0].to_order_line(OrderId(8001));
                assert_eq!(
                    (first.line_item_id, first.quantity_sold, first.quantity_left),
                    (LineItemId(8101), 5, Some(2))
                );
                assert_eq!((first.sku, first.unit_price), (Some(sku("A-100")), Some(20.5)));
                assert_eq!((first.order_id, first.warehouse_id), (OrderId(8001), Some(WarehouseId(5101))));
                assert_eq!(lines.records[1].quantity_left, Some(2));
                assert_eq!(lines.page.and_then(|page| page.total_entries), Some(2));
            },
        ),
        accepted(
            "an order the company does not have",
            |_| get_order_line_items(OrderId(77)),
            |reply| {
                let lines = decode_order_line_items(&reply.body, OrderId(77)).unwrap();
                assert_eq!((lines.records.len(), lines.parked.len()), (0, 0));
            },
        ),
    ]
}

fn all_allocations() -> Vec<Row> {
    vec![
        accepted(
            "a line is taken from two warehouses",
            |_| warehouse_allocation(OrderId(8003), LineItemId(8104)),
            |reply| {
                assert_eq!(
                    allocations(reply, 8104),
                    [("A-100".to_owned(), 5101, 23), ("A-100".to_owned(), 5102, 2)]
                )
            },
        ),
        accepted(
            "a kit is allocated by its components",
            |_| warehouse_allocation(OrderId(8002), LineItemId(8103)),
            |reply| {
                assert_eq!(
                    allocations(reply, 8103),
                    [("A-100".to_owned(), 5101, 2), ("B-200".to_owned(), 5101, 1)]
                )
            },
        ),
        not_accepted(
            "an order that is not found",
            |_| warehouse_allocation(OrderId(77), LineItemId(8101)),
            Verdict::Rejected { status: 404 },
        ),
    ]
}

fn allocations(reply: &CallReply, line: i64) -> Vec<(String, i64, i64)> {
    let allocations = decode_allocations(&reply.body, LineItemId(line)).unwrap().records;
    let taken =
        |part: &LineAllocation| (part.sku.as_ref().unwrap().to_string(), part.warehouse_id.0, part.quantity);
    allocations.iter().map(taken).collect()
}
