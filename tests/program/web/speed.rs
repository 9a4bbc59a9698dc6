//! Speed and memory of the page with a million SKUs, while the daemon reads all of them.
//!
//! `cargo build --release && TALLYD=target/release/tallyd cargo test --test program web::speed -- --ignored --nocapture`
//! prints the figures. The daemon and the page are processes of their own. A stub answers for the platform, with other
//! quantities each time, so that the daemon writes every stock level with every pass.

use super::Visit;
use crate::support::World;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tallyd::sandbox::SandboxOptions;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, Instant, sleep, timeout};

const SKUS: u64 = 1_000_000;
const WAREHOUSES: [u64; 3] = [5201, 5202, 5203];
const REQUESTS: usize = 200;
const PHASE: Duration = Duration::from_secs(3);
const PAIRS: usize = 12;
const SETTINGS: &str = "[limits]\ncalls_per_minute = 1000000\n[log]\nlevel = \"error\"\n\
    [jobs.balances]\nschedule = \"* * * * * *\"\nskus_per_call = 1000\n\
    [jobs.order_lines]\nenabled = false\n[jobs.warehouses]\nenabled = false\n\
    [jobs.storefronts]\nenabled = false\n[jobs.work_queue]\nenabled = false\n";

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the program to measure is named by the environment, as in benches"
)]
fn program() -> Command {
    let named = std::env::var_os("TALLYD").map(|path| Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    let mut command = Command::new(named.unwrap_or_else(|| env!("CARGO_BIN_EXE_tallyd").into()));
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::null());
    command
}

/// The platform's answers: each SKU in three warehouses. `served` counts the SKUs of all answers.
async fn balances(State(served): State<Arc<AtomicU64>>, Json(request): Json<Value>) -> Json<Value> {
    let skus = request["skus"].as_array().cloned().unwrap_or_default();
    let pass = served.fetch_add(skus.len() as u64, Ordering::Relaxed) / SKUS;
    let product = |sku: &Value| {
        let number: u64 = sku.as_str()?.strip_prefix("S-")?.parse().ok()?;
        let level = |warehouse: &u64| {
            json!({"ProductId": number, "WarehouseId": warehouse, "QuantityOnHand": (number + warehouse + pass) % 300,
                   "WarehouseSKU": sku, "IsActive": true, "IncludeInSyncBalance": true})
        };
        Some(json!({"Id": number, "Sku": sku, "QuantityOnHand": 9, "UPC": "",
                    "Warehouses": WAREHOUSES.iter().map(level).collect::<Vec<_>>()}))
    };
    Json(skus.iter().filter_map(product).collect())
}

/// A world that tracks the SKUs, with its daemon, and the number of SKUs read.
async fn busy_world() -> (World, Process, Arc<AtomicU64>) {
    let served = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stub = listener.local_addr().unwrap().to_string();
    let router = Router::new()
        .route("/api/product/getProductBalances", post(balances))
        .fallback(|| async { Json(json!([])) })
        .with_state(Arc::clone(&served));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let options = SandboxOptions { skus: 10, orders: 0, ..SandboxOptions::default() };
    let world = World::with(options, SETTINGS).await;
    world.make().await;
    let rows: Vec<String> = WAREHOUSES.iter().map(|id| format!("({id}, 'Warehouse {id}', 1)")).collect();
    world.sql(&format!("INSERT INTO warehouse (id, name, exchange_id) VALUES {}", rows.join(", "))).await;
    world
        .sql(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {SKUS}) \
             INSERT INTO tracked_sku (sku) SELECT 'S-' || substr(CAST(10000000 + i AS TEXT), 2) FROM n"
        ))
        .await;
    let config = world.path.with_file_name("tallyd.toml");
    let text = world.toml("").replace(&world.sandbox.local_addr().to_string(), &stub);
    std::fs::write(config, text).unwrap();
    let daemon = start(&world, &["run"]);
    (world, daemon, served)
}

fn start(world: &World, args: &[&str]) -> Process {
    let config = world.path.with_file_name("tallyd.toml");
    Process(program().args(args).arg("--config").arg(config).spawn().unwrap())
}

/// Starts the page as a process, and visits it.
async fn page_process(world: &World) -> (Process, Visit) {
    let mut command = program();
    command
        .args(["web", "--listen", "127.0.0.1:0", "--config"])
        .arg(world.path.with_file_name("tallyd.toml"));
    let mut page = Process(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let mut out = std::io::BufReader::new(page.0.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let visit = Visit::at(line.trim()).await;
    (page, visit)
}

fn peak_mib(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Looks at the page as an open browser does: reads it again with each event.
async fn look(visit: &Visit, path: &str) {
    let mut stream = TcpStream::connect(visit.address).await.unwrap();
    let head = format!("GET /events HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", visit.address, visit.cookie);
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.starts_with("data: ") {
            assert_eq!(visit.get(path).await.status, 200, "{path}");
        }
    }
}

/// Returns the daemon's speed with an open browser, in parts of its speed without one: the median of pairs of phases.
///
/// The speed falls while the tables grow, so every other pair begins with the browser.
#[allow(clippy::print_stdout, reason = "it prints what it measures")]
async fn relative_speed(visit: &Visit, served: &AtomicU64) -> f64 {
    let mut ratios = Vec::new();
    for number in 0..PAIRS {
        let mut read = [0, 0];
        for has_browser in [number % 2 == 1, number % 2 == 0] {
            let begin = served.load(Ordering::Relaxed);
            let looks = async {
                match has_browser {
                    true => look(visit, "/stock").await,
                    false => std::future::pending().await,
                }
            };
            drop(timeout(PHASE, looks).await);
            read[usize::from(has_browser)] = served.load(Ordering::Relaxed) - begin;
        }
        println!("SKUs read in {PHASE:?}: {} without a browser, {} with one", read[0], read[1]);
        ratios.push(read[1] as f64 / read[0] as f64);
    }
    ratios.sort_by(f64::total_cmp);
    f64::midpoint(ratios[PAIRS / 2 - 1], ratios[PAIRS / 2])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures for minutes; it wants a release build in TALLYD"]
#[allow(clippy::print_stdout, reason = "it prints what it measures")]
async fn pages_of_a_million_skus_are_made_in_time_while_all_are_read() {
    let (world, _daemon, served) = busy_world().await;
    world.until("the daemon reads", async |_| served.load(Ordering::Relaxed) > 20_000).await;
    let (page, visit) = page_process(&world).await;
    let speed = relative_speed(&visit, &served).await;
    println!("speed with a browser: {speed:.3} of that without one");
    while served.load(Ordering::Relaxed) < SKUS + 20_000 {
        sleep(Duration::from_secs(1)).await;
    }
    world.change("bad", "no.such.kind", "{}").await;
    let exchange = world.number("SELECT max(id) FROM exchange WHERE ended IS NOT NULL").await;
    let run = world.number("SELECT max(id) FROM run").await;
    let pages = [
        "/",
        "/stock",
        "/stock?after=S-0999800",
        "/stock?q=s-05",
        "/stock?q=nothing-has-this-name",
        "/stock?state=low",
        "/stock?state=missing&after=S-0900000",
        "/stock?warehouse=5202&after=S-0700000",
        "/stock/S-0500000",
        "/outbox",
        "/outbox/bad",
        "/orders",
        "/jobs",
        &format!("/jobs/{run}"),
        "/journal",
        "/journal?sku=S-0500000",
        "/journal?verdict=rejected",
        &format!("/journal/{exchange}"),
        "/quota",
    ];
    let mut slow = Vec::new();
    for path in pages {
        let mut times = Vec::new();
        for _ in 0..REQUESTS {
            let begun = Instant::now();
            let answer = visit.get(path).await;
            times.push(begun.elapsed());
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        }
        times.sort();
        let (median, p99) = (times[REQUESTS / 2], times[REQUESTS * 99 / 100 - 1]);
        let (longest, peak) = (times[REQUESTS - 1], peak_mib(&page));
        println!(
            "{path:<42} median {median:>8.1?}  p99 {p99:>8.1?}  longest {longest:>8.1?}  peak {peak} MiB"
        );
        if p99 > Duration::from_millis(150) {
            slow.push(format!("{path}: {p99:?}"));
        }
    }
    let memory = peak_mib(&page);
    println!("memory of the page: {memory} MiB at most; SKUs read: {}", served.load(Ordering::Relaxed));
    assert!(slow.is_empty(), "over 150 ms: {slow:#?}");
    assert!(memory < 40, "{memory} MiB");
    assert!(speed > 0.95, "{speed}");
}
