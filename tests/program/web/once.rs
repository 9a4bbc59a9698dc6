//! A served form is done once, however often it is sent.

use super::forms::{level, page_of, world_with};
use super::{Visit, disagree, encoded, plain};
use crate::support::World;
use futures_util::future::join_all;
use serde_json::{Value, json};

async fn changes(world: &World) -> i64 {
    world.number("SELECT count(*) FROM outbox").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_queues_is_done_once_however_often_it_is_sent() {
    let world = world_with("").await;
    let visit = Visit::start(&world).await;
    let (sku, warehouse, _) = level(&world).await;
    let (page, order) =
        (page_of(&sku), world.number("SELECT min(order_id) FROM order_line WHERE quantity_left > 0").await);
    let (ship, to) = (format!("/orders/{order}"), warehouse.to_string());
    let forms: [(&str, &[(&str, &str)]); 3] = [
        (&page, &[("action", "adjust"), ("warehouse", &to), ("delta", "-3")]),
        (&page, &[("action", "count"), ("warehouse", &to), ("quantity", "9")]),
        (&ship, &[("action", "ship")]),
    ];
    for (path, fields) in forms {
        let before = changes(&world).await;
        let (_, action) = fields[0];
        let served = visit.served(path, action).await;
        // A double click: no answer comes before the next send.
        let answers = join_all((0..5).map(|_| visit.send_served(path, &served, fields))).await;
        assert!(answers.iter().all(|answer| answer.status == 303), "{answers:?}");
        assert_eq!(changes(&world).await, before + 1, "{action}");
        // Back, an edit, and a resend.
        let edited: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (*name, if *name == "delta" { "-4" } else { value })).collect();
        let said = visit.notice(&visit.send_served(path, &served, &edited).await).await;
        assert!(said.contains("known already") && said.contains("change web:"), "{said}");
        assert_eq!(changes(&world).await, before + 1, "{action}");
        // The next form that is served is another one.
        let next = visit.served(path, action).await;
        let said = visit.notice(&visit.send_served(path, &next, fields).await).await;
        assert!(said.contains("is queued"), "{said}");
        assert_eq!(changes(&world).await, before + 2, "{action}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_form_is_corrected_and_sent_again() {
    let world = world_with("").await;
    let visit = Visit::start(&world).await;
    let (sku, warehouse, _) = level(&world).await;
    let (page, warehouse) = (page_of(&sku), warehouse.to_string());
    let served = visit.served(&page, "adjust").await;
    let fields = |delta| [("action", "adjust"), ("warehouse", warehouse.as_str()), ("delta", delta)];
    let said = visit.notice(&visit.send_served(&page, &served, &fields("three")).await).await;
    assert!(said.contains("must be a whole number"), "{said}");
    assert_eq!(changes(&world).await, 0);
    let said = visit.notice(&visit.send_served(&page, &served, &fields("-3")).await).await;
    assert!(said.contains("is queued"), "{said}");
    assert_eq!(changes(&world).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_taken_once_by_each_form_although_it_would_be_legal_again() {
    let world = world_with("[quantities]\npolicy = \"ask\"\n").await;
    let (daemon, visit) = (world.work().await, Visit::start(&world).await);
    // A pause that was ended stays ended.
    let pause = visit.served("/jobs", "pause").await;
    let fields = [("action", "pause"), ("job", "suppliers"), ("why", "stock-taking")];
    let said = visit.notice(&visit.send_served("/jobs", &pause, &fields).await).await;
    assert!(said.contains("is paused"), "{said}");
    visit.act("/jobs", &[("action", "resume"), ("job", "suppliers")]).await;
    let said = visit.notice(&visit.send_served("/jobs", &pause, &fields).await).await;
    assert!(said.contains("known already") && said.contains("suppliers is paused"), "{said}");
    assert_eq!(world.number("SELECT count(*) FROM event WHERE kind = 'job.paused'").await, 1);
    // A job runs once.
    let run = visit.served("/jobs", "run").await;
    let fields = [("action", "run"), ("job", "warehouses")];
    join_all((0..3).map(|_| visit.send_served("/jobs", &run, &fields))).await;
    let asked = "SELECT count(*) FROM run WHERE job = 'warehouses' AND trigger = 'operator'";
    assert_eq!(world.number(asked).await, 1);
    // Of several selected changes one cannot be decided on: what was done is not done again.
    disagree(&world, "count", &level(&world).await).await;
    let bulk = visit.served("/outbox", "cancel").await;
    let fields = [("action", "cancel"), ("key", "count"), ("key", "nowhere")];
    for expected in ["1 change cancelled; nowhere", "known already"] {
        let said = visit.notice(&visit.send_served("/outbox", &bulk, &fields).await).await;
        assert!(said.contains(expected), "{said}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_names_each_form_that_it_sends() {
    let world = world_with("").await;
    let visit = Visit::start(&world).await;
    let (sku, warehouse, _) = level(&world).await;
    let (csrf, warehouse) = (visit.csrf().await, warehouse.to_string());
    let send = async |once: &[(&str, &str)]| {
        let fields = [("csrf", &*csrf), ("action", "adjust"), ("warehouse", &*warehouse), ("delta", "-1")];
        let fields: Vec<(&str, &str)> = fields.iter().chain(once).copied().collect();
        visit.send_form(&page_of(&sku), &encoded(&fields), "Accept: application/json\r\n").await
    };
    for nameless in [&[][..], &[("once", " ")]] {
        let answer = send(nameless).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains("this form has no key"), "{}", answer.body);
    }
    assert_eq!(changes(&world).await, 0);
    for (once, status, is_done) in [("receipt 7", 200, true), ("receipt 7", 409, false), ("8", 200, true)] {
        let answer = send(&[("once", once)]).await;
        let data: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, &data["done"]), (status, &json!(is_done)), "{answer:?}");
        assert_eq!(data["message"].as_str().unwrap().contains("known already"), !is_done, "{data}");
    }
    let key = "SELECT count(*) FROM outbox WHERE key LIKE 'web:%:receipt 7' OR key LIKE 'web:%:8'";
    assert_eq!((changes(&world).await, world.number(key).await), (2, 2));
}

/// The live script replaces the parts of a page that are marked, so the number and what is sent change together.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_count_form_sends_as_seen_is_in_a_live_part_and_is_the_number_that_it_shows() {
    let world = world_with("").await;
    let visit = Visit::start(&world).await;
    let (sku, warehouse, quantity) = level(&world).await;
    let page = visit.get(&page_of(&sku)).await.body;
    let (_, part) = page.split_once(&format!("<span id=\"shown-{warehouse}\" data-live>")).unwrap();
    let part = part.split("</span>").next().unwrap();
    assert!(part.contains(&format!("name=\"seen\" value=\"{quantity}\"")), "{part}");
    assert_eq!(plain(part), format!("this page shows {quantity}"), "{part}");
}

/// A page that stayed open shows buttons for a state that is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_on_a_change_that_has_moved_on_is_refused() {
    let world = world_with("[quantities]\npolicy = \"ask\"\n").await;
    let (daemon, visit) = (world.work().await, Visit::start(&world).await);
    disagree(&world, "count", &level(&world).await).await;
    let (page, cancel) = ("/outbox/count", [("action", "cancel")]);
    let old = visit.served(page, "cancel").await;
    // Somebody else decides meanwhile, and the change may still be cancelled.
    visit.act("/jobs", &[("action", "pause"), ("job", "push"), ("why", "so that it stays pending")]).await;
    visit.act(page, &[("action", "mine")]).await;
    assert_eq!(world.fate("count").await.0, "pending");
    let said = visit.notice(&visit.send_served(page, &old, &cancel).await).await;
    assert!(said.contains("has moved on since this page was loaded"), "{said}");
    assert_eq!(world.fate("count").await.0, "pending");
    let current = visit.served(page, "cancel").await;
    visit.send_served(page, &current, &cancel).await;
    assert_eq!(world.fate("count").await.0, "cancelled");
    daemon.stop().await;
}

/// Nothing says that the daemon sends a change while it does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_and_the_answer_to_a_form_say_what_a_change_waits_for() {
    let world = world_with("").await;
    let visit = Visit::start(&world).await;
    let (sku, warehouse, _) = level(&world).await;
    let (page, csrf, warehouse) = (page_of(&sku), visit.csrf().await, warehouse.to_string());
    let adjust = async |once: &str| -> Value {
        let fields = [("csrf", &*csrf), ("once", once), ("action", "adjust"), ("warehouse", &*warehouse)];
        let fields: Vec<(&str, &str)> = fields.iter().copied().chain([("delta", "-1")]).collect();
        let answer = visit.send_form(&page, &encoded(&fields), "Accept: application/json\r\n").await;
        serde_json::from_str(&answer.body).unwrap()
    };
    let daemon = world.work().await;
    let sent = adjust("1").await;
    assert!(sent["message"].as_str().unwrap().ends_with("is queued; the daemon sends it"), "{sent}");
    visit.act("/jobs", &[("action", "pause"), ("job", "push"), ("why", "stock-taking")]).await;
    let answer = adjust("2").await;
    assert!(answer["message"].as_str().unwrap().contains("is queued; push is paused"), "{answer}");
    assert_eq!(
        (&sent["findings"], &answer["findings"][0]["code"]),
        (&json!([]), &json!("paused")),
        "{answer}"
    );
    let served = visit.served(&page, "adjust").await;
    let fields = [("action", "adjust"), ("delta", "-1")];
    let answer = visit.send_served(&page, &served, &fields).await;
    let shown = visit.get(answer.header("location").unwrap()).await.body;
    assert!(shown.contains("class=\"notice note\"") && shown.contains("data-finding=\"paused\""), "{shown}");
    visit.act("/jobs", &[("action", "resume"), ("job", "push")]).await;
    daemon.stop().await;
    for address in ["/", "/stock", &page, "/outbox", "/orders", "/jobs", "/journal", "/quota"] {
        let shown = visit.get(address).await.body;
        assert_eq!(shown.matches("data-finding=\"no_daemon\"").count(), 1, "{address}: {shown}");
    }
    let answer = adjust("3").await;
    assert!(answer["message"].as_str().unwrap().contains("is queued; tallyd does not run"), "{answer}");
}
