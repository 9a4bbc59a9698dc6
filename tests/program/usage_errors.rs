//! Errors of the command line: no words of libraries, no control of the terminal.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::cli::program;
use std::path::Path;

/// Words of the standard library and of crates, which tell an operator nothing.
const FOREIGN_WORDS: [&str; 10] = [
    "digit found",
    "empty string",
    "target type",
    "float literal",
    "socket address syntax",
    "relative URL",
    "os error",
    "valid UTF-8",
    "Component error",
    "..=",
];

/// Runs a command with a configuration of this text; returns its exit code and what it wrote.
fn run(config: &[u8], arguments: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tallyd.toml");
    std::fs::write(&file, config).unwrap();
    let output = program(&file).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn no_error_of_the_command_line_has_words_of_a_library() {
    let service = "[service]\nbase_url = \"http://127.0.0.1:9\"\n";
    let usage = [
        (&["verify", "--calls", "x"][..], "write a whole number"),
        (&["verify", "--calls", ""], "write a whole number"),
        (&["verify", "--calls", "99999999999999999999"], "the number is too large"),
        (&["verify", "--calls", "0"], "1 to 10000"),
        (&["order", "track", "1.5"], "write a whole number"),
        (&["quantity", "adjust", "A", "1", "--", "-99999999999999999999"], "the number is too small"),
        (&["sandbox", "--listen", "here"], "write an address such as 127.0.0.1:8399"),
        (&["sandbox", "--gateway-key-header", "a b"], "letters, digits and dashes"),
        (&["product", "create", "/nowhere/product.json"], "No such file"),
    ];
    for (arguments, words) in usage {
        let (code, said) = run(service.as_bytes(), arguments);
        assert_eq!(
            (code, said.contains(words)),
            (Some(if words == "No such file" { 1 } else { 2 }), true),
            "{said}"
        );
        assert!(!FOREIGN_WORDS.iter().any(|word| said.contains(word)), "{said}");
    }
    let files: [(&[u8], &str); 7] = [
        (b"\xff\xfe", "it is no text in UTF-8"),
        (b"[service]\nca_file = 1\n", "write text in quotes"),
        (b"[[notify]]\nwebhook = \"hooks\"\n", "write an address such as https://host/path"),
        (b"[[notify]]\nping = \"http://\"\n", "write an address such as https://host/path"),
        (b"[jobs.balances]\nschedule = \"99 * * * * *\"\n", "not understood"),
        (b"[database]\nurl = \"postgres://a@h:99999/x\"\n", "it cannot be read: invalid port number"),
        (b"[database]\nurl = \"postgres://a@h/x?sslmode=no\"\n", "it cannot be read: unknown value"),
    ];
    for (file, words) in files {
        let (code, said) = run(file, &["check"]);
        assert_eq!((code, said.contains(words)), (Some(2), true), "{said}");
        assert!(!FOREIGN_WORDS.iter().any(|word| said.contains(word)), "{said}");
    }
    let (code, said) = run(b"", &["--config", "/nowhere/tallyd.toml", "check"]);
    assert_eq!((code, said.contains("os error")), (Some(2), false), "{said}");
    let (code, said) = run(service.as_bytes(), &["check"]);
    assert_eq!((code, said.contains("No such file or directory; write it there")), (Some(2), true), "{said}");
}

/// C1 controls and bidirectional marks may come with a SKU that a script takes from a file.
#[test]
fn an_error_of_usage_does_not_control_the_terminal() {
    let evil = "\u{9b}31mA\u{202e}B\u{2066}C\u{1b}]0;title\u{7}";
    for arguments in [
        &["verify", "--calls", evil][..],
        &[evil],
        &["outbox", "list", "--state", evil],
        &["job", "run", evil],
        &["stock", &format!("--{evil}")],
        &["resume", evil],
    ] {
        let output = program(Path::new("/nowhere")).args(arguments).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said:?}");
        assert!(said.contains("31mA"), "{said:?}");
        let is_control = |c: char| {
            c.is_control() && c != '\n'
                || ('\u{202a}'..='\u{202e}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c)
        };
        assert!(!said.contains(is_control), "{said:?}");
    }
    let help = program(Path::new("/nowhere")).args(["stock", "--help"]).output().unwrap();
    assert!(help.status.success() && help.stderr.is_empty() && !help.stdout.is_empty());
}
