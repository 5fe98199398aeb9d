//! A file as a workbook, and the XML of a sheet within a good one.
#![no_main]

use std::io::{Cursor, Write as _};

use libfuzzer_sys::fuzz_target;
use pipefy_tools::fuzzing::sheet;

const PARTS: [(&str, &str); 5] = [
    ("[Content_Types].xml", r#"<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>"#),
    ("_rels/.rels", r#"<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#),
    ("xl/workbook.xml", r#"<?xml version="1.0"?><workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="Jobs" sheetId="1" r:id="rId1"/></sheets></workbook>"#),
    ("xl/_rels/workbook.xml.rels", r#"<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>"#),
    ("xl/styles.xml", r#"<?xml version="1.0"?><styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><cellXfs><xf numFmtId="0"/><xf numFmtId="22"/><xf numFmtId="21"/></cellXfs></styleSheet>"#),
];

fn workbook(rows: &str) -> Vec<u8> {
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let sheet = format!(r#"<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>"#);
    for (name, text) in PARTS.into_iter().chain([("xl/worksheets/sheet1.xml", sheet.as_str())]) {
        zip.start_file(name, stored).expect("a part");
        zip.write_all(text.as_bytes()).expect("its text");
    }
    zip.finish().expect("a workbook").into_inner()
}

fuzz_target!(|data: (u16, bool, &[u8])| {
    let (limit, whole, bytes) = data;
    let limit = usize::from(limit);
    let file = if whole { bytes.to_vec() } else { workbook(&String::from_utf8_lossy(bytes)) };
    if let Some(csv) = sheet(file.into(), limit) {
        assert!(csv.chars().count() <= limit + 60, "{} for {limit}", csv.chars().count());
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(csv.as_bytes());
        assert!(reader.records().all(|row| row.is_ok()));
    }
});
