//! The rows about lists and reports: warehouses, suppliers, storefronts, listing templates, and monthly
//! counts.

use super::*;
use crate::model::Month;

pub(super) fn rows() -> Vec<Row> {
    [warehouse_rows(), other_lists(), templates(), reports()].into_iter().flatten().collect()
}

fn warehouses(reply: &CallReply) -> (Vec<i64>, Option<i64>) {
    let warehouses = decode_warehouses(&reply.body).unwrap();
    assert!(!warehouses.has_more() && warehouses.parked.is_empty());
    let ids = warehouses.records.iter().map(|warehouse| warehouse.id.0).collect();
    (ids, warehouses.page.and_then(|page| page.total_entries))
}

fn warehouse_rows() -> Vec<Row> {
    let create: Build = |exchange| create_warehouse(body(exchange));
    vec![
        accepted("a warehouse is created with its contact", create, |reply| {
            let answer = decode_created_warehouse(&reply.body).unwrap();
            assert_eq!(answer.outcome(), WriteOutcome::Done);
            let warehouse = answer.record.unwrap();
            assert_eq!((warehouse.id, warehouse.name.as_deref()), (WarehouseId(5103), Some("North Hall")));
            assert_eq!(warehouse.kind.as_deref(), Some("FulfillmentCenter"));
            assert!(warehouse.contact.unwrap().contains("Ada Hall"));
        }),
        not_accepted("a warehouse with an unknown property is not created", create, REJECTED),
        not_accepted("a warehouse name of 101 characters is too long", create, REJECTED),
        accepted(
            "all warehouses on one page",
            |_| list_warehouses(PageParams::FIRST),
            |reply| {
                assert_eq!(warehouses(reply), (vec![5101, 5102], Some(2)));
            },
        ),
        accepted(
            "the second page of one warehouse each",
            |_| list_warehouses(PageParams::new(2, 1).unwrap()),
            |reply| {
                assert_eq!(warehouses(reply), (vec![5102], Some(2)));
            },
        ),
        accepted(
            "a page beyond the last is empty",
            |_| list_warehouses(PageParams::new(9, 200).unwrap()),
            |reply| {
                assert_eq!(warehouses(reply), (vec![], Some(2)));
            },
        ),
        not_accepted(
            "a list that fails at the platform",
            |_| list_warehouses(PageParams::FIRST),
            Verdict::Transient,
        ),
    ]
}

fn other_lists() -> Vec<Row> {
    vec![
        accepted(
            "all suppliers",
            |_| list_suppliers(PageParams::FIRST),
            |reply| {
                let suppliers = decode_suppliers(&reply.body).unwrap().records;
                assert_eq!((suppliers.len(), suppliers[0].id.0), (1, 6101));
                assert_eq!(
                    (suppliers[0].name.as_deref(), suppliers[0].is_active),
                    (Some("First Supplier"), Some(true))
                );
            },
        ),
        accepted(
            "all active storefronts",
            |_| list_storefronts(PageParams::FIRST),
            |reply| {
                let storefronts = decode_storefronts(&reply.body).unwrap().records;
                assert_eq!((storefronts.len(), storefronts[0].id), (1, StorefrontId(7101)));
                assert_eq!(
                    (storefronts[0].kind.as_deref(), storefronts[0].properties.as_deref()),
                    (Some("Marketplace"), Some("{}"))
                );
            },
        ),
    ]
}

fn templates() -> Vec<Row> {
    let create: Build = |exchange| {
        let storefront = body(exchange)["StorefrontId"].as_i64().unwrap();
        create_listing_template(StorefrontId(storefront), body(exchange))
    };
    vec![
        accepted("a template is created", create, |reply| {
            let answer = decode_created_template(&reply.body).unwrap();
            assert_eq!(answer.outcome(), WriteOutcome::Done);
            let template = answer.record.unwrap();
            assert_eq!(template.id, 8501);
            assert_eq!(
                (template.name.as_deref(), template.body.as_deref()),
                (Some("Äpfel 100%"), Some("<b>{{Name}}</b>"))
            );
        }),
        accepted("a template without Name and Body is told so inside a 200", create, |reply| {
            let answer = decode_created_template(&reply.body).unwrap();
            assert_eq!((answer.outcome(), answer.messages.len()), (WriteOutcome::Refused, 2));
        }),
        not_accepted("a template for a storefront of nobody", create, ID_REFUSED),
        accepted(
            "templates are filtered by a part of their name",
            |_| list_listing_templates(StorefrontId(7101), Some("ÄPFEL 100%"), PageParams::FIRST),
            |reply| assert_eq!(template_names(reply), ["Äpfel 100%"]),
        ),
        accepted(
            "all templates of a storefront",
            |_| list_listing_templates(StorefrontId(7101), None, PageParams::FIRST),
            |reply| assert_eq!(template_names(reply), ["Äpfel 100%", "Plain", "100 Pears"]),
        ),
        not_accepted(
            "templates of a storefront of nobody",
            |_| list_listing_templates(StorefrontId(77), None, PageParams::FIRST),
            ID_REFUSED,
        ),
    ]
}

fn template_names(reply: &CallReply) -> Vec<String> {
    let templates = decode_listing_templates(&reply.body, StorefrontId(7101)).unwrap().records;
    templates.into_iter().map(|template| template.name.unwrap()).collect()
}

fn best_sellers(reply: &CallReply, channel: i64) {
    let best = decode_top_selling(&reply.body, Month::new(2026, 10).unwrap()).unwrap().records;
    let read: Vec<_> = best
        .iter()
        .map(|best| (best.rank, best.sku.as_ref().unwrap().as_str(), best.quantity_sold))
        .collect();
    assert_eq!(read, [(1, "A-100", Some(5)), (2, "B-200", Some(2)), (3, "K-300", Some(1))]);
    assert_eq!((best[2].amount_sold, best[2].sales_channel_id), (Some(140.95), Some(channel)));
    assert_eq!((best[0].year, best[0].month), (2026, 10));
}

fn reports() -> Vec<Row> {
    vec![
        accepted(
            "the best sellers of a storefront in a month",
            |_| top_selling(Some(StorefrontId(7101)), Month::new(2026, 10).unwrap()),
            |reply| best_sellers(reply, 7101),
        ),
        cannot(
            "the best sellers of the previous month over all storefronts",
            "the client always names the month, so that a reading over midnight stays one",
            Verdict::Accepted,
            |reply| best_sellers(reply, 0),
        ),
        accepted(
            "one month of business",
            |_| business_health(Month::new(2026, 9), PageParams::FIRST),
            |reply| {
                let months = decode_business_health(&reply.body).unwrap().records;
                let month = &months[0];
                assert_eq!((months.len(), month.year, month.month), (1, 2026, 9));
                assert_eq!(
                    (month.total_revenue, month.total_cost_of_goods_sold),
                    (Some(91001.0), Some(52002.0))
                );
                assert_eq!((month.total_shipping_costs, month.total_profit), (Some(8003.0), Some(37001.0)));
                assert_eq!(
                    (month.total_amount_shipping_collected, month.total_cost_of_labels_generated),
                    (Some(6005.0), Some(7006.0))
                );
                assert_eq!(
                    (month.total_value_of_inventory_month_start, month.total_value_of_inventory_month_end),
                    (Some(260_007.0), Some(261_008.0))
                );
                assert_eq!(month.total_number_of_new_listings_added, Some(29.0));
            },
        ),
        accepted(
            "what waits",
            |_| wire::work_queue(),
            |reply| {
                let counts = decode_work_queue(&reply.body).unwrap();
                assert_eq!((counts[7], counts[9]), (Some(2), Some(2)));
                assert_eq!((counts.iter().flatten().count(), counts[11]), (12, Some(0)));
            },
        ),
    ]
}
