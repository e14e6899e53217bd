//! Secret: bytes under file-like keys, with a type that says which keys must be there.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::config_map::{DATA_LIMIT, decoded_len, entries, frozen};
use crate::field::FieldError;
use crate::names;
use crate::object::{Object, lookup, text};
use crate::registry::{Change, Resource, Rules};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        selectable: vec![Selectable::at("type", &["type"])],
        columns: vec![
            name(),
            Column::text("Type", |object, _| text(object, "type").into()),
            Column::text("Data", |object, _| entries(object, "data").count().into()),
            age(),
        ],
        rules: Rules { default, validate, ..Rules::default() },
        ..resource
    }
}

/// The type, and the plain text that a client may send instead of base64.
fn default(object: &mut Object, _: &Resource) {
    object.entry("type").or_insert_with(|| "Opaque".into());
    if let Some(Value::Object(plain)) = object.remove("stringData") {
        let data = object.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(data) = data {
            for (key, value) in plain {
                let bytes = value.as_str().unwrap_or_default();
                data.insert(key, base64::engine::general_purpose::STANDARD.encode(bytes).into());
            }
        }
    }
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(object, "type");
    if let Some(old) = change.old
        && text(old, "type") != kind
    {
        errors.push(FieldError::invalid("type", kind, "field is immutable"));
    }
    errors.extend(frozen(object, change.old, &["data"]));
    let mut size = 0;
    for (key, value) in entries(object, "data") {
        for problem in names::data_key(key) {
            errors.push(FieldError::invalid(format!("data[{key}]"), key.as_str(), problem));
        }
        size += decoded_len(value);
    }
    if size > DATA_LIMIT {
        errors.push(FieldError::too_long("data", DATA_LIMIT));
    }
    validate_type(object, kind, &mut errors);
    errors
}

fn validate_type(object: &Object, kind: &str, errors: &mut Vec<FieldError>) {
    let value = |key: &str| entries(object, "data").find(|(name, _)| *name == key).map(|(_, value)| value);
    let mut require = |key: &str| errors.push(FieldError::required(format!("data[{key}]"), ""));
    match kind {
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            let annotation = lookup(object, "metadata.annotations")
                .and_then(|annotations| annotations.get(NAME))
                .and_then(Value::as_str);
            if annotation.unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("metadata.annotations[{NAME}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => validate_json(".dockercfg", value(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => {
            validate_json(".dockerconfigjson", value(".dockerconfigjson"), errors);
        }
        "kubernetes.io/basic-auth" if value("username").is_none() && value("password").is_none() => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").unwrap_or_default().is_empty() => {
            require("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if value(key).is_none() {
                    require(key);
                }
            }
        }
        _ => {}
    }
}

fn validate_json(key: &str, value: Option<&str>, errors: &mut Vec<FieldError>) {
    let field = format!("data[{key}]");
    let Some(value) = value else {
        errors.push(FieldError::required(field, ""));
        return;
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(value).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&bytes) {
        let why = crate::decode::json_words(&error);
        errors.push(FieldError::invalid(field, "<secret contents redacted>", why));
    }
}
