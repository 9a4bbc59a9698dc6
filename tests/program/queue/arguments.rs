//! Arguments that are empty or no number.

use super::{ended, read_desk};

/// A variable of a shell that is not set leaves an empty value, and an empty filter would select every change.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_value_is_wrong_usage_and_selects_nothing() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    desk.text(&["quantity", "adjust", &sku, &warehouse.to_string(), "1", "--key", "only"]).await;
    let commands: [&[&str]; 17] = [
        &["outbox", "cancel", "--key-prefix", "", "--yes"],
        &["outbox", "cancel", "--key-prefix=", "--yes"],
        &["outbox", "cancel", "--key-prefix", " ", "--yes"],
        &["outbox", "cancel", "--sku", "", "--yes"],
        &["outbox", "cancel", "--kind", "", "--yes"],
        &["outbox", "cancel", "--reason", "", "--yes"],
        &["outbox", "cancel", "--older-than", "", "--yes"],
        &["outbox", "cancel", "--newer-than", "", "--yes"],
        &["outbox", "cancel", ""],
        &["outbox", "retry", "--key-prefix", "", "--yes"],
        &["outbox", "retry", ""],
        &["outbox", "release", ""],
        &["outbox", "acknowledge", ""],
        &["outbox", "resolve", "", "--not-done"],
        &["outbox", "list", "--key-prefix", ""],
        &["quarantine", "retry", ""],
        &["quantity", "adjust", &sku, "", "1"],
    ];
    for command in commands {
        let (code, said) = ended(&desk.run(command).await);
        assert_eq!(code, 2, "{command:?}: {said}");
        assert!(
            said.contains("empty") || said.contains("a value is required") || said.contains("invalid value"),
            "{said}"
        );
    }
    assert_eq!(desk.world.fate("only").await.0, "pending");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_no_number_is_named_in_words() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let commands: [&[&str]; 6] = [
        &["ship", "abc"],
        &["quantity", "adjust", &sku, &warehouse, "1.5"],
        &["quantity", "set", &sku, &warehouse, "7", "--seen", "x"],
        &["order", "track", "99999999999999999999"],
        &["tracking", "submit", "--shipment", "SH-1", "--number", "1Z"],
        &["outbox", "list", "--limit", "-1"],
    ];
    for command in commands {
        let (code, said) = ended(&desk.run(command).await);
        assert_eq!(code, 2, "{command:?}: {said}");
        assert!(!said.contains("digit") && !said.contains("too large to fit"), "{command:?}: {said}");
    }
    let (_, said) = ended(&desk.run(&["ship", "abc"]).await);
    assert!(said.contains("invalid value 'abc' for '<ORDER>': write a whole number"), "{said}");
}
