//! Label colours.

use crate::ToolError;

/// `#RRGGBB` in upper case, from that or `#RGB`.
///
/// # Errors
/// `INVALID_ARGUMENTS` for anything else.
pub(crate) fn hex_color(text: &str) -> Result<String, ToolError> {
    let text = text.trim();
    let digits = text.strip_prefix('#').unwrap_or_default();
    let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    match (hex, digits.len()) {
        (true, 3) => {
            Ok(std::iter::once('#').chain(digits.chars().flat_map(|c| [c, c])).collect::<String>().to_uppercase())
        }
        (true, 6) => Ok(text.to_uppercase()),
        _ => {
            let shown: String = text.chars().take(40).collect();
            Err(ToolError::invalid(format!(
                "Invalid label color '{}': expected #RGB or #RRGGBB.",
                shown.escape_default()
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_six_hex_digits() {
        for (given, wanted) in [("#f0a", Some("#FF00AA")), (" #00ff00 ", Some("#00FF00")), ("#ABCDEF", Some("#ABCDEF"))]
        {
            assert_eq!(hex_color(given).ok().as_deref(), wanted);
        }
        for bad in ["red", "#12", "f0a", "#ggg", "", "#1234567"] {
            let error = hex_color(bad).map_or_else(|e| e.message, |_| String::new());
            assert!(error.contains("expected #RGB or #RRGGBB"), "{bad}: {error}");
        }
    }
}
