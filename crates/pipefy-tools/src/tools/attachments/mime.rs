//! Content types by file name, from one built-in table, so that every machine answers alike.

/// What a name says about its content; `application/octet-stream` when it says nothing.
pub(crate) fn content_type(name: &str) -> String {
    let (stem, mut extension) = split(name);
    // A compression suffix says how, not what.
    if matches!(extension.as_str(), "gz" | "z" | "bz2" | "xz" | "br") {
        extension = split(stem).1;
    }
    let known = match extension.as_str() {
        "" => None,
        "docx" => Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        "tar" | "tgz" => Some("application/x-tar"),
        "svgz" => Some("image/svg+xml"),
        "eml" => Some("message/rfc822"),
        "heic" => Some("image/heic"),
        // Known to some tables as a chemical format, to nobody as that.
        "xyz" => None,
        other => mime_guess::from_ext(other).first_raw(),
    };
    known.unwrap_or("application/octet-stream").to_owned()
}

/// Stem and lower-case extension; a leading dot starts no extension.
fn split(name: &str) -> (&str, String) {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, extension.to_ascii_lowercase()),
        _ => (name, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_hold() {
        for (name, expected) in [
            ("a.pdf", "application/pdf"),
            ("A.PDF", "application/pdf"),
            ("a.csv", "text/csv"),
            ("a.png", "image/png"),
            ("a.jpg", "image/jpeg"),
            ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
            ("a.pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
            ("a.xls", "application/vnd.ms-excel"),
            ("a.doc", "application/msword"),
            ("a.zip", "application/zip"),
            ("a.json", "application/json"),
            ("a.txt", "text/plain"),
            ("a.xml", "text/xml"),
            ("a.md", "text/markdown"),
            ("a.svg", "image/svg+xml"),
            ("a.webp", "image/webp"),
            ("a.heic", "image/heic"),
            ("a.mp4", "video/mp4"),
            ("a.eml", "message/rfc822"),
            ("a.html", "text/html"),
            ("a.csv.gz", "text/csv"),
            ("a.tar.gz", "application/x-tar"),
            ("a.tgz", "application/x-tar"),
            ("a.gz", "application/octet-stream"),
            ("a.xyz", "application/octet-stream"),
            ("README", "application/octet-stream"),
            (".pdf", "application/octet-stream"),
            ("", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name), expected, "{name}");
        }
    }
}
