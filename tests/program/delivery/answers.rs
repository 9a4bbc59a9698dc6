//! Answers that lack a list, name another subject, or hold a field that makes no sense.
//!
//! Nothing that an answer lacks is gone, and nothing of another subject is taken for the one asked for.

use super::creates::{product, update_of};
use super::support::{BALANCES, Dock, SHIP, UPDATE};
use super::told::{Rules, data, told};
use serde_json::{Value, json};
use std::time::Duration;
use tallyd::client::{PlatformRequest, PlatformResponse};
use tallyd::daemon::run_job;
use tallyd::model::{JobKind, Operation, RunTrigger};

const ALLOCATION: &str = "GET /api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation";
const SUM: &str = "SELECT CAST(sum(quantity) AS BIGINT) FROM stock";

/// Reads all balances; then changes the first record of each answer.
async fn changed_balances(change: impl Fn(&mut Value) + Send + 'static) -> (Dock, i64) {
    let (dock, rules) = told().await;
    dock.track_all_skus().await;
    dock.run(JobKind::Balances).await;
    let sum = dock.number(SUM).await;
    rules.say(Operation::GetProductBalances, move |_, response| {
        let mut records: Value = serde_json::from_slice(&response.body).unwrap();
        change(&mut records[0]);
        response.body = records.to_string().into_bytes();
    });
    (dock, sum)
}

/// Creates a tracked order of two lines that no job has read yet.
async fn new_order() -> (Dock, Rules, i64, Vec<i64>) {
    let (dock, rules) = told().await;
    let (one, two) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&one, 2), (&two, 1)]).await;
    dock.track_orders(&[order]).await;
    (dock, rules, order, lines)
}

#[tokio::test]
async fn a_list_of_warehouses_that_an_answer_lacks_empties_no_stock() {
    let ways: [fn(&mut Value); 4] = [
        |record| drop(record.as_object_mut().unwrap().remove("Warehouses")),
        |record| record["Warehouses"] = Value::Null,
        |record| {
            let list = record.as_object_mut().unwrap().remove("Warehouses").unwrap();
            record["warehouses"] = list;
        },
        |record| record["Warehouses"] = json!([]),
    ];
    for (way, change) in ways.into_iter().enumerate() {
        let (dock, sum) = changed_balances(change).await;
        dock.later(Duration::from_secs(30));
        dock.run(JobKind::Balances).await;
        assert_eq!(dock.number(SUM).await, sum, "{way}: one answer proves nothing");
    }
}

#[tokio::test]
async fn a_stock_level_without_a_list_stays_and_one_that_two_lists_lack_is_gone() {
    for (change, stays) in [
        ((|record| record["Warehouses"] = Value::Null) as fn(&mut Value), true),
        (|record| record["Warehouses"] = json!([]), false),
    ] {
        let (dock, sum) = changed_balances(change).await;
        for _ in 0..3 {
            dock.later(Duration::from_secs(130));
            dock.run(JobKind::Balances).await;
        }
        assert_eq!(dock.number(SUM).await == sum, stays);
    }
}

#[tokio::test]
async fn lines_of_another_order_are_neither_shown_nor_shipped() {
    let (dock, rules, order, _) = new_order().await;
    rules
        .lines(order, move |lines| lines.iter_mut().for_each(|line| line["SalesOrderId"] = json!(order + 1)));
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.run(JobKind::OrderLines).await;
    dock.push().await;
    assert_eq!(dock.number("SELECT count(*) FROM order_line_item").await, 0);
    assert_eq!((dock.calls(SHIP), dock.state("s").await), (0, "pending".into()));
}

#[tokio::test]
async fn an_allocation_of_another_line_is_not_known_and_asked_for_again() {
    let (dock, rules, _, _) = new_order().await;
    rules.say(Operation::WarehouseAllocation, |_, response| {
        data(response, |taken| taken.iter_mut().for_each(|taken| taken["OrderLineItemId"] = json!(1)));
    });
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.number("SELECT count(*) FROM order_line_allocation").await, 0);
    assert_eq!(dock.number("SELECT count(*) FROM allocation_read").await, 0);
    rules.clear();
    dock.later(Duration::from_secs(3600));
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.number("SELECT count(*) FROM allocation_read").await, 2);
}

#[tokio::test]
async fn best_sellers_of_another_month_are_no_report() {
    let (dock, rules) = told().await;
    rules.say(Operation::TopSelling, |_, response| {
        data(response, |sellers| {
            sellers.clear();
            sellers.push(json!({"Year": 2001, "Month": 1, "Rank": 1, "SkuNumber": "A", "QuantitySold": 5}));
        });
    });
    for _ in 0..2 {
        dock.run(JobKind::TopSelling).await;
    }
    assert_eq!(dock.number("SELECT count(*) FROM report_month").await, 0);
}

#[tokio::test]
async fn an_update_that_is_answered_with_another_product_is_in_doubt_and_brings_no_fact() {
    let (dock, rules) = told().await;
    let made = product(&dock, "UPD-9").await;
    rules.say(Operation::UpdateProduct, |_, response| {
        let mut said: Value = serde_json::from_slice(&response.body).unwrap();
        said["data"]["Product"]["Id"] = json!(4711);
        response.body = said.to_string().into_bytes();
    });
    dock.change("u", "product.update", update_of(&made, "After")).await;
    dock.push().await;
    assert_eq!((dock.state("u").await, dock.reason("u").await), ("in_doubt".into(), "unmatched".into()));
    assert_eq!(dock.number("SELECT count(*) FROM product WHERE product_id = 4711").await, 0);
}

#[tokio::test]
async fn a_stock_level_that_names_another_product_than_its_record_changes_nothing() {
    let (dock, _) = changed_balances(|record| {
        for level in record["Warehouses"].as_array_mut().unwrap() {
            (level["ProductId"], level["QuantityOnHand"]) = (json!(4711), json!(900_000));
        }
    })
    .await;
    dock.later(Duration::from_secs(30));
    dock.run(JobKind::Balances).await;
    assert_eq!(dock.number("SELECT count(*) FROM stock WHERE quantity = 900000").await, 0);
}

#[tokio::test]
async fn a_line_that_cannot_be_shipped_holds_itself_and_the_others_leave() {
    let (dock, rules, order, lines) = new_order().await;
    rules.lines(order, |lines| {
        (lines[0]["QuantitySold"], lines[0]["QuantityNotTiedToShipment"]) = (json!(2.5), json!(2.5));
    });
    dock.change("all", "shipment.create", json!({"order_id": order})).await;
    let rope = json!({"order_id": order, "lines": [{"line_item_id": lines[0], "quantity": 2}]});
    dock.change("rope", "shipment.create", rope).await;
    dock.push().await;
    assert_eq!((dock.state("all").await, dock.left(order).await), ("applied".into(), vec![2, 0]));
    let (state, reason, detail) = dock.fate("rope").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "not_shown"), "{detail}");
    assert!(detail.contains("no whole number"), "{detail}");
}

#[tokio::test]
async fn an_order_without_a_shipment_is_shipped_whole_where_nothing_states_what_is_left() {
    let (dock, rules, order, _) = new_order().await;
    rules.lines(order, |lines| {
        for line in lines {
            line.as_object_mut().unwrap().remove("QuantityNotTiedToShipment");
        }
    });
    dock.change("whole", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    assert_eq!((dock.state("whole").await, dock.left(order).await), ("applied".into(), vec![0, 0]));
    dock.change("again", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    assert_eq!((dock.state("again").await, dock.reason("again").await), ("held".into(), "not_shown".into()));
    assert_eq!(dock.calls(SHIP), 1);
}

#[tokio::test]
async fn the_platform_refuses_the_whole_of_an_order_that_has_a_shipment_elsewhere() {
    let (dock, rules, order, lines) = new_order().await;
    let line = json!({"LineItemId": lines[0], "Quantity": 1});
    let made = json!([{"OrderId": order, "LineItems": [line]}]).to_string();
    dock.data("POST", "/api/Shipments/Create", &made).await;
    rules.lines(order, |lines| {
        for line in lines {
            line.as_object_mut().unwrap().remove("QuantityNotTiedToShipment");
        }
    });
    dock.change("whole", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    assert_eq!((dock.state("whole").await, dock.left(order).await), ("rejected".into(), vec![1, 1]));
}

#[tokio::test]
async fn what_is_left_is_never_below_zero_and_closes_its_order() {
    let (dock, rules, order, _) = new_order().await;
    rules.lines(order, |lines| {
        lines[0]["QuantityNotTiedToShipment"] = json!(-3);
        lines[1]["QuantityNotTiedToShipment"] = json!(3);
    });
    dock.run(JobKind::OrderLines).await;
    let left = async || -> Value {
        let listed: Value = serde_json::from_str(&dock.done(&["order", "list", "--json"]).await).unwrap();
        listed[0]["quantity_left"].clone()
    };
    assert_eq!(left().await, 3);
    rules.lines(order, |lines| lines[1]["QuantityNotTiedToShipment"] = json!(-1));
    dock.run(JobKind::OrderLines).await;
    assert_eq!(left().await, 0);
    assert_eq!(dock.number("SELECT count(*) FROM sales_order WHERE closed_ms IS NOT NULL").await, 1);
}

#[tokio::test]
async fn a_line_of_a_supplier_is_shown_as_such() {
    let (dock, rules, order, lines) = new_order().await;
    rules.lines(order, |lines| {
        (lines[0]["SupplierId"], lines[1]["SupplierId"]) = (json!(12.0), json!(0));
    });
    dock.run(JobKind::OrderLines).await;
    let sql = "SELECT line_item_id FROM order_line WHERE supplier_id = 12";
    assert_eq!(dock.number(sql).await, lines[0]);
    let shown = dock.done(&["order", "show", &order.to_string(), "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown[0]["supplier_id"], &shown[1]["supplier_id"]), (&json!(12), &Value::Null));
}

#[tokio::test]
async fn a_long_order_leaves_allocations_and_looks_to_the_others() {
    let (dock, rules, order, _) = new_order().await;
    let (sku, _) = dock.two_skus().await;
    let (other, _) = dock.order(&[(&sku, 1)]).await;
    dock.track_orders(&[other]).await;
    rules.lines(order, |lines| {
        let first = lines[0].clone();
        lines.extend((0..60).map(|n| {
            let mut line = first.clone();
            line["OrderLineItemId"] = json!(900_000 + n);
            line
        }));
    });
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.calls(ALLOCATION), 20 + 1, "20 of the long order");
    let sql = format!("SELECT count(*) FROM allocation_read WHERE order_id = {other}");
    assert_eq!(dock.number(&sql).await, 1);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.calls(ALLOCATION), 40 + 1, "the rest waits for the next runs");
}

#[tokio::test]
async fn a_count_has_no_base_of_the_product_that_had_its_sku_before() {
    for counted in [json!({}), json!({"seen": 60})] {
        let (dock, rules) = told().await;
        dock.track_all_skus().await;
        dock.run(JobKind::Balances).await;
        let row = dock.sandbox.stock_levels().await.unwrap().remove(0);
        let mut body = json!({"sku": row.sku, "warehouse_id": row.warehouse_id, "quantity": 60});
        body.as_object_mut().unwrap().extend(counted.as_object().unwrap().clone());
        dock.change("count", "quantity.set", body).await;
        let sku = row.sku.clone();
        rules.say(Operation::GetProductBalances, move |_, response| {
            let mut records: Value = serde_json::from_slice(&response.body).unwrap();
            let records_of = records.as_array_mut().unwrap().iter_mut();
            records_of.filter(|record| record["Sku"] == json!(sku)).for_each(|record| {
                record["Id"] = json!(4711);
                for level in record["Warehouses"].as_array_mut().unwrap() {
                    (level["ProductId"], level["QuantityOnHand"]) = (json!(4711), json!(0));
                }
            });
            response.body = records.to_string().into_bytes();
        });
        dock.run(JobKind::Balances).await;
        dock.push().await;
        assert_eq!((dock.state("count").await, dock.calls(UPDATE)), ("held".into(), 0));
        let (_, reason, detail) = dock.fate("count").await;
        assert_eq!(reason, "stale_base", "{detail}");
        assert!(dock.calls(BALANCES) > 1);
    }
}

/// Two pages of suppliers; the first one is deleted when page 1 is read, so that each later one moves up by one.
#[tokio::test]
async fn a_list_that_changes_between_its_pages_calls_nothing_missing() {
    let (dock, rules) = told().await;
    let page = |ids: [&[i64]; 2], totals: [i64; 2]| {
        let ids = ids.map(<[i64]>::to_vec);
        move |request: &PlatformRequest, response: &mut PlatformResponse| {
            let number =
                usize::from(request.query.iter().any(|(name, value)| name == "pageNumber" && value == "2"));
            let records: Vec<Value> = ids[number]
                .iter()
                .map(|id| json!({"Id": id, "Name": format!("S{id}"), "IsActive": true}))
                .collect();
            let pagination = json!({"CurrentPage": number + 1, "TotalNumberOfEntries": totals[number],
                                    "TotalNumberOfPages": 2});
            let answer =
                json!({"status": "Success", "messages": [], "pagination": pagination, "data": records});
            response.body = answer.to_string().into_bytes();
        }
    };
    rules.say(Operation::ListSuppliers, page([&[1, 2], &[3, 4]], [4, 4]));
    dock.run(JobKind::Suppliers).await;
    rules.clear();
    rules.say(Operation::ListSuppliers, page([&[1, 2], &[4]], [4, 3]));
    let summary = dock.run(JobKind::Suppliers).await;
    let missing = "SELECT count(*) FROM supplier WHERE missing_since_ms IS NOT NULL";
    assert_eq!((dock.number("SELECT count(*) FROM supplier").await, dock.number(missing).await), (4, 0));
    assert!(summary.contains("the list changed while it was read"), "{summary}");
}

/// A shop cuts a title within an emoji. The title decides nothing.
#[tokio::test]
async fn a_title_that_is_no_text_costs_no_line_and_stops_no_parcel() {
    let (dock, rules, order, _) = new_order().await;
    rules.say(Operation::GetOrderLineItems, |_, response| {
        let text = String::from_utf8(std::mem::take(&mut response.body)).unwrap();
        let cut = text.replace(r#""ProductName":""#, r#""ProductName":"\ud83d"#);
        assert_ne!(cut, text);
        response.body = cut.into_bytes();
    });
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    assert_eq!((dock.state("s").await, dock.left(order).await), ("applied".into(), vec![0, 0]));
}

async fn has_unreadable(dock: &Dock) -> bool {
    let (_, said) = dock.tallyd(&["status", "--json"]).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    said["findings"].as_array().unwrap().iter().any(|found| found["code"] == "unreadable")
}

#[tokio::test]
async fn an_answer_of_which_nothing_can_be_read_is_not_well() {
    let (dock, rules) = told().await;
    dock.track_all_skus().await;
    dock.run(JobKind::Balances).await;
    assert!(!has_unreadable(&dock).await);
    rules.say(Operation::GetProductBalances, |_, response| {
        let mut records: Value = serde_json::from_slice(&response.body).unwrap();
        records.as_array_mut().unwrap().iter_mut().for_each(|record| record["Warehouses"] = json!("none"));
        response.body = records.to_string().into_bytes();
    });
    dock.later(Duration::from_secs(30));
    dock.run(JobKind::Balances).await;
    assert!(has_unreadable(&dock).await, "one broken record may be odd, a whole answer of them is not");
}

#[tokio::test]
async fn a_good_read_that_a_person_asked_for_ends_the_finding_of_an_unreadable_record() {
    let (dock, rules) = told().await;
    rules.say(Operation::ListSuppliers, |_, response| {
        data(response, |suppliers| suppliers[0] = json!({"Id": "many", "Name": "S"}));
    });
    for _ in 0..2 {
        dock.later(Duration::from_secs(30));
        dock.run(JobKind::Suppliers).await;
    }
    assert!(has_unreadable(&dock).await);
    rules.clear();
    run_job(dock.daemon().context(), JobKind::Suppliers, RunTrigger::Operator).await.unwrap();
    assert!(!has_unreadable(&dock).await);
}
