//! The pages' data, which is that of the commands, and texts from outside, which stay text.

use super::Visit;
use crate::support::World;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use tallyd::sandbox::SandboxOptions;

/// Returns the JSON that a command prints.
async fn printed(world: &World, args: &[&str]) -> Value {
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml("")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.args(args).arg("--json").arg("--config").arg(config).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The lines of each order take a call of their own, so a run has as many as there are orders.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_many_calls_is_shown_a_page_at_a_time() {
    let options = SandboxOptions { skus: 10, orders: 230, calls_per_minute: 0, ..SandboxOptions::default() };
    let world = World::with(options, "").await;
    world.track_all().await;
    world.once().await;
    let run =
        world.number("SELECT run_id FROM exchange GROUP BY run_id ORDER BY count(*) DESC LIMIT 1").await;
    let all = printed(&world, &["job", "show", &run.to_string()]).await;
    let all = all["exchanges"].as_array().unwrap();
    assert!(all.len() >= 230, "{}", all.len());
    let visit = Visit::start(&world).await;
    let (mut address, mut shown, mut pages) = (format!("/jobs/{run}"), Vec::new(), 0);
    loop {
        shown.extend(visit.json(&address).await["exchanges"].as_array().unwrap().clone());
        pages += 1;
        let page = visit.get(&address).await.body;
        let Some((_, next)) = page.split_once("rel=\"next\" href=\"") else { break };
        address = next.split('"').next().unwrap().to_owned();
    }
    assert_eq!((&shown, pages), (all, all.len().div_ceil(100)));
    visit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_each_page_is_that_of_the_command() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    world.change("mine", "quantity.adjust", "{}").await;
    world.once().await;
    let visit = Visit::start(&world).await;
    let (sku, _, _) = world.shop().await.remove(0);
    let order = world.number("SELECT min(order_id) FROM order_line").await.to_string();
    let run = world.number("SELECT max(id) FROM run").await.to_string();
    let exchange = world.number("SELECT max(id) FROM exchange").await.to_string();
    let pages = [
        (format!("/stock/{sku}"), vec!["explain", &sku]),
        ("/outbox?state=rejected".into(), vec!["outbox", "list", "--state", "rejected"]),
        ("/outbox/mine".into(), vec!["outbox", "show", "mine"]),
        ("/orders?closed=1".into(), vec!["order", "list"]),
        (format!("/orders/{order}"), vec!["order", "show", &order]),
        ("/jobs".into(), vec!["job", "list"]),
        (format!("/jobs/{run}"), vec!["job", "show", &run]),
        (format!("/journal/{exchange}"), vec!["journal", "show", &exchange]),
    ];
    for (address, args) in pages {
        assert_eq!(visit.json(&address).await, printed(&world, &args).await, "{address}");
    }
    let (status, shown) = (printed(&world, &["status"]).await, visit.json("/").await);
    for field in ["well", "troubles", "findings", "outbox", "mirror"] {
        assert_eq!(shown[field], status[field], "{field}");
    }
    let all: Vec<Value> = printed(&world, &["stock"]).await.as_array().unwrap().clone();
    let page = visit.json("/stock").await;
    assert_eq!(page.as_array().unwrap().len(), all.len());
    assert!(page.as_array().unwrap().iter().all(|row| all.contains(row)), "{page}");
    assert_eq!(visit.get("/outbox/nobody").await.status, 404);
    let head =
        format!("GET /outbox/nobody HTTP/1.1\r\nAccept: application/json\r\nCookie: {}\r\n", visit.cookie);
    let failed = visit.raw(&head).await;
    assert_eq!((failed.status, failed.header("content-type")), (404, Some("application/json")));
    let failed: Value = serde_json::from_str(&failed.body).unwrap();
    assert_eq!(failed, json!({"error": "no change has the key `nobody`"}));
    assert_eq!(visit.get("/jobs?kind=nothing").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_from_outside_stay_text_on_every_page() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let hostile = "<img src=x onerror=alert(1)>";
    let key = "\"'><script>alert(2)</script>/..";
    let body = format!(
        "{{\"sku\":\"{hostile}\",\"warehouse_id\":1,\"quantity\":1,\"seen\":\"\\u001b[31m\u{202e}\"}}"
    );
    world.change(key, "quantity.set", &body).await;
    world.sql(&format!("INSERT INTO tracked_sku (sku) VALUES ('{hostile}')")).await;
    world.once().await;
    world
        .sql(
            "UPDATE warehouse SET name = '<b>\u{202e}Attic\u{1b}[2J</b>'; \
             UPDATE exchange SET message = '<i>\u{1b}[31m\u{202e}</i>'",
        )
        .await;
    let visit = Visit::start(&world).await;
    let run = world.number("SELECT max(id) FROM run").await;
    let sku_page = "/stock/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E".to_owned();
    let change_page = "/outbox/%22%27%3E%3Cscript%3Ealert%282%29%3C%2Fscript%3E%2F..".to_owned();
    let pages = [
        "/",
        "/stock",
        "/outbox",
        "/orders",
        "/jobs",
        "/journal",
        "/quota",
        "/stock?q=%3Cimg",
        "/journal?sku=%3Cb%3E",
    ];
    let (known, ..) = world.shop().await.remove(0);
    let known = format!("/stock/{known}");
    assert!(visit.get(&known).await.body.contains("Attic"));
    let named = [sku_page.clone(), change_page.clone(), format!("/jobs/{run}"), known];
    for address in pages.iter().map(|one| (*one).to_owned()).chain(named) {
        let answer = visit.get(&address).await;
        assert_eq!(answer.status, 200, "{address}: {}", answer.body);
        for raw in ["<img", "<script>", "<b>", "<i>", "\u{1b}", "\u{202e}"] {
            assert!(!answer.body.contains(raw), "{address} has {raw:?}");
        }
    }
    assert!(visit.get(&change_page).await.body.contains("&lt;script&gt;alert(2)&lt;/script&gt;"));
    assert!(visit.get("/outbox").await.body.contains(&format!("href=\"{change_page}\"")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_says_what_to_do_first() {
    let world = World::new().await;
    world.make().await;
    let visit = Visit::start(&world).await;
    for (address, text) in [
        ("/", "Track a SKU"),
        ("/stock", "A SKU is listed once it is tracked"),
        ("/outbox", "No change matches"),
        ("/orders", "Track one by its id below"),
        ("/jobs", "No job ran in the last 24 hours"),
        ("/quota", "No call in the last 24 hours"),
        ("/journal", "No exchange matches"),
    ] {
        let answer = visit.get(address).await;
        assert!(answer.status == 200 && answer.body.contains(text), "{address}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_is_found_by_prefix_name_warehouse_and_state() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let visit = Visit::start(&world).await;
    let skus = |page: Value| -> Vec<String> {
        let mut skus: Vec<String> =
            page.as_array().unwrap().iter().map(|row| row["sku"].as_str().unwrap().to_owned()).collect();
        skus.dedup();
        skus
    };
    let all = skus(visit.json("/stock").await);
    let one = &all[5];
    let found = skus(visit.json(&format!("/stock?q={}", one.to_lowercase())).await);
    assert!(
        found.contains(one) && found.iter().all(|sku| sku.to_lowercase().starts_with(&one.to_lowercase())),
        "{found:?}"
    );
    world.sql(&format!("UPDATE product SET name = 'Unusual 100% thing' WHERE sku = '{one}'")).await;
    assert_eq!(skus(visit.json("/stock?q=uSUAL%20100%25").await), std::slice::from_ref(one));
    assert_eq!(skus(visit.json("/stock?q=usual_100").await), Vec::<String>::new());
    let low = skus(visit.json("/stock?state=low").await);
    let sql = "SELECT count(DISTINCT p.sku) FROM balance b JOIN product p ON p.id = b.product WHERE b.quantity <= 5 AND p.alias_of IS NULL";
    assert_eq!(i64::try_from(low.len()).unwrap(), world.number(sql).await);
    let (sku, warehouse, _) = world.shop().await.remove(3);
    let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": 1});
    world.change("pending", "quantity.adjust", &body.to_string()).await;
    assert_eq!(skus(visit.json("/stock?state=pending").await), std::slice::from_ref(&sku));
    assert_eq!(skus(visit.json("/stock?state=conflict").await), Vec::<String>::new());
    world.sql(&format!("UPDATE product SET missing_since_ms = 1 WHERE sku = '{one}'")).await;
    assert!(visit.get("/stock?state=missing").await.body.contains("missing since"));
    let elsewhere = visit.json("/stock?warehouse=424242").await;
    assert_eq!(skus(elsewhere), Vec::<String>::new());
}

/// Pages of stock follow each other without a gap and without a repetition.
#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_stock_hold_each_sku_once() {
    let world = World::new().await;
    world.make().await;
    let rows: Vec<String> =
        (0..250).map(|number| format!("('s-{number:03}', 'S-{number:03}', {number})")).collect();
    world.sql(&format!("INSERT INTO product (case_key, sku, product_id) VALUES {}", rows.join(", "))).await;
    let visit = Visit::start(&world).await;
    let (mut address, mut found) = ("/stock".to_owned(), Vec::new());
    loop {
        let page = visit.get(&address).await.body;
        let links = page.match_indices("<th scope=\"row\"><a href=\"/stock/");
        found.extend(links.map(|(at, text)| page[at + text.len()..].split('"').next().unwrap().to_owned()));
        let Some((_, next)) = page.split_once("rel=\"next\" href=\"") else { break };
        address = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    let expected: Vec<String> = (0..250).map(|number| format!("S-{number:03}")).collect();
    assert_eq!(found, expected);
}

/// A page may be read by a program in a terminal.
#[tokio::test(flavor = "multi_thread")]
async fn no_page_has_a_raw_control_character_of_a_key_a_kind_or_a_reason() {
    let world = World::new().await;
    world.track_all().await;
    let visit = Visit::start(&world).await;
    world.change("odd \u{1b}[31m key", "no.such.\u{1b}kind", "{\"note\": \"\u{9b}\u{202e}\"}").await;
    world.change("held", "quantity.set", "{}").await;
    world.once().await;
    for address in
        ["/", "/outbox", "/outbox?state=rejected", "/outbox/odd%20%1B%5B31m%20key", "/journal", "/jobs"]
    {
        let shown = visit.get(address).await.body;
        assert!(shown.contains("</html>"), "{address}: {shown}");
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{address}: {shown:?}");
    }
}

/// A browser takes `.` and `..` out of a path, so no part of an address may be one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_sku_and_a_key_of_dots_alone_have_a_page_with_its_forms() {
    let world = World::new().await;
    world.make().await;
    world.sql("INSERT INTO product (case_key, sku, product_id) VALUES ('.', '.', 1), ('..', '..', 2)").await;
    let body = |sku: &str| json!({"sku": sku, "warehouse_id": 1, "delta": 1}).to_string();
    world.change("..", "quantity.adjust", &body(".")).await;
    world.change(".", "quantity.adjust", &body("..")).await;
    let visit = Visit::start(&world).await;
    let list = visit.get("/stock").await.body;
    for (sku, key) in [(".", ".."), ("..", ".")] {
        let (page, change) = (format!("/stock/?name={sku}"), format!("/outbox/?name={key}"));
        assert!(list.contains(&format!("href=\"{page}\"")), "{list}");
        let shown = visit.get(&page).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        assert!(shown.body.contains(&format!("href=\"{change}\"")), "{}", shown.body);
        assert!(shown.body.contains(&format!("action=\"{page}\"")), "{}", shown.body);
        assert_eq!(visit.json(&change).await["key"], key);
        assert!(visit.act(&change, &[("action", "cancel")]).await.starts_with("1 change cancelled"));
        assert_eq!(world.fate(key).await.0, "cancelled");
    }
}
