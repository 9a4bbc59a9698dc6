//! The records of an operator's file: its bytes decoded, and split at separators and line breaks.
//!
//! The ways of spreadsheets are read: UTF-8, or UTF-16 with its byte order mark; commas, semicolons or tabs, or the
//! separator of a first line `sep=;`; all line breaks; quotation marks. A quotation mark that is not closed, is closed
//! in the middle of a field, or has whole records within, refuses the file: it probably swallowed the lines below it.

/// A line of a file, or several lines with a line break between quotation marks.
pub(super) struct CsvRecord {
    /// The first line, as an editor counts them, from 1.
    pub(super) line_number: u64,
    pub(super) fields: Vec<String>,
}

/// Returns the records that hold more than separators and blanks.
pub(super) fn read_records(bytes: &[u8]) -> Result<Vec<CsvRecord>, String> {
    let text = decode(bytes)?.replace("\r\n", "\n").replace('\r', "\n");
    let (first, below) = text.split_once('\n').unwrap_or((&text, ""));
    let named = first.strip_prefix("sep=").and_then(|mark| mark.parse::<char>().ok());
    let count = |delimiter: &char| first.matches(*delimiter).count();
    // With equal counts the comma wins, as in a file with one column.
    let frequent = ['\t', ';', ','].into_iter().max_by_key(count);
    let delimiter = named.or(frequent).unwrap_or(',');
    let (mut rest, mut line_number) = if named.is_some() { (below, 2) } else { (text.as_str(), 1) };
    let mut records: Vec<CsvRecord> = Vec::new();
    while !rest.is_empty() {
        let columns = records.first().map_or(0, |head| head.fields.len());
        let (fields, behind) = take_record(rest, delimiter, columns).ok_or_else(|| {
            format!(
                "line {line_number}: a quotation mark is not closed at the end of its field, and may swallow the lines \
                 below; close it, or write it twice between two others if it is a part of the text"
            )
        })?;
        if !fields.iter().all(|field| field.trim().is_empty()) {
            records.push(CsvRecord { line_number, fields });
        }
        line_number += rest[..rest.len() - behind.len()].matches('\n').count() as u64;
        rest = behind;
    }
    Ok(records)
}

fn decode(bytes: &[u8]) -> Result<String, String> {
    let utf_16 = |units: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = units.as_chunks().0.iter().copied().map(unit).collect();
        String::from_utf16(&units).map_err(|_| "it begins as UTF-16 and is not; save it as UTF-8".to_owned())
    };
    match bytes {
        [0xff, 0xfe, units @ ..] => utf_16(units, u16::from_le_bytes),
        [0xfe, 0xff, units @ ..] => utf_16(units, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, text @ ..] | text => String::from_utf8(text.to_vec()).map_err(|error| {
            let before = &text[..error.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            format!("line {line}: not UTF-8; save the file as UTF-8")
        }),
    }
}

/// Returns the fields of the first record, and the text behind it; `None` if a quotation mark is not closed.
fn take_record(text: &str, delimiter: char, columns: usize) -> Option<(Vec<String>, &str)> {
    let (mut fields, mut rest) = (Vec::new(), text);
    let is_record = |line: &str| columns > 1 && line.matches(delimiter).count() + 1 == columns;
    loop {
        let (field, behind) = take_field(rest, delimiter)?;
        if field.lines().skip(1).any(is_record) {
            return None;
        }
        fields.push(field);
        match behind.strip_prefix(delimiter) {
            Some(next) => rest = next,
            None => return Some((fields, behind.strip_prefix('\n').unwrap_or(behind))),
        }
    }
}

fn take_field(text: &str, delimiter: char) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([delimiter, '\n']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut end = quoted.find('"')?;
    while quoted[end + 1..].starts_with('"') {
        end += 2 + quoted[end + 2..].find('"')?;
    }
    let behind = quoted[end + 1..].trim_start_matches(' ');
    let is_closed = behind.is_empty() || behind.starts_with([delimiter, '\n']);
    is_closed.then(|| (quoted[..end].replace("\"\"", "\""), behind))
}
