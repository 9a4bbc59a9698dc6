//! Configuration files: any text is a configuration or a list of problems, never a panic.
//!
//! Further invariants: reading twice gives the same result. The message names the file, and each problem
//! names a key; only a problem of the file as a whole has none, and it stands alone. A suggested nearest key
//! is a known one.

use crate::config::{Config, ConfigError};
use std::path::Path;

pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = Config::from_toml(&text);
    // NaN is not equal to itself, so the printed forms are compared.
    assert_eq!(format!("{read:?}"), format!("{:?}", Config::from_toml(&text)), "two readings of one text");
    if let Err(error) = read {
        complete(ConfigError { file: Some(Path::new("/etc/tallyd/tallyd.toml").into()), ..error });
    }
}

fn complete(error: ConfigError) {
    let message = error.to_string();
    assert!(
        message.starts_with("configuration /etc/tallyd/tallyd.toml: "),
        "the file is not named: {message}"
    );
    assert!(!error.problems.is_empty(), "refused without a problem");
    for problem in &error.problems {
        assert!(!problem.why.trim().is_empty(), "a problem without a reason: {problem:?}");
        assert!(problem.variable.is_none(), "nothing came from the environment: {problem:?}");
        assert!(!problem.path.is_empty() || error.problems.len() == 1, "no key is named: {message}");
        assert!(message.contains(&problem.path) && message.contains(&problem.why), "{message}");
    }
}
