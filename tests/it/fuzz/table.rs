//! CSV files of operators: any bytes are rows or numbered problems.
//!
//! Invariants: a file is refused for a reason, or has rows or problems. Each problem of a row names a line within the
//! file. Each imported row has the values of its stock levels. A line break more at the end
//! gives the same rows, and a quotation mark that opens there and is not closed gives none.

use crate::cli::csv::{CsvColumns, CsvContent, CsvRow, parse_rows};

const COLUMNS: CsvColumns = CsvColumns { required: &["sku", "quantity"], optional: &["note"] };

#[derive(Clone, Debug, PartialEq)]
struct Row {
    number: u64,
    sku: String,
    quantity: i64,
}

pub(crate) fn check(data: &[u8]) {
    match parse_rows(data, &COLUMNS, row) {
        Err(why) => assert!(!why.is_empty(), "refused without a reason"),
        Ok(CsvContent { rows, problems, .. }) => {
            assert!(rows.len() + problems.len() > 0, "a file without lines is no success");
            problems.iter().for_each(|problem| numbered(problem, data));
            at_the_end(&rows, data);
        }
    }
}

fn row(line: &CsvRow) -> Result<Row, String> {
    let (sku, quantity) = (line.required_value("sku")?.to_owned(), line.whole_number("quantity")?);
    assert!(!sku.is_empty() && sku == sku.trim());
    Ok(Row { number: line.line_number, sku, quantity })
}

/// Asserts the form `line N: …`, with N within the file.
fn numbered(problem: &str, data: &[u8]) {
    let number = problem.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    let number: Option<usize> =
        number.and_then(|(number, why)| number.parse().ok().filter(|_| !why.is_empty()));
    let lines = 1 + data.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    assert!(number.is_some_and(|number| (2..=lines).contains(&number)), "{problem} of {lines} lines");
}

fn at_the_end(rows: &[Row], data: &[u8]) {
    assert!(rows.is_sorted_by_key(|row| row.number), "lines come in their order");
    // A byte more would break the pairs of UTF-16.
    if !data.starts_with(b"\xff\xfe") && !data.starts_with(b"\xfe\xff") {
        let with = |end: &[u8]| parse_rows(&[data, end].concat(), &COLUMNS, row).map(|read| read.rows);
        assert_eq!(with(b"\n").as_deref(), Ok(rows), "a line break more");
        assert!(with(b"\n\"A,1\n").is_err(), "a quotation mark that is not closed");
    }
}
