//! CSV files of operators: any bytes are rows or numbered problems.
//!
//! Invariants: a file with problems is not imported in part, unless that was asked for. Each problem of a row
//! names a line within the file. Each imported row has the values of its stock levels. Reading the file twice gives
//! the same keys, all different; a file of the same name with one byte more has none of these keys.

use std::collections::BTreeSet;
use tallyd::cli::csv::{CsvColumns, CsvRefusal, CsvRow, parse_rows};

const COLUMNS: CsvColumns = CsvColumns { required: &["sku", "quantity"], optional: &["note"] };

#[derive(Clone, Debug, PartialEq)]
struct Row {
    number: u64,
    key: String,
    sku: String,
    quantity: i64,
}

pub(crate) fn check(data: &[u8]) {
    let whole = parse_rows("count.csv", data, &COLUMNS, false, row);
    let partial = parse_rows("count.csv", data, &COLUMNS, true, row);
    match (&whole, &partial) {
        (Ok(whole), Ok(partial)) => assert_eq!(whole, partial, "no line is bad, so both take the same"),
        (Err(CsvRefusal::Lines(problems)), Ok((_, notes))) => {
            assert!(!problems.is_empty(), "refused without a problem");
            problems.iter().for_each(|problem| numbered(problem, data));
            assert!(notes.len() >= problems.len(), "what is left out is told: {notes:?}");
        }
        (Err(CsvRefusal::Header(one)), Err(CsvRefusal::Header(two))) => {
            assert!(one == two && !one.is_empty())
        }
        odd => panic!("whole and in part: {odd:?}"),
    }
    if let Ok((rows, _)) = partial {
        known_by_their_keys(&rows, data);
    }
}

fn row(line: &CsvRow) -> Result<Row, String> {
    let (sku, quantity) = (line.required_value("sku")?.to_owned(), line.whole_number("quantity")?);
    assert!(!sku.is_empty() && sku == sku.trim());
    Ok(Row { number: line.line_number, key: line.key.clone(), sku, quantity })
}

/// Asserts the form `line N: …`, with N within the file.
fn numbered(problem: &str, data: &[u8]) {
    let number = problem.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    let number: Option<usize> =
        number.and_then(|(number, why)| number.parse().ok().filter(|_| !why.is_empty()));
    let lines = 1 + data.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    assert!(number.is_some_and(|number| (2..=lines).contains(&number)), "{problem} of {lines} lines");
}

fn known_by_their_keys(rows: &[Row], data: &[u8]) {
    let keys: BTreeSet<&str> = rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys.len(), rows.len(), "two lines of one key");
    assert!(rows.is_sorted_by_key(|row| row.number), "lines come in their order");
    let again = parse_rows("count.csv", data, &COLUMNS, true, row).map(|(rows, _)| rows);
    assert_eq!(again.ok().as_deref(), Some(rows), "the same file twice");
    let longer = [data, b"\n"].concat();
    if let Ok((others, _)) = parse_rows("count.csv", &longer, &COLUMNS, true, row) {
        assert!(others.iter().all(|other| !keys.contains(other.key.as_str())), "another file, the same key");
    }
}
