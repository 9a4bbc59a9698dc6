//! Two hosts with one schema: one daemon leads, the other stands by and takes over.

use super::hosts::{Host, adjust, begin, configure, run, write_config};
use crate::support::cluster::Cluster;
use crate::support::{UPDATE, replayed};
use serde_json::json;
use tallyd::store::{DatabaseLock, Store, StoreError};
use tokio::time::{Duration, Instant};

#[tokio::test]
async fn a_standby_leads_as_soon_as_the_leader_stops_in_good_order() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    let mut other = Host::start(&world, "other");
    assert!(other.until("lead.standby").await["leader"].is_string());
    adjust(&world, &level, "first").await;
    assert!(!other.has_logged("lead.taken"));
    let status = other.json(&["status"]).await;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    assert_eq!(status["leader"]["lives"], true, "{status}");
    assert_eq!((&status["leader"]["host"], &status["standbys"]), (&json!(host), &json!([host])), "{status}");
    // In JSON with milliseconds and a T, for people without.
    let since = status["leader"]["since"].as_str().unwrap();
    let (_, shown) = run(&other.config, &["status"]).await;
    let line = format!("leader  {host} since {} {}Z; standing by: {host}", &since[..10], &since[11..19]);
    assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    // The arithmetic of docs/postgresql.md, *Several accounts*. The connections of a command that ended may linger.
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^(tallyd|standby)'";
    world.until("there are those of two daemons", async |world| world.number(connections).await <= 6).await;
    one.signal("-TERM").await;
    assert_eq!(one.ended().await, Some(0));
    let released = Instant::now();
    one.until("lead.released").await;
    other.until("lead.taken").await;
    assert!(released.elapsed() < Duration::from_millis(500), "{:?}", released.elapsed());
    other.until("daemon.ready").await;
    adjust(&world, &level, "second").await;
    other.signal("-TERM").await;
    assert_eq!(other.ended().await, Some(0));
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 + 2);
    assert_eq!(world.calls(UPDATE), 2);
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test]
async fn a_standby_takes_over_from_a_killed_leader_and_a_killed_leader_from_itself() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    one.signal("-KILL").await;
    one.ended().await;
    let died = Instant::now();
    let mut again = Host::start(&world, "one");
    again.until("daemon.ready").await;
    assert!(died.elapsed() < Duration::from_secs(4), "its own lock shows that the leader is dead");
    let mut other = Host::start(&world, "other");
    other.until("lead.standby").await;
    again.signal("-KILL").await;
    again.ended().await;
    let died = Instant::now();
    let silent = other.until("lead.silent").await;
    assert!(silent["silent_ms"].as_i64().unwrap() < 5_000 && silent["leader"].is_string(), "{silent}");
    other.until("lead.taken").await;
    assert!(died.elapsed() < Duration::from_secs(5 + 3), "{:?}", died.elapsed());
    other.until("daemon.ready").await;
    adjust(&world, &level, "after").await;
    let status = other.json(&["status"]).await;
    assert!(status["leader"]["takeover_ms"].as_i64().unwrap() >= 5_000, "{status}");
    other.signal("-TERM").await;
    assert_eq!(other.ended().await, Some(0));
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test]
async fn a_leader_that_was_replaced_while_it_was_paused_commits_nothing_and_ends() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    let mut other = Host::start(&world, "other");
    other.until("lead.standby").await;
    one.signal("-STOP").await;
    other.until("daemon.ready").await;
    let session = world.number("SELECT max(id) FROM session").await;
    adjust(&world, &level, "while paused").await;
    one.signal("-CONT").await;
    assert_eq!(one.ended().await, Some(1), "systemd starts it anew, and it stands by");
    one.until("lead.lost").await;
    adjust(&world, &level, "after").await;
    assert_eq!(world.number("SELECT max(id) FROM session").await, session);
    let late = format!(
        "SELECT count(*) FROM exchange e JOIN session s ON s.id = e.session_id \
                        WHERE s.id < {session} AND e.id > (SELECT min(id) FROM exchange WHERE session_id = {session})"
    );
    assert_eq!(world.number(&late).await, 0, "calls of the replaced leader");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 + 2);
    let mut again = Host::start(&world, "one");
    again.until("lead.standby").await;
    other.signal("-TERM").await;
    assert_eq!(other.ended().await, Some(0));
    again.until("daemon.ready").await;
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test]
async fn a_host_without_the_lead_asks_and_queues_and_never_calls() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    let elsewhere = configure(&world, "elsewhere");
    let file = world.path.with_file_name("moved.db");
    let (url, file) = (cluster.url(), file.to_str().unwrap());
    for (arguments, reason) in [
        (&["run", "--once"][..], "leads this account"),
        (&["restored"], "leads the database"),
        (&["journal", "prune"], "leads the database"),
        (&["move", "--from", &url, "--to", file], "leads the database"),
    ] {
        let (code, shown) = run(&elsewhere, arguments).await;
        assert_eq!(code, Some(1), "{arguments:?}: {shown}");
        assert!(shown.contains(reason), "{arguments:?}: {shown}");
    }
    let warehouse = level.1.to_string();
    for arguments in [
        &["quantity", "adjust", &level.0, &warehouse, "1"][..],
        &["stock"],
        &["job", "run", "balances"],
        &["explain", &level.0],
        &["outbox", "list"],
    ] {
        let (code, shown) = run(&elsewhere, arguments).await;
        assert_eq!(code, Some(0), "{arguments:?}: {shown}");
    }
    let sessions = world.number("SELECT count(*) FROM session").await;
    one.signal("-TERM").await;
    assert_eq!(one.ended().await, Some(0));
    assert_eq!(sessions, 2, "the first load's and the leader's: no command led");
}

#[tokio::test]
async fn a_server_that_went_back_ends_the_leader_and_holds_what_may_have_been_sent() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": 1}).to_string();
    world.change("sent", "quantity.adjust", &body).await;
    cluster.crash();
    cluster.copy_data("data", "replica with lag");
    cluster.start_server();
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    world.until("the change is applied", async |world| world.fate("sent").await.0 == "applied").await;
    cluster.crash();
    cluster.copy_data("replica with lag", "data");
    cluster.start_server();
    assert_eq!(one.ended().await, Some(1));
    one.until("lead.lost").await;
    let mut again = Host::start(&world, "one");
    again.until("daemon.ready").await;
    again.until("database.restored").await;
    assert_eq!(world.fate("sent").await.0, "held");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 + 1);
}

#[tokio::test]
async fn a_standby_knows_by_what_it_saw_that_the_server_went_back_and_holds_what_may_have_been_sent() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": 1}).to_string();
    world.change("sent", "quantity.adjust", &body).await;
    cluster.crash();
    cluster.copy_data("data", "replica with lag");
    cluster.start_server();
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    let mut other = Host::start(&world, "other");
    other.until("lead.standby").await;
    world.until("the change is applied", async |world| world.fate("sent").await.0 == "applied").await;
    let applied = world.number("SELECT position FROM journal_sequence").await;
    let noted = other.config.with_file_name("tallyd.db.position");
    let seen = || -> Option<i64> { std::fs::read_to_string(&noted).ok()?.split(' ').next()?.parse().ok() };
    world.until("the standby saw it", async |_| seen().is_some_and(|position| position >= applied)).await;
    one.signal("-KILL").await;
    one.ended().await;
    cluster.crash();
    cluster.copy_data("replica with lag", "data");
    cluster.start_server();
    other.until("daemon.ready").await;
    other.until("database.restored").await;
    assert_eq!(world.fate("sent").await.0, "held");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 + 1);
}

#[tokio::test]
async fn both_hosts_write_metrics_of_who_leads() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, _) = begin(&cluster).await;
    let file = |name: &str| world.path.with_file_name(format!("{name}.prom"));
    let host = |name: &str| {
        let metrics = format!("[metrics]\ntextfile = {:?}\n", file(name));
        Host::start_with(write_config(&world, name, &world.toml(&metrics)))
    };
    let mut leader = host("leader");
    leader.until("daemon.ready").await;
    let mut next = host("next");
    next.until("lead.standby").await;
    let mut third = host("third");
    third.until("lead.standby").await;
    let has = |name: &str, sample: &str| {
        std::fs::read_to_string(file(name)).is_ok_and(|page| page.lines().any(|line| line == sample))
    };
    for sample in ["tallyd_leading 0", "tallyd_leader_silent_milliseconds 0", "tallyd_standbys 0"] {
        let is_expected = !sample.contains("standbys");
        world.until("the standby writes its own", async |_| has("next", sample) == is_expected).await;
    }
    leader.signal("-TERM").await;
    assert_eq!(leader.ended().await, Some(0));
    let (leads, stands_by) =
        if next.until_first("lead.taken", &mut third).await { ("next", "third") } else { ("third", "next") };
    for sample in ["tallyd_leading 1", "tallyd_standbys 1", "tallyd_takeover_milliseconds 0"] {
        world.until(sample, async |_| has(leads, sample)).await;
    }
    assert!(has(stands_by, "tallyd_leading 0"));
}

#[tokio::test]
async fn a_store_is_not_opened_beside_a_leader() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, _) = begin(&cluster).await;
    let working = world.work().await;
    let path = world.path.with_file_name("beside.db");
    let lock = DatabaseLock::acquire(&path).unwrap();
    let location = cluster.location("north", &path);
    let refused = Store::open(&location, &lock).await.unwrap_err();
    assert!(matches!(refused, StoreError::Led { .. }), "{refused}");
    working.stop().await;
    Store::open(&location, &lock).await.unwrap();
}
