//! Problems of a configuration, each with its key, value and fix.
//!
//! Reading does not stop at the first problem, so that an operator can fix all of them before one restart. A
//! value is shown unless it may be a secret.

use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigProblem {
    /// The dotted key; empty for the file as a whole.
    pub path: String,
    pub variable: Option<String>,
    pub value: Option<String>,
    pub why: String,
    pub nearest: Option<String>,
    /// The line of the file, from 1; `None`: the key is not in the file.
    pub line: Option<usize>,
}

impl ConfigProblem {
    pub(super) fn locate(&mut self, text: &str) {
        self.line = if self.variable.is_none() { super::edit::line_of(text, &self.path) } else { None };
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.why);
        }
        let line = self.line.map_or_else(String::new, |line| format!("line {line}: "));
        let value = self.value.as_ref().filter(|value| !value.is_empty());
        let value = value.map_or_else(String::new, |value| format!(" = {value}"));
        let nearest = self.nearest.as_ref();
        let nearest = nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"));
        let name = self.variable.as_ref().unwrap_or(&self.path);
        write!(f, "{line}{name}{value}: {}{nearest}", self.why)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub file: Option<PathBuf>,
    /// The problems, in the order of the packaged file. Never empty.
    pub(crate) problems: Vec<ConfigProblem>,
}

impl ConfigError {
    pub(super) fn for_file(file: Option<PathBuf>, why: String) -> Self {
        Self { file, problems: vec![ConfigProblem { why, ..ConfigProblem::default() }] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "configuration {}", file.display())?,
            None => f.write_str("configuration")?,
        }
        let count = self.problems.len();
        write!(f, ": {count} problem{}", if count == 1 { "" } else { "s" })?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for ConfigError {}
