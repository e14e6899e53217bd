//! Identifiers of fields in expressions: reserved words, and characters that no identifier has, are escaped as Kubernetes
//! escapes them.

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const ESCAPES: [(&str, &str); 4] =
    [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];

/// The identifier of a field; `None` if an expression cannot name the field.
pub(crate) fn escape(field: &str) -> Option<String> {
    if field.is_empty() || field.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&field) {
        return Some(format!("__{field}__"));
    }
    let mut escaped = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(first) = rest.chars().next() {
        let escape = ESCAPES.iter().find(|(_, plain)| rest.starts_with(plain));
        match escape {
            Some((escape, plain)) => {
                escaped.push_str(escape);
                rest = rest.get(plain.len()..).unwrap_or_default();
            }
            None if first.is_ascii_alphanumeric() || first == '_' => {
                escaped.push(first);
                rest = rest.get(1..).unwrap_or_default();
            }
            None => return None,
        }
    }
    Some(escaped)
}

/// The field that an identifier names; `None` if no field has this identifier.
pub(crate) fn unescape(identifier: &str) -> Option<String> {
    let reserved = identifier.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    let field = match reserved.filter(|word| RESERVED.contains(word)) {
        Some(word) => word.to_owned(),
        None => plain(identifier),
    };
    (escape(&field).as_deref() == Some(identifier)).then_some(field)
}

/// An identifier without its escapes.
fn plain(identifier: &str) -> String {
    let mut field = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(first) = rest.chars().next() {
        let escape = ESCAPES.iter().find(|(escape, _)| rest.starts_with(escape));
        let (plain, length) = match escape {
            Some((escape, plain)) => (*plain, escape.len()),
            None => (rest.get(..first.len_utf8()).unwrap_or_default(), first.len_utf8()),
        };
        field.push_str(plain);
        rest = rest.get(length..).unwrap_or_default();
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_come_back() {
        for (field, identifier) in [
            ("spec", "spec"),
            ("namespace", "__namespace__"),
            ("in", "__in__"),
            ("a-b", "a__dash__b"),
            ("a.b", "a__dot__b"),
            ("a/b", "a__slash__b"),
            ("a__b", "a__underscores__b"),
            ("_a", "_a"),
            ("x_", "x_"),
            ("__dot__", "__underscores__dot__underscores__"),
            ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ] {
            assert_eq!(escape(field).as_deref(), Some(identifier), "{field}");
            assert_eq!(unescape(identifier).as_deref(), Some(field), "{identifier}");
        }
        for unnameable in ["", "1a", "a b", "é", "$x"] {
            assert_eq!(escape(unnameable), None, "{unnameable}");
        }
        for unknown in ["namespace", "a__x__", "__in"] {
            let back = unescape(unknown);
            assert!(back.is_none() || back.as_deref() == Some(unknown), "{unknown}: {back:?}");
        }
    }
}
