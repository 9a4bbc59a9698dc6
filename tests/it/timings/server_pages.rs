//! Pages of balances on PostgreSQL beside a hand-written ingest.
//!
//! A page is an answer of 1000 SKUs in three warehouses, from its bytes to the commit. *Ours* is the way of the job
//! `balances`: the call's record, the answer with its body, the mirror, the bases of counts. *Raw* upserts the
//! same records with `unnest` into tables of the same columns, indexes and constraints, without a journal, triggers
//! and the time of the read. Both use one server of their own in a temporary folder and one connection to write, in
//! turn. Neither overlaps two pages, as the job does.
//!
//! Printed are the medians of the rounds: pages a second, the server's processor time a page, and the ratios. Only
//! ratios of one run count. A step fails below its goal in docs/performance.md.

use crate::it::support::cluster::Cluster;
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions as _, Connection as _};
use std::time::{Duration, Instant};
use tallyd::client::wire::decode_balances;
use tallyd::journal::{DigestedBody, ExchangeBegin, ExchangeEnd, ExchangeOutcome, PackedBody};
use tallyd::model::{ExchangeId, JobKind, Lane, Moment, Operation, RunId, RunTrigger, Sku, Timestamp};
use tallyd::store::{BalancePage, DatabaseLock, Durability, PostgresDatabase, Store, UnparsedAnswer};

const PAGES: i64 = 60;
const ROUNDS: i64 = 5;
const SKUS: i64 = 1000;
const T0: i64 = 1_800_000_000_000;

/// Requested SKUs of a page, its request and its answer.
struct Page {
    skus: Vec<Sku>,
    request: Vec<u8>,
    body: Vec<u8>,
}

/// Returns the pages in which every hundredth product has another quantity than before `changes`.
fn pages(changes: i64) -> Vec<Page> {
    let level = |i: i64, w: i64| {
        let moved = if i % 100 == 0 && w == 1 { changes } else { 0 };
        format!(
            r#"{{"ProductId":{i},"WarehouseId":{w},"QuantityOnHand":{},"WarehouseSKU":"W{w}-{i:07}","IsActive":true,"IncludeInSyncBalance":true}}"#,
            i * 7919 % 97 + w + moved
        )
    };
    let product = |i: i64| {
        let levels: Vec<String> = (1..=3).map(|w| level(i, w)).collect();
        let (upc, levels) = (400_000_000_000 + i * 7919 % 1_000_003, levels.join(","));
        format!(
            r#"{{"Id":{i},"Sku":"SKU-{i:07}","QuantityOnHand":{i},"UPC":"{upc}","Warehouses":[{levels}]}}"#
        )
    };
    let page = |number: i64| {
        let of_page = number * SKUS..(number + 1) * SKUS;
        let skus: Vec<Sku> = of_page.clone().map(|i| Sku::new(format!("SKU-{i:07}")).unwrap()).collect();
        let products: Vec<String> = of_page.map(product).collect();
        let request = format!("{{\"skus\":{}}}", serde_json::to_string(&skus).unwrap()).into();
        Page { skus, request, body: format!("[{}]", products.join(",")).into() }
    };
    (0..PAGES).map(page).collect()
}

/// The store as the job `balances` uses it.
struct Ours {
    store: Store,
    session: i64,
    run: RunId,
    now: i64,
    _lock: DatabaseLock,
    _dir: tempfile::TempDir,
}

impl Ours {
    async fn open(cluster: &Cluster, schema: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let location = cluster.location(schema, &dir.path().join("t"));
        let lock = DatabaseLock::acquire(location.path()).unwrap();
        let store = Store::open(&location, &lock).await.unwrap();
        let mut write = store.begin_write(Durability::Full).await.unwrap();
        let session =
            write.session_begin("boot", "bench", Timestamp(T0), Moment(0)).await.unwrap().session_id;
        let run = write.run_begin(session, JobKind::Balances, RunTrigger::Once, Timestamp(T0)).await.unwrap();
        write.commit().await.unwrap();
        Self { store, session, run, now: T0, _lock: lock, _dir: dir }
    }

    async fn record(&mut self, page: &Page) {
        self.now += 1000;
        let (sent_at, moment) = (Timestamp(self.now), Moment(self.now - T0));
        let mut write = self.store.begin_write(Durability::Normal).await.unwrap();
        let begin = ExchangeBegin {
            run_id: self.run,
            operation: Operation::GetProductBalances,
            target: "/api/product/getProductBalances".into(),
            lane: Lane::Poll,
            body: Some(&page.request),
            sent_at,
            sent_moment: moment,
        };
        let id = write.exchange_begin(self.session, &begin).await.unwrap();
        write.commit().await.unwrap();
        let digest = PackedBody::digest(&page.body);
        let unread =
            UnparsedAnswer { exchange_id: id, observed_at: sent_at, first_sku: &page.skus[0], digest };
        let body = DigestedBody { bytes: &page.body, digest, packed: None };
        let mut ended = ExchangeEnd {
            outcome: ExchangeOutcome::Accepted,
            status: Some(200),
            body: Some(body),
            message: None,
            answered_at: sent_at,
            answered_moment: moment,
        };
        let mut write;
        if self.store.read_batch_may_be_unchanged(&unread).await.unwrap() {
            write = self.store.begin_write(Durability::Normal).await.unwrap();
            write.exchange_end(id, &ended).await.unwrap();
            assert!(write.read_batch_confirm(&unread).await.unwrap());
        } else {
            let decoded = decode_balances(&page.body).unwrap();
            let packed = PackedBody::pack(&page.body).unwrap();
            ended.body = Some(DigestedBody { packed: Some(&packed), ..body });
            write = self.store.begin_write(Durability::Normal).await.unwrap();
            write.exchange_end(id, &ended).await.unwrap();
            let answer = BalancePage {
                exchange_id: ExchangeId(id.0),
                observed_at: sent_at,
                requested: &page.skus,
                products: &decoded.records,
                unreadable: &[],
                has_unnamed_record: false,
                is_whole: true,
            };
            write.mirror_balances(&answer).await.unwrap();
        }
        write.outbox_fix_bases_and_commit(id, sent_at, 86_400_000).await.unwrap();
    }
}

/// The hand-written ingest.
struct Raw(PgConnection);

const RAW_PRODUCTS: &str = "
    INSERT INTO product (sku, case_key, product_id, upc, total)
    SELECT * FROM unnest($1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::TEXT[], $5::BIGINT[])
    ON CONFLICT (sku) DO UPDATE SET product_id = excluded.product_id, upc = excluded.upc, total = excluded.total
    WHERE product.product_id IS DISTINCT FROM excluded.product_id OR product.upc IS DISTINCT FROM excluded.upc
       OR product.total IS DISTINCT FROM excluded.total";

const RAW_BALANCES: &str = "
    INSERT INTO balance (product, warehouse_id, quantity, warehouse_sku, is_active, include_in_sync, since_ms)
    SELECT p.id, u.warehouse_id, u.quantity, u.warehouse_sku, u.is_active, u.include_in_sync, $7
    FROM unnest($1::TEXT[], $2::BIGINT[], $3::BIGINT[], $4::TEXT[], $5::BOOLEAN[], $6::BOOLEAN[])
         u (sku, warehouse_id, quantity, warehouse_sku, is_active, include_in_sync)
    JOIN product p ON p.sku = u.sku
    ON CONFLICT (product, warehouse_id) DO UPDATE SET
        quantity = excluded.quantity, warehouse_sku = excluded.warehouse_sku, is_active = excluded.is_active,
        include_in_sync = excluded.include_in_sync, since_ms = excluded.since_ms
    WHERE balance.quantity IS DISTINCT FROM excluded.quantity
       OR balance.warehouse_sku IS DISTINCT FROM excluded.warehouse_sku
       OR balance.is_active IS DISTINCT FROM excluded.is_active
       OR balance.include_in_sync IS DISTINCT FROM excluded.include_in_sync";

impl Raw {
    async fn open(cluster: &Cluster, schema: &str, like: &str) -> Self {
        cluster.sql(&format!(
            "CREATE SCHEMA {schema};
             CREATE TABLE {schema}.product (LIKE {like}.product INCLUDING ALL);
             CREATE TABLE {schema}.balance (LIKE {like}.balance INCLUDING ALL);
             ALTER TABLE {schema}.product ALTER id DROP DEFAULT;
             ALTER TABLE {schema}.product ALTER id ADD GENERATED BY DEFAULT AS IDENTITY"
        ));
        let server = PostgresDatabase::new(&cluster.url(), schema).unwrap();
        let options = server.bare_options().unwrap().application_name("raw");
        Self(options.options([("search_path", schema), ("jit", "off")]).connect().await.unwrap())
    }

    async fn record(&mut self, page: &Page) {
        let decoded = decode_balances(&page.body).unwrap();
        let products = &decoded.records;
        let levels: Vec<_> =
            products.iter().flat_map(|p| p.warehouses.iter().map(move |level| (p, level))).collect();
        let mut write = self.0.begin().await.unwrap();
        sqlx::query(RAW_PRODUCTS)
            .bind(products.iter().map(|p| p.sku.as_str()).collect::<Vec<_>>())
            .bind(products.iter().map(|p| p.sku.case_key()).collect::<Vec<_>>())
            .bind(products.iter().map(|p| p.id.map(|id| id.0)).collect::<Vec<_>>())
            .bind(products.iter().map(|p| p.upc.as_deref()).collect::<Vec<_>>())
            .bind(products.iter().map(|p| p.quantity_on_hand).collect::<Vec<_>>())
            .execute(&mut *write)
            .await
            .unwrap();
        sqlx::query(RAW_BALANCES)
            .bind(levels.iter().map(|(p, _)| p.sku.as_str()).collect::<Vec<_>>())
            .bind(levels.iter().map(|(_, level)| level.warehouse_id.0).collect::<Vec<_>>())
            .bind(levels.iter().map(|(_, level)| level.quantity_on_hand).collect::<Vec<_>>())
            .bind(levels.iter().map(|(_, level)| level.warehouse_sku.as_deref()).collect::<Vec<_>>())
            .bind(levels.iter().map(|(_, level)| level.is_active).collect::<Vec<_>>())
            .bind(levels.iter().map(|(_, level)| level.include_in_sync).collect::<Vec<_>>())
            .bind(T0)
            .execute(&mut *write)
            .await
            .unwrap();
        write.commit().await.unwrap();
    }
}

/// Returns the processor time that the server's processes for connections of this name have taken.
fn server_cpu(cluster: &Cluster, application: &str) -> Duration {
    let pids = format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{application}'");
    let nanos = cluster.sql(&pids).into_iter().map(|pid| {
        let spent = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        spent.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    Duration::from_nanos(nanos.sum())
}

/// Wall time and the server's processor time of a pass over all pages.
type Spent = (Duration, Duration);

async fn timed(cluster: &Cluster, application: &str, pass: impl Future<Output = ()>) -> Spent {
    let (cpu, begun) = (server_cpu(cluster, application), Instant::now());
    pass.await;
    let wall = begun.elapsed();
    (wall, server_cpu(cluster, application) - cpu)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print_step(name: &str, rounds: &[(Spent, Spent)], goal: f64) {
    let pages = PAGES as f64;
    let of = |value: fn(&(Spent, Spent)) -> f64| median(rounds.iter().map(value));
    let ratios = |value: fn(&(Spent, Spent)) -> f64| {
        let low = rounds.iter().map(value).fold(f64::MAX, f64::min);
        let high = rounds.iter().map(value).fold(0.0, f64::max);
        format!("{:5.2} ({low:.2}..{high:.2})", of(value))
    };
    println!(
        "{name:12} {:9.1} {:9.1} {:>19} {:9.2} {:9.2} {:>19}",
        pages / of(|((wall, _), _)| wall.as_secs_f64()),
        pages / of(|(_, (wall, _))| wall.as_secs_f64()),
        ratios(|((ours, _), (raw, _))| raw.as_secs_f64() / ours.as_secs_f64()),
        of(|((_, cpu), _)| cpu.as_secs_f64()) * 1000.0 / pages,
        of(|(_, (_, cpu))| cpu.as_secs_f64()) * 1000.0 / pages,
        ratios(|((_, ours), (_, raw))| ours.as_secs_f64() / raw.as_secs_f64()),
    );
    let share = of(|((ours, _), (raw, _))| raw.as_secs_f64() / ours.as_secs_f64());
    assert!(share >= goal, "{name}: {share:.2} of raw's pages a second, the goal is {goal}");
}

#[tokio::test]
#[ignore = "it measures time"]
async fn pages_on_a_server_take_no_multiple_of_a_raw_ingest() {
    let Some(cluster) = Cluster::start() else { return };
    let steps = [("first", 0, 0.5), ("unchanged", 0, 0.6), ("1 % changed", 1, 0.6)];
    let mut spent = [const { Vec::new() }; 3];
    for round in 0..ROUNDS {
        let (north, south) = (format!("ours_{round}"), format!("raw_{round}"));
        let mut ours = Ours::open(&cluster, &north).await;
        let mut raw = Raw::open(&cluster, &south, &north).await;
        for (step, (_, changes, _)) in steps.iter().enumerate() {
            let pages = pages(*changes);
            let our_pass = timed(&cluster, "tallyd", async {
                for page in &pages {
                    ours.record(page).await;
                }
            });
            let our = our_pass.await;
            let raw_pass = timed(&cluster, "raw", async {
                for page in &pages {
                    raw.record(page).await;
                }
            });
            spent[step].push((our, raw_pass.await));
        }
        raw.0.close().await.unwrap();
        ours.store.close().await.unwrap();
    }
    println!("{:12} {:>39} {:>39}", "", "pages a second", "ms of the server a page");
    println!(
        "{:12} {:>9} {:>9} {:>19} {:>9} {:>9} {:>19}",
        "", "ours", "raw", "ours / raw", "ours", "raw", "ours / raw"
    );
    for ((name, _, goal), rounds) in steps.iter().zip(&spent) {
        print_step(name, rounds, *goal);
    }
}
