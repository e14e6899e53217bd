//! Replaces `{{NAME}}` in the strings of objects if there is a variable of that name. A name in capitals without a value is an
//! error. Other braces stay unchanged, because objects may contain templates of other tools.

use std::collections::BTreeMap;

use serde_json::Value;

/// The values of variables by name.
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(super) fn new(values: BTreeMap<String, String>) -> Self {
        Self(values)
    }

    /// Replaces the variables in all strings of an object, including keys; fails with the name of a variable without a value.
    pub(super) fn replace_in(&self, value: &mut Value) -> Result<(), String> {
        match value {
            Value::String(text) => {
                if text.contains("{{") {
                    *text = self.replace(text)?;
                }
                Ok(())
            }
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.replace_in(item)),
            Value::Object(fields) => {
                if fields.keys().any(|key| key.contains("{{")) {
                    let renamed = std::mem::take(fields).into_iter();
                    *fields =
                        renamed
                            .map(|(key, value)| Ok((self.replace(&key)?, value)))
                            .collect::<Result<_, String>>()?;
                }
                fields.values_mut().try_for_each(|field| self.replace_in(field))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// Replaces the variables in one string. Values are not searched for variables again, because they may contain braces.
    fn replace(&self, text: &str) -> Result<String, String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let Some((name, behind)) = after.split_once("}}") else {
                filled.push_str("{{");
                rest = after;
                continue;
            };
            match self.0.get(name) {
                Some(value) => {
                    filled.push_str(value);
                    rest = behind;
                }
                None if is_required(name) => return Err(name.to_owned()),
                None => {
                    filled.push_str("{{");
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// Whether a name is in capitals, and so must be a variable; `{{end}}` and `{{ .Values }}` belong to other tools.
fn is_required(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(inside) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn variables() -> Variables {
        let value = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Variables::new([value("NAME", "hello"), value("level", "debug"), value("BRACES", "{{NAME}}")].into())
    }

    #[test]
    fn variables_are_replaced_and_other_braces_stay() {
        let rows = [
            ("no braces", Ok("no braces")),
            ("{{NAME}}", Ok("hello")),
            ("a-{{NAME}}-{{level}}-{{NAME}}", Ok("a-hello-debug-hello")),
            ("{{BRACES}}", Ok("{{NAME}}")),
            ("{{MISSING}}", Err("MISSING")),
            ("{{missing}}", Ok("{{missing}}")),
            ("{{ NAME }}", Ok("{{ NAME }}")),
            ("{{if .x}}{{NAME}}{{end}}", Ok("{{if .x}}hello{{end}}")),
            ("{{ $labels.instance }} is down", Ok("{{ $labels.instance }} is down")),
            ("{{NAME", Ok("{{NAME")),
            ("{{{NAME}}}", Ok("{{{NAME}}}")),
            ("{{}}", Ok("{{}}")),
            ("}}{{NAME}}", Ok("}}hello")),
        ];
        for (text, expected) in rows {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(variables().replace(text), expected, "{text}");
        }
    }

    #[test]
    fn variables_are_replaced_in_keys_lists_and_values() {
        let mut object = json!({"metadata": {"labels": {"app-{{NAME}}": "{{level}}"}}, "list": ["{{NAME}}", 1, null, true]});
        variables().replace_in(&mut object).unwrap();
        assert_eq!(
            object,
            json!({"metadata": {"labels": {"app-hello": "debug"}}, "list": ["hello", 1, null, true]})
        );
    }

    proptest! {
        #[test]
        fn text_without_variables_stays_unchanged(text in "[a-z{} .$]{0,40}") {
            prop_assert_eq!(Variables::new(BTreeMap::new()).replace(&text), Ok(text));
        }
    }
}
