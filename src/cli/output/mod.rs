//! The output of commands: columns for people, JSON for programs. Only this module writes to standard output.

mod listing;
pub(super) mod progress;

pub(super) use self::listing::StreamedList;
pub(super) use crate::model::format_age;
pub(super) use crate::present::listing::columns;
pub(super) use crate::present::time_text;
pub(super) use crate::telemetry::plain_line;

use super::local_time::{local_sentence, local_time};
use super::{CommandOutput, CommandResult};
use crate::model::format_elapsed;
use crate::present::listing::{ListCell, ListColumns, ListedValue, field_cells};
use crate::present::{DecisionSentences, ViewError};
use crate::telemetry::{plain_json, plain_lines};
use clap::Args;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::iter;
use unicode_width::UnicodeWidthStr as _;

const COLUMN_GAP: u16 = 2;
/// Lines of a text about a long list; `--json` has all.
pub(super) const SHOWN_MAX: usize = 20;
/// Names in a sentence about a long list.
pub(super) const NAMED_MAX: usize = 5;

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct OutputArgs {
    /// Print JSON for programs
    #[arg(long)]
    pub(super) json: bool,
}

impl OutputArgs {
    pub(super) fn render<T: Serialize>(
        self,
        json: impl FnOnce() -> T,
        text: impl FnOnce() -> String,
    ) -> String {
        if self.json { pretty_json(&json()) } else { text() }
    }

    /// Returns the output of a command that lists rows; `nothing` stands for a table without rows.
    pub(super) fn list<T: Serialize>(
        self,
        rows: &[T],
        nothing: &str,
        columns: impl Fn(&T) -> ListColumns,
    ) -> CommandResult {
        Ok(self.render(|| rows, || table_text(rows.iter().map(columns), nothing)).into())
    }
}

pub(super) fn print_text(text: &str) {
    write_stdout(text);
    if !text.ends_with('\n') && !text.is_empty() {
        write_stdout("\n");
    }
}

/// Writes to standard output; false if the reader is gone (`tallyd stock | head`), which is not a failure. Text from
/// outside cannot control the terminal; only [`plain_line`] keeps it within its line.
fn write_stdout(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    // A failure of standard output cannot be reported anywhere.
    stdout.write_all(plain_lines(text).as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

pub(super) fn print_error(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", plain_lines(&plain_words(text))));
}

/// Phrases of the standard library and of crates in errors, each with an operator's words.
const LIBRARY_PHRASES: [(&str, &str); 13] = [
    ("invalid digit found in string", "write a whole number"),
    ("cannot parse integer from empty string", "write a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "write a number"),
    ("invalid socket address syntax", "write an address such as 127.0.0.1:8399"),
    ("invalid HTTP header name", "a header's name has letters, digits and dashes"),
    ("..=", " to "),
    ("Component error: ", ""),
    ("error with configuration: ", ""),
    ("stream did not contain valid UTF-8", "it is no text in UTF-8"),
    ("failed to lookup address information", "the name of the host is not known"),
    ("provided string was not `true` or `false`", "write true or false"),
];

/// Replaces the words of libraries, and leaves out the number of an error of the system, as in `(os error 2)`.
pub(super) fn plain_words(text: &str) -> String {
    let mut text = text.to_owned();
    for (phrase, words) in LIBRARY_PHRASES {
        text = text.replace(phrase, words);
    }
    while let Some((before, (_, after))) =
        text.split_once(" (os error ").and_then(|(before, rest)| Some((before, rest.split_once(')')?)))
    {
        text = format!("{before}{after}");
    }
    text
}

pub(super) fn pretty_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text =
        serde_json::to_string_pretty(value).expect("our own values have text keys, which JSON can write");
    if let Cow::Owned(plain) = plain_json(&text) {
        text = plain;
    }
    text.push('\n');
    text
}

pub(super) fn json_line(json: &impl std::fmt::Display) -> String {
    plain_json(&json.to_string()).into_owned()
}

/// Returns rows in columns under their headings, or the line `nothing` if there is no row.
pub(super) fn table_text(rows: impl IntoIterator<Item = ListColumns>, nothing: &str) -> String {
    let rows: Vec<ListColumns> = rows.into_iter().collect();
    match rows.is_empty() {
        true if nothing.is_empty() => String::new(),
        true => format!("{nothing}\n"),
        false => table_lines(rows, terminal_width(), &mut Vec::new(), true),
    }
}

/// Returns a table behind a blank line; nothing without a row.
pub(super) fn table_section(rows: impl IntoIterator<Item = ListColumns>) -> String {
    match table_text(rows, "") {
        text if text.is_empty() => text,
        text => format!("\n{text}"),
    }
}

/// Returns the rows in columns, numbers aligned right. A row is a line, so that programs can search it; the columns are
/// at least as wide as `widths`, which are widened. A terminal gets cells of several lines, and no long lines.
fn table_lines(
    rows: impl IntoIterator<Item = ListColumns>,
    terminal: Option<u16>,
    widths: &mut Vec<usize>,
    with_headings: bool,
) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for columns in rows {
        if with_headings && lines.is_empty() {
            lines.push(columns.iter().map(|(heading, _)| (*heading).to_owned()).collect());
        }
        lines.push(columns.iter().map(|(_, cell)| plain_line(&cell_text(cell)).into_owned()).collect());
    }
    match terminal {
        Some(width) => wrapped_lines(lines, width),
        None => aligned_lines(&lines, widths),
    }
}

/// Returns a line for each row. For lists of a million rows, which the library for tables is too slow for.
fn aligned_lines(rows: &[Vec<String>], widths: &mut Vec<usize>) -> String {
    for row in rows {
        widths.resize(row.len(), 0);
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.width().max(*width));
    }
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(&*widths) {
            let blanks = width - cell.width();
            let (before, after) = if is_number(cell) { (blanks, 0) } else { (0, blanks) };
            text.extend(iter::repeat_n(' ', before));
            text.push_str(cell);
            text.extend(iter::repeat_n(' ', after + usize::from(COLUMN_GAP)));
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

/// Returns a table of at most `width` columns of a terminal.
fn wrapped_lines(rows: Vec<Vec<String>>, width: u16) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // The gap behind the last column is cut off.
    table.set_width(width.saturating_add(COLUMN_GAP));
    let cell = |text: String| {
        let is_right = is_number(&text);
        Cell::new(text).set_alignment(if is_right { CellAlignment::Right } else { CellAlignment::Left })
    };
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(cell)));
    for column in table.column_iter_mut() {
        column.set_padding((0, COLUMN_GAP));
    }
    table.trim_fmt() + "\n"
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.trim_start_matches(['-', '+']).chars().all(|c| c.is_ascii_digit())
}

fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// Returns a value as text: a dash stands for a missing one, yes or no for a flag, local time for a time.
pub(super) fn cell_text(value: &impl ListedValue) -> String {
    match value.cell() {
        ListCell::Missing => "-".into(),
        ListCell::Text(text) | ListCell::Number(text) | ListCell::Link(_, text) => text,
        ListCell::Sentence(sentence) => local_sentence(sentence),
        ListCell::Flag(true) => "yes".into(),
        ListCell::Flag(false) => "no".into(),
        ListCell::Time(at) => local_time(at),
        ListCell::Age(at, now) => format_elapsed(now.duration_since(at)),
    }
}

pub(super) fn lines_text(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("{}\n", plain_line(&local_sentence(sentence)))).collect()
}

/// Returns the first of these lines, and the number of the others.
pub(super) fn shortened(lines: impl IntoIterator<Item = String>, max: usize) -> Vec<String> {
    let mut lines = lines.into_iter();
    let mut shown: Vec<String> = lines.by_ref().take(max).collect();
    let more = lines.count();
    shown.extend((more > 0).then(|| format!("and {more} more")));
    shown
}

/// Returns the sentences of a decision; that of an impossible one has exit code 1.
pub(super) fn decision_output(decision: DecisionSentences) -> CommandResult {
    let (sentences, exit_code) = match decision {
        Err(ViewError::Refused(why)) => (vec![why], 1),
        decision => (decision?, 0),
    };
    Ok(CommandOutput { text: lines_text(&sentences), exit_code })
}

pub(super) fn fields_text(object: &Value) -> String {
    let line = |(name, cell): (&str, ListCell)| format!("{name:<14} {}\n", plain_line(&cell_text(&cell)));
    field_cells(object).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn columns_line_up_and_numbers_stand_right() {
        let row = |sku: &str, quantity: i64| columns! {"sku": sku, "quantity": quantity};
        let table = table_text([row("Ä-1", 5), row("LONG-SKU", -12)], "none");
        assert_eq!(table, "sku       quantity\nÄ-1              5\nLONG-SKU       -12\n");
        assert_eq!(table_text([], "none"), "none\n");
        let row = |name: &str, id: i64| columns! {"name": name, "id": id};
        let wide = table_text([row("東京倉庫", 1), row("Zürich", 2)], "none");
        assert_eq!(wide, "name      id\n東京倉庫   1\nZürich     2\n", "as a terminal shows them");
    }

    #[test]
    fn a_long_table_has_the_columns_of_its_widest_row_from_the_first_line_on() {
        let row = |n| columns! {"sku": if n == 256 { "LONG-SKU" } else { "A" }, "n": 1_i64};
        let text = table_text((0..512).map(row), "none");
        assert_eq!(text.lines().count(), 513);
        assert!(text.starts_with("sku       n\nA         1\n"), "{}", &text[..40]);
        assert_eq!(text.matches("sku").count(), 1, "one heading");
    }

    #[test]
    fn a_narrow_terminal_gets_cells_of_several_lines_and_no_line_that_is_too_long() {
        let detail = "the platform shows 東京倉庫 with 5, and 7 were counted";
        let table = || [columns! {"key": "count-1", "detail": detail, "n": 5_i64}];
        let wide = table_text(table(), "none");
        assert_eq!(wide.lines().count(), 2, "{wide}");
        for width in [80, 60, 40, 24] {
            let text = table_lines(table(), Some(width), &mut Vec::new(), true);
            let longest = text.lines().map(UnicodeWidthStr::width).max();
            assert!(longest <= Some(usize::from(width)), "{width}: {longest:?}\n{text}");
            let words: String = text.split_whitespace().collect();
            assert!(words.contains("count-1") && words.contains("東京倉庫"), "{text}");
        }
    }

    #[test]
    fn a_stock_level_cannot_write_over_the_terminal() {
        let table = table_text([columns! {"name": "Attic\u{1b}[2J\r\nall is well"}], "none");
        assert_eq!(table, "name\nAttic\u{fffd}[2J\u{fffd}\u{fffd}all is well\n");
    }

    #[test]
    fn ages_read_naturally() {
        let cases = [(5, "5 s"), (300, "5 min"), (9_000, "2 h 30 min"), (200_000, "2 d 7 h"), (-4, "0 s")];
        for (seconds, expected) in cases {
            assert_eq!(format_age(seconds), expected);
        }
    }
}
