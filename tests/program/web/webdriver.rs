//! A client of the WebDriver protocol over plain HTTP: Debian's chromium, driven by its chromedriver.
//!
//! The tests need a dozen commands of the protocol, each one POST of JSON. The kept crates bring an HTTP client of their
//! own for that.

use crate::support::cluster::leave_out_unless_required;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, sleep};

/// Environment variable: `auto` runs a browser where there is one, `require` fails where there is none, and without it
/// no browser runs.
const SWITCH: &str = "TALLYD_TEST_BROWSER";
const PATIENCE: Duration = Duration::from_secs(60);
/// Name of an element's id in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Prints what a test lacks; fails if the switch demands it.
pub(crate) fn leave_out(missing: &str) {
    leave_out_unless_required(SWITCH, missing);
}

/// Starts a driver and returns it with its port.
///
/// The driver takes a free port of IPv6 and then the same number of IPv4. Another test may have that one, even as the
/// near end of a connection. The driver then says so and ends, and the next one takes another port.
fn start_driver() -> (Child, u16) {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut said = String::new();
        for line in lines.by_ref() {
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                let port = port.trim_end_matches('.').parse().unwrap();
                // Its further lines are read and forgotten, so that it never waits for a reader.
                std::thread::spawn(move || lines.for_each(drop));
                return (driver, port);
            }
            said += &format!("{line}\n");
        }
        let status = driver.wait().unwrap();
        assert!(
            said.contains("port not available") && Instant::now() < until,
            "chromedriver ended with {status} and said: {said}"
        );
    }
}

/// A browser with a fresh profile.
pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser; `None`, with a note, on a host without one.
    #[allow(clippy::disallowed_methods, reason = "the switch of the tests is an environment variable")]
    pub(crate) async fn start(has_scripts: bool) -> Option<Self> {
        let is_wanted = std::env::var(SWITCH).is_ok_and(|value| !value.is_empty());
        let is_there = ["chromium", "chromedriver"].iter().all(|name| {
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        });
        if !is_there || !is_wanted {
            leave_out(&format!("browser; {SWITCH}=auto runs it where chromium and chromedriver are"));
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let (driver, port) = start_driver();
        let mut browser = Self {
            driver,
            address: ([127, 0, 0, 1], port).into(),
            session: String::new(),
            _profile: profile,
        };
        let mut args: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ]
        .map(str::to_owned)
        .to_vec();
        args.push(format!("--user-data-dir={}", browser._profile.path().display()));
        let scripts = if has_scripts { 1 } else { 2 };
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {
            "args": args, "prefs": {"profile.managed_default_content_settings.javascript": scripts}
        }}}});
        let begun = browser.http("POST", "/session", &wanted).await;
        browser.session =
            begun["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {begun}")).to_owned();
        Some(browser)
    }

    /// Makes a request to the driver and returns the value of its answer.
    async fn http(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // The driver may leave the connection open, so the length counts.
        loop {
            let text = String::from_utf8_lossy(&answer).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
                });
                if length.is_some_and(|length| body.len() >= length) {
                    let value: Value = serde_json::from_str(body).unwrap();
                    return value["value"].clone();
                }
            }
            let mut buffer = vec![0; 64 * 1024];
            let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap().unwrap();
            assert!(read > 0, "the driver closed the connection: {text}");
            answer.extend_from_slice(&buffer[..read]);
        }
    }

    /// Returns the value of a command, or the name of its error and the message.
    async fn try_command(&self, method: &str, name: &str, body: &Value) -> Result<Value, (String, Value)> {
        let value = self.http(method, &format!("/session/{}/{name}", self.session), body).await;
        match value["error"].as_str() {
            Some(error) => Err((error.to_owned(), value["message"].clone())),
            None => Ok(value),
        }
    }

    async fn command(&self, method: &str, name: &str, body: Value) -> Value {
        let done = self.try_command(method, name, &body).await;
        done.unwrap_or_else(|(error, message)| panic!("{name} {body}: {error} {message}"))
    }

    pub(crate) async fn go(&self, url: &str) {
        self.command("POST", "url", json!({"url": url})).await;
    }

    pub(crate) async fn url(&self) -> String {
        self.command("GET", "url", json!({})).await.as_str().unwrap().to_owned()
    }

    /// Clicks an element once it is there. A live part may be replaced between the search and the click, and the
    /// element is then searched again.
    pub(crate) async fn click(&self, css: &str) {
        let begun = Instant::now();
        loop {
            let done = self.try_click(css).await;
            let Err((error, message)) = done else { return };
            let is_replaced = ["no such element", "stale element reference"].contains(&&*error);
            assert!(is_replaced && begun.elapsed() < PATIENCE, "click {css}: {error} {message}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn try_click(&self, css: &str) -> Result<(), (String, Value)> {
        let search = json!({"using": "css selector", "value": css});
        let found = self.try_command("POST", "element", &search).await?;
        let element = found[ELEMENT].as_str().unwrap();
        self.try_command("POST", &format!("element/{element}/click"), &json!({})).await.map(drop)
    }

    /// Types at the focus, key by key.
    pub(crate) async fn type_text(&self, text: &str) {
        let keys =
            text.chars().flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})));
        let keys: Vec<Value> = keys.collect();
        self.command(
            "POST",
            "actions",
            json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]}),
        )
        .await;
    }

    /// Returns the text of the page, as a person reads it; none while a page is replaced by the next.
    pub(crate) async fn text(&self) -> String {
        let text = self.script("return document.body ? document.body.innerText : ''").await;
        text.as_str().unwrap().to_owned()
    }

    /// Runs a script of the test, also in a browser without scripts of the page.
    pub(crate) async fn script(&self, script: &str) -> Value {
        self.command("POST", "execute/sync", json!({"script": script, "args": []})).await
    }

    /// Runs a script that ends with a call of its last argument.
    pub(crate) async fn async_script(&self, script: &str) -> Value {
        self.command("POST", "execute/async", json!({"script": script, "args": []})).await
    }

    /// Sets the size of the page; a window has a least width.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let body = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": params});
        self.command("POST", "goog/cdp/execute", body).await;
    }

    /// Shows the page in the dark or the light scheme.
    pub(crate) async fn scheme(&self, name: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": name}]});
        self.command(
            "POST",
            "goog/cdp/execute",
            json!({"cmd": "Emulation.setEmulatedMedia", "params": features}),
        )
        .await;
    }

    /// Keeps a picture of the page below `target`.
    pub(crate) async fn keep_picture(&self, name: &str) {
        let folder = pictures();
        std::fs::create_dir_all(&folder).unwrap();
        let shown = self.command("GET", "screenshot", json!({})).await;
        std::fs::write(folder.join(format!("{name}.png")), from_base64(shown.as_str().unwrap())).unwrap();
    }

    /// Polls the page's text until `done`.
    pub(crate) async fn until(&self, what: &str, done: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let text = self.text().await;
            if done(&text) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}: {text}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn quit(self) {
        self.http("DELETE", &format!("/session/{}", self.session), &json!({})).await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}

pub(crate) fn pictures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/pictures")
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).map(u32::from).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let value = group.iter().fold(0, |value, digit| value << 6 | digit) << (6 * (4 - group.len()));
        bytes.extend_from_slice(&value.to_be_bytes()[1..group.len()]);
    }
    bytes
}
