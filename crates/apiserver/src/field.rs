//! What is wrong with a field of an object, in the words that Kubernetes uses and clients compare.

use serde_json::Value;

use crate::numbers::{Figure, json_text};

/// The ways in which a field can be wrong; each is a `reason` of a Status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    NotFound,
}

impl Wrong {
    /// The `reason` of the Status cause.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TypeInvalid => "Invalid value",
            Self::NotFound => "Not found",
        }
    }
}

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldError {
    pub(crate) wrong: Wrong,
    pub(crate) field: String,
    value: Option<Value>,
    detail: String,
}

impl FieldError {
    pub(crate) fn new(
        wrong: Wrong,
        field: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { wrong, field: field.into(), value, detail: detail.into() }
    }

    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::Required, field, None, detail)
    }

    pub(crate) fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Wrong::Invalid, field, Some(value.into()), detail)
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::Forbidden, field, None, detail)
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(Wrong::Duplicate, field, Some(value.into()), "")
    }

    pub(crate) fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(Wrong::NotFound, field, Some(value.into()), "")
    }

    pub(crate) fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::longer_than(field, i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// As `too_long`, with a limit that may be nonsense.
    pub(crate) fn longer_than(field: impl Into<String>, limit: i64) -> Self {
        let detail = match limit {
            1 => "may not be more than 1 byte".to_owned(),
            0.. => format!("may not be more than {limit} bytes"),
            _ => "value is too long".to_owned(),
        };
        Self::new(Wrong::TooLong, field, None, detail)
    }

    /// As `too_many`, with a limit that may be nonsense.
    pub(crate) fn more_than(field: impl Into<String>, found: i64, limit: i64) -> Self {
        match u64::try_from(limit) {
            Ok(limit) => Self::too_many(field, usize::try_from(found).unwrap_or(usize::MAX), limit),
            Err(_) => Self::new(Wrong::TooMany, field, Some(found.into()), "has too many items"),
        }
    }

    pub(crate) fn too_many(field: impl Into<String>, found: usize, limit: u64) -> Self {
        let items = if limit == 1 { "item" } else { "items" };
        let detail = format!("must have at most {limit} {items}");
        Self::new(Wrong::TooMany, field, Some(found.into()), detail)
    }

    pub(crate) fn wrong_type(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Wrong::TypeInvalid, field, Some(value.into()), detail)
    }

    pub(crate) fn not_supported(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        Self::new(
            Wrong::NotSupported,
            field,
            Some(value.into()),
            format!("supported values: {}", supported.join(", ")),
        )
    }

    /// The message of the Status cause: everything but the field's path.
    pub(crate) fn body(&self) -> String {
        let mut body = self.wrong.words().to_owned();
        if let Some(value) = &self.value {
            match value {
                Value::Number(number) => body.push_str(&format!(": {}", Figure::of(number))),
                value => body.push_str(&format!(": {}", shortened(json_text(value)))),
            }
        }
        if !self.detail.is_empty() {
            body.push_str(&format!(": {}", self.detail));
        }
        body
    }
}

/// How much of a wrong value is quoted back.
const QUOTED: usize = 4 * 1024;

fn shortened(mut text: String) -> String {
    if text.len() > QUOTED {
        text.truncate(text.floor_char_boundary(QUOTED));
        text.push('…');
    }
    text
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}
