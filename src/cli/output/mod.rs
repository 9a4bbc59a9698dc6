//! The output of commands: columns for people, JSON for programs. Only this module writes to standard output.
//!
//! `listing.rs` prints long lists while they are read. `progress.rs` shows the progress of long work.

mod listing;
pub(super) mod progress;

pub(super) use self::listing::StreamedList;
pub(super) use crate::model::format_age;
pub(super) use crate::telemetry::plain_line;

use crate::telemetry::{plain_json, plain_lines};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Writes lines to standard output.
pub(super) fn print_text(text: &str) {
    write_stdout(text);
    if !text.ends_with('\n') && !text.is_empty() {
        write_stdout("\n");
    }
}

/// Writes to standard output; false if the reader is gone (`tallyd stock | head`), which is not a failure.
///
/// Text from outside cannot control the terminal. Only [`plain_line`] keeps it within its line.
fn write_stdout(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    // A failure of standard output cannot be reported anywhere.
    stdout.write_all(plain_lines(text).as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

/// Writes a line to standard error.
pub(super) fn print_error(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", plain_lines(text)));
}

/// Returns a value as indented JSON.
pub(super) fn pretty_json<T: Serialize + ?Sized>(value: &T) -> String {
    let text =
        serde_json::to_string_pretty(value).expect("our own values have text keys, which JSON can write");
    let mut text = plain_json(&text).into_owned();
    text.push('\n');
    text
}

/// Returns a value as JSON within other text, with objects and lists indented.
pub(super) fn indented_json(value: &Value) -> String {
    plain_json(&format!("{value:#}")).into_owned()
}

/// Returns JSON in one line.
pub(super) fn json_line(json: &impl std::fmt::Display) -> String {
    plain_json(&json.to_string()).into_owned()
}

/// Columns of text under a heading; numbers are aligned right.
pub(super) struct TextTable {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new(head: &[&'static str]) -> Self {
        Self { headings: head.to_vec(), rows: Vec::new() }
    }

    pub(super) fn add_row<I, S>(&mut self, cells: I)
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        self.rows.push(cells.into_iter().map(|cell| plain_line(&cell.into()).into_owned()).collect());
    }

    /// Returns the table as text, or `nothing` if it has no row.
    pub(super) fn to_text(&self, nothing: &str) -> String {
        if self.rows.is_empty() {
            return format!("{nothing}\n");
        }
        let widths: Vec<usize> = (0..self.headings.len()).map(|column| self.column_width(column)).collect();
        let mut text = String::new();
        let head: Vec<String> = self.headings.iter().map(ToString::to_string).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            text.push_str(aligned_row(row, &widths).trim_end());
            text.push('\n');
        }
        text
    }

    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
        cells.max().unwrap_or(0).max(self.headings[column].len())
    }
}

fn aligned_row(row: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (cell, width) in row.iter().zip(widths) {
        let blanks = " ".repeat(width - cell.width().min(*width));
        let is_number =
            !cell.is_empty() && cell.trim_start_matches(['-', '+']).chars().all(|c| c.is_ascii_digit());
        let (before, after) = if is_number { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
        text.push_str(before);
        text.push_str(cell);
        text.push_str(after);
        text.push_str("  ");
    }
    text
}

/// Returns an optional value for a column, or a dash.
pub(super) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Returns yes, no, or a dash if the platform gives no value.
pub(super) fn yes_or_no(flag: Option<bool>) -> String {
    or_dash(flag.map(|flag| if flag { "yes" } else { "no" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_right() {
        let mut table = TextTable::new(&["sku", "quantity"]);
        table.add_row(["Ä-1", "5"]);
        table.add_row(["LONG-SKU", "-12"]);
        assert_eq!(table.to_text("none"), "sku       quantity\nÄ-1              5\nLONG-SKU       -12\n");
        assert_eq!(TextTable::new(&["sku"]).to_text("none"), "none\n");
        let mut wide = TextTable::new(&["name", "id"]);
        wide.add_row(["東京倉庫", "1"]);
        wide.add_row(["Zürich", "2"]);
        assert_eq!(
            wide.to_text("none"),
            "name      id\n東京倉庫   1\nZürich     2\n",
            "as a terminal shows them"
        );
    }

    #[test]
    fn a_stock_level_cannot_write_over_the_terminal() {
        let mut table = TextTable::new(&["name"]);
        table.add_row(["Attic\u{1b}[2J\r\nall is well"]);
        let text = table.to_text("none");
        assert_eq!(text, "name\nAttic\u{fffd}[2J\u{fffd}\u{fffd}all is well\n");
    }

    #[test]
    fn ages_read_naturally() {
        let cases = [(5, "5 s"), (300, "5 min"), (9_000, "2 h 30 min"), (200_000, "2 d 7 h"), (-4, "0 s")];
        for (seconds, expected) in cases {
            assert_eq!(format_age(seconds), expected);
        }
    }
}
