//! Configuration files in YAML, parsed strictly: an error names the file, the line and the column.

use std::time::Duration;

use jiff::SignedDuration;
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize as _, Deserializer};

/// Why a configuration file is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}:{column}: {cause}")]
pub struct YamlError {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What is wrong there.
    pub cause: String,
}

/// Parses the text of a file; `path` is used in errors. A file that is empty or has only comments is `None`.
pub fn parse<T: DeserializeOwned>(text: &str, path: &str) -> Result<Option<T>, YamlError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
        // The message without the excerpt of the file and without the place, which is in front.
        let message = error.without_snippet().to_string();
        let cause = message.lines().next().unwrap_or_default();
        let cause = cause.trim_end_matches(&format!(" at line {line}, column {column}")).to_owned();
        YamlError { path: path.to_owned(), line, column, cause }
    })
}

/// Parses a duration such as `500ms`, `30s` or `1m30s`: for `#[serde(deserialize_with = "…")]`.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parsed: Option<SignedDuration> = text.parse().ok();
    let duration = parsed.and_then(|duration| Duration::try_from(duration).ok());
    duration.ok_or_else(|| {
        de::Error::custom(format!(
            "{text:?} is not a duration: use a number with a unit, such as 500ms, 30s or 1m30s"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        name: String,
    }

    #[test]
    fn error_names_the_place() {
        let error = parse::<Config>("name: a\nnmae: b\n", "a.yaml").unwrap_err();
        assert_eq!((error.line, error.column), (2, 1), "{error}");
        assert!(error.to_string().starts_with("a.yaml:2:1: unknown field"), "{error}");
    }

    #[test]
    fn file_without_content_is_none() {
        for text in ["", "\n", "# nothing\n"] {
            assert_eq!(parse::<BTreeMap<String, String>>(text, "a.yaml"), Ok(None), "{text:?}");
        }
        assert_eq!(parse("name: a", "a.yaml"), Ok(Some(Config { name: "a".to_owned() })));
    }
}
