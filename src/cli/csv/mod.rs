//! CSV files of operators: headers by name, every bad line reported with its number.
//!
//! A file with a bad line is refused as a whole unless `partial` is set.

mod records;
mod ruined;

use self::records::{CsvRecord, read_records};
use super::CommandFailure;
use super::output::{plain_line, print_error};
use clap::Args;
use std::collections::HashMap;
use std::path::PathBuf;

/// The characters from which on the beginning of a column's name is enough to mean it.
const BEGINNING_MIN: usize = 4;

#[derive(Debug, Args)]
pub(super) struct CsvImportArgs {
    /// CSV file; the first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Import the valid lines of a file that has invalid ones
    #[arg(long)]
    partial: bool,
}

/// A parsed line: its number in the file, and its values by column.
#[derive(Debug)]
pub(crate) struct CsvRow {
    /// The line number in the file, from 1.
    pub line_number: u64,
    values: HashMap<String, String>,
}

impl CsvRow {
    /// Returns the trimmed value of a column, if there is one. A text that a spreadsheet made of another is an error.
    pub(crate) fn get(&self, column: &str) -> Result<Option<&str>, String> {
        let value = self.values.get(column).map(|value| value.trim()).filter(|value| !value.is_empty());
        match value.filter(|text| ruined::is_ruined(text)) {
            Some(text) => Err(format!(
                "`{column}` is `{text}`, which a spreadsheet makes of another text; write the true one, in a column that \
                 is formatted as text"
            )),
            None => Ok(value),
        }
    }

    /// Returns the value of a column that must not be empty.
    pub(crate) fn required_value(&self, column: &str) -> Result<&str, String> {
        self.get(column)?.ok_or_else(|| format!("`{column}` is empty"))
    }

    /// Returns a whole number from a column that must not be empty.
    pub(crate) fn whole_number(&self, column: &str) -> Result<i64, String> {
        let text = self.required_value(column)?;
        let signed = text.replace('\u{2212}', "-");
        let (whole, zeros) = signed.split_once('.').unwrap_or((&signed, "0"));
        if zeros == "000" {
            return Err(format!(
                "`{column}` is `{text}`, which may be {whole} or {whole}000; write it without the point"
            ));
        }
        let number =
            whole.parse().ok().filter(|_| !zeros.is_empty() && zeros.bytes().all(|digit| digit == b'0'));
        number.ok_or_else(|| format!("`{column}` is `{text}`, which is not a whole number"))
    }

    pub(super) fn optional_number(&self, column: &str) -> Result<Option<i64>, String> {
        self.get(column)?.map(|_| self.whole_number(column)).transpose()
    }
}

/// The columns of a file; other columns are reported and not read.
#[derive(Debug)]
pub(crate) struct CsvColumns {
    /// The required columns.
    pub required: &'static [&'static str],
    /// The optional columns.
    pub optional: &'static [&'static str],
}

/// A file that was split into lines and columns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CsvContent<T> {
    /// The valid lines.
    pub rows: Vec<T>,
    /// A sentence for each bad line, which begins with its number.
    pub problems: Vec<String>,
    /// A sentence for each column that is not read.
    pub notes: Vec<String>,
}

/// Reads a file and converts each line. Any bad line refuses the whole file, unless `partial` is set.
///
/// Lines and columns that are left out are named on standard error.
pub(super) fn import_file<T>(
    args: &CsvImportArgs,
    columns: &CsvColumns,
    read: impl Fn(&CsvRow) -> Result<T, String>,
) -> Result<Vec<T>, CommandFailure> {
    let file = &args.file;
    let unreadable = |why: String| CommandFailure::failed(format!("cannot import {}: {why}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let CsvContent { rows, problems, notes } = parse_rows(&bytes, columns, read).map_err(unreadable)?;
    args.leave_out(&problems, rows.is_empty())?;
    notes.iter().for_each(|note| print_error(&plain_line(note)));
    Ok(rows)
}

impl CsvImportArgs {
    /// Refuses the file because of these lines. With `--partial` it names them and returns, unless all lines are bad.
    pub(super) fn leave_out(&self, problems: &[String], is_all: bool) -> Result<(), CommandFailure> {
        if !is_all && (self.partial || problems.is_empty()) {
            problems.iter().for_each(|problem| print_error(&plain_line(&format!("not imported: {problem}"))));
            return Ok(());
        }
        let lines: Vec<_> = problems.iter().map(|problem| plain_line(problem)).collect();
        let message = format!(
            "cannot import {}:\n  {}\nNothing was imported. Correct each of these lines, or import the others with \
             --partial and the corrected ones later in a separate file",
            self.shown_name(),
            lines.join("\n  "),
        );
        Err(CommandFailure::multiline(message, 1))
    }

    pub(super) fn shown_name(&self) -> String {
        plain_line(&self.file.display().to_string()).into_owned()
    }

    /// Returns the file's name without the number that a browser adds to another download, as in `receipts (1).csv`.
    pub(super) fn source_name(&self) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = name.rsplit_once(" (").and_then(|(stem, rest)| Some((stem, rest.split_once(')')?)));
        match numbered {
            Some((stem, (number, rest))) if number.parse::<u32>().is_ok() => format!("{stem}{rest}"),
            _ => name,
        }
    }
}

/// Converts the bytes of a file. Fails with a sentence if the file cannot be split into lines and columns that are
/// known, or has no lines.
pub(crate) fn parse_rows<T>(
    bytes: &[u8],
    columns: &CsvColumns,
    read: impl Fn(&CsvRow) -> Result<T, String>,
) -> Result<CsvContent<T>, String> {
    let mut records = read_records(bytes)?.into_iter();
    let head = columns.head(records.next())?;
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    for CsvRecord { line_number, fields } in records {
        let row = match (fields.len(), head.len()) {
            (found, named) if found == named => {
                let values = head.iter().cloned().zip(fields).collect();
                read(&CsvRow { line_number, values })
            }
            (found, named) => {
                Err(format!("the number of fields is {found}, but the first line names {named}"))
            }
        };
        match row {
            Ok(value) => rows.push(value),
            Err(problem) => problems.push(format!("line {line_number}: {problem}")),
        }
    }
    if rows.is_empty() && problems.is_empty() {
        return Err("it has no line below the names of the columns".into());
    }
    let other = head.iter().filter(|name| columns.is_other(name));
    let notes = other.map(|name| format!("no column `{name}` is known: it is not read")).collect();
    Ok(CsvContent { rows, problems, notes })
}

impl CsvColumns {
    fn head(&self, first: Option<CsvRecord>) -> Result<Vec<String>, String> {
        let fields = first.ok_or("it is empty")?.fields;
        let head: Vec<String> = fields.iter().map(|name| name.trim().to_lowercase()).collect();
        let count = |name: &str| head.iter().filter(|head| *head == name).count();
        let mut problems = Vec::new();
        for known in self.required.iter().chain(self.optional) {
            match count(known) {
                0 => {
                    let slip = head.iter().find(|name| self.is_other(name) && is_near(name, known));
                    problems.extend(slip.map(|name| format!("did you mean `{known}` by `{name}`?")));
                    if slip.is_none() && self.required.contains(known) {
                        problems.push(format!("`{known}` is missing"));
                    }
                }
                1 => {}
                times => problems.push(format!("`{known}` stands there {times} times")),
            }
        }
        match problems.is_empty() {
            true => Ok(head),
            false => Err(format!(
                "the first line names the columns `{}`: {}",
                head.join("`, `"),
                problems.join(", ")
            )),
        }
    }

    fn is_other(&self, name: &str) -> bool {
        !name.is_empty() && !self.required.iter().chain(self.optional).any(|known| *known == name)
    }
}

/// Returns true for a slip of the keyboard, and for the beginning of the known name.
fn is_near(name: &str, known: &str) -> bool {
    let [name, known] = [name, known].map(|name| name.replace(['_', '-', ' ', '.'], ""));
    let slips_max = (name.chars().count() / 3).max(1);
    (name.len() >= BEGINNING_MIN && known.starts_with(&name))
        || strsim::osa_distance(&name, &known) <= slips_max
}

#[cfg(test)]
mod tests;
