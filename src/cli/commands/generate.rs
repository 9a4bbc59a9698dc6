//! `completions` and `man`: files for packages, generated from the command line's definition.

use crate::cli::manual::manual_pages;
use crate::cli::{CommandFailure, CommandResult, examples};
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const REFERENCE_WIDTH: usize = 100;

#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// Shell: bash, elvish, fish, powershell or zsh
    shell: Shell,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ManArgs {
    /// Write the manual pages of all commands into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "markdown")]
    directory: Option<PathBuf>,
    /// Print the reference of all commands in Markdown (docs/reference.md)
    #[arg(long)]
    markdown: bool,
}

pub(in crate::cli) fn completions_command(args: &CompletionsArgs) -> String {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut examples::command_with_examples(), "tallyd", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

pub(in crate::cli) fn man_command(args: &ManArgs) -> CommandResult {
    match &args.directory {
        _ if args.markdown => Ok(reference_markdown().into()),
        Some(directory) => write_manual_pages(directory),
        None => {
            let pages = manual_pages().map_err(CommandFailure::cannot("write the manual page"))?;
            Ok(pages.into_iter().next().map(|(_, text)| text).unwrap_or_default().into())
        }
    }
}

fn write_manual_pages(directory: &Path) -> CommandResult {
    let failed = CommandFailure::cannot(format!("write the manual pages into {}", directory.display()));
    std::fs::create_dir_all(directory).map_err(&failed)?;
    for (name, text) in manual_pages().map_err(&failed)? {
        let file = directory.join(name);
        let written = std::fs::write(&file, text);
        let readable = Permissions::from_mode(0o644);
        written.and_then(|()| std::fs::set_permissions(&file, readable)).map_err(&failed)?;
    }
    Ok(format!("the manual pages are in {}\n", directory.display()).into())
}

fn reference_markdown() -> String {
    let mut root = examples::command_with_examples().term_width(REFERENCE_WIDTH);
    root.build();
    let mut text = String::from(
        "# Reference\n\nThe help of every command, printed by `tallyd man --markdown`; a test compares the two.\n",
    );
    describe_command(&mut root, &mut text);
    text
}

fn describe_command(command: &mut Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.clone().term_width(REFERENCE_WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n")));
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        describe_command(inner, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_the_help_of_every_command() {
        let page = include_str!("../../../docs/reference.md");
        let printed = reference_markdown();
        let differs = page.lines().zip(printed.lines()).find(|(page, printed)| page != printed);
        let repair = "print it again: cargo run -- man --markdown > docs/reference.md";
        assert_eq!(differs, None, "(page, printed); {repair}");
        assert_eq!(page.lines().count(), printed.lines().count(), "{repair}");
    }

    #[test]
    fn there_is_a_manual_page_for_every_command_and_completions_for_every_shell() {
        let folder = tempfile::tempdir().unwrap();
        man_command(&ManArgs { directory: Some(folder.path().into()), markdown: false }).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        for name in ["tallyd.1", "tallyd-run.1", "tallyd-quantity-adjust.1", "tallyd.toml.5"] {
            let page = read(name);
            assert!(
                page.contains(".TH") && page.contains(concat!("tallyd ", env!("CARGO_PKG_VERSION"))),
                "{name}"
            );
        }
        let page = read("tallyd-quantity-adjust.1");
        for words in [
            "\n.SH EXAMPLES",
            "\n.SH \"EXIT STATUS\"",
            "\n.SH FILES",
            "\n.SH ENVIRONMENT",
            "\n.SH \"SEE ALSO\"",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(page.contains("SHIRT\\-BLUE\\-M 3") && page.contains("<WAREHOUSE>"), "{page}");
        assert!(read("tallyd.1").contains("\\-\\-config\\fR \\fI<FILE>"), "{}", read("tallyd.1"));
        let page = read("tallyd.toml.5");
        let packaged = include_str!("../../../config/tallyd.toml");
        for line in packaged.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase())) {
            let key = line.split(' ').next().unwrap();
            assert!(page.contains(key), "{key}");
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(completions_command(&CompletionsArgs { shell }).contains("quantity"), "{shell}");
        }
    }
}
