//! The shell blocks of README.md and of the operator's pages, run as they stand by `sh -eu`.
//!
//! Each page has a sandbox, a daemon and a host of its own in a temporary directory. The paths of the pages
//! are in that directory, and `PATH` begins with stand-ins for the tools of a real host ([`STAND_INS`]).
//! [`LEFT_OUT`] has the blocks that cannot run here, each with the reason. Their `tallyd` commands are still
//! parsed. A block that must fail would have to say so on the page; today there is none.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::support::tool;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tallyd::sandbox::{self, Sandbox, SandboxOptions};
use tokio::process::Command;
use tokio::time::timeout;

/// Time limit of a block; a block that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks that do not run: page, begin of a line of the block, reason.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("README.md", "tallyd sandbox", "it serves until it is interrupted; the test has a sandbox"),
    (
        "README.md",
        "cargo run -- demo",
        "it builds the program and runs this test; tests/program/begin.rs runs the demo",
    ),
    ("docs/journal.md", "cargo test --test program", "measurements of minutes"),
];

/// Pages whose blocks run. docs/database.md has a test of its own, [`super::database_page`].
const PAGES: &[&str] = &[
    "README.md",
    "SECURITY.md",
    "docs/backup.md",
    "docs/journal.md",
    "docs/logging.md",
    "docs/operations.md",
];

/// Paths of the pages that are in the temporary directory.
const PATHS: &[&str] = &["/etc/tallyd", "/etc/systemd", "/var/lib", "/srv/copies"];

/// Stand-ins for the tools of a host: name and script.
const STAND_INS: &[(&str, &str)] = &[
    // Address and keys that `init` asks for are not typed.
    (
        "tallyd",
        r#"case " $* " in
            *" init "*)
                {
                    case " $* " in *" --base-url "*) ;; *) echo "http://$SANDBOX" ;; esac
                    for key in integration-key gateway-key; do cat "$HOST/keys/$key"; echo; done
                } > "$HOST/typed"
                exec < "$HOST/typed" ;;
        esac
        case " $* " in
            *" --config "*) exec "$TALLYD" "$@" ;;
            *) exec "$TALLYD" --config "$HOST/etc/tallyd/tallyd.toml" "$@" ;;
        esac"#,
    ),
    ("sudo", r#"exec "$@""#),
    // The package brings the configuration, and keeps one that is there.
    (
        "apt",
        r#"mkdir -p "$HOST/etc/tallyd" "$HOST/etc/systemd/system" "$HOST/var/lib/tallyd"
        [ -e "$HOST/etc/tallyd/tallyd.toml" ] || cp "$HOST/packaged.toml" "$HOST/etc/tallyd/tallyd.toml""#,
    ),
    // The edit that the page asks for: the address, and the database of an instance.
    (
        "sudoedit",
        r#"sed -i "s|https://service.example|http://$SANDBOX|" "$1"
        case $1 in */north/*) sed -i 's|/var/lib/tallyd/tallyd.db|/var/lib/tallyd/north/tallyd.db|' "$1" ;; esac"#,
    ),
    // Owners are left out, and a key is not typed.
    (
        "install",
        r#"skip=
        for last; do :; done
        for word; do
            shift
            if [ "$skip" ]; then skip=; continue; fi
            case $word in
                -o | -g) skip=yes; continue ;;
                /dev/stdin) word=$HOST/keys/$(basename "$last") ;;
            esac
            set -- "$@" "$word"
        done
        PATH=${PATH#*:} exec install "$@""#,
    ),
    // A unit is a process. Its pipe ends with it, and its log shows when it is ready.
    (
        "systemctl",
        r#"verb= unit=
        for word; do
            case $word in
                --*) ;;
                *) if [ "$verb" ]; then unit=$word; else verb=$word; fi ;;
            esac
        done
        run=$HOST/run/$unit
        case $unit in *@*) config=$HOST/etc/tallyd/${unit#*@}/tallyd.toml ;; *) config=$HOST/etc/tallyd/tallyd.toml ;; esac
        # Runs a command, and waits until the unit logs the event afterwards.
        logs() {
            lines=$(cat "$run.log" 2> /dev/null | wc -l)
            event=$1
            shift
            "$@"
            tail -n +$((lines + 1)) -f "$run.log" --pid="$(cat "$run.pid")" | grep -q "$event"
        }
        launch() {
            mkdir -p "$HOST/var/lib/tallyd" "$(dirname "$(sed -n 's/^path = "\(.*\)"/\1/p' "$config")")"
            rm -f "$run.pipe"
            mkfifo "$run.pipe"
            # The process makes its log later than `tail` may open it.
            : >> "$run.log"
            "$TALLYD" --config "$config" run < /dev/null > /dev/null 2>> "$run.log" 9<> "$run.pipe" &
            echo $! > "$run.pid"
        }
        stop() {
            [ -e "$run.pid" ] || return 0
            exec 8< "$run.pipe"
            kill "$(cat "$run.pid")"
            cat <&8
            rm "$run.pid"
        }
        case $verb in
            start | enable) [ -e "$run.pid" ] || logs '"daemon.ready"' launch ;;
            restart) stop; logs '"daemon.ready"' launch ;;
            reload) logs '"config.reloaded"' kill -HUP "$(cat "$run.pid")" ;;
            stop) stop ;;
            status) kill -0 "$(cat "$run.pid")" ;;
            daemon-reload) ;;
            *) echo "systemctl $verb: no stand-in" >&2; exit 1 ;;
        esac"#,
    ),
    ("journalctl", r#"cat "$HOST/run/tallyd.log""#),
    ("adduser", ":"),
    ("newgrp", ":"),
    ("chgrp", ":"),
    ("cargo", ":"),
];

/// A host with the package installed, and the platform.
struct Host {
    root: PathBuf,
    sandbox: Sandbox,
    _dir: tempfile::TempDir,
}

impl Host {
    async fn new() -> Self {
        let options = SandboxOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            calls_per_minute: 0,
            ..SandboxOptions::default()
        };
        let sandbox = sandbox::start_sandbox(options).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        for folder in ["bin", "home", "keys", "run", "srv/copies", "var/lib/prometheus/node-exporter"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("keys/integration-key"), sandbox.integration_key()).unwrap();
        std::fs::write(root.join("keys/gateway-key"), sandbox.gateway_key()).unwrap();
        let host = Self { root, sandbox, _dir: dir };
        let packaged = host.moved(include_str!("../../config/tallyd.toml"));
        std::fs::write(host.root.join("packaged.toml"), packaged).unwrap();
        for (name, script) in STAND_INS {
            // Written by a child: a child of another test could hold a descriptor of this process, and a file
            // that is open for writing does not run.
            let write = r#"printf '#!/bin/sh -eu\n%s\n' "$2" > "bin/$1" && chmod 755 "bin/$1""#;
            let mut command = std::process::Command::new("sh");
            command.args(["-euc", write, "sh", name, script]).current_dir(&host.root);
            assert!(command.status().unwrap().success(), "{name}");
        }
        host
    }

    /// Returns the text with its paths in the temporary directory.
    fn moved(&self, text: &str) -> String {
        let root = self.root.to_str().unwrap();
        PATHS.iter().fold(text.to_owned(), |text, path| text.replace(path, &format!("{root}{path}")))
    }

    /// Returns the command that runs a script as the operator.
    #[allow(
        clippy::disallowed_methods,
        reason = "the tools that have no stand-in are found by the host's PATH"
    )]
    fn command(&self, script: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("sh");
        command.args(["-euc", script]).current_dir(self.root.join("home")).stdin(Stdio::null());
        command
            .env_clear()
            .env("PATH", format!("{}/bin:{path}", self.root.display()))
            .env("USER", "operator");
        command.env("HOST", &self.root).env("TALLYD", env!("CARGO_BIN_EXE_tallyd"));
        command.env("SANDBOX", self.sandbox.local_addr().to_string()).kill_on_drop(true);
        // The sandbox has no quota, so no block waits for it.
        command.env("TALLYD_LIMITS__CALLS_PER_MINUTE", "6000");
        command
    }

    /// Runs a script as the operator, asserts success, and returns its output.
    async fn sh(&self, script: &str) -> String {
        let ended = timeout(PATIENCE, self.command(script).output()).await;
        let output = ended.unwrap_or_else(|_| panic!("hangs:\n{script}")).unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}:\n{script}\n{printed}\n{complaint}", output.status);
        printed
    }

    /// Installs the package, configures it and starts the daemon, and reads the stock of a SKU.
    async fn prepare(&self) {
        let script = self.moved(
            "apt install tallyd.deb; sudoedit /etc/tallyd/tallyd.toml; cp \"$HOST\"/keys/* /etc/tallyd
             systemctl start tallyd; tallyd sku add MUG-10144-NAV; tallyd job run balances",
        );
        self.sh(&script).await;
    }

    /// Runs the blocks of a page that are not left out, each with its preparation; returns their outputs.
    async fn run_page(
        &self,
        page: &str,
        prepared: &[(&str, &str)],
        replaced: &[(&str, String)],
    ) -> Vec<String> {
        let (mut outputs, blocks) = (Vec::new(), blocks(page));
        let texts = prepared.iter().map(|(line, _)| *line).chain(replaced.iter().map(|(text, _)| *text));
        for text in texts {
            assert!(blocks.iter().any(|block| block.contains(text)), "no block of {page} has {text}");
        }
        for block in blocks {
            if left_out(page, &block).is_some() {
                self.parse_commands(&block).await;
                continue;
            }
            for (_, script) in prepared.iter().filter(|(begin, _)| has_line(&block, begin)) {
                self.sh(&self.moved(script)).await;
            }
            let block = replaced.iter().fold(block, |block, (from, to)| block.replace(from, to));
            let script = self.moved(&block);
            let found = outside(&script, &self.root);
            assert!(found.is_none(), "{page} names {found:?}, which is no path of PATHS:\n{script}");
            outputs.push(self.sh(&script).await);
        }
        outputs
    }

    /// Asserts that the program knows the commands and options of a block.
    async fn parse_commands(&self, block: &str) {
        for command in help_commands(block) {
            self.sh(&command).await;
        }
    }
}

impl Drop for Host {
    /// Ends the daemons that the blocks left.
    fn drop(&mut self) {
        let files = std::fs::read_dir(self.root.join("run")).unwrap().map(|entry| entry.unwrap().path());
        for pid in files.filter(|file| file.extension().is_some_and(|end| end == "pid")) {
            let pid = std::fs::read_to_string(pid).unwrap();
            drop(std::process::Command::new("kill").args(["-KILL", pid.trim()]).status());
        }
    }
}

/// Returns the shell blocks of a page, in order.
fn blocks(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let fenced = text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    fenced
        .filter(|(language, _)| ["sh", "bash"].contains(language))
        .map(|(_, block)| block.to_owned())
        .collect()
}

fn has_line(block: &str, begin: &str) -> bool {
    block.lines().any(|line| line.starts_with(begin))
}

/// Returns the `tallyd` commands of a block, each as a request for its help, which parses what precedes it.
fn help_commands(block: &str) -> Vec<String> {
    let lines = block.lines().map(|line| line.trim_start_matches("sudo "));
    let commands = lines.filter(|line| line.starts_with("tallyd "));
    commands.map(|line| format!("{} --help", line.split(" #").next().unwrap())).collect()
}

/// Returns the reason why a block does not run.
fn left_out(page: &str, block: &str) -> Option<&'static str> {
    let row = LEFT_OUT.iter().find(|(of, begin, _)| *of == page && has_line(block, begin));
    row.map(|(.., reason)| *reason)
}

/// Returns a path of the real host in a script, which the script could change.
fn outside<'a>(script: &'a str, root: &Path) -> Option<&'a str> {
    let mut words = script.split(|c: char| c.is_whitespace() || "'\"=>(".contains(c));
    let is_path = |word: &str| word.starts_with('/') && !word.trim_matches('/').is_empty();
    words.find(|word| is_path(word) && *word != "/dev/stdin" && !Path::new(word).starts_with(root))
}

#[test]
fn every_reason_to_leave_a_block_out_has_its_block() {
    for (page, begin, _) in LEFT_OUT {
        assert!(blocks(page).iter().any(|block| has_line(block, begin)), "{page}: {begin}");
    }
}

#[test]
fn every_page_with_shell_blocks_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["", "docs"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let files = files.into_iter().flatten().map(|entry| entry.unwrap().path());
    let pages = files.filter(|file| file.extension().is_some_and(|end| end == "md"));
    let names = pages.map(|page| page.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
    let mut found: Vec<String> = names.filter(|name| !blocks(name).is_empty()).collect();
    found.sort();
    assert_eq!(found, [&PAGES[..3], &["docs/database.md"], &PAGES[3..]].concat());
}

#[test]
fn the_readme_has_every_command() {
    let page =
        |name: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let (readme, reference) = (page("README.md"), page("docs/reference.md"));
    let rows: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `tallyd ")).collect();
    let commands: Vec<&str> = reference.lines().filter_map(|line| line.strip_prefix("## tallyd ")).collect();
    assert!(rows.len() > 20 && commands.len() > 50, "{rows:?} {commands:?}");
    for command in commands {
        let (first, second) = command.split_once(' ').unwrap_or((command, ""));
        let names = |row: &&&str| {
            (row.contains(&format!("`tallyd {first}")) || row.contains(&format!("`{first} ")))
                && row.contains(second)
        };
        assert!(rows.iter().any(|row| names(&row)), "the README's table lacks `tallyd {command}`");
    }
}

#[test]
fn a_path_of_the_real_host_is_found() {
    let root = Path::new("/tmp/root");
    let confined =
        "rm /tmp/root/var/lib/x; install /dev/stdin /tmp/root/etc/y; jq '.a // \"\" | add / length'";
    assert_eq!(outside(confined, root), None);
    for script in ["rm /var/cache/x", "sh -c 'rm /opt/x'", "printf x >/etc/passwd", "dd of=/dev/sda"] {
        assert!(outside(script, root).is_some(), "{script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_option_of_a_block_that_does_not_run_is_found() {
    let host = Host::new().await;
    host.parse_commands("tallyd demo --seconds 4   # a comment\ncargo test\n").await;
    for block in ["tallyd demo --second 4\n", "sudo tallyd sandbox --port 1\n", "tallyd demonstrate\n"] {
        let command = help_commands(block).pop().unwrap();
        assert!(!host.command(&command).output().await.unwrap().status.success(), "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_of_the_readme_run_on_a_fresh_host() {
    if !tool("curl") {
        return;
    }
    let host = Host::new().await;
    let here = [("127.0.0.1:8399", host.sandbox.local_addr().to_string())];
    let applied = "tallyd job run push; tallyd outbox show pick-1 | grep -q '^state *applied'";
    let outputs = host.run_page("README.md", &[("curl -s", applied)], &here).await;
    assert_eq!(outputs.len(), 8);
    assert!(outputs[1].contains("accepts the keys"), "{}", outputs[1]);
    // The daemon's first runs may have discovered the best sellers by now.
    let is_well = ["no SKU is tracked", "all is well"].iter().any(|well| outputs[3].starts_with(well));
    assert!(is_well, "{}", outputs[3]);
    assert!(outputs[4].starts_with("1 SKU newly tracked"), "{}", outputs[4]);
    assert!(outputs[6].contains(r#"{"OrderId":40000041}"#), "{}", outputs[6]);
}

/// A command that reads the terminal, or that begins another shell, would take the pasted lines behind it for its own
/// input, or leave them to the shell before.
#[test]
fn nothing_is_pasted_behind_a_command_that_asks_or_begins_a_shell() {
    for name in PAGES {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        for block in text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            let lines: Vec<&str> = block.lines().map(|line| line.split('#').next().unwrap().trim()).collect();
            for line in lines.iter().rev().skip(1) {
                let asks = line.contains("tallyd init") && !line.contains('|');
                assert!(!asks && !line.ends_with("newgrp tallyd"), "{name}: {line}");
            }
        }
    }
}

/// A fresh host has neither tallyd nor curl.
#[test]
fn the_readme_installs_a_tool_before_it_uses_it() {
    let text = include_str!("../../README.md");
    let (_, steps) = text.split_once("\n## Five minutes").unwrap();
    let install = steps.find("sudo apt install ./tallyd_*.deb curl").unwrap();
    for command in ["\ntallyd ", "\nsudo tallyd ", "\ncurl "] {
        assert!(steps.find(command).unwrap() > install, "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_of_operations_and_security_run() {
    let host = Host::new().await;
    host.prepare().await;
    let held = "tallyd quantity adjust MUG-10144-NAV 5201 -100000 --key neg-1; tallyd job run push";
    let order = host.sandbox.order_ids().await.unwrap()[0].to_string();
    let named = [
        ("THE-COPY", "before-upgrade".into()),
        ("900001", order),
        ("target/release/tallyd", "tallyd".into()),
    ];
    let outputs = host.run_page("docs/operations.md", &[("tallyd outbox cancel neg-1", held)], &named).await;
    assert!(outputs.len() >= 10, "{outputs:?}");
    assert_eq!(host.run_page("SECURITY.md", &[], &[]).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_of_backup_run() {
    let host = Host::new().await;
    host.prepare().await;
    let copy = "tallyd backup /srv/copies/tallyd-before-the-move.db";
    let pending = "systemctl stop tallyd; tallyd quantity adjust MUG-10144-NAV 5202 -2 --key pick-1";
    host.sh(&host.moved(&format!("{pending}; {copy}; systemctl start tallyd; tallyd job run push"))).await;
    let prepared = [(copy, "rm /srv/copies/tallyd-before-the-move.db")];
    let outputs = host.run_page("docs/backup.md", &prepared, &[]).await;
    assert_eq!(outputs.len(), 4);
    for restored in [&outputs[0], &outputs[2]] {
        assert!(restored.contains("held, restored: 1 change"), "{restored}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_of_journal_run() {
    if !tool("sqlite3") {
        return;
    }
    let host = Host::new().await;
    host.prepare().await;
    let last = host.sh(&host.moved("sqlite3 /var/lib/tallyd/tallyd.db 'SELECT max(id) FROM exchange'")).await;
    let named = [
        ("2026-11-22T19:12:00Z", "2999-01-01T00:00:00Z".into()),
        ("show 87", format!("show {}", last.trim())),
        ("diff 60 90", format!("diff 1 {}", last.trim())),
    ];
    let outputs = host.run_page("docs/journal.md", &[], &named).await;
    assert_eq!(outputs.len(), 4);
    assert!(outputs[2].contains("MUG-10144-NAV"), "the mirror as of then: {}", outputs[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_of_logging_find_their_lines() {
    if !tool("jq") || !tool("curl") {
        return;
    }
    let host = Host::new().await;
    host.prepare().await;
    let fault = r#"curl -sf "http://$SANDBOX/_sandbox/faults" -d '[{"Operation":"GET /api/Suppliers","Status":400}]'"#;
    let script = format!(
        "{fault}; tallyd job run suppliers || true
         tallyd quantity adjust MUG-10144-NAV 5201 -100000 --key neg-1
         tallyd quantity adjust MUG-10144-NAV 5202 -2 --key pick-1
         tallyd quantity set MUG-10144-NAV 9999 5 --key typo-1 --unknown
         tallyd job run push"
    );
    host.sh(&script).await;
    for output in host.run_page("docs/logging.md", &[], &[]).await {
        assert!(!output.trim().is_empty());
    }
}
