//! The operators of the language on values: selection, comparison and arithmetic.

use kube_cel::cel::common::ast::operators;

use crate::eval::Outcome;
use crate::failure::Failure;
use crate::library;
use crate::value::{Key, Value, compare};

pub(crate) fn overflow() -> Failure {
    Failure::Other("integer overflow".into())
}

pub(crate) fn optional(found: Option<Value<'_>>) -> Value<'_> {
    found.map_or(Value::Optional(None), Value::some)
}

pub(crate) fn index<'a>(operand: &Value<'a>, key: &Value<'a>) -> Outcome<'a> {
    if let Value::Optional(inner) = operand {
        return match inner {
            None => Ok(Value::Optional(None)),
            Some(inner) => optional_index(inner, key),
        };
    }
    if operand.items().is_some() {
        let index = match key {
            Value::Int(index) => *index,
            Value::Uint(index) => i64::try_from(*index).unwrap_or(i64::MAX),
            Value::Double(index) if index.fract() == 0.0 => *index as i64,
            _ => return Err(Failure::NoSuchOverload),
        };
        let item = usize::try_from(index).ok().and_then(|index| operand.item(index));
        return item.ok_or(Failure::IndexOutOfBounds(index));
    }
    match (operand, Key::of(key)) {
        (Value::Entries(..) | Value::Map(_) | Value::Object(..), Some(key)) => {
            operand.entry(&key).ok_or_else(|| {
                Failure::NoSuchKey(match key {
                    Key::Text(text) => text.to_string(),
                    Key::Bool(value) => value.to_string(),
                    Key::Int(value) => value.to_string(),
                    Key::Uint(value) => value.to_string(),
                })
            })
        }
        _ => Err(Failure::NoSuchOverload),
    }
}

pub(crate) fn optional_index<'a>(operand: &Value<'a>, key: &Value<'a>) -> Outcome<'a> {
    match operand {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_index(inner, key),
        operand => match index(operand, key) {
            Ok(value) => Ok(Value::some(value)),
            Err(Failure::NoSuchKey(_) | Failure::IndexOutOfBounds(_)) => Ok(Value::Optional(None)),
            Err(other) => Err(other),
        },
    }
}

/// The operators that evaluate all their operands; `None` if the name is not one of them.
pub(crate) fn operator<'a>(name: &str, parameters: &[Value<'a>]) -> Option<Outcome<'a>> {
    use std::cmp::Ordering;
    let ordered = |holds: fn(Ordering) -> bool| match parameters {
        [a, b] => match compare(a, b) {
            Some(order) => Ok(Value::Bool(holds(order))),
            None if matches!((a, b), (Value::Double(_), _) | (_, Value::Double(_))) => Ok(Value::Bool(false)),
            None => Err(Failure::NoSuchOverload),
        },
        _ => Err(Failure::NoSuchOverload),
    };
    Some(match (name, parameters) {
        (operators::LOGICAL_NOT, [Value::Bool(value)]) => Ok(Value::Bool(!value)),
        (operators::LOGICAL_NOT, _) => Err(Failure::NoSuchOverload),
        (operators::NEGATE, [Value::Int(value)]) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        (operators::NEGATE, [Value::Double(value)]) => Ok(Value::Double(-value)),
        (operators::NEGATE, _) => Err(Failure::NoSuchOverload),
        (operators::LESS, _) => ordered(Ordering::is_lt),
        (operators::LESS_EQUALS, _) => ordered(Ordering::is_le),
        (operators::GREATER, _) => ordered(Ordering::is_gt),
        (operators::GREATER_EQUALS, _) => ordered(Ordering::is_ge),
        (operators::ADD, [a, b]) => add(a, b),
        (operators::SUBSTRACT, [Value::Library(a), Value::Library(b)]) => library::subtract(a, b),
        (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [a, b]) => {
            arithmetic(name, a, b)
        }
        _ => return None,
    })
}

fn add<'a>(a: &Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Ok(Value::string(format!("{a}{b}")));
    }
    match (a, b) {
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes(a.iter().chain(b.iter()).copied().collect())),
        (Value::Library(a), Value::Library(b)) => library::add(a, b),
        _ => match (a.items(), b.items()) {
            (Some(first), Some(second)) => Ok(crate::native::concatenate(a, first, b, second)),
            _ => arithmetic(operators::ADD, a, b),
        },
    }
}

fn arithmetic<'a>(name: &str, a: &Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    let division_error = |divisor_is_zero: bool| {
        let message = if name == operators::MODULO { "modulus by zero" } else { "division by zero" };
        if divisor_is_zero { Failure::Other(message.into()) } else { overflow() }
    };
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            let result = match name {
                operators::ADD => a.checked_add(*b),
                operators::SUBSTRACT => a.checked_sub(*b),
                operators::MULTIPLY => a.checked_mul(*b),
                operators::DIVIDE => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            let divides = matches!(name, operators::DIVIDE | operators::MODULO);
            result.map(Value::Int).ok_or_else(|| division_error(divides && *b == 0))
        }
        (Value::Uint(a), Value::Uint(b)) => {
            let result = match name {
                operators::ADD => a.checked_add(*b),
                operators::SUBSTRACT => a.checked_sub(*b),
                operators::MULTIPLY => a.checked_mul(*b),
                operators::DIVIDE => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            let divides = matches!(name, operators::DIVIDE | operators::MODULO);
            result.map(Value::Uint).ok_or_else(|| division_error(divides && *b == 0))
        }
        (Value::Double(a), Value::Double(b)) => match name {
            operators::ADD => Ok(Value::Double(a + b)),
            operators::SUBSTRACT => Ok(Value::Double(a - b)),
            operators::MULTIPLY => Ok(Value::Double(a * b)),
            operators::DIVIDE => Ok(Value::Double(a / b)),
            _ => Err(Failure::NoSuchOverload),
        },
        _ => Err(Failure::NoSuchOverload),
    }
}
