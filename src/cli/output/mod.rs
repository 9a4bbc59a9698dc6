//! The output of commands: columns for people, JSON for programs. Only this module writes to standard output.
//!
//! `listing.rs` prints long lists while they are read. `progress.rs` shows the progress of long work.

mod listing;
pub(super) mod progress;

pub(super) use self::listing::StreamedList;
pub(super) use crate::model::format_age;
pub(super) use crate::present::{parse_json, time_text};
pub(super) use crate::telemetry::plain_line;

use super::CommandResult;
use super::local_time::local_time;
use crate::model::Timestamp;
use crate::store::LossyText;
use crate::telemetry::{plain_json, plain_lines};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// The output option of the commands that read.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct OutputArgs {
    /// Print JSON for programs
    #[arg(long)]
    pub(super) json: bool,
}

impl OutputArgs {
    /// Returns the value as JSON with `--json`, else the text.
    pub(super) fn render<T: Serialize>(
        self,
        json: impl FnOnce() -> T,
        text: impl FnOnce() -> String,
    ) -> String {
        if self.json { pretty_json(&json()) } else { text() }
    }

    /// Returns the output of a command that lists rows; `nothing` stands for a table without rows.
    pub(super) fn list<T: Serialize, const N: usize>(
        self,
        rows: &[T],
        nothing: &str,
        headings: [&'static str; N],
        columns: impl Fn(&T) -> [String; N],
    ) -> CommandResult {
        let table = || TextTable::new(headings, rows.iter().map(columns)).to_text(nothing);
        Ok(self.render(|| rows, table).into())
    }
}

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

pub(super) fn print_error(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", plain_lines(text)));
}

pub(super) fn pretty_json<T: Serialize + ?Sized>(value: &T) -> String {
    let text =
        serde_json::to_string_pretty(value).expect("our own values have text keys, which JSON can write");
    let mut text = plain_json(&text).into_owned();
    text.push('\n');
    text
}

pub(super) fn json_line(json: &impl std::fmt::Display) -> String {
    plain_json(&json.to_string()).into_owned()
}

/// Columns of text under a heading; numbers are aligned right.
pub(super) struct TextTable {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new<S: Into<String>, const N: usize>(
        headings: [&'static str; N],
        rows: impl IntoIterator<Item = [S; N]>,
    ) -> Self {
        let row = |cells: [S; N]| cells.map(|cell| plain_line(&cell.into()).into_owned()).to_vec();
        Self { headings: headings.map(str::to_owned).to_vec(), rows: rows.into_iter().map(row).collect() }
    }

    /// Returns the table as text, or `nothing` if it has no row.
    pub(super) fn to_text(&self, nothing: &str) -> String {
        if self.rows.is_empty() { format!("{nothing}\n") } else { self.lines(&mut Vec::new(), true) }
    }

    /// Returns a blank line and the table; nothing if it has no row.
    pub(super) fn to_section(&self) -> String {
        if self.rows.is_empty() { String::new() } else { format!("\n{}", self.to_text("")) }
    }

    /// Returns the rows in columns that are at least as wide as `widths`, and widens `widths` accordingly.
    fn lines(&self, widths: &mut Vec<usize>, with_headings: bool) -> String {
        widths.resize(self.headings.len(), 0);
        for row in self.rows.iter().chain([&self.headings]) {
            row.iter().zip(widths.iter_mut()).for_each(|(cell, width)| *width = cell.width().max(*width));
        }
        let headings = with_headings.then_some(&self.headings);
        headings
            .into_iter()
            .chain(&self.rows)
            .map(|row| aligned_row(row, widths).trim_end().to_owned() + "\n")
            .collect()
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

/// A value of a table: a dash stands for a missing one, yes or no for a flag, local time for a time.
pub(super) trait TableCell {
    fn cell_text(&self) -> String;
}

/// Returns the texts of a row's values.
macro_rules! cells {
    ($($value:expr),+ $(,)?) => { [$($crate::cli::output::TableCell::cell_text(&$value)),+] };
}
pub(super) use cells;

macro_rules! displayed_cells {
    ($($type:ty),+) => {$(
        impl TableCell for $type {
            fn cell_text(&self) -> String {
                self.to_string()
            }
        }
    )+};
}
displayed_cells!(str, String, LossyText, i64, usize, f64);

impl TableCell for Timestamp {
    fn cell_text(&self) -> String {
        local_time(*self)
    }
}

impl TableCell for bool {
    fn cell_text(&self) -> String {
        if *self { "yes" } else { "no" }.into()
    }
}

impl TableCell for Value {
    fn cell_text(&self) -> String {
        match self {
            Value::Null => "-".into(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl<T: TableCell> TableCell for Option<T> {
    fn cell_text(&self) -> String {
        self.as_ref().map_or_else(|| "-".into(), T::cell_text)
    }
}

impl<T: TableCell + ?Sized> TableCell for &T {
    fn cell_text(&self) -> String {
        (*self).cell_text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_right() {
        let table = TextTable::new(["sku", "quantity"], [["Ä-1", "5"], ["LONG-SKU", "-12"]]);
        assert_eq!(table.to_text("none"), "sku       quantity\nÄ-1              5\nLONG-SKU       -12\n");
        assert_eq!(TextTable::new::<String, 1>(["sku"], []).to_text("none"), "none\n");
        let wide = TextTable::new(["name", "id"], [["東京倉庫", "1"], ["Zürich", "2"]]);
        assert_eq!(
            wide.to_text("none"),
            "name      id\n東京倉庫   1\nZürich     2\n",
            "as a terminal shows them"
        );
    }

    #[test]
    fn a_stock_level_cannot_write_over_the_terminal() {
        let table = TextTable::new(["name"], [["Attic\u{1b}[2J\r\nall is well"]]);
        assert_eq!(table.to_text("none"), "name\nAttic\u{fffd}[2J\u{fffd}\u{fffd}all is well\n");
    }

    #[test]
    fn ages_read_naturally() {
        let cases = [(5, "5 s"), (300, "5 min"), (9_000, "2 h 30 min"), (200_000, "2 d 7 h"), (-4, "0 s")];
        for (seconds, expected) in cases {
            assert_eq!(format_age(seconds), expected);
        }
    }
}
