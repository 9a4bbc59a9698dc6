//! Warehouses by name, counts below zero, and names that are not known here.

use super::super::support::outsider::quoted;
use super::{ended, read_desk};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_warehouse_is_named_by_its_name_in_any_case() {
    let desk = read_desk().await;
    let (sku, warehouse, quantity) = desk.world.shop().await[0].clone();
    let rows = desk.json(&["warehouse", "list", "--json"]).await;
    let row = rows.as_array().unwrap().iter().find(|row| row["id"] == warehouse).unwrap();
    let name = row["name"].as_str().unwrap().to_uppercase();
    desk.text(&["quantity", "adjust", &sku, &name, "4", "--key", "a"]).await;
    let file = desk.config.with_file_name("counts.csv");
    std::fs::write(&file, format!("sku,warehouse_id,quantity\n{sku},\" {name} \",{quantity}\n")).unwrap();
    desk.text(&["quantity", "import", file.to_str().unwrap()]).await;
    let named = format!("SELECT count(*) FROM outbox WHERE warehouse_id = {warehouse}");
    assert_eq!(desk.world.number(&named).await, 2);
    assert!(desk.text(&["explain", &sku, &name]).await.contains(&format!("in warehouse {warehouse} ")));

    let (code, said) = ended(&desk.run(&["quantity", "adjust", &sku, &format!("{name}X"), "1"]).await);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(&format!("the nearest is `{warehouse} (")), "{said}");
    desk.world.sql("UPDATE warehouse SET name = 'Twin'").await;
    let (code, said) = ended(&desk.run(&["quantity", "adjust", &sku, "twin", "1"]).await);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(&format!("{warehouse} (Twin)")) && said.contains("; write id:"), "{said}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_below_zero_is_refused_in_words_and_a_removal_is_not() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let (code, said) = ended(&desk.run(&["quantity", "set", &sku, &warehouse, "-3"]).await);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("a count cannot be below zero; to remove units, run `tallyd quantity adjust"),
        "{said}"
    );
    let file = desk.config.with_file_name("counts.csv");
    std::fs::write(&file, format!("sku,warehouse_id,quantity\n{sku},{warehouse},-3\n")).unwrap();
    let (code, said) = ended(&desk.run(&["quantity", "import", file.to_str().unwrap()]).await);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("line 2: a count cannot be below zero"), "{said}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 0);
    desk.text(&["quantity", "adjust", &sku, &warehouse, "-3", "--key", "a"]).await;
    desk.text(&["quantity", "set", &sku, &warehouse, "3", "--seen", "-2", "--key", "s"]).await;
    let body = desk.json(&["outbox", "show", "a", "--json"]).await["body"].clone();
    assert_eq!(body["delta"], json!(-3));
    assert_eq!(desk.json(&["outbox", "show", "s", "--json"]).await["body"]["seen"], json!(-2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_name_queues_nothing_and_names_the_nearest() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let orders = desk.world.sandbox.order_ids().await.unwrap();
    let (slip, alike) = (format!("{sku}Q"), format!("{sku}\u{200b}"));
    let (strange_order, far) = (format!("{}7", orders[0]), "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXX");
    let cases: [(&[&str], String); 5] = [
        (
            &["quantity", "adjust", &slip, &warehouse, "1"],
            format!("no SKU `{slip}` is known here; the nearest is `{sku}`"),
        ),
        (
            &["quantity", "adjust", &alike, &warehouse, "1"],
            format!("; the nearest is `{sku}`, which looks alike and has other characters"),
        ),
        (&["quantity", "set", far, &warehouse, "1"], format!("no SKU `{far}` is known here. ")),
        (&["quantity", "adjust", &sku, "99999999", "1"], "no warehouse `99999999` is known here".into()),
        (
            &["ship", &strange_order],
            format!("no order `{strange_order}` is known here; the nearest is `{}`", orders[0]),
        ),
    ];
    for (args, problem) in &cases {
        let (code, said) = ended(&desk.run(args).await);
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains(problem), "{args:?}: {said}");
        assert!(said.contains("Nothing was queued: correct it, or add --unknown"), "{args:?}: {said}");
    }
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 0);
    for (args, problem) in &cases {
        let output = desk.run(&[args, &["--unknown"][..]].concat()).await;
        let warning = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {warning}");
        assert!(
            warning.contains("warning: no ") && warning.contains(problem.trim_end_matches(". ")),
            "{warning}"
        );
    }
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spelling_in_another_case_and_a_sku_that_a_change_creates_are_known() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    desk.text(&["quantity", "adjust", &sku.to_lowercase(), &warehouse, "1"]).await;
    let file = desk.config.with_file_name("product.json");
    std::fs::write(&file, r#"{"Sku":"BRAND-NEW-THING","Name":"A new one"}"#).unwrap();
    assert_eq!(
        desk.run(&["quantity", "set", "BRAND-NEW-THING", &warehouse, "1"]).await.status.code(),
        Some(2)
    );
    desk.text(&["product", "create", file.to_str().unwrap()]).await;
    desk.text(&["quantity", "set", "BRAND-NEW-THING", &warehouse, "1"]).await;
    desk.text(&["sku", "add", "TRACKED-NOT-READ"]).await;
    desk.text(&["quantity", "set", "TRACKED-NOT-READ", &warehouse, "1"]).await;
}

/// Before the first read there is nothing to compare a name with.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_mirror_knows_no_name_and_refuses_none() {
    let desk = super::Desk::new().await;
    desk.text(&["quantity", "adjust", "A", "3", "1"]).await;
    desk.text(&["ship", "1234567"]).await;
    let (code, said) = ended(&desk.run(&["quantity", "adjust", "A", "Main", "1"]).await);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("none was read yet; run `tallyd job run warehouses`"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_with_an_unknown_name_is_an_invalid_line() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let file = desk.config.with_file_name("moves.csv");
    let path = file.to_str().unwrap();
    let lines =
        format!("{sku},{warehouse},1\n{sku}Q,{warehouse},2\n{sku},99999999,3\n{sku}Q,{warehouse},4\n");
    std::fs::write(&file, format!("sku,warehouse_id,delta\n{lines}")).unwrap();
    let (code, said) = ended(&desk.run(&["quantity", "import", path]).await);
    assert_eq!(code, 1, "{said}");
    let problem = format!("no SKU `{sku}Q` is known here; the nearest is `{sku}`");
    assert!(
        said.contains(&format!("line 3: {problem}")) && said.contains(&format!("line 5: {problem}")),
        "{said}"
    );
    assert!(said.contains("line 4: no warehouse `99999999`") && said.contains("add --unknown"), "{said}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 0);
    let (code, said) = ended(&desk.run(&["quantity", "import", path, "--partial"]).await);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("is queued\n") && said.contains("not imported: line 4: no warehouse"), "{said}");
    let (code, said) = ended(&desk.run(&["quantity", "import", path, "--unknown", "--new-lines"]).await);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("3 changes queued, 1 known already") && said.contains("warning: line 3: "),
        "{said}"
    );
    let deltas = format!("SELECT count(*) FROM outbox WHERE sku = {}", quoted(&sku));
    assert_eq!(desk.world.number(&deltas).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_also_a_name_is_refused_until_it_says_which() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let other = desk.world.shop().await.into_iter().find(|level| level.1 != warehouse).unwrap().1;
    desk.world.sql(&format!("UPDATE warehouse SET name = '{warehouse}' WHERE id = {other}")).await;
    let (code, said) = ended(&desk.run(&["quantity", "adjust", &sku, &warehouse.to_string(), "1"]).await);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(&format!("write id:{warehouse} or id:{other}")), "{said}");
    for id in [warehouse, other] {
        desk.text(&["quantity", "adjust", &sku, &format!("id:{id}"), "1"]).await;
    }
    let (first, second) = (warehouse.min(other), warehouse.max(other));
    let named = format!("SELECT count(*) FROM outbox WHERE warehouse_id IN ({first}, {second})");
    assert_eq!(desk.world.number(&named).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warehouse_that_is_switched_off_takes_no_change_without_a_word() {
    let desk = read_desk().await;
    let (sku, warehouse, quantity) = desk.world.shop().await[0].clone();
    desk.world.sql(&format!("UPDATE warehouse SET is_active = FALSE WHERE id = {warehouse}")).await;
    let typed = desk.run(&["quantity", "adjust", &sku, &warehouse.to_string(), "1"]).await;
    let (code, said) = ended(&typed);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("warning: warehouse {warehouse} (")), "{said}");
    assert!(said.contains("switched off at the platform"), "{said}");
    let file = desk.config.with_file_name("counts.csv");
    std::fs::write(&file, format!("sku,warehouse_id,quantity\n{sku},{warehouse},{quantity}\n")).unwrap();
    let (code, said) = ended(&desk.run(&["quantity", "import", file.to_str().unwrap()]).await);
    assert_eq!((code, said.contains("switched off at the platform")), (0, true), "{said}");
}

/// A file of the full stock holds kits, and the platform would refuse each of them every night.
#[tokio::test(flavor = "multi_thread")]
async fn kits_of_a_file_are_left_out_with_their_lines() {
    let desk = read_desk().await;
    let shop = desk.world.shop().await;
    let (kit, warehouse, _) = shop[0].clone();
    let (sku, at, quantity) = shop.iter().find(|level| level.0 != kit).unwrap().clone();
    desk.world.sql(&format!("UPDATE product SET type = 'Kit' WHERE sku = {}", quoted(&kit))).await;
    let file = desk.config.with_file_name("stock.csv");
    std::fs::write(&file, format!("sku,warehouse_id,quantity\n{kit},{warehouse},4\n{sku},{at},{quantity}\n"))
        .unwrap();
    let import = ["quantity", "import", file.to_str().unwrap()];
    let (code, said) = ended(&desk.run(&import).await);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("left out: line 2: {kit} is a kit: count its components")), "{said}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 1, "{said}");

    let typed = ["quantity", "set", &kit, &warehouse.to_string(), "4"];
    let (code, said) = ended(&desk.run(&typed).await);
    assert_eq!((code, said.contains("is a kit")), (2, true), "{said}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 1);
    desk.text(&[&typed[..], &["--unknown"]].concat()).await;
    desk.text(&[&import[..], &["--unknown", "--new-lines"]].concat()).await;
    assert_eq!(
        desk.world.number("SELECT count(*) FROM outbox").await,
        3,
        "what a person insists on is queued"
    );
}
