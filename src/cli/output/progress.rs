//! The progress of long work on standard error, so that programs can read the command's output.

use crate::cli::output;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// Returns a bar that only a terminal shows; its end removes it.
pub(in crate::cli) fn progress_bar(end: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(end).with_style(style).with_finish(ProgressFinish::AndClear)
}

/// Work with a known end: a bar on a terminal, a line for each tenth elsewhere.
pub(in crate::cli) struct ProgressDisplay {
    label: &'static str,
    bar: ProgressBar,
    end: u64,
    tenths: u64,
}

impl ProgressDisplay {
    /// Begins at zero; `label` names the work, such as "rebuilding the mirror".
    pub(in crate::cli) fn new(label: &'static str, end: u64) -> Self {
        let bar = progress_bar(end, "{msg} {wide_bar} {pos}/{len}").with_message(label);
        Self { label, bar, end, tenths: 0 }
    }

    pub(in crate::cli) fn advance_to(&mut self, done: u64) {
        self.bar.set_position(done);
        let tenths = done.saturating_mul(10) / self.end.max(1);
        if self.bar.is_hidden() && tenths > self.tenths {
            self.tenths = tenths;
            output::print_error(&format!("{}: {done} of {}", self.label, self.end));
        }
    }
}
