//! What keeps a change from being sent, said in the same words wherever somebody waits; and commands that work
//! although something is amiss.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::cli::Desk;
use serde_json::json;
use std::process::Output;

fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// Returns a desk whose stock was read, and a stock level of it.
async fn read_desk() -> (Desk, String, String) {
    let desk = Desk::new().await;
    desk.world.track_all().await;
    desk.world.once().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    (desk, sku, warehouse.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_change_waits_for_is_said_in_the_same_words_to_everybody_who_waits() {
    let (desk, sku, warehouse) = read_desk().await;
    let working = desk.world.work().await;
    desk.world.write_key("no-such-key");
    working.stop().await;
    let working = desk.world.work().await;
    desk.world
        .until("the key is refused", async |world| {
            world.number("SELECT count(*) FROM exchange WHERE verdict = 'refused'").await > 0
        })
        .await;
    let status = said(&desk.run(&["status"]).await);
    let cause = status.lines().next().unwrap().to_owned();
    let file = desk.world.path.with_file_name("i");
    let key = format!("the platform refuses the integration key from {}", file.display());
    assert!(cause.starts_with(&key), "{status}");

    let adjust = ["quantity", "adjust", &sku, &warehouse, "1", "--key", "w", "--wait=4s"];
    let waited = desk.run(&adjust).await;
    assert_eq!(waited.status.code(), Some(6));
    let note = String::from_utf8_lossy(&waited.stderr).into_owned();
    assert_eq!(note.lines().next().unwrap(), format!("waiting: {cause}"));
    let shown = desk.text(&["outbox", "show", "w"]).await;
    assert!(shown.contains(&format!("not sent       {cause}")), "{shown}");
    let shown = desk.json(&["outbox", "show", "w", "--json"]).await;
    assert_eq!(shown["obstacles"][0]["code"], json!("key_refused"), "{shown}");
    working.stop().await;
}

/// `status` knows why nothing is sent; whoever waits for a change asks no second command.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_change_reads_that_the_key_is_refused() {
    let (desk, sku, warehouse) = read_desk().await;
    desk.world.write_key("no-such-key");
    let working = desk.world.work().await;
    let is_refused = "SELECT count(*) FROM exchange WHERE verdict = 'refused'";
    desk.world.until("the key is refused", async |world| world.number(is_refused).await > 0).await;
    let adjust = ["quantity", "adjust", &sku, &warehouse, "1", "--key", "w", "--wait=4s"];
    let waited = desk.run(&adjust).await;
    let note = String::from_utf8_lossy(&waited.stderr).into_owned();
    assert!(note.contains("the platform refuses the"), "{note}");
    let shown = desk.text(&["outbox", "show", "w"]).await;
    assert!(shown.contains("the platform refuses the"), "{shown}");
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_in_the_configuration_leaves_the_commands_of_the_database() {
    let (desk, sku, warehouse) = read_desk().await;
    desk.text(&["quantity", "adjust", &sku, &warehouse, "1", "--key", "a"]).await;
    let good = desk.world.toml("");
    let commands: [&[&str]; 8] = [
        &["status"],
        &["outbox", "list"],
        &["outbox", "show", "a"],
        &["stock", &sku],
        &["explain", &sku],
        &["journal", "show"],
        &["job", "list"],
        &["quantity", "adjust", &sku, &warehouse, "1"],
    ];
    let mistakes =
        ["[web]\nlisten = 7\n", "[wbe]\nlisten = \"127.0.0.1:1\"\n", "[web]\nlisten = \"127.0.0.1:1\n"];
    for mistake in mistakes {
        std::fs::write(&desk.config, format!("{good}\n{mistake}")).unwrap();
        for command in commands {
            let output = desk.run(command).await;
            assert_eq!(output.status.code(), Some(0), "{command:?} with {mistake}: {}", said(&output));
            let warning = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(warning.starts_with("warning: configuration "), "{command:?}: {warning}");
            assert_eq!(warning.matches("warning: configuration ").count(), 1, "{command:?}: {warning}");
        }
        assert_eq!(desk.run(&["check"]).await.status.code(), Some(2), "{mistake}");
    }
    let hidden =
        [good.replace("[database]", "[databse]"), good.replace("[database]\n", "[database]\nurll = 1\n")];
    for text in hidden {
        std::fs::write(&desk.config, &text).unwrap();
        let output = desk.run(&["status"]).await;
        assert_eq!(output.status.code(), Some(2), "another database is no answer: {}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_refused_at_the_start_is_in_status_until_a_start_is_good() {
    let (desk, ..) = read_desk().await;
    let company = json!({"Name": "another", "Subscribed": true});
    let made = desk.world.post("/_sandbox/companies", &company).await;
    let good = desk.world.sandbox.integration_key().to_owned();
    desk.world.write_key(made["IntegrationKey"].as_str().unwrap());
    assert_ne!(desk.run(&["run"]).await.status.code(), Some(0));
    let status = desk.run(&["status"]).await;
    assert_eq!(status.status.code(), Some(3));
    let text = said(&status);
    assert!(text.starts_with("the keys or the address are of another account"), "{text}");
    desk.world.write_key(&good);
    assert_eq!(desk.run(&["run", "--once"]).await.status.code(), Some(0));
    assert_eq!(said(&desk.run(&["status"]).await).lines().next(), Some("all is well"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_tracked_sku_status_names_the_first_step() {
    let empty = Desk::new().await;
    empty.world.once().await;
    let text = empty.text(&["status"]).await;
    assert!(text.starts_with("no SKU is tracked") && text.contains("tallyd sku import FILE"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_waits_for_the_next_run_once_is_told() {
    let (desk, sku, warehouse) = read_desk().await;
    assert!(desk.text(&["status"]).await.starts_with("all is well"));
    desk.text(&["quantity", "adjust", &sku, &warehouse, "1"]).await;
    let text = desk.text(&["status"]).await;
    assert!(
        text.starts_with("no daemon runs, and 1 change waits for the next `tallyd run --once`"),
        "{text}"
    );
    desk.text(&["run", "--once"]).await;
    assert!(desk.text(&["status"]).await.starts_with("all is well"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_file_of_unknown_skus_is_one_sentence_with_the_command() {
    let (desk, _, warehouse) = read_desk().await;
    let file = desk.world.path.with_file_name("first.csv");
    let lines: String = (0..510).map(|n| format!("NEW-{n},{warehouse},1\n")).collect();
    std::fs::write(&file, format!("sku,warehouse_id,delta\n{lines}")).unwrap();
    let output = desk.run(&["quantity", "import", file.to_str().unwrap()]).await;
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("510 lines name what is not known here; line 2: no SKU `NEW-0`"), "{text}");
    assert!(text.contains("tallyd sku import") && text.lines().count() < 5, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_change_is_not_to_be_tried_again() {
    let (desk, ..) = read_desk().await;
    desk.world.change("far", "no.such.kind", "{}").await;
    desk.world.once().await;
    let shown = desk.json(&["outbox", "show", "far", "--json"]).await;
    assert_eq!(shown["state"], json!("rejected"), "{shown}");
    assert!(!shown["what_to_do"].as_str().unwrap().contains("retry"), "{shown}");
}
