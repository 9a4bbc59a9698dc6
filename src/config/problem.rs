//! Problems of a configuration, each with its key, value and fix.
//!
//! Reading does not stop at the first problem, so that an operator can fix all of them before one restart. A
//! value is shown unless it may be a secret.

use std::fmt;
use std::path::PathBuf;

/// A problem with a value or with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The dotted key; empty for the file as a whole.
    pub path: String,
    /// The environment variable, if the value came from one.
    pub variable: Option<String>,
    /// The value found, if there is one and it may be shown.
    pub value: Option<String>,
    /// The reason, and a valid form.
    pub why: String,
    /// The nearest known key or code.
    pub nearest: Option<String>,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.variable, self.path.as_str()) {
            (Some(variable), _) => write!(f, "{variable}")?,
            (None, "") => return f.write_str(&self.why),
            (None, path) => f.write_str(path)?,
        }
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.why)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        Ok(())
    }
}

/// A configuration that cannot be used, with all reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// The problems, in the order of the packaged file. Never empty.
    pub problems: Vec<ConfigProblem>,
}

impl ConfigError {
    pub(super) fn for_file(file: Option<PathBuf>, why: String) -> Self {
        let problem = ConfigProblem { path: String::new(), variable: None, value: None, why, nearest: None };
        Self { file, problems: vec![problem] }
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

/// Returns the entry of `known` nearest to `text`, if it is similar enough.
pub(super) fn nearest_key<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let text = text.to_lowercase();
    let scored = known.into_iter().map(|each| (strsim::jaro_winkler(&text, &each.to_lowercase()), each));
    let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score > 0.8).then(|| best.into())
}
