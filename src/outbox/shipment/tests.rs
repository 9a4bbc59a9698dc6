//! Tests of shipment and tracking bodies, and of the id space of their lines.

use super::super::body::tests::assert_details;
use super::super::{ChangeBody, parse_body};
use super::*;

fn shipment(body: &str) -> ShipmentCreate {
    let ChangeBody::ShipmentCreate(create) = parse_body("shipment.create", body).unwrap() else { panic!() };
    create
}

fn tracking(body: &str) -> TrackingSubmit {
    let ChangeBody::TrackingSubmit(submit) = parse_body("tracking.submit", body).unwrap() else { panic!() };
    submit
}

#[test]
fn a_shipment_names_its_order_and_perhaps_lines() {
    let body = r#"{"order_id":5,"lines":[{"line_item_id":1,"quantity":2.0},{"line_item_id":2}]}"#;
    let line = |id, quantity| ShipmentLine { line_item_id: LineItemId(id), quantity };
    assert_eq!(shipment(body).lines, Some(vec![line(1, Some(2)), line(2, None)]));
    assert_eq!(shipment(r#"{"order_id":5}"#), ShipmentCreate { order_id: OrderId(5), lines: None });
}

#[test]
fn a_shipment_that_makes_no_sense_names_its_field() {
    let cases = [
        (r#"{}"#, "`order_id` is missing"),
        (r#"{"order_id":"5"}"#, "`order_id` is \"5\""),
        (r#"{"order_id":5,"line":[]}"#, "did you mean `lines`?"),
        (r#"{"order_id":5,"lines":[]}"#, "`lines` is empty"),
        (r#"{"order_id":5,"lines":{}}"#, "`lines` is {}; it must be a list"),
        (r#"{"order_id":5,"lines":[7]}"#, "`lines[0]` is 7"),
        (r#"{"order_id":5,"lines":[{"quantity":1}]}"#, "`lines[0].line_item_id` is missing"),
        (r#"{"order_id":5,"lines":[{"line_item_id":1,"quantity":0}]}"#, "`lines[0].quantity` is 0"),
        (r#"{"order_id":5,"lines":[{"line_item_id":1,"quantity":1.5}]}"#, "`lines[0].quantity` is 1.5"),
        (r#"{"order_id":5,"lines":[{"line_item_id":1},{"line_item_id":1,"quantity":1}]}"#, "names 1 twice"),
        (r#"{"order_id":5,"lines":[{"line_item_id":1,"qty":1}]}"#, "`lines[0].qty`"),
    ];
    assert_details("shipment.create", cases);
}

#[test]
fn lines_speak_the_id_space_of_what_names_the_shipment() {
    let by_id = tracking(r#"{"shipment_id":9,"tracking_number":"T","lines":[{"line_item_id":1}]}"#);
    assert_eq!(by_id.shipment, ShipmentRef::Id(ShipmentId(9)));
    assert_eq!(by_id.lines.unwrap()[0].line, LineRef::Item(ShipmentItemId(1)));
    let by_key = tracking(r#"{"shipment_key":"ship-1","tracking_number":"T","lines":[{"line_item_id":1}]}"#);
    assert_eq!(by_key.shipment, ShipmentRef::Key("ship-1".into()));
    assert_eq!(by_key.lines.unwrap()[0].line, LineRef::OrderLine(LineItemId(1)));
}

#[test]
fn every_field_of_a_tracking_change_stays_as_written() {
    let submit = tracking(
        r#"{"shipment_id":9,"carrier_id":3,"tracking_number":" 1Z 9 ","tracking_url":"https://example.org/1Z9",
            "shipped_date":"2031-05-04","estimated_delivery_date":"2031-05-06T12:00:00"}"#,
    );
    let info = TrackingInfo {
        carrier_id: Some(3),
        tracking_number: Some(" 1Z 9 ".into()),
        tracking_url: Some("https://example.org/1Z9".into()),
        estimated_delivery_date: Some("2031-05-06T12:00:00".into()),
    };
    assert_eq!((submit.info, submit.shipped_date.as_deref(), submit.lines), (info, Some("2031-05-04"), None));
}

#[test]
fn a_tracking_number_stands_at_the_top_or_on_every_line() {
    let cases = [
        (r#"{"shipment_id":9,"tracking_number":"T"}"#, ""),
        (r#"{"shipment_id":9,"lines":[{"line_item_id":1,"tracking_number":"T"}]}"#, ""),
        (r#"{"shipment_id":9,"tracking_number":"T","lines":[{"line_item_id":1}]}"#, ""),
        (r#"{"shipment_id":9}"#, "`tracking_number` is missing"),
        (
            r#"{"shipment_id":9,"lines":[{"line_item_id":1,"tracking_number":"T"},{"line_item_id":2}]}"#,
            "`tracking_number` is missing",
        ),
        (r#"{"shipment_id":9,"tracking_number":""}"#, "`tracking_number` is \"\""),
        (r#"{"shipment_id":9,"tracking_number":12}"#, "`tracking_number` is 12"),
        (r#"{"shipment_id":9,"tracking_number":"a\nb"}"#, "one line of text"),
    ];
    assert_details("tracking.submit", cases);
}

#[test]
fn an_invalid_tracking_change_names_its_field() {
    let cases = [
        (r#"{"tracking_number":"T"}"#, "`shipment_id` is missing"),
        (r#"{"shipment_id":1,"shipment_key":"k","tracking_number":"T"}"#, "both present"),
        (r#"{"shipment_key":" ","tracking_number":"T"}"#, "`shipment_key` is \" \""),
        (r#"{"shipment_id":1.5,"tracking_number":"T"}"#, "`shipment_id` is 1.5"),
        (r#"{"shipment_id":1,"tracking_no":"T"}"#, "did you mean `tracking_number`?"),
        (r#"{"shipment_id":1,"tracking_number":"T","shipped_date":"today"}"#, "`shipped_date` is \"today\""),
        (r#"{"shipment_id":1,"tracking_number":"T","carrier_id":0}"#, "`carrier_id` is 0"),
        (
            r#"{"shipment_id":1,"tracking_number":"T","lines":[{"line_item_id":1,"quantity":1}]}"#,
            "`lines[0].quantity`",
        ),
        (
            r#"{"shipment_id":1,"tracking_number":"T","lines":[{"line_item_id":1},{"line_item_id":1}]}"#,
            "1 twice",
        ),
    ];
    assert_details("tracking.submit", cases);
}
