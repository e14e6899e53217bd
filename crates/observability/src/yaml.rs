//! Parses YAML with errors that fit into one line, as the message of a condition must.

use serde::de::DeserializeOwned;

/// Parses a document. An error says where it is, without an excerpt.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let message = error.without_snippet().to_string();
        message.lines().next().unwrap_or_default().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_one_line() {
        let error = parse::<Vec<String>>("a: 1\nb: 2\n").unwrap_err();
        assert!(error.contains("line 1") && !error.contains('\n'), "{error}");
    }
}
