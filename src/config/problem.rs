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
    /// The line of the file, from 1; `None`: the key is not in the file, or the file spells it in another way.
    pub line: Option<usize>,
}

impl ConfigProblem {
    pub(super) fn locate(&mut self, text: &str) {
        self.line = if self.variable.is_none() { line_of(text, &self.path) } else { None };
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match (&self.variable, self.path.as_str()) {
            (Some(variable), _) => write!(f, "{variable}")?,
            (None, "") => return f.write_str(&self.why),
            (None, path) => f.write_str(path)?,
        }
        if let Some(value) = self.value.as_ref().filter(|value| !value.is_empty()) {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.why)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        Ok(())
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

pub(super) fn nearest_key<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let text = text.to_lowercase();
    let scored = known.into_iter().map(|each| (strsim::jaro_winkler(&text, &each.to_lowercase()), each));
    let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score > 0.8).then(|| best.into())
}

/// Returns the line of a dotted key, or of a table, in the usual spelling of TOML: a header, then `key = value`.
fn line_of(text: &str, path: &str) -> Option<usize> {
    let mut table = String::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let name = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((header, _)) => {
                table = header.trim().to_owned();
                table.clone()
            }
            None => {
                let Some((key, _)) = line.split_once('=') else { continue };
                let key = key.trim().trim_matches('"');
                if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
            }
        };
        if name == path {
            return Some(index + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_own_table() {
        let text = "top = 1\n[limits]\n# share = 2\nshare = 3\n[jobs.push]\n \"share\" = 4 # x\n[odd ]\n";
        let cases =
            [("top", Some(1)), ("limits.share", Some(4)), ("jobs.push.share", Some(6)), ("odd", Some(7))];
        for (path, expected) in cases.into_iter().chain([("share", None), ("limits", Some(2))]) {
            assert_eq!(line_of(text, path), expected, "{path}");
        }
    }
}
