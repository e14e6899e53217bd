//! Durations as Go writes them: `10s`, `1m30s`, `1.5h`, `-5s`. The API server takes any text for one, so whoever
//! needs the duration reads it object by object.

use jiff::SignedDuration;

/// A text that is no duration to Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: write a number with a unit, such as 10s, 1m30s or 500ms")]
pub struct NotADuration {
    text: String,
}

/// Reads a duration as Go does.
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
pub fn parse(text: &str) -> Result<SignedDuration, NotADuration> {
    nanoseconds(text).map(SignedDuration::from_nanos).ok_or_else(|| NotADuration { text: text.to_owned() })
}

fn nanoseconds(text: &str) -> Option<i64> {
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
        let (part, after) = part(rest)?;
        total = total.checked_add(part)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// The first number with its unit, in nanoseconds, and what follows.
fn part(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit = unit_in_nanoseconds(unit)?;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // More than eighteen digits of a fraction are less than a nanosecond of the largest unit.
    let fraction = fraction.get(..fraction.len().min(18))?;
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some((whole.checked_mul(unit)?.checked_add(fraction * unit / scale)?, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_in_nanoseconds(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        // The Greek letter and the sign look alike; both are written.
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
    fn what_go_reads_is_read_and_nothing_else() {
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
        fn no_text_is_too_strange(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn hours_minutes_and_seconds_add_up(hours in 0..1000_i64, minutes in 0..60_i64, seconds in 0..60_i64) {
            let read = parse(&format!("{hours}h{minutes}m{seconds}s")).map(|read| read.as_secs());
            prop_assert_eq!(read, Ok(hours * 3600 + minutes * 60 + seconds));
        }
    }
}
