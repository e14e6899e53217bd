//! `{{NAME}}` in the texts of objects. What is between the braces is a variable if there is one of that name; a name in
//! capitals must be one. All else stays: objects have templates of their own in their texts.

use std::collections::BTreeMap;

use serde_json::Value;

/// What variables stand for.
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(super) fn new(values: BTreeMap<String, String>) -> Self {
        Self(values)
    }

    /// Fills in all texts of an object, keys as well; fails with the name of a variable that has no value.
    pub(super) fn fill_in(&self, value: &mut Value) -> Result<(), String> {
        match value {
            Value::String(text) => {
                if text.contains("{{") {
                    *text = self.filled(text)?;
                }
                Ok(())
            }
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.fill_in(item)),
            Value::Object(fields) => {
                if fields.keys().any(|key| key.contains("{{")) {
                    let renamed = std::mem::take(fields).into_iter();
                    *fields = renamed
                        .map(|(key, value)| Ok((self.filled(&key)?, value)))
                        .collect::<Result<_, String>>()?;
                }
                fields.values_mut().try_for_each(|field| self.fill_in(field))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// What is filled in is not looked at again: a value may have braces of its own.
    fn filled(&self, text: &str) -> Result<String, String> {
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
                None if must_have_a_value(name) => return Err(name.to_owned()),
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

/// A name in capitals is a variable of ours: `{{end}}` and `{{ .Values }}` are somebody else's.
fn must_have_a_value(name: &str) -> bool {
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
    fn variables_are_filled_in_and_other_braces_stay() {
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
        for (text, wanted) in rows {
            let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(variables().filled(text), wanted, "{text}");
        }
    }

    #[test]
    fn texts_are_filled_in_wherever_they_are() {
        let mut object = json!({"metadata": {"labels": {"app-{{NAME}}": "{{level}}"}}, "list": ["{{NAME}}", 1, null, true]});
        variables().fill_in(&mut object).unwrap();
        assert_eq!(
            object,
            json!({"metadata": {"labels": {"app-hello": "debug"}}, "list": ["hello", 1, null, true]})
        );
    }

    proptest! {
        #[test]
        fn a_text_without_variables_is_left_as_it_is(text in "[a-z{} .$]{0,40}") {
            prop_assert_eq!(Variables::new(BTreeMap::new()).filled(&text), Ok(text));
        }
    }
}
