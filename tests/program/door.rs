//! Write protection of the outbox: the columns that other programs may write, and the writes that the
//! database refuses.
//!
//! The other programs are a plain SQL connection and, if there is one, the host's own `sqlite3`. The rights of
//! programs on a server are in `postgres/rights.rs`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::support::cluster;
use crate::support::outsider::{Outsider, quoted};
use crate::support::{is_on_server, tool};
use std::process::Command;
use tallyd::model::Timestamp;
use tallyd::outbox::{ChangeState, Reason};
use tallyd::store::{ChangeOutcome, DatabaseLock, Durability, Store};

struct House {
    store: Store,
    _lock: DatabaseLock,
    _dir: tempfile::TempDir,
}

impl House {
    /// Creates a database with a pending change `k` and a cancelled one `old`.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let location = cluster::new_location(&dir.path().join("t.db"));
        let lock = DatabaseLock::acquire(location.path()).unwrap();
        let store = Store::open(&location, &lock).await.unwrap();
        let mut write = store.begin_write(Durability::Full).await.unwrap();
        for key in ["k", "old"] {
            write.outbox_insert(key, "zzz", "{}", 0).await.unwrap();
        }
        assert!(write.outbox_cancel("old", Timestamp(1)).await.unwrap().is_ok());
        write.commit().await.unwrap();
        Self { store, _lock: lock, _dir: dir }
    }

    async fn outsider(&self) -> Outsider {
        Outsider::at(self.store.location()).await
    }

    /// Asserts that another program's statement is refused and changes nothing; returns the message.
    async fn refused(&self, sql: &str) -> String {
        let mut other = self.outsider().await;
        let before = other.everything().await;
        let error = other.run(sql).await.expect_err(sql).to_string();
        assert_eq!(other.everything().await, before, "{sql}");
        error
    }
}

#[tokio::test]
async fn our_own_columns_are_nobody_elses() {
    let house = House::new().await;
    let updates = [
        "UPDATE outbox SET reason = 'r'",
        "UPDATE outbox SET detail = 'd' WHERE key = 'old'",
        "UPDATE outbox SET written = 5",
        "UPDATE outbox SET base_quantity = 5, base_own_delta = 0",
        "UPDATE outbox SET state = 'sending', exchange_id = 1 WHERE key = 'k'",
        "UPDATE outbox SET state = 'cancelled', settled_at = created_at WHERE key = 'k'",
        "UPDATE outbox SET revision = 0",
        "UPDATE OR REPLACE outbox SET reason = 'r'",
        "UPDATE OR IGNORE outbox SET reason = 'r'",
    ];
    let is_of_both = |sql: &&str| house.store.location().server().is_none() || !sql.contains(" OR ");
    for sql in updates.into_iter().filter(is_of_both) {
        let why = house.refused(sql).await;
        assert!(why.contains("a change is updated by tallyd only"), "{sql}: {why}");
    }
}

#[tokio::test]
async fn a_change_begins_as_a_change() {
    let house = House::new().await;
    let inserts = [
        "INSERT INTO outbox (key, kind, body, revision) VALUES ('n', 'zzz', '{}', 7)",
        "INSERT INTO outbox (key, kind, body, released_ms) VALUES ('n', 'zzz', '{}', 7)",
        "INSERT INTO outbox (key, kind, body, created_at) VALUES ('n', 'zzz', '{}', '2001-01-01T00:00:00.000Z')",
        "INSERT INTO outbox (key, kind, body, created_at) VALUES ('n', 'zzz', '{}', '2901-01-01T00:00:00.000Z')",
        "INSERT INTO outbox (key, kind, body, base_quantity, base_own_delta) VALUES ('n', 'zzz', '{}', 1, 1)",
    ];
    // A server names the role itself.
    let name = "INSERT INTO outbox (key, kind, body, inserted_by) VALUES ('n', 'zzz', '{}', 'user:anna')";
    let of_a_file = house.store.location().server().is_none().then_some(name);
    for sql in inserts.into_iter().chain(of_a_file) {
        let why = house.refused(sql).await;
        assert!(why.contains("a change begins pending"), "{sql}: {why}");
    }
}

#[tokio::test]
async fn no_change_is_deleted_finished_or_not() {
    let house = House::new().await;
    for key in ["k", "old"] {
        let why = house.refused(&format!("DELETE FROM outbox WHERE key = '{key}'")).await;
        assert!(why.contains("a change is never deleted"), "{why}");
    }
}

#[tokio::test]
async fn our_own_moves_are_counted_and_told() {
    let house = House::new().await;
    let id = house.store.outbox_show("k").await.unwrap().unwrap().id;
    let mut write = house.store.begin_write(Durability::Full).await.unwrap();
    for (from, to, at) in
        [(ChangeState::Pending, ChangeState::Held, 10), (ChangeState::Held, ChangeState::Pending, 20)]
    {
        let moves = [ChangeOutcome::new(id, to, Some(Reason::NotShown), "as the story goes")];
        assert_eq!(write.outbox_transition(from, &moves, Timestamp(at)).await.unwrap(), 1);
    }
    let note = [ChangeOutcome::new(id, ChangeState::Pending, Some(Reason::NotSent), "not yet")];
    assert_eq!(write.outbox_transition(ChangeState::Pending, &note, Timestamp(30)).await.unwrap(), 1);
    write.commit().await.unwrap();
    let story = house.store.change_transitions(id).await.unwrap();
    let answer: Vec<(i64, &str)> = story.iter().map(|row| (row.at_ms, row.state.as_str())).collect();
    assert_eq!(answer, [(10, "held"), (20, "pending")], "a note is no move");
}

/// PostgreSQL stores no U+0000. A text with one is refused before it is stored, on either engine.
#[tokio::test]
async fn text_with_u_0000_is_refused_with_a_sentence() {
    let house = House::new().await;
    let is_on_server = house.store.location().server().is_some();
    let nul = if is_on_server { "chr(0)" } else { "char(0)" };
    let outbox = |key: &str, kind: &str, body: &str| {
        format!("INSERT INTO outbox (key, kind, body) VALUES ({key}, {kind}, {body})")
    };
    let after = |text: &str| format!("'{text}' || {nul}");
    for (insert, sentence) in [
        (outbox(&after("n"), "'zzz'", "'{}'"), "U+0000"),
        (outbox("'n'", &after("zzz"), "'{}'"), "U+0000"),
        (outbox("'n'", "'zzz'", &after("{}")), "U+0000"),
        (format!("INSERT INTO tracked_sku (sku) VALUES ({})", after("A")), "U+0000"),
    ] {
        let why = house.refused(&insert).await;
        // PostgreSQL refuses the text before the statement sees it.
        let sentence = if is_on_server { "null character not permitted" } else { sentence };
        assert!(why.contains(sentence), "{insert}: {why}");
    }
    for body in [r#"{"sku":"a\u0000"}"#, r#"{"\u0000":1}"#, r#"["\\\u0000"]"#] {
        let why = house.refused(&outbox("'n'", "'quantity.set'", &quoted(body))).await;
        assert!(why.contains(r"the body has a character \u0000"), "{body}: {why}");
        assert!(why.contains("(outbox_body_json)"), "{why}");
    }
    // A backslash, and four zeros behind a `u`.
    let fine = outbox("'n'", "'zzz'", &quoted(r#"["\\u0000"]"#));
    let mut other = house.outsider().await;
    other.run(&fine).await.unwrap();
    other.run(&fine).await.unwrap();
    house.refused("INSERT INTO tracked_order (order_id) VALUES ('5' || char(0))").await;
    let count: i64 = other.value("SELECT count(*) FROM outbox").await;
    assert_eq!(count, 3);
}

#[tokio::test]
async fn what_a_program_may_not_insert_is_refused_with_a_sentence() {
    let house = House::new().await;
    let long = "k".repeat(1001);
    for (key, kind, body, sentence) in [
        ("", "zzz", "{}", "a key must not be empty: choose a key (outbox_key_text)"),
        (long.as_str(), "zzz", "{}", "at most 1000 bytes: choose a shorter key"),
        ("n", long.as_str(), "{}", "at most 1000 bytes: choose a shorter key"),
        ("n", "zzz", "{", "the body is no JSON text: correct it (outbox_body_json)"),
        ("k", "zzz", "{", "this key already names another change"),
    ] {
        let row = [key, kind, body].map(quoted).join(", ");
        let why = house.refused(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await;
        assert!(why.contains(sentence), "{key} {kind} {body}: {why}");
    }
    for (moment, sentence) in [
        (
            "9999-01-01T00:00:00Z",
            "is more than a minute in the future: insert the moment of the count in UTC",
        ),
        (" 9999-01-01t00:00:00+01:00 ", "(outbox_moment_ahead)"),
        ("0026-11-22", "lies before the year 2000: insert the moment"),
        ("1999-12-31T23:59:59Z", "(outbox_moment_year)"),
    ] {
        let body = format!(r#"{{"sku":"A","warehouse_id":1,"quantity":3,"counted_at":"{moment}"}}"#);
        let row = ["n", "quantity.set", &body].map(quoted).join(", ");
        let why = house.refused(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await;
        assert!(why.contains(sentence), "{moment}: {why}");
    }
    let mut other = house.outsider().await;
    other.track_skus(&["s".repeat(256)]).await;
    let why = house.refused(&format!("INSERT INTO tracked_sku (sku) VALUES ('{}')", "s".repeat(1001))).await;
    assert!(why.contains("a SKU has at most 1000 bytes"), "{why}");
    for (insert, sentence) in [
        (
            "INSERT INTO outbox (key, kind, body, priority) VALUES ('n', 'zzz', '{}', 2)",
            "the priority is 0, or 1 to go first: insert one of them (outbox_priority)",
        ),
        ("INSERT INTO tracked_sku (sku) VALUES ('  ')", "a SKU must not be blank: insert the SKU"),
        ("INSERT INTO tracked_order (order_id) VALUES (-5)", "the id of an order is above 0: insert the id"),
    ] {
        let why = house.refused(insert).await;
        assert!(why.contains(sentence), "{insert}: {why}");
    }
    // A known key is judged by its body, whatever its priority.
    let known = "INSERT INTO outbox (key, kind, body, priority) SELECT key, kind, body, 2 FROM outbox WHERE key = 'k'";
    other.run(known).await.unwrap();
}

/// The host's own `sqlite3` obeys the same rules; Debian 12 has version 3.40.
#[tokio::test]
async fn the_hosts_own_sqlite3_inserts_and_is_refused_like_anybody() {
    if !tool("sqlite3") {
        return;
    }
    let house = House::new().await;
    if is_on_server(house.store.location(), "sqlite3 opens a file") {
        return;
    }
    let path = house.store.path().to_owned();
    let sqlite3 = |sql: &str| Command::new("sqlite3").arg(&path).arg(sql).output().unwrap();
    let body = r#"{"sku":"A","warehouse_id":1,"quantity":3}"#;
    let insert =
        format!("INSERT INTO outbox (key, kind, body, priority) VALUES ('s', 'quantity.set', '{body}', 1)");
    assert!(sqlite3(&insert).status.success());
    let row = house.store.outbox_show("s").await.unwrap().unwrap();
    assert_eq!((row.state.as_str(), row.priority, row.position.is_some()), ("pending", 1, true));
    let refused = sqlite3("UPDATE outbox SET state = 'sending', exchange_id = 1 WHERE key = 's'");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a change is updated by tallyd only"));
    assert!(
        sqlite3("INSERT OR REPLACE INTO outbox (key, kind, body) VALUES ('s', 'quantity.set', '{}')")
            .stderr
            .len()
            > 9
    );
}
