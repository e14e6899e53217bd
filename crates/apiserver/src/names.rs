//! What may stand as a name, a label, an annotation or a key, and what is said when it may not. The words are
//! Kubernetes' own: clients and its tests read them.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DATA_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// How the objects of a kind may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    /// Anything that fits in a URL path: legacy events.
    PathSegment,
    /// An address of the Internet, in its shortest form.
    Address,
}

impl NameRule {
    /// What is wrong with a name; nothing, when it is good.
    pub(crate) fn check(self, name: &str) -> Vec<String> {
        let mut problems = match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::PathSegment => Vec::new(),
            Self::Address => address(name),
        };
        if problems.is_empty() {
            problems = path_segment(name);
        }
        problems
    }

    /// What is wrong with a `generateName`, to which the server adds characters.
    pub(crate) fn check_prefix(self, prefix: &str) -> Vec<String> {
        match prefix.strip_suffix('-') {
            Some(_) if prefix.len() > 1 => {
                let masked: String = prefix.chars().take(prefix.chars().count() - 2).chain(['a']).collect();
                self.check(&masked)
            }
            _ => self.check(prefix),
        }
    }
}

/// Kubernetes counts names in characters and labels in bytes; both mean bytes.
fn too_long(limit: usize, unit: &str) -> String {
    format!("must be no more than {limit} {unit}")
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether text starts and ends with `edge` characters and has only `edge` and `middle` ones.
fn framed(text: &str, edge: impl Fn(u8) -> bool, middle: &[u8]) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            edge(*first) && edge(*last) && bytes.iter().all(|byte| edge(*byte) || middle.contains(byte))
        }
        _ => false,
    }
}

fn is_label(text: &str) -> bool {
    framed(text, is_lower_alphanumeric, b"-")
}

pub(crate) fn subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(too_long(253, "characters"));
    }
    if !name.split('.').all(is_label) {
        problems.push(SUBDOMAIN.into());
    }
    problems
}

/// A subdomain below a `*` that stands for any label.
pub(crate) fn wildcard_subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(too_long(253, "characters"));
    }
    if !name.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(is_label)) {
        problems.push(WILDCARD.into());
    }
    problems
}

/// What is wrong with an address, which must also be written in its shortest form.
pub(crate) fn address(text: &str) -> Vec<String> {
    match text.parse::<std::net::IpAddr>() {
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".into()],
        Ok(address) if address.to_string() != text => {
            vec![format!("must be in canonical form (\"{address}\")")]
        }
        Ok(_) => Vec::new(),
    }
}

pub(crate) fn label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63, "characters"));
    }
    if !is_label(name) {
        // A subdomain is a label with dots in it: say just that.
        problems.push(if name.split('.').all(is_label) {
            "must not contain dots".into()
        } else {
            LABEL.into()
        });
    }
    problems
}

pub(crate) fn label_1035(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63, "characters"));
    }
    if !(is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())) {
        problems.push(LABEL_1035.into());
    }
    problems
}

fn path_segment(name: &str) -> Vec<String> {
    match name {
        "." => vec!["may not be '.'".into()],
        ".." => vec!["may not be '..'".into()],
        _ => ["/", "%"]
            .iter()
            .filter(|odd| name.contains(**odd))
            .map(|odd| format!("may not contain '{odd}'"))
            .collect(),
    }
}

/// Label keys, annotation keys and finalizers: `[prefix/]name`.
pub(crate) fn qualified(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(subdomain(prefix).into_iter().map(|problem| {
                    format!("prefix part {}", problem.replace("253 characters", "253 bytes"))
                }));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63, "bytes")));
    }
    if !framed(name, |byte| byte.is_ascii_alphanumeric(), b"-_.") {
        problems.push(format!("name part {QUALIFIED}"));
    }
    problems
}

pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push(too_long(63, "bytes"));
    }
    if !(value.is_empty() || framed(value, |byte| byte.is_ascii_alphanumeric(), b"-_.")) {
        problems.push(LABEL_VALUE.into());
    }
    problems
}

/// Keys of ConfigMaps and Secrets, which become file names.
pub(crate) fn data_key(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push(too_long(253, "characters"));
    }
    let readable =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !readable {
        problems.push(DATA_KEY.into());
    }
    if key == "." {
        problems.push("must not be '.'".into());
    } else if key == ".." {
        problems.push("must not be '..'".into());
    } else if key.starts_with("..") {
        problems.push("must not start with '..'".into());
    }
    problems
}

/// Names of ports: what IANA calls a service name.
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push(too_long(15, "characters"));
    }
    if !name.bytes().all(|byte| is_lower_alphanumeric(byte) || byte == b'-') {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".into());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rule() {
        let long = "a".repeat(254);
        for (rule, name, good) in [
            (NameRule::Subdomain, "a", true),
            (NameRule::Subdomain, "a-b.c1", true),
            (NameRule::Subdomain, "", false),
            (NameRule::Subdomain, "A", false),
            (NameRule::Subdomain, "a..b", false),
            (NameRule::Subdomain, "-a", false),
            (NameRule::Subdomain, "a_b", false),
            (NameRule::Subdomain, long.as_str(), false),
            (NameRule::Label, "a.b", false),
            (NameRule::Label, "1a", true),
            (NameRule::PathSegment, "A:b c", true),
            (NameRule::PathSegment, "..", false),
            (NameRule::PathSegment, "a/b", false),
        ] {
            assert_eq!(rule.check(name).is_empty(), good, "{rule:?} {name:.20}");
        }
    }

    #[test]
    fn keys_and_values_follow_theirs() {
        for (key, good) in [
            ("a", true),
            ("x.io/a_B.c", true),
            ("/a", false),
            ("a/", false),
            ("a/b/c", false),
            ("X.io/a", false),
        ] {
            assert_eq!(qualified(key).is_empty(), good, "{key}");
        }
        for (value, good) in [("", true), ("a_B.c", true), ("-a", false), ("a b", false)] {
            assert_eq!(label_value(value).is_empty(), good, "{value}");
        }
        for (key, good) in [("a.b-c_D", true), ("", false), (".", false), ("..x", false), ("a/b", false)] {
            assert_eq!(data_key(key).is_empty(), good, "{key}");
        }
    }
}
