//! Notices to real receivers, with the time injected: collected, delivered once, repeated under one id.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::support::{World, cluster};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tallyd::client::{AccountKeys, HttpSettings};
use tallyd::health::{DaemonState, HealthInputs, HealthReport, check_health};
use tallyd::limiter::LimiterSettings;
use tallyd::model::{Moment, Timestamp};
use tallyd::notify::{
    NoticeChannel, NoticeOrigin, NoticeSender, NoticeTopic, NotifierSettings, SecretUrl, collect_notices,
    deliver_notices,
};
use tallyd::outbox::{ChangeState, Reason};
use tallyd::store::{ChangeOutcome, DatabaseLock, Durability, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const START: Timestamp = Timestamp(1_800_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const UP: u8 = 0;
const DOWN: u8 = 1;
/// Takes the request and never answers.
pub(crate) const SILENT: u8 = 2;

/// An HTTP server that keeps the requests it received.
pub(crate) struct Receiver {
    pub(crate) address: String,
    mode: Arc<AtomicU8>,
    /// Requests while up or silent: the head, then the body.
    kept: Arc<Mutex<Vec<(String, String)>>>,
    pub(crate) arrived: mpsc::UnboundedReceiver<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (mode, kept) = (Arc::new(AtomicU8::new(UP)), Arc::<Mutex<Vec<(String, String)>>>::default());
        let (arrives, arrived) = mpsc::unbounded_channel();
        let (its_mode, its_kept) = (Arc::clone(&mode), Arc::clone(&kept));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mode, kept, arrives) = (Arc::clone(&its_mode), Arc::clone(&its_kept), arrives.clone());
                tokio::spawn(async move {
                    let _ = serve(stream, &mode, &kept, &arrives).await;
                });
            }
        });
        Self { address, mode, kept, arrived }
    }

    pub(crate) fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }

    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.kept.lock().unwrap().iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect()
    }

    fn targets(&self) -> Vec<String> {
        self.kept.lock().unwrap().iter().map(|(head, _)| target(head)).collect()
    }

    fn bodies_of(&self, wanted: &str) -> Vec<Value> {
        let kept = self.kept.lock().unwrap();
        let of = kept.iter().filter(|(head, _)| target(head) == wanted);
        of.map(|(_, body)| serde_json::from_str(body).unwrap()).collect()
    }
}

/// Returns method and path of a request.
fn target(head: &str) -> String {
    head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned()
}

async fn serve(
    mut stream: TcpStream,
    mode: &AtomicU8,
    kept: &Mutex<Vec<(String, String)>>,
    arrives: &mpsc::UnboundedSender<()>,
) -> std::io::Result<()> {
    let mut text = String::new();
    let (head, body) = loop {
        let mut part = vec![0; 64 * 1024];
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Ok(());
        }
        text.push_str(std::str::from_utf8(&part[..count]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
        });
        if body.len() >= length.unwrap_or(0) {
            break (head.to_owned(), body.to_owned());
        }
    };
    let mode = mode.load(Ordering::SeqCst);
    if mode != DOWN {
        kept.lock().unwrap().push((head, body));
    }
    let _ = arrives.send(());
    if mode == SILENT {
        std::future::pending::<()>().await;
    }
    let status = if mode == DOWN { "503 Away" } else { "204 Taken" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await
}

/// A database with one notifier, and a clock that the test moves.
struct House {
    store: Store,
    notifier: NotifierSettings,
    sender: NoticeSender,
    origin: NoticeOrigin,
    now: Timestamp,
    daemon: DaemonState,
    _lock: DatabaseLock,
    _dir: tempfile::TempDir,
}

impl House {
    async fn new(channel: NoticeChannel) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let location = cluster::new_location(&dir.path().join("t.db"));
        let lock = DatabaseLock::acquire(location.path()).unwrap();
        let store = Store::open(&location, &lock).await.unwrap();
        let notifier = NotifierSettings {
            name: "receiver".into(),
            topics: NoticeTopic::ALL.iter().copied().collect(),
            channel,
            window: 10 * MINUTE,
            account: "north".into(),
        };
        let keys = AccountKeys { integration: "planted-key-one".into(), gateway: "planted-key-two".into() };
        let sender = NoticeSender { http: HttpSettings::new("http://127.0.0.1"), keys: Some(keys) };
        let database = store.account_binding().await.unwrap().database_name();
        let origin = NoticeOrigin { database, host: "host-1".into() };
        let (now, daemon) = (START, DaemonState::Running);
        Self { store, notifier, sender, origin, now, daemon, _lock: lock, _dir: dir }
    }

    async fn over_http(receiver: &Receiver) -> Self {
        let url = SecretUrl(format!("{}/hook?token=hidden", receiver.address));
        Self::new(NoticeChannel::Webhook { url, header: None }).await
    }

    async fn health(&self) -> HealthReport {
        let limits = LimiterSettings::default();
        let (daemon, now) = (self.daemon, self.now);
        let look = HealthInputs {
            daemon,
            host: "here".into(),
            keys: Default::default(),
            metrics_file: None,
            is_metrics_old: false,
            at_once: false,
            call_timeout: Duration::from_secs(30),
            limits,
            boot_id: "b".into(),
            now,
            moment: Moment(9),
        };
        check_health(&self.store, &look).await.unwrap()
    }

    /// Inserts changes that the platform refused.
    async fn reject(&self, keys: std::ops::Range<u32>, detail: &str) {
        let mut write = self.store.begin_write(Durability::Full).await.unwrap();
        for n in keys.clone() {
            assert!(write.outbox_insert(&format!("k{n}"), "zzz", "{}", 0).await.unwrap());
        }
        write.commit().await.unwrap();
        let mut moves = Vec::new();
        for n in keys {
            let row = self.store.outbox_show(&format!("k{n}")).await.unwrap().unwrap();
            let (to, reason) = (ChangeState::Rejected, Some(Reason::ServiceRefused));
            moves.push(ChangeOutcome::new(row.id, to, reason, detail));
        }
        let mut write = self.store.begin_write(Durability::Full).await.unwrap();
        let moved = write.outbox_transition(ChangeState::Pending, &moves, self.now).await.unwrap();
        assert_eq!(moved, moves.len() as u64);
        write.commit().await.unwrap();
    }

    /// Does what the daemon does each minute.
    async fn tick(&mut self) -> usize {
        let health = self.health().await;
        collect_notices(&self.store, std::slice::from_ref(&self.notifier), &health, self.now).await.unwrap();
        let delivered = self.deliver().await;
        self.now = self.now.plus(MINUTE);
        delivered
    }

    async fn deliver(&self) -> usize {
        let to = (&self.sender, &self.origin);
        deliver_notices(&self.store, &self.notifier, to, || self.now).await.unwrap()
    }

    async fn ticks(&mut self, minutes: usize) -> usize {
        let mut delivered = 0;
        for _ in 0..minutes {
            delivered += self.tick().await;
        }
        delivered
    }
}

/// Returns the ids, and fails if one was delivered twice.
fn distinct_ids(bodies: &[Value]) -> BTreeSet<String> {
    let ids: BTreeSet<String> = bodies.iter().map(|body| body["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), bodies.len(), "a notice came twice: {bodies:#?}");
    ids
}

#[tokio::test]
async fn a_receiver_that_was_down_for_an_hour_then_gets_each_notice_once() {
    let mut receiver = Receiver::start().await;
    let mut house = House::over_http(&receiver).await;
    receiver.set(DOWN);
    for n in 0..4 {
        house.reject(n..n + 1, "no such SKU").await;
        assert_eq!(house.ticks(15).await, 0);
    }
    let mut attempts = 0;
    while receiver.arrived.try_recv().is_ok() {
        attempts += 1;
    }
    assert!((3..=12).contains(&attempts), "{attempts} attempts in an hour, with growing delays");
    receiver.set(UP);
    assert_eq!(house.ticks(30).await, 4);
    assert_eq!(house.ticks(60).await, 0, "nothing is repeated");
    let bodies = receiver.bodies();
    distinct_ids(&bodies);
    let keys: Vec<&str> = bodies.iter().map(|body| body["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["k0", "k1", "k2", "k3"], "in their order");
}

#[tokio::test]
async fn three_hundred_rejections_are_one_digest_and_their_acknowledgement_is_another() {
    let receiver = Receiver::start().await;
    let mut house = House::over_http(&receiver).await;
    for n in 0..6 {
        house.reject(n * 50..(n + 1) * 50, "no such SKU").await;
        assert_eq!(house.tick().await, 0, "it is collected first");
    }
    assert_eq!(house.ticks(30).await, 1);
    let first = receiver.bodies().pop().unwrap();
    assert_eq!((&first["event"], &first["count"]), (&json!("rejected"), &json!(300)));
    assert_eq!(first["message"], "300 rejected; the first: no such SKU");
    assert_eq!((&first["host"], &first["account"]), (&json!("host-1"), &json!("north")));

    let mut write = house.store.begin_write(Durability::Full).await.unwrap();
    for n in 0..300 {
        write.outbox_acknowledge(&format!("k{n}"), house.now).await.unwrap().unwrap();
    }
    write.commit().await.unwrap();
    assert_eq!(house.ticks(30).await, 1);
    let last = receiver.bodies().pop().unwrap();
    assert_eq!((&last["over"], &last["count"]), (&json!(true), &json!(1)), "{last:#}");
    assert_eq!(last["message"], "every rejected change is acknowledged");
}

#[tokio::test]
async fn a_finding_is_told_when_it_begins_and_when_it_is_over() {
    let receiver = Receiver::start().await;
    let mut house = House::over_http(&receiver).await;
    house.daemon = DaemonState::NotRunning;
    assert_eq!(house.ticks(5).await, 1, "a daemon that ended is told at once, and once");
    house.daemon = DaemonState::Running;
    assert_eq!(house.ticks(5).await, 1);
    let told: Vec<(bool, String)> = receiver
        .bodies()
        .iter()
        .map(|body| (body["over"].as_bool().unwrap(), body["message"].as_str().unwrap().to_owned()))
        .collect();
    assert!(!told[0].0 && told[0].1.contains("tallyd does not run"), "{told:?}");
    assert_eq!(told[1], (true, "the finding no_daemon has cleared".to_owned()));
}

#[tokio::test]
async fn a_crash_between_the_send_and_its_record_repeats_the_notice_under_its_id() {
    let mut receiver = Receiver::start().await;
    let mut house = House::over_http(&receiver).await;
    house.reject(0..3, "no such SKU").await;
    assert_eq!(house.ticks(10).await, 0);
    receiver.set(SILENT);
    house.now = house.now.plus(MINUTE);
    tokio::select! {
        _ = house.deliver() => panic!("the receiver does not answer"),
        arrived = receiver.arrived.recv() => arrived.unwrap(),
    }
    receiver.set(UP);
    assert_eq!(house.deliver().await, 1);
    assert_eq!(house.deliver().await, 0);
    let bodies = receiver.bodies();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1], "the same notice under the same id");
}

#[tokio::test]
async fn no_key_of_the_account_is_in_a_notice() {
    let receiver = Receiver::start().await;
    let mut house = House::over_http(&receiver).await;
    house.reject(0..1, "refused: the header was planted-key-one, and planted-key-two beside it").await;
    assert_eq!(house.ticks(15).await, 1);
    let body = receiver.bodies().pop().unwrap().to_string();
    assert!(!body.contains("planted-key"), "{body}");
    assert!(body.contains("the header was ***************, and *************** beside it"), "{body}");
}

#[tokio::test]
async fn a_failure_names_neither_the_address_nor_its_secret() {
    let receiver = Receiver::start().await;
    let mut house = House::over_http(&receiver).await;
    receiver.set(DOWN);
    house.reject(0..1, "no such SKU").await;
    house.ticks(12).await;
    let failure: String = crate::support::outsider::Outsider::at(house.store.location())
        .await
        .value("SELECT failure FROM notice")
        .await;
    assert_eq!(failure, "it answered 503");
    assert!(!format!("{:?}", house.notifier).contains("hidden"));
}

#[tokio::test]
async fn a_command_gets_the_text_and_no_environment_and_ends_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let script = format!("{{ cat; env; }} > {}", out.display());
    let command = |script: &str, timeout| NoticeChannel::Command {
        words: vec!["/bin/sh".into(), "-c".into(), script.into()],
        timeout,
    };
    let mut house = House::new(command(&script, MINUTE)).await;
    house.reject(0..2, "no such SKU").await;
    assert_eq!(house.ticks(15).await, 1);
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(
        text.starts_with("tallyd: 2 rejected; the first: no such SKU\nhost host-1, account north, notice "),
        "{text}"
    );
    assert!(text.contains("rejected (change k1): no such SKU\n  to do: "), "{text}");
    assert!(!text.contains("CARGO") && !text.contains("HOME="), "{text}");

    house.notifier.channel = command("sleep 600; true", Duration::from_millis(300));
    house.reject(2..3, "no such SKU").await;
    assert_eq!(house.ticks(15).await, 0);
    let failure: String = crate::support::outsider::Outsider::at(house.store.location())
        .await
        .value("SELECT failure FROM notice WHERE sent_ms IS NULL")
        .await;
    assert!(failure.contains("/bin/sh did not end within 0 s and was killed"), "{failure}");
    // The background holds the command's input and output, and delivers after the command's end.
    let (go, mailed) = (dir.path().join("go"), dir.path().join("mailed"));
    let script = format!(
        "head -c 200000 /dev/zero >&2; exec 3<&0; \
         {{ until [ -e {} ]; do sleep 0.05; done; echo noise >&2; cat <&3 > {}; }} & exit 0",
        go.display(),
        mailed.display()
    );
    house.notifier.channel = command(&script, MINUTE);
    house.now = house.now.plus(60 * MINUTE);
    assert_eq!(house.deliver().await, 1, "the end of the command counts");
    std::fs::write(&go, "").unwrap();
    let is_mailed = || std::fs::read_to_string(&mailed).is_ok_and(|text| text.contains("no such SKU"));
    let started = tokio::time::Instant::now();
    while !is_mailed() {
        assert!(started.elapsed() < MINUTE, "the delivery in the background was killed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    house.notifier.channel = command("echo broken >&2; exit 7", MINUTE);
    house.reject(3..4, "no such SKU").await;
    house.ticks(15).await;
    house.now = house.now.plus(60 * MINUTE);
    assert_eq!(house.deliver().await, 0);
    let failure: String = crate::support::outsider::Outsider::at(house.store.location())
        .await
        .value("SELECT failure FROM notice WHERE sent_ms IS NULL")
        .await;
    assert_eq!(failure, "/bin/sh failed (exit status: 7): broken");
}

#[tokio::test]
async fn a_ping_goes_to_fail_while_unwell() {
    let receiver = Receiver::start().await;
    let url = SecretUrl(format!("{}/ping/abc?x=1", receiver.address));
    let mut house = House::new(NoticeChannel::Ping { url, every: MINUTE }).await;
    for daemon in [DaemonState::Running, DaemonState::NotRunning] {
        house.daemon = daemon;
        let is_well = house.notifier.is_well(&house.health().await);
        assert_eq!(is_well, daemon == DaemonState::Running);
        house.sender.ping(&house.notifier.channel, is_well).await.unwrap();
    }
    assert_eq!(receiver.targets(), ["GET /ping/abc?x=1", "GET /ping/abc/fail?x=1"]);
    house.notifier.topics = BTreeSet::from([NoticeTopic::Key]);
    assert!(house.notifier.is_well(&house.health().await), "only the topics of the notifier count");
}

fn notify_toml(receiver: &Receiver, more: &str) -> String {
    format!("[[notify]]\nwebhook = \"{}/hook\"\naccount = \"north\"\n{more}", receiver.address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_follows_a_killed_one_tells_it_at_once() {
    let mut receiver = Receiver::start().await;
    let options = tallyd::sandbox::SandboxOptions {
        skus: 5,
        orders: 0,
        calls_per_minute: 0,
        ..tallyd::sandbox::SandboxOptions::default()
    };
    let world = World::with(options, &notify_toml(&receiver, "")).await;
    world.work().await.stop().await;
    drop(world.daemon().await);
    let working = world.work().await;
    tokio::time::timeout(MINUTE, receiver.arrived.recv()).await.unwrap().unwrap();
    working.stop().await;
    let body = receiver.bodies().pop().unwrap();
    assert_eq!((&body["event"], &body["account"]), (&json!("daemon"), &json!("north")));
    assert!(body["message"].as_str().unwrap().contains("ended in the middle of its work"), "{body}");
    assert_eq!(receiver.bodies().len(), 1, "the one that ended in good order is no notice");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_send_without_a_daemon_and_with_an_id_that_stays() {
    let receiver = Receiver::start().await;
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "Bearer of-its-own\n").unwrap();
    let more = format!("header = \"authorization\"\nheader_file = {secret:?}\non = [\"daemon\"]\n");
    let ping =
        format!("[[notify]]\nping = \"{}/ping\"\n[[notify]]\ncommand = [\"/bin/true\"]\n", receiver.address);
    let config = dir.path().join("tallyd.toml");
    let path = dir.path().join("none.db");
    let text = format!(
        "[service]\nbase_url = \"http://127.0.0.1:9\"\n[database]\npath = {path:?}\n{}{ping}",
        notify_toml(&receiver, &more)
    );
    std::fs::write(&config, &text).unwrap();
    let run = async |args: &[&str], environment: BTreeMap<&str, &str>| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tallyd"));
        let output =
            command.arg("--config").arg(&config).args(args).envs(environment).output().await.unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), said)
    };
    let said = run(&["notify", "test"], BTreeMap::new()).await;
    let delivered = "webhook 127.0.0.1: delivered\nping 127.0.0.1: delivered\n\
                     command /bin/true: delivered outside of the unit's sandbox, in which the daemon runs the command\n";
    assert_eq!(said, (0, delivered.to_owned()));
    let environment =
        BTreeMap::from([("MONITOR_INVOCATION_ID", "4711"), ("MONITOR_SERVICE_RESULT", "signal")]);
    for _ in 0..2 {
        let said = run(&["notify", "daemon-failed", "tallyd.service"], environment.clone()).await;
        assert_eq!(said, (0, String::new()));
    }
    let hooks: Vec<Value> = receiver.bodies_of("POST /hook");
    assert_eq!(hooks[1]["id"], "tallyd.service-4711");
    assert_eq!(hooks[1]["id"], hooks[2]["id"]);
    assert!(
        hooks[1]["message"].as_str().unwrap().starts_with("tallyd.service has failed (signal)"),
        "{hooks:?}"
    );
    assert!(receiver.targets().contains(&"GET /ping/fail".to_owned()), "{:?}", receiver.targets());
    let heads: Vec<String> = receiver.kept.lock().unwrap().iter().map(|(head, _)| head.clone()).collect();
    assert!(heads[0].to_lowercase().contains("\r\nauthorization: bearer of-its-own"), "{heads:?}");
    assert!(!path.exists(), "no database is opened");
    // The daemon does not start with this file; its notifiers tell it all the same.
    std::fs::write(&config, format!("[limits]\nshare = 9\n[jobs.balances]\nschedule = \"often\"\n{text}"))
        .unwrap();
    let said = run(&["notify", "daemon-failed", "tallyd.service"], environment).await;
    assert_eq!(said, (0, String::new()));
    assert_eq!(receiver.bodies_of("POST /hook").pop().unwrap()["id"], "tallyd.service-4711");
    assert_eq!(receiver.bodies_of("POST /hook").len(), 4);
    std::fs::write(&config, text).unwrap();
    receiver.set(DOWN);
    let (code, said) = run(&["notify", "test"], BTreeMap::new()).await;
    assert!(code == 1 && said.contains("webhook 127.0.0.1: NOT delivered: it answered 503"), "{said}");
}
