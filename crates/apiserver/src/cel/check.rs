//! What can be said of an expression before there is an object: the type of every part as far as the schema tells, and
//! the most that an evaluation can cost. An expression that could never be evaluated is refused here.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};

use super::eval::{qualified, type_named};
use super::functions::{self, SIGNATURES, Signature, Style, is_package};
use super::library;
use super::program::Program;
use super::types::Type;

/// What is known of an expression, or of a part of one.
#[derive(Clone, Debug)]
pub(super) struct Known<'s> {
    pub(super) kind: Type<'s>,
    /// The most that it costs.
    pub(super) cost: u64,
}

type Checked<'s> = Result<Known<'s>, String>;

/// Checks an expression in which these variables are known.
pub(super) fn check<'s>(program: &'s Program, variables: Vec<(&'s str, Type<'s>)>) -> Checked<'s> {
    Checker { variables }.part(&program.expression)
}

/// Whether the items of a list that is written out must be of one type.
#[derive(Clone, Copy)]
enum Items {
    Alike,
    Any,
}

struct Checker<'s> {
    variables: Vec<(&'s str, Type<'s>)>,
}

fn known<'s>(kind: Type<'s>, cost: u64) -> Checked<'s> {
    Ok(Known { kind, cost })
}

fn undeclared(name: &str) -> String {
    format!("ERROR: <input>: undeclared reference to '{name}' (in container '')")
}

fn no_overload(name: &str, member: bool, parameters: &[Type<'_>]) -> String {
    let shown: Vec<String> = parameters.iter().map(ToString::to_string).collect();
    let applied = match shown.split_first() {
        Some((first, rest)) if member => format!("{first}.({})", rest.join(", ")),
        _ => format!("({})", shown.join(", ")),
    };
    format!("ERROR: <input>: found no matching overload for '{name}' applied to '{applied}'")
}

fn sum(costs: impl IntoIterator<Item = u64>) -> u64 {
    costs.into_iter().fold(0, u64::saturating_add)
}

impl<'s> Checker<'s> {
    fn part(&mut self, expression: &'s IdedExpr) -> Checked<'s> {
        match &expression.expr {
            Expr::Literal(literal) => known(literal_type(literal), 0),
            Expr::Ident(name) => known(self.variable(name)?, 1),
            Expr::Select(select) => self.select(&select.operand, &select.field, select.test),
            Expr::List(list) => self.list(list, Items::Alike),
            Expr::Map(map) => self.map(map),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Err("ERROR: <input>: not an expression".into()),
        }
    }

    fn variable(&self, name: &str) -> Result<Type<'s>, String> {
        let found = self.variables.iter().rev().find(|(known, _)| *known == name);
        match found {
            Some((_, kind)) => Ok(kind.clone()),
            None if type_named(name).is_some() => Ok(Type::Kind),
            None => Err(undeclared(name)),
        }
    }

    fn is_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|(known, _)| *known == name)
    }

    fn with(&mut self, variables: &[(&'s str, Type<'s>)], body: &'s IdedExpr) -> Checked<'s> {
        let before = self.variables.len();
        self.variables.extend(variables.iter().cloned());
        let checked = self.part(body);
        self.variables.truncate(before);
        checked
    }

    fn select(&mut self, operand: &'s IdedExpr, field: &str, test: bool) -> Checked<'s> {
        if let Some(name) = qualified(operand, field)
            && !self.is_variable(name.split('.').next().unwrap_or_default())
            && type_named(&name).is_some()
        {
            return known(Type::Kind, 1);
        }
        let operand = self.part(operand)?;
        let kind = match operand.kind.field(field) {
            Some(kind) => kind,
            None => {
                return Err(match operand.kind {
                    Type::Object(..) | Type::Metadata | Type::Optional(_) => {
                        format!("ERROR: <input>: undefined field '{field}'")
                    }
                    other => {
                        format!("ERROR: <input>: type '{other}' does not support field selection")
                    }
                });
            }
        };
        match test {
            true => known(Type::Bool, operand.cost),
            false => known(kind, operand.cost.saturating_add(1)),
        }
    }

    fn list(&mut self, list: &'s ListExpr, items: Items) -> Checked<'s> {
        let mut item = Type::Dyn;
        let mut cost = 10;
        for (at, element) in list.elements.iter().enumerate() {
            let element = self.part(element)?;
            cost = sum([cost, element.cost]);
            let kind = match element.kind {
                Type::Optional(held) if list.optional_indices.contains(&at) => *held,
                kind => kind,
            };
            match (item.agrees(&kind), items) {
                (true, _) => item = item.join(kind),
                (false, Items::Any) => item = Type::Dyn,
                (false, Items::Alike) => {
                    return Err(format!("ERROR: <input>: expected type '{item}' but found '{kind}'"));
                }
            }
        }
        known(Type::List(Box::new(item), list.elements.len() as u64), cost)
    }

    fn map(&mut self, map: &'s MapExpr) -> Checked<'s> {
        let (mut keys, mut values) = (Type::Dyn, Type::Dyn);
        let mut cost = 30;
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err("ERROR: <input>: not an entry of a map".into());
            };
            let (key, value) = (self.part(&entry.key)?, self.part(&entry.value)?);
            cost = sum([cost, key.cost, value.cost]);
            let kind = match value.kind {
                Type::Optional(held) if entry.optional => *held,
                kind => kind,
            };
            if !keys.agrees(&key.kind) {
                return Err(format!("ERROR: <input>: expected type '{keys}' but found '{}'", key.kind));
            }
            if !values.agrees(&kind) {
                return Err(format!("ERROR: <input>: expected type '{values}' but found '{kind}'"));
            }
            (keys, values) = (keys.join(key.kind), values.join(kind));
        }
        known(Type::Map(Box::new(keys), Box::new(values), map.entries.len() as u64), cost)
    }

    fn comprehension(&mut self, loops: &'s ComprehensionExpr) -> Checked<'s> {
        let range = self.part(&loops.iter_range)?;
        let (first, _, most) = elements(&range.kind)?;
        let start = self.part(&loops.accu_init)?;
        let accumulator = match start.kind {
            Type::List(item, _) => Type::List(item, most),
            kind => kind,
        };
        let accu = loops.accu_var.as_str();
        let condition = self.with(&[(accu, accumulator.clone())], &loops.loop_cond)?;
        let scope = [(accu, accumulator.clone()), (loops.iter_var.as_str(), first)];
        let step = self.with(&scope, &loops.loop_step)?;
        let built = match step.kind {
            Type::List(item, _) => Type::List(item, most),
            kind => kind,
        };
        let result = self.with(&[(accu, built)], &loops.result)?;
        let each = sum([condition.cost, step.cost]);
        known(result.kind, sum([range.cost, start.cost, most.saturating_mul(each), result.cost]))
    }

    fn call(&mut self, call: &'s CallExpr) -> Checked<'s> {
        let name = call.func_name.as_str();
        match (name, &call.target, call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, [a, b]) => {
                let (a, b) = (self.part(a)?, self.part(b)?);
                if let Some(other) = [&a.kind, &b.kind].into_iter().find(|kind| !kind.agrees(&Type::Bool)) {
                    return Err(format!("ERROR: <input>: expected type 'bool' but found '{other}'"));
                }
                known(Type::Bool, sum([a.cost, b.cost]))
            }
            (operators::CONDITIONAL, None, [condition, then, otherwise]) => {
                let (condition, a, b) = (self.part(condition)?, self.part(then)?, self.part(otherwise)?);
                if !condition.kind.agrees(&Type::Bool) || !a.kind.agrees(&b.kind) {
                    return Err(no_overload(name, false, &[condition.kind, a.kind, b.kind]));
                }
                known(a.kind.join(b.kind), sum([condition.cost, a.cost.max(b.cost), 1]))
            }
            (operators::OPT_SELECT, None, [operand, field]) => {
                let operand = self.part(operand)?;
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    return Err("ERROR: <input>: unsupported optional field selection".into());
                };
                let held = match operand.kind {
                    Type::Optional(held) => *held,
                    kind => kind,
                };
                let kind = held.field(field.inner());
                let kind =
                    kind.ok_or_else(|| format!("ERROR: <input>: undefined field '{}'", field.inner()))?;
                known(Type::Optional(Box::new(kind)), operand.cost.saturating_add(1))
            }
            (operators::INDEX | operators::OPT_INDEX, None, [operand, key]) => {
                let (operand, key) = (self.part(operand)?, self.part(key)?);
                self.index(name, operand, key)
            }
            (_, Some(target), args) => {
                if let Some(checked) = self.two_step(name, target, args) {
                    return checked;
                }
                match &target.expr {
                    Expr::Ident(package) if is_package(package) && !self.is_variable(package) => {
                        let arguments = self.parts(args)?;
                        let in_package = |style| matches!(style, Style::Packaged(known) if known == package);
                        let whole = format!("{package}.{name}");
                        function(name, &whole, in_package, false, arguments)
                    }
                    _ => {
                        let mut parameters = vec![self.part(target)?];
                        match args {
                            [IdedExpr { expr: Expr::List(list), .. }] if name == "format" => {
                                parameters.push(self.list(list, Items::Any)?);
                            }
                            args => parameters.extend(self.parts(args)?),
                        }
                        function(name, name, |style| style == Style::Member, true, parameters)
                    }
                }
            }
            (_, None, args) => {
                literal_argument(name, args)?;
                let parameters = self.parts(args)?;
                match operator(name, &parameters) {
                    Some(kind) => {
                        let kinds: Vec<Type<'s>> =
                            parameters.iter().map(|parameter| parameter.kind.clone()).collect();
                        let kind = kind.ok_or_else(|| no_overload(name, false, &kinds))?;
                        let extents: Vec<u64> = kinds.iter().map(Type::most).collect();
                        let of_list = matches!(kinds.as_slice(), [_, Type::List(..) | Type::Dyn]);
                        let own = match kinds.as_slice() {
                            // Lists are put together without a look at what is in them.
                            [Type::List(..), Type::List(..)] if name == operators::ADD => 1,
                            _ => functions::cost(name, &extents, of_list),
                        };
                        known(kind, sum(parameters.iter().map(|parameter| parameter.cost).chain([own])))
                    }
                    None => function(name, name, |style| style == Style::Plain, false, parameters),
                }
            }
        }
    }

    fn parts(&mut self, expressions: &'s [IdedExpr]) -> Result<Vec<Known<'s>>, String> {
        expressions.iter().map(|expression| self.part(expression)).collect()
    }

    fn index(&mut self, name: &str, operand: Known<'s>, key: Known<'s>) -> Checked<'s> {
        let cost = sum([operand.cost, key.cost, 1]);
        let (held, optional) = match &operand.kind {
            Type::Optional(held) => (held.as_ref(), true),
            kind => (kind, name == operators::OPT_INDEX),
        };
        let kind = match held {
            Type::Dyn => Some(Type::Dyn),
            Type::List(item, _) if key.kind.is_number() => Some(item.as_ref().clone()),
            Type::Map(keys, value, _) if keys.agrees(&key.kind) => Some(value.as_ref().clone()),
            _ => None,
        };
        match kind {
            Some(kind) if optional => known(Type::Optional(Box::new(kind)), cost),
            Some(kind) => known(kind, cost),
            None => Err(no_overload(name, false, &[operand.kind, key.kind])),
        }
    }

    /// Calls whose arguments are expressions for each element.
    fn two_step(&mut self, name: &str, target: &'s IdedExpr, args: &'s [IdedExpr]) -> Option<Checked<'s>> {
        let variable = |at: usize| match &args.get(at)?.expr {
            Expr::Ident(name) => Some(name.as_str()),
            _ => None,
        };
        Some(match (name, args) {
            ("optMap" | "optFlatMap", [_, body]) => self.mapped(name, target, variable(0)?, body),
            ("sortBy", [_, body]) => self.sorted_by(target, variable(0)?, body),
            ("all" | "exists" | "existsOne" | "exists_one", [_, _, body]) => {
                self.over_two(name, target, (variable(0)?, variable(1)?), None, body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [_, _, body]) => {
                self.over_two(name, target, (variable(0)?, variable(1)?), None, body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [_, _, filter, body]) => {
                self.over_two(name, target, (variable(0)?, variable(1)?), Some(filter), body)
            }
            _ => return None,
        })
    }

    fn mapped(
        &mut self,
        name: &str,
        target: &'s IdedExpr,
        variable: &'s str,
        body: &'s IdedExpr,
    ) -> Checked<'s> {
        let target = self.part(target)?;
        let held = match target.kind {
            Type::Optional(held) => *held,
            Type::Dyn => Type::Dyn,
            other => return Err(no_overload(name, true, &[other])),
        };
        let body = self.with(&[(variable, held)], body)?;
        let cost = sum([target.cost, body.cost, 2]);
        match (name, body.kind) {
            ("optFlatMap", kind @ (Type::Optional(_) | Type::Dyn)) => known(kind, cost),
            ("optFlatMap", kind) => Err(no_overload(name, true, &[kind])),
            (_, kind) => known(Type::Optional(Box::new(kind)), cost),
        }
    }

    fn sorted_by(&mut self, target: &'s IdedExpr, variable: &'s str, body: &'s IdedExpr) -> Checked<'s> {
        let target = self.part(target)?;
        let (item, most) = match &target.kind {
            Type::List(item, most) => (item.as_ref().clone(), *most),
            other => return Err(no_overload("sortBy", true, std::slice::from_ref(other))),
        };
        let body = self.with(&[(variable, item)], body)?;
        let own = functions::cost("sortBy", &[most], true);
        known(target.kind, sum([target.cost, most.saturating_mul(body.cost), own]))
    }

    fn over_two(
        &mut self,
        name: &str,
        target: &'s IdedExpr,
        (first, second): (&'s str, &'s str),
        filter: Option<&'s IdedExpr>,
        body: &'s IdedExpr,
    ) -> Checked<'s> {
        let target = self.part(target)?;
        let (seen, found, most) = elements(&target.kind)?;
        let (key, value) = match &target.kind {
            Type::List(..) => (Type::Int, seen),
            _ => (seen, found),
        };
        let scope = [(first, key.clone()), (second, value)];
        let filter = match filter {
            Some(filter) => self.with(&scope, filter)?,
            None => Known { kind: Type::Bool, cost: 0 },
        };
        let body = self.with(&scope, body)?;
        let judges = !name.starts_with("transform");
        if !filter.kind.agrees(&Type::Bool) || (judges && !body.kind.agrees(&Type::Bool)) {
            return Err(no_overload(name, true, &[filter.kind, body.kind]));
        }
        let each = sum([filter.cost, body.cost, 3]);
        let cost = sum([target.cost, most.saturating_mul(each), 1]);
        match name {
            "transformList" => known(Type::List(Box::new(body.kind), most), cost),
            "transformMap" => known(Type::Map(Box::new(key), Box::new(body.kind), most), cost),
            "transformMapEntry" => match body.kind {
                Type::Map(key, value, _) => known(Type::Map(key, value, most), cost),
                Type::Dyn => known(Type::Dyn, cost),
                other => Err(no_overload(name, true, &[other])),
            },
            _ => known(Type::Bool, cost),
        }
    }
}

/// What a loop sees of a collection, what a key leads to, and how often it goes round.
fn elements<'s>(range: &Type<'s>) -> Result<(Type<'s>, Type<'s>, u64), String> {
    match range {
        Type::List(item, most) => Ok((item.as_ref().clone(), Type::Dyn, *most)),
        Type::Map(key, value, most) => Ok((key.as_ref().clone(), value.as_ref().clone(), *most)),
        Type::Dyn => Ok((Type::Dyn, Type::Dyn, range.most())),
        other => Err(format!(
            "ERROR: <input>: expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
        )),
    }
}

fn literal_type<'s>(literal: &LiteralValue) -> Type<'s> {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(bytes) => Type::Bytes(bytes.inner().len() as u64),
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(text) => Type::Text(text.inner().len() as u64),
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// Times and durations that are written out must be some.
fn literal_argument(name: &str, args: &[IdedExpr]) -> Result<(), String> {
    let [IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }] = args else { return Ok(()) };
    let good = match name {
        "duration" => library::duration(text.inner()).is_some(),
        "timestamp" => library::timestamp(text.inner()).is_some(),
        _ => true,
    };
    if good { Ok(()) } else { Err(format!("ERROR: <input>: invalid {name} argument")) }
}

/// What a call of a function gives, if there is a way to call it like this.
fn function<'s>(
    name: &str,
    whole: &str,
    style: impl Fn(Style) -> bool,
    member: bool,
    parameters: Vec<Known<'s>>,
) -> Checked<'s> {
    let kinds: Vec<Type<'s>> = parameters.iter().map(|parameter| parameter.kind.clone()).collect();
    let called = |signature: &&Signature| signature.name == name && style(signature.style);
    let fits = |signature: &&Signature| {
        signature.takes.len() == kinds.len()
            && signature.takes.iter().zip(&kinds).all(|(takes, kind)| takes.fits(kind))
    };
    let mut signatures = SIGNATURES.iter().filter(called);
    let Some(signature) = signatures.find(fits) else {
        let exists = SIGNATURES.iter().any(|signature| called(&signature));
        return Err(if exists { no_overload(whole, member, &kinds) } else { undeclared(whole) });
    };
    // Of several ways to call it that fit a value of unknown type, none is known to be the one.
    let several = signatures.any(|other| fits(&other));
    let uncertain = several && matches!(kinds.first(), Some(Type::Dyn));
    let kind =
        if uncertain && member { same_for_all(name, signature, &kinds) } else { signature.gives.of(&kinds) };
    let extents: Vec<u64> = kinds.iter().map(Type::most).collect();
    let of_list = matches!(kinds.first(), Some(Type::List(..)));
    let mut own = functions::cost(name, &extents, of_list);
    if let (
        Some(Type::List(item, _)),
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" | "join",
    ) = (kinds.first(), name)
    {
        own = own.saturating_mul(1 + item.most().div_ceil(10));
    }
    known(kind, sum(parameters.iter().map(|parameter| parameter.cost).chain([own])))
}

/// The type that every way to call a function gives, or none in particular.
fn same_for_all<'s>(name: &str, first: &Signature, kinds: &[Type<'s>]) -> Type<'s> {
    let given = first.gives.of(kinds);
    let others = SIGNATURES.iter().filter(|signature| signature.name == name);
    if others
        .into_iter()
        .all(|other| std::mem::discriminant(&other.gives) == std::mem::discriminant(&first.gives))
    {
        given
    } else {
        Type::Dyn
    }
}

/// What an operator gives; nothing inside, if it cannot be applied to these.
fn operator<'s>(name: &str, parameters: &[Known<'s>]) -> Option<Option<Type<'s>>> {
    use operators as op;
    let kinds: Vec<&Type<'s>> = parameters.iter().map(|parameter| &parameter.kind).collect();
    let when = |holds: bool, kind: Type<'s>| holds.then_some(kind);
    Some(match (name, kinds.as_slice()) {
        (op::NOT_STRICTLY_FALSE, [_]) => Some(Type::Bool),
        (op::LOGICAL_NOT, [value]) => when(value.agrees(&Type::Bool), Type::Bool),
        (op::NEGATE, [value]) => {
            when(matches!(value, Type::Dyn | Type::Int | Type::Double), (*value).clone())
        }
        (op::EQUALS | op::NOT_EQUALS, [a, b]) => when(a.agrees(b), Type::Bool),
        (op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS, [a, b]) => {
            let ordered = |kind: &Type<'_>| {
                matches!(
                    kind,
                    Type::Dyn
                        | Type::Bool
                        | Type::Text(_)
                        | Type::Bytes(_)
                        | Type::Timestamp
                        | Type::Duration
                )
            };
            let numbers = a.is_number() && b.is_number();
            when(numbers || (ordered(a) && ordered(b) && a.agrees(b)), Type::Bool)
        }
        (op::IN, [item, collection]) => match collection {
            Type::Dyn => Some(Type::Bool),
            Type::List(other, _) | Type::Map(other, _, _) => when(item.agrees(other), Type::Bool),
            _ => None,
        },
        (op::ADD, [a, b]) => match (a, b) {
            (Type::Text(a), Type::Text(b)) => Some(Type::Text(a.saturating_add(*b))),
            (Type::Bytes(a), Type::Bytes(b)) => Some(Type::Bytes(a.saturating_add(*b))),
            (Type::List(x, m), Type::List(y, n)) if x.agrees(y) => {
                let item = x.as_ref().clone().join(y.as_ref().clone());
                Some(Type::List(Box::new(item), m.saturating_add(*n)))
            }
            (Type::Timestamp, Type::Duration) | (Type::Duration, Type::Timestamp) => Some(Type::Timestamp),
            (Type::Duration, Type::Duration) => Some(Type::Duration),
            _ => arithmetic(a, b),
        },
        (op::SUBSTRACT, [a, b]) => match (a, b) {
            (Type::Timestamp, Type::Timestamp) | (Type::Duration, Type::Duration) => Some(Type::Duration),
            (Type::Timestamp, Type::Duration) => Some(Type::Timestamp),
            _ => arithmetic(a, b),
        },
        (op::MULTIPLY | op::DIVIDE, [a, b]) => arithmetic(a, b),
        (op::MODULO, [a, b]) => arithmetic(a, b).filter(|kind| !matches!(kind, Type::Double)),
        _ => return None,
    })
}

fn arithmetic<'s>(a: &Type<'s>, b: &Type<'s>) -> Option<Type<'s>> {
    match (a, b) {
        (Type::Dyn, Type::Dyn) => Some(Type::Dyn),
        (Type::Dyn, other) | (other, Type::Dyn) => Some((*other).clone()),
        (Type::Int, Type::Int) => Some(Type::Int),
        (Type::Uint, Type::Uint) => Some(Type::Uint),
        (Type::Double, Type::Double) => Some(Type::Double),
        _ => None,
    }
}
