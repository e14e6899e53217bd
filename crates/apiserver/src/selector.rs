//! Label and field selectors: parsed once per request, then asked of every object. Pure.

use std::borrow::Cow;

use bellwether_jsonpath::JsonPath;
use serde_json::Value;

use crate::names;
use crate::object::{Head, Meta as _, Object, lookup};

/// A label selector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`; the error is the message for the client.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Tokens::new(text);
        let mut requirements = Vec::new();
        match tokens.peek() {
            Token::End => return Ok(Self::default()),
            Token::Word(_) | Token::Not => {}
            other => return Err(format!("found '{other}', expected: !, identifier, or 'end of string'")),
        }
        loop {
            requirements.push(
                parse_requirement(&mut tokens)
                    .map_err(|error| format!("unable to parse requirement: {error}"))?,
            );
            match tokens.next() {
                Token::End => return Ok(Self(requirements)),
                Token::Comma => match tokens.peek() {
                    Token::Word(_) | Token::Not => {}
                    other => return Err(format!("found '{other}', expected: identifier after ','")),
                },
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    /// Reads the form that objects hold: `matchLabels` and `matchExpressions`.
    pub(crate) fn of(selector: &Value) -> Self {
        let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.map(|(key, value)| Requirement {
            key: key.clone(),
            test: Test::In(vec![value.as_str().unwrap_or_default().to_owned()]),
        });
        let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        let expressions = expressions.filter_map(|expression| {
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let test = match expression.get("operator").and_then(Value::as_str)? {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                _ => return None,
            };
            Some(Requirement { key: expression.get("key")?.as_str()?.to_owned(), test })
        });
        let mut requirements: Vec<Requirement> = labels.chain(expressions).collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self(requirements)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the labels of a stored object meet every requirement.
    pub(crate) fn matches(&self, head: &Head) -> bool {
        self.holds(|wanted| {
            head.labels.iter().find(|(key, _)| **key == *wanted).map(|(_, value)| value.as_ref())
        })
    }

    /// Whether the labels of an object meet every requirement.
    pub(crate) fn matches_object(&self, object: &Object) -> bool {
        let labels = object.meta().and_then(|meta| meta.get("labels"));
        self.holds(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }

    /// Whether labels, asked one by one, meet every requirement.
    pub(crate) fn holds<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0.iter().all(|requirement| requirement.holds(label(&requirement.key)))
    }
}

impl std::fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, Requirement { key, test }) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::In(values) => match values.as_slice() {
                    [value] => write!(f, "{key}={value}")?,
                    values => write!(f, "{key} in ({})", values.join(","))?,
                },
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Exists => f.write_str(key)?,
                Test::Absent => write!(f, "!{key}")?,
                Test::Greater(bound) => write!(f, "{key}>{bound}")?,
                Test::Less(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        match (&self.test, value) {
            (Test::In(values), Some(value)) => values.iter().any(|wanted| wanted == value),
            (Test::NotIn(values), Some(value)) => !values.iter().any(|unwanted| unwanted == value),
            (Test::NotIn(_) | Test::Absent, None) | (Test::Exists, Some(_)) => true,
            (Test::Greater(bound), Some(value)) => value.parse().is_ok_and(|value: i64| value > *bound),
            (Test::Less(bound), Some(value)) => value.parse().is_ok_and(|value: i64| value < *bound),
            _ => false,
        }
    }
}

fn parse_requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, String> {
    let negated = tokens.peek() == Token::Not;
    if negated {
        tokens.next();
    }
    let key = match tokens.next() {
        Token::Word(key) => key.to_owned(),
        other => return Err(format!("found '{other}', expected: identifier")),
    };
    let problems = names::qualified(&key);
    if !problems.is_empty() {
        return Err(format!("<nil>: Invalid value: {key:?}: {}", problems.join("; ")));
    }
    if negated {
        return Ok(Requirement { key, test: Test::Absent });
    }
    let test = match tokens.peek() {
        Token::End | Token::Comma => Test::Exists,
        _ => match tokens.next() {
            Token::Equals => Test::In(vec![parse_value(tokens)?]),
            Token::NotEquals => Test::NotIn(vec![parse_value(tokens)?]),
            Token::Word("in") => Test::In(parse_values(tokens)?),
            Token::Word("notin") => Test::NotIn(parse_values(tokens)?),
            Token::Greater => Test::Greater(parse_bound(tokens)?),
            Token::Less => Test::Less(parse_bound(tokens)?),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        },
    };
    if let Test::In(values) | Test::NotIn(values) = &test {
        for value in values {
            let problems = names::label_value(value);
            if !problems.is_empty() {
                return Err(format!("values[0][{key}]: Invalid value: {value:?}: {}", problems.join("; ")));
            }
        }
    }
    Ok(Requirement { key, test })
}

fn parse_value(tokens: &mut Tokens<'_>) -> Result<String, String> {
    match tokens.peek() {
        Token::End | Token::Comma => Ok(String::new()),
        _ => match tokens.next() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(format!("found '{other}', expected: identifier")),
        },
    }
}

fn parse_bound(tokens: &mut Tokens<'_>) -> Result<i64, String> {
    let value = parse_value(tokens)?;
    value.parse().map_err(|_| {
        format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
    })
}

fn parse_values(tokens: &mut Tokens<'_>) -> Result<Vec<String>, String> {
    match tokens.next() {
        Token::Open => {}
        other => return Err(format!("found '{other}' expected: '('")),
    }
    let mut values = Vec::new();
    loop {
        match tokens.next() {
            Token::Word(value) => {
                values.push(value.to_owned());
                match tokens.next() {
                    Token::Comma => {
                        if tokens.peek() == Token::Close {
                            values.push(String::new());
                        }
                    }
                    Token::Close => return Ok(values),
                    other => return Err(format!("found '{other}', expected: ',' or ')'")),
                }
            }
            Token::Comma => values.push(String::new()),
            Token::Close => {
                if values.is_empty() {
                    values.push(String::new());
                }
                return Ok(values);
            }
            other => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Equals,
    NotEquals,
    Not,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Word(word) => word,
            Self::Equals => "=",
            Self::NotEquals => "!=",
            Self::Not => "!",
            Self::Greater => ">",
            Self::Less => "<",
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::End => "",
        })
    }
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn peek(&self) -> Token<'a> {
        Self { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        for (text, token) in [
            ("==", Token::Equals),
            ("=", Token::Equals),
            ("!=", Token::NotEquals),
            ("!", Token::Not),
            (">", Token::Greater),
            ("<", Token::Less),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
        ] {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                return token;
            }
        }
        let special = |c: char| c.is_ascii_whitespace() || "=!(),<>".contains(c);
        let end = self.rest.find(special).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.is_empty() { Token::End } else { Token::Word(word) }
    }
}

/// A field selector: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldSelector(Vec<Term>);

#[derive(Clone, Debug, PartialEq)]
struct Term {
    field: Selected,
    equal: bool,
    value: String,
}

/// What a term looks at.
#[derive(Clone, Debug, PartialEq)]
enum Selected {
    Name,
    Namespace,
    Inside(Source),
}

/// Where in the stored object the value of a field is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// Dotted paths, of which the first with a value counts, and what an absent value is taken for.
    Paths(&'static [&'static str], &'static str),
    Path(JsonPath),
}

/// A field that a kind can be selected by.
pub(crate) struct Selectable {
    label: Cow<'static, str>,
    source: Source,
}

impl Selectable {
    /// A field of a built-in kind.
    pub(crate) const fn at(label: &'static str, paths: &'static [&'static str]) -> Self {
        Self::or(label, paths, "")
    }

    /// A field that is `false` when it is left out.
    pub(crate) const fn flag(label: &'static str, paths: &'static [&'static str]) -> Self {
        Self::or(label, paths, "false")
    }

    /// A field that is `0` when it is left out.
    pub(crate) const fn number(label: &'static str, paths: &'static [&'static str]) -> Self {
        Self::or(label, paths, "0")
    }

    const fn or(label: &'static str, paths: &'static [&'static str], otherwise: &'static str) -> Self {
        Self { label: Cow::Borrowed(label), source: Source::Paths(paths, otherwise) }
    }

    /// A field that a CustomResourceDefinition names.
    pub(crate) fn found(label: String, path: JsonPath) -> Self {
        Self { label: label.into(), source: Source::Path(path) }
    }
}

impl FieldSelector {
    /// Parses `a=b,c!=d` for a kind; the error is the message for the client.
    pub(crate) fn parse(text: &str, selectable: &[Selectable], namespaced: bool) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            let odd = || format!("invalid selector: '{text}'; can't understand '{part}'");
            let at = part.find(['=', '!']).ok_or_else(odd)?;
            let (label, operator) = part.split_at(at);
            let (equal, value) = if let Some(value) = operator.strip_prefix("!=") {
                (false, value)
            } else if let Some(value) = operator.strip_prefix("==").or(operator.strip_prefix('=')) {
                (true, value)
            } else {
                return Err(odd());
            };
            let field = match label {
                "metadata.name" => Selected::Name,
                "metadata.namespace" if namespaced => Selected::Namespace,
                label => selectable
                    .iter()
                    .find(|selectable| selectable.label == label)
                    .map(|selectable| Selected::Inside(selectable.source.clone()))
                    .ok_or_else(|| not_selectable(label, selectable))?,
            };
            terms.push(Term { field, equal, value: unescape(value)? });
        }
        Ok(Self(terms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name that can match, if the selector names one: such a list is a get.
    pub(crate) fn only_name(&self) -> Option<&str> {
        self.0.iter().find(|term| term.field == Selected::Name && term.equal).map(|term| term.value.as_str())
    }

    /// Whether a stored object meets every term. `object` is parsed only when a term looks inside.
    pub(crate) fn matches(&self, path: &str, object: impl FnOnce() -> Object) -> bool {
        let (namespace, name) = path.rsplit_once('/').unwrap_or(("", path));
        let inside = self.0.iter().any(|term| matches!(term.field, Selected::Inside(_)));
        let object = Value::Object(if inside { object() } else { Object::new() });
        self.0.iter().all(|term| {
            let equal = match &term.field {
                Selected::Name => name == term.value,
                Selected::Namespace => namespace == term.value,
                Selected::Inside(source) => source.text(&object) == term.value,
            };
            equal == term.equal
        })
    }
}

/// Kinds with fields of their own to select by answer in other words than those with none.
fn not_selectable(label: &str, selectable: &[Selectable]) -> String {
    if selectable.is_empty() {
        format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {label}")
    }
}

impl Source {
    fn text(&self, object: &Value) -> String {
        let (found, otherwise): (Vec<&Value>, &str) = match (self, object) {
            (Self::Paths(paths, otherwise), Value::Object(object)) => {
                (paths.iter().filter_map(|path| lookup(object, path)).collect(), otherwise)
            }
            (Self::Paths(..), _) => (Vec::new(), ""),
            (Self::Path(path), object) => (path.find(object), ""),
        };
        let texts = found.into_iter().map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        });
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| otherwise.to_owned())
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(text.get(start..).unwrap_or_default());
    terms.retain(|term| !term.is_empty());
    terms
}

/// `\\`, `\,` and `\=` stand for themselves; nothing else may be escaped, and a bare `=` may not stand.
fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            '=' | ',' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(labels: &[(&str, &str)]) -> Head {
        Head {
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            ..Head::default()
        }
    }

    #[test]
    fn label_selectors_select() {
        let labels = head(&[("app", "web"), ("tier", "2"), ("empty", "")]);
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (web, db)", true),
            ("app notin (web)", false),
            ("other notin (web)", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app=web,tier=2", true),
            ("app=web,tier=3", false),
            ("tier>1", true),
            ("tier<2", false),
            ("empty=", true),
            ("empty in ()", true),
            ("x in (,)", false),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches(&labels), expected, "{selector}");
        }
    }

    #[test]
    fn label_selectors_that_make_no_sense_are_refused() {
        for selector in
            ["a=b,", ",a", "a in", "a in (b", "=b", "a=b c", "a==", "!!a", "a in b", "-x=1", "a=-", "tier>x"]
        {
            let parsed = LabelSelector::parse(selector);
            if selector == "a==" {
                assert!(parsed.is_ok(), "{selector}");
            } else {
                assert!(parsed.is_err(), "{selector}: {parsed:?}");
            }
        }
    }

    const FIELDS: &[Selectable] = &[Selectable::at("type", &["type"])];

    #[test]
    fn field_selectors_select() {
        let object = || serde_json::json!({"type": "Opaque"}).as_object().unwrap().clone();
        for (selector, expected) in [
            ("metadata.name=b", true),
            ("metadata.name!=b", false),
            ("metadata.namespace=a,metadata.name=b", true),
            ("type=Opaque", true),
            ("type!=Opaque", false),
            ("type==Other", false),
        ] {
            let parsed = FieldSelector::parse(selector, FIELDS, true).unwrap();
            assert_eq!(parsed.matches("a/b", object), expected, "{selector}");
        }
    }

    #[test]
    fn unknown_fields_and_odd_terms_are_refused() {
        for (selector, words) in [
            ("spec.foo=1", "field label not supported: spec.foo"),
            ("metadata.name", "can't understand 'metadata.name'"),
            ("type=a=b", "unescaped character in value: 61"),
        ] {
            let error = FieldSelector::parse(selector, FIELDS, true).unwrap_err();
            assert!(error.contains(words), "{selector}: {error}");
        }
    }
}
