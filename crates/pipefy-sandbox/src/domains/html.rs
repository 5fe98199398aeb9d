//! The rules for the HTML of interfaces, as data for authors and as a check.

use crate::error::GqlError;
use serde_json::{Value, json};

/// Colors of an interface.
pub(super) const COLORS: [&str; 12] =
    ["blue", "cyan", "gray", "green", "indigo", "lime", "pink", "purple", "orange", "red", "sky", "yellow"];

/// Columns that every data source has besides its fields.
pub(super) const FIXED_COLUMNS: [&str; 8] =
    ["id", "title", "current_phase", "assignees", "labels", "created_at", "updated_at", "due_date"];

const MOST_BYTES: usize = 1024 * 1024;
const DEEPEST: usize = 64;
const MOST_ATTRIBUTES: usize = 40;
/// Violations that one answer lists.
const MOST_VIOLATIONS: usize = 50;

const FORBIDDEN_TAGS: [&str; 9] = ["script", "iframe", "object", "embed", "applet", "base", "meta", "link", "frame"];

const TAGS: &[&str] = &[
    "a",
    "abbr",
    "article",
    "aside",
    "b",
    "blockquote",
    "br",
    "button",
    "caption",
    "circle",
    "code",
    "col",
    "colgroup",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "g",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "i",
    "img",
    "input",
    "kbd",
    "label",
    "legend",
    "li",
    "line",
    "main",
    "mark",
    "nav",
    "ol",
    "option",
    "p",
    "path",
    "pre",
    "progress",
    "rect",
    "section",
    "select",
    "small",
    "span",
    "strong",
    "style",
    "sub",
    "summary",
    "sup",
    "svg",
    "table",
    "tbody",
    "td",
    "template",
    "textarea",
    "th",
    "thead",
    "time",
    "tr",
];

const MORE_TAGS: &[&str] = &["u", "ul", "tfoot", "html", "head", "body", "title", "text", "video"];

const PREFIXES: [&str; 3] = ["aria-", "data-", "stroke-"];

const ATTRIBUTES: &[&str] = &[
    "alt",
    "class",
    "colspan",
    "content",
    "cx",
    "cy",
    "d",
    "dir",
    "disabled",
    "fill",
    "for",
    "height",
    "hidden",
    "href",
    "id",
    "label",
    "lang",
    "max",
    "min",
    "name",
    "open",
    "placeholder",
    "points",
    "r",
    "role",
    "rowspan",
    "rx",
    "scope",
    "selected",
    "span",
    "src",
    "step",
    "stroke",
    "style",
    "tabindex",
    "target",
    "title",
    "transform",
    "type",
    "value",
    "viewbox",
    "width",
    "x",
    "xmlns",
    "y",
    "rel",
];

const LINKS: [&str; 2] = ["href", "src"];

/// The guidelines, in the shape of the API.
pub(super) fn guidelines() -> Value {
    let rule =
        |code: &str, subject: &str, message: &str| json!({ "code": code, "message": message, "subject": subject });
    let tags: Vec<&str> = TAGS.iter().chain(MORE_TAGS).copied().collect();
    json!({
        "allowedTags": tags,
        "allowedAttributePrefixes": PREFIXES,
        "allowedPlainAttributes": ATTRIBUTES,
        "allowedDataAttributes": ["data-theme", "data-state"],
        "allowedDataPfyAttributes": ["data-pfy-source", "data-pfy-each", "data-pfy-field", "data-pfy-if"],
        "dataPfyVocabulary": [
            { "attribute": "data-pfy-source", "purpose": "Names the data source of an element and what is in it", "valueFormat": "id of a data source" },
            { "attribute": "data-pfy-each", "purpose": "Repeats the element for each row of the source", "valueFormat": "empty" },
            { "attribute": "data-pfy-field", "purpose": "Shows a column of the row as text", "valueFormat": "field key or fixed column" },
            { "attribute": "data-pfy-if", "purpose": "Keeps the element only when the column is filled", "valueFormat": "field key or fixed column" },
        ],
        "authoringNotes": [
            "Write one whole document; a write replaces the last one.",
            "Bind data with data-pfy attributes; scripts do not run.",
        ],
        "cssRules": [
            rule("CSS_IMPORT", "@import", "Style sheets cannot be imported"),
            rule("CSS_URL", "url()", "Only data: and https: addresses are loaded"),
        ],
        "designSystem": "Headings h1 to h3, tables with the class grid, cards with the class card. Colors come from the interface.",
        "errorCodes": [
            { "code": "FORBIDDEN_TAG", "description": "The tag never runs in an interface" },
            { "code": "UNKNOWN_TAG", "description": "The tag is not in the list of allowed tags" },
            { "code": "FORBIDDEN_ATTRIBUTE", "description": "Event handlers are not allowed" },
            { "code": "UNKNOWN_ATTRIBUTE", "description": "The attribute is not in the lists of allowed attributes" },
            { "code": "FORBIDDEN_URL", "description": "The address has a scheme that is not allowed" },
            { "code": "FORBIDDEN_CSS", "description": "A style rule is not allowed" },
            { "code": "TOO_DEEP", "description": "Elements are nested too deeply" },
            { "code": "TOO_MANY_ATTRIBUTES", "description": "An element has too many attributes" },
            { "code": "TOO_LARGE", "description": "The document has too many bytes" },
        ],
        "filters": {
            "description": "Filters of a data source have the form of report filters",
            "example": "{\"operator\":\"and\",\"queries\":[{\"field\":\"title\",\"operator\":\"contains\",\"value\":\"x\"}]}",
            "fixedColumnNames": FIXED_COLUMNS,
            "knownOperators": [
                { "filterType": "string", "operators": ["eq", "not_eq", "contains", "not_contains", "exists", "not_exists"] },
                { "filterType": "number", "operators": ["eq", "not_eq", "gt", "gte", "lt", "lte", "exists", "not_exists"] },
                { "filterType": "date", "operators": ["eq", "gt", "gte", "lt", "lte", "period", "exists", "not_exists"] },
                { "filterType": "select", "operators": ["eq", "not_eq", "exists", "not_exists"] },
            ],
        },
        "forbiddenAttributes": [rule("FORBIDDEN_ATTRIBUTE", "on*", "Event handlers are not allowed")],
        "forbiddenTags": FORBIDDEN_TAGS.map(|tag| rule("FORBIDDEN_TAG", tag, "The tag never runs in an interface")),
        "linkAttributes": LINKS,
        "maxAttributesPerElement": MOST_ATTRIBUTES, "maxContentBytes": MOST_BYTES, "maxNestingDepth": DEEPEST,
        "urlRule": "Addresses are relative, or begin with https:, mailto:, tel:, data:image/ or #",
    })
}

/// Refuses a document that breaks the rules, naming every violation (the first fifty).
pub(super) fn check(content: &str) -> Result<(), GqlError> {
    let mut found = Vec::new();
    let mut say = |code: &str, message: String, selector: Option<&str>, attribute: Option<&str>| {
        found.push(json!({ "code": code, "message": message, "selector": selector, "attribute": attribute }));
    };
    if content.trim().is_empty() {
        return Err(GqlError::invalid("Content can't be blank"));
    }
    if content.len() > MOST_BYTES {
        say("TOO_LARGE", format!("The document has {} bytes; {MOST_BYTES} are allowed", content.len()), None, None);
    } else {
        let mut depth = 0_usize;
        for tag in tags(content) {
            let name = tag.name.as_str();
            if tag.closing {
                depth = depth.saturating_sub(1);
                continue;
            }
            if FORBIDDEN_TAGS.contains(&name) {
                say("FORBIDDEN_TAG", format!("<{name}> never runs in an interface"), Some(name), None);
            } else if !TAGS.contains(&name) && !MORE_TAGS.contains(&name) {
                say("UNKNOWN_TAG", format!("<{name}> is not an allowed tag"), Some(name), None);
            }
            if tag.attributes.len() > MOST_ATTRIBUTES {
                let text = format!("An element has at most {MOST_ATTRIBUTES} attributes");
                say("TOO_MANY_ATTRIBUTES", text, Some(name), None);
            }
            for (key, value) in &tag.attributes {
                let lower = value.trim().to_lowercase();
                if key.starts_with("on") {
                    say("FORBIDDEN_ATTRIBUTE", "Event handlers are not allowed".to_owned(), Some(name), Some(key));
                } else if !ATTRIBUTES.contains(&key.as_str()) && !PREFIXES.iter().any(|p| key.starts_with(p)) {
                    say("UNKNOWN_ATTRIBUTE", format!("{key} is not an allowed attribute"), Some(name), Some(key));
                } else if LINKS.contains(&key.as_str()) && !address_allowed(&lower) {
                    say(
                        "FORBIDDEN_URL",
                        "The address has a scheme that is not allowed".to_owned(),
                        Some(name),
                        Some(key),
                    );
                } else if key == "style" && style_forbidden(&lower) {
                    say("FORBIDDEN_CSS", "A style rule is not allowed".to_owned(), Some(name), Some(key));
                }
            }
            if !tag.empty {
                depth += 1;
                if depth == DEEPEST + 1 {
                    say("TOO_DEEP", format!("Elements nest at most {DEEPEST} deep"), Some(name), None);
                }
            }
        }
        if style_forbidden(&content.to_lowercase()) {
            say("FORBIDDEN_CSS", "@import is not allowed".to_owned(), Some("style"), None);
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    found.truncate(MOST_VIOLATIONS);
    let message = "The HTML breaks the rules of interfaces";
    Err(GqlError::new("HTML_VALIDATION_FAILED", message).with(json!({ "violations": found })))
}

fn style_forbidden(text: &str) -> bool {
    text.contains("@import") || text.contains("expression(") || text.contains("url(javascript")
}

fn address_allowed(address: &str) -> bool {
    let allowed = ["https:", "mailto:", "tel:", "data:image/", "#", "/", "?"];
    let scheme = address.split(['/', '?', '#']).next().unwrap_or_default().contains(':');
    allowed.iter().any(|start| address.starts_with(start)) || !scheme
}

struct Tag {
    name: String,
    closing: bool,
    /// Has no content: `<br>`, `<x/>`.
    empty: bool,
    attributes: Vec<(String, String)>,
}

const VOID: [&str; 9] = ["br", "hr", "img", "input", "col", "meta", "link", "base", "embed"];

/// The tags of a document in order. Comments, declarations and the insides of `style`, `script` and `textarea` are
/// skipped.
fn tags(content: &str) -> Vec<Tag> {
    let mut out = Vec::new();
    let mut rest = content;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let closing = after.starts_with('/');
        let named = after.trim_start_matches('/');
        if !named.starts_with(|c: char| c.is_ascii_alphabetic()) {
            rest = after;
            continue;
        }
        let end = named.find(|c: char| c.is_whitespace() || c == '>' || c == '/').unwrap_or(named.len());
        let (name, tail) = named.split_at(end);
        let name = name.to_lowercase();
        let (attributes, slash, tail) = attributes(tail);
        let empty = slash || VOID.contains(&name.as_str());
        rest = tail;
        if !closing && !empty && matches!(name.as_str(), "style" | "script" | "textarea") {
            let lower = rest.to_ascii_lowercase();
            let close = lower.find(&format!("</{name}")).unwrap_or(rest.len());
            rest = rest.get(close..).unwrap_or_default();
        }
        out.push(Tag { name, closing, empty, attributes });
    }
    out
}

/// Attributes up to the end of a tag, whether it ends with a slash, and what follows.
fn attributes(text: &str) -> (Vec<(String, String)>, bool, &str) {
    let mut found = Vec::new();
    let mut rest = text;
    let mut slash = false;
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('>') {
            return (found, slash, after);
        }
        if let Some(after) = rest.strip_prefix('/') {
            slash = true;
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return (found, slash, rest);
        }
        slash = false;
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '=' | '>' | '/')).unwrap_or(rest.len());
        // A stray sign such as a second `=` is no name; it is skipped.
        let (name, tail) = if end == 0 { ("", rest.get(1..).unwrap_or_default()) } else { rest.split_at(end) };
        let tail = tail.trim_start();
        let (value, tail) = match tail.strip_prefix('=') {
            Some(value) => attribute_value(value.trim_start()),
            None => ("", tail),
        };
        if !name.is_empty() {
            found.push((name.to_lowercase(), value.to_owned()));
        }
        rest = tail;
    }
}

fn attribute_value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.split_once(quote).unwrap_or((inner, ""));
        }
    }
    let end = text.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn codes(content: &str) -> Vec<String> {
        let Err(error) = check(content) else { return Vec::new() };
        let list = error.more["violations"].as_array().unwrap().clone();
        list.iter().map(|v| v["code"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn clean_documents_pass() {
        let page = "<!doctype html><style>a > b { color: red }</style><h1 class=x>Olá</h1><img src='https://x.y/z.png'>\
                    <!-- <script> --><a href=\"/here?x=a:b\">here</a><p>1 < 2</p>";
        assert_eq!(codes(page), Vec::<String>::new());
        let large = format!("<p>{}</p>", "x".repeat(MOST_BYTES - 7));
        assert_eq!(codes(&large), Vec::<String>::new());
    }

    #[test]
    fn each_rule_has_its_code() {
        for (page, code) in [
            ("<script>1</script>", "FORBIDDEN_TAG"),
            ("<SCRIPT/x>", "FORBIDDEN_TAG"),
            ("<blink>x</blink>", "UNKNOWN_TAG"),
            ("<p ONCLICK=x>", "FORBIDDEN_ATTRIBUTE"),
            ("<p foo=1>", "UNKNOWN_ATTRIBUTE"),
            ("<a href=' JavaScript:x'>", "FORBIDDEN_URL"),
            ("<style>@import 'x'</style>", "FORBIDDEN_CSS"),
        ] {
            assert_eq!(codes(page), [code], "{page}");
        }
        assert_eq!(codes(&"<div>".repeat(70)), ["TOO_DEEP"]);
        assert_eq!(codes(&"x".repeat(MOST_BYTES + 1)), ["TOO_LARGE"]);
    }
}
