//! Ways to a receiver: a webhook, a command, or a ping.
//!
//! The account's keys are masked in each notice, as they are in answers. A command gets neither the environment
//! of the daemon nor its credentials.

use super::NotifierSettings;
use super::message::{NoticeBatch, NoticeItem, NoticeMessage};
use crate::client::{AccountKeys, HttpSettings, ReceiverClient, mask_account_keys, run_aside};
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::SecretString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Search path of a command, because the daemon passes no environment on.
const COMMAND_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const OUTPUT_MAX: usize = 300;
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// Header of a webhook with its secret, which is read from the file for each notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSecret {
    pub name: String,
    /// File with the value and nothing else.
    pub file: PathBuf,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NoticeChannel {
    Webhook {
        url: SecretUrl,
        header: Option<HeaderSecret>,
    },
    /// Program with its arguments; the notice is on its standard input.
    Command {
        words: Vec<String>,
        timeout: Duration,
    },
    /// GET at each interval, to `/fail` behind the path while unwell.
    Ping {
        url: SecretUrl,
        every: Duration,
    },
}

/// Address of a receiver or a proxy. `Debug` omits it, because it may hold a secret.
#[derive(Clone, PartialEq)]
pub struct SecretUrl(pub String);

impl std::fmt::Debug for SecretUrl {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("SecretUrl(…)")
    }
}

#[derive(Clone)]
pub struct NoticeSender {
    /// Settings of the connection: certificates and proxy. The address of the platform is not used.
    pub http: HttpSettings,
    /// Keys to mask; `None` if they cannot be read, and then no answer of the platform is in a notice.
    pub keys: Option<AccountKeys>,
}

impl NoticeSender {
    pub(super) async fn send(
        &self,
        channel: &NoticeChannel,
        message: NoticeMessage<'_>,
    ) -> Result<(), String> {
        match channel {
            NoticeChannel::Webhook { url, header } => {
                let body = self.mask(message.to_json());
                let secret = match header.clone() {
                    Some(header) => {
                        Some(run_aside("the header's secret", move || read_secret(&header)).await??)
                    }
                    None => None,
                };
                let header = header.as_ref().map(|header| header.name.as_str()).zip(secret.as_ref());
                self.client(url).await?.post_json(body, header).await
            }
            NoticeChannel::Command { words, timeout } => {
                let done = run_command(words, self.mask(message.to_text()), *timeout).await;
                done.map_err(|why| self.mask(why))
            }
            NoticeChannel::Ping { .. } => Ok(()),
        }
    }

    /// Sends an item at once, or a ping.
    pub(crate) async fn send_item(
        &self,
        notifier: &NotifierSettings,
        (id, host): (&str, &str),
        item: NoticeItem,
        is_well: bool,
    ) -> Result<(), String> {
        self.ping(&notifier.channel, is_well).await?;
        let mut batch = NoticeBatch::default();
        batch.add(item);
        let message = NoticeMessage { id, host, account: &notifier.account, batch: &batch };
        self.send(&notifier.channel, message).await
    }

    pub async fn ping(&self, channel: &NoticeChannel, is_well: bool) -> Result<(), String> {
        match channel {
            NoticeChannel::Ping { url, .. } => self.client(url).await?.ping(is_well).await,
            NoticeChannel::Webhook { .. } | NoticeChannel::Command { .. } => Ok(()),
        }
    }

    fn mask(&self, text: String) -> String {
        match &self.keys {
            Some(keys) => mask_account_keys(text, keys),
            None => text,
        }
    }

    async fn client(&self, url: &SecretUrl) -> Result<ReceiverClient, String> {
        let settings = HttpSettings {
            base_url: url.0.clone(),
            timeout: REQUEST_TIMEOUT,
            application_id: None,
            ..self.http.clone()
        };
        let made = run_aside("`service.ca_file`", move || ReceiverClient::new(&settings)).await?;
        made.map_err(|error| error.to_string())
    }
}

fn read_secret(header: &HeaderSecret) -> Result<SecretString, String> {
    let file = header.file.display();
    let text = std::fs::read_to_string(&header.file).map(SecretString::from);
    let text = text.map_err(|error| format!("the header's secret cannot be read from {file}: {error}"))?;
    match secrecy::ExposeSecret::expose_secret(&text).trim() {
        "" => Err(format!("the file {file} of the header's secret is empty")),
        secret => Ok(secret.into()),
    }
}

async fn run_command(words: &[String], input: String, limit: Duration) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("no command is named")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", COMMAND_PATH).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let Ok(ended) = timeout(limit, feed_and_wait(&mut child, input)).await else {
        if let Some(group) = group {
            // Fails only if the group has ended in this moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
        return Err(format!("{program} did not end within {} s and was killed", limit.as_secs()));
    };
    let (status, output) = ended.map_err(|error| format!("{program} failed: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let output: String = String::from_utf8_lossy(&output).trim().chars().take(OUTPUT_MAX).collect();
    Err(format!("{program} failed ({status}): {output}"))
}

/// Writes the input and waits for the end of the command. Programs that it leaves behind keep their input, and a reader
/// of their output. Returns the start of a failed command's output.
async fn feed_and_wait(child: &mut Child, input: String) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    drop(tokio::spawn(async move {
        if let Some(mut stdin) = stdin {
            // A command may end without reading its input; its exit status decides.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    }));
    let output = tokio::spawn(async move {
        let (Some(mut stderr), mut start) = (stderr, Vec::new()) else { return Vec::new() };
        let limit = (OUTPUT_MAX * char::MAX_LEN_UTF8) as u64;
        let _ = (&mut stderr).take(limit).read_to_end(&mut start).await;
        // A full pipe would stop the command.
        let _ = copy(&mut stderr, &mut sink()).await;
        start
    });
    let status = child.wait().await?;
    if status.success() {
        return Ok((status, Vec::new()));
    }
    // A program that was left behind may hold the output open.
    let output = timeout(OUTPUT_GRACE, output).await.ok().and_then(Result::ok);
    Ok((status, output.unwrap_or_default()))
}
