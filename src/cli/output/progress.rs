//! The progress of long work on standard error, so that programs can read the command's output.

use crate::cli::output;

/// Work with a known end: a line for each tenth.
pub(in crate::cli) struct Progress {
    label: &'static str,
    tenths: u64,
}

impl Progress {
    /// Begins at zero; `label` names the work, such as "rebuilding the mirror".
    pub(in crate::cli) fn new(label: &'static str) -> Self {
        Self { label, tenths: 0 }
    }

    pub(in crate::cli) fn advance_to(&mut self, done: u64, end: u64) {
        let tenths = done.saturating_mul(10) / end.max(1);
        if tenths > self.tenths {
            self.tenths = tenths;
            output::print_error(&format!("{}: {done} of {end}", self.label));
        }
    }
}
