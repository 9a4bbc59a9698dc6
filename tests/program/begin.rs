//! The first steps of a new user: `init`, the commands that the sandbox prints, completion, a kept demonstration.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::support::{PATIENCE, tool};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tallyd::model::JobKind;
use tallyd::outbox::{ChangeKind, ChangeState, Reason};
use tallyd::sandbox::{Sandbox, SandboxOptions, start_sandbox};
use tokio::time::{Duration, Instant};

/// A sandbox without a quota, and a folder.
struct Desk {
    sandbox: Sandbox,
    dir: tempfile::TempDir,
}

impl Desk {
    async fn new() -> Self {
        let options = SandboxOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            calls_per_minute: 0,
            skus: 20,
            orders: 2,
            ..SandboxOptions::default()
        };
        Self { sandbox: start_sandbox(options).await.unwrap(), dir: tempfile::tempdir().unwrap() }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("new/tallyd.toml")
    }

    fn keys(&self) -> String {
        format!("{}\n{}\n", self.sandbox.integration_key(), self.sandbox.gateway_key())
    }

    fn base_url(&self) -> String {
        format!("http://{}", self.sandbox.local_addr())
    }

    /// Runs `init` with this text on standard input; returns its exit code and what it wrote.
    async fn init(&self, more: &[&str], input: &str) -> (i32, String) {
        let mut command = tallyd(&["init", "--base-url", &self.base_url()]);
        command.arg("--config").arg(self.config()).args(more);
        run(command, input.to_owned()).await
    }

    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.config().with_file_name(name)).unwrap()
    }
}

fn tallyd(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn run(mut command: Command, input: String) -> (i32, String) {
    let done = move || {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(done).await.unwrap();
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Returns the answer to a GET of `HOST:PORT/PATH`.
fn answer_of(page: &str) -> String {
    let (host, path) = page.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Long-running child process, with the lines that it prints.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Self { child, lines }
    }

    /// Returns the lines up to and with the one that begins so.
    fn lines_until(&self, begin: &str) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            found.push(line.unwrap_or_else(|_| panic!("no line begins with {begin}: {found:?}")));
            if found.last().unwrap().trim_start().starts_with(begin) {
                return found;
            }
        }
    }

    /// Interrupts it as Ctrl-C does, and returns its exit code.
    fn interrupt(mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn init_proves_the_keys_and_writes_each_file_with_its_mode() {
    let desk = Desk::new().await;
    let (code, said) = desk.init(&[], &desk.keys()).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("accepts the keys") && said.contains("next:"), "{said}");
    assert!(!said.contains(desk.sandbox.integration_key()), "{said}");
    let file = |name: &str| desk.config().with_file_name(name);
    assert_eq!(mode(file("").as_path()), 0o750);
    let modes = ["tallyd.toml", "integration-key", "gateway-key"].map(|name| mode(&file(name)));
    assert_eq!(modes, [0o640, 0o400, 0o400]);
    assert_eq!(desk.written("integration-key").trim(), desk.sandbox.integration_key());
    assert_eq!(fs::read_dir(file("")).unwrap().count(), 3, "the proof leaves nothing behind");
    let config = desk.config();
    let checked = tallyd(&["--config", config.to_str().unwrap(), "check", "--online"]);
    let (code, said) = run(checked, String::new()).await;
    assert_eq!(code, 0, "{said}");
    assert!(file("tallyd.db").exists(), "the database is beside the configuration");

    let before = desk.written("tallyd.toml");
    let (code, said) = desk.init(&[], &desk.keys()).await;
    assert_eq!((code, said.matches("unchanged").count()), (0, 3), "{said}");
    fs::set_permissions(file("gateway-key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(file("gateway-key"), "an older key\n").unwrap();
    let (code, said) = desk.init(&[], &desk.keys()).await;
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("gateway-key would be changed; nothing was written"), "{said}");
    assert_eq!(desk.written("gateway-key"), "an older key\n");
    let (code, said) = desk.init(&["--replace"], &desk.keys()).await;
    assert_eq!((code, said.contains("gateway-key: replaced, mode 0400")), (0, true), "{said}");
    assert_eq!(desk.written("gateway-key").trim(), desk.sandbox.gateway_key());
    assert_eq!(desk.written("tallyd.toml"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn init_writes_nothing_for_keys_or_an_address_that_are_not_proved() {
    let desk = Desk::new().await;
    let wrong = format!("no-such-key\n{}\n", desk.sandbox.gateway_key());
    let (code, said) = desk.init(&[], &wrong).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("refuses the keys") && said.contains("nothing was written"), "{said}");
    let (code, said) = desk.init(&[], &format!("{}\n", desk.sandbox.integration_key())).await;
    assert_eq!(
        (code, said.contains("cannot read the gateway key: nothing was entered")),
        (1, true),
        "{said}"
    );
    let (code, said) = desk.init(&["--base-url", "http://example.com"], &desk.keys()).await;
    assert_eq!(code, 2, "{said}");
    assert!(!desk.config().parent().unwrap().exists());
    let (code, said) = desk.init(&["--offline"], &wrong).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(desk.written("integration-key").trim(), "no-such-key");
}

/// The package brings the configuration; `init` sets the address in it and keeps all else.
#[tokio::test(flavor = "multi_thread")]
async fn init_keeps_what_a_configuration_says() {
    let desk = Desk::new().await;
    fs::create_dir_all(desk.config().parent().unwrap()).unwrap();
    let database = desk.dir.path().join("own.db");
    let text = include_str!("../../config/tallyd.toml");
    let text = text.replace("/var/lib/tallyd/tallyd.db", database.to_str().unwrap()) + "# our own line\n";
    fs::write(desk.config(), &text).unwrap();
    let (integration, gateway) = (desk.dir.path().join("i"), desk.dir.path().join("g"));
    fs::write(&integration, desk.sandbox.integration_key()).unwrap();
    fs::write(&gateway, desk.sandbox.gateway_key()).unwrap();
    let files =
        ["--integration-key", integration.to_str().unwrap(), "--gateway-key", gateway.to_str().unwrap()];
    let (code, said) = desk.init(&files, "").await;
    assert_eq!((code, said.contains("tallyd.toml: the address was set, mode 0640")), (0, true), "{said}");
    assert_eq!(desk.written("tallyd.toml"), text.replace("https://service.example", &desk.base_url()));
    assert!(!database.exists(), "the proof does not touch the database");
}

/// A comment with the same text is no line of the address, and what is proved is what the daemon will use.
#[tokio::test(flavor = "multi_thread")]
async fn init_sets_the_address_that_is_in_force_and_no_comment() {
    let (desk, other) = (Desk::new().await, Desk::new().await);
    fs::create_dir_all(desk.config().parent().unwrap()).unwrap();
    let text = |address: &str| {
        format!(
            "# base_url = {:?}\nservice.base_url = {address:?} # ours\n[database]\npath = \"x.db\"\n",
            other.base_url()
        )
    };
    let example = "# https://service.example is the example\n";
    fs::write(desk.config(), example.to_owned() + &text(&other.base_url())).unwrap();
    let (code, said) = desk.init(&[], &desk.keys()).await;
    assert_eq!((code, said.contains("tallyd.toml would be changed")), (2, true), "{said}");
    let (code, said) = desk.init(&["--replace"], &desk.keys()).await;
    assert_eq!((code, said.contains("tallyd.toml: replaced")), (0, true), "{said}");
    assert_eq!(desk.written("tallyd.toml"), example.to_owned() + &text(&desk.base_url()));

    let inline = |address: &str| format!("service = {{ base_url = {address:?} }} # ours\n");
    fs::write(desk.config(), inline(&other.base_url())).unwrap();
    let (code, said) = desk.init(&["--replace"], &desk.keys()).await;
    assert_eq!((code, said.contains("tallyd.toml: replaced")), (0, true), "{said}");
    assert_eq!(desk.written("tallyd.toml"), inline(&desk.base_url()));
    fs::write(desk.config(), "[limits]\nshare = 3\n").unwrap();
    let (code, said) = desk.init(&["--replace"], &desk.keys()).await;
    assert_eq!((code, said.contains("limits.share")), (2, true), "{said}");
}

/// A variable, or a key file that the configuration names, wins over what `init` writes.
#[tokio::test(flavor = "multi_thread")]
async fn init_writes_no_file_that_would_not_be_read() {
    let desk = Desk::new().await;
    let with = |name: &str, value: &str| {
        let mut command = tallyd(&["init", "--base-url", &desk.base_url(), "--config"]);
        command.arg(desk.config()).env(name, value);
        run(command, desk.keys())
    };
    for (name, value, words) in [
        ("TALLYD_SERVICE__BASE_URL", "http://127.0.0.1:9", "in force would be http://127.0.0.1:9 with"),
        ("TALLYD_SERVICE__GATEWAY_KEY", "another", "integration-key and TALLYD_SERVICE__GATEWAY_KEY, which"),
        ("TALLYD_SERVICE__INTEGRATION_KEY_FILE", "/keys/i", "with the keys of /keys/i and "),
        (
            "CREDENTIALS_DIRECTORY",
            "/run/credentials/x",
            "with the keys of /run/credentials/x/integration-key and",
        ),
    ] {
        let (code, said) = with(name, value).await;
        assert_eq!(
            (code, said.contains(words), said.contains("nothing was written")),
            (2, true, true),
            "{said}"
        );
        assert!(!desk.config().exists(), "{name}");
    }
    let (code, said) = with("TALLYD_SERVICE__BASE_URL", &desk.base_url()).await;
    assert_eq!(code, 0, "the variable says the same: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn init_takes_the_rights_of_others_from_files_that_hold_the_same() {
    let desk = Desk::new().await;
    assert_eq!(desk.init(&[], &desk.keys()).await.0, 0);
    let modes =
        [("tallyd.toml", 0o646, 0o640), ("integration-key", 0o644, 0o400), ("gateway-key", 0o440, 0o400)];
    for (name, open, _) in modes {
        fs::set_permissions(desk.config().with_file_name(name), fs::Permissions::from_mode(open)).unwrap();
    }
    let (code, said) = desk.init(&[], &desk.keys()).await;
    assert_eq!((code, said.matches("unchanged, mode 0").count()), (0, 3), "{said}");
    for (name, _, expected) in modes {
        assert_eq!(mode(&desk.config().with_file_name(name)), expected, "{name}");
    }
}

/// Reads from a terminal until the text ends so, and the terminal echoes or not.
fn until_prompt(terminal: &mut File, prompt: &str, echoes: bool) -> String {
    let (begun, mut shown) = (Instant::now(), Vec::new());
    while !String::from_utf8_lossy(&shown).ends_with(prompt) {
        let mut byte = [0];
        terminal.read_exact(&mut byte).unwrap();
        shown.push(byte[0]);
    }
    while tcgetattr(&*terminal).unwrap().local_modes.contains(LocalModes::ECHO) != echoes {
        assert!(begun.elapsed() < PATIENCE, "the echo does not become {echoes} at: {prompt}");
        std::thread::sleep(Duration::from_millis(1));
    }
    String::from_utf8(shown).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn init_asks_at_a_terminal_and_shows_no_key() {
    let desk = Desk::new().await;
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("init").arg("--config").arg(desk.config());
    command.stdin(slave.try_clone().unwrap()).stderr(slave).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let keys = (desk.sandbox.integration_key().to_owned(), desk.sandbox.gateway_key().to_owned());
    let (base_url, (integration, gateway)) = (desk.base_url(), keys.clone());
    let typing = move || {
        let mut terminal = File::from(master);
        let mut shown = until_prompt(&mut terminal, "service.example: ", true);
        terminal.write_all(format!("{base_url}\n").as_bytes()).unwrap();
        shown += &until_prompt(&mut terminal, "integration key: ", false);
        terminal.write_all(format!("{integration}\n").as_bytes()).unwrap();
        shown += &until_prompt(&mut terminal, "gateway key: ", false);
        terminal.write_all(format!("{gateway}\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let mut rest = Vec::new();
        // The end of the other side is an error of a terminal.
        let _ = terminal.read_to_end(&mut rest);
        (output, shown + &String::from_utf8_lossy(&rest))
    };
    let (output, shown) = tokio::task::spawn_blocking(typing).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(!shown.contains(&keys.0) && !shown.contains(&keys.1), "{shown}");
    assert_eq!(desk.written("gateway-key").trim(), keys.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_that_the_sandbox_prints_work() {
    if !tool("curl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sandbox = Running::start(tallyd(&["sandbox", "--listen", "127.0.0.1:0", "--skus", "20"]));
    let lines = sandbox.lines_until("printf");
    let commands: Vec<&String> = lines.iter().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(commands.len(), 3, "{lines:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_tallyd")).parent().unwrap();
    let expected = ["Portland Warehouse", "OrderId", "accepts the keys"];
    for (command, expected) in commands.into_iter().zip(expected) {
        let mut shell = Command::new("sh");
        shell.args(["-euc", &format!("PATH={}:$PATH; {command}", program.display())]);
        shell.current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (code, said) = run(shell, String::new()).await;
        assert!(code == 0 && said.contains(expected), "{command}: {code}: {said}");
    }
    assert!(dir.path().join("shop/tallyd.toml").exists());
}

#[test]
fn completions_name_jobs_states_and_kinds() {
    for shell in ["bash", "zsh", "fish"] {
        let script = tallyd(&["completions", shell]).output().unwrap().stdout;
        let script = String::from_utf8(script).unwrap();
        for name in ["order_lines", "listing_templates", "in_doubt", "cancelled", "quantity.adjust"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    let refused = tallyd(&["job", "run", "balance"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("balances") && said.contains("work_queue"), "{said}");
}

/// Returns what a shell offers behind these words, which end with the option or command whose value is asked for.
fn offered(shell: &str, script: &Path, words: &[&str]) -> Vec<String> {
    let source = format!("source {}", script.display());
    let ask = match shell {
        "bash" => format!(
            "{source}; COMP_WORDS=(tallyd {0} ''); COMP_CWORD={1}; _tallyd tallyd '' {2}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() + 1,
            words.last().unwrap()
        ),
        _ => format!("{source}; complete -C 'tallyd {} '", words.join(" ")),
    };
    let output = Command::new(shell).args(["-c", &ask]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    // Fish prints a description behind a tab.
    said.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn shells_offer_states_reasons_kinds_and_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let reasons: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    let states: Vec<&str> = ChangeState::ALL.iter().map(|state| state.as_str()).collect();
    let kinds: Vec<&str> = ChangeKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let jobs: Vec<&str> = JobKind::ALL.iter().map(|job| job.as_str()).collect();
    let rows: [(&[&str], &[&str]); 5] = [
        (&["outbox", "list", "--state"], &states),
        (&["outbox", "list", "--reason"], &reasons),
        (&["outbox", "retry", "--reason"], &reasons),
        (&["outbox", "cancel", "--kind"], &kinds),
        (&["job", "list", "--kind"], &jobs),
    ];
    for shell in ["bash", "fish"] {
        if !tool(shell) {
            continue;
        }
        let script = dir.path().join(shell);
        fs::write(&script, tallyd(&["completions", shell]).output().unwrap().stdout).unwrap();
        for (words, expected) in rows {
            let (mut found, mut expected) = (offered(shell, &script, words), expected.to_vec());
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{shell}: {words:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_shows_its_scenes_and_goes_on_when_it_was_kept() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("shop");
    let kept = kept.to_str().unwrap();
    let begun = Instant::now();
    let (code, said) = run(tallyd(&["demo", "--seconds", "4", "--keep", kept]), String::new()).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("mirror and sandbox are equal"), "{said}");
    assert!(said.contains("the page, for a browser: http://127.0.0.1:"), "{said}");
    for scene in ["\nan order\n", "\na conflict\n", "\na lost answer\n", "\na brake\n"] {
        assert!(said.contains(scene), "{scene}: {said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let (code, said) = run(tallyd(&["demo", "--keep", kept]), String::new()).await;
    assert_eq!((code, said.contains("--resume")), (2, true), "{said}");

    let resumed = Running::start(tallyd(&["demo", "--resume", kept]));
    let lines = resumed.lines_until("the page, for a browser:");
    assert!(lines[0].contains("run until Ctrl-C"), "{lines:?}");
    let (_, page) = lines.last().unwrap().split_once("http://").unwrap();
    let answer = answer_of(page.trim());
    assert!(answer.starts_with("HTTP/1.1 303") && answer.contains("set-cookie: tallyd-"), "{answer}");
    let config = format!("{kept}/tallyd.toml");
    let (_, stock) = run(tallyd(&["--config", &config, "stock", "--json"]), String::new()).await;
    let stock: serde_json::Value = serde_json::from_str(&stock).unwrap();
    let row = stock.as_array().unwrap().iter().find(|row| row["quantity"].as_i64() > Some(5)).unwrap();
    let (sku, warehouse) = (row["sku"].as_str().unwrap(), row["warehouse_id"].to_string());
    let adjust = ["--config", &config, "quantity", "adjust", sku, &warehouse, "2", "--key", "resumed-1"];
    let (code, said) = run(tallyd(&adjust), String::new()).await;
    assert_eq!(code, 0, "{said}");
    let waited = Instant::now();
    loop {
        let show = tallyd(&["--config", &config, "outbox", "show", "resumed-1", "--json"]);
        let (_, change) = run(show, String::new()).await;
        if change.contains(r#""state": "applied""#) {
            break;
        }
        assert!(waited.elapsed() < PATIENCE, "{change}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(resumed.interrupt(), 0);
    let (code, said) = run(tallyd(&["demo", "--resume", dir.path().to_str().unwrap()]), String::new()).await;
    assert_eq!((code, said.contains("has no sandbox.db")), (2, true), "{said}");
}
