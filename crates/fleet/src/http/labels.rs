//! The syntax of labels, which is that of Kubernetes.

/// The maximum length of the name of a key, and of a value.
const MAX_NAME_LENGTH: usize = 63;
/// The maximum length of the prefix of a key.
const MAX_PREFIX_LENGTH: usize = 253;

/// The pattern of keys.
pub(crate) fn key_pattern() -> String {
    const PART: &str = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?";
    let domain = format!("(?![^/]{{{},}}){PART}(?:\\.{PART})*", MAX_PREFIX_LENGTH + 1);
    format!("^(?:{domain}/)?{}$", name_pattern())
}

/// The pattern of values.
pub(crate) fn value_pattern() -> String {
    format!("^(?:{})?$", name_pattern())
}

fn name_pattern() -> String {
    format!("[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,{}}}[A-Za-z0-9])?", MAX_NAME_LENGTH - 2)
}

/// The error of an invalid key; a valid one is `[prefix/]name`.
pub(crate) fn wrong_key(key: &str) -> Option<&'static str> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if !is_domain(prefix) {
                return Some(
                    "the prefix of the key must be a domain of at most 253 lower-case letters, digits, dots and dashes",
                );
            }
            name
        }
        None => key,
    };
    if name.is_empty() || name.len() > MAX_NAME_LENGTH || !is_name(name) {
        return Some(
            "the name of the key must have 1 to 63 letters, digits, dots, dashes and underscores, and begin and end with a letter or a digit",
        );
    }
    None
}

/// The error of an invalid value.
pub(crate) fn wrong_value(value: &str) -> Option<&'static str> {
    if value.len() > MAX_NAME_LENGTH || !(value.is_empty() || is_name(value)) {
        return Some(
            "the value must have at most 63 letters, digits, dots, dashes and underscores, and begin and end with a letter or a digit",
        );
    }
    None
}

fn is_name(text: &str) -> bool {
    let edge = |letter: char| letter.is_ascii_alphanumeric();
    let inner = |letter: char| edge(letter) || matches!(letter, '-' | '_' | '.');
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner)
}

fn is_domain(text: &str) -> bool {
    let edge = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(edge)
            && part.ends_with(edge)
            && part.chars().all(|letter| edge(letter) || letter == '-')
    };
    text.len() <= MAX_PREFIX_LENGTH && text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        jsonschema::is_valid(&serde_json::json!({ "pattern": pattern }), &serde_json::json!(text))
    }

    #[rstest]
    #[case("env", true)]
    #[case("example.com/Tier_1.x", true)]
    #[case("", false)]
    #[case("/name", false)]
    #[case("example.com/", false)]
    #[case("Example.com/name", false)]
    #[case("a/b/c", false)]
    #[case("-a", false)]
    #[case("a-", false)]
    #[case("ä", false)]
    fn a_key_is_a_name_that_may_have_a_domain(#[case] key: &str, #[case] fits: bool) {
        assert_eq!(wrong_key(key).is_none(), fits);
        assert_eq!(matches(&key_pattern(), key), fits);
    }

    #[rstest]
    #[case("", true)]
    #[case("v1.2_3-x", true)]
    #[case(".a", false)]
    #[case("a b", false)]
    fn a_value_may_be_empty(#[case] value: &str, #[case] fits: bool) {
        assert_eq!(wrong_value(value).is_none(), fits);
        assert_eq!(matches(&value_pattern(), value), fits);
    }

    #[test]
    fn lengths_are_bounded() {
        assert!(wrong_value(&"a".repeat(63)).is_none() && wrong_value(&"a".repeat(64)).is_some());
        assert!(wrong_key(&"a".repeat(63)).is_none() && wrong_key(&"a".repeat(64)).is_some());
        let domain = |length: usize| format!("{}/a", "a".repeat(length));
        assert!(wrong_key(&domain(253)).is_none() && wrong_key(&domain(254)).is_some());
        assert!(matches(&value_pattern(), &"a".repeat(63)) && !matches(&value_pattern(), &"a".repeat(64)));
        assert!(matches(&key_pattern(), &domain(253)) && !matches(&key_pattern(), &domain(254)));
    }
}
