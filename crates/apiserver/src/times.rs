//! Times as Kubernetes writes them: RFC 3339 in UTC, to the second, or to the microsecond for leases and events;
//! and ages as people read them.

use jiff::{SignedDuration, Timestamp};

/// `2026-01-02T03:04:05Z`
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-01-02T03:04:05.000006Z`
pub(crate) fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads an RFC 3339 time strictly.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let strict = text.is_ascii() && text.as_bytes().get(10) == Some(&b'T');
    if strict { text.parse().ok() } else { None }
}

/// The canonical form of a time with seconds.
pub(crate) fn normalise_seconds(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    parse(text).map(seconds).ok_or_else(|| unreadable(text, LAYOUT, text, "2006"))
}

/// The canonical form of a time with microseconds, which must have all six digits.
pub(crate) fn normalise_micros(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    let at = parse(text).ok_or_else(|| unreadable(text, LAYOUT, text, "2006"))?;
    let fraction = text.get(19..).unwrap_or_default();
    let digits =
        fraction.strip_prefix('.').unwrap_or_default().bytes().take_while(u8::is_ascii_digit).count();
    if digits == 6 { Ok(micros(at)) } else { Err(unreadable(text, LAYOUT, fraction, ".000000")) }
}

/// The words of Go's parser: what of the text does not look like what part of the layout.
fn unreadable(text: &str, layout: &str, rest: &str, part: &str) -> String {
    format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}")
}

/// How long ago something was, in the short form of tables.
pub(crate) fn age(text: &str, now: Timestamp) -> String {
    match parse(text) {
        Some(then) => human(now.duration_since(then)),
        None => "<unknown>".into(),
    }
}

/// A number of seconds, in the same form.
pub(crate) fn span(seconds: i64) -> String {
    human(SignedDuration::from_secs(seconds))
}

/// A duration in at most two units, coarser as it grows.
fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    if seconds < -1 {
        return "<invalid>".into();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |large: i64, unit: &str, small: i64, sub: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{sub}"),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(hours / 24, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{}d", hours / 24),
        63_072_000..252_288_000 => {
            let (years, days) = (hours / 24 / 365, hours / 24 % 365);
            two(years, "y", days, "d")
        }
        _ => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_grow_coarser() {
        for (seconds, expected) in [
            (0, "0s"),
            (-1, "0s"),
            (-5, "<invalid>"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn times_take_their_canonical_form() {
        assert_eq!(normalise_seconds("2026-01-02T05:04:05.9+02:00").unwrap(), "2026-01-02T03:04:05Z");
        assert_eq!(
            normalise_micros("2026-01-02T05:04:05.000001+02:00").unwrap(),
            "2026-01-02T03:04:05.000001Z"
        );
        for bad in ["", "yesterday", "2026-01-02 03:04:05Z", "2026-13-02T03:04:05Z"] {
            assert!(normalise_seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(
            normalise_micros("2026-01-02T03:04:05Z").unwrap_err(),
            r#"parsing time "2026-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }
}
