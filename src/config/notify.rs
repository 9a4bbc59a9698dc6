//! `[[notify]]`: the receivers of notices.

use super::address::{check_header_name, text_if};
use super::reader::SectionReader;
use super::sections::parse_path;
use crate::client::receiver_host;
use crate::notify::{HeaderSecret, NoticeChannel, NoticeTopic, NotifierSettings, SecretUrl};
use std::collections::BTreeSet;

pub(super) fn read_notifiers(root: &mut SectionReader<'_>, account: &str) -> Vec<NotifierSettings> {
    let mut names = BTreeSet::new();
    root.read_tables("notify", |table| {
        let notifier = read_notifier(table, account)?;
        if !names.insert(notifier.name.clone()) {
            let why = "another notifier has this name; give each a `name` of its own";
            table.add_problem("name", &notifier.name, why.into());
        }
        Some(notifier)
    })
}

/// Reads a notifier; `None` comes with a problem.
pub(super) fn read_notifier(table: &mut SectionReader<'_>, account: &str) -> Option<NotifierSettings> {
    let topics = read_topics(table);
    let problems = table.problem_count();
    let webhook = table.read_optional("webhook", checked_url);
    let header = table.read_optional("header", check_header_name);
    let header_file = table.read_optional("header_file", parse_path);
    let words = table.read_texts("command", |word| Ok(word.to_owned()));
    let timeout = table.read_duration("command_timeout", "30s", "1s", "10m");
    let ping = table.read_optional("ping", checked_url);
    let every = table.read_duration("every", "1m", "1m", "1d");
    let window = table.read_duration("window", "10m", "0s", "1d");
    let name = table.read_optional("name", checked_name);
    let account = table.read_optional("account", checked_name).unwrap_or_else(|| account.to_owned());
    if header.is_some() != header_file.is_some() || (header.is_some() && webhook.is_none()) {
        let why =
            "`header` names the header of a webhook and `header_file` the file with its value: set both";
        table.add_problem("header", header.as_deref().unwrap_or_default(), why.into());
    }
    let header = header.zip(header_file).map(|(name, file)| HeaderSecret { name, file });
    let (default_name, channel) = match (webhook, words.is_empty(), ping) {
        (Some((url, host)), true, None) => {
            (format!("webhook {host}"), NoticeChannel::Webhook { url, header })
        }
        (None, false, None) => (format!("command {}", words[0]), NoticeChannel::Command { words, timeout }),
        (None, true, Some((url, host))) => (format!("ping {host}"), NoticeChannel::Ping { url, every }),
        _ => {
            // A channel that cannot be read has a problem already.
            if table.problem_count() == problems {
                let why = "write exactly one of `webhook`, `command` and `ping`";
                table.add_problem("webhook", "", why.into());
            }
            return None;
        }
    };
    Some(NotifierSettings { name: name.unwrap_or(default_name), topics, channel, window, account })
}

/// Reads `on`; without it, all topics.
fn read_topics(table: &mut SectionReader<'_>) -> BTreeSet<NoticeTopic> {
    let known = NoticeTopic::ALL.iter().map(|topic| topic.as_str()).collect::<Vec<_>>().join(", ");
    let topics = table.read_texts("on", |code| {
        NoticeTopic::from_code(code).ok_or_else(|| format!("write some of {known}"))
    });
    if topics.is_empty() { NoticeTopic::ALL } else { &topics }.iter().copied().collect()
}

fn checked_url(text: &str) -> Result<(SecretUrl, String), String> {
    receiver_host(text).map(|host| (SecretUrl(text.to_owned()), host))
}

fn checked_name(text: &str) -> Result<String, String> {
    let is_valid = !text.chars().any(char::is_control) && text.len() <= 100;
    text_if(is_valid, text, "write a name of at most 100 bytes in one line")
}
