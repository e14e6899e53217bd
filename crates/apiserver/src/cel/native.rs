//! The functions that are ours: those that must not cost more than was paid for, and those whose arguments are
//! evaluated once for every element.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::Value as Foreign;
use kube_cel::cel::common::ast::{Expr, IdedExpr};
use regex::Regex;

use super::eval::{Elements, Evaluation, Outcome, in_utc};
use super::failure::Failure;
use super::functions;
use super::library::{self, Target};
use super::program::compile;
use super::url::Url;
use super::value::{Key, Value, compare};
use crate::schema::ListType;

/// What compiling a pattern that is not known beforehand costs, a byte.
const PATTERN: u64 = 100;

impl<'a> Evaluation<'a> {
    /// A function of ours; nothing, if it is one of the library's.
    pub(super) fn native(&mut self, name: &str, parameters: &[Value<'a>]) -> Option<Outcome<'a>> {
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
            ("int", [Value::Foreign(Foreign::Timestamp(time))]) => Ok(Value::Int(time.timestamp())),
            ("timestamp" | "duration", [Value::Foreign(_)]) => Ok(in_utc(parameters.first()?.clone())),
            ("timestamp", [text]) => {
                text.as_str()?;
                library::call(Target::None, "timestamp", std::slice::from_ref(text)).map(in_utc)
            }
            (part, [Value::Foreign(Foreign::Duration(span))]) => match part {
                "getHours" => Ok(Value::Int(span.num_hours())),
                "getMinutes" => Ok(Value::Int(span.num_minutes())),
                "getSeconds" => Ok(Value::Int(span.num_seconds())),
                "getMilliseconds" => Ok(Value::Int(span.num_milliseconds())),
                _ => return None,
            },
            ("hasValue", [Value::Optional(held)]) => Ok(Value::Bool(held.is_some())),
            ("value", [Value::Optional(held)]) => match held {
                Some(held) => Ok(held.as_ref().clone()),
                None => Err(Failure::Other("optional.none() dereference".into())),
            },
            ("or", [Value::Optional(held), other]) => {
                Ok(if held.is_some() { parameters.first()?.clone() } else { other.clone() })
            }
            ("orValue", [Value::Optional(held), other]) => {
                Ok(held.as_ref().map_or_else(|| other.clone(), |held| held.as_ref().clone()))
            }
            ("unwrapOpt", [list]) => unwrapped(list),
            // Only what fits the type of the language is an integer.
            ("isInteger", [quantity]) => {
                Ok(Value::Bool(library::call(Target::Value(quantity), "asInteger", &[]).is_ok()))
            }
            (_, [Value::Foreign(Foreign::Opaque(opaque))]) => {
                return opaque.downcast_ref::<Url>().and_then(|url| url.part(name)).map(Ok);
            }
            _ => return self.of_text(name, parameters),
        })
    }

    fn of_text(&mut self, name: &str, parameters: &[Value<'a>]) -> Option<Outcome<'a>> {
        let text = parameters.first()?;
        let argument = |at: usize| parameters.get(at).and_then(Value::as_str);
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
                    Some(found) => part(text, found.range()),
                    None => Value::Text(""),
                })
            }
            ("findAll", 2 | 3) => {
                let most = match parameters.get(2) {
                    None => usize::MAX,
                    Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
                    Some(_) => return Some(Err(Failure::NoSuchOverload)),
                };
                let found = self.pattern(argument(1)?).map(|regex| {
                    let found = regex.find_iter(text.as_str().unwrap_or("")).take(most);
                    found.map(|found| part(text, found.range())).collect::<Vec<_>>()
                });
                found.and_then(|found| self.charge(found.len() as u64).map(|()| Value::list(found)))
            }
            ("split", 2 | 3) => self.split(text, argument(1)?, parameters.get(2)),
            ("replace", 3 | 4) => self.replace(text, argument(1)?, argument(2)?, parameters.get(3)),
            ("url", 1) => match Url::parse(text.as_str()?) {
                Ok(url) => Ok(Value::Foreign(Foreign::Opaque(Arc::new(url)))),
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
        self.charge((pattern.len() as u64).saturating_mul(PATTERN))?;
        compile(pattern).map_err(Failure::Other)
    }

    fn split(&mut self, text: &Value<'a>, separator: &str, most: Option<&Value<'a>>) -> Outcome<'a> {
        let most = match most {
            None => usize::MAX,
            Some(Value::Int(0)) => return Ok(Value::list(Vec::new())),
            Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
            Some(_) => return Err(Failure::NoSuchOverload),
        };
        let whole = text.as_str().unwrap_or_default();
        let mut ranges = Vec::new();
        let mut from = 0;
        while ranges.len() + 1 < most {
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
        Ok(Value::list(ranges.into_iter().map(|range| part(text, range)).collect()))
    }

    fn replace(&mut self, text: &Value<'a>, old: &str, new: &str, most: Option<&Value<'a>>) -> Outcome<'a> {
        let most = match most {
            None => usize::MAX,
            Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
            Some(_) => return Err(Failure::NoSuchOverload),
        };
        let text = text.as_str().unwrap_or_default();
        // What is made is paid for before it is made.
        let count = text.matches(old).take(most).count() as u64;
        self.charge(count.saturating_mul(new.len() as u64).div_ceil(10))?;
        Ok(Value::made(if most == usize::MAX {
            text.replace(old, new)
        } else {
            text.replacen(old, new, most)
        }))
    }

    /// Calls whose arguments are no values but expressions for each element.
    pub(super) fn two_step(
        &mut self,
        name: &str,
        target: &'a IdedExpr,
        args: &'a [IdedExpr],
    ) -> Option<Outcome<'a>> {
        let variable = |at: usize| match &args.get(at)?.expr {
            Expr::Ident(name) => Some(name.as_str()),
            _ => None,
        };
        Some(match (name, args) {
            ("optMap" | "optFlatMap", [_, body]) => self.mapped(name, target, variable(0)?, body),
            ("sortBy", [_, body]) => self.sorted_by(target, variable(0)?, body),
            ("all" | "exists" | "existsOne" | "exists_one", [_, _, body]) => {
                self.judged(name, target, (variable(0)?, variable(1)?), body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [_, _, body]) => {
                self.transformed(name, target, (variable(0)?, variable(1)?), None, body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [_, _, filter, body]) => {
                self.transformed(name, target, (variable(0)?, variable(1)?), Some(filter), body)
            }
            _ => return None,
        })
    }

    fn mapped(
        &mut self,
        name: &str,
        target: &'a IdedExpr,
        variable: &'a str,
        body: &'a IdedExpr,
    ) -> Outcome<'a> {
        match self.value(target)? {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(held)) => {
                let value = self.with(variable, held.as_ref().clone(), body)?;
                match value {
                    Value::Optional(_) if name == "optFlatMap" => Ok(value),
                    _ if name == "optFlatMap" => Err(Failure::NoSuchOverload),
                    value => Ok(Value::some(value)),
                }
            }
            _ => Err(Failure::NoSuchOverload),
        }
    }

    fn sorted_by(&mut self, target: &'a IdedExpr, variable: &'a str, body: &'a IdedExpr) -> Outcome<'a> {
        let list = self.value(target)?;
        let count = list.items().ok_or(Failure::NoSuchOverload)?;
        self.charge(functions::cost("sortBy", &[count as u64], true))?;
        let mut keyed = Vec::with_capacity(count);
        for item in (0..count).filter_map(|at| list.item(at)) {
            keyed.push((self.with(variable, item.clone(), body)?, item));
        }
        let ordered = keyed.windows(2).all(|pair| match pair {
            [(a, _), (b, _)] => compare(a, b).is_some(),
            _ => true,
        });
        if !ordered {
            return Err(Failure::NoSuchOverload);
        }
        keyed.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(std::cmp::Ordering::Equal));
        Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect()))
    }

    fn with_two(
        &mut self,
        (first, second): (&'a str, &'a str),
        (key, value): (Value<'a>, Value<'a>),
        body: &'a IdedExpr,
    ) -> Outcome<'a> {
        self.scoped(first, key, |evaluation| evaluation.with(second, value, body))
    }

    fn judged(
        &mut self,
        name: &str,
        target: &'a IdedExpr,
        variables: (&'a str, &'a str),
        body: &'a IdedExpr,
    ) -> Outcome<'a> {
        let range = self.value(target)?;
        let mut elements = Elements::of(&range).ok_or(Failure::NoSuchOverload)?;
        let (mut holding, mut failed) = (0_usize, None);
        while let Some((key, spot)) = elements.next() {
            self.charge(1)?;
            match (name, self.with_two(variables, (key, elements.found(&spot)), body)) {
                ("all", Ok(Value::Bool(false))) => return Ok(Value::Bool(false)),
                ("exists", Ok(Value::Bool(true))) => return Ok(Value::Bool(true)),
                (_, Ok(Value::Bool(holds))) => holding += usize::from(holds),
                (_, Ok(_)) => failed = Some(Failure::NoSuchOverload),
                (_, Err(Failure::TooExpensive)) => return Err(Failure::TooExpensive),
                (_, Err(failure)) => failed = Some(failure),
            }
        }
        match (failed, name) {
            (Some(failure), _) => Err(failure),
            (None, "all") => Ok(Value::Bool(true)),
            (None, "exists") => Ok(Value::Bool(false)),
            (None, _) => Ok(Value::Bool(holding == 1)),
        }
    }

    fn transformed(
        &mut self,
        name: &str,
        target: &'a IdedExpr,
        variables: (&'a str, &'a str),
        filter: Option<&'a IdedExpr>,
        body: &'a IdedExpr,
    ) -> Outcome<'a> {
        let range = self.value(target)?;
        let mut elements = Elements::of(&range).ok_or(Failure::NoSuchOverload)?;
        let (mut list, mut map) = (Vec::new(), BTreeMap::new());
        while let Some((key, spot)) = elements.next() {
            self.charge(1)?;
            let element = (key.clone(), elements.found(&spot));
            if let Some(filter) = filter {
                match self.with_two(variables, element.clone(), filter)? {
                    Value::Bool(true) => {}
                    Value::Bool(false) => continue,
                    _ => return Err(Failure::NoSuchOverload),
                }
            }
            let value = self.with_two(variables, element, body)?;
            match name {
                "transformList" => list.push(value),
                "transformMap" => {
                    map.insert(Key::of(&key).ok_or(Failure::NoSuchOverload)?, value);
                }
                _ => {
                    let keys = value.keys().ok_or(Failure::NoSuchOverload)?;
                    for key in keys {
                        let entry = value.entry(&key).unwrap_or(Value::Null);
                        if map.insert(key, entry).is_some() {
                            return Err(Failure::Other("insert failed: key already exists".into()));
                        }
                    }
                }
            }
        }
        Ok(if name == "transformList" { Value::list(list) } else { Value::Map(Arc::new(map)) })
    }
}

/// A part of text: in place, where the text is.
fn part<'a>(text: &Value<'a>, range: std::ops::Range<usize>) -> Value<'a> {
    match text {
        Value::Text(text) => Value::Text(text.get(range).unwrap_or_default()),
        other => Value::made(other.as_str().and_then(|text| text.get(range)).unwrap_or_default()),
    }
}

/// Whether a format asks for more digits than anybody reads.
pub(super) fn asks_for_too_much(format: &str) -> bool {
    format.split("%.").skip(1).any(|rest| rest.bytes().take_while(u8::is_ascii_digit).count() > 2)
}

/// The values that a list of optional ones holds.
pub(super) fn unwrapped<'a>(list: &Value<'a>) -> Outcome<'a> {
    let count = list.items().ok_or(Failure::NoSuchOverload)?;
    let items = (0..count).filter_map(|at| list.item(at)).filter_map(|item| match item {
        Value::Optional(held) => held.map(|held| held.as_ref().clone()),
        other => Some(other),
    });
    Ok(Value::list(items.collect()))
}

/// Two lists as one. What a set or a map already has is not added again, but takes its place.
pub(super) fn concatenated<'a>(a: &Value<'a>, first: usize, b: &Value<'a>, second: usize) -> Value<'a> {
    let mut items: Vec<Value<'a>> = (0..first).filter_map(|at| a.item(at)).collect();
    let added = (0..second).filter_map(|at| b.item(at));
    let (kind, keys) = match a {
        Value::Items(_, schema) => (schema.extensions.list_type, schema.extensions.list_map_keys.as_slice()),
        _ => (None, [].as_slice()),
    };
    match kind {
        Some(ListType::Set | ListType::Map) => {
            let identity = |item: &Value<'a>| -> String {
                if kind == Some(ListType::Set) {
                    return format!("{item:?}");
                }
                keys.iter().map(|key| format!("{:?}\0", item.field(key))).collect()
            };
            let mut places: BTreeMap<String, usize> =
                items.iter().enumerate().map(|(at, item)| (identity(item), at)).collect();
            for item in added {
                let name = identity(&item);
                match places.get(&name).and_then(|at| items.get_mut(*at)) {
                    Some(slot) => *slot = item,
                    None => {
                        places.insert(name, items.len());
                        items.push(item);
                    }
                }
            }
        }
        _ => items.extend(added),
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

fn to_text<'a>(value: &Value<'a>) -> Option<Value<'a>> {
    Some(match value {
        Value::Bool(value) => Value::Text(if *value { "true" } else { "false" }),
        Value::Text(_) | Value::Made(_) => value.clone(),
        Value::Foreign(Foreign::Duration(span)) => {
            let nanos = span.num_nanoseconds()?;
            let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
            let fraction = format!("{:09}", nanos % 1_000_000_000);
            let fraction = fraction.trim_end_matches('0');
            let dot = if fraction.is_empty() { "" } else { "." };
            Value::made(format!("{sign}{}{dot}{fraction}s", nanos / 1_000_000_000))
        }
        Value::Foreign(Foreign::Timestamp(time)) => Value::made(time.to_rfc3339().replace("+00:00", "Z")),
        _ => return None,
    })
}
