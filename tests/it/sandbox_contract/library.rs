//! The sandbox as a library: without sockets, with a file, with an address that is not allowed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::sandbox::{SandboxClock, SandboxCore, SandboxError, SandboxOptions, start_sandbox};

use super::support::{Shop, UPDATE, WORK_QUEUE, exchange, id, keys, options, parse, request, status};

#[tokio::test(start_paused = true)]
async fn a_request_is_handled_without_sockets_on_a_clock_that_is_handed_in() {
    let now_ms = Arc::new(AtomicI64::new(1_763_726_400_000));
    let source = Arc::clone(&now_ms);
    let options = SandboxOptions { calls_per_minute: 1, ..options() };
    let core = SandboxCore::open(&options, SandboxClock::from_source(move || source.load(Ordering::Relaxed)))
        .await
        .expect("opens");
    assert_eq!(status(&core.handle_request(request(WORK_QUEUE)).await), 200);
    assert_eq!(status(&core.handle_request(request(WORK_QUEUE)).await), 429);
    now_ms.fetch_add(60_000, Ordering::Relaxed);
    assert_eq!(status(&core.handle_request(request(WORK_QUEUE)).await), 200);
    assert_eq!(core.logged_calls()[2].started_at_ms, 1_763_726_460_000);
}

#[tokio::test]
async fn orders_and_sales_of_the_library_move_the_same_stock() {
    let shop = Shop::open().await;
    let product = shop.product(0).await;
    let sku = product["Sku"].as_str().expect("a SKU");
    let warehouse_id = id(&product["Warehouses"][0], "WarehouseId");
    let there = id(&product["Warehouses"][0], "QuantityOnHand");
    let order_id = shop.sandbox.place_order(&[(sku, 2)]).await.expect("an order");
    assert!(shop.sandbox.order_ids().await.expect("orders").contains(&order_id));
    assert_eq!(shop.sandbox.sell_units(sku, warehouse_id, 1).await.expect("a sale"), there - 3);
    let refused = shop.sandbox.sell_units(sku, warehouse_id, there).await;
    assert!(matches!(refused, Err(SandboxError::Refused { status: 409, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_file_keeps_the_shop_and_its_keys() {
    let directory = tempfile::tempdir().expect("a directory");
    let options =
        SandboxOptions { data: Some(directory.path().join("shop.db")), integration_key: None, ..options() };
    let first = start_sandbox(options.clone()).await.expect("starts");
    let key = first.integration_key().to_owned();
    let sku = first.all_skus().await.expect("skus")[0].clone();
    first.place_order(&[(&sku, 1)]).await.expect("an order");
    let (stock, orders) =
        (first.stock_levels().await.expect("stock"), first.order_ids().await.expect("orders"));
    first.stop().await;
    let again = start_sandbox(SandboxOptions { seed: 99, ..options.clone() }).await.expect("starts again");
    assert_eq!(again.integration_key(), key);
    assert_eq!(again.stock_levels().await.expect("stock"), stock);
    assert_eq!(again.order_ids().await.expect("orders"), orders);
    let taken = start_sandbox(options.clone()).await;
    assert!(matches!(taken, Err(SandboxError::Open { .. })), "a second sandbox on the file: {taken:?}");
    again.stop().await;
    let given = SandboxOptions { integration_key: Some("given".to_owned()), ..options };
    assert_eq!(start_sandbox(given).await.expect("starts").integration_key(), "given");
}

#[tokio::test]
async fn it_does_not_listen_to_the_network_unless_told() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = start_sandbox(SandboxOptions { listen: everywhere, ..options() }).await;
    assert!(matches!(&refused, Err(SandboxError::RemoteAddress(_))), "{refused:?}");
    assert!(refused.expect_err("refused").to_string().contains("--allow-remote"));
    let allowed = start_sandbox(SandboxOptions { listen: everywhere, allow_remote: true, ..options() }).await;
    assert!(allowed.is_ok());
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let shop = Shop::open().await;
    let taken = start_sandbox(SandboxOptions { listen: shop.sandbox.local_addr(), ..options() })
        .await
        .expect_err("taken");
    assert!(taken.to_string().contains(&shop.sandbox.local_addr().to_string()), "{taken}");
}

#[tokio::test]
async fn a_stop_answers_the_calls_in_flight() {
    let shop = Shop::with(SandboxOptions { latency_ms: 200, ..options() }).await;
    let (addr, core) = (shop.sandbox.local_addr(), Arc::clone(shop.sandbox.core()));
    let call = tokio::spawn(async move { exchange(addr, "POST", UPDATE, &keys(), b"[]").await });
    while core.logged_calls().is_empty() {
        tokio::task::yield_now().await;
    }
    shop.sandbox.stop().await;
    let received = call.await.expect("the call ends");
    assert_eq!(parse(&received).expect("an answer").status, 200);
    assert!(tokio::net::TcpStream::connect(addr).await.is_err(), "nobody listens any more");
}
