//! A list printed while it is read, so that a list of a million SKUs is not held in memory.

use super::{pretty_json, table_lines, terminal_width, write_stdout};
use crate::present::listing::ListColumns;
use serde::Serialize;

/// Rows of which the cells are in memory at a time.
const CHUNK_ROWS: usize = 500;

pub(in crate::cli) struct StreamedList {
    is_json: bool,
    widths: Vec<usize>,
    has_begun: bool,
}

impl StreamedList {
    pub(in crate::cli) fn new(is_json: bool) -> Self {
        Self { is_json, widths: Vec::new(), has_begun: false }
    }

    /// Prints rows; false if the reader is gone. Widths grow with the rows, so that a short list is like any table.
    pub(in crate::cli) fn print_rows<T: Serialize>(
        &mut self,
        rows: &[T],
        columns: impl Fn(&T) -> ListColumns,
    ) -> bool {
        rows.chunks(CHUNK_ROWS).all(|rows| {
            let text = match self.is_json {
                true => self.json_rows(rows),
                false => table_lines(
                    rows.iter().map(&columns),
                    terminal_width(),
                    &mut self.widths,
                    !self.has_begun,
                ),
            };
            self.has_begun = true;
            write_stdout(&text)
        })
    }

    /// Returns the end of the list, or `nothing` if there was no row.
    pub(in crate::cli) fn closing_text(self, nothing: &str) -> String {
        match (self.is_json, self.has_begun) {
            (true, true) => "\n]\n".into(),
            (true, false) => "[]\n".into(),
            (false, true) => String::new(),
            (false, false) if nothing.is_empty() => String::new(),
            (false, false) => format!("{nothing}\n"),
        }
    }

    fn json_rows<T: Serialize>(&self, rows: &[T]) -> String {
        let mut text = pretty_json(rows);
        text.truncate(text.trim_end().trim_end_matches(']').trim_end_matches('\n').len());
        if self.has_begun {
            text.replace_range(..1, ",");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::table_text;
    use crate::present::listing::columns;

    #[test]
    fn a_list_in_pieces_reads_as_one() {
        let rows = [("A", 1), ("[B]", 2), ("C", 3)];
        let whole = serde_json::to_string_pretty(&rows).unwrap();
        for cut in 1..3 {
            let mut listing = StreamedList::new(true);
            let first = listing.json_rows(&rows[..cut]);
            listing.has_begun = true;
            let text = first + &listing.json_rows(&rows[cut..]) + &listing.closing_text("none");
            assert_eq!(text, format!("{whole}\n"));
        }
        assert_eq!(StreamedList::new(true).closing_text("none"), "[]\n");
        assert_eq!(StreamedList::new(false).closing_text("none"), "none\n");
    }

    #[test]
    fn a_table_in_pieces_has_one_head_and_columns_that_only_grow() {
        let table = |sku: &str, n: &str| [columns! {"sku": sku, "n": n}];
        let mut widths = Vec::new();
        assert_eq!(
            table_lines(table("A", "1"), None, &mut widths, true),
            table_text(table("A", "1"), "none")
        );
        assert_eq!(table_lines(table("LONG", "10"), None, &mut widths, false), "LONG  10\n");
        assert_eq!(table_lines(table("B", "2"), None, &mut widths, false), "B      2\n");
        let listing = StreamedList { has_begun: true, ..StreamedList::new(false) };
        assert_eq!(listing.closing_text("none"), "");
    }
}
