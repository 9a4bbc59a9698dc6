//! A daemon whose connections go through a pooler, PgBouncer, before the server.

use super::server::{tallyd, text};
use crate::support::World;
use crate::support::cluster::{Cluster, leave_out};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use tallyd::store::{DatabaseLocation, PostgresDatabase};

/// Running pooler; dropping it ends it.
struct Pooler<'a> {
    cluster: &'a Cluster,
    running: Child,
    /// The pooler ends if nobody reads its log.
    _log: BufReader<ChildStderr>,
}

impl<'a> Pooler<'a> {
    /// Starts a pooler before the cluster, with a socket in its folder; `None`: this host has none.
    fn start(cluster: &'a Cluster, settings: &str) -> Option<Self> {
        let (dir, file) = (cluster.dir().display(), cluster.dir().join("pgbouncer.ini"));
        let text = format!(
            "[databases]\npostgres = host={dir} user=tallyd\n[pgbouncer]\nauth_type = any\nlisten_addr =\n\
             unix_socket_dir = {dir}\nlisten_port = 6432\nlog_connections = 0\nlog_disconnections = 0\n\
             {settings}\n"
        );
        std::fs::write(&file, text).unwrap();
        // Debian's folder of the program is not on the path of every user.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        let mut programs = folders.map(|dir: std::path::PathBuf| dir.join("pgbouncer"));
        let Some(program) = programs.find(|program| program.exists()) else {
            leave_out("PgBouncer (Debian: pgbouncer)");
            return None;
        };
        let mut pooler = Command::new(program);
        pooler.arg(&file).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = cluster.as_owner(&mut pooler).spawn().unwrap();
        let mut log = BufReader::new(running.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("process up") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the pooler ended");
        }
        Some(Self { cluster, running, _log: log })
    }

    fn url(&self) -> String {
        self.cluster.url() + "&port=6432"
    }

    fn location(&self, schema: &str, world: &World) -> DatabaseLocation {
        DatabaseLocation::on_server(PostgresDatabase::new(&self.url(), schema).unwrap(), &world.path)
    }

    /// Returns the settings of the session that the next program gets.
    fn settings(&self) -> String {
        let sql = "SELECT current_setting('search_path'), current_setting('default_transaction_read_only'), \
                   current_setting('lock_timeout')";
        let mut psql = Command::new(self.cluster.programs().join("psql"));
        let done = psql.args(["-X", "-q", "-At", "-c", sql]).arg(self.url()).output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    }
}

impl Drop for Pooler<'_> {
    fn drop(&mut self) {
        self.running.kill().unwrap();
        self.running.wait().unwrap();
    }
}

#[tokio::test]
async fn a_pooler_that_lends_sessions_for_transactions_is_refused_and_unchanged() {
    let Some(cluster) = Cluster::start() else { return };
    let mut world = World::on_server(&cluster, "north").await;
    world.make().await;
    for settings in ["", "default_pool_size = 1", "server_round_robin = 1\nmin_pool_size = 5"] {
        // Settings of the start that PgBouncer does not know are an error of its own.
        let ignored = "ignore_startup_parameters = options, extra_float_digits";
        for settings in [settings.to_owned(), format!("{settings}\n{ignored}")] {
            let pooler = Pooler::start(&cluster, &format!("pool_mode = transaction\n{settings}"));
            let Some(pooler) = pooler else { return };
            world.location = pooler.location("north", &world);
            let before = pooler.settings();
            for arguments in [&["check"][..], &["run", "--once"], &["stock"], &["journal", "export"]] {
                for time in ["first", "second"] {
                    let done = tallyd(&world, arguments).await;
                    let why = text(&done.stderr);
                    let reason = "gives each transaction another session";
                    assert!(why.contains(reason), "{settings}: {arguments:?}, {time} time: {why}");
                    assert!(why.contains("use pool_mode = session"), "{why}");
                    assert_eq!(done.status.code(), Some(1));
                }
                assert_eq!(pooler.settings(), before, "{arguments:?}: another program's session");
            }
        }
    }
}

#[tokio::test]
async fn a_pooler_of_sessions_serves_a_daemon() {
    let Some(cluster) = Cluster::start() else { return };
    let mut world = World::on_server(&cluster, "north").await;
    let Some(pooler) = Pooler::start(&cluster, "pool_mode = session") else { return };
    let through = pooler.location("north", &world);
    let direct = std::mem::replace(&mut world.location, through.clone());
    let done = tallyd(&world, &["check"]).await;
    let shown = text(&done.stdout) + &text(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{shown}");
    assert!(shown.contains("is noticed at once, by its notification"), "{shown}");
    world.make().await;
    world.location = direct.clone();
    world.track_all().await;
    world.location = through.clone();
    let working = world.work().await;
    world.location = direct;
    world
        .until("the mirror is read", async |world| world.number("SELECT count(*) FROM stock").await > 0)
        .await;
    let (sku, warehouse, quantity) = world.shop().await.into_iter().find(|level| level.2 >= 20).unwrap();
    let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": 1}).to_string();
    world.change("add", "quantity.adjust", &body).await;
    world.until("the change is applied", async |world| world.fate("add").await.0 == "applied").await;
    working.stop().await;
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity + 1);
    assert_eq!(cluster.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), ["0"]);
    world.location = through;
    let done = tallyd(&world, &["stock", "--json"]).await;
    assert!(done.status.success(), "{}", text(&done.stderr));
}
