//! The string formats that Kubernetes checks, as its checkers do. Any other format is a note to the reader, and
//! whoever writes a definition with one is told so.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::Type;

/// Whether a format means anything for a type.
pub(crate) fn is_recognised(kind: Option<Type>, format: &str) -> bool {
    match kind {
        None | Some(Type::String) => checker(format).is_some(),
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(Type::Object | Type::Array | Type::Boolean) => false,
    }
}

/// Whether a string has the form that a format asks for; nothing, if the format is not known.
pub(crate) fn matches(format: &str, text: &str) -> Option<bool> {
    checker(format).map(|check| check(text))
}

/// Dashes in the names of formats do not count.
fn checker(format: &str) -> Option<fn(&str) -> bool> {
    let name = format.replace('-', "");
    Some(match name.as_str() {
        "datetime" => is_date_time,
        "date" => is_date,
        "duration" => is_duration,
        "ipv4" => is_ipv4,
        "ipv6" => is_ipv6,
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| UUID.is_match(text),
        "uuid3" => |text| UUID3.is_match(text),
        "uuid4" => |text| UUID4.is_match(text),
        "uuid5" => |text| UUID5.is_match(text),
        "hostname" => is_hostname,
        "byte" => |text| BASE64.is_match(text),
        "hexcolor" => |text| HEX_COLOR.is_match(text),
        "rgbcolor" => |text| RGB_COLOR.is_match(text),
        "uri" => is_uri,
        "email" => super::email::is_address,
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && SSN.is_match(text),
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "password" => |_| true,
        "k8sshortname" => |text| text.len() <= 63 && SHORT_NAME.is_match(text),
        "k8slongname" => |text| text.len() <= 253 && LONG_NAME.is_match(text),
        _ => return None,
    })
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(
            #[allow(clippy::unwrap_used, reason = "the pattern is fixed and tested")]
            static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).unwrap());
        )*
    };
}

patterns! {
    UUID = r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"(?-u)^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
    SSN = r"(?-u)^\d{3}[- ]?\d{2}[- ]?\d{4}$";
    CREDIT_CARD = r"(?-u)^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$";
    SHORT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    LONG_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    // A single label, or labels that end in one of letters alone.
    ONE_LABEL = r"^[a-zA-Z0-9\p{S}\p{L}](-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?$";
    LABEL = r"^[a-zA-Z0-9\p{S}\p{L}]([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?$";
    LAST_LABEL = r"^[a-zA-Z\p{L}]{2,63}$";
    CLOCK = r"(?-u)^([0-9]{2}):([0-9]{2}):([0-9]{2})(?u:.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$";
    AMOUNT = r"(?-u:(\d+)\s*)([A-Za-zµ]+)";
}

fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(day)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let longest = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=longest).contains(&day)
}

/// A date and a time of day. What follows a second `t` is not looked at, and a zone may be any four digits.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    if !is_date(date) {
        return false;
    }
    let Some(found) = CLOCK.captures(clock) else { return false };
    let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
    part(1) <= "23" && part(2) <= "59" && part(3) <= "59"
}

/// Go durations (`1h30m`), and any text that holds an amount with a unit by its long name (`3 weeks`).
fn is_duration(text: &str) -> bool {
    if is_go_duration(text) {
        return true;
    }
    let mut found = false;
    for amount in AMOUNT.captures_iter(text) {
        let part = |at: usize| amount.get(at).map_or("", |part| part.as_str());
        if part(1).parse::<i64>().is_err() {
            return false;
        }
        found |= is_unit(&part(2).to_lowercase());
    }
    found
}

/// The last name of a unit may go on: `min`, `minute`, `minutes`.
fn is_unit(unit: &str) -> bool {
    const UNITS: [(&[&str], &str); 8] = [
        (&["ns"], "nano"),
        (&["us", "µs"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    UNITS.iter().any(|(names, start)| names.contains(&unit) || unit.starts_with(start))
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let Ok(amount) = number.parse::<f64>() else { return false };
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        nanoseconds += amount
            * match unit {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                _ => return false,
            };
        rest = after;
    }
    nanoseconds < 9.223_372_036_854_776e18
}

/// Four numbers with dots; zeros may lead them.
fn ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let fits = |part: &&str| {
        let number = part.trim_start_matches('0');
        let all_digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        all_digits && (number.is_empty() || number.parse::<u8>().is_ok())
    };
    parts.len() == 4 && parts.iter().all(fits)
}

fn is_ipv4(text: &str) -> bool {
    ipv4(text) || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok())
}

fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: Option<u8> = plain.then(|| bits.parse().ok()).flatten();
    match bits {
        Some(bits) if ipv4(address) || address.parse::<Ipv4Addr>().is_ok() => bits <= 32,
        Some(bits) if address.parse::<Ipv6Addr>().is_ok() => bits <= 128,
        _ => false,
    }
}

/// Bytes with colons or dashes, or pairs of them with dots; 6, 8 or 20 of them.
fn is_mac(text: &str) -> bool {
    let grouped = |separator: char, digits: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let whole = parts
            .iter()
            .all(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit()));
        whole && matches!(parts.len() * digits / 2, 6 | 8 | 20)
    };
    grouped(':', 2) || grouped('-', 2) || grouped('.', 4)
}

fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    if ONE_LABEL.is_match(text) {
        return true;
    }
    let labels: Vec<&str> = text.split('.').collect();
    match labels.split_last() {
        Some((last, labels)) if !labels.is_empty() => {
            LAST_LABEL.is_match(last) && labels.iter().all(|label| LABEL.is_match(label))
        }
        _ => false,
    }
}

/// What may stand in the first line of a request: a path, or a URI with a scheme.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let scheme_end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    let (scheme, rest) = match scheme_end {
        Some(end) if text.get(end..).is_some_and(|rest| rest.starts_with(':')) => {
            (text.get(..end).unwrap_or_default(), text.get(end + 1..).unwrap_or_default())
        }
        _ => ("", text),
    };
    if scheme_end == Some(0) && text.starts_with(':') {
        return false;
    }
    if !scheme.is_empty() && !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return false;
    }
    let (before_query, _) = rest.split_once('?').unwrap_or((rest, ""));
    if !before_query.starts_with('/') {
        // A scheme with something opaque behind it.
        return !scheme.is_empty();
    }
    let path = match before_query.strip_prefix("//") {
        Some(authority) if !scheme.is_empty() || !before_query.starts_with("///") => {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            if !is_authority(authority) {
                return false;
            }
            path
        }
        _ => before_query,
    };
    is_escaped(path)
}

fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if let Some(bracketed) = host.strip_prefix('[') {
        let Some((_, port)) = bracketed.split_once(']') else { return false };
        return is_port(port);
    }
    let (name, port) = match host.rfind(':') {
        Some(at) => host.split_at(at),
        None => (host, ""),
    };
    is_port(port) && is_escaped(name) && !name.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])
}

fn is_port(port: &str) -> bool {
    port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Every percent sign begins a byte in hexadecimal.
fn is_escaped(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_hexdigit();
    text.split('%').skip(1).all(|part| part.bytes().take(2).filter(|byte| is_hex(*byte)).count() == 2)
}

fn digits_of(text: &str) -> Vec<u32> {
    text.chars().filter(|c| !c.is_whitespace() && *c != '-').map(|c| c.to_digit(10).unwrap_or(100)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let bare: String = text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    let digits: Vec<u32> = bare
        .chars()
        .enumerate()
        .map(|(at, c)| if at == 9 && c == 'X' { 10 } else { c.to_digit(10).unwrap_or(100) })
        .collect();
    let sum: u32 = digits.iter().zip(1..).map(|(digit, weight)| digit * weight).sum();
    digits.len() == 10 && digits.iter().all(|digit| *digit <= 10) && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of(text);
    let sum: u32 = digits.iter().zip([1, 3].iter().cycle()).map(|(digit, weight)| digit * weight).sum();
    digits.len() == 13 && digits.iter().all(|digit| *digit <= 9) && sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let doubled = |(at, digit): (usize, u32)| match at % 2 {
        1 if digit >= 5 => digit * 2 - 9,
        1 => digit * 2,
        _ => digit,
    };
    let sum: u32 = digits.chars().rev().filter_map(|c| c.to_digit(10)).enumerate().map(doubled).sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_tell_good_from_bad() {
        for (format, good, bad) in [
            ("date-time", "2026-02-28T23:59:59.5+02:00", "2026-02-30T00:00:00Z"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "1 fortnight"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:11:22:aa:bb:cc", "00:11:22:aa:bb"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            ("uuid3", "6ba7b810-9dad-31d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("uuid4", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("uuid5", "6ba7b810-9dad-51d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("hostname", "a.example.com", "-a.example.com"),
            ("byte", "YQ==", "YQ="),
            ("hexcolor", "#fff", "#ffff"),
            ("rgbcolor", "rgb(0, 255,7)", "rgb(256,0,0)"),
            ("uri", "https://a.example/x?y", "a"),
            ("isbn10", "3 401 01319 X", "3478242060"),
            ("isbn13", "978-3836221191", "978-3836221190"),
            ("creditcard", "4716-4615-8332-2103", "4716-4615-8332-2104"),
            ("ssn", "191-60-2869", "191602869"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901"),
            ("k8s-short-name", "abc", "a.b"),
            ("k8s-long-name", "a.b", "a..b"),
        ] {
            assert_eq!(matches(format, good), Some(true), "{format} {good}");
            assert_eq!(matches(format, bad), Some(false), "{format} {bad}");
        }
        assert_eq!(matches("anything-else", "x"), None);
    }
}
