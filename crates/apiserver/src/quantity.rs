//! Quantities such as `1500m` and `2Gi`: read, compared, and written in the one form that Kubernetes keeps for each
//! value. Pure.

use std::fmt;

/// What a text must look like; the words are Kubernetes'.
const FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NANO: i128 = 1_000_000_000;
/// No value is larger, and none is written with more digits than this has.
const MOST: i128 = i64::MAX as i128 * NANO;

/// How a quantity was written, and will be again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    Decimal,
    Binary,
    Exponent,
}

/// An amount, exact to a billionth; smaller fractions are rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    nanos: i128,
    notation: Notation,
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl Quantity {
    /// Reads a quantity; the error is the message for the client.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (digits, suffix) = unsigned.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(FORM.to_owned());
        }
        let (factor, notation) = factor(suffix).ok_or(FORM)?;
        Ok(Self { nanos: sign * scaled(whole, fraction, factor).min(MOST), notation })
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }
}

/// What a suffix multiplies with.
#[derive(Clone, Copy)]
enum Factor {
    Ten(i32),
    Two(u32),
}

fn factor(suffix: &str) -> Option<(Factor, Notation)> {
    let ten = |power| Some((Factor::Ten(power), Notation::Decimal));
    let two = |power| Some((Factor::Two(power), Notation::Binary));
    match suffix {
        "" => ten(0),
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        exponent => {
            let power = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Factor::Ten(power), Notation::Exponent))
        }
    }
}

/// The digits times the factor in billionths, rounded up.
fn scaled(whole: &str, fraction: &str, factor: Factor) -> i128 {
    // More digits than these are above the limit, or below a billionth.
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let Ok(number) = digits.get(..digits.len().min(30)).unwrap_or_default().parse::<i128>() else {
        return 0;
    };
    let cut = i32::try_from(digits.len().saturating_sub(30)).unwrap_or(i32::MAX);
    let (number, power) = match factor {
        Factor::Ten(power) => (number, power),
        Factor::Two(power) => match number.checked_mul(1 << power) {
            Some(number) => (number, 0),
            None => return MOST,
        },
    };
    let power = power.saturating_add(9).saturating_add(cut).saturating_sub(places);
    match u32::try_from(power) {
        Ok(up) => 10i128.checked_pow(up).and_then(|ten| number.checked_mul(ten)).unwrap_or(MOST),
        Err(_) => match 10i128.checked_pow(power.unsigned_abs()) {
            Some(ten) => number.div_euclid(ten) + i128::from(number.rem_euclid(ten) != 0),
            None => i128::from(number != 0),
        },
    }
}

impl fmt::Display for Quantity {
    /// The one form of a value: no fraction, and the largest suffix that allows that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // Binary suffixes begin at Ki: what is smaller, or has a fraction, is written with decimal ones.
        let binary = self.notation == Notation::Binary && self.nanos.abs() >= 1024 * NANO && self.is_whole();
        if binary {
            let (mut number, mut power) = (self.nanos / NANO, 0);
            while number % 1024 == 0 && power < 6 {
                (number, power) = (number / 1024, power + 1);
            }
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(power).copied().unwrap_or_default();
            return write!(f, "{number}{suffix}");
        }
        let (mut number, mut power) = (self.nanos, 0);
        while number % 1000 == 0 && power < 9 {
            (number, power) = (number / 1000, power + 1);
        }
        if self.notation == Notation::Exponent {
            return match power * 3 - 9 {
                0 => write!(f, "{number}"),
                exponent => write!(f, "{number}e{exponent}"),
            };
        }
        let suffix =
            ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].get(power).copied().unwrap_or_default();
        write!(f, "{number}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn each_value_has_one_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1", "-1"),
            ("1000m", "1"),
            ("2000m", "2"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1000", "1k"),
            ("100000", "100k"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("1024Ki", "1Mi"),
            ("1536Mi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("1e3", "1e3"),
            ("12E6", "12e6"),
            ("1E", "1E"),
            ("100n", "100n"),
            ("0.1n", "1n"),
            ("00100", "100"),
            ("9223372036854775807", "9223372036854775807"),
            ("1e100", "9223372036854775807"),
        ] {
            assert_eq!(
                Quantity::read(text).map(|quantity| quantity.to_string()),
                Ok(canonical.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "abc", "1.2.3", "1x", "1kk", "Ki", "--1", "1 ", "1e", "1e1.5", "."] {
            assert!(Quantity::read(text).is_err(), "{text}");
        }
    }
}
