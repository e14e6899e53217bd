//! URLs as Kubernetes' library parses them: absolute, or a path from the root.

use kube_cel::cel::objects::Opaque;

use crate::types::LibraryType;
use crate::value::{Key, Value};

/// A URL in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    host: String,
    path: String,
    query: Vec<(String, Vec<String>)>,
}

impl Opaque for Url {
    fn runtime_type_name(&self) -> &str {
        LibraryType::Url.name()
    }
}

impl Url {
    /// Parses an absolute URI or an absolute path. Errors are worded like Go's.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let reject = |why: &str| Err(format!("parse {text:?}: {why}"));
        if text.is_empty() {
            return reject("empty url");
        }
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return reject("net/url: invalid control character in URL");
        }
        let (scheme, rest) = match split_scheme(text) {
            Scheme::None => ("", text),
            Scheme::Missing => return reject("missing protocol scheme"),
            Scheme::Named(scheme, rest) => (scheme, rest),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return reject("invalid URI for request");
            }
            // An opaque URI, such as mailto:a@b, has none of these parts.
            return Ok(Self::of(scheme, "", "", query));
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(after) if !scheme.is_empty() => {
                let end = after.find('/').unwrap_or(after.len());
                after.split_at(end)
            }
            _ => ("", rest),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        if let Some(why) = host_error(host) {
            return reject(why);
        }
        if !escapes_are_whole(path) || !escapes_are_whole(host) {
            return reject("invalid URL escape");
        }
        Ok(Self::of(scheme, host, path, query))
    }

    fn of(scheme: &str, host: &str, path: &str, query: &str) -> Self {
        Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: escaped(path),
            query: queries(query),
        }
    }

    /// The result of a function of the library; `None` if it is not a function of URLs.
    pub(crate) fn part<'a>(&self, function: &str) -> Option<Value<'a>> {
        Some(match function {
            "getScheme" => Value::string(self.scheme.as_str()),
            "getHost" => Value::string(self.host.as_str()),
            "getHostname" => Value::string(self.name_and_port().0),
            "getPort" => Value::string(self.name_and_port().1),
            "getEscapedPath" => Value::string(self.path.as_str()),
            "getQuery" => {
                let entries = self.query.iter().map(|(key, values)| {
                    let values = values.iter().map(|value| Value::string(value.as_str())).collect();
                    (Key::Text(key.as_str().into()), Value::list(values))
                });
                Value::Map(std::sync::Arc::new(entries.collect()))
            }
            _ => return None,
        })
    }

    fn name_and_port(&self) -> (&str, &str) {
        if let Some((name, rest)) = self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return (name, rest.strip_prefix(':').unwrap_or_default());
        }
        self.host.split_once(':').unwrap_or((&self.host, ""))
    }
}

enum Scheme<'t> {
    None,
    Missing,
    Named(&'t str, &'t str),
}

fn split_scheme(text: &str) -> Scheme<'_> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Scheme::Missing,
            b':' => {
                let (scheme, rest) = text.split_at(at);
                return Scheme::Named(scheme, rest.get(1..).unwrap_or_default());
            }
            _ => break,
        }
    }
    Scheme::None
}

fn host_error(host: &str) -> Option<&'static str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (name, port),
            None => return Some("missing ']' in host"),
        },
        None => match host.find(':') {
            Some(colon) => host.split_at(colon),
            None => (host, ""),
        },
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if (!port.is_empty() && !port.starts_with(':')) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("invalid port after host");
    }
    let is_invalid = |c: char| matches!(c, ' ' | '"' | '<' | '>' | '^' | '`' | '{' | '}' | '|' | '\\');
    name.contains(is_invalid).then_some("invalid character in host name")
}

fn escapes_are_whole(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(at, _)| {
        bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// A path with every byte escaped that has to be.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(char::from(byte)),
            _ if b"-_.~!$&'()*+,;=:@/%".contains(&byte) => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn queries(query: &str) -> Vec<(String, Vec<String>)> {
    let query = query.split('#').next().unwrap_or_default();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (percent_decode(key), percent_decode(value));
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => found.push((key, vec![value])),
        }
    }
    found
}

/// Decodes `%41` and `+`; bytes that are not UTF-8 become replacement characters.
fn percent_decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}
