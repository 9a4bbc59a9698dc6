//! The progress of long work: a bar on a terminal, a line for each tenth elsewhere.
//!
//! Both go to standard error, so that programs can read the command's output.

use crate::cli::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Work with a known end.
pub(in crate::cli) struct ProgressDisplay {
    label: &'static str,
    bar: Option<ProgressBar>,
    end: u64,
    tenths: u64,
}

impl ProgressDisplay {
    /// Begins at zero; `label` names the work, such as "rebuilding the mirror".
    pub(in crate::cli) fn new(label: &'static str, end: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::with_draw_target(Some(end), ProgressDrawTarget::stderr());
            bar.with_style(style).with_message(label)
        });
        Self { label, bar, end, tenths: 0 }
    }

    /// Shows that `done` units of work are complete.
    pub(in crate::cli) fn advance_to(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            return;
        }
        let tenths = done.saturating_mul(10) / self.end.max(1);
        if tenths > self.tenths {
            self.tenths = tenths;
            output::print_error(&format!("{}: {done} of {}", self.label, self.end));
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
