//! The rules for numbers. Kubernetes first asks whether a bound itself is a value of the stated type, and complains of
//! it with every value if it is not; bounds of integers lose their fraction. Both are kept.

use serde_json::Number;

use super::Rules;
use super::validate::{Found, Known};
use crate::field::FieldError;
use crate::numbers::{Figure, is_integral};

/// The values that a type and its format can hold.
enum Range<'s> {
    Integer { format: &'s str },
    Number { format: &'s str },
    Any,
}

impl<'s> Range<'s> {
    fn of(known: &Known<'s>) -> Self {
        let among = |formats: &[&str]| if formats.contains(&known.format) { known.format } else { "" };
        match known.types {
            ["integer"] => Self::Integer { format: among(&["int32", "int64"]) },
            ["number"] => Self::Number { format: among(&["float", "double"]) },
            _ => Self::Any,
        }
    }

    fn holds(&self, figure: Figure) -> bool {
        match self {
            Self::Integer { format } => {
                let integer = match figure {
                    Figure::Integer(integer) => Some(integer),
                    Figure::Float(float) => whole(float),
                };
                integer.is_some_and(|integer| *format != "int32" || i32::try_from(integer).is_ok())
            }
            Self::Number { format: "float" } => (figure.as_f64() as f32).is_finite(),
            Self::Number { .. } | Self::Any => true,
        }
    }

    fn complaint(&self, what: &str, path: &str) -> String {
        let (name, format) = match self {
            Self::Integer { format } => ("integer", *format),
            Self::Number { format } => ("number", *format),
            Self::Any => ("", ""),
        };
        match format {
            "" => format!("{what} value must be of type {name} (default format) in {path}"),
            format => format!("{what} value must be of type {name} with format {format} in {path}"),
        }
    }
}

/// The integer that a float without a fraction is, if it fits 64 bits.
fn whole(float: f64) -> Option<i64> {
    // The first float beyond the largest integer; the largest itself has no float.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    (float.fract() == 0.0 && (-BEYOND..BEYOND).contains(&float)).then_some(float as i64)
}

pub(super) fn validate_number(
    number: &Number,
    known: &Known<'_>,
    rules: &Rules,
    path: &str,
    found: &mut Found,
) {
    let value = Figure::of(number);
    let range = Range::of(known);
    if !range.holds(value) {
        found.general(range.complaint("Checked", path));
    }
    // A bound that the type cannot hold is compared as a float, as is everything with a fraction.
    let mut native = |bound: &Number, what: &str| {
        let bound = Figure::of(bound);
        let fits = range.holds(bound);
        if !fits {
            found.general(range.complaint(what, path));
        }
        match value {
            Figure::Integer(_) if fits => (value, Figure::Integer(bound.truncated())),
            _ => (Figure::Float(value.as_f64()), Figure::Float(bound.as_f64())),
        }
    };
    let multiple = rules.multiple_of.as_ref().map(|bound| native(bound, "MultipleOf"));
    let maximum = rules.maximum.as_ref().map(|bound| native(bound, "Maximum boundary"));
    let minimum = rules.minimum.as_ref().map(|bound| native(bound, "Minimum boundary"));
    if let Some((value, factor)) = multiple {
        found_multiple(value, factor, path, found);
    }
    if let Some((value, bound)) = maximum {
        let (beyond, words) = match rules.exclusive_maximum {
            true => (at_least(value, bound), "less than"),
            false => (!at_least(bound, value), "less than or equal to"),
        };
        if beyond {
            found.error(complaint(path, value, format!("{path} in body should be {words} {bound}")));
        }
    }
    if let Some((value, bound)) = minimum {
        let (below, words) = match rules.exclusive_minimum {
            true => (at_least(bound, value), "greater than"),
            false => (!at_least(value, bound), "greater than or equal to"),
        };
        if below {
            found.error(complaint(path, value, format!("{path} in body should be {words} {bound}")));
        }
    }
}

fn complaint(path: &str, value: Figure, words: String) -> FieldError {
    match value {
        Figure::Integer(integer) => FieldError::invalid(path, integer, words),
        Figure::Float(float) => FieldError::invalid(path, float, words),
    }
}

fn at_least(a: Figure, b: Figure) -> bool {
    match (a, b) {
        (Figure::Integer(a), Figure::Integer(b)) => a >= b,
        (a, b) => a.as_f64() >= b.as_f64(),
    }
}

fn found_multiple(value: Figure, factor: Figure, path: &str, found: &mut Found) {
    if factor.as_f64() <= 0.0 {
        let words = format!("factor MultipleOf declared for {path} must be positive: {factor}");
        found.error(complaint(path, factor, words));
        return;
    }
    let holds = match (value, factor) {
        (Figure::Integer(value), Figure::Integer(factor)) => value.checked_rem(factor) == Some(0),
        (value, factor) => {
            let (value, factor) = (value.as_f64(), factor.as_f64());
            is_integral(if factor < 1.0 { 1.0 / factor * value } else { value / factor })
        }
    };
    if !holds {
        found.error(complaint(path, value, format!("{path} in body should be a multiple of {factor}")));
    }
}
