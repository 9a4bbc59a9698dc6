//! The states with which the guards refuse, which drivers know as integrity errors.

use crate::it::support::World;
use crate::it::support::cluster::Cluster;
use tallyd::store::{Durability, Store};

#[tokio::test]
async fn each_guard_refuses_with_a_state_of_the_standard() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.make().await;
    let mut program = world.outsider().await;
    program.run("INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '{}')").await.unwrap();
    program.run("INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '{ }')").await.unwrap();
    let insert = |values: &str| format!("INSERT INTO outbox (key, kind, body, priority) VALUES ({values})");
    let long = "x".repeat(1001);
    let cases = [
        (insert("'k', 'zzz', '{\"a\":1}', 0"), "23505", "already names another change"),
        (insert("'k', 'other', '{}', 0"), "23505", "already names another change"),
        (insert("'', 'zzz', '{}', 0"), "23514", "a key must not be empty"),
        (insert(&format!("'{long}', 'zzz', '{{}}', 0")), "23514", "at most 1000 bytes"),
        (insert("'p', 'zzz', '{}', 7"), "23514", "the priority is 0"),
        (insert("'j', 'zzz', 'no JSON', 0"), "22P02", "the body is no JSON text"),
        (insert(r#"'n', 'zzz', '{"a":"\u0000"}', 0"#), "22P02", r"a character \u0000"),
        (
            "INSERT INTO outbox (id, key, kind, body) VALUES (9, 'i', 'zzz', '{}')".into(),
            "42501",
            "tallyd assigns the id",
        ),
        (
            "INSERT INTO outbox (key, kind, body, state) VALUES ('s', 'zzz', '{}', 'applied')".into(),
            "42501",
            "a change begins pending",
        ),
        ("UPDATE outbox SET body = '[]'".into(), "42501", "a change is updated by tallyd only"),
        (
            "UPDATE outbox SET body = '[]', revision = revision + 1".into(),
            "42501",
            "a change is never edited",
        ),
        ("UPDATE outbox SET state = 'applied' WHERE key = 'k'".into(), "42501", ""),
        ("DELETE FROM outbox".into(), "42501", "a change is never deleted"),
        ("TRUNCATE outbox CASCADE".into(), "42501", "a change is never deleted"),
        ("INSERT INTO tracked_sku (sku) VALUES (' ')".into(), "23514", "a SKU must not be blank"),
        (format!("INSERT INTO tracked_sku (sku) VALUES ('{long}')"), "23514", "at most 1000 bytes"),
        ("INSERT INTO tracked_order (order_id) VALUES (0)".into(), "23514", "the id of an order is above 0"),
    ];
    for (sql, state, sentence) in &cases {
        let error = program.run(sql).await.expect_err(sql).into_database_error().unwrap();
        assert_eq!(error.code().as_deref(), Some(*state), "{sql}: {error}");
        assert!(error.message().contains(sentence), "{sql}: {error}");
    }

    let store = Store::open_beside(&world.location).await.unwrap();
    let mut write = store.begin_write(Durability::Full).await.unwrap();
    let error = write.outbox_insert("", "zzz", "{}", 0).await.unwrap_err().to_string();
    assert!(error.ends_with(": a key must not be empty: choose a key (outbox_key_text)"), "{error}");
}
