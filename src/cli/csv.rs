//! CSV files of operators: headers by name, every bad line reported with its number.
//!
//! A file with a bad line is refused as a whole unless `partial` is set. The usual formats of spreadsheets
//! are accepted: commas, semicolons or tabs, a byte order mark, both line breaks, quotes. A line's key is
//! made of the file's name, the digest of the file and the line's number. So importing an unchanged file
//! again changes nothing. Another file of equal name has new keys, also for lines with equal text.

use super::CommandFailure;
use super::output::plain_line;
use clap::Args;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct CsvImportArgs {
    /// CSV file; the first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Import the valid lines of a file that has invalid ones
    #[arg(long)]
    partial: bool,
}

/// A parsed line.
#[derive(Debug)]
pub struct CsvRow {
    /// The line number in the file, from 1.
    pub line_number: u64,
    values: HashMap<String, String>,
    /// The key: the file's name, the digest of its content, and the line number.
    pub key: String,
}

impl CsvRow {
    /// Returns the trimmed value of a column; `None` if it is empty or the column is missing.
    pub fn get(&self, column: &str) -> Option<&str> {
        self.values.get(column).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns the value of a column that must not be empty.
    ///
    /// # Errors
    /// A sentence that names the column.
    pub fn required_value(&self, column: &str) -> Result<&str, String> {
        self.get(column).ok_or_else(|| format!("`{column}` is empty"))
    }

    /// Returns a whole number from a column that must not be empty.
    ///
    /// # Errors
    /// A sentence that names the column and its content.
    pub fn whole_number(&self, column: &str) -> Result<i64, String> {
        let text = self.required_value(column)?;
        text.parse().map_err(|_| format!("`{column}` is `{text}`, which is not a whole number"))
    }

    /// Returns a whole number; `None` if the column is empty or missing.
    pub(super) fn optional_number(&self, column: &str) -> Result<Option<i64>, String> {
        self.get(column).map(|_| self.whole_number(column)).transpose()
    }
}

/// The columns of a file; other columns are reported and ignored.
#[derive(Debug)]
pub struct CsvColumns {
    /// The required columns.
    pub required: &'static [&'static str],
    /// The optional columns.
    pub optional: &'static [&'static str],
}

/// The reason that a file was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum CsvRefusal {
    /// The first line does not name the columns; a sentence.
    Header(String),
    /// The bad lines, each a sentence that begins with the line number.
    Lines(Vec<String>),
}

/// Reads a file and converts each line. Any bad line refuses the whole file, unless `partial` is set.
///
/// Also returns notes on ignored lines and columns, for [`append_notes`].
pub(super) fn import_file<T>(
    args: &CsvImportArgs,
    columns: &CsvColumns,
    read: impl Fn(&CsvRow) -> Result<T, String>,
) -> Result<(Vec<T>, Vec<String>), CommandFailure> {
    let file = &args.file;
    let unreadable = |why: String| CommandFailure::failed(format!("cannot read {}: {why}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    parse_rows(&name, &bytes, columns, args.partial, read).map_err(|refusal| match refusal {
        CsvRefusal::Header(why) => unreadable(why),
        CsvRefusal::Lines(problems) => args.refusal(&problems, ""),
    })
}

impl CsvImportArgs {
    /// Refuses the file because of these lines, unless its valid lines are to be imported. `hint` is another remedy.
    pub(super) fn refuse_lines(&self, problems: &[String], hint: &str) -> Result<(), CommandFailure> {
        if self.partial { Ok(()) } else { Err(self.refusal(problems, hint)) }
    }

    fn refusal(&self, problems: &[String], hint: &str) -> CommandFailure {
        let lines: Vec<_> = problems.iter().map(|problem| plain_line(problem)).collect();
        let message = format!(
            "cannot import {}:\n  {}\n{} invalid line(s); nothing was imported. Correct them{hint}, or import the other \
             lines with --partial and the corrected lines later in a separate file",
            plain_line(&self.file.display().to_string()),
            lines.join("\n  "),
            lines.len(),
        );
        CommandFailure::multiline(message, 1)
    }
}

/// Converts the bytes of the file called `name`, as `import` does.
///
/// # Errors
/// Fails if the first line does not name these columns. Otherwise returns every bad line at once, unless
/// `partial` is set.
pub fn parse_rows<T>(
    name: &str,
    bytes: &[u8],
    columns: &CsvColumns,
    partial: bool,
    read: impl Fn(&CsvRow) -> Result<T, String>,
) -> Result<(Vec<T>, Vec<String>), CsvRefusal> {
    let file = CsvFile::new(name, bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let head = file.column_names(columns).map_err(CsvRefusal::Header)?;
    let (mut imported, mut problems) = (Vec::new(), Vec::new());
    for line in file.rows(&head) {
        match line.and_then(|line| read(&line).map_err(|why| format!("line {}: {why}", line.line_number))) {
            Ok(value) => imported.push(value),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() && !partial {
        return Err(CsvRefusal::Lines(problems));
    }
    let mut notes: Vec<String> = problems.iter().map(|problem| format!("not imported: {problem}")).collect();
    let known = [columns.required, columns.optional].concat();
    let is_other = |name: &&str| !name.is_empty() && !known.contains(name);
    let others: Vec<&str> = head.iter().map(String::as_str).filter(is_other).collect();
    if !others.is_empty() {
        notes.push(format!("ignored: unknown column(s) `{}`", others.join("`, `")));
    }
    Ok((imported, notes))
}

pub(super) fn append_notes(text: &mut String, notes: &[String]) {
    for note in notes {
        text.push_str(&plain_line(note));
        text.push('\n');
    }
}

/// A file's content, after its byte order mark.
struct CsvFile<'a> {
    bytes: &'a [u8],
    delimiter: u8,
    key_prefix: String,
}

impl<'a> CsvFile<'a> {
    fn new(name: &str, bytes: &'a [u8]) -> Self {
        let first: &[u8] = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let count = |delimiter: &u8| first.iter().filter(|byte| *byte == delimiter).count();
        // With equal counts the comma wins, as in a file with one column.
        let delimiter = [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
        let mut digest = [0; 8];
        digest.copy_from_slice(&Sha256::digest(bytes)[..8]);
        Self { bytes, delimiter, key_prefix: format!("{name}:{:016x}", u64::from_be_bytes(digest)) }
    }

    fn csv_reader(&self) -> csv::Reader<&'a [u8]> {
        csv::ReaderBuilder::new().delimiter(self.delimiter).flexible(true).from_reader(self.bytes)
    }

    fn column_names(&self, columns: &CsvColumns) -> Result<Vec<String>, String> {
        let head = self.csv_reader().headers().map_err(|error| error.to_string())?.clone();
        let head: Vec<String> = head.iter().map(|name| name.trim().to_lowercase()).collect();
        let is_there = |name: &str| head.iter().any(|head| head == name);
        let missing: Vec<&str> = columns.required.iter().copied().filter(|name| !is_there(name)).collect();
        if !missing.is_empty() {
            let names = missing.join("`, `");
            return Err(format!("the first line must name the columns; `{names}` is missing"));
        }
        let twice = |(at, name): &(usize, &String)| !name.is_empty() && head[..*at].contains(name);
        match head.iter().enumerate().find(twice) {
            Some((_, name)) => Err(format!("the first line names the column `{name}` twice")),
            None => Ok(head),
        }
    }

    fn rows(&self, head: &[String]) -> Vec<Result<CsvRow, String>> {
        let mut breaks = LineCounter { bytes: self.bytes, offset: 0, line: 1 };
        let records = self.csv_reader().into_byte_records();
        records.map(|record| self.parse_row(record, head, &mut breaks)).collect()
    }

    fn parse_row(
        &self,
        record: csv::Result<csv::ByteRecord>,
        head: &[String],
        breaks: &mut LineCounter<'_>,
    ) -> Result<CsvRow, String> {
        let record = record.map_err(|error| error.to_string())?;
        let number = breaks.line_at(record.position().map_or(0, csv::Position::byte));
        let record = csv::StringRecord::from_byte_record(record)
            .map_err(|_| format!("line {number}: not UTF-8; save the file as UTF-8"))?;
        if record.len() != head.len() {
            let (fields, columns) = (record.len(), head.len());
            return Err(format!(
                "line {number}: {fields} field(s), but the first line names {columns} column(s)"
            ));
        }
        let values = head.iter().cloned().zip(record.iter().map(str::to_owned)).collect();
        Ok(CsvRow { line_number: number, values, key: format!("{}:{number}", self.key_prefix) })
    }
}

/// Counts lines as an editor does.
///
/// The CSV reader's own count is one too low after a CRLF, and ignores empty lines before a record.
struct LineCounter<'a> {
    bytes: &'a [u8],
    offset: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// Returns the line of the record at `position`. Positions must not decrease between calls.
    fn line_at(&mut self, position: u64) -> u64 {
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(self.bytes.len());
        let blanks = self.bytes[from..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let start = from + blanks;
        let ends = |at: &usize| match self.bytes[*at] {
            b'\n' => true,
            b'\r' => self.bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        self.line += (self.offset..start).filter(ends).count() as u64;
        self.offset = start;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const PAIR: CsvColumns = CsvColumns { required: &["sku", "quantity"], optional: &["note"] };
    const SKU: CsvColumns = CsvColumns { required: &["sku"], optional: &[] };

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn import<T>(
        file: impl Into<PathBuf>,
        columns: &CsvColumns,
        partial: bool,
        read: impl Fn(&CsvRow) -> Result<T, String>,
    ) -> Result<(Vec<T>, Vec<String>), CommandFailure> {
        import_file(&CsvImportArgs { file: file.into(), partial }, columns, read)
    }

    fn pair(line: &CsvRow) -> Result<(u64, String, i64), String> {
        Ok((line.line_number, line.required_value("sku")?.to_owned(), line.whole_number("quantity")?))
    }

    #[test]
    fn every_bad_line_is_named_and_nothing_is_imported() {
        let file = file(b"SKU,Quantity\nA,1\n,2\nB,x\n\"C, \"\"c\"\"\",3\nD\nE,1,2\nF\xff,1\n");
        let error = import(file.path(), &PAIR, false, pair).unwrap_err().message;
        let expected = [
            "line 3: `sku` is empty",
            "line 4: `quantity` is `x`, which is not a whole number",
            "line 6: 1 field(s), but the first line names 2 column(s)",
            "line 7: 3 field(s)",
            "line 8: not UTF-8",
            "5 invalid line(s); nothing was imported",
        ];
        for expected in expected {
            assert!(error.contains(expected), "{expected}: {error}");
        }
        let (taken, notes) = import(file.path(), &PAIR, true, pair).unwrap();
        assert_eq!(taken, [(2, "A".to_owned(), 1), (5, "C, \"c\"".to_owned(), 3)]);
        assert_eq!(notes.len(), 5);
        assert_eq!(notes[0], "not imported: line 3: `sku` is empty");
    }

    #[test]
    fn a_spreadsheets_ways_are_all_read_with_the_lines_an_editor_shows() {
        let cases: [&[u8]; 6] = [
            b"sku,quantity\n\nA,1\n",
            b"sku,quantity\r\n\r\nA,1\r\n",
            b"\xef\xbb\xbf\"sku\",\"quantity\"\r\n\r\n\"A\",\"1\"",
            b"quantity;sku\n\n1;A\n",
            b"SKU\tQuantity\r\n\r\nA\t 1 \r\n",
            b" Sku , Quantity \r\rA , 1\r",
        ];
        for bytes in cases {
            let taken = import(file(bytes).path(), &PAIR, false, pair).unwrap();
            assert_eq!(taken, (vec![(3, "A".to_owned(), 1)], vec![]), "{}", String::from_utf8_lossy(bytes));
        }
        let several = file(b"sku,quantity\r\n\"A\r\nB\",1\r\nC,2\r\n");
        let numbers: Vec<u64> =
            import(several.path(), &PAIR, false, pair).unwrap().0.iter().map(|row| row.0).collect();
        assert_eq!(numbers, [2, 4], "a quoted field may hold a line break");
    }

    #[test]
    fn a_column_nobody_reads_is_reported_and_one_named_twice_refused() {
        let (_, notes) =
            import(file(b"price,sku,quantity,note,\n9,A,1,x,\n").path(), &PAIR, false, pair).unwrap();
        assert_eq!(notes, ["ignored: unknown column(s) `price`"]);
        let error = import(file(b"sku,SKU\nA,B\n").path(), &SKU, false, |_| Ok(())).unwrap_err();
        assert!(error.message.contains("`sku` twice"), "{}", error.message);
        let error = import(file(b"x\n1\n").path(), &SKU, false, |_| Ok(())).unwrap_err();
        assert!(error.message.contains("`sku` is missing"), "{}", error.message);
    }

    #[test]
    fn a_line_is_known_by_its_file_and_its_place_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let keys = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            import(&path, &SKU, false, |line| Ok(line.key.clone())).unwrap().0
        };
        let first = keys("a.csv", "sku\nA\nB\nA\n");
        assert_eq!(first, keys("a.csv", "sku\nA\nB\nA\n"), "the same file");
        assert_ne!(first[0], first[2], "a line twice in one file is two changes");
        let other_name = keys("b.csv", "sku\nA\nB\nA\n");
        let other_content = keys("a.csv", "sku\nA\nB\nC\n");
        for (n, key) in first.iter().enumerate() {
            assert!(*key != other_name[n] && *key != other_content[n], "line {n}");
        }
    }
}
