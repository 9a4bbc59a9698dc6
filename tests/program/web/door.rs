//! Who gets in, from where, with which requests.

use super::Visit;
use crate::support::World;
use tallyd::config::Config;
use tallyd::daemon::SystemClock;
use tallyd::web::{PagesOptions, start_pages};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant};

const ADDRESSES: [&str; 10] =
    ["/", "/stock", "/stock/X", "/outbox", "/orders", "/jobs", "/journal", "/quota", "/events", "/style.css"];

async fn visit() -> (World, Visit) {
    let world = World::new().await;
    world.track_all().await;
    let visit = Visit::start(&world).await;
    (world, visit)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_without_the_token_and_nothing_is_said() {
    let (_world, visit) = visit().await;
    let mut bodies = std::collections::BTreeSet::new();
    for address in ADDRESSES.iter().chain(&["/nowhere", "/stock?q=a", "/../etc/passwd"]) {
        let answer = visit.raw(&format!("GET {address} HTTP/1.1\r\n")).await;
        assert_eq!(answer.status, 401, "{address}");
        bodies.insert(answer.body);
    }
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    let wrong = visit.raw("GET /?token=0000 HTTP/1.1\r\n").await;
    assert!(wrong.status == 401 && wrong.header("set-cookie").is_none(), "{wrong:?}");
    let forged = visit.raw("GET / HTTP/1.1\r\nCookie: tallyd=1; a=b\r\n").await;
    assert_eq!(forged.status, 401);
    let posted = visit.send_form("/stock", "action=track&sku=A", "Cookie: x=y\r\n").await;
    assert_eq!(posted.status, 403, "the first cookie lets in, and the form has no CSRF token");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_get() {
    let (_world, visit) = visit().await;
    let answer = visit.raw(&format!("GET /stock?q=A%20b&token={} HTTP/1.1\r\n", visit.token)).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/stock?q=A+b")));
    let cookie = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Max-Age=43200", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    for address in ADDRESSES.iter().filter(|address| !["/events", "/stock/X"].contains(address)) {
        assert_eq!(visit.get(address).await.status, 200, "{address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_keep_the_right_one_out_at_no_number() {
    let (_world, visit) = visit().await;
    for _ in 0..50 {
        assert_eq!(visit.raw("GET /?token=wrong HTTP/1.1\r\n").await.status, 401);
    }
    let answer = visit.raw(&format!("GET /?token={} HTTP/1.1\r\n", visit.token)).await;
    assert_eq!(answer.status, 303, "a foreign page that asks for wrong ones keeps nobody out");
    assert_eq!(visit.get("/").await.status, 200, "who is in stays in");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_is_misdirected() {
    let (_world, visit) = visit().await;
    for host in ["evil.example", "127.0.0.1.evil.example", ""] {
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
            visit.cookie
        );
        assert_eq!(visit.bytes(head.as_bytes()).await.status, 421, "{host}");
    }
    let twice = format!("GET / HTTP/1.1\r\nHost: evil.example\r\nCookie: {}\r\n", visit.cookie);
    assert_eq!(visit.raw(&twice).await.status, 421);
    let port = visit.address.port();
    let tunnel = format!(
        "GET / HTTP/1.1\r\nHost: localhost:{}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
        port + 1,
        visit.cookie
    );
    assert_eq!(visit.bytes(tunnel.as_bytes()).await.status, 200, "a tunnel has another port");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_page_is_refused() {
    let (world, visit) = visit().await;
    let csrf = visit.csrf().await;
    let body = format!("action=track&sku=FORGED&once=1&csrf={csrf}");
    for origin in ["http://evil.example", "null", "http://localhost:1"] {
        let head = format!(
            "POST /stock HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nOrigin: {origin}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            visit.address,
            visit.cookie,
            body.len()
        );
        assert_eq!(visit.bytes(head.as_bytes()).await.status, 403, "{origin}");
    }
    for form in ["action=track&sku=FORGED", "action=track&sku=FORGED&csrf=", "action=track&sku=FORGED&csrf=0"]
    {
        assert_eq!(visit.send_form("/stock", form, "").await.status, 403, "{form}");
    }
    let tracked = "SELECT count(*) FROM tracked_sku WHERE sku = 'FORGED'";
    assert_eq!(world.number(tracked).await, 0);
    assert_eq!(visit.send_form("/stock", &body, "").await.status, 303);
    assert_eq!(world.number(tracked).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_page_shows_no_form_and_takes_none() {
    let world = World::new().await;
    world.track_all().await;
    let visit = Visit::with(world.config(), true).await;
    for address in ["/", "/stock", "/outbox", "/orders", "/jobs", "/quota"] {
        let answer = visit.get(address).await;
        assert!(answer.status == 200 && !answer.body.contains("method=\"post\""), "{address}");
    }
    let answer = visit.send_form("/stock", "action=track&sku=A", "").await;
    assert_eq!((answer.status, answer.body.as_str()), (403, "this page is read-only\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_paths_and_methods_lead_nowhere() {
    let (_world, visit) = visit().await;
    for path in [
        "/../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/stock/..%2F..",
        "/%00",
        "/style.css/",
        "//evil.example",
        "/stock//",
        "/jobs/0x1",
        "/journal/-1",
        "/orders/99999999999999999999",
    ] {
        let answer = visit.get(path).await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(!answer.body.contains("root:"), "{path}");
    }
    for (method, path) in [
        ("PUT", "/stock"),
        ("DELETE", "/outbox/x"),
        ("OPTIONS", "/"),
        ("TRACE", "/"),
        ("PROPFIND", "/"),
        ("POST", "/journal"),
    ] {
        let csrf = visit.csrf().await;
        let body = format!("csrf={csrf}&once=1");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            visit.address,
            visit.cookie,
            body.len()
        );
        let answer = visit.bytes(head.as_bytes()).await;
        assert!(matches!(answer.status, 404 | 405), "{method} {path}: {}", answer.status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_bodies_have_limits() {
    let (_world, visit) = visit().await;
    let cookie = format!("GET / HTTP/1.1\r\nCookie: {}\r\n", visit.cookie);
    let large = format!("{cookie}X-Large: {}\r\n", "x".repeat(66_000));
    assert_eq!(visit.raw(&large).await.status, 431);
    let many: String = (0..110).map(|number| format!("X-{number}: y\r\n")).collect();
    assert_eq!(visit.raw(&format!("{cookie}{many}")).await.status, 431);
    let few: String = (0..90).map(|number| format!("X-{number}: y\r\n")).collect();
    assert_eq!(visit.raw(&format!("{cookie}{few}")).await.status, 200);
    let body = format!("sku={}", "x".repeat(1024 * 1024));
    assert_eq!(visit.send_form("/stock", &body, "").await.status, 413);
    let chunk = "x".repeat(0x1_0000);
    let chunked: String = (0..20).map(|_| format!("10000\r\n{chunk}\r\n")).collect();
    let head = format!(
        "POST /stock HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}0\r\n\r\n",
        visit.address, visit.cookie
    );
    assert_eq!(visit.bytes(head.as_bytes()).await.status, 413);
    let fields = [("action", "track"), ("sku", &*"x".repeat(900_000))];
    let answer = visit.post("/stock", &fields).await;
    assert!(answer.status == 413 && answer.body.len() < 200, "{answer:?}");
}

/// An announced length is enough: nothing of the form is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_announces_too_much_is_answered_at_once() {
    let (_world, visit) = visit().await;
    for length in ["99000000000", "2000000"] {
        let head =
            format!("POST /stock HTTP/1.1\r\nCookie: {}\r\nContent-Length: {length}\r\n", visit.cookie);
        let begun = Instant::now();
        let answer = visit.raw(&head).await;
        assert_eq!(answer.status, 413, "{answer:?}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
}

/// Idle connections of another program take every place; a person gets a page all the same.
#[tokio::test(flavor = "multi_thread")]
async fn six_hundred_idle_connections_do_not_shut_the_page() {
    let (_world, visit) = visit().await;
    let mut idle = Vec::new();
    for _ in 0..600 {
        idle.push(TcpStream::connect(visit.address).await.unwrap());
    }
    let begun = Instant::now();
    assert_eq!(visit.get("/").await.status, 200);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(idle);
    visit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_the_security_headers() {
    let (_world, visit) = visit().await;
    let answers = [
        visit.get("/").await,
        visit.get("/nowhere").await,
        visit.raw("GET / HTTP/1.1\r\n").await,
        visit.get("/script.js").await,
    ];
    for answer in answers {
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        let is_asset = answer.header("content-type").is_some_and(|kind| kind.contains("javascript"));
        assert_eq!(answer.header("cache-control") == Some("no-store"), !is_asset, "{answer:?}");
    }
}

/// Connections that never complete their head are closed; meanwhile and afterwards pages are served.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_slow_connections_do_not_stop_a_page() {
    let (_world, visit) = visit().await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(visit.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
        slow.push(stream);
    }
    let begun = Instant::now();
    assert_eq!(visit.get("/").await.status, 200);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for mut stream in slow {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "a slow connection stays open");
    }
    assert_eq!(visit.get("/").await.status, 200);
    visit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_listens_on_loopback_unless_a_proxy_is_named() {
    use std::sync::Arc;
    use tallyd::daemon::SystemClock;
    let world = World::new().await;
    world.make().await;
    let options = PagesOptions { listen: ([0, 0, 0, 0], 0).into(), is_read_only: true };
    let refused = start_pages(world.config(), Arc::new(SystemClock), options).await;
    assert!(refused.unwrap_err().to_string().contains("web.allow_hosts"));
    let more = "[web]\nallow_hosts = [\"Stock.example\"]\n";
    let config = tallyd::config::Config::from_toml(&world.toml(more)).unwrap();
    let visit = Visit::with(config, false).await;
    let head = format!(
        "GET / HTTP/1.1\r\nHost: stock.example\r\nCookie: {}\r\nConnection: close\r\n\r\n",
        visit.cookie
    );
    assert_eq!(visit.bytes(head.as_bytes()).await.status, 200);
    let head = head.replace("stock.example", "shop.example");
    assert_eq!(visit.bytes(head.as_bytes()).await.status, 421);
}

/// A page never shows the rows of a file that is no longer the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_database_was_replaced_says_so_and_ends() {
    let (world, visit) = visit().await;
    if world.is_on_server("its file is replaced") {
        return;
    }
    assert_eq!(visit.get("/stock").await.status, 200);
    let copy = world.path.with_file_name("copy.db");
    std::fs::copy(&world.path, &copy).unwrap();
    std::fs::rename(&copy, &world.path).unwrap();
    let answer = visit.get("/stock").await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("was replaced by another file while tallyd used it"), "{}", answer.body);
    visit.ended().await;
}

/// Whoever owns the file knows the token, and a link leads to another's file.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_file_behind_a_link_lets_nobody_in() {
    let world = World::new().await;
    world.make().await;
    let (file, link) = (world.path.with_file_name("theirs"), world.path.with_file_name("token"));
    std::fs::write(&file, "7".repeat(64)).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let config = Config::from_toml(&world.toml(&format!("[web]\ntoken_file = {link:?}\n"))).unwrap();
    let options = PagesOptions { listen: ([127, 0, 0, 1], 0).into(), is_read_only: false };
    let refused =
        start_pages(config, std::sync::Arc::new(SystemClock), options).await.unwrap_err().to_string();
    assert!(refused.contains("which may be no link"), "{refused}");
}
