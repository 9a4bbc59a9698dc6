//! The examples of all commands: part of `--help`, of the manual pages and of `docs/reference.md`.
//!
//! A test checks that no command lacks an example and that each example parses.

use super::Cli;
use clap::{Command, CommandFactory};

/// The path of each command with its example, in the order of the README's table.
const EXAMPLES: &[(&str, &str)] = &[
    ("demo", "tallyd demo --seconds 60 --keep /tmp/shop"),
    ("init", "tallyd init --base-url https://service.example"),
    ("run", "tallyd run --once --config ./tallyd.toml"),
    ("check", "tallyd check --online"),
    ("status", "tallyd status --all"),
    ("web", "tallyd web --listen 127.0.0.1:8484 --read-only"),
    ("pause", "tallyd pause --for 2h --why stocktaking"),
    ("resume", "tallyd resume"),
    ("notify test", "tallyd notify test"),
    ("notify daemon-failed", "tallyd notify daemon-failed tallyd@north.service"),
    ("sku add", "tallyd sku add SHIRT-BLUE-M SHIRT-BLUE-L"),
    ("sku import", "tallyd sku import skus.csv"),
    ("sku list", "tallyd sku list --missing"),
    ("sku remove", "tallyd sku remove SHIRT-BLUE-M"),
    ("order track", "tallyd order track 1234567 1234568"),
    ("order import", "tallyd order import orders.csv"),
    ("order list", "tallyd order list"),
    ("order show", "tallyd order show 1234567"),
    ("order untrack", "tallyd order untrack 1234567"),
    ("stock", "tallyd stock SHIRT-BLUE-M --json"),
    ("quantity set", "tallyd quantity set SHIRT-BLUE-M Main 47 --counted-at 08:40 --wait"),
    ("quantity adjust", "tallyd quantity adjust SHIRT-BLUE-M 3 -2 --wait=10s --json"),
    ("quantity import", "tallyd quantity import counts.csv"),
    ("product find", "tallyd product find SHIRT-BLUE-M"),
    ("product components", "tallyd product components GIFT-BOX"),
    ("product create", "tallyd product create product.json"),
    ("product update", "tallyd product update product.json"),
    ("warehouse list", "tallyd warehouse list"),
    ("warehouse create", "tallyd warehouse create --name Attic --type Standard"),
    ("supplier list", "tallyd supplier list"),
    ("storefront list", "tallyd storefront list"),
    ("template list", "tallyd template list --storefront 7"),
    ("template create", "tallyd template create --storefront 7 --name Plain --body-file plain.html"),
    ("report top-selling", "tallyd report top-selling --months 3"),
    ("report business-health", "tallyd report business-health --months 12 --json"),
    ("report work-queue", "tallyd report work-queue --limit 60"),
    ("ship", "tallyd ship 1234567 --line 991=2"),
    ("tracking submit", "tallyd tracking submit --shipment 5511 --number 1Z999 --carrier 3"),
    ("tracking import", "tallyd tracking import tracking.csv"),
    ("plan", "tallyd plan --json"),
    ("outbox list", "tallyd outbox list --reason negative --older-than 1h"),
    ("outbox show", "tallyd outbox show count-2031-05-04-17"),
    ("outbox release", "tallyd outbox release --all"),
    ("outbox cancel", "tallyd outbox cancel --key-prefix count-2031-05-04 --older-than 1d --yes"),
    ("outbox retry", "tallyd outbox retry --reason not_shown"),
    ("outbox acknowledge", "tallyd outbox acknowledge --all"),
    ("outbox resolve", "tallyd outbox resolve ship-4711 --not-done"),
    ("quarantine list", "tallyd quarantine list"),
    ("quarantine retry", "tallyd quarantine retry SHIRT-BLUE-M"),
    ("quota lift", "tallyd quota lift"),
    ("job list", "tallyd job list --kind balances --limit 10"),
    ("job show", "tallyd job show 4711"),
    ("job run", "tallyd job run warehouses"),
    ("explain", "tallyd explain SHIRT-BLUE-M 3"),
    ("verify", "tallyd verify --calls 20"),
    ("replay", "tallyd replay --into /tmp/replayed.db"),
    ("restore", "tallyd restore /var/lib/tallyd/backup/before-upgrade.db"),
    ("restored", "tallyd restored"),
    ("move", "tallyd move --from /var/lib/tallyd/tallyd.db --to postgres://tallyd@db.example/stock"),
    ("journal show", "tallyd journal show"),
    ("journal prune", "tallyd journal prune"),
    ("journal export", "tallyd journal export"),
    ("journal diff", "tallyd journal diff 4711 4712"),
    ("backup", "tallyd backup /var/lib/tallyd/backup/before-upgrade.db"),
    ("schema", "tallyd schema > roles.sql"),
    ("sandbox", "tallyd sandbox --data shop.db --calls-per-minute 120"),
    ("completions", "tallyd completions bash > /usr/share/bash-completion/completions/tallyd"),
    ("man", "tallyd man --directory target/man"),
];

/// Exit codes of a command that waits for the outcome of its changes (`--wait`).
pub(super) const WAIT_EXIT_CODES: &[(&str, &str)] = &[
    ("0", "every change is applied"),
    ("1", "failed; 2: wrong usage or configuration"),
    ("4", "a change is rejected or cancelled"),
    ("5", "a change is held"),
    ("6", "a change is still pending, being sent or in doubt"),
    ("7", "as 6, and no daemon runs"),
];

pub(super) fn command_with_examples() -> Command {
    with_example(Cli::command(), "")
}

fn with_example(command: Command, path: &str) -> Command {
    let example = EXAMPLES.iter().find(|(name, _)| *name == path);
    let command = match example {
        Some((_, line)) => {
            let has_wait = command.get_arguments().any(|argument| argument.get_id() == "wait");
            let codes: String =
                WAIT_EXIT_CODES.iter().map(|(code, meaning)| format!("  {code}  {meaning}\n")).collect();
            let codes = if has_wait { format!("Exit codes with --wait:\n{codes}\n") } else { String::new() };
            command.after_help(format!("{codes}Example:\n  {line}"))
        }
        None => command,
    };
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        with_example(inner, path.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf_commands(command: &Command, path: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name()).trim_start().to_owned();
            if inner.has_subcommands() { leaf_commands(inner, &path, found) } else { found.push(path) }
        }
    }

    #[test]
    fn every_command_has_an_example_that_it_takes() {
        let mut commands = Vec::new();
        leaf_commands(&command_with_examples(), "", &mut commands);
        assert!(commands.len() > 30, "{commands:?}");
        for path in commands {
            let (_, example) = EXAMPLES
                .iter()
                .find(|(name, _)| *name == path)
                .unwrap_or_else(|| panic!("no example: {path}"));
            assert!(example.starts_with(&format!("tallyd {path}")), "{example} is no example of {path}");
            let words = example.split(" > ").next().unwrap().split(' ');
            if let Err(error) = command_with_examples().try_get_matches_from(words) {
                panic!("{example}: {error}");
            }
        }
    }

    #[test]
    fn help_shows_the_example_and_the_exit_codes_of_a_wait() {
        let mut command = command_with_examples();
        command.build();
        let adjust = command.find_subcommand_mut("quantity").unwrap().find_subcommand_mut("adjust").unwrap();
        let help = adjust.render_help().to_string();
        assert!(
            help.ends_with("Example:\n  tallyd quantity adjust SHIRT-BLUE-M 3 -2 --wait=10s --json\n"),
            "{help}"
        );
        assert!(help.contains("7  as 6, and no daemon runs"), "{help}");
        let list = command.find_subcommand_mut("outbox").unwrap().find_subcommand_mut("list").unwrap();
        assert!(!list.render_help().to_string().contains("Exit codes"));
    }
}
