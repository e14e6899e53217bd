//! Macros that the parser does not expand: calls with an argument that is evaluated for every element.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{Expr, IdedExpr};

use crate::eval::{Elements, Evaluation, Outcome};
use crate::failure::Failure;
use crate::functions;
use crate::value::{Key, Value, compare};

impl<'a> Evaluation<'a> {
    /// Calls a macro; `None` if the call is not one.
    pub(crate) fn macro_call(
        &mut self,
        name: &str,
        target: &'a IdedExpr,
        args: &'a [IdedExpr],
    ) -> Option<Outcome<'a>> {
        let variable = |index: usize| match &args.get(index)?.expr {
            Expr::Ident(name) => Some(name.as_str()),
            _ => None,
        };
        Some(match (name, args) {
            ("optMap" | "optFlatMap", [_, body]) => self.opt_map(name, target, variable(0)?, body),
            ("sortBy", [_, body]) => self.sort_by(target, variable(0)?, body),
            ("all" | "exists" | "existsOne" | "exists_one", [_, _, body]) => {
                self.quantify(name, target, (variable(0)?, variable(1)?), body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [_, _, body]) => {
                self.transform(name, target, (variable(0)?, variable(1)?), None, body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [_, _, filter, body]) => {
                self.transform(name, target, (variable(0)?, variable(1)?), Some(filter), body)
            }
            _ => return None,
        })
    }

    fn opt_map(
        &mut self,
        name: &str,
        target: &'a IdedExpr,
        variable: &'a str,
        body: &'a IdedExpr,
    ) -> Outcome<'a> {
        match self.value(target)? {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => {
                let value = self.with(variable, inner.as_ref().clone(), body)?;
                match value {
                    Value::Optional(_) if name == "optFlatMap" => Ok(value),
                    _ if name == "optFlatMap" => Err(Failure::NoSuchOverload),
                    value => Ok(Value::some(value)),
                }
            }
            _ => Err(Failure::NoSuchOverload),
        }
    }

    fn sort_by(&mut self, target: &'a IdedExpr, variable: &'a str, body: &'a IdedExpr) -> Outcome<'a> {
        let list = self.value(target)?;
        let count = list.items().ok_or(Failure::NoSuchOverload)?;
        self.charge(functions::cost("sortBy", &[count as u64], true))?;
        let mut keyed = Vec::with_capacity(count);
        for item in (0..count).filter_map(|index| list.item(index)) {
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

    fn with_pair(
        &mut self,
        (first, second): (&'a str, &'a str),
        (key, value): (Value<'a>, Value<'a>),
        body: &'a IdedExpr,
    ) -> Outcome<'a> {
        self.scoped(first, key, |evaluation| evaluation.with(second, value, body))
    }

    fn quantify(
        &mut self,
        name: &str,
        target: &'a IdedExpr,
        variables: (&'a str, &'a str),
        body: &'a IdedExpr,
    ) -> Outcome<'a> {
        let range = self.value(target)?;
        let mut elements = Elements::of(&range).ok_or(Failure::NoSuchOverload)?;
        let (mut matching, mut failed) = (0_usize, None);
        while let Some((key, element_key)) = elements.next() {
            self.charge(1)?;
            match (name, self.with_pair(variables, (key, elements.value_at(&element_key)), body)) {
                ("all", Ok(Value::Bool(false))) => return Ok(Value::Bool(false)),
                ("exists", Ok(Value::Bool(true))) => return Ok(Value::Bool(true)),
                (_, Ok(Value::Bool(holds))) => matching += usize::from(holds),
                (_, Ok(_)) => failed = Some(Failure::NoSuchOverload),
                (_, Err(Failure::CostLimitExceeded)) => return Err(Failure::CostLimitExceeded),
                (_, Err(failure)) => failed = Some(failure),
            }
        }
        match (failed, name) {
            (Some(failure), _) => Err(failure),
            (None, "all") => Ok(Value::Bool(true)),
            (None, "exists") => Ok(Value::Bool(false)),
            (None, _) => Ok(Value::Bool(matching == 1)),
        }
    }

    fn transform(
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
        while let Some((key, element_key)) = elements.next() {
            self.charge(1)?;
            let element = (key.clone(), elements.value_at(&element_key));
            if let Some(filter) = filter {
                match self.with_pair(variables, element.clone(), filter)? {
                    Value::Bool(true) => {}
                    Value::Bool(false) => continue,
                    _ => return Err(Failure::NoSuchOverload),
                }
            }
            let value = self.with_pair(variables, element, body)?;
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
