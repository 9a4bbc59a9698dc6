//! `tallyd check --online` against failing platforms: it confirms the keys only on proof.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use super::support::refusing_socket;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const WORKS: &str = r#"{"OpenWorkOrders":3}"#;

/// Starts a server that gives every call this answer; returns its address.
async fn server(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    address.to_string()
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

async fn check(dir: &Path, base_url: &str) -> (i32, String) {
    check_with(dir, base_url, &[]).await
}

async fn check_with(dir: &Path, base_url: &str, variables: &[(&str, &str)]) -> (i32, String) {
    std::fs::write(dir.join("key"), "k").unwrap();
    let config = dir.join("tallyd.toml");
    let (key, database) = (dir.join("key"), dir.join("tallyd.db"));
    let text = format!(
        "[service]\nbase_url = \"{base_url}\"\nintegration_key_file = {key:?}\ngateway_key_file = {key:?}\n\
         timeout = \"1s\"\n[database]\npath = {database:?}\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(config).args(["check", "--online"]).envs(variables.iter().copied());
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (status.code().unwrap(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_well_formed_answer_proves_the_keys() {
    let cases = [
        (http("200 OK", WORKS), 0, "the platform accepts them"),
        (http("403 Forbidden", r#"{"Message":"not valid"}"#), 1, "refuses them: not valid"),
        (http("401 Unauthorized", ""), 1, "refuses them: the platform answered 401"),
        (http("500 Internal Server Error", r#"{"Message":"went wrong"}"#), 1, "keys: not known"),
        (http("503 Unavailable", ""), 1, "the platform answered 503 without a message"),
        (http("404 Not Found", ""), 1, "the platform answered 404 without a message"),
        (http("400 Bad Request", ""), 1, "the platform answered 400 without a message"),
        (http("429 Too Many Requests", ""), 1, "the platform answered 429 without a message"),
        (http("302 Found\r\nLocation: /login", ""), 1, "redirects are not followed"),
        (http("204 No Content", ""), 1, "the body is empty"),
        (http("201 Created", WORKS), 1, "the platform answered 201 instead of 200"),
        (http("502 Bad Gateway", "<html>proxy</html>"), 1, "<html>proxy</html>"),
        (http("200 OK", "<html>login</html>"), 1, "HTML"),
        (http("200 OK", "[]"), 1, "not an object"),
        (http("200 OK", "{}"), 1, "none of the documented counts"),
        (http("200 OK", r#"{"status":"Success","data":[]}"#), 1, "none of the documented counts"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"Open".to_owned(), 1, "the answer ended early"),
        (String::new(), 1, "keys: not known"),
    ];
    for (answer, code, words) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (exit, said) = check(dir.path(), &format!("http://{}", server(answer.clone()).await)).await;
        assert_eq!(exit, code, "{answer}: {said}");
        assert!(said.contains(words), "{answer}: {said}");
        assert_eq!(said.contains("accepts them\n"), code == 0, "{answer}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_where_nobody_answers_is_told_with_the_reason() {
    let closed = refusing_socket();
    let https = server(http("200 OK", WORKS)).await;
    let cases = [
        (format!("http://{}", closed.local_addr().unwrap()), "refused"),
        ("https://no-such-host.invalid".to_owned(), "keys: not known"),
        (format!("https://{https}"), "keys: not known"),
    ];
    for (base_url, words) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (exit, said) = check(dir.path(), &base_url).await;
        assert_eq!(exit, 1, "{base_url}: {said}");
        assert!(said.contains(words) && said.contains(&base_url), "{base_url}: {said}");
        assert!(!said.contains("accepts them\n"), "{base_url}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_the_shell_is_not_used_and_that_of_the_configuration_is() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    tokio::spawn(async move {
        while proxy.accept().await.is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let shell =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"].map(|name| (name, &*address));
    for (variables, is_used) in [(&shell[..], false), (&[("TALLYD_SERVICE__PROXY", &*address)], true)] {
        let (code, said) = check_with(dir.path(), "https://platform.invalid", variables).await;
        assert_eq!((code, accepted.load(Ordering::SeqCst) > 0), (1, is_used), "{variables:?}: {said}");
    }
}
