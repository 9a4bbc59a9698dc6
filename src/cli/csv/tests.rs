//! Tests of the files: their forms, their bad lines, and their columns.

use super::*;

const PAIR: CsvColumns = CsvColumns { required: &["sku", "quantity"], optional: &["note", "counted_at"] };
const SKU: CsvColumns = CsvColumns { required: &["sku"], optional: &[] };

type Pair = (u64, String, i64);

fn pair(line: &CsvRow) -> Result<Pair, String> {
    Ok((line.line_number, line.required_value("sku")?.to_owned(), line.whole_number("quantity")?))
}

fn pairs(bytes: &[u8]) -> Result<CsvContent<Pair>, String> {
    parse_rows(bytes, &PAIR, pair)
}

/// Returns the reason that a file is refused for as a whole.
fn refusal(bytes: &[u8], columns: &CsvColumns) -> String {
    parse_rows(bytes, columns, |_| Ok(())).expect_err(&String::from_utf8_lossy(bytes))
}

#[test]
fn every_bad_line_is_named_and_nothing_is_imported() {
    let file = b"SKU,Quantity\nA,1\n,2\nB,x\n\"C, \"\"c\"\"\",3\nD\nE,1,2\n";
    let CsvContent { rows, problems, .. } = pairs(file).unwrap();
    let expected = [
        "line 3: `sku` is empty",
        "line 4: `quantity` is `x`, which is not a whole number",
        "line 6: the number of fields is 1, but the first line names 2",
        "line 7: the number of fields is 3, but the first line names 2",
    ];
    assert_eq!(problems, expected);
    assert_eq!(rows, [(2, "A".to_owned(), 1), (5, "C, \"c\"".to_owned(), 3)]);
    let args = |partial| CsvImportArgs { file: "pairs.csv".into(), partial };
    assert!(args(true).leave_out(&problems, false).is_ok());
    assert!(
        args(false).leave_out(&problems, false).is_err() && args(true).leave_out(&problems, true).is_err()
    );
}

#[test]
fn a_spreadsheets_ways_are_all_read_with_the_lines_an_editor_shows() {
    let utf_16 = |mark: u16, bytes: fn(u16) -> [u8; 2]| {
        let units = std::iter::once(mark).chain("sku;quantity\r\n\r\nA;1\r\n".encode_utf16());
        units.flat_map(bytes).collect::<Vec<u8>>()
    };
    let (little, big) = (utf_16(0xfeff, u16::to_le_bytes), utf_16(0xfeff, u16::to_be_bytes));
    let cases: [&[u8]; 12] = [
        b"sku,quantity\n\nA,1\n",
        b"sku,quantity\r\n\r\nA,1\r\n",
        b"\xef\xbb\xbf\"sku\",\"quantity\"\r\n\r\n\"A\",\"1\"",
        b"quantity;sku\n\n1;A\n",
        b"SKU\tQuantity\r\n\r\nA\t 1 \r\n",
        b" Sku , Quantity \r\rA , 1\r",
        b"sku;quantity\n;\nA;1\n;\n ; ;;\n",
        b"sep=;\nsku;quantity\nA;1.0000\n",
        b"sep=|\r\nsku|quantity\r\n\"A\" |1\r\n",
        b"\xef\xbb\xbfsep=,\nsku,quantity\nA,+1\n",
        &little,
        &big,
    ];
    for bytes in cases {
        let taken = pairs(bytes).unwrap();
        assert_eq!(taken.rows, [(3, "A".to_owned(), 1)], "{}", String::from_utf8_lossy(bytes));
        assert!(taken.problems.is_empty() && taken.notes.is_empty(), "{taken:?}");
    }
    let several = pairs(b"sku,quantity\r\n\"A\r\nB\",1\r\nC,2\r\n").unwrap().rows;
    let numbers: Vec<u64> = several.iter().map(|row| row.0).collect();
    assert_eq!(numbers, [2, 4], "a quoted field may hold a line break");
    for bytes in [b"\xff\xfes\0\0\xd8", b"\xfe\xff\0s\xd8\0"] {
        assert!(refusal(bytes, &SKU).contains("begins as UTF-16 and is not"), "{bytes:?}");
    }
    let not_utf_8 = refusal(b"sku,quantity\nA,1\nF\xff,1\n", &PAIR);
    assert_eq!(not_utf_8, "line 3: not UTF-8; save the file as UTF-8");
}

#[test]
fn a_quotation_mark_that_swallows_lines_refuses_the_file_with_its_line() {
    let cases = [
        ("sku,quantity\nA,1\n\"B,2\nC,3\n", "line 3: "),
        ("sku,quantity,note\nA,1,\"see box\nB,2,x\nC,3,y", "line 2: "),
        ("sku,quantity,note\nA,1,\"see box\nB,2,\"\"\nC,3,y\n", "line 2: "),
        ("sku,quantity,note\nA,1,\"see box\nB,2,\"x\"\n", "line 2: "),
        ("sku,quantity\n\"5\" pipe\",1\nB,2\n", "line 2: "),
        ("sku,quantity,note\nA,1,\"see box\nB,2,5\"\nC,3,y\n", "line 2: "),
        ("\"sku,quantity\nA,1\n", "line 1: "),
    ];
    for (file, expected) in cases {
        let why = refusal(file.as_bytes(), &PAIR);
        assert!(why.starts_with(expected) && why.contains("is not closed at the end"), "{file}: {why}");
    }
    let taken = pairs(b"sku,quantity,note\n5\" pipe,1,\"two\nlines, both \"\"\"\n").unwrap();
    assert_eq!(taken.rows, [(2, "5\" pipe".to_owned(), 1)]);
}

#[test]
fn a_number_is_read_as_it_is_meant_or_not_at_all() {
    let read = |text: &str| {
        let read = pairs(format!("sku;quantity\nA;{text}\n").as_bytes()).unwrap();
        read.rows.first().map(|row| row.2).ok_or(read.problems)
    };
    for (text, number) in
        [("12", 12), ("+5", 5), ("12.0", 12), ("12.0000", 12), ("-3.00", -3), ("\u{2212}7", -7)]
    {
        assert_eq!(read(text), Ok(number), "{text}");
    }
    for text in ["12.5", "12.", "1,000", "1 000", "0x1", ".0", "--1", "1e3"] {
        let why = read(text).unwrap_err();
        assert!(why[0].ends_with(&format!("`quantity` is `{text}`, which is not a whole number")), "{why:?}");
    }
    let why = read("12.000").unwrap_err();
    assert!(why[0].contains("may be 12 or 12000"), "{why:?}");
}

#[test]
fn a_text_that_a_spreadsheet_made_is_refused_in_every_column() {
    let read =
        |line: &CsvRow| Ok((line.get("sku")?.map(str::to_owned), line.get("note")?.map(str::to_owned)));
    let file = b"sku,quantity,note\n#N/A,1,\nB,1,\"=\"\"0012345\"\"\"\nC,1,1.23457E+12\nD,1,ok\n";
    let problems = parse_rows(file, &PAIR, read).unwrap().problems;
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (problem, text) in
        problems.iter().zip(["`sku` is `#N/A`", "`note` is `=\"0012345\"`", "`note` is `1.23457E+12`"])
    {
        assert!(
            problem.contains(text) && problem.contains("a spreadsheet makes of another text"),
            "{problem}"
        );
    }
}

#[test]
fn a_column_nobody_reads_is_named_and_a_slip_of_a_known_one_refused() {
    let notes = pairs(b"price,sku,quantity,note,\n9,A,1,x,\n").unwrap().notes;
    assert_eq!(notes, ["no column `price` is known: it is not read"]);
    let notes = pairs(b"sku_name,quantity2,sku,quantity\nA,1,A,1\n").unwrap().notes;
    assert_eq!(notes.len(), 2, "the columns that these may mean are there: {notes:?}");
    let cases = [
        ("sku,SKU\nA,B\n", &SKU, "names the columns `sku`, `sku`: `sku` stands there 2 times"),
        ("x;y\n1;2\n", &SKU, "names the columns `x`, `y`: `sku` is missing"),
        ("skus\nA\n", &SKU, "did you mean `sku` by `skus`?"),
        ("sku,quantity,countedat\nA,1,x\n", &PAIR, "did you mean `counted_at` by `countedat`?"),
        ("sku,quantity,Counted At\nA,1,x\n", &PAIR, "did you mean `counted_at` by `counted at`?"),
        ("sku,quantity,counted\nA,1,x\n", &PAIR, "did you mean `counted_at` by `counted`?"),
        ("sku,quantity,notes\nA,1,x\n", &PAIR, "did you mean `note` by `notes`?"),
        ("sku,quantty\nA,1\n", &PAIR, "did you mean `quantity` by `quantty`?"),
    ];
    for (file, columns, expected) in cases {
        let why = refusal(file.as_bytes(), columns);
        assert!(why.contains(expected), "{file}: {why}");
    }
}

#[test]
fn a_file_without_lines_is_no_success() {
    for (file, expected) in [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("\u{feff}", "it is empty"),
        ("sku\n", "no line below"),
        ("sku;\r\n;\r\n;\r\n", "no line below"),
    ] {
        let why = refusal(file.as_bytes(), &SKU);
        assert!(why.contains(expected), "{file}: {why}");
    }
    let bad = pairs(b"sku,quantity\nA,x\n").unwrap();
    assert!(bad.rows.is_empty() && bad.problems.len() == 1, "no line is valid: {bad:?}");
}

#[test]
fn a_second_download_has_the_name_of_the_first() {
    let name = |file: &str| CsvImportArgs { file: file.into(), partial: false }.source_name();
    for (file, expected) in [
        ("in/receipts.csv", "receipts.csv"),
        ("receipts (1).csv", "receipts.csv"),
        ("receipts (12)", "receipts"),
        ("receipts (new).csv", "receipts (new).csv"),
        ("(1).csv", "(1).csv"),
    ] {
        assert_eq!(name(file), expected, "{file}");
    }
}
