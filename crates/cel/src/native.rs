//! Functions that the library does not have, or that it computes without regard to their cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::Value as LibraryValue;
use regex::Regex;

use crate::eval::{Evaluation, Outcome, in_utc};
use crate::failure::Failure;
use crate::library::{self, Target};
use crate::program::compile;
use crate::schema::ListIdentity;
use crate::url::Url;
use crate::value::Value;

/// The cost of compiling a regular expression that is not a literal, for each byte of it.
const PATTERN_BYTE_COST: u64 = 100;

impl<'a> Evaluation<'a> {
    /// A function that is implemented here; `None` if it is the library's.
    pub(crate) fn native(&mut self, name: &str, parameters: &[Value<'a>]) -> Option<Outcome<'a>> {
        Some(match (name, parameters) {
            ("size", [value]) => value.size().map(Value::Int).ok_or(Failure::NoSuchOverload),
            ("type", [value]) => Ok(Value::Type(value.type_name().into())),
            ("dyn", [value]) => Ok(value.clone()),
            ("bool", [value]) => to_bool(value),
            ("string", [value]) => return to_text(value).map(Ok),
            ("bytes", [value]) => match (value, value.as_str()) {
                (_, Some(text)) => Ok(Value::Bytes(text.as_bytes().into())),
                (Value::Bytes(_), _) => Ok(value.clone()),
                _ => Err(Failure::NoSuchOverload),
            },
            ("int", [Value::Library(LibraryValue::Timestamp(time))]) => Ok(Value::Int(time.timestamp())),
            ("timestamp" | "duration", [Value::Library(_)]) => Ok(in_utc(parameters.first()?.clone())),
            ("timestamp", [text]) => {
                text.as_str()?;
                library::call(Target::None, "timestamp", std::slice::from_ref(text)).map(in_utc)
            }
            (part, [Value::Library(LibraryValue::Duration(span))]) => match part {
                "getHours" => Ok(Value::Int(span.num_hours())),
                "getMinutes" => Ok(Value::Int(span.num_minutes())),
                "getSeconds" => Ok(Value::Int(span.num_seconds())),
                "getMilliseconds" => Ok(Value::Int(span.num_milliseconds())),
                _ => return None,
            },
            ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
            ("value", [Value::Optional(inner)]) => match inner {
                Some(inner) => Ok(inner.as_ref().clone()),
                None => Err(Failure::Other("optional.none() dereference".into())),
            },
            ("or", [Value::Optional(inner), other]) => {
                Ok(if inner.is_some() { parameters.first()?.clone() } else { other.clone() })
            }
            ("orValue", [Value::Optional(inner), other]) => {
                Ok(inner.as_ref().map_or_else(|| other.clone(), |inner| inner.as_ref().clone()))
            }
            ("unwrapOpt", [list]) => unwrap_optionals(list),
            // A quantity is an integer only if it fits the integers of the language.
            ("isInteger", [quantity]) => {
                Ok(Value::Bool(library::call(Target::Value(quantity), "asInteger", &[]).is_ok()))
            }
            (_, [Value::Library(LibraryValue::Opaque(opaque))]) => {
                return opaque.downcast_ref::<Url>().and_then(|url| url.part(name)).map(Ok);
            }
            ("toJson", [value]) if self.functions.json => self.json_text(value),
            ("dig", [value, path]) if self.functions.json => self.dig(value, path.as_str()?),
            _ => return self.text_function(name, parameters),
        })
    }

    fn text_function(&mut self, name: &str, parameters: &[Value<'a>]) -> Option<Outcome<'a>> {
        let text = parameters.first()?;
        let argument = |index: usize| parameters.get(index).and_then(Value::as_str);
        text.as_str()?;
        Some(match (name, parameters.len()) {
            ("contains", 2) => Ok(Value::Bool(text.as_str()?.contains(argument(1)?))),
            ("startsWith", 2) => Ok(Value::Bool(text.as_str()?.starts_with(argument(1)?))),
            ("endsWith", 2) => Ok(Value::Bool(text.as_str()?.ends_with(argument(1)?))),
            ("matches", 2) => self
                .pattern(argument(1)?)
                .map(|regex| Value::Bool(regex.is_match(text.as_str().unwrap_or("")))),
            ("find", 2) => {
                self.pattern(argument(1)?).map(|regex| match regex.find(text.as_str().unwrap_or("")) {
                    Some(found) => substring(text, found.range()),
                    None => Value::Str(""),
                })
            }
            ("findAll", 2 | 3) => {
                let limit = match parameters.get(2) {
                    None => usize::MAX,
                    Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                    Some(_) => return Some(Err(Failure::NoSuchOverload)),
                };
                let found = self.pattern(argument(1)?).map(|regex| {
                    let found = regex.find_iter(text.as_str().unwrap_or("")).take(limit);
                    found.map(|found| substring(text, found.range())).collect::<Vec<_>>()
                });
                found.and_then(|found| self.charge(found.len() as u64).map(|()| Value::list(found)))
            }
            ("split", 2 | 3) => self.split(text, argument(1)?, parameters.get(2)),
            ("replace", 3 | 4) => self.replace(text, argument(1)?, argument(2)?, parameters.get(3)),
            ("url", 1) => match Url::parse(text.as_str()?) {
                Ok(url) => Ok(Value::Library(LibraryValue::Opaque(Arc::new(url)))),
                Err(why) => {
                    Err(Failure::Other(format!("URL parse error during conversion from string: {why}")))
                }
            },
            ("isURL", 1) => Ok(Value::Bool(Url::parse(text.as_str()?).is_ok())),
            _ => return None,
        })
    }

    fn pattern(&mut self, pattern: &str) -> Result<Regex, Failure> {
        if let Some(regex) = self.program.patterns.get(pattern) {
            return Ok(regex.clone());
        }
        self.charge((pattern.len() as u64).saturating_mul(PATTERN_BYTE_COST))?;
        compile(pattern).map_err(Failure::Other)
    }

    fn split(&mut self, text: &Value<'a>, separator: &str, limit: Option<&Value<'a>>) -> Outcome<'a> {
        let limit = match limit {
            None => usize::MAX,
            Some(Value::Int(0)) => return Ok(Value::list(Vec::new())),
            Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
            Some(_) => return Err(Failure::NoSuchOverload),
        };
        let whole = text.as_str().unwrap_or_default();
        let mut ranges = Vec::new();
        let mut from = 0;
        while ranges.len() + 1 < limit {
            let rest = whole.get(from..).unwrap_or_default();
            let next = if separator.is_empty() {
                rest.chars().next().map(|first| (first.len_utf8(), 0)).filter(|(end, _)| *end < rest.len())
            } else {
                rest.find(separator).map(|end| (end, separator.len()))
            };
            let Some((end, skipped)) = next else { break };
            self.charge(1)?;
            ranges.push(from..from + end);
            from += end + skipped;
        }
        if !(separator.is_empty() && whole.is_empty()) {
            ranges.push(from..whole.len());
        }
        Ok(Value::list(ranges.into_iter().map(|range| substring(text, range)).collect()))
    }

    fn replace(&mut self, text: &Value<'a>, old: &str, new: &str, limit: Option<&Value<'a>>) -> Outcome<'a> {
        let limit = match limit {
            None => usize::MAX,
            Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
            Some(_) => return Err(Failure::NoSuchOverload),
        };
        let text = text.as_str().unwrap_or_default();
        // Charge for the result before building it.
        let count = text.matches(old).take(limit).count() as u64;
        self.charge(count.saturating_mul(new.len() as u64).div_ceil(10))?;
        Ok(Value::string(if limit == usize::MAX {
            text.replace(old, new)
        } else {
            text.replacen(old, new, limit)
        }))
    }
}

/// A part of a text, borrowed where the text is borrowed.
fn substring<'a>(text: &Value<'a>, range: std::ops::Range<usize>) -> Value<'a> {
    match text {
        Value::Str(text) => Value::Str(text.get(range).unwrap_or_default()),
        other => Value::string(other.as_str().and_then(|text| text.get(range)).unwrap_or_default()),
    }
}

/// Whether a format has a precision of more than two digits.
pub(crate) fn has_excessive_precision(format: &str) -> bool {
    format.split("%.").skip(1).any(|rest| rest.bytes().take_while(u8::is_ascii_digit).count() > 2)
}

/// The values of a list of optionals.
pub(crate) fn unwrap_optionals<'a>(list: &Value<'a>) -> Outcome<'a> {
    let count = list.items().ok_or(Failure::NoSuchOverload)?;
    let items = (0..count).filter_map(|index| list.item(index)).filter_map(|item| match item {
        Value::Optional(inner) => inner.map(|inner| inner.as_ref().clone()),
        other => Some(other),
    });
    Ok(Value::list(items.collect()))
}

/// Two lists as one. An item that a set or a keyed list has already replaces the one that is there.
pub(crate) fn concatenate<'a>(a: &Value<'a>, first: usize, b: &Value<'a>, second: usize) -> Value<'a> {
    let mut items: Vec<Value<'a>> = (0..first).filter_map(|index| a.item(index)).collect();
    let added = (0..second).filter_map(|index| b.item(index));
    let identity = match a {
        Value::Items(_, schema) => schema.list_identity(),
        _ => ListIdentity::Index,
    };
    let name = |item: &Value<'a>| -> String {
        match identity {
            ListIdentity::Fields(fields) => {
                fields.iter().map(|field| format!("{:?}\0", item.field(field))).collect()
            }
            _ => format!("{item:?}"),
        }
    };
    if identity == ListIdentity::Index {
        items.extend(added);
        return Value::list(items);
    }
    let mut indices: BTreeMap<String, usize> =
        items.iter().enumerate().map(|(index, item)| (name(item), index)).collect();
    for item in added {
        let name = name(&item);
        match indices.get(&name).and_then(|index| items.get_mut(*index)) {
            Some(slot) => *slot = item,
            None => {
                indices.insert(name, items.len());
                items.push(item);
            }
        }
    }
    Value::list(items)
}

fn to_bool<'a>(value: &Value<'a>) -> Outcome<'a> {
    match (value, value.as_str()) {
        (Value::Bool(_), _) => Ok(value.clone()),
        (_, Some("1" | "t" | "T" | "true" | "TRUE" | "True")) => Ok(Value::Bool(true)),
        (_, Some("0" | "f" | "F" | "false" | "FALSE" | "False")) => Ok(Value::Bool(false)),
        (_, Some(_)) => Err(Failure::Other("type conversion error from 'string' to 'bool'".into())),
        _ => Err(Failure::NoSuchOverload),
    }
}

pub(crate) fn to_text<'a>(value: &Value<'a>) -> Option<Value<'a>> {
    Some(match value {
        Value::Bool(value) => Value::Str(if *value { "true" } else { "false" }),
        Value::Str(_) | Value::String(_) => value.clone(),
        Value::Library(LibraryValue::Duration(span)) => {
            let nanos = span.num_nanoseconds()?;
            let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
            let fraction = format!("{:09}", nanos % 1_000_000_000);
            let fraction = fraction.trim_end_matches('0');
            let dot = if fraction.is_empty() { "" } else { "." };
            Value::string(format!("{sign}{}{dot}{fraction}s", nanos / 1_000_000_000))
        }
        Value::Library(LibraryValue::Timestamp(time)) => {
            Value::string(time.to_rfc3339().replace("+00:00", "Z"))
        }
        _ => return None,
    })
}
