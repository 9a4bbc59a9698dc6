//! The layers: the file, and over it the environment, merged into one tree of values.
//!
//! Only this file names the `config` crate. The crate gets only variables that name a key: `TALLYD_`, a
//! section, two underscores, a key. Others, such as `TALLYD_SEED`, are ignored. `try_parsing` stays off,
//! because it would turn an application id `0123456` into the number 123456; text is parsed later, by its
//! key's type. The account's keys never enter the tree, because parts of the tree are printed.

use config::{Environment, File, FileFormat, Map, Source};
pub(super) use config::{Value as ConfigValue, ValueKind};

pub(super) type TomlTable = Map<String, ConfigValue>;

const ENVIRONMENT_ORIGIN: &str = "the environment";

/// Merges `text` and those of `variables` that name a key. An error is a syntax error of the file.
pub(super) fn merge_layers(text: &str, variables: &[(String, String)]) -> Result<TomlTable, String> {
    let overrides: Map<String, String> =
        variables.iter().filter(|(name, _)| is_override(name)).cloned().collect();
    let environment = Environment::with_prefix("TALLYD").prefix_separator("_").separator("__");
    let builder = config::Config::builder()
        .add_source(File::from_str(text, FileFormat::Toml))
        .add_source(environment.source(Some(overrides)));
    let built = builder.build().and_then(|built| built.collect());
    built.map_err(|error| without_source_lines(&error.to_string()))
}

fn is_override(name: &str) -> bool {
    name.strip_prefix("TALLYD_").is_some_and(|rest| rest.contains("__"))
}

pub(super) fn variable_name(path: &str) -> String {
    format!("TALLYD_{}", path.replace('.', "__").to_uppercase())
}

/// Removes quoted lines from a syntax error, because such a line may contain a mistyped password.
fn without_source_lines(message: &str) -> String {
    let is_quote = |line: &&str| {
        line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
    };
    let lines: Vec<_> = message.lines().filter(|line| !is_quote(line)).map(str::trim).collect();
    lines.join(": ").trim_end_matches([':', ' ']).to_owned()
}

/// Returns true for a value of the environment, which has only text: its type is that of its key.
pub(super) fn is_from_environment(value: &ConfigValue) -> bool {
    value.origin() == Some(ENVIRONMENT_ORIGIN)
}

/// Formats the value as in the file, without user and password of a URL.
pub(super) fn show_masked(value: &ConfigValue) -> String {
    match &value.kind {
        ValueKind::String(text) => format!("{:?}", super::address::without_user(text)),
        ValueKind::Table(_) => "a table".into(),
        ValueKind::Array(_) => "a list".into(),
        ValueKind::Nil => "nothing".into(),
        kind => kind.to_string(),
    }
}
