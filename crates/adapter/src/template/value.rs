//! The values that templates compute with: JSON, and the time that `now` returns.

use jiff::Timestamp;
use serde_json::Value as Json;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Json(Json),
    Time(Timestamp),
}

impl Value {
    /// Whether `if` takes its branch: not for false, 0, null and what is empty.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Time(_) => true,
            Self::Json(Json::Null) => false,
            Self::Json(Json::Bool(value)) => *value,
            Self::Json(Json::Number(number)) => number.as_f64() != Some(0.0),
            Self::Json(Json::String(text)) => !text.is_empty(),
            Self::Json(Json::Array(items)) => !items.is_empty(),
            Self::Json(Json::Object(entries)) => !entries.is_empty(),
        }
    }

    /// The value as text; `None` for null. Lists and maps are JSON.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Time(time) => Some(time.to_string()),
            Self::Json(Json::Null) => None,
            Self::Json(Json::String(text)) => Some(text.clone()),
            Self::Json(Json::Number(number)) => Some(number_text(number)),
            Self::Json(other) => Some(other.to_string()),
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Time(_) => "a time",
            Self::Json(json) => match json {
                Json::Null => "null",
                Json::Bool(_) => "a bool",
                Json::Number(_) => "a number",
                Json::String(_) => "a string",
                Json::Array(_) => "a list",
                Json::Object(_) => "a map",
            },
        }
    }
}

/// A number without a fraction is written without one, also where JSON had it as a float.
pub(super) fn number_text(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}
