//! The operators of conditions.

use std::cmp::Ordering;
use std::str::FromStr;

use serde_json::Value;

macro_rules! operators {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// How a condition compares a variable with a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operator {
            $(#[doc = concat!("`", $name, "`")] $variant),*
        }

        impl FromStr for Operator {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                match text { $($name => Ok(Self::$variant),)* _ => Err(()) }
            }
        }

        impl Operator {
            /// All names.
            pub fn names() -> Vec<&'static str> {
                vec![$($name),*]
            }

            /// The name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

operators! {
    Equals "equals", NotEquals "notEquals", In "in", NotIn "notIn", Contains "contains",
    GreaterThan "greaterThan", LessThan "lessThan",
    GreaterThanOrEqual "greaterThanOrEqual", LessThanOrEqual "lessThanOrEqual",
    Exists "exists", NotExists "notExists",
}

impl Operator {
    /// Whether a value has the shape that the operator compares with.
    pub fn check_value(self, value: Option<&Value>) -> Result<(), String> {
        let name = self.name();
        match (self, value) {
            (Self::Exists | Self::NotExists, None) => Ok(()),
            (Self::Exists | Self::NotExists, Some(_)) => Err(format!("the operator {name} takes no value")),
            (_, None) => Err(format!("the operator {name} needs `value` or `values`")),
            (Self::In | Self::NotIn, Some(Value::Array(_))) => Ok(()),
            (Self::In | Self::NotIn, Some(_)) => Err(format!("the operator {name} needs a list of values")),
            (
                Self::GreaterThan | Self::LessThan | Self::GreaterThanOrEqual | Self::LessThanOrEqual,
                Some(value),
            ) if number(value).is_none() => Err(format!("the operator {name} needs a number")),
            _ => Ok(()),
        }
    }

    /// Compares the value of a variable, or `None` if it has none, with the value of the condition.
    pub fn holds(self, actual: Option<&Value>, expected: &Value) -> Result<bool, String> {
        let present = actual.filter(|value| !value.is_null());
        let value = actual.unwrap_or(&Value::Null);
        match self {
            Self::Exists => Ok(present.is_some()),
            Self::NotExists => Ok(present.is_none()),
            Self::Equals => Ok(are_equal(value, expected)),
            Self::NotEquals => Ok(!are_equal(value, expected)),
            Self::In => Ok(contains(expected, value)),
            Self::NotIn => Ok(!contains(expected, value)),
            Self::Contains => match (value, expected) {
                (Value::String(text), Value::String(part)) => Ok(text.contains(part)),
                (Value::Array(_), _) => Ok(contains(value, expected)),
                (Value::Object(entries), Value::String(key)) => Ok(entries.contains_key(key)),
                (Value::Null, _) => Ok(false),
                _ => Err("contains compares a string with a part, or a list with an item".to_owned()),
            },
            Self::GreaterThan => Ok(order(value, expected, self)? == Some(Ordering::Greater)),
            Self::LessThan => Ok(order(value, expected, self)? == Some(Ordering::Less)),
            Self::GreaterThanOrEqual => {
                Ok(matches!(order(value, expected, self)?, Some(Ordering::Greater | Ordering::Equal)))
            }
            Self::LessThanOrEqual => {
                Ok(matches!(order(value, expected, self)?, Some(Ordering::Less | Ordering::Equal)))
            }
        }
    }
}

fn are_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}

fn contains(list: &Value, item: &Value) -> bool {
    list.as_array().is_some_and(|items| items.iter().any(|found| are_equal(found, item)))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The order of two numbers; none where the variable has no value, which is neither greater nor less.
fn order(actual: &Value, expected: &Value, operator: Operator) -> Result<Option<Ordering>, String> {
    match (number(actual), number(expected)) {
        (Some(actual), Some(expected)) => Ok(actual.partial_cmp(&expected)),
        _ if actual.is_null() => Ok(None),
        _ => Err(format!("{} compares numbers, and the value is {actual}", operator.name())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_operator_on_every_kind_of_value() {
        use Operator::*;
        for (operator, actual, expected, holds) in [
            (Equals, Some(json!("a")), json!("a"), true),
            (Equals, Some(json!(1)), json!(1.0), true),
            (Equals, Some(json!("1")), json!(1), false),
            (Equals, None, json!("a"), false),
            (NotEquals, Some(json!("a")), json!("b"), true),
            (NotEquals, None, json!("a"), true),
            (In, Some(json!("a")), json!(["a", "b"]), true),
            (In, Some(json!("c")), json!(["a", "b"]), false),
            (NotIn, Some(json!("c")), json!(["a"]), true),
            (NotIn, Some(json!("a")), json!(["a"]), false),
            (Contains, Some(json!("abc")), json!("b"), true),
            (Contains, Some(json!(["x"])), json!("x"), true),
            (Contains, Some(json!({"k": 1})), json!("k"), true),
            (Contains, None, json!("x"), false),
            (GreaterThan, Some(json!(2)), json!(1), true),
            (GreaterThan, Some(json!(1)), json!(1), false),
            (GreaterThan, Some(json!("10")), json!(9), true),
            (GreaterThan, None, json!(1), false),
            (LessThan, Some(json!(1)), json!(2), true),
            (LessThan, None, json!(2), false),
            (GreaterThanOrEqual, Some(json!(1)), json!(1), true),
            (LessThanOrEqual, Some(json!(1)), json!(1), true),
            (LessThanOrEqual, Some(json!(2)), json!(1), false),
            (Exists, Some(json!("")), Value::Null, true),
            (Exists, Some(json!(null)), Value::Null, false),
            (Exists, None, Value::Null, false),
            (NotExists, None, Value::Null, true),
            (NotExists, Some(json!(0)), Value::Null, false),
        ] {
            assert_eq!(
                operator.holds(actual.as_ref(), &expected),
                Ok(holds),
                "{actual:?} {operator:?} {expected}"
            );
        }
        assert!(GreaterThan.holds(Some(&json!("many")), &json!(1)).is_err());
        assert!(Contains.holds(Some(&json!(1)), &json!(1)).is_err());
    }

    #[test]
    fn values_must_have_the_shape_of_the_operator() {
        for (operator, value, valid) in [
            ("exists", None, true),
            ("exists", Some(json!(1)), false),
            ("equals", None, false),
            ("in", Some(json!("a")), false),
            ("in", Some(json!(["a"])), true),
            ("lessThan", Some(json!("a")), false),
            ("lessThan", Some(json!(3)), true),
        ] {
            let operator: Operator = operator.parse().unwrap();
            assert_eq!(operator.check_value(value.as_ref()).is_ok(), valid, "{operator:?} {value:?}");
        }
        assert!("like".parse::<Operator>().is_err());
        for name in Operator::names() {
            assert_eq!(name.parse::<Operator>().unwrap().name(), name);
        }
    }
}
