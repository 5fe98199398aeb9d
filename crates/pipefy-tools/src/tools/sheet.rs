//! A file of rows as CSV, within limits: a small workbook can hold a huge table.

use std::io::{self, Cursor, Read as _};

use bytes::Bytes;
use calamine::{DataRef, ExcelDateTime, Reader as _, SheetType, Xlsx};

/// Bytes that a workbook may hold unpacked.
const UNPACKED: u64 = 256 * 1024 * 1024;

/// A file of rows as CSV.
#[derive(Debug)]
pub(crate) struct Table {
    /// Name of the sheet; empty for a file that is CSV itself.
    pub(crate) name: String,
    /// Whole rows in `csv`, header included.
    pub(crate) rows: usize,
    /// Whether rows are missing.
    pub(crate) truncated: bool,
    /// The text: commas, CRLF, quotes where needed.
    pub(crate) csv: String,
}

/// Reads a workbook or CSV; at most `limit` characters of text, and then a last line that says it was cut.
///
/// # Errors
/// The file is neither, or too large unpacked; in words.
pub(crate) fn read(file: Bytes, limit: usize) -> Result<Table, String> {
    // The first bytes of every zip archive, which a workbook is.
    if file.starts_with(b"PK") {
        return to_csv(file, limit);
    }
    let text = std::str::from_utf8(&file).map_err(|_| "it is neither an xlsx workbook nor CSV in UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('<') {
        return Err("it is a web page".to_owned());
    }
    Ok(whole_rows(text, limit))
}

/// The rows of CSV text that fit; a line end inside of quotes ends no row.
fn whole_rows(text: &str, limit: usize) -> Table {
    let mut table = Table { name: String::new(), rows: 0, truncated: false, csv: String::new() };
    let (mut quoted, mut characters, mut end) = (false, 0, 0);
    for (at, character) in text.char_indices() {
        characters += 1;
        quoted ^= character == '"';
        let is_last = at + character.len_utf8() == text.len();
        if characters > limit {
            table.truncated = true;
            break;
        }
        if (character == '\n' && !quoted) || is_last {
            end = at + character.len_utf8();
            table.rows += 1;
        }
    }
    table.csv = text.get(..end).unwrap_or_default().to_owned();
    if table.truncated {
        table.csv.push_str(CUT);
    }
    table
}

/// The size of a sheet (ECMA-376).
const ROWS_AT_MOST: u32 = 1 << 20;
const COLUMNS_AT_MOST: u32 = 1 << 14;

const CUT: &str = "# [truncated: raise max_output_chars for more]\r\n";

/// Reads the first worksheet; at most `limit` characters of text, and then a last line that says it was cut.
///
/// # Errors
/// The file is no workbook, or too large unpacked; in words.
fn to_csv(file: Bytes, limit: usize) -> Result<Table, String> {
    // The reader's arithmetic overflows on places that no sheet has, which panics in builds that check.
    std::panic::catch_unwind(|| rows(file, limit)).unwrap_or_else(|_| Err("its first sheet is damaged".to_owned()))
}

fn rows(file: Bytes, limit: usize) -> Result<Table, String> {
    bounded(&file)?;
    let mut book: Xlsx<_> =
        Xlsx::new(Cursor::new(file)).map_err(|error| format!("it is no xlsx workbook ({error})"))?;
    let first = book.sheets_metadata().iter().find(|sheet| sheet.typ == SheetType::WorkSheet);
    let name = first.map(|sheet| sheet.name.clone()).ok_or("it has no worksheet")?;
    let mut width = 0;
    let mut height = 0;
    let mut kept: Vec<(u32, u32, String)> = Vec::new();
    let mut characters = 0;
    let mut cells =
        book.worksheet_cells_reader(&name).map_err(|error| format!("its first sheet is damaged ({error})"))?;
    while let Some(cell) = cells.next_cell().map_err(|error| format!("its first sheet is damaged ({error})"))? {
        let (row, column) = cell.get_position();
        if row >= ROWS_AT_MOST || column >= COLUMNS_AT_MOST {
            return Err("its first sheet is damaged (a cell beyond its last)".to_owned());
        }
        width = width.max(column + 1);
        height = height.max(row + 1);
        // What lies behind the limit is not shown, so it need not be kept; its place still counts.
        if characters <= limit {
            let text = text_of(cell.get_value());
            characters += text.chars().count() + 1;
            if !text.is_empty() {
                kept.push((row, column, text));
            }
        }
    }
    kept.sort_by_key(|(row, column, _)| (*row, *column));
    Ok(write(name, width, height, kept, limit))
}

/// Unpacks the file once, counting only.
fn bounded(file: &Bytes) -> Result<(), String> {
    let damaged = |error: &dyn std::fmt::Display| format!("it is no xlsx workbook ({error})");
    let mut archive = zip::ZipArchive::new(Cursor::new(file)).map_err(|error| damaged(&error))?;
    let mut left = UNPACKED;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| damaged(&error))?;
        let size = io::copy(&mut entry.take(left + 1), &mut io::sink()).map_err(|error| damaged(&error))?;
        left = left.checked_sub(size).ok_or_else(|| format!("it is larger than {} MiB unpacked", UNPACKED >> 20))?;
    }
    Ok(())
}

fn write(name: String, width: u32, height: u32, cells: Vec<(u32, u32, String)>, limit: usize) -> Table {
    let mut table = Table { name, rows: 0, truncated: false, csv: String::new() };
    let mut used = 0;
    let mut cells = cells.into_iter().peekable();
    for row in 0..height {
        let mut line = String::new();
        let mut column = 0;
        while let Some((_, at, text)) = cells.next_if(|(r, _, _)| *r == row) {
            while column < at {
                line.push(',');
                column += 1;
            }
            push_field(&mut line, &text);
        }
        while column + 1 < width {
            line.push(',');
            column += 1;
        }
        if line.is_empty() {
            // One empty column: a bare line end would be read as no row at all.
            line.push_str("\"\"");
        }
        line.push_str("\r\n");
        let length = line.chars().count();
        if used + length > limit {
            table.truncated = true;
            table.csv.extend(line.chars().take(limit - used));
            break;
        }
        used += length;
        table.csv.push_str(&line);
        table.rows += 1;
    }
    if table.truncated {
        if !table.csv.ends_with('\n') {
            table.csv.push_str("\r\n");
        }
        table.csv.push_str(CUT);
    }
    table
}

fn push_field(line: &mut String, text: &str) {
    if text.contains([',', '"', '\r', '\n']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

fn text_of(value: &DataRef<'_>) -> String {
    match value {
        DataRef::Empty => String::new(),
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number_text(*number),
        DataRef::String(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        DataRef::DateTime(time) => time_text(time),
        DataRef::DateTimeIso(text) => iso_text(text),
        DataRef::DurationIso(text) => text.clone(),
        DataRef::Error(error) => error.to_string(),
    }
}

/// Whole numbers without a point, others as short as they can be read back.
fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 { format!("{number:.0}") } else { number.to_string() }
}

/// A day and time, a time of day, or a length of time; whatever is none of them stays a number.
fn time_text(time: &ExcelDateTime) -> String {
    let value = time.as_f64();
    if !(0.0..2_958_466.0).contains(&value) {
        return number_text(value);
    }
    if time.is_duration() || value < 1.0 {
        let seconds = (value * 86_400.0).round() as u64;
        return format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// `2026-01-02T03:04:05.6Z` as the other dates are written.
fn iso_text(text: &str) -> String {
    let plain = text.trim_end_matches('Z').replace('T', " ");
    let plain = plain.split_once('.').map_or(plain.as_str(), |(whole, _)| whole);
    if plain.len() == 10 { format!("{plain} 00:00:00") } else { plain.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// A workbook whose first sheet holds `rows` (XML) and is not the active one.
    fn workbook(rows: &str) -> Bytes {
        let parts = [
            ("[Content_Types].xml", r#"<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>"#.to_owned()),
            ("_rels/.rels", r#"<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#.to_owned()),
            ("xl/workbook.xml", r#"<?xml version="1.0"?><workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><bookViews><workbookView activeTab="1"/></bookViews><sheets><sheet name="Jobs" sheetId="1" r:id="rId1"/><sheet name="Other" sheetId="2" r:id="rId2"/></sheets></workbook>"#.to_owned()),
            ("xl/_rels/workbook.xml.rels", r#"<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet2.xml"/><Relationship Id="rId3" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>"#.to_owned()),
            ("xl/styles.xml", r#"<?xml version="1.0"?><styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><cellXfs><xf numFmtId="0"/><xf numFmtId="22"/><xf numFmtId="21"/></cellXfs></styleSheet>"#.to_owned()),
            ("xl/worksheets/sheet1.xml", format!(r#"<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>"#)),
            ("xl/worksheets/sheet2.xml", r#"<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData/></worksheet>"#.to_owned()),
        ];
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in parts {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner().into()
    }

    const ROWS: &str = r#"<row r="1"><c r="A1" t="inlineStr"><is><t>name</t></is></c><c r="B1" t="inlineStr"><is><t>a "b", c</t></is></c><c r="C1" t="inlineStr"><is><t>x</t></is></c></row>
        <row r="3"><c r="A3"><v>5</v></c><c r="B3"><v>1.25</v></c><c r="C3" t="b"><v>1</v></c></row>
        <row r="4"><c r="A4" s="1"><v>45000.333333333336</v></c><c r="B4" s="2"><v>0.5</v></c><c r="C4"><f>1+1</f></c></row>"#;

    #[test]
    fn values_are_written_as_people_expect() {
        let table = to_csv(workbook(ROWS), 10_000).unwrap();
        assert_eq!(table.name, "Jobs");
        assert_eq!(table.csv, "name,\"a \"\"b\"\", c\",x\r\n,,\r\n5,1.25,True\r\n2023-03-15 08:00:00,12:00:00,\r\n");
        assert_eq!((table.rows, table.truncated), (4, false));
    }

    #[test]
    fn output_is_cut_at_the_limit() {
        let table = to_csv(workbook(ROWS), 27).unwrap();
        assert_eq!(
            table.csv,
            "name,\"a \"\"b\"\", c\",x\r\n,,\r\n5,\r\n# [truncated: raise max_output_chars for more]\r\n"
        );
        assert_eq!((table.rows, table.truncated), (2, true));
    }

    #[test]
    fn a_far_cell_costs_no_memory() {
        let rows = r#"<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>"#;
        let table = to_csv(workbook(rows), 100_000).unwrap();
        assert!(table.truncated && table.csv.len() < 100_200);
        let one = to_csv(workbook(r#"<row r="2"><c r="A2"><v>1</v></c></row>"#), 1_000).unwrap();
        assert_eq!(one.csv, "\"\"\r\n1\r\n");
        assert!(to_csv(Bytes::from_static(b"no workbook"), 1_000).is_err());
    }

    #[test]
    fn a_file_that_is_csv_is_cut_at_whole_rows() {
        let file = Bytes::from_static("\u{feff}a,b\r\n\"x\ny\",2\r\nlast,3".as_bytes());
        let all = read(file.clone(), 1_000).unwrap();
        assert_eq!((all.csv.as_str(), all.rows, all.truncated), ("a,b\r\n\"x\ny\",2\r\nlast,3", 3, false));
        let cut = read(file, 17).unwrap();
        assert_eq!((cut.rows, cut.truncated), (2, true));
        assert!(cut.csv.starts_with("a,b\r\n\"x\ny\",2\r\n# [truncated"), "{}", cut.csv);
        for damaged in [&b"<html>"[..], b"PK\x03\x04", b"\xff\xfe"] {
            assert!(read(Bytes::copy_from_slice(damaged), 100).is_err());
        }
    }

    /// As text of an XML element, white space kept.
    fn escaped(text: &str) -> String {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\r', "&#13;")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// What a CSV reader makes of it is what the cells held.
        #[test]
        fn cells_come_back_from_the_csv(
            width in 1usize..6,
            cells in prop::collection::vec(prop_oneof![2 => "[ -~\u{e0}-\u{ff}\n\r\",]{0,12}", 1 => Just(String::new())], 1..40),
        ) {
            let rows: Vec<Vec<String>> = cells.chunks(width).map(|row| {
                let mut row = row.to_vec();
                row.resize(width, String::new());
                row
            }).collect();
            let mut xml = String::new();
            for (number, row) in rows.iter().enumerate() {
                xml.push_str(&format!("<row r=\"{}\">", number + 1));
                for (column, text) in row.iter().enumerate() {
                    let place = format!("{}{}", char::from(b'A' + column as u8), number + 1);
                    let text = escaped(text);
                    xml.push_str(&format!("<c r=\"{place}\" t=\"inlineStr\"><is><t xml:space=\"preserve\">{text}</t></is></c>"));
                }
                xml.push_str("</row>");
            }
            let table = to_csv(workbook(&xml), 1_000_000).unwrap();
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(table.csv.as_bytes());
            let read: Vec<Vec<String>> =
                reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
            prop_assert_eq!(read, rows);
            prop_assert_eq!(table.truncated, false);
        }

        /// Whatever the sheet or the file holds: an answer, within its limit.
        #[test]
        fn nothing_breaks_it(
            pieces in prop::collection::vec(prop_oneof![
                Just("<row r=\"2\">"), Just("<row>"), Just("</row>"), Just("<c r=\"B2\">"), Just("<c r=\"XFD1048576\">"),
                Just("<c r=\"ZZZZ99999999999\">"), Just("<c r=\"\" s=\"9\" t=\"s\">"), Just("<c t=\"d\">"), Just("<c s=\"1\">"),
                Just("</c>"), Just("<v>"), Just("</v>"), Just("1e308"), Just("-5"), Just("NaN"), Just("2958466"), Just("\u{e9}"),
                Just("<f>"), Just("</f>"), Just("<is><t>"), Just("</t></is>"), Just("&bad;"), Just("<![CDATA["), Just("<dimension ref=\"A1:XFD9\"/>"),
            ], 0..24),
            limit in 0usize..400,
            junk in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            if let Ok(table) = to_csv(workbook(&pieces.concat()), limit) {
                prop_assert!(table.csv.chars().count() <= limit + 60, "{}", table.csv);
            }
            prop_assert!(to_csv(junk.into(), limit).is_err());
        }
    }
}
