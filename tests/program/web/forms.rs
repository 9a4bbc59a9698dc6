//! Decisions and changes by forms alone, as a browser without scripts sends them, up to their effect.

use super::{Visit, disagree, encoded, plain, zero_everything};
use crate::support::World;
use tallyd::sandbox::SandboxOptions;

pub(super) async fn world_with(extra: &str) -> World {
    let options = SandboxOptions { skus: 40, orders: 6, calls_per_minute: 0, ..SandboxOptions::default() };
    let world = World::with(options, extra).await;
    world.track_all().await;
    world.once().await;
    world
}

pub(super) async fn level(world: &World) -> (String, i64, i64) {
    world.shop().await.into_iter().find(|(_, _, quantity)| *quantity >= 20).unwrap()
}

/// Returns how the journal names the token of this user.
fn token_name() -> String {
    format!("token:tallyd.db-web-token-{}", rustix::process::geteuid())
}

pub(super) fn page_of(sku: &str) -> String {
    format!("/stock/{}", encoded(&[("", sku)]).trim_start_matches('='))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_and_a_movement_by_form_arrive_at_the_platform() {
    let world = world_with("").await;
    let (sku, warehouse, quantity) = level(&world).await;
    let (daemon, visit) = (world.work().await, Visit::start(&world).await);
    let (warehouse_text, seen) = (warehouse.to_string(), quantity.to_string());
    let counted = (quantity + 7).to_string();
    let fields =
        [("action", "count"), ("warehouse", &warehouse_text), ("quantity", &counted), ("seen", &seen)];
    let done = visit.act(&page_of(&sku), &fields).await;
    assert!(done.contains("is queued"), "{done}");
    world
        .until("the count arrives", async |world| world.shop_level(&sku, warehouse).await == quantity + 7)
        .await;
    let fields = [("action", "adjust"), ("warehouse", warehouse_text.as_str()), ("delta", "-2")];
    visit.act(&page_of(&sku), &fields).await;
    world
        .until("the movement arrives", async |world| world.shop_level(&sku, warehouse).await == quantity + 5)
        .await;
    let refused = visit
        .act(&page_of(&sku), &[("action", "adjust"), ("warehouse", &warehouse_text), ("delta", "x")])
        .await;
    assert!(refused.contains("must be a whole number"), "{refused}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_resolved_by_form_in_each_way() {
    let world = world_with("[quantities]\npolicy = \"ask\"\n").await;
    let daemon = world.work().await;
    let visit = Visit::start(&world).await;
    for (action, number) in [("mine", None), ("theirs", None), ("number", Some("9"))] {
        let (sku, warehouse, quantity) = level(&world).await;
        let key = format!("count/{action}");
        let level = (sku, warehouse, quantity);
        disagree(&world, &key, &level).await;
        let (sku, warehouse, quantity) = level;
        let page = format!("/outbox/count%2F{action}");
        let shown = visit.get(&page).await.body;
        for part in ["<h3>Mine</h3>", "<h3>Theirs</h3>", "Use mine", "Use theirs", "Use this quantity"] {
            assert!(shown.contains(part), "{part}");
        }
        let mut fields = vec![("action", action)];
        fields.extend(number.map(|number| ("number", number)));
        visit.act(&page, &fields).await;
        let expected = match action {
            "mine" => 15,
            "theirs" => quantity,
            _ => 9,
        };
        let state = if action == "theirs" { "rejected" } else { "applied" };
        world.until("the decision is carried out", async |world| world.fate(&key).await.0 == state).await;
        assert_eq!(world.shop_level(&sku, warehouse).await, expected, "{action}");
        let decided = visit.json(&page).await["decisions"][0]["by"].clone();
        assert_eq!(decided, token_name(), "the journal names the token");
        let again = visit.act(&page, &[("action", "mine")]).await;
        assert!(again.contains("not resolved"), "{again}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_brake_holds_is_released_cancelled_and_kept_in_bulk() {
    let world = world_with("").await;
    let all = zero_everything(&world).await;
    let daemon = world.work().await;
    let held = "SELECT count(*) FROM outbox WHERE state = 'held' AND reason = 'brake'";
    world.until("the brake holds them", async |world| world.number(held).await == all).await;
    let visit = Visit::start(&world).await;
    let page = visit.get("/outbox?state=held").await.body;
    assert!(page.contains("held, brake") && page.contains("name=\"key\" value=\"zero 0\""), "{page}");
    assert!(visit.get("/").await.body.contains("href=\"/outbox?state=held\""), "the overview has the remedy");
    let nothing = visit.act("/outbox", &[("action", "release")]).await;
    assert_eq!(nothing, "select at least one change");
    assert_eq!(world.number(held).await, all, "no selection releases nothing");
    let released = visit.act("/outbox", &[("action", "release"), ("key", "zero 0"), ("key", "zero 1")]).await;
    assert!(released.starts_with("2 changes released"), "{released}");
    world
        .until("two are applied", async |world| {
            world.fate("zero 0").await.0 == "applied" && world.fate("zero 1").await.0 == "applied"
        })
        .await;
    let cancelled =
        visit.act("/outbox", &[("action", "cancel"), ("key", "zero 2"), ("key", "nowhere")]).await;
    assert!(cancelled.starts_with("1 change cancelled; nowhere: "), "{cancelled}");
    let retried = visit.act("/outbox", &[("action", "retry"), ("key", "zero 3")]).await;
    assert!(retried.contains("zero 3: ") && world.fate("zero 3").await.0 == "held", "{retried}");
    visit.act("/outbox", &[("action", "release-all")]).await;
    world.until("none is held", async |world| world.number(held).await == 0).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_shipped_and_tracked_by_forms() {
    let world = world_with("").await;
    let (daemon, visit) = (world.work().await, Visit::start(&world).await);
    let sql = "SELECT order_id FROM order_line WHERE quantity_left > 0 ORDER BY order_id LIMIT 1";
    let order = world.number(sql).await;
    let page = format!("/orders/{order}");
    assert!(visit.get(&page).await.body.contains("name=\"line-"));
    visit.act(&page, &[("action", "ship"), ("key", "ship-it")]).await;
    world.until("the order is shipped", async |world| world.fate("ship-it").await.0 == "applied").await;
    let shipment =
        world.number(&format!("SELECT max(id) FROM shipment WHERE order_id = {order}")).await.to_string();
    let shown = visit.get(&page).await.body;
    assert!(shown.contains("Submit a tracking number") && shown.contains(&shipment), "{shown}");
    let fields =
        [("action", "tracking"), ("key", "track-it"), ("shipment", &*shipment), ("tracking", "1Z/9<9")];
    visit.act(&page, &fields).await;
    world.until("the number is submitted", async |world| world.fate("track-it").await.0 == "applied").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skus_orders_and_runs_are_asked_for_by_forms() {
    let world = world_with("").await;
    let (daemon, visit) = (world.work().await, Visit::start(&world).await);
    let hostile = "<img src=x onerror=alert(1)>";
    visit.act("/stock", &[("action", "track"), ("sku", hostile)]).await;
    let tracked = "SELECT count(*) FROM tracked_sku WHERE sku LIKE '<img%'";
    assert_eq!(world.number(tracked).await, 1);
    assert!(visit.act(&page_of(hostile), &[("action", "untrack")]).await.contains("no longer tracked"));
    assert_eq!(world.number(tracked).await, 0);
    visit.act("/orders", &[("action", "track"), ("order", "77")]).await;
    assert_eq!(world.number("SELECT count(*) FROM tracked_order WHERE order_id = 77").await, 1);
    let ran = visit.act("/jobs", &[("action", "run"), ("job", "warehouses")]).await;
    assert!(ran.starts_with("warehouses: ok"), "{ran}");
    let unknown = visit.act("/quota", &[("action", "lift")]).await;
    assert!(unknown.contains("no wait"), "{unknown}");
    let odd = visit.act("/outbox", &[("action", "explode"), ("key", "a")]).await;
    assert!(odd.contains("no action explode"), "{odd}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_by_form_is_shown_first_and_ended_by_form() {
    let world = world_with("").await;
    let (daemon, visit) = (world.work().await, Visit::start(&world).await);
    let refused = visit.act("/jobs", &[("action", "pause"), ("job", "push"), ("why", " ")]).await;
    assert_eq!(refused, "write the reason");
    let refused =
        visit.act("/jobs", &[("action", "pause"), ("job", "push"), ("for", "soon"), ("why", "x")]).await;
    assert!(refused.starts_with("for: write a number"), "{refused}");
    let fields = [("action", "pause"), ("job", "push"), ("for", "2h"), ("why", "stock-taking <b>")];
    let paused = visit.act("/jobs", &fields).await;
    assert!(paused.starts_with("push is paused since") && paused.contains("stock-taking <b>"), "{paused}");
    assert!(world.number("SELECT until_ms - since_ms FROM pause WHERE job = 'push'").await == 7_200_000);
    let (first, rest) = (plain(&visit.get("/").await.body), visit.get("/jobs").await.body);
    let place = |text: &str| first.find(text).unwrap_or_else(|| panic!("no {text}: {first}"));
    assert!(place("push is paused since") < place("all else is well"), "{first}");
    assert!(plain(&rest).find("push is paused since") < plain(&rest).find("The last 24 hours"), "{rest}");
    let (sku, warehouse, quantity) = level(&world).await;
    let fields = [("action", "adjust"), ("warehouse", &*warehouse.to_string()), ("delta", "-2")];
    visit.act(&page_of(&sku), &fields).await;
    assert_eq!(visit.act("/jobs", &[("action", "resume"), ("job", "push")]).await, "push: resumed");
    world
        .until("the change is sent", async |world| world.shop_level(&sku, warehouse).await == quantity - 2)
        .await;
    let sent_amid = "SELECT count(*) FROM exchange WHERE operation = 'POST /api/inventory/updateQuantityOnHand' \
                     AND sent_ms > (SELECT at_ms FROM event WHERE kind = 'job.paused') \
                     AND sent_ms < (SELECT at_ms FROM event WHERE kind = 'job.resumed')";
    assert_eq!(world.number(sent_amid).await, 0, "nothing was sent during the pause");
    let again = visit.act("/jobs", &[("action", "resume"), ("job", "push")]).await;
    assert_eq!(again, "push: it was not paused");
    let decided = format!(
        "SELECT count(*) FROM event WHERE kind IN ('job.paused', 'job.resumed') AND decided_by = '{}'",
        token_name()
    );
    assert_eq!(world.number(&decided).await, 2);
    daemon.stop().await;
}
