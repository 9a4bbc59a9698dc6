//! CSV files of operators: headers by name, every bad line reported with its number, nothing taken by halves unless
//! asked for.

use super::Failure;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::Path;

/// A line that was read.
pub(super) struct Line {
    /// Its number in the file, from 1.
    pub(super) number: u64,
    cells: HashMap<String, String>,
    /// Names the line by the file's name, its content and how often that content came before.
    pub(super) key: String,
}

impl Line {
    /// The cell of a column, trimmed; `None` where it is empty or the column is missing.
    pub(super) fn get(&self, column: &str) -> Option<&str> {
        self.cells.get(column).map(|cell| cell.trim()).filter(|cell| !cell.is_empty())
    }

    /// The cell of a column that must not be empty.
    pub(super) fn need(&self, column: &str) -> Result<&str, String> {
        self.get(column).ok_or_else(|| format!("`{column}` is empty"))
    }

    /// A whole number in a column that must not be empty.
    pub(super) fn number(&self, column: &str) -> Result<i64, String> {
        let text = self.need(column)?;
        text.parse().map_err(|_| format!("`{column}` is `{text}`, which is no whole number"))
    }
}

/// Reads a file and turns each line into a value. Any bad line refuses the whole file, unless `partial`.
pub(super) fn import<T>(
    path: &Path,
    required: &[&str],
    partial: bool,
    read: impl Fn(&Line) -> Result<T, String>,
) -> Result<(Vec<T>, Vec<String>), Failure> {
    let lines = lines(path, required)?;
    let (mut taken, mut problems) = (Vec::new(), Vec::new());
    for line in lines {
        match line.and_then(|line| read(&line).map_err(|why| format!("line {}: {why}", line.number))) {
            Ok(value) => taken.push(value),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() || partial {
        return Ok((taken, problems));
    }
    let count = problems.len();
    Err(Failure::failed(format!(
        "cannot import {}: {}\n{count} bad line(s), so nothing was taken; mend them, or take the others with --partial",
        path.display(),
        problems.join("\n  "),
    )))
}

fn lines(path: &Path, required: &[&str]) -> Result<Vec<Result<Line, String>>, Failure> {
    let unreadable = |why: String| Failure::failed(format!("cannot read {}: {why}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(file);
    let head = reader.headers().map_err(|error| unreadable(error.to_string()))?.clone();
    let head: Vec<String> =
        head.iter().map(|name| name.trim_start_matches('\u{feff}').to_lowercase()).collect();
    let missing: Vec<&str> =
        required.iter().filter(|name| !head.iter().any(|h| h == *name)).copied().collect();
    if !missing.is_empty() {
        let names = missing.join("`, `");
        return Err(unreadable(format!("its first line must name the columns; `{names}` is missing")));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut seen = HashMap::new();
    Ok(reader.records().map(|record| line(record, &head, &name, &mut seen)).collect())
}

fn line(
    record: csv::Result<csv::StringRecord>,
    head: &[String],
    file: &str,
    seen: &mut HashMap<[u8; 8], u32>,
) -> Result<Line, String> {
    let record = record.map_err(|error| error.to_string())?;
    let number = record.position().map_or(0, csv::Position::line);
    let mut hash = Sha256::new();
    for cell in &record {
        hash.update(cell.as_bytes());
        hash.update([0]);
    }
    let mut digest = [0; 8];
    digest.copy_from_slice(&hash.finalize()[..8]);
    let before = seen.entry(digest).and_modify(|count| *count += 1).or_insert(0);
    let key = format!("{file}:{:016x}:{before}", u64::from_be_bytes(digest));
    let cells = head.iter().cloned().zip(record.iter().map(str::to_owned)).collect();
    Ok(Line { number, cells, key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn every_bad_line_is_named_and_nothing_is_taken() {
        let file = file("SKU,Quantity\nA,1\n,2\nB,x\n\"C, \"\"c\"\"\",3\n");
        let read = |line: &Line| Ok((line.need("sku")?.to_owned(), line.number("quantity")?));
        let error = import(file.path(), &["sku", "quantity"], false, read).unwrap_err();
        assert!(error.message.contains("line 3: `sku` is empty"), "{}", error.message);
        assert!(error.message.contains("line 4: `quantity` is `x`"), "{}", error.message);
        let (taken, problems) = import(file.path(), &["sku"], true, read).unwrap();
        assert_eq!(taken, [("A".to_owned(), 1), ("C, \"c\"".to_owned(), 3)]);
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn a_line_keeps_its_key_and_a_repeated_one_gets_another() {
        let file = file("sku\nA\nB\nA\n");
        let keys = || import(file.path(), &["sku"], false, |line| Ok(line.key.clone())).unwrap().0;
        let first = keys();
        assert_eq!(first, keys());
        assert_ne!(first[0], first[2]);
    }

    #[test]
    fn a_file_without_the_column_says_which() {
        let error = import(file("x\n1\n").path(), &["sku"], false, |_| Ok(())).unwrap_err();
        assert!(error.message.contains("`sku` is missing"));
    }
}
