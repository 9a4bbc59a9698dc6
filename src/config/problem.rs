//! What is wrong with a configuration: every problem at once, each with its place, value and repair.
//!
//! An operator who mends one line at a time restarts the daemon once per line; so reading never stops at the
//! first problem. A value is shown unless it may hold a secret.

use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, dotted, or empty where it is the file as a whole.
    pub path: String,
    /// The environment variable it came from, where it did not come from the file.
    pub variable: Option<String>,
    /// The value found, where there is one and it may be shown.
    pub value: Option<String>,
    /// Why it cannot be used, and what could.
    pub why: String,
    /// The known key or word nearest to what was written.
    pub nearest: Option<String>,
}

impl fmt::Display for Problem {
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

/// A configuration that cannot be used, and all the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file that was read, if it was one.
    pub file: Option<PathBuf>,
    /// What is wrong, in the order of the packaged file. Never empty.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// A single problem with the file as a whole.
    pub(super) fn whole(file: Option<PathBuf>, why: String) -> Self {
        let problem = Problem { path: String::new(), variable: None, value: None, why, nearest: None };
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

/// The nearest of `known` to `word`, if it is near enough to be what was meant.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let word = word.to_lowercase();
    let scored = known.into_iter().map(|each| (strsim::jaro_winkler(&word, &each.to_lowercase()), each));
    let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score > 0.8).then(|| best.into())
}
