//! Parses durations in the format of Go: `10s`, `1m30s`, `1.5h`, `-5s`. The API server accepts any string in a duration
//! field, so a caller must expect an error for every object. Valid ranges are left to the caller.

use jiff::SignedDuration;

/// A string that Go's `time.ParseDuration` rejects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid duration: use numbers with units, such as 10s, 1m30s or 500ms")]
pub struct InvalidDuration {
    text: String,
}

/// Parses a duration as Go's `time.ParseDuration` does.
///
/// ```
/// use bellwether_heartbeat::duration;
/// use jiff::SignedDuration;
///
/// assert_eq!(duration::parse("1m30s"), Ok(SignedDuration::from_secs(90)));
/// assert_eq!(duration::parse("-1.5s"), Ok(SignedDuration::from_millis(-1500)));
/// assert!(duration::parse("banana").is_err());
/// assert!(duration::parse("10").is_err());
/// ```
pub fn parse(text: &str) -> Result<SignedDuration, InvalidDuration> {
    parse_nanoseconds(text)
        .map(SignedDuration::from_nanos)
        .ok_or_else(|| InvalidDuration { text: text.to_owned() })
}

fn parse_nanoseconds(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (part, after) = parse_part(rest)?;
        total = total.checked_add(part)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Parses the first number with its unit; returns it in nanoseconds, and the rest of the text.
fn parse_part(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit = unit_in_nanoseconds(unit)?;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits after the eighteenth contribute less than a nanosecond, even to hours.
    let fraction = fraction.get(..fraction.len().min(18))?;
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some((whole.checked_mul(unit)?.checked_add(fraction * unit / scale)?, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_in_nanoseconds(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        // U+00B5 (micro sign) and U+03BC (Greek letter mu) look alike, and Go accepts both.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts_exactly_what_go_accepts() {
        let rows: [(&str, Option<i64>); 30] = [
            ("10s", Some(10_000)),
            ("1m", Some(60_000)),
            ("1m30s", Some(90_000)),
            ("1h0m0s", Some(3_600_000)),
            ("1.5h", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            (".5s", Some(500)),
            ("1.s", Some(1_000)),
            ("0", Some(0)),
            ("-0", Some(0)),
            ("0s", Some(0)),
            ("100ms", Some(100)),
            ("1000us", Some(1)),
            ("1000\u{b5}s", Some(1)),
            ("1000\u{3bc}s", Some(1)),
            ("1000000ns", Some(1)),
            ("+5s", Some(5_000)),
            ("-5s", Some(-5_000)),
            ("-1.5h", Some(-5_400_000)),
            ("2562047h", Some(2_562_047 * 3_600_000)),
            ("", None),
            ("10", None),
            ("banana", None),
            ("1d", None),
            ("s", None),
            (".s", None),
            ("- 5s", None),
            ("5 s", None),
            ("2562048h", None),
            ("99999999999999999999999999999999999999999s", None),
        ];
        for (text, millis) in rows {
            assert_eq!(parse(text).ok().map(|read| read.as_millis()), millis.map(i128::from), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn hours_minutes_and_seconds_are_added(hours in 0..1000_i64, minutes in 0..60_i64, seconds in 0..60_i64) {
            let read = parse(&format!("{hours}h{minutes}m{seconds}s")).map(|read| read.as_secs());
            prop_assert_eq!(read, Ok(hours * 3600 + minutes * 60 + seconds));
        }
    }
}
