//! The `fieldPath` of a rule: which field below the rule's own a failure is told of.

use crate::schema::Schema;

/// The path as errors name it; nothing, if it does not lead to a field of the schema.
pub(crate) fn normalised(path: &str, schema: &Schema) -> Option<String> {
    let mut at = schema;
    let mut shown = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('.') {
            Some(after) => {
                let end = after.find(['.', '[', ']']).unwrap_or(after.len());
                let (name, after) = after.split_at(end);
                (name.to_owned(), after)
            }
            None => quoted(rest.strip_prefix('[')?)?,
        };
        if name.is_empty() {
            return None;
        }
        if at.properties.is_empty() {
            shown.push_str(&format!("[{name}]"));
            at = at.additional.as_ref()?.schema()?;
        } else {
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
            at = at.properties.get(&name)?;
        }
        rest = after;
    }
    Some(shown)
}

/// A name in single quotes, up to the bracket that ends it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut letters = text.strip_prefix('\'')?.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => {
                let rest = text.get(at + 2..)?;
                return Some((name, rest.strip_prefix(']')?));
            }
            '\\' => name.push(match letters.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                quoted @ ('\'' | '\\') => quoted,
                _ => return None,
            }),
            letter => name.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_to_a_field() {
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b": text, "c.d": text, "it's": text}},
            "m": {"type": "object", "additionalProperties": text},
            "l": {"type": "array", "items": text},
        }});
        let schema = Schema::read(&schema, "").unwrap();
        for (path, expected) in [
            (".a", Some("a")),
            (".a.b", Some("a.b")),
            ("['a'].b", Some("a.b")),
            (".a['c.d']", Some("a.c.d")),
            (".a['it\\'s']", Some("a.it's")),
            (".m['x']", Some("m[x]")),
            (".m.x", Some("m[x]")),
            (".x", None),
            ("a", None),
            (".a.", None),
            (".a[b]", None),
            (".a['b'", None),
            (".a['b\\q']", None),
            (".l[0]", None),
            (".l.0", None),
        ] {
            assert_eq!(normalised(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
