//! Files of rows: CSV (RFC 4180) and XLSX (ECMA-376) with one sheet.

use crate::error::GqlError;
use std::io::{Cursor, Write as _};
use zip::write::SimpleFileOptions;

/// A table of texts, the first row being the header.
pub(crate) type Rows = Vec<Vec<String>>;

/// CSV: commas, CRLF, quotes only where needed.
pub(crate) fn csv(rows: &Rows) -> Vec<u8> {
    let cell = |text: &String| {
        if text.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.clone() }
    };
    let mut out = String::new();
    for row in rows {
        out.push_str(&row.iter().map(cell).collect::<Vec<_>>().join(","));
        out.push_str("\r\n");
    }
    out.into_bytes()
}

const TYPES: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>"#;

const PACKAGE: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#;

const SHEETS: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#;

/// The media type of an XLSX file.
pub(crate) const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// XLSX: whole numbers as numbers, everything else as inline text.
pub(crate) fn xlsx(sheet: &str, rows: &Rows) -> Result<Vec<u8>, GqlError> {
    let mut body = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>",
    );
    for (index, row) in rows.iter().enumerate() {
        let number = index + 1;
        body.push_str(&format!("<row r=\"{number}\">"));
        for (place, text) in row.iter().enumerate() {
            let at = format!("{}{number}", column(place));
            match text.parse::<i64>() {
                Ok(value) if index > 0 && value.to_string() == *text => {
                    body.push_str(&format!("<c r=\"{at}\"><v>{value}</v></c>"));
                }
                _ => body.push_str(&format!(
                    "<c r=\"{at}\" t=\"inlineStr\"><is><t xml:space=\"preserve\">{}</t></is></c>",
                    escaped(text)
                )),
            }
        }
        body.push_str("</row>");
    }
    body.push_str("</sheetData></worksheet>");
    let book = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets><sheet name=\"{}\" sheetId=\"1\" r:id=\"rId1\"/></sheets></workbook>",
        escaped(sheet)
    );
    let mut file = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let parts = [
        ("[Content_Types].xml", TYPES),
        ("_rels/.rels", PACKAGE),
        ("xl/_rels/workbook.xml.rels", SHEETS),
        ("xl/workbook.xml", &book),
        ("xl/worksheets/sheet1.xml", &body),
    ];
    let broken = |error: String| {
        tracing::error!(%error, "xlsx");
        GqlError::new("INTERNAL_SERVER_ERROR", "Something went wrong")
    };
    for (name, text) in parts {
        file.start_file(name, SimpleFileOptions::default()).map_err(|e| broken(e.to_string()))?;
        file.write_all(text.as_bytes()).map_err(|e| broken(e.to_string()))?;
    }
    Ok(file.finish().map_err(|e| broken(e.to_string()))?.into_inner())
}

/// `A`, ..., `Z`, `AA`, ...
fn column(place: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(place % 26).unwrap_or_default());
    match place / 26 {
        0 => letter.to_string(),
        more => format!("{}{letter}", column(more - 1)),
    }
}

/// Text for XML and HTML; control characters that XML forbids are dropped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\r' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn csv_quotes_only_what_needs_it() {
        let rows = vec![vec!["a".to_owned(), "b \"c\"".to_owned()], vec!["1,5".to_owned(), "x\ny".to_owned()]];
        assert_eq!(String::from_utf8(csv(&rows)).unwrap(), "a,\"b \"\"c\"\"\"\r\n\"1,5\",\"x\ny\"\r\n");
    }

    #[test]
    fn columns_go_on_after_z() {
        assert_eq!(["A", "Z", "AA", "AZ", "BA"], [0, 25, 26, 51, 52].map(column).each_ref().map(String::as_str));
    }
}
