//! The string formats that Kubernetes checks. Any other format is a note to the reader.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a string has the form that a format asks for.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "hostname" => is_hostname(text),
        "byte" => is_base64(text),
        "hexcolor" => is_hex_color(text),
        _ => true,
    }
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

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    if !is_date(date) {
        return false;
    }
    let Some(zone) = time.find(['Z', 'z', '+', '-']) else { return false };
    let (clock, zone) = time.split_at(zone);
    let zone_fits = match zone {
        "Z" | "z" => true,
        offset => {
            let parts = offset.get(1..).and_then(|offset| offset.split_once(':'));
            parts.is_some_and(|(hours, minutes)| {
                digits(hours, 2).is_some_and(|hours| hours <= 23)
                    && digits(minutes, 2).is_some_and(|minutes| minutes <= 59)
            })
        }
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let parts: Vec<&str> = clock.split(':').collect();
    let clock_fits = match parts.as_slice() {
        [hours, minutes, seconds] => {
            digits(hours, 2).is_some_and(|hours| hours <= 23)
                && digits(minutes, 2).is_some_and(|minutes| minutes <= 59)
                && digits(seconds, 2).is_some_and(|seconds| seconds <= 59)
        }
        _ => false,
    };
    zone_fits && clock_fits && !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// Go durations (`1h30m`), and the long names that Kubernetes' checker also knows (`3 weeks`).
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 37] = [
        "ns",
        "nano",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "micro",
        "microsecond",
        "microseconds",
        "ms",
        "milli",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "second",
        "seconds",
        "secs",
        "m",
        "min",
        "minute",
        "minutes",
        "mins",
        "h",
        "hr",
        "hour",
        "hours",
        "hrs",
        "d",
        "day",
        "days",
        "w",
        "wk",
        "week",
        "weeks",
        "wks",
        "nanos",
    ];
    if text == "0" {
        return true;
    }
    let mut rest = text.trim().trim_start_matches(['-', '+']);
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        if number == 0 || number == rest.len() {
            return false;
        }
        rest = rest.get(number..).unwrap_or_default().trim_start();
        let unit = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        if !UNITS.contains(&rest.get(..unit).unwrap_or_default()) {
            return false;
        }
        rest = rest.get(unit..).unwrap_or_default().trim_start();
    }
    true
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits: Option<u8> =
        bits.bytes().all(|byte| byte.is_ascii_digit()).then(|| bits.parse().ok()).flatten();
    match bits {
        Some(bits) if address.parse::<Ipv4Addr>().is_ok() => bits <= 32,
        Some(bits) if address.parse::<Ipv6Addr>().is_ok() => bits <= 128,
        _ => false,
    }
}

fn is_mac(text: &str) -> bool {
    [':', '-'].iter().any(|separator| {
        let parts: Vec<&str> = text.split(*separator).collect();
        matches!(parts.len(), 6 | 8 | 20)
            && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

fn is_uuid(format: &str, text: &str) -> bool {
    let bare: String = text.chars().filter(|c| *c != '-').collect();
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    let grouped = matches!(groups.as_slice(), [32] | [8, 4, 4, 4, 12]);
    let version = match format {
        "uuid3" => Some('3'),
        "uuid4" => Some('4'),
        "uuid5" => Some('5'),
        _ => None,
    };
    grouped
        && bare.len() == 32
        && bare.bytes().all(|byte| byte.is_ascii_hexdigit())
        && version.is_none_or(|version| bare.chars().nth(12) == Some(version))
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= 255 && text.split('.').all(label)
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
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
            ("uuid4", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("hostname", "a.example.com", "-a.example.com"),
            ("byte", "YQ==", "YQ="),
        ] {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(matches("anything-else", "x"));
    }
}
