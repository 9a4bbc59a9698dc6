//! The layers: the file, and over it the environment, merged into one tree of values.
//!
//! Only this file names the `config` crate. The crate gets only variables that name a key: `TALLYD_`, a
//! section, two underscores, a key. Others, such as `TALLYD_SEED`, are ignored. `try_parsing` stays off,
//! because it would turn an application id `0123456` into the number 123456; text is parsed later, by its
//! key's type. The account's keys never enter the tree, because parts of the tree are printed.

use config::{Environment, File, FileFormat, Map, Source, Value, ValueKind};

/// A table of the tree.
pub(super) type Table = Map<String, Value>;

/// The origin that the `config` crate gives to values of the environment.
const ENVIRONMENT: &str = "the environment";

/// Merges `text` and those of `variables` that name a key. An error is a syntax error of the file.
pub(super) fn merge(text: &str, variables: &[(String, String)]) -> Result<Table, String> {
    let meant: Map<String, String> =
        variables.iter().filter(|(name, _)| is_override(name)).cloned().collect();
    let environment = Environment::with_prefix("TALLYD").prefix_separator("_").separator("__");
    let builder = config::Config::builder()
        .add_source(File::from_str(text, FileFormat::Toml))
        .add_source(environment.source(Some(meant)));
    let built = builder.build().and_then(|built| built.collect());
    built.map_err(|error| without_source_lines(&error.to_string()))
}

/// Returns true if a variable sets a key of the configuration.
fn is_override(name: &str) -> bool {
    name.strip_prefix("TALLYD_").is_some_and(|rest| rest.contains("__"))
}

/// Returns the variable that sets the key at `path`.
pub(super) fn variable(path: &str) -> String {
    format!("TALLYD_{}", path.replace('.', "__").to_uppercase())
}

/// Removes quoted lines from a syntax error, because such a line may contain a mistyped password.
fn without_source_lines(message: &str) -> String {
    let is_quote = |line: &&str| {
        line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
    };
    let kept: Vec<_> = message.lines().filter(|line| !is_quote(line)).map(str::trim).collect();
    kept.join(": ").trim_end_matches([':', ' ']).to_owned()
}

/// A value of the tree before its type is checked.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Text(String),
    /// Text of any type, because the environment has only text.
    FromEnvironment(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    Table(Table),
    /// A list or nothing: no key takes one.
    Other,
}

impl From<Value> for Found {
    fn from(value: Value) -> Self {
        let environment = value.origin() == Some(ENVIRONMENT);
        match value.kind {
            ValueKind::String(text) if environment => Found::FromEnvironment(text),
            ValueKind::String(text) => Found::Text(text),
            ValueKind::I64(number) => Found::Integer(number),
            ValueKind::Float(number) => Found::Float(number),
            ValueKind::Boolean(flag) => Found::Flag(flag),
            ValueKind::Table(table) => Found::Table(table),
            _ => Found::Other,
        }
    }
}

impl Found {
    pub(super) fn is_from_environment(&self) -> bool {
        matches!(self, Found::FromEnvironment(_))
    }

    /// Formats the value as in the file, without user and password of a URL.
    pub(super) fn show(&self) -> String {
        match self {
            Found::Text(text) | Found::FromEnvironment(text) => {
                format!("{:?}", super::address::without_user(text))
            }
            Found::Integer(number) => number.to_string(),
            Found::Float(number) => number.to_string(),
            Found::Flag(flag) => flag.to_string(),
            Found::Table(_) => "a table".into(),
            Found::Other => "a list".into(),
        }
    }
}
