//! Decimal numbers of any size, compared exactly and formatted like PostgreSQL's `numeric`, so that both stores find the same
//! resources.

use std::cmp::Ordering;
use std::fmt;

/// The maximum number of digits on either side of the point for a text to be a number.
pub(super) const LONGEST: usize = 100;

/// A decimal number. Trailing zeros of the fraction are kept, because they are part of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    /// Without leading zeros; empty for numbers below 1.
    integral: String,
    fraction: String,
}

impl Decimal {
    fn new(negative: bool, integral: &str, fraction: &str) -> Self {
        let integral = integral.trim_start_matches('0');
        let is_zero = integral.is_empty() && fraction.bytes().all(|digit| digit == b'0');
        Self { negative: negative && !is_zero, integral: integral.to_owned(), fraction: fraction.to_owned() }
    }

    /// Parses a number of a search: digits, optionally with a fraction and a unit. The error continues "'12x' …".
    pub(super) fn literal(text: &str) -> Result<Self, &'static str> {
        const PLACES: usize = 18;
        let (number, multiplier) = split_unit(text);
        let (integral, fraction) = split_point(number).ok_or("is not a number")?;
        if fraction.len() > PLACES {
            return Err("has more than 18 decimal places");
        }
        let scale = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or_default());
        let value = format!("{integral}{fraction}")
            .parse::<i128>()
            .ok()
            .and_then(|digits| digits.checked_mul(multiplier));
        match value {
            // The integral part must fit a 64-bit integer; the smallest one exists only as a negative number.
            Some(value) if value / scale <= -i128::from(i64::MIN) => {
                let fraction = format!("{:0width$}", value % scale, width = fraction.len());
                let fraction = if scale == 1 { "" } else { fraction.trim_end_matches('0') };
                Ok(Self::new(false, &(value / scale).to_string(), fraction))
            }
            _ => Err("is out of range"),
        }
    }

    /// The number without zeros at the end of its fraction: the same text for equal numbers.
    pub(super) fn normalized(&self) -> String {
        Self::new(self.negative, &self.integral, self.fraction.trim_end_matches('0')).to_string()
    }

    /// The negated number.
    pub(super) fn negated(self) -> Self {
        Self::new(!self.negative, &self.integral, &self.fraction)
    }

    /// A JSON number.
    pub(super) fn of_json(text: &str) -> Option<Self> {
        const LARGEST_EXPONENT: i64 = 1000;
        let (negative, text) = split_sign(text);
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (integral, fraction) = split_point(number)?;
        if exponent.abs() > LARGEST_EXPONENT {
            return None;
        }
        let shift = usize::try_from(exponent.unsigned_abs()).ok()?;
        Some(if exponent >= 0 {
            let (moved, kept) = fraction.split_at(shift.min(fraction.len()));
            let zeros = "0".repeat(shift - moved.len());
            Self::new(negative, &format!("{integral}{moved}{zeros}"), kept)
        } else {
            let (kept, moved) = integral.split_at(integral.len().saturating_sub(shift));
            let zeros = "0".repeat(shift - moved.len());
            Self::new(negative, kept, &format!("{zeros}{moved}{fraction}"))
        })
    }

    /// A text that is a plain decimal number: see [`LONGEST`].
    pub(super) fn of_text(text: &str) -> Option<Self> {
        let (negative, text) = split_sign(text);
        let (integral, fraction) = split_point(text)?;
        let fits = integral.len() <= LONGEST && fraction.len() <= LONGEST;
        fits.then(|| Self::new(negative, integral, fraction))
    }

    /// The number as an integer, if it is a 64-bit integer.
    pub(super) fn integer(&self) -> Option<i64> {
        let whole = self.fraction.bytes().all(|digit| digit == b'0');
        let sign = if self.negative { "-" } else { "" };
        whole.then(|| format!("{sign}0{}", self.integral).parse().ok()).flatten()
    }

    /// Whether the integral part fits 64 bits.
    pub(super) fn is_in_range(&self) -> bool {
        let whole = Self { fraction: String::new(), ..self.clone() };
        whole.integer().is_some()
    }

    /// Compares by value.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.magnitude().cmp(&other.magnitude()),
            (true, true) => other.magnitude().cmp(&self.magnitude()),
        }
    }

    fn magnitude(&self) -> (usize, &str, &str) {
        (self.integral.len(), &self.integral, self.fraction.trim_end_matches('0'))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let integral = if self.integral.is_empty() { "0" } else { &self.integral };
        let point = if self.fraction.is_empty() { "" } else { "." };
        write!(formatter, "{sign}{integral}{point}{}", self.fraction)
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    text.strip_prefix('-').map_or((false, text), |rest| (true, rest))
}

/// The digits before and after the point.
fn split_point(text: &str) -> Option<(&str, &str)> {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    match text.split_once('.') {
        None => is_digits(text).then_some((text, "")),
        Some((integral, fraction)) => {
            (is_digits(integral) && is_digits(fraction)).then_some((integral, fraction))
        }
    }
}

fn split_unit(text: &str) -> (&str, i128) {
    const UNITS: [(&str, i128); 10] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
    ];
    let with_unit = |(unit, multiplier)| text.strip_suffix(unit).map(|number| (number, multiplier));
    UNITS.into_iter().find_map(with_unit).unwrap_or((text, 1))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::an_integer("12", Ok("12"))]
    #[case::zeros_in_front("0012", Ok("12"))]
    #[case::zero("0", Ok("0"))]
    #[case::a_fraction("1.50", Ok("1.5"))]
    #[case::below_one("0.05", Ok("0.05"))]
    #[case::no_fraction_after_all("2.0", Ok("2"))]
    #[case::a_binary_unit("1Ki", Ok("1024"))]
    #[case::a_fraction_of_a_binary_unit("1.5Gi", Ok("1610612736"))]
    #[case::a_decimal_unit("3k", Ok("3000"))]
    #[case::a_fraction_of_a_decimal_unit("0.0015k", Ok("1.5"))]
    #[case::the_largest("9223372036854775807", Ok("9223372036854775807"))]
    #[case::too_large("9223372036854775809", Err("is out of range"))]
    #[case::far_too_large("99999999999999999999999999999999999999999999", Err("is out of range"))]
    #[case::too_large_by_its_unit("9223372036854775807Pi", Err("is out of range"))]
    #[case::too_fine("0.1234567890123456789", Err("has more than 18 decimal places"))]
    #[case::another_unit("1Zi", Err("is not a number"))]
    #[case::an_exponent("1e3", Err("is not a number"))]
    #[case::two_points("1.2.3", Err("is not a number"))]
    #[case::no_fraction("1.", Err("is not a number"))]
    fn numbers_of_searches_are_parsed(#[case] text: &str, #[case] expected: Result<&str, &str>) {
        assert_eq!(Decimal::literal(text).map(|number| number.to_string()), expected.map(str::to_owned));
    }

    #[rstest]
    #[case("0", "0")]
    #[case("-0.0", "0.0")]
    #[case("1.50", "1.50")]
    #[case("1e16", "10000000000000000")]
    #[case("1.5e3", "1500")]
    #[case("1.25e1", "12.5")]
    #[case("1e-7", "0.0000001")]
    #[case("12.5e-1", "1.25")]
    #[case("-1.5E+2", "-150")]
    fn json_number_is_formatted_without_an_exponent(#[case] json: &str, #[case] expected: &str) {
        assert_eq!(Decimal::of_json(json).unwrap().to_string(), expected);
    }

    #[rstest]
    #[case("2", "10", Ordering::Less)]
    #[case("-2", "-10", Ordering::Greater)]
    #[case("-1", "1", Ordering::Less)]
    #[case("1.50", "1.5", Ordering::Equal)]
    #[case("0.5", "0.49", Ordering::Greater)]
    #[case("0.4", "0.45", Ordering::Less)]
    #[case("-0", "0.0", Ordering::Equal)]
    #[case("9007199254740993", "9007199254740992", Ordering::Greater)]
    fn numbers_compare_by_value(#[case] left: &str, #[case] right: &str, #[case] expected: Ordering) {
        assert_eq!(Decimal::of_text(left).unwrap().compare(&Decimal::of_text(right).unwrap()), expected);
    }

    #[rstest]
    #[case("")]
    #[case("-")]
    #[case("+1")]
    #[case("1e3")]
    #[case(".5")]
    #[case("1.")]
    #[case(" 1")]
    #[case("0x10")]
    #[case("NaN")]
    #[case("Infinity")]
    fn text_that_is_not_a_plain_decimal_is_not_a_number(#[case] text: &str) {
        assert_eq!(Decimal::of_text(text), None);
    }
}
