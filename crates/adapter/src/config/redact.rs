//! Removes secrets from configurations before they are shown: credentials in headers, URLs, params and manifests. It recognises
//! them by names and places, since values do not show that they are secret, and rather removes too much.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value as Json, json};

const REDACTED: &str = "**REDACTED**";
/// Parts of names of secrets, in lower case and without separators.
const SECRET_NAMES: [&str; 16] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "credential",
    "cookie",
    "xauth",
    "signature",
    "cafile",
    "certfile",
    "keyfile",
];

macro_rules! patterns {
    ($($name:ident = $pattern:literal;)*) => {
        $(
            #[allow(clippy::unwrap_used, reason = "the pattern is fixed and tested")]
            static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).unwrap());
        )*
    };
}

patterns! {
    URL_USER = r#"://[^/?#\s"']*@"#;
    URL_PARAMETER = r#"([?&])([^=?&#\s"']+)=([^?&#\s"']*)"#;
    SECRET_MANIFEST = r#"(?m)^\s*(-\s+)?["']?kind["']?:\s*["']?Secret["']?\s*,?\s*(#.*)?$"#;
}

/// A configuration without secrets.
pub(super) fn redact(value: Json) -> Json {
    match value {
        Json::Object(entries) => Json::Object(redact_map(entries)),
        Json::Array(items) => Json::Array(items.into_iter().map(redact).collect()),
        Json::String(text) if SECRET_MANIFEST.is_match(&text) => json!(REDACTED),
        Json::String(text) => Json::String(redact_urls(&text)),
        other => other,
    }
}

fn redact_map(entries: Map<String, Json>) -> Map<String, Json> {
    let text = |key: &str| entries.get(key).and_then(Json::as_str);
    let is_secret_manifest = text("kind") == Some("Secret");
    // A header, a variable of a container, or a param.
    let has_secret_name = text("name").is_some_and(is_secret);
    let redacted = entries.into_iter().map(|(key, value)| {
        let value = match key.as_str() {
            "default_headers" => redact_all(value),
            "data" | "stringData" if is_secret_manifest => redact_all(value),
            "value" | "values" | "default" if has_secret_name => redact_all(value),
            key if is_secret(key) && !value.is_object() => redact_all(value),
            _ => redact(value),
        };
        (key, value)
    });
    redacted.collect()
}

/// Replaces a value, or the values of a mapping.
fn redact_all(value: Json) -> Json {
    match value {
        Json::Null => Json::Null,
        Json::Object(entries) => {
            Json::Object(entries.into_iter().map(|(key, _)| (key, json!(REDACTED))).collect())
        }
        _ => json!(REDACTED),
    }
}

fn is_secret(name: &str) -> bool {
    let name: String = name.to_lowercase().chars().filter(|c| !matches!(c, '-' | '_' | '.')).collect();
    SECRET_NAMES.iter().any(|word| name.contains(word)) && !name.ends_with("ttl")
}

/// A text whose URLs have neither users and passwords, nor secrets as parameters.
fn redact_urls(text: &str) -> String {
    let text = URL_USER.replace_all(text, format!("://{REDACTED}@"));
    let without_secret = |found: &Captures<'_>| {
        let name = &found[2];
        match is_secret(name) {
            true => format!("{}{name}={REDACTED}", &found[1]),
            false => found[0].to_owned(),
        }
    };
    URL_PARAMETER.replace_all(&text, without_secret).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed_by_their_names_and_places() {
        for (what, given, expected) in [
            (
                "headers of a call",
                json!({"headers": [
                    {"name": "Authorization", "value": "Bearer x"}, {"name": "X-Session-Token", "value": "x"},
                    {"name": "x-api-key", "value": "x"}, {"name": "Cookie", "value": "x"}, {"name": "Accept", "value": "a"},
                ]}),
                json!({"headers": [
                    {"name": "Authorization", "value": REDACTED}, {"name": "X-Session-Token", "value": REDACTED},
                    {"name": "x-api-key", "value": REDACTED}, {"name": "Cookie", "value": REDACTED}, {"name": "Accept", "value": "a"},
                ]}),
            ),
            (
                "every default header",
                json!({"default_headers": {"X-Tenant": "x"}}),
                json!({"default_headers": {"X-Tenant": REDACTED}}),
            ),
            (
                "the default of a param with the name of a secret",
                json!([{"name": "dbPassword", "source": "env.DB", "default": "x"}, {"name": "region", "default": "eu"}]),
                json!([{"name": "dbPassword", "source": "env.DB", "default": REDACTED}, {"name": "region", "default": "eu"}]),
            ),
            (
                "a default that is a mapping",
                json!({"name": "credentials", "default": {"user": "x", "key": ["x"]}}),
                json!({"name": "credentials", "default": {"user": REDACTED, "key": REDACTED}}),
            ),
            (
                "variables of a container",
                json!({"env": [{"name": "API_TOKEN", "value": "x"}, {"name": "REGION", "value": "eu"}]}),
                json!({"env": [{"name": "API_TOKEN", "value": REDACTED}, {"name": "REGION", "value": "eu"}]}),
            ),
            (
                "a Secret, also inside a ManifestWork",
                json!({"manifests": [{"kind": "Secret", "metadata": {"name": "n"}, "data": {"a": "x"}, "stringData": {"b": "x"}}]}),
                json!({"manifests": [{"kind": "Secret", "metadata": {"name": "n"}, "data": {"a": REDACTED}, "stringData": {"b": REDACTED}}]}),
            ),
            (
                "the data of other kinds stays",
                json!({"kind": "ConfigMap", "data": {"a": "shown"}}),
                json!({"kind": "ConfigMap", "data": {"a": "shown"}}),
            ),
            (
                "a Secret as text",
                json!({"manifest": "apiVersion: v1\nkind: Secret\nstringData: {a: x}\n"}),
                json!({"manifest": REDACTED}),
            ),
            (
                "other kinds as text stay",
                json!({"manifest": "kind: SecretStore\nspec: {}\n"}),
                json!({"manifest": "kind: SecretStore\nspec: {}\n"}),
            ),
            (
                "files with credentials, and not how long they are kept",
                json!({"token_path": "/x", "token_cache_ttl": "1m", "tls_config": {"key_file": "/x"}}),
                json!({"token_path": REDACTED, "token_cache_ttl": "1m", "tls_config": {"key_file": REDACTED}}),
            ),
        ] {
            assert_eq!(redact(given), expected, "{what}");
        }
    }

    #[test]
    fn credentials_are_removed_from_urls() {
        for (given, expected) in [
            ("http://user:pw@host/x", "http://**REDACTED**@host/x"),
            ("postgres://u:p@w@host:5432/db", "postgres://**REDACTED**@host:5432/db"),
            ("run http://a:b@x/ and https://c@y", "run http://**REDACTED**@x/ and https://**REDACTED**@y"),
            ("clusters?page=1&access_token=x&size=2", "clusters?page=1&access_token=**REDACTED**&size=2"),
            ("https://h/x?X-Amz-Signature=x#f", "https://h/x?X-Amz-Signature=**REDACTED**#f"),
            ("https://host/@user?q=a@b", "https://host/@user?q=a@b"),
            ("mail a@b", "mail a@b"),
        ] {
            assert_eq!(redact_urls(given), expected, "{given}");
        }
    }
}
