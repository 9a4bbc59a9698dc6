//! The layers: the file, and over it the environment, merged by the `config` crate into one tree of values.
//! The only file that names that crate.
//!
//! Of the environment it is given only what can be meant for it: `TALLYD_`, a section, two underscores, a key.
//! The rest, such as `TALLYD_SEED`, belongs to others. Its `try_parsing` stays off: that would turn an
//! application id `0123456` into the number 123456 before anybody knows the type; text from the environment is
//! parsed where the type is known. Keys of the account never enter the tree, which is printed in parts.

use config::{Environment, File, FileFormat, Map, Source, Value, ValueKind};

/// A table of the tree.
pub(super) type Table = Map<String, Value>;

/// Where values of the environment say they come from.
const ENVIRONMENT: &str = "the environment";

/// Merges `text` and those of `variables` that name a key. An error is the file's syntax.
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

/// Whether a variable sets a key of the configuration.
fn is_override(name: &str) -> bool {
    name.strip_prefix("TALLYD_").is_some_and(|rest| rest.contains("__"))
}

/// The variable that sets the key at `path`.
pub(super) fn variable(path: &str) -> String {
    format!("TALLYD_{}", path.replace('.', "__").to_uppercase())
}

/// A syntax error quotes the line it found, and that line may hold a password that was typed into the wrong place.
fn without_source_lines(message: &str) -> String {
    let is_quote = |line: &&str| {
        line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
    };
    let kept: Vec<_> = message.lines().filter(|line| !is_quote(line)).map(str::trim).collect();
    kept.join(": ").trim_end_matches([':', ' ']).to_owned()
}

/// A value as the typed reading sees it.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Text(String),
    /// Text that may stand for any type, because the environment knows no other.
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

    /// As the file would write it; a user and password inside a URL are left out.
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
