//! What can be said of an expression before there is a value: the type of every part, as far as the declarations tell,
//! and an estimate of what an evaluation costs. An expression that could never be evaluated is rejected here.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};

use crate::error::{CompileError, CompileErrorKind};
use crate::eval::{qualified_name, type_named};
use crate::functions::{self, Functions, SIGNATURES, Signature, Style, is_namespace};
use crate::library;
use crate::program::Program;
use crate::types::Type;

/// The type of an expression or of a part of one, and the estimate of its cost.
#[derive(Clone, Debug)]
pub(crate) struct Checked<'s> {
    pub(crate) kind: Type<'s>,
    pub(crate) cost: u64,
}

/// A mismatch, and the part of the expression that it is in.
struct Mismatch {
    kind: CompileErrorKind,
    message: String,
    part: Option<u64>,
}

impl Mismatch {
    /// Names the part, unless a part within it is named already.
    fn within(mut self, part: u64) -> Self {
        self.part.get_or_insert(part);
        self
    }
}

impl From<String> for Mismatch {
    fn from(message: String) -> Self {
        Self { kind: CompileErrorKind::Type, message, part: None }
    }
}

impl From<&str> for Mismatch {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

type CheckResult<'s> = Result<Checked<'s>, Mismatch>;

/// Whether the items of a list literal, and the values of a map literal, must be of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Literals {
    /// Of one type, as Kubernetes has it.
    Uniform,
    /// Of any types, as the language has it.
    Mixed,
}

/// What the checker knows beside the expression.
pub(crate) struct Declarations<'s> {
    pub(crate) variables: Vec<(&'s str, Type<'s>)>,
    pub(crate) functions: &'s Functions,
    pub(crate) literals: Literals,
    /// How many elements a value is taken to have that a function returns and of which nothing is known.
    pub(crate) dynamic_size: u64,
}

/// Checks an expression.
pub(crate) fn check<'s>(
    program: &'s Program,
    declarations: Declarations<'s>,
) -> Result<Checked<'s>, CompileError> {
    Checker(declarations).part(&program.expression).map_err(|mismatch| {
        let position = mismatch.part.and_then(|part| program.positions()?.of(&program.text, part));
        CompileError::new(mismatch.kind, mismatch.message).at(&program.text, position)
    })
}

struct Checker<'s>(Declarations<'s>);

fn checked<'s>(kind: Type<'s>, cost: u64) -> CheckResult<'s> {
    Ok(Checked { kind, cost })
}

fn undeclared(name: &str) -> Mismatch {
    Mismatch {
        kind: CompileErrorKind::Undeclared { name: name.to_owned() },
        message: format!("undeclared reference to '{name}' (in container '')"),
        part: None,
    }
}

fn no_overload(name: &str, member: bool, parameters: &[Type<'_>]) -> Mismatch {
    let shown: Vec<String> = parameters.iter().map(ToString::to_string).collect();
    let applied = match shown.split_first() {
        Some((first, rest)) if member => format!("{first}.({})", rest.join(", ")),
        _ => format!("({})", shown.join(", ")),
    };
    format!("found no matching overload for '{name}' applied to '{applied}'").into()
}

fn unexpected(expected: &Type<'_>, found: &Type<'_>) -> Mismatch {
    format!("expected type '{expected}' but found '{found}'").into()
}

fn sum(costs: impl IntoIterator<Item = u64>) -> u64 {
    costs.into_iter().fold(0, u64::saturating_add)
}

impl<'s> Checker<'s> {
    fn part(&mut self, expression: &'s IdedExpr) -> CheckResult<'s> {
        self.unlocated(expression).map_err(|mismatch| mismatch.within(expression.id))
    }

    fn unlocated(&mut self, expression: &'s IdedExpr) -> CheckResult<'s> {
        match &expression.expr {
            Expr::Literal(literal) => checked(literal_type(literal), 0),
            Expr::Ident(name) => checked(self.variable(name)?, 1),
            Expr::Select(select) => self.select(&select.operand, &select.field, select.test),
            Expr::List(list) => self.list(list, self.0.literals),
            Expr::Map(map) => self.map(map),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Err("not an expression".into()),
        }
    }

    fn variable(&self, name: &str) -> Result<Type<'s>, Mismatch> {
        let found = self.0.variables.iter().rev().find(|(declared, _)| *declared == name);
        match found {
            Some((_, kind)) => Ok(kind.clone()),
            None if type_named(name).is_some() => Ok(Type::Meta),
            None => Err(undeclared(name)),
        }
    }

    fn is_variable(&self, name: &str) -> bool {
        self.0.variables.iter().any(|(declared, _)| *declared == name)
    }

    fn with(&mut self, variables: &[(&'s str, Type<'s>)], body: &'s IdedExpr) -> CheckResult<'s> {
        let before = self.0.variables.len();
        self.0.variables.extend(variables.iter().cloned());
        let checked = self.part(body);
        self.0.variables.truncate(before);
        checked
    }

    fn select(&mut self, operand: &'s IdedExpr, field: &str, test: bool) -> CheckResult<'s> {
        if let Some(name) = qualified_name(operand, field)
            && !self.is_variable(name.split('.').next().unwrap_or_default())
            && type_named(&name).is_some()
        {
            return checked(Type::Meta, 1);
        }
        let operand = self.part(operand)?;
        let kind = match operand.kind.field(field) {
            Some(kind) => kind,
            None => {
                let message = match operand.kind {
                    Type::Object(..) | Type::Metadata | Type::Optional(_) => {
                        format!("undefined field '{field}'")
                    }
                    other => format!("type '{other}' does not support field selection"),
                };
                return Err(message.into());
            }
        };
        match test {
            true => checked(Type::Bool, operand.cost),
            false => checked(kind, operand.cost.saturating_add(1)),
        }
    }

    fn list(&mut self, list: &'s ListExpr, literals: Literals) -> CheckResult<'s> {
        let mut item = None;
        let mut cost = 10;
        for (index, element) in list.elements.iter().enumerate() {
            let element = self.part(element)?;
            cost = sum([cost, element.cost]);
            let kind = match element.kind {
                Type::Optional(value) if list.optional_indices.contains(&index) => *value,
                kind => kind,
            };
            item = Some(join_literals(item, kind, literals)?);
        }
        let item = item.unwrap_or(Type::Dyn(self.0.dynamic_size));
        checked(Type::List(Box::new(item), list.elements.len() as u64), cost)
    }

    fn map(&mut self, map: &'s MapExpr) -> CheckResult<'s> {
        let (mut keys, mut values) = (None, None);
        let mut cost = 30;
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err("not an entry of a map".into());
            };
            let (key, value) = (self.part(&entry.key)?, self.part(&entry.value)?);
            cost = sum([cost, key.cost, value.cost]);
            let kind = match value.kind {
                Type::Optional(value) if entry.optional => *value,
                kind => kind,
            };
            keys = Some(join_literals(keys, key.kind, self.0.literals)?);
            values = Some(join_literals(values, kind, self.0.literals)?);
        }
        let unknown = || Box::new(Type::Dyn(self.0.dynamic_size));
        let (keys, values) = (keys.map_or_else(unknown, Box::new), values.map_or_else(unknown, Box::new));
        checked(Type::Map(keys, values, map.entries.len() as u64), cost)
    }

    fn comprehension(&mut self, loops: &'s ComprehensionExpr) -> CheckResult<'s> {
        let range = self.part(&loops.iter_range)?;
        let Range { element, max_rounds, .. } = Range::of(&range.kind)?;
        // The list that a loop builds grows by at most one item in each round.
        let bounded = |kind| match kind {
            Type::List(item, _) => Type::List(item, max_rounds),
            kind => kind,
        };
        let initial = self.part(&loops.accu_init)?;
        let (name, accumulator) = (loops.accu_var.as_str(), bounded(initial.kind));
        let condition = self.with(&[(name, accumulator.clone())], &loops.loop_cond)?;
        let step = self.with(&[(name, accumulator), (loops.iter_var.as_str(), element)], &loops.loop_step)?;
        let result = self.with(&[(name, bounded(step.kind))], &loops.result)?;
        let round = sum([condition.cost, step.cost]);
        checked(result.kind, sum([range.cost, initial.cost, max_rounds.saturating_mul(round), result.cost]))
    }

    fn call(&mut self, call: &'s CallExpr) -> CheckResult<'s> {
        let name = call.func_name.as_str();
        match (name, &call.target, call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, [a, b]) => {
                let (a, b) = (self.part(a)?, self.part(b)?);
                let is_bool = |kind: &&Type<'s>| kind.is_compatible_with(&Type::Bool);
                if let Some(other) = [&a.kind, &b.kind].into_iter().find(|kind| !is_bool(kind)) {
                    return Err(unexpected(&Type::Bool, other));
                }
                checked(Type::Bool, sum([a.cost, b.cost]))
            }
            (operators::CONDITIONAL, None, [condition, then, otherwise]) => {
                let (condition, a, b) = (self.part(condition)?, self.part(then)?, self.part(otherwise)?);
                if !condition.kind.is_compatible_with(&Type::Bool) || !a.kind.is_compatible_with(&b.kind) {
                    return Err(no_overload(name, false, &[condition.kind, a.kind, b.kind]));
                }
                checked(a.kind.join(b.kind), sum([condition.cost, a.cost.max(b.cost), 1]))
            }
            (operators::OPT_SELECT, None, [operand, field]) => {
                let operand = self.part(operand)?;
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    return Err("unsupported optional field selection".into());
                };
                let value = match operand.kind {
                    Type::Optional(value) => *value,
                    kind => kind,
                };
                let kind = value.field(field.inner());
                let kind = kind.ok_or_else(|| format!("undefined field '{}'", field.inner()))?;
                checked(Type::Optional(Box::new(kind)), operand.cost.saturating_add(1))
            }
            (operators::INDEX | operators::OPT_INDEX, None, [operand, key]) => {
                let (operand, key) = (self.part(operand)?, self.part(key)?);
                self.index(name, operand, key)
            }
            (_, Some(target), args) => {
                if let Some(checked) = self.macro_call(name, target, args) {
                    return checked;
                }
                match &target.expr {
                    Expr::Ident(namespace) if is_namespace(namespace) && !self.is_variable(namespace) => {
                        let arguments = self.parts(args)?;
                        let in_namespace = |style| matches!(style, Style::Namespaced(it) if it == namespace);
                        let full_name = format!("{namespace}.{name}");
                        self.function(name, &full_name, in_namespace, false, arguments)
                    }
                    _ => {
                        let mut parameters = vec![self.part(target)?];
                        match args {
                            [IdedExpr { expr: Expr::List(list), .. }] if name == "format" => {
                                parameters.push(self.list(list, Literals::Mixed)?);
                            }
                            args => parameters.extend(self.parts(args)?),
                        }
                        self.function(name, name, |style| style == Style::Member, true, parameters)
                    }
                }
            }
            (_, None, args) => {
                check_time_literal(name, args)?;
                let parameters = self.parts(args)?;
                match operator(name, &parameters) {
                    Some(kind) => {
                        let kinds: Vec<Type<'s>> =
                            parameters.iter().map(|parameter| parameter.kind.clone()).collect();
                        let kind = kind.ok_or_else(|| no_overload(name, false, &kinds))?;
                        let sizes: Vec<u64> = kinds.iter().map(Type::max_size).collect();
                        let of_list = matches!(kinds.as_slice(), [_, Type::List(..) | Type::Dyn(_)]);
                        let own = match kinds.as_slice() {
                            // Lists are concatenated without reading their items.
                            [Type::List(..), Type::List(..)] if name == operators::ADD => 1,
                            _ => functions::cost(name, &sizes, of_list),
                        };
                        checked(kind, sum(parameters.iter().map(|parameter| parameter.cost).chain([own])))
                    }
                    None => self.function(name, name, |style| style == Style::Plain, false, parameters),
                }
            }
        }
    }

    fn parts(&mut self, expressions: &'s [IdedExpr]) -> Result<Vec<Checked<'s>>, Mismatch> {
        expressions.iter().map(|expression| self.part(expression)).collect()
    }

    fn index(&mut self, name: &str, operand: Checked<'s>, key: Checked<'s>) -> CheckResult<'s> {
        let cost = sum([operand.cost, key.cost, 1]);
        let (collection, optional) = match &operand.kind {
            Type::Optional(value) => (value.as_ref(), true),
            kind => (kind, name == operators::OPT_INDEX),
        };
        let kind = match collection {
            Type::Dyn(size) => Some(Type::Dyn(*size)),
            Type::List(item, _) if key.kind.is_number() => Some(item.as_ref().clone()),
            Type::Map(keys, value, _) if keys.is_compatible_with(&key.kind) => Some(value.as_ref().clone()),
            _ => None,
        };
        match kind {
            Some(kind) if optional => checked(Type::Optional(Box::new(kind)), cost),
            Some(kind) => checked(kind, cost),
            None => Err(no_overload(name, false, &[operand.kind, key.kind])),
        }
    }

    /// Calls with an argument that is evaluated for every element: the macros that the parser does not expand.
    fn macro_call(
        &mut self,
        name: &str,
        target: &'s IdedExpr,
        args: &'s [IdedExpr],
    ) -> Option<CheckResult<'s>> {
        let variable = |index: usize| match &args.get(index)?.expr {
            Expr::Ident(name) => Some(name.as_str()),
            _ => None,
        };
        Some(match (name, args) {
            ("optMap" | "optFlatMap", [_, body]) => self.opt_map(name, target, variable(0)?, body),
            ("sortBy", [_, body]) => self.sort_by(target, variable(0)?, body),
            ("all" | "exists" | "existsOne" | "exists_one", [_, _, body]) => {
                self.two_variable_macro(name, target, (variable(0)?, variable(1)?), None, body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [_, _, body]) => {
                self.two_variable_macro(name, target, (variable(0)?, variable(1)?), None, body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [_, _, filter, body]) => {
                self.two_variable_macro(name, target, (variable(0)?, variable(1)?), Some(filter), body)
            }
            _ => return None,
        })
    }

    fn opt_map(
        &mut self,
        name: &str,
        target: &'s IdedExpr,
        variable: &'s str,
        body: &'s IdedExpr,
    ) -> CheckResult<'s> {
        let target = self.part(target)?;
        let value = match target.kind {
            Type::Optional(value) => *value,
            Type::Dyn(size) => Type::Dyn(size),
            other => return Err(no_overload(name, true, &[other])),
        };
        let body = self.with(&[(variable, value)], body)?;
        let cost = sum([target.cost, body.cost, 2]);
        match (name, body.kind) {
            ("optFlatMap", kind @ (Type::Optional(_) | Type::Dyn(_))) => checked(kind, cost),
            ("optFlatMap", kind) => Err(no_overload(name, true, &[kind])),
            (_, kind) => checked(Type::Optional(Box::new(kind)), cost),
        }
    }

    fn sort_by(&mut self, target: &'s IdedExpr, variable: &'s str, body: &'s IdedExpr) -> CheckResult<'s> {
        let target = self.part(target)?;
        let (item, max_items) = match &target.kind {
            Type::List(item, max_items) => (item.as_ref().clone(), *max_items),
            Type::Dyn(size) => (Type::Dyn(*size), *size),
            other => return Err(no_overload("sortBy", true, std::slice::from_ref(other))),
        };
        let body = self.with(&[(variable, item)], body)?;
        let own = functions::cost("sortBy", &[max_items], true);
        checked(target.kind, sum([target.cost, max_items.saturating_mul(body.cost), own]))
    }

    fn two_variable_macro(
        &mut self,
        name: &str,
        target: &'s IdedExpr,
        (first, second): (&'s str, &'s str),
        filter: Option<&'s IdedExpr>,
        body: &'s IdedExpr,
    ) -> CheckResult<'s> {
        let target = self.part(target)?;
        let Range { element, value, max_rounds } = Range::of(&target.kind)?;
        let (key, value) = match &target.kind {
            Type::List(..) => (Type::Int, element),
            _ => (element, value),
        };
        let scope = [(first, key.clone()), (second, value)];
        let filter = match filter {
            Some(filter) => self.with(&scope, filter)?,
            None => Checked { kind: Type::Bool, cost: 0 },
        };
        let body = self.with(&scope, body)?;
        let is_bool = |kind: &Type<'s>| kind.is_compatible_with(&Type::Bool);
        let body_fits = name.starts_with("transform") || is_bool(&body.kind);
        if !is_bool(&filter.kind) || !body_fits {
            return Err(no_overload(name, true, &[filter.kind, body.kind]));
        }
        let round = sum([filter.cost, body.cost, 3]);
        let cost = sum([target.cost, max_rounds.saturating_mul(round), 1]);
        match name {
            "transformList" => checked(Type::List(Box::new(body.kind), max_rounds), cost),
            "transformMap" => checked(Type::Map(Box::new(key), Box::new(body.kind), max_rounds), cost),
            "transformMapEntry" => match body.kind {
                Type::Map(key, value, _) => checked(Type::Map(key, value, max_rounds), cost),
                Type::Dyn(size) => checked(Type::Dyn(size), cost),
                other => Err(no_overload(name, true, &[other])),
            },
            _ => checked(Type::Bool, cost),
        }
    }

    /// The type of a call, if a function of this name takes these parameters.
    fn function(
        &self,
        name: &str,
        full_name: &str,
        has_style: impl Fn(Style) -> bool,
        member: bool,
        parameters: Vec<Checked<'s>>,
    ) -> CheckResult<'s> {
        let dynamic_size = self.0.dynamic_size;
        let kinds: Vec<Type<'s>> = parameters.iter().map(|parameter| parameter.kind.clone()).collect();
        let arguments = sum(parameters.iter().map(|parameter| parameter.cost));
        if has_style(Style::Plain)
            && let Some(count) = self.0.functions.custom_parameters(name)
        {
            return match count == kinds.len() {
                true => checked(Type::Dyn(dynamic_size), arguments.saturating_add(1)),
                false => Err(no_overload(full_name, member, &kinds)),
            };
        }
        let called: Vec<&Signature> = SIGNATURES
            .iter()
            .chain(self.0.functions.json_signatures())
            .filter(|signature| signature.name == name && has_style(signature.style))
            .collect();
        let accepts = |signature: &&&Signature| {
            signature.parameters.len() == kinds.len()
                && signature.parameters.iter().zip(&kinds).all(|(parameter, kind)| parameter.accepts(kind))
        };
        let mut accepting = called.iter().filter(accepts);
        let Some(signature) = accepting.next() else {
            return Err(match called.is_empty() {
                true => undeclared(full_name),
                false => no_overload(full_name, member, &kinds),
            });
        };
        // Several overloads may accept a value of unknown type: the type is known if they all return the same.
        let is_ambiguous =
            member && matches!(kinds.first(), Some(Type::Dyn(_))) && accepting.next().is_some();
        let kind = match is_ambiguous && !all_return_alike(name, signature) {
            true => Type::Dyn(dynamic_size),
            false => signature.returns.resolve(&kinds, dynamic_size),
        };
        let sizes: Vec<u64> = kinds.iter().map(Type::max_size).collect();
        let of_list = matches!(kinds.first(), Some(Type::List(..)));
        let mut own = functions::cost(name, &sizes, of_list);
        if let (
            Some(Type::List(item, _)),
            "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" | "join",
        ) = (kinds.first(), name)
        {
            own = own.saturating_mul(1 + item.max_size().div_ceil(10));
        }
        checked(kind, arguments.saturating_add(own))
    }
}

/// What a loop goes through.
struct Range<'s> {
    /// What a loop with one variable sees: an item of a list, or a key of a map.
    element: Type<'s>,
    /// The value under a key of a map.
    value: Type<'s>,
    max_rounds: u64,
}

impl<'s> Range<'s> {
    fn of(range: &Type<'s>) -> Result<Self, Mismatch> {
        let max_rounds = range.max_size();
        match range {
            Type::List(item, _) => {
                let item = item.as_ref().clone();
                Ok(Self { element: item.clone(), value: item, max_rounds })
            }
            Type::Map(key, value, _) => {
                Ok(Self { element: key.as_ref().clone(), value: value.as_ref().clone(), max_rounds })
            }
            Type::Dyn(size) => Ok(Self { element: Type::Dyn(*size), value: Type::Dyn(*size), max_rounds }),
            other => Err(format!(
                "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
            )
            .into()),
        }
    }
}

/// The type of the items of a literal, with one more item.
fn join_literals<'s>(
    items: Option<Type<'s>>,
    next: Type<'s>,
    literals: Literals,
) -> Result<Type<'s>, Mismatch> {
    let Some(items) = items else { return Ok(next) };
    let is_dynamic = matches!(items, Type::Dyn(_)) || matches!(next, Type::Dyn(_));
    match (items.is_compatible_with(&next), literals) {
        (true, Literals::Uniform) => Ok(items.join(next)),
        (true, Literals::Mixed) if !is_dynamic => Ok(items.join(next)),
        (_, Literals::Mixed) => Ok(Type::Dyn(items.max_size().max(next.max_size()))),
        (false, Literals::Uniform) => Err(unexpected(&items, &next)),
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

/// Literals of timestamps and durations must be valid.
fn check_time_literal(name: &str, args: &[IdedExpr]) -> Result<(), Mismatch> {
    let [IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }] = args else { return Ok(()) };
    let is_valid = match name {
        "duration" => library::duration(text.inner()).is_some(),
        "timestamp" => library::timestamp(text.inner()).is_some(),
        _ => true,
    };
    if is_valid { Ok(()) } else { Err(format!("invalid {name} argument").into()) }
}

/// Whether all overloads of a function return the same.
fn all_return_alike(name: &str, first: &Signature) -> bool {
    let mut overloads = SIGNATURES.iter().filter(|signature| signature.name == name);
    overloads.all(|other| std::mem::discriminant(&other.returns) == std::mem::discriminant(&first.returns))
}

/// The type that an operator returns: `Some(None)` if it does not take these types, `None` if it is not an operator.
fn operator<'s>(name: &str, parameters: &[Checked<'s>]) -> Option<Option<Type<'s>>> {
    use operators as op;
    let kinds: Vec<&Type<'s>> = parameters.iter().map(|parameter| &parameter.kind).collect();
    let when = |holds: bool, kind: Type<'s>| holds.then_some(kind);
    Some(match (name, kinds.as_slice()) {
        (op::NOT_STRICTLY_FALSE, [_]) => Some(Type::Bool),
        (op::LOGICAL_NOT, [value]) => when(value.is_compatible_with(&Type::Bool), Type::Bool),
        (op::NEGATE, [value]) => {
            when(matches!(value, Type::Dyn(_) | Type::Int | Type::Double), (*value).clone())
        }
        (op::EQUALS | op::NOT_EQUALS, [a, b]) => when(a.is_compatible_with(b), Type::Bool),
        (op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS, [a, b]) => {
            let ordered = |kind: &Type<'_>| {
                matches!(
                    kind,
                    Type::Dyn(_)
                        | Type::Bool
                        | Type::Text(_)
                        | Type::Bytes(_)
                        | Type::Timestamp
                        | Type::Duration
                )
            };
            let numbers = a.is_number() && b.is_number();
            when(numbers || (ordered(a) && ordered(b) && a.is_compatible_with(b)), Type::Bool)
        }
        (op::IN, [item, collection]) => match collection {
            Type::Dyn(_) => Some(Type::Bool),
            Type::List(other, _) | Type::Map(other, _, _) => when(item.is_compatible_with(other), Type::Bool),
            _ => None,
        },
        (op::ADD, [a, b]) => match (a, b) {
            (Type::Text(a), Type::Text(b) | Type::Dyn(b)) | (Type::Dyn(a), Type::Text(b)) => {
                Some(Type::Text(a.saturating_add(*b)))
            }
            (Type::Dyn(a), Type::Dyn(b)) => Some(Type::Dyn(a.saturating_add(*b))),
            (Type::List(item, a), Type::Dyn(b)) | (Type::Dyn(b), Type::List(item, a)) => {
                Some(Type::List(item.clone(), a.saturating_add(*b)))
            }
            (Type::Bytes(a), Type::Bytes(b)) => Some(Type::Bytes(a.saturating_add(*b))),
            (Type::List(x, m), Type::List(y, n)) if x.is_compatible_with(y) => {
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
            // What is subtracted from a timestamp decides whether a timestamp or a duration is left.
            (Type::Timestamp, Type::Dyn(_)) | (Type::Dyn(_), Type::Timestamp | Type::Duration) => {
                Some(Type::Dyn(1))
            }
            _ => arithmetic(a, b),
        },
        (op::MULTIPLY | op::DIVIDE, [a, b]) => arithmetic(a, b),
        (op::MODULO, [a, b]) => arithmetic(a, b).filter(|kind| !matches!(kind, Type::Double)),
        _ => return None,
    })
}

fn arithmetic<'s>(a: &Type<'s>, b: &Type<'s>) -> Option<Type<'s>> {
    match (a, b) {
        (Type::Dyn(a), Type::Dyn(b)) => Some(Type::Dyn(*a.max(b))),
        (Type::Dyn(_), other) | (other, Type::Dyn(_)) => Some(other.clone()),
        (Type::Int, Type::Int) => Some(Type::Int),
        (Type::Uint, Type::Uint) => Some(Type::Uint),
        (Type::Double, Type::Double) => Some(Type::Double),
        _ => None,
    }
}
