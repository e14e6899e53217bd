//! Validation of a value against a schema, in the words and with the choice of errors that Kubernetes makes: of several
//! alternatives that all fail, the errors of the one that came furthest are told.

use serde_json::{Map, Number, Value};

use super::formats;
use super::ranges::validate_number;
use super::{Additional, Correlated, Schema, Type};
use crate::field::FieldError;
use crate::numbers::{Figure, is_integral};

/// Errors that belong to no field stand here.
const NOWHERE: &str = "<nil>";

/// What a value is validated for. Kubernetes looks at defaults less closely in one way and more closely in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It came with an object. Formats that are not known mean nothing.
    Object,
    /// It is a default. The types of `x-kubernetes-int-or-string` are only those that anyOf states.
    Default,
}

impl Schema {
    /// What is wrong with an object.
    pub(crate) fn validate(&self, object: &Map<String, Value>) -> Vec<FieldError> {
        let mut errors = self.validate_values(object);
        errors.extend(super::resources::validate_below(object, self));
        errors.extend(super::lists::validate(object, self));
        errors
    }

    /// What is wrong with an object, but for what was wrong before and was left alone.
    pub(crate) fn validate_update(
        &self,
        object: &Map<String, Value>,
        old: &Map<String, Value>,
    ) -> Vec<FieldError> {
        let was = Correlated::root(self, object, old);
        let found = validate_schema(View::Object(object), self, "", Purpose::Object, Some(was));
        let mut errors: Vec<FieldError> = found.errors.into_iter().map(|error| placed(error, None)).collect();
        errors.extend(super::resources::validate_below(object, self));
        errors.extend(self.validate_lists(object, Some(old)));
        errors
    }

    /// What is wrong with the values of an object, each looked at for itself.
    pub(crate) fn validate_values(&self, object: &Map<String, Value>) -> Vec<FieldError> {
        let found = validate_schema(View::Object(object), self, "", Purpose::Object, None);
        found.errors.into_iter().map(|error| placed(error, None)).collect()
    }

    /// What is wrong with a value that stands for this schema when it is left out; the path is that of the default.
    pub(crate) fn validate_default(&self, default: &Value, path: &str) -> Vec<FieldError> {
        let found = validate_schema(default.into(), self, "", Purpose::Default, None);
        found.errors.into_iter().map(|error| placed(error, Some(path))).collect()
    }

    /// What stands twice in lists that are sets or maps, unless something did before.
    pub(crate) fn validate_lists(
        &self,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Vec<FieldError> {
        if old.is_some_and(|old| !super::lists::validate(old, self).is_empty()) {
            return Vec::new();
        }
        super::lists::validate(object, self)
    }

    /// What is wrong with a field of an object that is looked at as something of its own, in its place.
    pub(crate) fn validate_part(
        &self,
        part: &str,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Vec<FieldError> {
        let (Some(value), Some(schema)) = (object.get(part), self.properties.get(part)) else {
            return Vec::new();
        };
        let was = old.and_then(|old| Correlated::root(self, object, old).key(part));
        let found = validate_schema(value.into(), schema, "", Purpose::Object, was);
        found.errors.into_iter().map(|error| placed(error, Some(part))).collect()
    }
}

/// The value that one was before, if it has a past.
type Was<'a> = Option<Correlated<'a>>;

/// Puts the field of an error below a path.
fn placed(mut error: FieldError, base: Option<&str>) -> FieldError {
    let name = error.field.strip_prefix('.').unwrap_or(&error.field);
    error.field = match (base, name) {
        (None, "") => NOWHERE.to_owned(),
        (None, name) => name.to_owned(),
        (Some(base), "") => base.to_owned(),
        (Some(base), name) => format!("{base}.{name}"),
    };
    error
}

/// A value to be looked at.
#[derive(Clone, Copy)]
pub(super) enum View<'v> {
    Null,
    Bool(bool),
    Number(&'v Number),
    Text(&'v str),
    List(&'v [Value]),
    Object(&'v Map<String, Value>),
}

impl<'v> From<&'v Value> for View<'v> {
    fn from(value: &'v Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items),
            Value::Object(object) => Self::Object(object),
        }
    }
}

/// What a validation found, and how many checks passed on the way.
#[derive(Default)]
pub(super) struct Found {
    errors: Vec<FieldError>,
    passed: usize,
}

impl Found {
    fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        for error in other.errors {
            self.error(error);
        }
    }

    /// What is said once is not said again.
    pub(super) fn error(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// An error that belongs to no field.
    pub(super) fn general(&mut self, words: String) {
        self.error(FieldError::invalid("", "", words));
    }
}

/// What is wrong with a value, unless it is as it was.
fn validate_schema(value: View<'_>, schema: &Schema, path: &str, purpose: Purpose, was: Was<'_>) -> Found {
    let found = validate_value(value, schema, path, purpose, was);
    if !found.errors.is_empty() && was.is_some_and(|was| was.unchanged()) {
        return Found { errors: Vec::new(), passed: found.passed };
    }
    found
}

fn validate_value(value: View<'_>, schema: &Schema, path: &str, purpose: Purpose, was: Was<'_>) -> Found {
    let mut found = Found::default();
    let known = Known::of(schema, purpose);
    if let View::Null = value {
        match type_error(value, &known, schema.nullable, path) {
            Some(error) => found.error(error),
            None => found.passed += 1,
        }
        found.errors.extend(value_error(&Value::Null, schema, path));
        return found;
    }
    if !known.types.is_empty() || !known.format.is_empty() {
        match type_error(value, &known, schema.nullable, path) {
            Some(error) => found.error(error),
            None => found.passed += 1,
        }
        found.passed += 1;
    }
    found.merge(validate_junctors(value, schema, path, purpose, was));
    found.passed += 2;
    match value {
        View::Text(text) => {
            found.errors.extend(text_error(text, schema, path));
            found.passed += 1;
            if let Some(fits) = formats::matches(known.format, text) {
                if !fits {
                    let words = format!("{path} in body must be of type {}: {text:?}", known.format);
                    found.error(FieldError::wrong_type(path, text, words));
                }
                found.passed += 1;
            }
            found.errors.extend(value_error(&Value::from(text), schema, path));
        }
        View::Number(number) => {
            validate_number(number, &known, &schema.rules, path, &mut found);
            found.passed += 2;
            found.errors.extend(value_error(&Value::Number(number.clone()), schema, path));
        }
        View::List(items) => {
            found.merge(validate_items(items, schema, path, purpose, was));
            found.passed += 2;
            if schema.rules.one_of_values.is_some() {
                found.errors.extend(value_error(&Value::Array(items.to_vec()), schema, path));
            }
        }
        View::Object(object) => {
            found.merge(validate_fields(object, schema, path, purpose, was));
            found.passed += 1;
            if schema.rules.one_of_values.is_some() {
                found.errors.extend(value_error(&Value::Object(object.clone()), schema, path));
            }
        }
        View::Bool(value) => found.errors.extend(value_error(&Value::Bool(value), schema, path)),
        View::Null => {}
    }
    found.passed += 2;
    found
}

/// What a schema says of types and formats, as far as it counts.
pub(super) struct Known<'s> {
    pub(super) types: &'static [&'static str],
    pub(super) format: &'s str,
}

impl<'s> Known<'s> {
    fn of(schema: &'s Schema, purpose: Purpose) -> Self {
        let types: &[&str] = match schema.kind {
            _ if schema.extensions.int_or_string && purpose == Purpose::Object => &["integer", "string"],
            Some(Type::Object) => &["object"],
            Some(Type::Array) => &["array"],
            Some(Type::String) => &["string"],
            Some(Type::Integer) => &["integer"],
            Some(Type::Number) => &["number"],
            Some(Type::Boolean) => &["boolean"],
            None => &[],
        };
        let format = schema.rules.format.as_str();
        let counts = purpose == Purpose::Default || formats::is_recognised(schema.kind, format);
        Self { types, format: if counts { format } else { "" } }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.types.contains(&name)
    }
}

/// The type of a value, and the format that Kubernetes gives it.
fn type_of(value: View<'_>) -> (&'static str, &'static str) {
    match value {
        View::Null => ("null", ""),
        View::Bool(_) => ("boolean", ""),
        View::Number(number) => match Figure::of(number) {
            Figure::Integer(_) => ("integer", "int64"),
            Figure::Float(_) => ("number", "float64"),
        },
        View::Text(_) => ("string", ""),
        View::List(_) => ("array", ""),
        View::Object(_) => ("object", ""),
    }
}

/// A format lets a string or a list pass where another type is stated; that is Kubernetes' way, and kept.
fn type_error(value: View<'_>, known: &Known<'_>, nullable: bool, path: &str) -> Option<FieldError> {
    let mismatch = |wanted: &str, found: &str| {
        let words = format!("{path} in body must be of type {wanted}: {found:?}");
        Some(FieldError::wrong_type(path, found, words))
    };
    let (found, found_format) = type_of(value);
    if let View::Null = value {
        let fits = known.types.is_empty() || nullable;
        return if fits { None } else { mismatch(&known.types.join(","), found) };
    }
    let numeric = match value {
        View::Number(number) => match Figure::of(number) {
            Figure::Integer(_) => known.has("number"),
            Figure::Float(float) => known.has("integer") && is_integral(float),
        },
        _ => false,
    };
    let fits = known.has(found) || numeric;
    let textual = matches!(value, View::Text(_) | View::List(_));
    if !known.format.is_empty() {
        if !textual && !fits && found_format != known.format {
            return mismatch(known.format, found_format);
        }
        if textual && !known.has("number") && !known.has("integer") {
            return None;
        }
    }
    if fits { None } else { mismatch(&known.types.join(","), found) }
}

/// A value that is not among the allowed ones. Null never is.
fn value_error(value: &Value, schema: &Schema, path: &str) -> Option<FieldError> {
    let allowed = schema.rules.one_of_values.as_ref().filter(|allowed| !allowed.is_empty())?;
    if allowed.iter().any(|candidate| same(candidate, value)) {
        return None;
    }
    let shown: Vec<String> = allowed
        .iter()
        .map(|candidate| match candidate {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    Some(FieldError::not_supported(path, value.clone(), &shown))
}

/// Whether a value is an allowed one: numbers are compared as the type of the allowed one.
fn same(candidate: &Value, value: &Value) -> bool {
    match (candidate, value) {
        (_, Value::Null) => false,
        (Value::Number(candidate), Value::Number(value)) => match Figure::of(candidate) {
            Figure::Integer(integer) => integer == Figure::of(value).truncated(),
            Figure::Float(float) => float == Figure::of(value).as_f64(),
        },
        _ => candidate == value,
    }
}

/// Only the first thing that is wrong with a string is told.
fn text_error(text: &str, schema: &Schema, path: &str) -> Option<FieldError> {
    let rules = &schema.rules;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(limit) = rules.max_length.filter(|limit| length > *limit) {
        return Some(FieldError::longer_than(path, limit));
    }
    if let Some(limit) = rules.min_length.filter(|limit| length < *limit) {
        let words = format!("{path} in body should be at least {limit} chars long");
        return Some(FieldError::invalid(path, text, words));
    }
    let pattern = rules.pattern.as_ref().filter(|pattern| !pattern.matches(text))?;
    let words = format!("{path} in body should match '{}'", pattern.text);
    Some(FieldError::invalid(path, text, words))
}

fn validate_items(items: &[Value], schema: &Schema, path: &str, purpose: Purpose, was: Was<'_>) -> Found {
    let mut found = Found::default();
    if let Some(schema) = &schema.items {
        let were = was.and_then(|was| was.items());
        for (at, item) in items.iter().enumerate() {
            let was = were.as_ref().and_then(|were| were.at(at));
            found.merge(validate_schema(item.into(), schema, &format!("{path}[{at}]"), purpose, was));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let rules = &schema.rules;
    if let Some(limit) = rules.min_items.filter(|limit| count < *limit) {
        let words = format!("{path} in body should have at least {limit} items");
        found.error(FieldError::invalid(path, count, words));
    }
    if let Some(limit) = rules.max_items.filter(|limit| count > *limit) {
        found.error(FieldError::more_than(path, count, limit));
    }
    found
}

fn validate_fields(
    object: &Map<String, Value>,
    schema: &Schema,
    path: &str,
    purpose: Purpose,
    was: Was<'_>,
) -> Found {
    let mut found = Found::default();
    let rules = &schema.rules;
    let count = i64::try_from(object.len()).unwrap_or(i64::MAX);
    if let Some(limit) = rules.min_properties.filter(|limit| count < *limit) {
        let words = format!("{path} in body should have at least {limit} properties");
        found.error(FieldError::invalid(path, count, words));
    }
    if let Some(limit) = rules.max_properties.filter(|limit| count > *limit) {
        found.error(FieldError::more_than(path, count, limit));
    }
    for (key, value) in object {
        let was = was.and_then(|was| was.key(key));
        if let Some(property) = schema.properties.get(key) {
            let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            found.merge(validate_schema(value.into(), property, &place, purpose, was));
            continue;
        }
        match &schema.additional {
            Some(Additional::Like(additional)) => {
                found.merge(validate_schema(
                    value.into(),
                    additional,
                    &format!("{path}.{key}"),
                    purpose,
                    was,
                ));
            }
            Some(Additional::Nothing) => {
                let words = format!("{path}.{key} in body is a forbidden property");
                found.error(FieldError::invalid(path, key.as_str(), words));
            }
            Some(Additional::Anything) | None => {}
        }
    }
    for key in rules.required.iter().filter(|key| !object.contains_key(*key)) {
        found.error(FieldError::required(format!("{path}.{key}"), ""));
    }
    found
}

fn validate_junctors(value: View<'_>, schema: &Schema, path: &str, purpose: Purpose, was: Was<'_>) -> Found {
    let mut found = Found::default();
    let rules = &schema.rules;
    if !rules.any_of.is_empty() {
        let alternatives = try_all(value, &rules.any_of, path, purpose, was);
        if alternatives.valid == 0 {
            found.general(format!("{path:?} must validate at least one schema (anyOf)"));
        }
        found.merge(alternatives.telling);
    }
    if !rules.one_of.is_empty() {
        let alternatives = try_all(value, &rules.one_of, path, purpose, was);
        if alternatives.valid != 1 {
            let more = match alternatives.valid {
                0 => "Found none valid".to_owned(),
                many => format!("Found {many} valid alternatives"),
            };
            found.general(format!("{path:?} must validate one and only one schema (oneOf). {more}"));
        }
        if alternatives.valid <= 1 {
            found.merge(alternatives.telling);
        }
    }
    if !rules.all_of.is_empty() {
        let mut valid = 0;
        for schema in &rules.all_of {
            let tried = validate_value(value, schema, path, purpose, was);
            valid += usize::from(tried.errors.is_empty());
            found.merge(tried);
        }
        if valid != rules.all_of.len() {
            let more = if valid == 0 { ". None validated" } else { "" };
            found.general(format!("{path:?} must validate all the schemas (allOf){more}"));
        }
    }
    if let Some(not) = &rules.not
        && validate_value(value, not, path, purpose, was).errors.is_empty()
    {
        found.general(format!("{path:?} must not validate the schema (not)"));
    }
    found
}

/// What became of several alternatives.
struct Alternatives {
    valid: usize,
    /// The first that holds, else the one that came furthest.
    telling: Found,
}

fn try_all(value: View<'_>, schemas: &[Schema], path: &str, purpose: Purpose, was: Was<'_>) -> Alternatives {
    let mut valid = 0;
    let mut telling: Option<Found> = None;
    for schema in schemas {
        let tried = validate_value(value, schema, path, purpose, was);
        if tried.errors.is_empty() {
            valid += 1;
            if valid == 1 {
                telling = Some(tried);
            }
        } else if valid == 0 && telling.as_ref().is_none_or(|best| tried.passed > best.passed) {
            telling = Some(tried);
        }
    }
    Alternatives { valid, telling: telling.unwrap_or_default() }
}
#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(schema: Value, object: Value) -> Vec<String> {
        let schema = Schema::read(&json!({"type": "object", "properties": {"a": schema}}), "").unwrap();
        schema.validate(object.as_object().unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_that_fit_pass() {
        for (schema, value) in [
            (json!({"type": "integer", "minimum": 1, "maximum": 3}), json!(3)),
            (json!({"type": "integer"}), json!(3.0)),
            (json!({"type": "number", "multipleOf": 0.1}), json!(0.3)),
            (json!({"type": "string", "pattern": "^a+$", "maxLength": 2}), json!("aa")),
            (json!({"type": "string", "enum": ["x", "y"]}), json!("y")),
            (json!({"type": "string", "nullable": true}), json!(null)),
            (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
            (json!({"type": "string", "format": "date-time"}), json!("2026-01-02T03:04:05Z")),
            (json!({"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}), json!({"x": 1})),
            (
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
                json!(["a", "b"]),
            ),
        ] {
            assert_eq!(errors(schema.clone(), json!({"a": value})), Vec::<String>::new(), "{schema} {value}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused_in_kubernetes_words() {
        for (schema, value, expected) in [
            (
                json!({"type": "integer"}),
                json!("x"),
                "a: Invalid value: \"string\": a in body must be of type integer: \"string\"",
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                json!(0),
                "a: Invalid value: 0: a in body should be greater than or equal to 1",
            ),
            (
                json!({"type": "integer", "maximum": 3, "exclusiveMaximum": true}),
                json!(3),
                "a: Invalid value: 3: a in body should be less than 3",
            ),
            (
                json!({"type": "string", "maxLength": 1}),
                json!("xx"),
                "a: Too long: may not be more than 1 byte",
            ),
            (
                json!({"type": "string", "minLength": 3}),
                json!("xx"),
                "a: Invalid value: \"xx\": a in body should be at least 3 chars long",
            ),
            (
                json!({"type": "string", "pattern": "^a$"}),
                json!("b"),
                "a: Invalid value: \"b\": a in body should match '^a$'",
            ),
            (
                json!({"type": "string", "enum": ["x", "y"]}),
                json!("z"),
                "a: Unsupported value: \"z\": supported values: \"x\", \"y\"",
            ),
            (json!({"type": "object", "required": ["x"]}), json!({}), "a.x: Required value"),
            (
                json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
                json!(["a", "b"]),
                "a: Too many: 2: must have at most 1 item",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                json!(["a", 1]),
                "a[1]: Invalid value: \"integer\": a[1] in body must be of type string: \"integer\"",
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("soon"),
                "a: Invalid value: \"soon\": a in body must be of type date-time: \"soon\"",
            ),
            (
                json!({"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}),
                json!({}),
                "<nil>: Invalid value: \"\": \"a\" must validate one and only one schema (oneOf). Found none valid",
            ),
            (
                json!({"type": "object", "not": {"required": ["x"]}}),
                json!({"x": 1}),
                "<nil>: Invalid value: \"\": \"a\" must not validate the schema (not)",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
                json!(["a", "a", "a"]),
                "a[1]: Duplicate value: \"a\"",
            ),
        ] {
            let found = errors(schema.clone(), json!({"a": value}));
            assert!(found.iter().any(|error| error == expected), "{schema}: {found:?}");
        }
    }

    #[test]
    fn of_failing_alternatives_the_one_that_came_furthest_is_told() {
        let schema = json!({"type": "object", "properties": {"k": {"type": "string"}, "n": {"type": "integer"}}, "anyOf": [
            {"required": ["x"]},
            {"properties": {"k": {"enum": ["b"]}, "n": {"minimum": 5}}},
        ]});
        let found = errors(schema, json!({"a": {"k": "b", "n": 1}}));
        assert!(found.iter().any(|error| error.contains("a.n in body should be greater than")), "{found:?}");
    }
}
