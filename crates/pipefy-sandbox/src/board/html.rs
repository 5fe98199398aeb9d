//! Writing HTML so that nothing of the data is taken for markup.

use crate::sheet::escaped;

/// HTML that is being written. Text is escaped, markup comes from the program only.
#[derive(Default)]
pub(super) struct Html(pub(super) String);

impl Html {
    /// Markup of the program.
    pub(super) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Data, escaped for text and for quoted attributes.
    pub(super) fn text(&mut self, data: &str) -> &mut Self {
        self.0.push_str(&escaped(data));
        self
    }

    /// An opening tag with a class (none when empty).
    pub(super) fn open(&mut self, tag: &'static str, class: &'static str) -> &mut Self {
        self.raw("<").raw(tag);
        if !class.is_empty() {
            self.raw(" class=\"").raw(class).raw("\"");
        }
        self.raw(">")
    }

    /// A closing tag.
    pub(super) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.raw("</").raw(tag).raw(">")
    }
}

/// A color as `#RRGGBB`; gray for anything else.
pub(super) fn color(value: &str) -> &str {
    let hex = value.strip_prefix('#').is_some_and(|d| d.len() == 6 && d.chars().all(|c| c.is_ascii_hexdigit()));
    if hex { value } else { "#98A2B3" }
}

/// A whole page.
pub(super) fn document(title: &str, body: &Html) -> Html {
    let mut out = Html::default();
    out.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>").text(title);
    out.raw("</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    out.raw("<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">");
    out.raw("<link rel=\"stylesheet\" href=\"/board.css\"></head><body>").raw(&body.0);
    out.raw("<script src=\"/board.js\"></script></body></html>\n");
    out
}
