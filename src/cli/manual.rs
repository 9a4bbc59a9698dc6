//! Manual pages: one for each command, and `tallyd.toml(5)` from the packaged configuration.
//!
//! `clap_mangen` writes name, description, options and subcommands. The sections that it lacks, or writes without
//! the names of values, are made here.

use super::examples;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

const PACKAGED_CONFIG: &str = include_str!("../../config/tallyd.toml");
const VERSION: &str = concat!("tallyd ", env!("CARGO_PKG_VERSION"));
const MANUAL: &str = "tallyd manual";

const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "The command did what it says."),
    ("1", "It failed, or a part was refused; the message names the reason and the next step."),
    ("2", "Wrong usage, or an invalid configuration."),
    ("3", "Unhealthy: status, verify or replay found something that needs an operator."),
];

const FILES: &[(&str, &str)] = &[
    ("/etc/tallyd/tallyd.toml", "The configuration; without it, config/tallyd.toml of the current folder."),
    ("/etc/tallyd/integration-key, /etc/tallyd/gateway-key", "The account's keys, for root only."),
    (
        "/var/lib/tallyd/tallyd.db",
        "The database: mirror, outbox and journal. The key database.path names another.",
    ),
    ("/var/lib/tallyd/backup", "The copies of the job backup."),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "TALLYD_SECTION__KEY",
        "Sets a key of the configuration, such as TALLYD_LIMITS__SHARE; it wins over the file.",
    ),
    (
        "TALLYD_SERVICE__INTEGRATION_KEY, TALLYD_SERVICE__GATEWAY_KEY, TALLYD_DATABASE__PASSWORD",
        "The keys and the password; they win over the files.",
    ),
    ("TZ", "The time zone in which times are read and shown; without it, that of the host."),
    ("CREDENTIALS_DIRECTORY", "The folder in which systemd puts the keys for the daemon."),
];

/// Returns all pages, that of `tallyd` first: the name of each file, and its text for man.
pub(super) fn manual_pages() -> io::Result<Vec<(String, String)>> {
    let mut root = examples::command_with_examples().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add_command_pages(&root, None, &mut pages)?;
    pages.push(("tallyd.toml.5".into(), config_page()));
    Ok(pages)
}

fn add_command_pages(
    command: &Command,
    parent: Option<&str>,
    pages: &mut Vec<(String, String)>,
) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    pages.push((format!("{name}.1"), command_page(command, &name, parent)?));
    command.get_subcommands().try_for_each(|inner| add_command_pages(inner, Some(&name), pages))
}

fn command_page(command: &Command, name: &str, parent: Option<&str>) -> io::Result<String> {
    let man = Man::new(command.clone()).title(name).source(VERSION).manual(MANUAL);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    add_examples(&mut rest, command);
    let has_wait = command.get_arguments().any(|argument| argument.get_id() == "wait");
    add_terms(&mut rest, "EXIT STATUS", EXIT_CODES);
    if has_wait {
        add_terms(&mut rest, "EXIT STATUS WITH --wait", examples::WAIT_EXIT_CODES);
    }
    add_terms(&mut rest, "FILES", FILES);
    add_terms(&mut rest, "ENVIRONMENT", ENVIRONMENT);
    let inner = command.get_subcommands().map(|inner| inner.get_display_name().unwrap_or(inner.get_name()));
    let pages = parent.into_iter().chain(inner).map(|page| format!("{page}(1)"));
    add_see_also(&mut rest, pages.chain(["tallyd.toml(5)".to_owned()]));
    rest.to_writer(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Returns the usage with the names of values, which `clap_mangen` leaves out.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).control("nf", []);
    for line in usage.trim_start_matches("Usage:").lines() {
        roff.text([bold(line.trim())]);
    }
    roff.control("fi", []);
    roff
}

fn add_examples(roff: &mut Roff, command: &Command) {
    let Some(help) = command.get_after_help() else { return };
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    let help = help.to_string();
    let (_, examples) = help.split_once("Example:").unwrap_or(("", &help));
    for line in examples.lines().filter_map(|line| line.strip_prefix("  ")) {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

fn add_terms(roff: &mut Roff, heading: &str, terms: &[(&str, &str)]) {
    roff.control("SH", [heading]);
    for (term, meaning) in terms {
        roff.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
    }
}

fn add_see_also(roff: &mut Roff, pages: impl Iterator<Item = String>) {
    let pages: Vec<String> = pages.collect();
    roff.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
    roff.control("PP", []).text([roman("The documents for operators are in /usr/share/doc/tallyd.")]);
}

/// Returns the page of the configuration: the packaged file, whose comments describe the keys below them.
fn config_page() -> String {
    let mut roff = Roff::new();
    roff.control("TH", ["tallyd.toml", "5", "", VERSION, MANUAL]);
    roff.control("SH", ["NAME"]).text([roman("tallyd.toml - configuration of tallyd")]);
    roff.control("SH", ["SYNOPSIS"]).text([bold("/etc/tallyd/tallyd.toml")]);
    roff.control("SH", ["DESCRIPTION"]).control("nf", []);
    for line in PACKAGED_CONFIG.lines() {
        match line.starts_with('[') {
            true => roff.control("fi", []).control("SH", [line]).control("nf", []),
            false => roff.text([roman(line)]),
        };
    }
    roff.control("fi", []);
    add_see_also(&mut roff, ["tallyd(1)", "tallyd-check(1)", "tallyd-run(1)"].map(str::to_owned).into_iter());
    roff.to_roff()
}
