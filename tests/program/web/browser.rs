//! The page in a real browser, with scripts and without, the daemon and the sandbox running.

use super::webdriver::{Browser, leave_out, pictures};
use super::{Visit, disagree, zero_everything};
use crate::support::{Working, World};
use serde_json::json;
use std::process::Command;
use tallyd::sandbox::SandboxOptions;
use tokio::time::{Duration, Instant};

/// A browser in the page of a world whose daemon reads the stock each second.
struct Desk {
    world: World,
    daemon: Working,
    visit: Visit,
    browser: Browser,
}

impl Desk {
    async fn open(has_scripts: bool, extra: &str) -> Option<Self> {
        let browser = Browser::start(has_scripts).await?;
        let options =
            SandboxOptions { skus: 40, orders: 6, calls_per_minute: 0, ..SandboxOptions::default() };
        let world =
            World::with(options, &format!("[jobs.balances]\nschedule = \"* * * * * *\"\n{extra}")).await;
        world.track_all().await;
        world.once().await;
        let (daemon, visit) = (world.work().await, Visit::start(&world).await);
        let desk = Self { world, daemon, visit, browser };
        desk.browser.go(&format!("http://{}/?token={}", desk.visit.address, desk.visit.token)).await;
        assert!(!desk.browser.url().await.contains("token"), "the address keeps no token");
        Some(desk)
    }

    async fn go(&self, path: &str) {
        self.browser.go(&format!("http://{}{path}", self.visit.address)).await;
    }

    async fn level(&self) -> (String, i64, i64) {
        self.world.shop().await.into_iter().find(|(_, _, quantity)| *quantity >= 20).unwrap()
    }

    async fn close(self) {
        self.browser.quit().await;
        self.visit.stop().await;
        self.daemon.stop().await;
    }
}

/// Without scripts, a person loads the page again: a page that reloads itself is none for everybody (WCAG 2.2.1).
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_appears_without_a_reload_and_without_scripts_with_one() {
    for has_scripts in [true, false] {
        let Some(desk) = Desk::open(has_scripts, "").await else { return };
        let (sku, warehouse, quantity) = desk.level().await;
        let page = format!("/stock/{sku}");
        desk.go(&page).await;
        if has_scripts {
            desk.browser.script("window.notReloaded = true").await;
        }
        let shown = format!("{}, read by exchange", quantity - 7);
        assert!(!desk.browser.text().await.contains(&shown));
        desk.world.sandbox.sell_units(&sku, warehouse, 7).await.unwrap();
        let fact = format!("SELECT quantity FROM stock WHERE sku = '{sku}' AND warehouse_id = {warehouse}");
        desk.world
            .until("the mirror has the sale", async |world| world.number(&fact).await == quantity - 7)
            .await;
        let begun = Instant::now();
        if !has_scripts {
            desk.go(&page).await;
        }
        desk.browser.until("the page has the sale", |text| text.contains(&shown)).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?} after the commit", begun.elapsed());
        if has_scripts {
            assert_eq!(desk.browser.script("return window.notReloaded").await, true);
        }
        desk.close().await;
    }
}

/// Text of the platform's quantity in the page, and the number that its count form sends as seen.
const SHOWN_AND_SEEN: &str = "return [parseInt(document.querySelector('.quantity').textContent), \
                              parseInt(document.querySelector('input[name=seen]').value)]";

impl Desk {
    /// Sells units and waits until the page shows the new quantity.
    async fn sell_and_see(&self, (sku, warehouse, quantity): &(String, i64, i64), units: i64) {
        self.world.sandbox.sell_units(sku, *warehouse, units).await.unwrap();
        let shown = format!("{}, read by exchange", quantity - units);
        self.browser.until("the page has the sale", |text| text.contains(&shown)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_is_compared_with_the_number_that_the_page_shows_when_it_is_sent() {
    let Some(desk) = Desk::open(true, "").await else { return };
    let level = desk.level().await;
    let (sku, warehouse, quantity) = &level;
    desk.go(&format!("/stock/{sku}")).await;
    let field = format!("document.getElementById('count-{warehouse}')");
    // A person begins to type, and ten are sold.
    let counted = (quantity - 10).to_string();
    let (first, rest) = counted.split_at(1);
    desk.browser.script(&format!("{field}.focus()")).await;
    desk.browser.type_text(first).await;
    desk.sell_and_see(&level, 10).await;
    desk.browser.type_text(rest).await;
    assert_eq!(desk.browser.script(&format!("return {field}.value")).await, *counted);
    assert_eq!(desk.browser.script(SHOWN_AND_SEEN).await, json!([quantity - 10, quantity - 10]));
    desk.browser.click("button[value=count]").await;
    desk.browser.until("the count is queued", |text| text.contains("is queued")).await;
    let applied = "SELECT count(*) FROM outbox WHERE state = 'applied'";
    desk.world.until("the count is applied", async |world| world.number(applied).await == 1).await;
    assert_eq!(
        desk.world.shop_level(sku, *warehouse).await,
        quantity - 10,
        "nothing was missing at the count"
    );
    desk.close().await;
}

/// What the platform sells while the page is away is not seen by a page that a browser keeps or fills in again.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_a_browser_shows_again_has_one_number_and_a_new_form() {
    for has_scripts in [true, false] {
        let Some(desk) = Desk::open(has_scripts, "").await else { return };
        let level = desk.level().await;
        let (sku, warehouse, quantity) = &level;
        let once = "return document.querySelector('input[name=once]').value";
        desk.go(&format!("/stock/{sku}")).await;
        let first = desk.browser.script(once).await;
        desk.go("/stock").await;
        desk.world.sandbox.sell_units(sku, *warehouse, 3).await.unwrap();
        let fact = format!("SELECT quantity FROM stock WHERE sku = '{sku}' AND warehouse_id = {warehouse}");
        desk.world.until("the sale is read", async |world| world.number(&fact).await == quantity - 3).await;
        desk.browser.script("history.back()").await;
        // Without scripts it may be the page that the browser kept, with the number and the form of its time.
        let shown = format!("{}, read by exchange", if has_scripts { quantity - 3 } else { *quantity });
        let either = format!("{}, read by exchange", quantity - 3);
        let is_shown = |text: &str| text.contains(&shown) || text.contains(&either);
        desk.browser.until("the page is there again", is_shown).await;
        let numbers = desk.browser.script(SHOWN_AND_SEEN).await;
        assert_eq!(numbers[0], numbers[1]);
        if has_scripts {
            assert_ne!(desk.browser.script(once).await, first, "a form is served once");
        }
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_resolved_by_clicks_with_and_without_scripts() {
    for has_scripts in [true, false] {
        let Some(desk) = Desk::open(has_scripts, "[quantities]\npolicy = \"ask\"\n").await else { return };
        let level = desk.level().await;
        disagree(&desk.world, "count 1", &level).await;
        let (sku, warehouse, _) = level;
        desk.go("/").await;
        desk.browser.click("#needs a[href='/outbox/count%201']").await;
        desk.browser.click("button[value=mine]").await;
        desk.browser.until("the decision is shown", |text| text.contains("count 1: pending")).await;
        desk.world
            .until("the quantity arrives", async |world| world.shop_level(&sku, warehouse).await == 15)
            .await;
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_brake_holds_is_released_in_bulk_with_and_without_scripts() {
    for has_scripts in [true, false] {
        let Some(desk) = Desk::open(has_scripts, "").await else { return };
        let all = zero_everything(&desk.world).await;
        let held = "SELECT count(*) FROM outbox WHERE state = 'held' AND reason = 'brake'";
        desk.world.until("the brake holds them", async |world| world.number(held).await == all).await;
        desk.go("/outbox?state=held").await;
        if has_scripts {
            desk.browser.click("[data-select-all]").await;
        } else {
            for number in [0, 1] {
                desk.browser.click(&format!("input[value='zero {number}']")).await;
            }
        }
        desk.browser.keep_picture(if has_scripts { "brake" } else { "brake-without-scripts" }).await;
        desk.browser.click("button[value=release]").await;
        desk.browser.until("the release is shown", |text| text.contains("changes released")).await;
        let (left, expected) = (desk.world.number(held).await, if has_scripts { 0 } else { all - 2 });
        assert_eq!(left, expected);
        desk.world
            .until("the first is applied", async |world| world.fate("zero 0").await.0 == "applied")
            .await;
        desk.close().await;
    }
}

/// Returns every page of a world that has something of everything.
async fn addresses(desk: &Desk) -> Vec<(&'static str, String)> {
    let level = desk.level().await;
    disagree(&desk.world, "count", &level).await;
    let (sku, warehouse, _) = level;
    desk.world.change("bad", "no.such.kind", "{\"note\": \"<img src=x onerror=alert(1)> \u{202e}\"}").await;
    desk.world.until("it is rejected", async |world| world.fate("bad").await.0 == "rejected").await;
    desk.world.sandbox.sell_units(&sku, warehouse, 2).await.unwrap();
    desk.world.sql("INSERT INTO tracked_sku (sku) VALUES ('<img src=x onerror=alert(1)>')").await;
    let hostile = "SELECT count(*) FROM product WHERE sku LIKE '<img%'";
    desk.world.until("the odd SKU was read", async |world| world.number(hostile).await == 1).await;
    desk.visit.act("/jobs", &[("action", "pause"), ("job", "top_selling"), ("why", "<b>a test</b>")]).await;
    let order = desk.world.number("SELECT min(order_id) FROM order_line").await;
    let run = desk.world.number("SELECT max(id) FROM run WHERE job = 'push'").await;
    let exchange = desk.world.number("SELECT max(id) FROM exchange WHERE ended IS NOT NULL").await;
    vec![
        ("overview", "/".into()),
        ("stock", "/stock".into()),
        ("sku", format!("/stock/{sku}")),
        ("odd-sku", "/stock/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E".into()),
        ("outbox", "/outbox".into()),
        ("conflict", "/outbox/count".into()),
        ("rejected", "/outbox/bad".into()),
        ("orders", "/orders".into()),
        ("order", format!("/orders/{order}")),
        ("jobs", "/jobs".into()),
        ("run", format!("/jobs/{run}")),
        ("journal", "/journal".into()),
        ("exchange", format!("/journal/{exchange}")),
        ("quota", "/quota".into()),
        ("no-page", "/nowhere".into()),
    ]
}

/// Package of the npm registry that judges pages, and its SHA-256.
const AXE_CORE: &str = "https://registry.npmjs.org/axe-core/-/axe-core-4.14.1.tgz";
const AXE_CORE_SHA256: &str = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745";

/// Returns axe-core's script, fetched once; `None`, with a note, where the registry cannot be reached.
fn axe_core() -> Option<String> {
    let folder = pictures().with_file_name("axe-core");
    let script = folder.join("package/axe.min.js");
    if !script.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let fetch = "curl --fail --silent --show-error --retry 3 --output axe-core.tgz \"$0\" && \
                     echo \"$1  axe-core.tgz\" | sha256sum --check --quiet && \
                     tar -xzf axe-core.tgz package/axe.min.js";
        let mut command = Command::new("sh");
        command.args(["-c", fetch, AXE_CORE, AXE_CORE_SHA256]).current_dir(&folder);
        if !command.status().unwrap().success() {
            leave_out("axe-core from the npm registry (it needs curl and the network)");
            return None;
        }
    }
    Some(std::fs::read_to_string(script).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_narrow_and_wide_screens_and_everybody() {
    let Some(desk) = Desk::open(true, "[quantities]\npolicy = \"ask\"\n").await else { return };
    let (pages, axe) = (addresses(&desk).await, axe_core());
    for (name, address) in pages {
        for width in [360, 1600] {
            desk.browser.resize(width, 900).await;
            desk.go(&address).await;
            let wide = desk.browser.script("return document.documentElement.scrollWidth - innerWidth").await;
            assert!(wide.as_i64().unwrap() <= 0, "{name} at {width} px is {wide} px too wide");
            desk.browser.keep_picture(&format!("{name}-{width}")).await;
        }
        let images = desk.browser.script("return document.images.length + document.scripts.length").await;
        assert_eq!(images, 1, "{name}: a text from outside became an element");
        let Some(axe) = &axe else { continue };
        for scheme in ["light", "dark"] {
            desk.browser.scheme(scheme).await;
            desk.browser.script(axe).await;
            let found = desk
                .browser
                .async_script(
                    "const done = arguments[arguments.length - 1];\n\
                     axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']}).then(result => done(\
                     result.violations.map(one => one.id + ': ' + one.nodes.map(node => node.html + ' ' + node.failureSummary).slice(0, 3).join(' | '))))",
                )
                .await;
            assert_eq!(found, json!([]), "{name} in the {scheme} scheme");
        }
    }
    desk.close().await;
}

/// The end of the daemon changes no row that a page shows.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_shows_that_the_daemon_has_ended() {
    let Some(desk) = Desk::open(true, "").await else { return };
    desk.go("/").await;
    desk.browser.until("all is well", |text| text.contains("all is well")).await;
    let Desk { world: _world, daemon, visit, browser } = desk;
    daemon.stop().await;
    browser.until("the end is shown", |text| text.contains("tallyd does not run")).await;
    browser.quit().await;
    visit.stop().await;
}

/// The picture of the README: `docs/page.png` is a copy of `target/pictures/readme.png`.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_is_pictured_for_the_readme() {
    let settings = "[limits]\ncalls_per_minute = 600\n[quantities]\npolicy = \"ask\"\n";
    let Some(desk) = Desk::open(true, settings).await else { return };
    let levels: Vec<_> =
        desk.world.shop().await.into_iter().filter(|(_, _, quantity)| *quantity >= 20).collect();
    disagree(&desk.world, "count-417", &levels[0]).await;
    let pause = [("action", "pause"), ("job", "push"), ("why", "until the sales are seen")];
    desk.visit.act("/jobs", &pause).await;
    for (number, (sku, warehouse, _)) in levels.iter().skip(1).take(5).enumerate() {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": 12}).to_string();
        desk.world.change(&format!("receipt-{}", 31 + number), "quantity.adjust", &body).await;
        desk.world.sandbox.sell_units(sku, *warehouse, 3).await.unwrap();
    }
    for (sku, warehouse, quantity) in levels.iter().skip(1).take(5) {
        let fact = format!("SELECT quantity FROM stock WHERE sku = '{sku}' AND warehouse_id = {warehouse}");
        desk.world.until("the sale is seen", async |world| world.number(&fact).await == quantity - 3).await;
    }
    desk.visit.act("/jobs", &[("action", "resume"), ("job", "push")]).await;
    let applied = "SELECT count(*) FROM outbox WHERE state = 'applied'";
    desk.world.until("the receipts arrive", async |world| world.number(applied).await == 5).await;
    desk.browser.scheme("light").await;
    desk.browser.resize(1200, 900).await;
    desk.go("/").await;
    desk.browser.until("the sale is shown", |text| text.contains("were taken by others")).await;
    let height = desk.browser.script("return document.documentElement.scrollHeight").await;
    desk.browser.resize(1200, u32::try_from(height.as_u64().unwrap()).unwrap()).await;
    desk.browser.keep_picture("readme").await;
    let size = std::fs::metadata(pictures().join("readme.png")).unwrap().len();
    assert!((20_000..200_000).contains(&size), "{size} bytes");
    desk.close().await;
}
