//! Numbers as Kubernetes sees and writes them: what fits 64 signed bits is an integer, all else a float, and a float
//! without a fraction is written like an integer.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Number, Value};

/// A number of a JSON document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    Integer(i64),
    Float(f64),
}

impl Figure {
    pub(crate) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(integer) => Self::Integer(integer),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    /// The integer that Go makes of it: fractions are cut off.
    pub(crate) fn truncated(self) -> i64 {
        match self {
            Self::Integer(integer) => integer,
            Self::Float(float) => float as i64,
        }
    }
}

/// As messages show it.
impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Float(float) => f.write_str(&shown(*float)),
        }
    }
}

/// Whether a float stands for an integer, with the tolerance that Kubernetes has.
pub(crate) fn is_integral(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    const TOLERANCE: f64 = 1e-9;
    if !float.is_finite() || float.abs() > LARGEST {
        return false;
    }
    let whole = float.trunc();
    if float == whole {
        return true;
    }
    // Kubernetes compares with the unsigned whole part, so that fractions below zero never pass.
    whole > 0.0 && (float - whole).abs() / (float.abs() + whole.abs()) < TOLERANCE
}

/// A float as messages show it: with an exponent from six digits before the point on, or four zeros after it.
fn shown(float: f64) -> String {
    written(float, -4, 6)
}

/// A float as JSON documents have it.
fn json(float: f64) -> String {
    written(float, -6, 21)
}

/// The shortest digits that mean this float; with an exponent below `least` and from `most` on.
fn written(float: f64, least: i32, most: i32) -> String {
    if float == 0.0 {
        return if float.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < least || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        let digits = exponent.abs();
        let padding = if digits < 10 && least == -4 { "0" } else { "" };
        return format!("{mantissa}e{sign}{padding}{digits}");
    }
    format!("{float}")
}

/// Writes JSON with numbers as Kubernetes writes them.
pub(crate) fn write_json<W: io::Write>(writer: W, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(writer, KubernetesNumbers))
}

/// The text of a JSON value, with numbers as Kubernetes writes them.
pub(crate) fn json_text(value: &Value) -> String {
    let mut text = Vec::new();
    // Writing JSON to memory cannot fail.
    let _ = write_json(&mut text, value);
    String::from_utf8(text).unwrap_or_default()
}

struct KubernetesNumbers;

impl Formatter for KubernetesNumbers {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(json(value).as_bytes())
    }

    fn write_u64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        match i64::try_from(value) {
            Ok(_) => CompactFormatter.write_u64(writer, value),
            Err(_) => self.write_f64(writer, value as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_shown_and_written_as_kubernetes_does() {
        for (float, in_messages, in_documents) in [
            (3.0, "3", "3"),
            (0.5, "0.5", "0.5"),
            (1e21, "1e+21", "1e+21"),
            (1e20, "1e+20", "100000000000000000000"),
            (123_456_789.125, "1.23456789125e+08", "123456789.125"),
            (999_999.0, "999999", "999999"),
            (1e-7, "1e-07", "1e-7"),
            (0.00001, "1e-05", "0.00001"),
            (1.5e300, "1.5e+300", "1.5e+300"),
            (-2.25, "-2.25", "-2.25"),
        ] {
            assert_eq!(shown(float), in_messages);
            assert_eq!(json(float), in_documents);
        }
    }

    #[test]
    fn integers_beyond_64_signed_bits_are_floats() {
        let number: Number = serde_json::from_str("9223372036854775808").unwrap();
        assert_eq!(Figure::of(&number), Figure::Float(9_223_372_036_854_775_808.0));
        let mut text = Vec::new();
        write_json(&mut text, &number).unwrap();
        assert_eq!(text, b"9223372036854776000");
    }

    #[test]
    fn a_float_is_integral_within_a_tolerance() {
        for (float, expected) in [
            (3.0, true),
            (-3.0, true),
            (3.5, false),
            (-0.5, false),
            (1e16, false),
            (2.999_999_999_9, false),
            (3.000_000_000_01, true),
        ] {
            assert_eq!(is_integral(float), expected, "{float}");
        }
    }
}
