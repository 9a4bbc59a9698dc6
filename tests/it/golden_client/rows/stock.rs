//! The rows about products, kits and stock: *Create product* to *Get product balances*, and *Get kit
//! components*.

use super::*;

pub(super) fn rows() -> Vec<Row> {
    [creates(), updates_and_kits(), quantities(), lookups()].into_iter().flatten().collect()
}

fn product(reply: &CallReply) -> Product {
    let answer = decode_product_answer(&reply.body).unwrap();
    assert_eq!((answer.outcome(), answer.messages.len()), (WriteOutcome::Done, 0));
    answer.record.unwrap()
}

fn creates() -> Vec<Row> {
    let create: Build = |exchange| create_product(body(exchange));
    vec![
        accepted("a product with all its parts is created", create, |reply| {
            let product = product(reply);
            assert_eq!(
                (product.id, product.sku.as_str(), product.kind.as_deref()),
                (ProductId(1401), "C-400", Some("Built"))
            );
            assert_eq!(product.quantity_on_hand, Some(13));
            let levels: Vec<_> = product
                .warehouses
                .iter()
                .map(|level| (level.warehouse_id, level.quantity_on_hand, level.is_active))
                .collect();
            assert_eq!(levels, [(MAIN, Some(8), Some(true)), (SECOND, Some(5), Some(false))]);
            assert_eq!(product.identifiers.unwrap().upc.as_deref(), Some("012345678905"));
        }),
        accepted("what is not sent has its default", create, |reply| {
            let product = product(reply);
            assert_eq!(
                (product.id, product.kind.as_deref(), product.quantity_on_hand),
                (ProductId(1501), Some("Product"), Some(0))
            );
            assert_eq!(product.warehouses.len(), 2);
        }),
        accepted("of fourteen images the first twelve are attached", create, |reply| {
            assert_eq!(product(reply).id, ProductId(1601));
        }),
        not_accepted("a product without Sku and Name is not created", create, REJECTED),
        not_accepted("a product that is variation and parent is not created", create, REJECTED),
        not_accepted("a warehouse entry without WarehouseId is not taken", create, REJECTED),
        not_accepted("a SKU that is taken is not taken again", create, REJECTED),
        not_accepted("a create that fails at the platform", create, Verdict::InDoubt),
    ]
}

fn updates_and_kits() -> Vec<Row> {
    let update: Build = |exchange| update_product(body(exchange));
    vec![
        accepted("a whole product is updated", update, |reply| {
            let product = product(reply);
            assert_eq!((product.name.as_deref(), product.quantity_on_hand), (Some("Stock anchor"), Some(20)));
        }),
        accepted("a product is not updated because of validation issues", update, |reply| {
            let answer = decode_product_answer(&reply.body).unwrap();
            assert_eq!((answer.outcome(), answer.record), (WriteOutcome::Refused, None));
            assert_eq!(answer.messages, ["IsVariation and IsParent must not both be true."]);
        }),
        not_accepted("an update without Id is not attempted", update, REJECTED),
        accepted(
            "a kit has components",
            |_| kit_components(ProductId(1003)),
            |reply| {
                let components = decode_kit_components(&reply.body).unwrap();
                let read = components.records.iter().map(|part| {
                    (part.id, part.quantity_for_kit, part.product.as_ref().unwrap().sku.as_str())
                });
                assert_eq!(read.collect::<Vec<_>>(), [(6401, 2.0, "A-100"), (6402, 1.0, "B-200")]);
                assert_eq!((components.parked.len(), components.page), (0, None));
            },
        ),
        not_accepted("a product that is no kit has none", |_| kit_components(ProductId(1001)), ID_REFUSED),
    ]
}

/// Returns the entries of a quantity update, as the exchange lists them.
fn update(exchange: &Exchange) -> PlatformRequest {
    let entry = |entry: &Value| QuantityUpdate {
        sku: sku(entry["Sku"].as_str().unwrap()),
        quantity: Quantity(entry["Quantity"].as_i64().unwrap()),
        warehouse_id: WarehouseId(entry["WarehouseId"].as_i64().unwrap()),
    };
    let entries: Vec<_> = body(exchange).as_array().unwrap().iter().map(entry).collect();
    update_quantity_on_hand(&entries)
}

fn quantities() -> Vec<Row> {
    vec![
        accepted("two quantities are set", update, |reply| {
            let answer = decode_update(&reply.body).unwrap();
            assert_eq!(answer, UpdateAnswer { status: UpdateStatus::Success, messages: vec![] });
            assert_eq!(attribute_messages(&answer, &[sku("A-100"), sku("B-200")]), Some(vec![]));
        }),
        accepted("one of three quantities is set", update, |reply| {
            let answer = decode_update(&reply.body).unwrap();
            assert_eq!(answer.status, UpdateStatus::PartialSuccess);
            let refused = attribute_messages(&answer, &[sku("NO-SUCH"), sku("A-100"), sku("B-200")]).unwrap();
            assert_eq!(refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 2]);
        }),
        accepted("no quantity is set", update, |reply| {
            let answer = decode_update(&reply.body).unwrap();
            assert_eq!(answer.status, UpdateStatus::Failure);
            let reason = "No active product with the SKU 'NO-SUCH' was found.".to_owned();
            assert_eq!(attribute_messages(&answer, &[sku("NO-SUCH")]), Some(vec![(0, reason)]));
        }),
        not_accepted("a SKU stands twice in a quantity update", update, REJECTED),
        not_accepted("twenty-six quantities are sent", update, REJECTED),
        Row {
            read: says_dead_key,
            ..not_accepted("a quantity update with an unknown key", update, REJECTED)
        },
        Row {
            read: says_dead_key,
            ..not_accepted("a quantity update of a lapsed company", update, REJECTED)
        },
        not_accepted("a quantity update that fails at the platform", update, Verdict::InDoubt),
    ]
}

/// Asserts that the four fields of that 400 become one line.
fn says_dead_key(reply: &CallReply) {
    let expected =
        "An error has occurred.; The integration key does not belong to a company with an active account.";
    assert_eq!(reply.message.as_deref(), Some(expected));
}

fn levels(balances: &[ProductBalance<'_>]) -> Vec<(String, Vec<(WarehouseId, i64)>)> {
    let levels = |balance: &ProductBalance<'_>| {
        balance.warehouses.iter().map(|level| (level.warehouse_id, level.quantity_on_hand)).collect()
    };
    balances.iter().map(|balance| (balance.sku.to_string(), levels(balance))).collect()
}

fn lookups() -> Vec<Row> {
    vec![
        accepted(
            "products are found by SKU",
            |_| get_products(ProductKey::Sku, &["B-200", "NO-SUCH", "A-100"].map(str::to_owned)),
            |reply| {
                let found = decode_products(&reply.body).unwrap();
                let expected = [
                    ("B-200".to_owned(), vec![(MAIN, 1), (SECOND, 0)]),
                    ("A-100".to_owned(), vec![(MAIN, 23), (SECOND, 7)]),
                ];
                assert_eq!(levels(&found.records), expected);
                assert_eq!(found.records[1].warehouses[1].warehouse_sku.as_deref(), Some("ANCHOR"));
            },
        ),
        accepted(
            "a product is found by UPC",
            |_| get_products(ProductKey::Upc, &["036000291452".to_owned()]),
            |reply| {
                let found = decode_products(&reply.body).unwrap();
                let product = &found.records[0];
                assert_eq!((found.records.len(), product.id), (1, Some(ProductId(1001))));
                assert_eq!(product.upc.as_deref(), Some("036000291452"));
            },
        ),
        cannot(
            "a lookup by something else is an Error",
            "the client knows SKU and UPC alone",
            Verdict::Transient,
            has_message,
        ),
        accepted(
            "balances come without envelope",
            |_| get_product_balances(&[sku("A-100"), sku("K-300"), sku("NO-SUCH")]),
            |reply| {
                let balances = decode_balances(&reply.body).unwrap();
                let expected = [
                    ("A-100".to_owned(), vec![(MAIN, 23), (SECOND, 7)]),
                    ("K-300".to_owned(), vec![(MAIN, 1), (SECOND, 0)]),
                ];
                assert_eq!(levels(&balances.records), expected);
                let total = balances.records[0].quantity_on_hand;
                assert_eq!((total, balances.parked.len()), (Some(30), 0));
            },
        ),
        not_accepted(
            "a balance that fails at the platform",
            |_| get_product_balances(&[sku("A-100")]),
            Verdict::Transient,
        ),
    ]
}
