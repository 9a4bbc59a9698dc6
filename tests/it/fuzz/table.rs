//! CSV files of operators: any bytes are rows or numbered problems.
//!
//! Invariants: a file with problems is not imported in part, unless that was asked for. Each problem of a row
//! names a line within the file. Each imported row has the values of its stock levels. A line break more at the end
//! gives the same rows, and a quotation mark that opens there and is not closed gives none.

use crate::cli::csv::{CsvColumns, CsvRefusal, CsvRow, parse_rows};

const COLUMNS: CsvColumns = CsvColumns { required: &["sku", "quantity"], optional: &["note"] };

#[derive(Clone, Debug, PartialEq)]
struct Row {
    number: u64,
    sku: String,
    quantity: i64,
}

pub(crate) fn check(data: &[u8]) {
    let whole = parse_rows(data, &COLUMNS, false, row);
    let partial = parse_rows(data, &COLUMNS, true, row);
    match (&whole, &partial) {
        (Ok(whole), Ok(partial)) => assert_eq!(whole, partial, "no line is bad, so both take the same"),
        (Err(CsvRefusal::Lines(problems)), Ok((_, notes))) => {
            assert!(!problems.is_empty(), "refused without a problem");
            problems.iter().for_each(|problem| numbered(problem, data));
            assert!(notes.len() >= problems.len(), "what is left out is told: {notes:?}");
        }
        (Err(CsvRefusal::File(one)), Err(CsvRefusal::File(two))) => {
            assert!(one == two && !one.is_empty())
        }
        (Err(CsvRefusal::Lines(one)), Err(CsvRefusal::Lines(two))) => {
            assert!(one == two && !one.is_empty(), "no line is good");
        }
        odd => panic!("whole and in part: {odd:?}"),
    }
    if let Ok((rows, _)) = partial {
        at_the_end(&rows, data);
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
        let with = |end: &[u8]| parse_rows(&[data, end].concat(), &COLUMNS, true, row).map(|(rows, _)| rows);
        assert_eq!(with(b"\n").as_deref(), Ok(rows), "a line break more");
        assert!(
            matches!(with(b"\n\"A,1\n"), Err(CsvRefusal::File(_))),
            "a quotation mark that is not closed"
        );
    }
}
