//! The dashboard: each of its queries, tried by a Prometheus that reads the metrics of a demonstration.

use super::{has_prometheus, kit_text};
use crate::support::PATIENCE;
use crate::support::cluster::reserve_port;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio::time::{Duration, Instant};

/// A process that is ended with this value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns the queries of all panels, each with the title of its panel.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&kit_text("dashboard.json")).unwrap();
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push((title.to_owned(), target["expr"].as_str().unwrap().to_owned()));
        }
    }
    found
}

/// Returns the value of each of the dashboard's variables as Grafana fills it in with all hosts.
fn filled_in(query: &str) -> String {
    let query = query.replace("$__rate_interval", "1m").replace("$instance", ".*");
    assert!(!query.contains('$'), "an unknown variable: {query}");
    query
}

/// Serves a file to every request, as node_exporter serves the files of its collector.
async fn serve_file(file: PathBuf) -> (u16, AbortHandle) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n";
            let answer = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (port, serving.abort_handle())
}

/// Starts Prometheus on a port of this host; it reads the metrics each second.
fn start_prometheus(folder: &Path, metrics_port: u16, port: u16) -> Ended {
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: node\n    static_configs:\n      \
         - targets: ['127.0.0.1:{metrics_port}']\n"
    );
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    let log = std::fs::File::create(folder.join("prometheus.log")).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Ended(command.spawn().unwrap())
}

/// Returns the samples of a query; none if Prometheus does not answer yet.
async fn samples(port: u16, query: &str) -> Vec<Value> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return Vec::new() };
    let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let mut answer = String::new();
    let asked = stream.write_all(request.as_bytes()).await;
    if asked.is_err() || stream.read_to_string(&mut answer).await.is_err() {
        return Vec::new();
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    assert_ne!(body["status"], "error", "{query}: {body}");
    body["data"]["result"].as_array().cloned().unwrap_or_default()
}

async fn until_data(port: u16, query: &str) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let found = samples(port, &filled_in(query)).await;
        if !found.is_empty() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "no data in vain: {query}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_the_dashboard_returns_data_from_a_demo() {
    if !has_prometheus("prometheus") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("demo");
    // The demonstration ends first: the metrics at its resumption are then those of a mirror with SKUs.
    let demo = Command::new(env!("CARGO_BIN_EXE_tallyd"))
        .args(["demo", "--seconds", "4", "--keep"])
        .arg(&kept)
        .output()
        .unwrap();
    assert!(demo.status.success(), "{}", String::from_utf8_lossy(&demo.stdout));
    let mut resumed = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    resumed.args(["demo", "--resume"]).arg(&kept).stdin(Stdio::null()).stdout(Stdio::null());
    let resumed = Ended(resumed.spawn().unwrap());
    let (metrics_port, serving) = serve_file(kept.join("tallyd.prom")).await;
    let reserved = reserve_port(Ipv4Addr::LOCALHOST.into());
    let port = reserved.local_addr().unwrap().port();
    let prometheus = start_prometheus(folder.path(), metrics_port, port);

    let queries = queries();
    assert!(queries.len() > 25, "{queries:?}");
    for (title, query) in &queries {
        let found = until_data(port, query).await;
        let number = found[0]["value"][1].as_str().unwrap().parse::<f64>().unwrap();
        assert!(number.is_finite(), "{title}: {query}: {number}");
    }
    let version = until_data(port, "tallyd_info").await;
    assert_eq!(version[0]["metric"]["version"], env!("CARGO_PKG_VERSION"));
    let skus = until_data(port, "tallyd_mirror_skus > 0").await;
    assert_eq!(skus.len(), 1, "the metrics are those of a demonstration with SKUs: {skus:?}");
    serving.abort();
    drop((prometheus, resumed));
}
