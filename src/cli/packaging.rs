//! `completions` and `man`: what packagers build from the command line's own description.

use super::{Answer, Cli, Failure};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// The shell to print completions for.
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// bash, elvish, fish, powershell or zsh
    shell: Shell,
}

pub(super) fn completions(args: &Completions) -> String {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tallyd", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

pub(super) fn man() -> Result<Answer, Failure> {
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(Cli::command()).render(&mut text);
    rendered.map_err(|error| Failure::failed(format!("cannot write the manual page: {error}")))?;
    Ok(String::from_utf8_lossy(&text).into_owned().into())
}
