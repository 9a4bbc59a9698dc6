//! SIGHUP: the request to read the configuration again, or the end of the terminal.
//!
//! The kernel and the shell send SIGHUP to a process whose terminal closes. A daemon that ran on would be an orphan:
//! nobody sees its log, and the next start finds it at work. The signal does not tell its cause, so the terminal
//! does: after it closed, `/dev/tty` cannot be opened any more. A daemon without a terminal, as under systemd, and
//! one that was started by `nohup` take each SIGHUP for a request.

use std::fs::File;
use std::path::Path;

#[derive(Clone, Copy, Debug)]
pub(super) struct StartTerminal {
    ends_the_process: bool,
}

impl StartTerminal {
    /// Looks at the process; call it before a handler of SIGHUP is registered, which replaces that of `nohup`.
    pub(super) fn inspect() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { ends_the_process: has_terminal() && !ignores_hangup(&status) }
    }

    pub(super) fn is_closed(self) -> bool {
        self.ends_the_process && !has_terminal()
    }
}

fn has_terminal() -> bool {
    File::open(Path::new("/dev/tty")).is_ok()
}

/// Returns true if SIGHUP, the first signal of the mask, is ignored (`/proc/self/status`).
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_nohup_is_known() {
        for (status, expected) in [
            ("SigBlk:\t0000000000000001\nSigIgn:\t0000000000000001\n", true),
            ("SigIgn:\t0000000000001006\nSigCgt:\t0000000000000001\n", false),
            ("", false),
        ] {
            assert_eq!(ignores_hangup(status), expected, "{status}");
        }
    }
}
