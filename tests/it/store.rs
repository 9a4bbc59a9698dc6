//! The contract of the store: the effects of a page, the refusals of the outbox, the base of a count.
//!
//! Other programs are a connection of their own with plain SQL.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use super::support::cluster;
use super::support::outsider::Outsider;
use crate::client::wire::{Product, ProductBalance, ProductIdentifiers, Shipment, WarehouseBalance};
use crate::journal::{ExchangeBegin, ExchangeEnd, ExchangeOutcome, PackedBody, RunOutcome};
use crate::model::{
    ExchangeId, JobKind, Lane, Moment, Month, Operation, Position, Quantity, REASON_MAX_CHARS, RunId,
    RunTrigger, Sku, StockLevel, StorefrontId, Timestamp, WarehouseId,
};
use crate::outbox::{ChangeState, Reason, Resolution};
use crate::reconcile::ProductLack;
use crate::store::{
    BalancePage, BalancesRecorded, DatabaseLock, Durability, PlatformList, PrunedRows, StalestProgress,
    StockLevelWrite, Store, UnparsedAnswer,
};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection, Executor};

/// A store in a folder of its own, with a session and a run begun.
struct Shelf {
    store: Store,
    run: RunId,
    session: i64,
    now: i64,
    _lock: DatabaseLock,
    _dir: tempfile::TempDir,
}

const T0: i64 = 1_800_000_000_000;

impl Shelf {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let location = cluster::new_location(&dir.path().join("t.db"));
        let lock = DatabaseLock::acquire(location.path()).unwrap();
        let store = Store::open(location, &lock).await.unwrap();
        let mut write = store.begin_write(Durability::Full).await.unwrap();
        let session = write.session_begin("boot", "test", Timestamp(T0), Moment(0)).await.unwrap().session_id;
        let run = write.run_begin(session, JobKind::Balances, RunTrigger::Once, Timestamp(T0)).await.unwrap();
        write.commit().await.unwrap();
        Self { store, run, session, now: T0, _lock: lock, _dir: dir }
    }

    /// Opens another program's connection.
    async fn outsider(&self) -> Outsider {
        Outsider::at(self.store.location()).await
    }

    async fn begin(&mut self) -> ExchangeId {
        self.now += 1000;
        let mut write = self.store.begin_write(Durability::Normal).await.unwrap();
        let begun = ExchangeBegin {
            run_id: self.run,
            operation: Operation::GetProductBalances,
            target: "/api/product/getProductBalances".into(),
            lane: Lane::Poll,
            body: Some(b"{}"),
            sent_at: Timestamp(self.now),
            sent_moment: Moment(self.now - T0),
        };
        let id = write.exchange_begin(self.session, &begun).await.unwrap();
        write.commit().await.unwrap();
        id
    }

    /// Records an answer for an exchange begun earlier, sent at `sent`.
    async fn record(
        &mut self,
        id: ExchangeId,
        sent: i64,
        asked: &[&str],
        got: &[(&str, &[(i64, i64)])],
    ) -> BalancesRecorded {
        let products: Vec<ProductBalance<'_>> =
            got.iter().map(|(sku, levels)| product(sku, levels)).collect();
        self.record_products(id, sent, asked, &products).await
    }

    async fn record_products(
        &mut self,
        id: ExchangeId,
        sent: i64,
        asked: &[&str],
        products: &[ProductBalance<'_>],
    ) -> BalancesRecorded {
        let asked: Vec<Sku> = asked.iter().map(|s| sku(s)).collect();
        let mut write = self.store.begin_write(Durability::Normal).await.unwrap();
        write.exchange_end(id, &ended(self.now + 1)).await.unwrap();
        let (exchange_id, observed_at) = (id, Timestamp(sent));
        let asked = &*asked;
        let (unreadable, hides, is_whole) = (&[][..], false, true);
        let page = BalancePage {
            exchange_id,
            observed_at,
            requested: asked,
            products,
            unreadable,
            has_unnamed_record: hides,
            is_whole,
        };
        let recorded = write.mirror_balances(&page).await.unwrap();
        write.commit().await.unwrap();
        recorded
    }

    async fn read(&mut self, asked: &[&str], got: &[(&str, &[(i64, i64)])]) -> BalancesRecorded {
        let id = self.begin().await;
        self.record(id, self.now, asked, got).await
    }

    /// Returns (quantity, pending, observed) of one stock level.
    async fn level(&self, sku: &str, warehouse: i64) -> (i64, Option<i64>, String) {
        let rows = self.store.stock_list(&[sku.into()]).await.unwrap();
        let row = rows.into_iter().find(|r| r.warehouse_id == warehouse).unwrap();
        (row.quantity, row.pending_quantity, row.observed_at.unwrap())
    }
}

fn sku(text: &str) -> Sku {
    Sku::new(text).unwrap()
}

fn product<'a>(text: &'a str, levels: &[(i64, i64)]) -> ProductBalance<'a> {
    let level = |(warehouse, quantity): &(i64, i64)| WarehouseBalance {
        product_id: None,
        warehouse_id: WarehouseId(*warehouse),
        quantity_on_hand: *quantity,
        warehouse_sku: Some(text.into()),
        is_active: Some(true),
        include_in_sync: None,
    };
    let total = levels.iter().map(|(_, quantity)| quantity).sum();
    ProductBalance {
        sku: sku(text),
        // Another spelling is another product.
        id: Some(text.bytes().fold(7, |id: i64, byte| (id * 31 + i64::from(byte)) % 1_000_003).into()),
        upc: None,
        quantity_on_hand: Some(total),
        warehouses: levels.iter().map(level).collect(),
        is_partial: false,
    }
}

/// Returns the product as an answer other than balances shows it.
fn mentioned(text: &str, name: Option<&str>, upc: Option<&str>) -> Product {
    Product {
        id: product(text, &[]).id.unwrap(),
        sku: sku(text),
        name: name.map(Into::into),
        kind: None,
        quantity_on_hand: None,
        identifiers: Some(ProductIdentifiers { upc: upc.map(Into::into) }),
        warehouses: Vec::new(),
    }
}

fn ended(at: i64) -> ExchangeEnd<'static> {
    ExchangeEnd {
        outcome: ExchangeOutcome::Accepted,
        status: Some(200),
        body: Some(b"[]".as_slice().into()),
        message: None,
        answered_at: Timestamp(at),
        answered_moment: Moment(at - T0),
    }
}

fn at(ms: i64) -> String {
    Timestamp(ms).to_rfc3339()
}

#[tokio::test]
async fn a_page_that_changes_nothing_writes_no_stock_level_and_moves_one_reading() {
    let mut shelf = Shelf::new().await;
    let got: &[(&str, &[(i64, i64)])] = &[("A", &[(1, 5), (2, 0)]), ("Ä/\"1'", &[(1, -2)])];
    let first = shelf.read(&["A", "Ä/\"1'"], got).await;
    assert_eq!((first.stock_levels_changed, first.absent.len()), (3, 0));
    assert_eq!(shelf.level("Ä/\"1'", 1).await.0, -2, "a negative quantity from the platform is a fact");
    let second = shelf.read(&["A", "Ä/\"1'"], got).await;
    assert_eq!(second.stock_levels_changed, 0);
    assert_eq!(shelf.level("A", 2).await, (0, None, at(T0 + 2000)), "seen again, so younger");
    let mut other = shelf.outsider().await;
    let readings: i64 = other.value("SELECT count(*) FROM read_batch").await;
    assert_eq!(readings, 1);
}

#[tokio::test]
async fn a_page_of_another_cut_keeps_every_products_own_age() {
    let mut shelf = Shelf::new().await;
    shelf.read(&["A", "B"], &[("A", &[(1, 5)]), ("B", &[(1, 6)])]).await;
    shelf.read(&["B", "C"], &[("B", &[(1, 6)]), ("C", &[(1, 7)])]).await;
    assert_eq!(shelf.level("A", 1).await.2, at(T0 + 1000));
    assert_eq!(shelf.level("B", 1).await.2, at(T0 + 2000));
}

#[tokio::test]
async fn a_record_in_part_makes_only_the_stock_levels_younger_that_it_shows() {
    let mut shelf = Shelf::new().await;
    shelf.read(&["A"], &[("A", &[(1, 5), (2, 6)])]).await;
    let part = ProductBalance { is_partial: true, ..product("A", &[(1, 5)]) };
    let id = shelf.begin().await;
    shelf.record_products(id, shelf.now, &["A"], &[part]).await;
    assert_eq!(shelf.level("A", 1).await.2, at(T0 + 2000));
    assert_eq!(shelf.level("A", 2).await.2, at(T0 + 1000));
}

#[tokio::test]
async fn the_stalest_tracked_sku_is_always_next() {
    let mut shelf = Shelf::new().await;
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    write.tracked_sku_add(&["A", "B", "C", "D"].map(sku)).await.unwrap();
    write.commit().await.unwrap();
    shelf.read(&["C"], &[("C", &[(1, 1)])]).await;
    shelf.read(&["A"], &[("A", &[(1, 1)])]).await;
    let now = shelf.store.journal_position().await.unwrap();
    let all = shelf.store.tracked_sku_stalest(now, &mut StalestProgress::default(), 9).await.unwrap();
    assert_eq!(all, ["B", "D", "C", "A"], "never read first, then the oldest reading");
    let mut stands = StalestProgress::default();
    for (limit, expected) in [(1, &["B"][..]), (2, &["D", "C"]), (9, &["A"]), (9, &[])] {
        assert_eq!(shelf.store.tracked_sku_stalest(now, &mut stands, limit).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn another_spelling_is_an_alias_and_two_of_them_are_nobody() {
    let mut shelf = Shelf::new().await;
    let recorded = shelf.read(&["abc", "x"], &[("ABC", &[(1, 5)]), ("X", &[]), ("X ", &[])]).await;
    assert_eq!(recorded.absent, [sku("x")], "several folds and no exact match");
    let level = StockLevel { sku: sku("abc"), warehouse_id: WarehouseId(1) };
    let row = &shelf.store.stock_level_rows(&[level]).await.unwrap()[0];
    assert_eq!(
        (row.sku.clone(), row.quantity, row.was_requested),
        (Some(sku("ABC")), Some(Quantity(5)), true)
    );
}

#[tokio::test]
async fn a_sku_is_missing_only_by_two_looks_minutes_apart_that_held_others_and_is_never_deleted() {
    let mut shelf = Shelf::new().await;
    let a: &[(i64, i64)] = &[(1, 5)];
    let b: &[(i64, i64)] = &[(1, 6)];
    let many: Vec<String> = (0..30).map(|n| format!("M{n:02}")).collect();
    let large: Vec<&str> = ["A", "B"].into_iter().chain(many.iter().map(String::as_str)).collect();
    shelf.read(&["A", "B"], &[("A", a), ("B", b)]).await;
    let missing = "SELECT missing_since_ms IS NOT NULL FROM product WHERE sku = 'A'";
    let mut other = shelf.outsider().await;
    // (seconds since the last read, SKUs asked for, records in the answer, true if A is missing then)
    type Got<'a> = &'a [(&'a str, &'a [(i64, i64)])];
    let looks: [(i64, &[&str], Got<'_>, bool); 6] = [
        (0, &["A"], &[], false),
        (200, &large, &[("B", b)], false),
        (100, &["A", "B"], &[("B", b)], false),
        (100, &["A", "B"], &[], false),
        (0, &large, &[("B", b)], true),
        (0, &["A", "B"], &[("A", a), ("B", b)], false),
    ];
    for (n, (later, asked, got, expected)) in looks.into_iter().enumerate() {
        shelf.now += later * 1000;
        shelf.read(asked, got).await;
        let found: bool = other.value(missing).await;
        assert_eq!(found, expected, "look {n}");
        if expected {
            let kept = "SELECT quantity FROM balance JOIN product ON id = product WHERE sku = 'A'";
            assert_eq!(other.value::<i64>(kept).await, 5);
            assert!(
                shelf.store.stock_list(&["A".into()]).await.unwrap().is_empty(),
                "what is missing is no stock"
            );
        }
    }
    assert_eq!(shelf.level("A", 1).await.0, 5, "it came back");
}

#[tokio::test]
async fn what_an_answer_does_not_show_keeps_its_age_and_is_younger_once_it_is_shown_again() {
    let mut shelf = Shelf::new().await;
    let page: &[(&str, &[(i64, i64)])] = &[("A", &[(1, 5), (2, 6)]), ("B", &[(1, 7)])];
    shelf.read(&["A", "B"], page).await;
    let seen = at(shelf.now);
    for _ in 0..2 {
        shelf.read(&["A", "B"], &page[1..]).await;
        assert_eq!(shelf.level("A", 2).await, (6, None, seen.clone()), "absent");
        assert_eq!(shelf.level("B", 1).await, (7, None, at(shelf.now)));
        assert!(!shelf.repeats("A", b"[]").await, "an answer that lacks one makes nobody younger unread");
    }
    let levels = [1, 2].map(|id| StockLevel { sku: sku("A"), warehouse_id: WarehouseId(id) });
    let rows = shelf.store.stock_level_rows(&levels).await.unwrap();
    assert_eq!((rows[0].lack, rows[0].fact_moment), (Some(ProductLack::Absent), Some(Moment(1000))));
    for _ in 0..2 {
        shelf.read(&["A", "B"], page).await;
        assert_eq!(shelf.level("A", 2).await, (6, None, at(shelf.now)), "shown again");
    }
    assert_eq!(shelf.store.stock_level_rows(&levels).await.unwrap()[0].lack, None);
    assert!(shelf.repeats("A", b"[]").await, "and known unread again");

    let shown = at(shelf.now);
    shelf.read(&["A"], &[("A", &[(1, 5)])]).await;
    assert_eq!(
        shelf.store.stock_list(&["A".into()]).await.unwrap().len(),
        2,
        "one answer without it proves nothing"
    );
    let sql = "SELECT fact_ms FROM balance WHERE warehouse_id = 2";
    let vanished: i64 = shelf.outsider().await.value(sql).await;
    assert_eq!(at(vanished), shown, "and was last seen before it vanished");
}

#[tokio::test]
async fn a_vanished_warehouse_link_marks_that_stock_level_alone_and_comes_back() {
    let mut shelf = Shelf::new().await;
    let levels = [1, 2].map(|id| StockLevel { sku: sku("A"), warehouse_id: WarehouseId(id) });
    for (there, expected) in [
        (&[(1, 5), (2, 6)][..], [false, false]),
        (&[(1, 5)], [false, true]),
        (&[(1, 5), (2, 6)], [false, false]),
    ] {
        shelf.read(&["A"], &[("A", there)]).await;
        let rows = shelf.store.stock_level_rows(&levels).await.unwrap();
        assert_eq!([rows[0].is_unlinked, rows[1].is_unlinked], expected, "{there:?}");
    }
}

#[tokio::test]
async fn an_older_answer_never_overwrites_a_newer_write() {
    let mut shelf = Shelf::new().await;
    shelf.read(&["A"], &[("A", &[(1, 50), (2, 9)])]).await;
    let product = 1;
    let early_read = shelf.begin().await;
    let early_sent = shelf.now;
    let claim = shelf.begin().await;
    let sent = shelf.now;
    let written =
        StockLevelWrite { product, warehouse_id: 1, before: Some(Quantity(50)), written: Quantity(47) };
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    write.stock_level_claim(claim, std::slice::from_ref(&written)).await.unwrap();
    write.commit().await.unwrap();

    let during = shelf.begin().await;
    let during_sent = shelf.now;
    shelf.record(during, during_sent, &["A"], &[("A", &[(1, 48), (2, 8)])]).await;
    assert_eq!(
        shelf.level("A", 1).await,
        (50, None, at(T0 + 1000)),
        "claimed: the older fact and its age stay"
    );
    assert_eq!(
        shelf.level("A", 2).await,
        (8, None, at(during_sent)),
        "the other stock level is read as ever"
    );

    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let position = write.exchange_end(claim, &ended(shelf.now)).await.unwrap();
    write.stock_level_writes_complete(claim, position, Timestamp(sent), &[written]).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(shelf.level("A", 1).await, (47, None, at(sent)));
    shelf.record(early_read, early_sent, &["A"], &[("A", &[(1, 50), (2, 8)])]).await;
    assert_eq!(shelf.level("A", 1).await.0, 47, "asked before the write was answered");
    shelf.read(&["A"], &[("A", &[(1, 46), (2, 8)])]).await;
    assert_eq!(shelf.level("A", 1).await.0, 46);
    let row = shelf
        .store
        .stock_level_rows(&[StockLevel { sku: sku("A"), warehouse_id: WarehouseId(1) }])
        .await
        .unwrap();
    assert_eq!(row[0].own_delta, Some(-3), "our own write is no drift; the sale of one is");
}

#[tokio::test]
async fn a_count_stands_on_the_fact_and_an_explicit_seen_on_the_fact_it_names() {
    let mut shelf = Shelf::new().await;
    shelf.read(&["A"], &[("A", &[(1, 46)])]).await;
    shelf.read(&["A"], &[("A", &[(1, 50)])]).await;
    let mut other = shelf.outsider().await;
    other.run(
            r#"INSERT INTO outbox (key, kind, body) VALUES
            ('plain', 'quantity.set', '{"sku":"A","warehouse_id":1,"quantity":44}'),
            ('seen',  'quantity.set', '{"sku":"A","warehouse_id":1.0,"quantity":44,"seen":46}'),
            ('never', 'quantity.set', '{"sku":"A","warehouse_id":1,"quantity":44,"seen":3}'),
            ('huge',  'quantity.set', '{"sku":"A","warehouse_id":123456789012345678901234567890,"quantity":44}'),
            ('other', 'zzz', '[1]')"#,
        )
        .await
        .unwrap();
    let base: Vec<(String, Option<i64>, Option<i64>)> =
        other.rows("SELECT key, base_quantity, base_own_delta FROM outbox ORDER BY id").await;
    let expected = [
        ("plain", Some(50), Some(0)),
        ("seen", Some(46), Some(0)),
        ("never", Some(3), Some(0)),
        ("huge", None, None),
        ("other", None, None),
    ];
    assert_eq!(base, expected.map(|(key, quantity, ours)| (key.to_owned(), quantity, ours)));
    assert_eq!(
        shelf.level("A", 1).await.1,
        Some(44 + 50 - 3),
        "the newest count, merged with what moved since"
    );
}

#[tokio::test]
async fn a_base_is_fixed_once_by_the_first_read_after_the_count() {
    let mut shelf = Shelf::new().await;
    shelf.read(&["A"], &[("A", &[(1, 80)])]).await;
    let mut other = shelf.outsider().await;
    other
        .run(
            r#"INSERT INTO outbox (key, kind, body) VALUES
               ('monday', 'quantity.set', '{"sku":"A","warehouse_id":1,"quantity":49}')"#,
        )
        .await
        .unwrap();
    let created: String = other.value("SELECT created_at FROM outbox").await;
    let created = Timestamp::parse(&created).unwrap().0;
    // The fact is from the year 2027 of the test's clock; it becomes Friday's, and the next read Monday's.
    let earlier = created - 200_000_000;
    other.run(&format!("UPDATE read_batch SET observed_ms = {earlier}")).await.unwrap();
    other.run(&format!("UPDATE outbox SET revision = revision + 1, base_ms = {earlier}")).await.unwrap();
    for (quantity, expected) in [(50, 50), (48, 50)] {
        let id = shelf.begin().await;
        shelf.record(id, created + 1000 + quantity, &["A"], &[("A", &[(1, quantity)])]).await;
        let write = shelf.store.begin_write(Durability::Normal).await.unwrap();
        write.outbox_fix_bases_and_commit(id, Timestamp(created + 1000 + quantity), 900_000).await.unwrap();
        let base: i64 = other.value("SELECT base_quantity FROM outbox").await;
        assert_eq!(base, expected, "Monday's count must not get Friday's base, nor a second one");
    }
}

#[tokio::test]
async fn a_pair_is_kept_with_when_it_was_first_and_last_seen() {
    let mut shelf = Shelf::new().await;
    for quantity in [50, 50, 50, 48] {
        shelf.read(&["A"], &[("A", &[(1, quantity)])]).await;
    }
    let mut other = shelf.outsider().await;
    let past: Vec<(i64, i64, i64)> =
        other.rows("SELECT quantity, since_ms, observed_ms FROM balance_history").await;
    assert_eq!(past, [(50, T0 + 1000, T0 + 3000)]);
    let now: (i64, i64) = other.row("SELECT quantity, since_ms FROM balance").await;
    assert_eq!(now, (48, T0 + 4000));
}

#[tokio::test]
async fn a_key_is_for_ever() {
    let shelf = Shelf::new().await;
    let mut other = shelf.outsider().await;
    let change = r#"('k', 'quantity.adjust', '{"sku":"A","warehouse_id":1,"delta":-3}')"#;
    let is_on_server = shelf.store.location().server().is_some();
    for verb in ["INSERT", "INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"] {
        if is_on_server && verb.contains(" OR ") {
            continue;
        }
        other.run(&format!("{verb} INTO outbox (key, kind, body) VALUES {change}")).await.unwrap();
    }
    let upsert = format!(
        "INSERT INTO outbox (key, kind, body) VALUES {change} ON CONFLICT (key) DO UPDATE SET priority = 1"
    );
    other.run(&upsert).await.unwrap();
    let rows: Vec<(i64, i64)> = other.rows("SELECT id, priority FROM outbox").await;
    assert_eq!(rows, [(1, 0)]);

    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    assert!(write.outbox_cancel("k", Timestamp(T0)).await.unwrap().is_ok());
    assert!(write.outbox_cancel("k", Timestamp(T0)).await.unwrap().is_err());
    write.commit().await.unwrap();
    let again = format!("INSERT INTO outbox (key, kind, body) VALUES {change}");
    other.run(&again).await.unwrap();
    let count: i64 = other.value("SELECT count(*) FROM outbox").await;
    assert_eq!(count, 1, "also after its end");
}

#[tokio::test]
async fn the_outbox_refuses_what_is_not_drawn() {
    let shelf = Shelf::new().await;
    let mut other = shelf.outsider().await;
    other
        .run("INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '{}'), ('l', 'zzz', '{}')")
        .await
        .unwrap();
    let refused = [
        "INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '{\"a\":1}')",
        "INSERT INTO outbox (key, kind, body) VALUES ('n', 'zzz', '{')",
        "INSERT INTO outbox (id, key, kind, body) VALUES (1, 'n', 'zzz', '{}')",
        "INSERT OR REPLACE INTO outbox (id, key, kind, body) VALUES (99, 'n', 'zzz', '{}')",
        "INSERT INTO outbox (key, kind, body, state) VALUES ('n', 'zzz', '{}', 'held')",
        "INSERT INTO outbox (key, kind, body, reason) VALUES ('n', 'zzz', '{}', 'r')",
        "INSERT INTO outbox (key, kind, body, created_at) VALUES ('n', 'zzz', '{}', '2001-01-01T00:00:00.000Z')",
        "UPDATE outbox SET body = '{\"a\":1}'",
        "UPDATE outbox SET key = 'other' WHERE key = 'k'",
        "UPDATE outbox SET revision = revision + 1, state = 'applied', settled_at = created_at",
        "UPDATE outbox SET revision = revision + 1, state = 'in_doubt', reason = 'r', exchange_id = 1",
        "DELETE FROM outbox",
    ];
    let is_on_server = shelf.store.location().server().is_some();
    for sql in refused {
        if is_on_server && sql.contains(" OR ") {
            continue;
        }
        assert!(other.run(sql).await.is_err(), "{sql}");
    }
}

/// Database of earlier migrations, which were other files; the checksums are real.
#[tokio::test]
async fn a_database_of_other_migrations_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("old.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut old = options.journal_mode(SqliteJournalMode::Wal).connect().await.unwrap();
    old.execute(
        "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
             installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, \
             checksum BLOB NOT NULL, execution_time BIGINT NOT NULL); \
         INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES \
             (1, 'journal', 1, x'e89d885a805dc43d5cd9d4f7e508017c8c513628926197ed\
9fa652e11bf460933db7e9f9898e07800eee4308641e51ad', 0), \
             (34, 'hosts', 1, x'1d35dc03f6b7b83d38fb61a82cef0064c18eef2698a13620\
8908f2078958199eb00c06a72c7bbb2ab1f95fbc121c985b', 0); \
         CREATE TABLE counter (id INTEGER PRIMARY KEY, position INTEGER NOT NULL); \
         INSERT INTO counter VALUES (1, 4711)",
    )
    .await
    .unwrap();
    old.close().await.unwrap();
    let before = std::fs::read(&path).unwrap();
    let lock = DatabaseLock::acquire(&path).unwrap();
    let held = Store::open(&path, &lock).await.unwrap_err().to_string();
    let beside = Store::open_beside(&path).await.unwrap_err().to_string();
    let parts =
        ["cannot open the database", "old.db", "migration 1 differs", "nothing was changed", "keep it"];
    for why in [held, beside] {
        for part in parts {
            assert!(why.to_lowercase().contains(part), "`{part}` is not in: {why}");
        }
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// Each named CHECK has a statement that only this CHECK forbids.
#[tokio::test]
async fn each_named_check_is_broken_by_a_statement_and_says_its_name() {
    let shelf = Shelf::new().await;
    let mut other = shelf.outsider().await;
    other.run("INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '{}')").await.unwrap();
    let breaks = [
        ("journal_sequence_single", "INSERT INTO journal_sequence VALUES (2, 0)"),
        ("run_trigger", "INSERT INTO run (session_id, job, trigger, started_ms) VALUES (1, 'push', 'x', 1)"),
        ("run_input", "UPDATE run SET input = '{'"),
        ("run_outcome", "UPDATE run SET outcome = 'x', ended_ms = 1"),
        ("run_ended", "UPDATE run SET ended_ms = 1"),
        ("body_digest_size", "INSERT INTO body (digest, size, packed) VALUES (x'00', 1, x'00')"),
        ("exchange_lane", EXCHANGE_LANE),
        ("exchange_verdict", EXCHANGE_VERDICT),
        ("exchange_ended", EXCHANGE_ENDED),
        ("exchange_order", EXCHANGE_ORDER),
        (
            "event_detail",
            "INSERT INTO event (position, at_ms, kind, subject, detail) VALUES (1, 1, 'k', 's', '{')",
        ),
        ("request_kind", "INSERT INTO request (kind, input, asked_at) VALUES ('x', '{}', '')"),
        ("request_input", "INSERT INTO request (kind, input, asked_at) VALUES ('keys', '{', '')"),
        (
            "request_answer",
            "INSERT INTO request (kind, input, asked_at, answered_at, answer) VALUES ('keys', '{}', '', '', '{')",
        ),
        (
            "request_answered",
            "INSERT INTO request (kind, input, asked_at, answered_at) VALUES ('keys', '{}', '', '')",
        ),
        (
            "order_line_item_absent",
            "INSERT INTO order_line_item (order_id, line_item_id, quantity_sold, exchange_id, absent_ms) \
             VALUES (1, 1, 1, 1, 1)",
        ),
        ("product_lack", "INSERT INTO product (sku, case_key, lack) VALUES ('x', 'x', 'gone')"),
        ("quarantine_failures", "INSERT INTO quarantine VALUES ('o', 's', 1, 1, 0, 'w')"),
        ("limiter_state_single", "INSERT INTO limiter_state VALUES (2, '{}')"),
        ("limiter_state_json", "INSERT INTO limiter_state VALUES (1, '{')"),
        ("job_state_enabled", "INSERT INTO job_state (job, enabled, since_ms) VALUES ('push', 2, 1)"),
        (
            "job_state_interval",
            "INSERT INTO job_state (job, enabled, since_ms, interval_ms) VALUES ('push', TRUE, 1, 0)",
        ),
        (
            "job_state_outcome",
            "INSERT INTO job_state (job, enabled, since_ms, last_outcome) VALUES ('push', TRUE, 1, 'x')",
        ),
        (
            "balance_is_active",
            "INSERT INTO balance (product, warehouse_id, quantity, is_active) VALUES (1, 1, 1, 2)",
        ),
        (
            "balance_include_in_sync",
            "INSERT INTO balance (product, warehouse_id, quantity, include_in_sync) VALUES (1, 1, 1, 2)",
        ),
        (
            "balance_fact",
            "INSERT INTO balance (product, warehouse_id, quantity, fact_ms) VALUES (1, 1, 1, 2)",
        ),
        (
            "warehouse_is_active",
            "INSERT INTO warehouse (id, name, is_active, exchange_id) VALUES (1, 'n', 2, 1)",
        ),
        (
            "warehouse_contact",
            "INSERT INTO warehouse (id, name, contact, exchange_id) VALUES (1, 'n', '{', 1)",
        ),
        ("exchange_is_ignored", EXCHANGE_SET_ASIDE),
        (
            "session_projection_version",
            "INSERT INTO session (boot_id, version, started_ms, projection_version) VALUES ('b', 'v', 1, -1)",
        ),
        ("snapshot_pruned_to", "INSERT INTO snapshot VALUES (1, 1, 2, FALSE)"),
        ("snapshot_by_size", "INSERT INTO snapshot VALUES (1, 1, 1, 2)"),
        ("sales_order_is_complete", "INSERT INTO sales_order VALUES (1, 1, 1, 1, 2, NULL)"),
        (
            "shipment_line_is_shipped",
            "INSERT INTO shipment_line (shipment_id, item_id, quantity, is_shipped, exchange_id) VALUES (1, 1, 1, 2, 1)",
        ),
        (
            "shipment_line_is_confirmed",
            "INSERT INTO shipment_line (shipment_id, item_id, quantity, is_confirmed, exchange_id) VALUES (1, 1, 1, 2, 1)",
        ),
        (
            "stock_level_write_is_unconfirmed",
            "INSERT INTO stock_level_write (product, warehouse_id, exchange_id, written, is_unconfirmed) \
             VALUES (1, 1, 1, 1, 2)",
        ),
        (
            "stock_level_write_is_proven",
            "INSERT INTO stock_level_write (product, warehouse_id, exchange_id, written, is_proven) \
             VALUES (1, 1, 1, 1, 2)",
        ),
        (
            "stock_level_write_first_mismatch",
            "INSERT INTO stock_level_write (product, warehouse_id, exchange_id, written, first_mismatch_ms) \
             VALUES (1, 1, 1, 1, 1)",
        ),
        (
            "stock_level_write_check_due",
            "INSERT INTO stock_level_write (product, warehouse_id, exchange_id, written, check_due_ms) \
             VALUES (1, 1, 1, 1, 1)",
        ),
        ("mismatch_differs", "INSERT INTO mismatch VALUES (1, 1, 1, 5, 5, 1)"),
        ("tracked_sku_text", "INSERT INTO tracked_sku (sku) VALUES (' ')"),
        ("tracked_sku_origin", "INSERT INTO tracked_sku (sku, origin) VALUES ('a', 'x')"),
        ("tracked_order_positive", "INSERT INTO tracked_order VALUES (0)"),
        ("outbox_key_text", "INSERT INTO outbox (key, kind, body) VALUES ('', 'zzz', '{}')"),
        ("outbox_body_json", "INSERT INTO outbox (key, kind, body) VALUES ('n', 'zzz', 'x')"),
        ("outbox_priority", "INSERT INTO outbox (key, kind, body, priority) VALUES ('n', 'zzz', '{}', 2)"),
        ("outbox_settled", "UPDATE outbox SET revision = revision + 1, state = 'cancelled'"),
        (
            "outbox_settled_at",
            "UPDATE outbox SET revision = revision + 1, state = 'cancelled', settled_at = 'now'",
        ),
        ("outbox_reason", "UPDATE outbox SET revision = revision + 1, state = 'held'"),
        ("outbox_sending", "UPDATE outbox SET revision = revision + 1, state = 'sending'"),
        ("outbox_acknowledged", "UPDATE outbox SET revision = revision + 1, acknowledged_ms = 1"),
        ("units_taken_some", "INSERT INTO units_taken VALUES (1, 1, 1, 1, 0)"),
        ("outbox_dated_at", "UPDATE outbox SET revision = revision + 1, dated_at = 'now'"),
        ("outbox_base", "UPDATE outbox SET revision = revision + 1, base_own_delta = 1"),
        ("brake_trip_released", "INSERT INTO brake_trip (at_ms, what, released_ms) VALUES (2, 'w', 1)"),
        ("quantity_policy_known", "INSERT INTO quantity_policy VALUES (5, 'x')"),
        ("supplier_is_active", "INSERT INTO supplier (id, is_active, exchange_id) VALUES (1, 2, 1)"),
        ("storefront_is_active", "INSERT INTO storefront (id, is_active, exchange_id) VALUES (1, 2, 1)"),
        ("storefront_properties", "INSERT INTO storefront (id, properties, exchange_id) VALUES (1, '{', 1)"),
        ("allocation_read_is_found", "INSERT INTO allocation_read VALUES (1, 1, 1, 1, 2)"),
        ("report_month_report", "INSERT INTO report_month VALUES ('x', 2026, 1, '[]', FALSE, 1, 1)"),
        (
            "report_month_month",
            "INSERT INTO report_month VALUES ('top_selling', 2026, 13, '[]', FALSE, 1, 1)",
        ),
        (
            "report_month_payload",
            "INSERT INTO report_month VALUES ('top_selling', 2026, 1, '[', FALSE, 1, 1)",
        ),
        ("report_month_is_agreed", "INSERT INTO report_month VALUES ('top_selling', 2026, 1, '[]', 2, 1, 1)"),
        ("delivery_kind", "INSERT INTO delivery VALUES (1, 'x', 's', '{}', NULL)"),
        ("delivery_evidence", "INSERT INTO delivery VALUES (1, 'shipment.create', 's', '{', NULL)"),
        ("delivery_created", "INSERT INTO delivery VALUES (1, 'tracking.submit', 's', '{}', 5)"),
        ("in_doubt_check_shown", "INSERT INTO in_doubt_check VALUES (1, 1, 1, '{')"),
        ("adoption_shipment", "INSERT INTO adoption VALUES (1, 0)"),
        ("count_resolution_quantity", "INSERT INTO count_resolution VALUES (1, -1, 1, 1)"),
        ("count_resolution_base", "INSERT INTO count_resolution VALUES (1, 5, 1, NULL)"),
        ("account_binding_single", "INSERT INTO account_binding VALUES (2, zeroblob(16), NULL, NULL)"),
        ("account_binding_salt", "UPDATE account_binding SET salt = x'00'"),
        ("account_binding_key_digest", "UPDATE account_binding SET key_digest = x'00'"),
        ("backup_marker_single", "INSERT INTO backup_marker VALUES (2, 1, 1)"),
        ("pause_until", "INSERT INTO pause VALUES ('push', 2, 1, 'w', NULL)"),
        ("pause_why", "INSERT INTO pause VALUES ('push', 1, NULL, '', NULL)"),
        (
            "notice_batch",
            "INSERT INTO notice (id, notifier, due_ms, batch, next_ms) VALUES (1, 'n', 1, '{', 1)",
        ),
        (
            "notice_attempts",
            "INSERT INTO notice (id, notifier, due_ms, batch, attempts, next_ms) VALUES (1, 'n', 1, '{}', -1, 1)",
        ),
    ];
    let of_a_server = ("change_sequence_single", "INSERT INTO change_sequence VALUES (2)");
    let is_on_server = shelf.store.location().server().is_some();
    let breaks: Vec<_> = breaks.into_iter().chain(is_on_server.then_some(of_a_server)).collect();
    let named = named_checks(&mut other).await;
    let mut unnamed = Vec::new();
    for &(name, sql) in &breaks {
        let sql = match &other {
            Outsider::Sqlite(_) => sql.to_owned(),
            Outsider::Postgres(_) => {
                sql.replace("x'00'", r"'\x00'").replace("zeroblob(16)", "substr(sha256(''), 1, 16)")
            }
        };
        let error = other.run(&sql).await.expect_err(name).to_string();
        if !error.contains(name) {
            unnamed.push((name, error));
        }
    }
    // A flag is BOOLEAN on a server, which refuses a number before it looks at the CHECK.
    unnamed.retain(|(_, error)| !error.contains("is of type boolean"));
    assert_eq!(unnamed, []);
    for name in &named {
        // Triggers already refuse an unknown state and a forged time, so these two CHECKs cannot be reached.
        let by_trigger = ["outbox_state", "outbox_created_at"].contains(&name.as_str());
        assert!(by_trigger || breaks.iter().any(|(broken, _)| broken == name), "{name} is never broken");
    }
}

/// Returns the names of the CHECKs of the schema.
async fn named_checks(other: &mut Outsider) -> Vec<String> {
    let sql = match other {
        Outsider::Sqlite(_) => "SELECT sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL",
        Outsider::Postgres(_) => {
            "SELECT 'CONSTRAINT ' || conname || ' CHECK' FROM pg_constraint \
             WHERE contype = 'c' AND connamespace = CAST(current_schema() AS regnamespace)"
        }
    };
    let schema: Vec<(String,)> = other.rows(sql).await;
    let checks = schema.iter().flat_map(|(sql,)| sql.split("CONSTRAINT ").skip(1));
    let checks =
        checks.filter(|rest| rest.split_whitespace().nth(1).is_some_and(|word| word.starts_with("CHECK")));
    let named: Vec<String> =
        checks.filter_map(|rest| Some(rest.split_whitespace().next()?.to_owned())).collect();
    assert!(named.len() > 60, "{named:?}");
    named
}

const EXCHANGE_SET_ASIDE: &str = "INSERT INTO exchange (id, run_id, session_id, operation, target, lane, sent_ms, \
    sent_moment, is_ignored) VALUES (9, 1, 1, 'o', 't', 'poll', 1, 1, 2)";
const EXCHANGE_LANE: &str = "INSERT INTO exchange (id, run_id, session_id, operation, target, lane, sent_ms, \
    sent_moment) VALUES (9, 1, 1, 'o', 't', 'x', 1, 1)";
const EXCHANGE_VERDICT: &str = "INSERT INTO exchange (id, run_id, session_id, operation, target, lane, sent_ms, \
    sent_moment, ended, answered_ms, answered_moment, verdict) VALUES (9, 1, 1, 'o', 't', 'poll', 1, 1, 10, 1, 1, 'x')";
const EXCHANGE_ENDED: &str = "INSERT INTO exchange (id, run_id, session_id, operation, target, lane, sent_ms, \
    sent_moment, ended) VALUES (9, 1, 1, 'o', 't', 'poll', 1, 1, 10)";
const EXCHANGE_ORDER: &str = "INSERT INTO exchange (id, run_id, session_id, operation, target, lane, sent_ms, \
    sent_moment, ended, answered_ms, answered_moment, verdict) \
    VALUES (9, 1, 1, 'o', 't', 'poll', 1, 1, 9, 1, 1, 'accepted')";

#[tokio::test]
async fn what_was_removed_stays_removed_and_what_is_learnt_is_added() {
    let mut shelf = Shelf::new().await;
    let id = shelf.begin().await;
    let mut other = shelf.outsider().await;
    other.run("INSERT INTO tracked_sku (sku) VALUES ('A'), ('A'), ('B')").await.unwrap();
    other.run("DELETE FROM tracked_sku WHERE sku = 'A'").await.unwrap();
    let mut write = shelf.store.begin_write(Durability::Normal).await.unwrap();
    write.discovered_sku_add(id, &["A", "C"].map(sku)).await.unwrap();
    write.discovered_sku_add(id, &["A", "C"].map(sku)).await.unwrap();
    write.commit().await.unwrap();
    let mut list = Vec::new();
    let take = |page: Vec<(String, String)>| {
        list.extend(page);
        true
    };
    shelf.store.tracked_sku_each(take).await.unwrap();
    assert_eq!(list, [("B", "added"), ("C", "learnt")].map(|(a, b)| (a.to_owned(), b.to_owned())));
    other.run("INSERT INTO tracked_sku (sku) VALUES ('A')").await.unwrap();
    assert_eq!(shelf.store.tracked_sku_count().await.unwrap(), 3, "added again by hand");
}

#[tokio::test]
async fn a_body_is_kept_once_and_a_restart_finds_every_place() {
    let mut shelf = Shelf::new().await;
    for _ in 0..3 {
        let id = shelf.begin().await;
        shelf.record(id, shelf.now, &["A"], &[]).await;
    }
    let open = shelf.begin().await;
    let mut other = shelf.outsider().await;
    let bodies: i64 = other.value("SELECT count(*) FROM body").await;
    assert_eq!(bodies, 2, "one request, one answer");
    let places = shelf.store.exchange_reservations(120).await.unwrap();
    assert_eq!(places.len(), 4);
    assert!(places[0].answered_moment.is_none() && places[1].answered_moment.is_some());
    let boots = async || {
        let places = shelf.store.exchange_reservations(120).await.unwrap();
        places.into_iter().map(|place| place.boot_id).collect::<Vec<_>>()
    };
    let boot = Some("boot".to_owned());
    assert_eq!(boots().await, vec![boot.clone(); 4]);
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    write.session_begin("next boot", "test", Timestamp(T0), Moment(5)).await.unwrap();
    write.commit().await.unwrap();
    let runs = shelf.store.run_list(None, 9).await.unwrap();
    assert_eq!((runs[0].outcome.as_str(), runs[0].exchanges), ("interrupted", 4));
    let exchanges = shelf.store.run_exchanges(shelf.run, 0, 100).await.unwrap();
    let last = exchanges.last().unwrap();
    assert_eq!((last.id, last.verdict.as_deref()), (open.0, Some("interrupted")));
    assert_eq!(
        boots().await,
        [None, boot.clone(), boot.clone(), boot],
        "another host's clock ended the first"
    );
    let places = shelf.store.exchange_reservations(120).await.unwrap();
    let given_up: Vec<bool> = places.iter().map(|place| place.is_given_up).collect();
    assert_eq!(given_up, [true, false, false, false], "what the crash cut off may still hold its slot");
}

#[tokio::test]
async fn a_change_in_flight_at_a_crash_is_in_doubt_and_never_pending() {
    let mut shelf = Shelf::new().await;
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    write
        .outbox_insert("k", "quantity.adjust", r#"{"sku":"A","warehouse_id":1,"delta":1}"#, 0)
        .await
        .unwrap();
    write.commit().await.unwrap();
    let change = shelf.store.outbox_show("k").await.unwrap().unwrap();
    let id = shelf.begin().await;
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let claim = crate::store::ClaimedChange { id: change.id, written: Some(4) };
    assert_eq!(write.outbox_claim(id, &[claim], Timestamp(T0)).await.unwrap(), 1);
    assert_eq!(write.outbox_claim(id, &[claim], Timestamp(T0)).await.unwrap(), 0, "claimed once");
    write.commit().await.unwrap();
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    assert_eq!(write.session_begin("boot", "test", Timestamp(T0), Moment(0)).await.unwrap().in_doubt, 1);
    write.commit().await.unwrap();
    let row = shelf.store.outbox_show("k").await.unwrap().unwrap();
    assert_eq!((row.state, row.written), (ChangeState::InDoubt, Some(4)));
}

#[tokio::test]
async fn an_undecided_change_is_decided_before_it_is_cancelled_and_then_its_stock_level_is_free() {
    let mut shelf = Shelf::new().await;
    shelf.read(&["A"], &[("A", &[(1, 50)])]).await;
    shelf.read(&["A"], &[("A", &[(1, 50)])]).await;
    let id = shelf.begin().await;
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    write
        .outbox_insert("k", "quantity.adjust", r#"{"sku":"A","warehouse_id":1,"delta":1}"#, 0)
        .await
        .unwrap();
    let claim = crate::store::ClaimedChange { id: 1.into(), written: Some(51) };
    assert_eq!(write.outbox_claim(id, &[claim], Timestamp(T0)).await.unwrap(), 1);
    let written =
        StockLevelWrite { product: 1, warehouse_id: 1, before: Some(Quantity(50)), written: Quantity(51) };
    write.stock_level_claim(id, &[written]).await.unwrap();
    for (from, to, reason) in [
        (ChangeState::Sending, ChangeState::InDoubt, Reason::NoAnswer),
        (ChangeState::InDoubt, ChangeState::Held, Reason::Undecided),
    ] {
        let verdict = crate::store::ChangeOutcome::new(1.into(), to, Some(reason), "as the story goes");
        assert_eq!(write.outbox_transition(from, &[verdict], Timestamp(T0)).await.unwrap(), 1);
    }
    write.commit().await.unwrap();
    let level = [StockLevel { sku: sku("A"), warehouse_id: WarehouseId(1) }];
    assert!(shelf.store.stock_level_rows(&level).await.unwrap()[0].is_busy);
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let why = write.outbox_cancel("k", Timestamp(T0)).await.unwrap().unwrap_err();
    assert!(why.contains("it may have taken effect; check at the platform"), "{why}");
    let base_age = std::time::Duration::from_secs(900);
    write.outbox_resolve("k", Resolution::HadNoEffect, base_age, Timestamp(T0)).await.unwrap().unwrap();
    assert!(write.outbox_cancel("k", Timestamp(T0)).await.unwrap().is_ok());
    write.commit().await.unwrap();
    assert!(
        !shelf.store.stock_level_rows(&level).await.unwrap()[0].is_busy,
        "later changes of the stock level go on"
    );
}

/// Returns the product `a` without its stock levels: UPC, true for an alias, absences, true if it has a
/// digest.
async fn held(shelf: &Shelf) -> (Option<String>, bool, i64, bool) {
    let sql = "SELECT upc, alias_of IS NOT NULL, CAST(CASE WHEN absent_ms IS NULL THEN 0 ELSE 1 END AS BIGINT), digest IS NOT NULL FROM product WHERE sku = 'a'";
    shelf.outsider().await.row(sql).await
}

/// SQLite's own lower() changes ASCII letters only.
#[tokio::test]
async fn the_history_of_a_count_in_another_spelling_stays() {
    let mut shelf = Shelf::new().await;
    for quantity in 1..=9 {
        shelf.read(&["möbel-1"], &[("möbel-1", &[(1, quantity)])]).await;
    }
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let count = r#"{"sku":"MÖBEL-1 ","warehouse_id":1,"quantity":5}"#;
    write.outbox_insert("k", "quantity.set", count, 0).await.unwrap();
    assert_eq!(write.history_prune(Position(i64::MAX), Timestamp(T0)).await.unwrap(), 0);
    assert!(write.outbox_cancel("k", Timestamp(T0)).await.unwrap().is_ok());
    assert_eq!(write.history_prune(Position(i64::MAX), Timestamp(T0)).await.unwrap(), 3);
}

/// A platform that leaves out records at random shows few of them each time: one that comes again tells of it.
#[tokio::test]
async fn a_new_sku_is_looked_up_beside_known_ones_also_those_that_answers_lacked() {
    let mut shelf = Shelf::new().await;
    let all = [("A", &[(1, 5)][..]), ("B", &[(1, 6)][..]), ("C", &[(1, 7)][..])];
    shelf.read(&["A", "B", "C"], &all).await;
    shelf.read(&["A", "B", "C"], &all[..1]).await;
    let beside = shelf.store.witness_skus(&sku("C")).await.unwrap();
    assert_eq!(beside, [sku("A"), sku("B")], "first what the last answer showed");
}

#[tokio::test]
async fn a_record_known_by_its_digest_is_written_again_once_anything_else_changed_its_product() {
    let mut shelf = Shelf::new().await;
    let same: &[(&str, &[(i64, i64)])] = &[("a", &[(1, 5), (2, 6)])];
    let as_it_was = (None, false, 0, true);
    shelf.read(&["a"], same).await;
    assert_eq!(held(&shelf).await, as_it_was);

    shelf.read(&["a"], &[]).await;
    assert_eq!(
        held(&shelf).await,
        (None, false, 0, false),
        "not shown, and an empty answer proves no absence"
    );
    shelf.read(&["a", "b"], &[("b", &[(1, 1)])]).await;
    assert_eq!(held(&shelf).await, (None, false, 1, false), "absent");
    shelf.read(&["a"], same).await;
    assert_eq!(held(&shelf).await, as_it_was);

    shelf.read(&["a"], &[("A", &[(1, 5)])]).await;
    assert_eq!(held(&shelf).await, (None, true, 0, false), "another spelling");
    shelf.read(&["a"], same).await;
    assert_eq!(held(&shelf).await, as_it_was);

    let met = mentioned("a", None, Some("1"));
    let mut write = shelf.store.begin_write(Durability::Normal).await.unwrap();
    write.mirror_products(&[&met]).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(held(&shelf).await, (Some("1".into()), false, 0, false), "met on the way");
    shelf.read(&["a"], same).await;
    assert!(held(&shelf).await.3);

    let claim = shelf.begin().await;
    let written =
        StockLevelWrite { product: 1, warehouse_id: 1, before: Some(Quantity(5)), written: Quantity(3) };
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    write.stock_level_claim(claim, std::slice::from_ref(&written)).await.unwrap();
    let position = write.exchange_end(claim, &ended(shelf.now)).await.unwrap();
    write.stock_level_writes_complete(claim, position, Timestamp(shelf.now), &[written]).await.unwrap();
    write.commit().await.unwrap();
    assert!(!held(&shelf).await.3, "written by us");
    for _ in 0..2 {
        shelf.now += 10_000;
        shelf.read(&["a"], same).await;
    }
    assert_eq!(shelf.level("a", 1).await, (5, None, at(shelf.now)), "two looks agree");
    assert!(held(&shelf).await.3);
}

#[tokio::test]
async fn of_two_records_for_one_product_the_last_speaks_every_time() {
    let mut shelf = Shelf::new().await;
    for _ in 0..2 {
        shelf.read(&["a"], &[("a", &[(1, 5)]), ("a", &[(1, 6)])]).await;
        assert_eq!(shelf.level("a", 1).await.0, 6);
    }
}

impl Shelf {
    /// Ends an exchange with an unchanged answer.
    ///
    /// Returns true if the answer was recognised unread and the read batch was renewed.
    async fn repeats(&mut self, first: &str, answer: &[u8]) -> bool {
        let exchange_id = self.begin().await;
        let (first, digest) = (sku(first), PackedBody::digest(answer));
        let unread =
            UnparsedAnswer { exchange_id, observed_at: Timestamp(self.now), first_sku: &first, digest };
        let may_repeat = self.store.read_batch_may_be_unchanged(&unread).await.unwrap();
        let mut write = self.store.begin_write(Durability::Normal).await.unwrap();
        write.exchange_end(exchange_id, &ended(self.now + 1)).await.unwrap();
        let repeats = write.read_batch_confirm(&unread).await.unwrap();
        write.commit().await.unwrap();
        assert!(may_repeat || !repeats, "what is asked first may only be too hopeful");
        repeats
    }
}

#[tokio::test]
async fn the_same_answer_again_is_known_unread_and_makes_all_its_stock_levels_younger() {
    let mut shelf = Shelf::new().await;
    assert!(!shelf.repeats("A", b"[]").await, "nothing is known yet");
    shelf.read(&["A", "B"], &[("A", &[(1, 5)]), ("B", &[(1, 6), (2, 7)])]).await;
    assert!(shelf.repeats("A", b"[]").await);
    assert_eq!(shelf.level("A", 1).await, (5, None, at(shelf.now)));
    assert_eq!(shelf.level("B", 2).await, (7, None, at(shelf.now)));
    assert!(!shelf.repeats("A", b"[1]").await, "another answer is read");
    assert!(shelf.repeats("A", b"[]").await, "and one that was not recorded has changed nothing");
}

#[tokio::test]
async fn an_answer_is_read_again_once_anything_it_said_no_longer_stands_or_was_never_taken() {
    let mut shelf = Shelf::new().await;
    let page: &[(&str, &[(i64, i64)])] = &[("A", &[(1, 5)]), ("B", &[(1, 6)])];
    shelf.read(&["A", "B"], page).await;
    shelf.read(&["B", "C"], &[("B", &[(1, 6)]), ("C", &[])]).await;
    assert!(!shelf.repeats("A", b"[]").await, "B was read with others since");
    assert!(shelf.repeats("B", b"[]").await);

    for (asked, got) in [(&["A", "x"][..], &[("A", &[(1, 5)][..])][..]), (&["a"], &[("A", &[(1, 5)])])] {
        shelf.read(asked, got).await;
        assert!(!shelf.repeats("A", b"[]").await, "absent ones are counted and spellings kept: {asked:?}");
    }

    shelf.read(&["A", "B"], page).await;
    let claim = shelf.begin().await;
    let sent = shelf.now;
    let written =
        StockLevelWrite { product: 1, warehouse_id: 1, before: Some(Quantity(5)), written: Quantity(3) };
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    write.stock_level_claim(claim, std::slice::from_ref(&written)).await.unwrap();
    write.commit().await.unwrap();
    assert!(!shelf.repeats("A", b"[]").await, "a write is under way");
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let position = write.exchange_end(claim, &ended(shelf.now)).await.unwrap();
    write.stock_level_writes_complete(claim, position, Timestamp(sent), &[written]).await.unwrap();
    write.commit().await.unwrap();
    assert!(!shelf.repeats("A", b"[]").await, "the stock level holds what we wrote");
    assert_eq!(shelf.level("A", 1).await.0, 3);
}

#[tokio::test]
async fn only_a_run_that_did_all_it_set_out_to_do_makes_its_data_good() {
    let shelf = Shelf::new().await;
    let good = async |outcome: RunOutcome, at: i64| {
        let mut write = shelf.store.begin_write(Durability::Normal).await.unwrap();
        let (job, at) = (JobKind::Balances, Timestamp(T0 + at));
        let run = write.run_begin(shelf.session, job, RunTrigger::Once, at).await.unwrap();
        write.run_end(run, job, outcome, "as the story goes", at).await.unwrap();
        write.commit().await.unwrap();
        let sql = format!("SELECT last_good_ms - {T0} FROM job_state WHERE job = 'balances'");
        shelf.outsider().await.value::<Option<i64>>(&sql).await
    };
    assert_eq!(good(RunOutcome::Partial, 1).await, None);
    assert_eq!(good(RunOutcome::Ok, 2).await, Some(2));
    for outcome in [RunOutcome::Partial, RunOutcome::Failed, RunOutcome::Interrupted] {
        assert_eq!(good(outcome, 3).await, Some(2), "{outcome:?}");
    }
}

/// Begins a call that writes 47 to a stock level of 50, claimed by the change `k`.
async fn on_its_way(shelf: &mut Shelf) -> (ExchangeId, StockLevelWrite) {
    shelf.read(&["A"], &[("A", &[(1, 50)])]).await;
    let exchange = shelf.begin().await;
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let body = r#"{"sku":"A","warehouse_id":1,"delta":-3}"#;
    write.outbox_insert("k", "quantity.adjust", body, 0).await.unwrap();
    let claim = crate::store::ClaimedChange { id: 1.into(), written: Some(47) };
    write.outbox_claim(exchange, &[claim], Timestamp(T0)).await.unwrap();
    let levels =
        write.stock_level_writes_of_entries(&[(&sku("A"), WarehouseId(1), Quantity(47))]).await.unwrap();
    write.stock_level_claim(exchange, &levels).await.unwrap();
    write.commit().await.unwrap();
    (exchange, levels[0].clone())
}

#[tokio::test]
async fn a_write_that_is_concluded_twice_is_ours_once() {
    for way in
        ["applied", "not done", "landed", "not landed", "landed, then applied", "not landed, then applied"]
    {
        let mut shelf = Shelf::new().await;
        let (exchange, level) = on_its_way(&mut shelf).await;
        let levels = [level.clone()];
        let (first, second) = way.split_once(", then ").unwrap_or((way, way));
        let mut after_first = Vec::new();
        for way in [first, second] {
            let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
            let ended = crate::model::Position(exchange.0 + 1);
            let done = match way {
                "applied" => write.stock_level_writes_complete(exchange, ended, Timestamp(T0), &levels).await,
                "not done" => write.stock_level_writes_complete(exchange, ended, Timestamp(T0), &[]).await,
                way => write.stock_level_write_decide(exchange, &level, way == "landed", Timestamp(T0)).await,
            };
            done.unwrap();
            let verdict = crate::store::ChangeOutcome::new(1.into(), ChangeState::Applied, None, way);
            write.outbox_transition(ChangeState::Sending, &[verdict], Timestamp(T0)).await.unwrap();
            write.commit().await.unwrap();
            if after_first.is_empty() {
                after_first = shelf.outsider().await.everything().await;
            }
        }
        assert_eq!(shelf.outsider().await.everything().await, after_first, "{way}");
        let held: (i64, i64) = shelf.outsider().await.row("SELECT quantity, own_delta FROM balance").await;
        let is_done = first == "applied" || first == "landed";
        assert_eq!(held, if is_done { (47, -3) } else { (50, 0) }, "{way}");
    }
}

#[tokio::test]
async fn an_exchange_that_ended_is_known_to_have() {
    let mut shelf = Shelf::new().await;
    let id = shelf.begin().await;
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    assert!(!write.exchange_has_ended(id).await.unwrap());
    write.exchange_end(id, &ended(T0)).await.unwrap();
    assert!(write.exchange_has_ended(id).await.unwrap());
}

#[tokio::test]
async fn a_claim_never_takes_over_a_claim_that_is_open() {
    let mut shelf = Shelf::new().await;
    let (first, level) = on_its_way(&mut shelf).await;
    let second = shelf.begin().await;
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let other = StockLevelWrite { written: Quantity(75), ..level.clone() };
    assert!(
        !write.stock_level_claim(second, &[other]).await.unwrap(),
        "somebody else writes the stock level"
    );
    drop(write);
    let mut beside = shelf.outsider().await;
    let taken = "UPDATE stock_level_write SET exchange_id = exchange_id + 1, written = 75";
    let why = beside.run(taken).await.unwrap_err().to_string();
    assert!(why.contains("is being written by another call"), "{why}");
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let ended = crate::model::Position(second.0 + 1);
    write
        .stock_level_writes_complete(first, ended, Timestamp(T0), std::slice::from_ref(&level))
        .await
        .unwrap();
    let next = StockLevelWrite { before: Some(Quantity(47)), written: Quantity(75), ..level };
    assert!(write.stock_level_claim(second, &[next]).await.unwrap(), "it is over");
    write.commit().await.unwrap();
}

/// The platform may send a reason of any length; a sentence of it is stored.
#[tokio::test]
async fn each_reason_is_cut_where_it_is_stored() {
    let mut shelf = Shelf::new().await;
    let id = shelf.begin().await;
    let long = "ä".repeat(1_000_000);
    let mut write = shelf.store.begin_write(Durability::Normal).await.unwrap();
    write.exchange_end(id, &ExchangeEnd { message: Some(&long), ..ended(shelf.now) }).await.unwrap();
    write.exchange_park(id, 0, (&long, "{}"), Some(&long)).await.unwrap();
    write.quarantine_add(Operation::GetProductBalances, "SKU-1", &long, Timestamp(shelf.now)).await.unwrap();
    let summary = (RunOutcome::Partial, &*long);
    write.run_end(shelf.run, JobKind::Balances, summary.0, summary.1, Timestamp(shelf.now)).await.unwrap();
    let changes = std::collections::BTreeSet::new();
    write.brake_trip_hold(&long, &changes, Timestamp(shelf.now)).await.unwrap();
    write.commit().await.unwrap();
    let mut other = shelf.outsider().await;
    for reason in [
        "message FROM exchange",
        "why FROM parked",
        "subject FROM parked",
        "why FROM quarantine",
        "summary FROM run",
        "what FROM brake_trip",
    ] {
        let kept: String = other.value(&format!("SELECT {reason}")).await;
        assert_eq!(kept.chars().count(), REASON_MAX_CHARS + 1, "{reason}");
    }
}

/// The platform may list a record twice. PostgreSQL updates no row twice in a statement.
#[tokio::test]
async fn of_a_record_that_an_answer_repeats_the_last_one_counts() {
    let mut shelf = Shelf::new().await;
    let id = shelf.begin().await;
    let at = Timestamp(shelf.now);
    let mut write = shelf.store.begin_write(Durability::Normal).await.unwrap();
    let record = |id: i64, name: &str| json!({"id": id, "name": name});
    let suppliers = [record(1, "a"), record(2, "b"), record(1, "c"), record(1, "c")];
    let changed = write.mirror_list(PlatformList::Suppliers, id, &suppliers).await.unwrap();
    assert_eq!(changed, 2, "two new ones");
    for list in
        [PlatformList::Warehouses, PlatformList::Storefronts, PlatformList::Templates(StorefrontId(1))]
    {
        write.mirror_list(list, id, &[record(1, "a"), record(1, "b")]).await.unwrap();
    }
    let (one, other) = (mentioned("A", Some("a"), Some("1")), mentioned("A", Some("b"), None));
    write.mirror_products(&[&one, &other]).await.unwrap();
    let component = |quantity: f64| json!({"component_id": 1, "sku": "A", "quantity": quantity});
    write.mirror_kit((id, at), 7.into(), &[component(1.0), component(2.0)], true).await.unwrap();
    let item = |quantity: i64| json!({"item_id": 1, "line_item_id": 1, "quantity": quantity});
    let items = vec![item(1), item(2)];
    let shipment: Shipment = serde_json::from_value(json!({"Id": 1})).unwrap();
    write.mirror_shipment((id, at), 1.into(), &shipment, &items).await.unwrap();
    let month = Month::new(2026, 1).unwrap();
    let months = [1, 2].map(|figure| (month, json!({"total_profit": figure})));
    write.mirror_report(JobKind::BusinessHealth, id, at, &months).await.unwrap();
    write.commit().await.unwrap();
    let mut other = shelf.outsider().await;
    let names = "SELECT (SELECT name FROM supplier WHERE id = 1), (SELECT name FROM warehouse), \
                 (SELECT name FROM storefront), (SELECT name FROM listing_template)";
    let names: (String, String, String, String) = other.row(names).await;
    assert_eq!(names, ("c".into(), "b".into(), "b".into(), "b".into()));
    let product: (String, Option<String>) = other.row("SELECT name, upc FROM product WHERE sku = 'A'").await;
    assert_eq!(product, ("b".into(), None));
    let numbers = "SELECT (SELECT quantity FROM kit_component), (SELECT quantity FROM shipment_line), \
                   (SELECT total_profit FROM business_health)";
    assert_eq!(other.row::<(f64, i64, f64)>(numbers).await, (2.0, 2, 2.0));
}

/// A pruning by size deletes until enough is free, so its transaction must see what it freed.
#[tokio::test]
async fn the_bytes_in_use_fall_in_the_transaction_that_deletes() {
    const BODIES: u64 = 40;
    const BODY_BYTES: u64 = 20_000;
    let mut shelf = Shelf::new().await;
    let mut noise = 1_u64;
    let mut next = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        noise.to_be_bytes()[0]
    };
    for _ in 0..BODIES {
        let id = shelf.begin().await;
        let body: Vec<u8> = (0..BODY_BYTES).map(|_| next()).collect();
        let mut write = shelf.store.begin_write(Durability::Normal).await.unwrap();
        let end = ExchangeEnd { body: Some(body.as_slice().into()), ..ended(shelf.now + 1) };
        write.exchange_end(id, &end).await.unwrap();
        write.commit().await.unwrap();
    }
    let all = shelf.store.journal_position().await.unwrap();
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let before = write.database_used_bytes().await.unwrap();
    write.journal_prune(all, Timestamp(shelf.now), &mut PrunedRows::default()).await.unwrap();
    let after = write.database_used_bytes().await.unwrap();
    assert!(before - after > BODIES * BODY_BYTES / 2, "{before} bytes before, {after} after");
}

/// The page fills one large statement, several smaller ones and a rest.
#[tokio::test]
async fn a_page_of_any_size_is_written_once() {
    let mut shelf = Shelf::new().await;
    let names: Vec<String> = (0..1277).map(|n| format!("SKU-{n:04}")).collect();
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    let page: Vec<(&str, &[(i64, i64)])> = asked.iter().map(|sku| (*sku, &[(1, 5)][..])).collect();
    assert_eq!(shelf.read(&asked, &page).await.stock_levels_changed, 1277);
    assert_eq!(shelf.read(&asked, &page).await.stock_levels_changed, 0);
    let some: &[(&str, &[(i64, i64)])] = &[("SKU-0003", &[(1, 7)]), ("new", &[(1, -2)])];
    assert_eq!(shelf.read(&["SKU-0003", "new"], some).await.stock_levels_changed, 2);
    assert_eq!((shelf.level("SKU-0003", 1).await.0, shelf.level("new", 1).await.0), (7, -2));
    assert_eq!(shelf.level("SKU-1276", 1).await.0, 5);
}

#[tokio::test]
async fn a_key_names_one_change() {
    let shelf = Shelf::new().await;
    let body = |delta: i64| format!(r#"{{"sku":"A","warehouse_id":1,"delta":{delta}}}"#);
    for is_new in [true, false] {
        let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
        assert_eq!(write.outbox_insert("k", "quantity.adjust", &body(-3), 0).await.unwrap(), is_new);
        write.commit().await.unwrap();
    }
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    let refused = write.outbox_insert("k", "quantity.adjust", &body(-4), 0).await.unwrap_err();
    assert!(refused.to_string().contains("already names another change"), "{refused}");
    drop(write);
    let pending = shelf.store.outbox_oldest("pending", None, None, 0, 9).await.unwrap();
    assert_eq!(pending.iter().map(|change| change.id).collect::<Vec<_>>(), [1.into()]);
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing() {
    let shelf = Shelf::new().await;
    let before = shelf.store.journal_position().await.unwrap();
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    write.position_next().await.unwrap();
    drop(write);
    assert_eq!(shelf.store.journal_position().await.unwrap(), before);
    let mut write = shelf.store.begin_write(Durability::Full).await.unwrap();
    assert_eq!(write.position_next().await.unwrap(), Position(before.0 + 1));
    write.commit().await.unwrap();
    assert_eq!(shelf.store.journal_position().await.unwrap(), Position(before.0 + 1));
}
