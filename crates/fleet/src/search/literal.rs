//! Time literals of searches.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Examples of times, for error messages.
pub(super) const TIMES: &str = "a time looks like '2026-01-31T12:00:00Z' or '2026-01-31'";

/// Parses an RFC 3339 time, or a date, which is midnight UTC. It is truncated to microseconds, which both stores keep.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    let time = match text.len() {
        10 if has_shape(text, "0000-00-00") => {
            text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()
        }
        _ if is_rfc3339(text) => text.parse::<Timestamp>().ok()?,
        _ => return None,
    };
    // PostgreSQL has no year 0.
    let first: Timestamp = "0001-01-01T00:00:00Z".parse().ok()?;
    if time < first { None } else { Timestamp::from_microsecond(time.as_microsecond()).ok() }
}

/// Whether the text has the exact form of RFC 3339.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    let Some((to_the_second, rest)) = text.split_at_checked(19) else { return false };
    if !has_shape(&to_the_second.to_ascii_uppercase(), "0000-00-00T00:00:00") {
        return false;
    }
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if !(1..=9).contains(&(fraction.len() - zone.len())) {
                return false;
            }
            zone
        }
    };
    matches!(zone, "Z" | "z") || has_shape(zone, "+00:00") || has_shape(zone, "-00:00")
}

/// Whether a text has digits where the shape has zeros, and equals it elsewhere.
fn has_shape(text: &str, shape: &str) -> bool {
    let fits = |(c, wanted): (u8, u8)| if wanted == b'0' { c.is_ascii_digit() } else { c == wanted };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::utc("2026-01-31T12:00:00Z", Some("2026-01-31T12:00:00Z"))]
    #[case::an_offset("2026-01-31T12:00:00+02:00", Some("2026-01-31T10:00:00Z"))]
    #[case::lower_case("2026-01-31t12:00:00z", Some("2026-01-31T12:00:00Z"))]
    #[case::a_date("2026-01-31", Some("2026-01-31T00:00:00Z"))]
    #[case::nanoseconds_are_cut("2026-01-31T12:00:00.123456789Z", Some("2026-01-31T12:00:00.123456Z"))]
    #[case::ten_decimal_places("2026-01-31T12:00:00.1234567890Z", None)]
    #[case::no_decimal_places("2026-01-31T12:00:00.Z", None)]
    #[case::no_zone("2026-01-31T12:00:00", None)]
    #[case::a_blank_instead_of_the_t("2026-01-31 12:00:00Z", None)]
    #[case::a_month_that_is_none("2026-13-01", None)]
    #[case::a_day_that_is_none("2026-02-30T00:00:00Z", None)]
    #[case::an_hour_that_is_none("2026-02-20T25:00:00Z", None)]
    #[case::an_annotation("2026-01-31T12:00:00Z[UTC]", None)]
    #[case::the_year_zero("0000-01-01", None)]
    #[case::the_year_one("0001-01-01", Some("0001-01-01T00:00:00Z"))]
    #[case::the_year_one_but_before_it_in_utc("0001-01-01T00:00:00+01:00", None)]
    #[case::the_last_year("9999-12-01", Some("9999-12-01T00:00:00Z"))]
    #[case::other_letters("２026-01-01", None)]
    #[case::cut_inside_a_letter("2026-01-31T12:00:0é", None)]
    fn a_time_is_rfc_3339_or_a_date(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(time(text), expected.map(|time| time.parse().unwrap()));
    }
}
