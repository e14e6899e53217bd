//! Mail addresses as RFC 5322 has them, as far as Kubernetes' format `email` accepts them: with or without a name.

/// Whether a text is one address: `a@b.example` or `Name <a@b.example>`.
pub(super) fn is_address(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if is_plain(text) {
        return true;
    }
    let Some((name, rest)) = text.rsplit_once('<') else { return false };
    rest.strip_suffix('>').is_some_and(is_plain) && is_phrase(name)
}

fn is_plain(text: &str) -> bool {
    let (local, domain) = match text.strip_prefix('"') {
        Some(quoted) => match quoted.rsplit_once("\"@") {
            Some((local, domain)) => (!local.contains('"'), domain),
            None => return false,
        },
        None => match text.split_once('@') {
            Some((local, domain)) => (is_dotted(local), domain),
            None => return false,
        },
    };
    local && (is_dotted(domain) || is_literal(domain))
}

/// Atoms with single dots between them.
fn is_dotted(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom))
}

fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || (!c.is_ascii() && !c.is_control())
}

/// An address of a machine in brackets.
fn is_literal(domain: &str) -> bool {
    let literal = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    literal.is_some_and(|literal| literal.parse::<std::net::IpAddr>().is_ok())
}

/// Words, or text in quotes.
fn is_phrase(text: &str) -> bool {
    let text = text.trim();
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    quoted.is_some_and(|inner| !inner.contains('"'))
        || text.split_whitespace().all(|word| word.chars().all(|c| is_atom(c) || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_other_text() {
        for good in
            ["a@b.example", "a@b", "A <a@b.example>", "\"A B\" <a@b.example>", "ü@b.example", "\"a b\"@c.d"]
        {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", "a", "a@", "@b", "a b@c.d", "a@b@c", "a..b@c", "<a@b"] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
