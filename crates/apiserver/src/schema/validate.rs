//! Validation of a value against a schema, in the words and with the choice of errors that Kubernetes makes: of several
//! alternatives that all fail, the errors of the one that came furthest are told.

use serde_json::{Map, Number, Value};

use super::{Correlated, ListType, Rules, Schema, Type, formats};
use crate::field::FieldError;

/// Errors that belong to no field stand here.
const NOWHERE: &str = "<nil>";

impl Schema {
    /// What is wrong with an object.
    pub(crate) fn validate(&self, object: &Map<String, Value>) -> Vec<FieldError> {
        let mut errors = validate_schema(&Value::Object(object.clone()), self, "", None).errors;
        validate_lists_below(object, self, "", &mut errors);
        errors
    }

    /// What is wrong with an object that was not wrong before it was changed.
    pub(crate) fn validate_update(
        &self,
        object: &Map<String, Value>,
        old: &Map<String, Value>,
    ) -> Vec<FieldError> {
        let was = Correlated::root(self, object, old);
        let mut errors = validate_schema(&Value::Object(object.clone()), self, "", Some(was)).errors;
        let mut repeated_before = Vec::new();
        validate_lists_below(old, self, "", &mut repeated_before);
        if repeated_before.is_empty() {
            validate_lists_below(object, self, "", &mut errors);
        }
        errors
    }
}

impl Schema {
    /// What is wrong with a value that stands for this schema when it is left out.
    pub(crate) fn default_errors(&self, default: &Value) -> Vec<FieldError> {
        let mut errors = validate_schema(default, self, "", None).errors;
        if let (Value::Object(object), false) = (default, self.extensions.preserve_unknown_fields) {
            let mut pruned = object.clone();
            for unknown in super::prune(&mut pruned, self) {
                errors.push(FieldError::forbidden(unknown, "is not a field of the schema"));
            }
        }
        errors
    }
}

/// The value that one was before, if it has a past.
type Was<'a> = Option<Correlated<'a>>;

/// What a validation found, and how many checks passed on the way.
#[derive(Default)]
struct Found {
    errors: Vec<FieldError>,
    passed: usize,
}

impl Found {
    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.passed += other.passed;
    }

    fn error(&mut self, error: FieldError) {
        self.errors.push(error);
    }
}

/// What is wrong with a value, unless it is as it was.
fn validate_schema(value: &Value, schema: &Schema, path: &str, was: Was<'_>) -> Found {
    let found = validate_value(value, schema, path, was);
    if !found.errors.is_empty() && was.is_some_and(|was| was.unchanged()) {
        return Found { errors: Vec::new(), passed: found.passed };
    }
    found
}

fn validate_value(value: &Value, schema: &Schema, path: &str, was: Was<'_>) -> Found {
    let mut found = Found::default();
    if let Some(error) = type_error(value, schema, path) {
        found.error(error);
    } else {
        found.passed += 1;
    }
    if value.is_null() {
        if let Some(error) = value_error(value, &schema.rules, path) {
            found.error(error);
        }
        return found;
    }
    found.passed += 1;
    found.merge(validate_junctors(value, schema, path, was));
    found.passed += 1;
    match value {
        Value::String(text) => {
            found.merge(validate_text(text, &schema.rules, path));
            found.passed += 1;
        }
        Value::Number(number) => {
            found.merge(validate_number(number, schema, path));
            found.passed += 2;
        }
        Value::Array(items) => {
            found.merge(validate_items(items, schema, path, was));
            found.passed += 2;
        }
        Value::Object(object) => {
            found.merge(validate_fields(object, schema, path, was));
            found.passed += 1;
        }
        Value::Null | Value::Bool(_) => {}
    }
    if let Some(error) = value_error(value, &schema.rules, path) {
        found.error(error);
    }
    found.passed += 1;
    found
}

fn shown(path: &str) -> &str {
    path.strip_prefix('.').unwrap_or(path)
}

fn invalid(path: &str, value: impl Into<Value>, words: String) -> FieldError {
    FieldError::invalid(field_of(path), value, words)
}

fn field_of(path: &str) -> String {
    let shown = shown(path);
    if shown.is_empty() { NOWHERE.to_owned() } else { shown.to_owned() }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn type_error(value: &Value, schema: &Schema, path: &str) -> Option<FieldError> {
    let wanted = match schema.kind {
        Some(kind) => kind,
        None if schema.extensions.int_or_string => {
            let fits = value.is_string() || is_integer(value) || (value.is_null() && schema.nullable);
            return (!fits).then(|| mismatch(value, "integer,string", path));
        }
        None => return None,
    };
    let fits = match (wanted, value) {
        (_, Value::Null) => schema.nullable,
        (Type::Object, Value::Object(_))
        | (Type::Array, Value::Array(_))
        | (Type::String, Value::String(_))
        | (Type::Number, Value::Number(_))
        | (Type::Boolean, Value::Bool(_)) => true,
        (Type::Integer, value) => is_integer(value),
        _ => false,
    };
    (!fits).then(|| mismatch(value, wanted.name(), path))
}

fn mismatch(value: &Value, wanted: &str, path: &str) -> FieldError {
    let found = type_name(value);
    let words = format!("{} in body must be of type {wanted}: {found:?}", shown(path));
    FieldError::wrong_type(field_of(path), found, words)
}

/// A float without a fraction is an integer as well.
fn is_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        _ => false,
    }
}

fn value_error(value: &Value, rules: &Rules, path: &str) -> Option<FieldError> {
    let allowed = rules.one_of_values.as_ref().filter(|allowed| !allowed.is_empty())?;
    if allowed.iter().any(|candidate| same(candidate, value)) {
        return None;
    }
    let words: Vec<String> = allowed
        .iter()
        .map(|candidate| match candidate {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(FieldError::not_supported(field_of(path), value.clone(), &words))
}

/// Equality that takes 1 and 1.0 for the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == std::cmp::Ordering::Equal,
        _ => a == b,
    }
}

fn compare(a: &Number, b: &Number) -> std::cmp::Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or(f64::NAN).total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
    }
}

fn validate_text(text: &str, rules: &Rules, path: &str) -> Found {
    let mut found = Found::default();
    let name = shown(path);
    let length = text.chars().count() as u64;
    if let Some(limit) = rules.max_length.filter(|limit| length > *limit) {
        found.error(FieldError::too_long(field_of(path), usize::try_from(limit).unwrap_or(usize::MAX)));
    } else if let Some(limit) = rules.min_length.filter(|limit| length < *limit) {
        found.error(invalid(path, text, format!("{name} in body should be at least {limit} chars long")));
    } else if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.regex.is_match(text)) {
        found.error(invalid(path, text, format!("{name} in body should match '{}'", pattern.text)));
    }
    if !formats::matches(&rules.format, text) {
        let words = format!("{name} in body must be of type {}: {text:?}", rules.format);
        found.error(FieldError::wrong_type(field_of(path), text, words));
    }
    found
}

fn validate_number(number: &Number, schema: &Schema, path: &str) -> Found {
    use std::cmp::Ordering;
    let mut found = Found::default();
    let rules = &schema.rules;
    let name = shown(path);
    let mut fail = |words: String| found.error(invalid(path, number.clone(), words));
    if rules.format == "int32" && number.as_i64().is_none_or(|value| i32::try_from(value).is_err()) {
        fail(format!("Checked value must be of type integer with format int32 in {name}"));
    }
    if let Some(factor) = &rules.multiple_of {
        let multiple = match (number.as_i64(), factor.as_i64()) {
            (Some(value), Some(factor)) if factor != 0 => value % factor == 0,
            _ => {
                let ratio = number.as_f64().unwrap_or(0.0) / factor.as_f64().unwrap_or(1.0);
                (ratio - ratio.round()).abs() < 1e-9
            }
        };
        if !multiple {
            fail(format!("{name} in body should be a multiple of {factor}"));
        }
    }
    if let Some(minimum) = &rules.minimum {
        match (compare(number, minimum), rules.exclusive_minimum) {
            (Ordering::Less, false) => {
                fail(format!("{name} in body should be greater than or equal to {minimum}"));
            }
            (Ordering::Less | Ordering::Equal, true) => {
                fail(format!("{name} in body should be greater than {minimum}"));
            }
            _ => {}
        }
    }
    if let Some(maximum) = &rules.maximum {
        match (compare(number, maximum), rules.exclusive_maximum) {
            (Ordering::Greater, false) => {
                fail(format!("{name} in body should be less than or equal to {maximum}"));
            }
            (Ordering::Greater | Ordering::Equal, true) => {
                fail(format!("{name} in body should be less than {maximum}"));
            }
            _ => {}
        }
    }
    found
}

fn validate_items(items: &[Value], schema: &Schema, path: &str, was: Was<'_>) -> Found {
    let mut found = Found::default();
    if let Some(schema) = &schema.items {
        let were = was.and_then(|was| was.items());
        for (at, item) in items.iter().enumerate() {
            let was = were.as_ref().and_then(|were| were.at(at));
            found.merge(validate_schema(item, schema, &format!("{path}[{at}]"), was));
        }
    }
    let count = items.len() as u64;
    let rules = &schema.rules;
    if let Some(limit) = rules.min_items.filter(|limit| count < *limit) {
        let words = format!("{} in body should have at least {limit} items", shown(path));
        found.error(invalid(path, count, words));
    }
    if let Some(limit) = rules.max_items.filter(|limit| count > *limit) {
        found.error(FieldError::too_many(field_of(path), items.len(), limit));
    }
    found
}

fn validate_fields(object: &Map<String, Value>, schema: &Schema, path: &str, was: Was<'_>) -> Found {
    let mut found = Found::default();
    let rules = &schema.rules;
    let count = object.len() as u64;
    if let Some(limit) = rules.min_properties.filter(|limit| count < *limit) {
        let words = format!("{} in body should have at least {limit} properties", shown(path));
        found.error(invalid(path, count, words));
    }
    if let Some(limit) = rules.max_properties.filter(|limit| count > *limit) {
        found.error(FieldError::too_many(field_of(path), object.len(), limit));
    }
    for (key, value) in object {
        if let Some(field) = schema.field(key) {
            let was = was.and_then(|was| was.key(key));
            found.merge(validate_schema(value, field, &format!("{path}.{key}"), was));
        }
    }
    for key in rules.required.iter().filter(|key| !object.contains_key(*key)) {
        found.error(FieldError::required(field_of(&format!("{path}.{key}")), ""));
    }
    found
}

fn validate_junctors(value: &Value, schema: &Schema, path: &str, was: Was<'_>) -> Found {
    let mut found = Found { errors: Vec::new(), passed: 1 };
    let rules = &schema.rules;
    let name = shown(path);
    if !rules.any_of.is_empty() {
        let alternatives = try_all(value, &rules.any_of, path, was);
        if alternatives.valid == 0 {
            let words = format!("{name:?} must validate at least one schema (anyOf)");
            found.error(FieldError::invalid(NOWHERE, "", words));
        }
        found.merge(alternatives.telling);
    }
    if !rules.one_of.is_empty() {
        let alternatives = try_all(value, &rules.one_of, path, was);
        if alternatives.valid != 1 {
            let more = match alternatives.valid {
                0 => "Found none valid".to_owned(),
                many => format!("Found {many} valid alternatives"),
            };
            let words = format!("{name:?} must validate one and only one schema (oneOf). {more}");
            found.error(FieldError::invalid(NOWHERE, "", words));
        }
        if alternatives.valid <= 1 {
            found.merge(alternatives.telling);
        }
    }
    if !rules.all_of.is_empty() {
        let mut valid = 0;
        for schema in &rules.all_of {
            let tried = validate_value(value, schema, path, was);
            valid += usize::from(tried.errors.is_empty());
            found.merge(tried);
        }
        if valid != rules.all_of.len() {
            let more = if valid == 0 { ". None validated" } else { "" };
            let words = format!("{name:?} must validate all the schemas (allOf){more}");
            found.error(FieldError::invalid(NOWHERE, "", words));
        }
    }
    if let Some(not) = &rules.not
        && validate_value(value, not, path, was).errors.is_empty()
    {
        let words = format!("{name:?} must not validate the schema (not)");
        found.error(FieldError::invalid(NOWHERE, "", words));
    }
    found
}

/// What became of several alternatives.
struct Alternatives {
    valid: usize,
    /// The first that holds, else the one that came furthest.
    telling: Found,
}

fn try_all(value: &Value, schemas: &[Schema], path: &str, was: Was<'_>) -> Alternatives {
    let mut valid = 0;
    let mut telling: Option<Found> = None;
    for schema in schemas {
        let tried = validate_value(value, schema, path, was);
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

/// Lists that are sets or maps hold nothing twice.
fn validate_lists_below(
    object: &Map<String, Value>,
    schema: &Schema,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for (key, value) in object {
        let step = if schema.properties.contains_key(key) {
            if path.is_empty() { key.clone() } else { format!("{path}.{key}") }
        } else {
            format!("{path}[{key}]")
        };
        if let Some(field) = schema.field(key) {
            validate_lists(value, field, &step, errors);
        }
    }
}

fn validate_lists(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(object) => validate_lists_below(object, schema, path, errors),
        Value::Array(items) => {
            match schema.extensions.list_type {
                Some(ListType::Set) => {
                    for at in repeated(items) {
                        if let Some(item) = items.get(at) {
                            errors.push(FieldError::duplicate(format!("{path}[{at}]"), item.clone()));
                        }
                    }
                }
                Some(ListType::Map) => validate_list_map(items, schema, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(schema) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    validate_lists(item, schema, &format!("{path}[{at}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_list_map(items: &[Value], schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if let Some((at, item)) = items.iter().enumerate().find(|(_, item)| !(item.is_object() || item.is_null()))
    {
        let words = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{at}]"), item.clone(), words));
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let keys = schema.extensions.list_map_keys.iter();
            keys.filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())))
                .collect::<Map<String, Value>>()
                .into()
        })
        .collect();
    for at in repeated(&keys) {
        if let Some(key) = keys.get(at) {
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), key.clone()));
        }
    }
}

/// The position of the second appearance of everything that appears more than once.
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut seen: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    let mut repeated = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(at);
        }
    }
    repeated
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
                "a: Too long: may not be more than 1 bytes",
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
