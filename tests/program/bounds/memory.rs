//! Memory: the daemon stays below 128 MiB, for any rows in the outbox and any answer of the platform.

use super::support::World;
use super::{Running, configured, tallyd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Memory limit of the daemon, in MiB.
const MOST: u64 = 128;
const MIB: usize = 1024 * 1024;

/// Bodies of 10 MB are rejected without being loaded.
///
/// They name no stock level, one each, or all the same one, or are of a kind that is sent in a call of its
/// own.
#[tokio::test(flavor = "multi_thread")]
async fn forty_bodies_of_10_mb_are_rejected_without_being_loaded() {
    let world = World::new().await;
    let config = configured(&world, "");
    world.track_all().await;
    let (sku, warehouse, quantity) = world.shop().await[0].clone();
    let other = world.shop().await.iter().find(|(s, ..)| *s != sku).unwrap().0.clone();
    let filler = "x".repeat(10 * MIB);
    for n in 0..10 {
        let set = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"quantity":{n},"note":"{filler}"}}"#);
        world.change(&format!("set-{n}"), "quantity.set", &set).await;
        let adjust = format!(r#"{{"sku":"S-{n}","warehouse_id":{warehouse},"delta":1,"note":"{filler}"}}"#);
        world.change(&format!("adjust-{n}"), "quantity.adjust", &adjust).await;
        let product = format!(r#"{{"Sku":"NEW-{n}","Name":"N","Notes":"{filler}"}}"#);
        world.change(&format!("product-{n}"), "product.create", &product).await;
        world.change(&format!("text-{n}"), "shipment.create", &format!("\"{filler}\"")).await;
    }
    let good = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"delta":1}}"#);
    world.change("good", "quantity.adjust", &good).await;
    let good = format!(r#"{{"sku":"{other}","warehouse_id":{warehouse},"delta":1}}"#);
    world.change("beside", "quantity.adjust", &good).await;

    let mut running = Running::start(&config).await;
    running.until("daemon.ready").await;
    let settled = "SELECT count(*) FROM outbox WHERE settled_at IS NOT NULL";
    world.until("all are settled", async |world| world.number(settled).await == 42).await;
    let peak = running.peak_mib();
    assert_eq!(running.stop().await, Some(0));

    assert_eq!(world.fate("good").await.0, "applied");
    assert_eq!(world.fate("beside").await.0, "applied");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity + 1);
    for n in 0..10 {
        for key in ["set", "adjust", "product", "text"] {
            let (state, reason, detail) = world.fate(&format!("{key}-{n}")).await;
            assert_eq!((state.as_str(), reason.as_str()), ("rejected", "bad_body"), "{key}: {detail}");
            assert!(detail.starts_with("the body is 1048") && detail.contains("at most 262144"), "{detail}");
        }
    }
    assert!(peak < MOST, "the daemon needed {peak} MiB");
    println!("forty bodies of 10 MB: {peak} MiB");

    // A command has the same memory limit.
    let shown = tallyd(&config, &["outbox", "list", "--json"]).await;
    let rows: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["key"] == "set-1").unwrap();
    assert_eq!(row["body"], serde_json::Value::Null);
    assert!(shown.stdout.len() < MIB, "{} bytes", shown.stdout.len());
    for args in [vec!["outbox", "show", "set-1"], vec!["explain", &sku], vec!["outbox", "list"]] {
        let said = tallyd(&config, &args).await;
        assert_eq!(said.status.code(), Some(0), "{args:?}");
        assert!(said.stdout.len() < MIB, "{args:?} says {} bytes", said.stdout.len());
    }
}

/// Answers of 100 MB are cut off, with and without a length in the head.
#[tokio::test(flavor = "multi_thread")]
async fn ten_answers_of_100_mb_are_cut_off_and_not_loaded() {
    for says_length in [true, false] {
        let world = World::new().await;
        world.track_all().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let toml = world
            .toml("")
            .replace(&world.sandbox.local_addr().to_string(), &listener.local_addr().unwrap().to_string());
        let config = world.path.with_file_name("tallyd.toml");
        std::fs::write(&config, toml).unwrap();
        let mut running = Running::start(&config).await;
        for _ in 0..10 {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(flood(stream, says_length));
        }
        // The eleventh call shows that the earlier answers were given up.
        drop(listener.accept().await.unwrap());
        let peak = running.peak_mib();
        running.until("daemon.ready").await;
        assert_eq!(running.stop().await, Some(0));
        assert!(peak < MOST, "the daemon needed {peak} MiB");
        println!("ten answers of 100 MB, length said: {says_length}: {peak} MiB");
    }
}

/// Writes an answer of 100 MB, until the reader closes the connection.
async fn flood(mut stream: tokio::net::TcpStream, says_length: bool) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await;
    let head = if says_length {
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", 100 * MIB)
    } else {
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n".to_owned()
    };
    let record = br#"{"Sku":"A","Balances":[{"WarehouseId":1,"Quantity":1}]},"#.repeat(1024);
    let mut answer = head.into_bytes();
    answer.extend_from_slice(br#"{"data":["#);
    let mut sent = 0;
    while sent < 100 * MIB && stream.write_all(&answer).await.is_ok() {
        sent += answer.len();
        answer.clone_from(&record);
    }
}
