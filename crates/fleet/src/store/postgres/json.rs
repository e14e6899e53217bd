//! JSON columns. JSONB stores numbers as decimals, and cannot store U+0000. If that would change a spec, its text is stored, too.

use std::borrow::Cow;
use std::error::Error;

use serde_json::{Map, Number, Value};
use tokio_postgres::types::{FromSql, Type};

/// The text of a JSON, JSONB or text column.
pub(super) struct JsonText<'a>(pub(super) &'a str);

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(type_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let raw = match (type_, raw) {
            (&Type::JSONB, [1, text @ ..]) => text,
            (&Type::JSONB, _) => return Err("a form of JSONB that is not known".into()),
            (_, text) => text,
        };
        Ok(Self(std::str::from_utf8(raw)?))
    }

    fn accepts(type_: &Type) -> bool {
        [Type::JSON, Type::JSONB, Type::TEXT].contains(type_)
    }
}

/// Whether JSONB stores an object exactly.
pub(super) fn is_kept(object: &Map<String, Value>) -> bool {
    object.iter().all(|(key, value)| !key.contains('\0') && is_value_kept(value))
}

fn is_value_kept(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => is_number_kept(number),
        Value::String(text) => !text.contains('\0'),
        Value::Array(values) => values.iter().all(is_value_kept),
        Value::Object(object) => is_kept(object),
    }
}

/// Decimals lose the sign of zero, and exponents: 1e16 becomes an integer.
fn is_number_kept(number: &Number) -> bool {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return true };
    let is_negative_zero = float == 0.0 && float.is_sign_negative();
    !is_negative_zero && !number.to_string().contains('e')
}

/// An object that JSONB can store, for searches.
pub(super) fn searchable(object: &Map<String, Value>) -> Map<String, Value> {
    object.iter().map(|(key, value)| (without_zero(key).into_owned(), searchable_value(value))).collect()
}

fn searchable_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_zero(text).into_owned()),
        Value::Array(values) => Value::Array(values.iter().map(searchable_value).collect()),
        Value::Object(object) => Value::Object(searchable(object)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Text without U+0000, which PostgreSQL cannot store.
pub(super) fn without_zero(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}
