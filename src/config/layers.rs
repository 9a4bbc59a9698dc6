//! The layers: the file, and over it the environment, merged into one tree of values.
//!
//! Only this file names the `config` crate. The crate gets only variables that name a key: `TALLYD_`, a
//! section, two underscores, a key. Others, such as `TALLYD_SEED`, are ignored. `try_parsing` stays off,
//! because it would turn an application id `0123456` into the number 123456; text is parsed later, by its
//! key's type. The account's keys never enter the tree, because parts of the tree are printed.

use config::{Environment, File, FileFormat, Map, Source, Value, ValueKind};

pub(super) type TomlTable = Map<String, Value>;

/// The origin that the `config` crate gives to values of the environment.
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

/// A value of the tree before its type is checked.
#[derive(Clone, Debug)]
pub(super) enum ConfigValue {
    Text(String),
    /// Text of any type, because the environment has only text.
    FromEnvironment(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    Table(TomlTable),
    List(Vec<ConfigValue>),
    /// Nothing: no key takes it.
    Other,
}

impl From<Value> for ConfigValue {
    fn from(value: Value) -> Self {
        let environment = value.origin() == Some(ENVIRONMENT_ORIGIN);
        match value.kind {
            ValueKind::String(text) if environment => ConfigValue::FromEnvironment(text),
            ValueKind::String(text) => ConfigValue::Text(text),
            ValueKind::I64(number) => ConfigValue::Integer(number),
            ValueKind::Float(number) => ConfigValue::Float(number),
            ValueKind::Boolean(flag) => ConfigValue::Flag(flag),
            ValueKind::Table(table) => ConfigValue::Table(table),
            ValueKind::Array(values) => ConfigValue::List(values.into_iter().map(Self::from).collect()),
            _ => ConfigValue::Other,
        }
    }
}

impl ConfigValue {
    pub(super) fn is_from_environment(&self) -> bool {
        matches!(self, ConfigValue::FromEnvironment(_))
    }

    /// Formats the value as in the file, without user and password of a URL.
    pub(super) fn show_masked(&self) -> String {
        match self {
            ConfigValue::Text(text) | ConfigValue::FromEnvironment(text) => {
                format!("{:?}", super::address::without_user(text))
            }
            ConfigValue::Integer(number) => number.to_string(),
            ConfigValue::Float(number) => number.to_string(),
            ConfigValue::Flag(flag) => flag.to_string(),
            ConfigValue::Table(_) => "a table".into(),
            ConfigValue::List(_) => "a list".into(),
            ConfigValue::Other => "nothing".into(),
        }
    }
}
