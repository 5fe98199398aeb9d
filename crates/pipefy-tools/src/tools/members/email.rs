//! E-mail addresses as Pipefy's invitations take them (`spec/tools-pipes-cards.md`, "Member invite row").

/// Domains that are set aside and belong to nobody.
const SPECIAL: [&str; 6] = ["arpa", "invalid", "local", "localhost", "onion", "test"];

/// The address in lower case, taken out of `Name <address>` where it stands so.
///
/// # Errors
/// Why it is no address that mail can reach, in a few words.
pub(crate) fn address(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let text = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((_, address)) => address.trim(),
        None => text,
    };
    let (local, domain) = text.rsplit_once('@').ok_or("an e-mail address must have an @")?;
    let is_atom = |c: char| c.is_alphanumeric() || "!#$%&'*+/=?^_`{|}~-.".contains(c);
    if local.is_empty() || local.chars().count() > 64 || !local.chars().all(is_atom) {
        return Err("the part before the @ is not valid");
    }
    if has_bad_period(local) || has_bad_period(domain) {
        return Err("a period must stand between other characters");
    }
    let labels: Vec<&str> = domain.split('.').collect();
    let is_label = |label: &&str| {
        let inner = label.chars().all(|c| c.is_alphanumeric() || c == '-');
        !label.is_empty() && label.chars().count() <= 63 && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = labels.last().copied().unwrap_or_default().to_lowercase();
    if labels.len() < 2 {
        return Err("the part after the @ must have a period");
    }
    if !labels.iter().all(is_label) || !last.chars().any(char::is_alphabetic) || text.len() > 254 {
        return Err("the part after the @ is not valid");
    }
    if SPECIAL.contains(&last.as_str()) {
        return Err("the domain is reserved and receives no mail");
    }
    Ok(text.to_lowercase())
}

fn has_bad_period(part: &str) -> bool {
    part.starts_with('.') || part.ends_with('.') || part.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_mail_can_reach_are_taken_in_lower_case() {
        for (text, wanted) in [
            ("A@Example.com", Some("a@example.com")),
            (" Ana Lima <Ana.Lima+x@sub.example.com.br> ", Some("ana.lima+x@sub.example.com.br")),
            ("jo\u{e3}o@exemplo.com", Some("jo\u{e3}o@exemplo.com")),
            ("a@m\u{fc}nchen.de", Some("a@m\u{fc}nchen.de")),
            ("a@host", None),
            (" ", None),
            ("a", None),
            ("@example.com", None),
            ("a@localhost", None),
            ("a@x.local", None),
            ("a@x.test", None),
            ("a@x.invalid", None),
            ("a@x.onion", None),
            ("\"a b\"@example.com", None),
            ("a@[127.0.0.1]", None),
            ("a..b@example.com", None),
            (".a@example.com", None),
            ("a.@example.com", None),
            ("a@example..com", None),
            ("a@-example.com", None),
            ("a@1.2.3.4", None),
            ("a b@example.com", None),
        ] {
            assert_eq!(address(text).ok().as_deref(), wanted, "{text}");
        }
    }
}
