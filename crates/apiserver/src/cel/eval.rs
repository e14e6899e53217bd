//! Evaluation of expressions, with a count of the work done. The count follows Kubernetes' model of cost closely enough
//! that its limits can be used, and bounds the time of an evaluation whatever the expression and the object.

use std::sync::Arc;

use kube_cel::cel::Value as Foreign;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};

use super::failure::Failure;
use super::functions::{self, is_package};
use super::library::{self, Target};
use super::operators::{index, operator, optional, optional_index, overflow};
use super::program::Program;
use super::value::{Key, Value, Work, equal};

pub(super) type Outcome<'a> = Result<Value<'a>, Failure>;

/// What making a list or a map costs.
const LIST: u64 = 10;
const MAP: u64 = 30;
/// How much dearer it is to copy a value for the library than to look at it.
const COPY: u64 = 4;

/// One evaluation.
pub(super) struct Evaluation<'a> {
    pub(super) program: &'a Program,
    /// Innermost last. A value can be a failure that a later one makes up for.
    variables: Vec<(&'a str, Outcome<'a>)>,
    pub(super) spent: u64,
    limit: u64,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        program: &'a Program,
        variables: impl IntoIterator<Item = (&'a str, Value<'a>)>,
        limit: u64,
    ) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name, Ok(value))).collect();
        Self { program, variables, spent: 0, limit }
    }

    /// The value of the whole expression.
    pub(super) fn run(&mut self) -> Outcome<'a> {
        let program = self.program;
        self.value(&program.expression)
    }

    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(Failure::TooExpensive) } else { Ok(()) }
    }

    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.spent)
    }

    pub(super) fn value(&mut self, expression: &'a IdedExpr) -> Outcome<'a> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => {
                self.charge(1)?;
                self.variable(name)
            }
            Expr::Select(select) => self.select(&select.operand, &select.field, select.test),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Err(Failure::NoSuchOverload),
        }
    }

    fn variable(&self, name: &str) -> Outcome<'a> {
        let found = self.variables.iter().rev().find(|(known, _)| *known == name);
        match found {
            Some((_, outcome)) => outcome.clone(),
            None => type_named(name).ok_or_else(|| Failure::Other(format!("no such attribute(s): {name}"))),
        }
    }

    fn is_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|(known, _)| *known == name)
    }

    /// Evaluates with a variable in scope.
    pub(super) fn with(&mut self, name: &'a str, value: Value<'a>, body: &'a IdedExpr) -> Outcome<'a> {
        self.scoped(name, value, |evaluation| evaluation.value(body))
    }

    /// Does something with one more variable in scope.
    pub(super) fn scoped(
        &mut self,
        name: &'a str,
        value: Value<'a>,
        body: impl FnOnce(&mut Self) -> Outcome<'a>,
    ) -> Outcome<'a> {
        self.variables.push((name, Ok(value)));
        let outcome = body(self);
        self.variables.pop();
        outcome
    }

    fn select(&mut self, operand: &'a IdedExpr, field: &'a str, test: bool) -> Outcome<'a> {
        if let Some(named) = self.qualified_type(operand, field) {
            return Ok(named);
        }
        let value = self.value(operand)?;
        if !test {
            self.charge(1)?;
        }
        match &value {
            Value::Optional(held) => {
                let found = held.as_ref().and_then(|held| held.field(field));
                Ok(if test { Value::Bool(found.is_some()) } else { optional(found) })
            }
            Value::Object(..) | Value::Metadata(_) | Value::Entries(..) | Value::Map(_) => {
                let found = value.field(field);
                if test {
                    return Ok(Value::Bool(found.is_some()));
                }
                found.ok_or_else(|| Failure::NoSuchKey(field.to_owned()))
            }
            _ => Err(Failure::NoSuchOverload),
        }
    }

    /// `google.protobuf.Timestamp` and its like.
    fn qualified_type(&self, operand: &IdedExpr, field: &str) -> Option<Value<'a>> {
        let name = qualified(operand, field)?;
        let root = name.split('.').next().unwrap_or_default();
        if self.is_variable(root) { None } else { type_named(&name) }
    }

    fn list(&mut self, list: &'a ListExpr) -> Outcome<'a> {
        self.charge(LIST)?;
        let mut items = Vec::with_capacity(list.elements.len());
        for (at, element) in list.elements.iter().enumerate() {
            let value = self.value(element)?;
            match value {
                Value::Optional(held) if list.optional_indices.contains(&at) => {
                    items.extend(held.map(|held| held.as_ref().clone()));
                }
                value => items.push(value),
            }
        }
        Ok(Value::list(items))
    }

    fn map(&mut self, map: &'a MapExpr) -> Outcome<'a> {
        self.charge(MAP)?;
        let mut made = std::collections::BTreeMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(Failure::NoSuchOverload) };
            let key = self.value(&entry.key)?;
            let key = Key::of(&key).ok_or_else(|| Failure::Other("unsupported key type".into()))?;
            match self.value(&entry.value)? {
                Value::Optional(held) if entry.optional => {
                    if let Some(held) = held {
                        made.insert(key, held.as_ref().clone());
                    }
                }
                value => {
                    if made.insert(key, value).is_some() {
                        return Err(Failure::Other("Failed with repeated key".into()));
                    }
                }
            }
        }
        Ok(Value::Map(Arc::new(made)))
    }

    fn comprehension(&mut self, loops: &'a ComprehensionExpr) -> Outcome<'a> {
        let range = self.value(&loops.iter_range)?;
        let start = self.value(&loops.accu_init);
        let mut elements = Elements::of(&range).ok_or(Failure::NoSuchOverload)?;
        let accumulator = self.variables.len();
        self.variables.push((&loops.accu_var, start));
        while let Some((_, item)) = elements.next() {
            if let Err(failure) = self.charge(1) {
                self.variables.truncate(accumulator);
                return Err(failure);
            }
            // A condition that fails lets the loop go on: a later element may decide.
            if matches!(self.value(&loops.loop_cond), Ok(Value::Bool(false))) {
                break;
            }
            self.variables.push((&loops.iter_var, Ok(elements.shown(item))));
            let step = self.value(&loops.loop_step);
            self.variables.truncate(accumulator + 1);
            if matches!(step, Err(Failure::TooExpensive)) {
                self.variables.truncate(accumulator);
                return Err(Failure::TooExpensive);
            }
            if let Some((_, slot)) = self.variables.last_mut() {
                *slot = step;
            }
        }
        let result = self.value(&loops.result);
        self.variables.truncate(accumulator);
        result
    }

    fn call(&mut self, call: &'a CallExpr) -> Outcome<'a> {
        match (call.func_name.as_str(), &call.target, call.args.as_slice()) {
            (operators::LOGICAL_AND, None, [a, b]) => self.either(a, b, false),
            (operators::LOGICAL_OR, None, [a, b]) => self.either(a, b, true),
            (operators::CONDITIONAL, None, [condition, then, otherwise]) => {
                self.charge(1)?;
                match self.value(condition)? {
                    Value::Bool(true) => self.value(then),
                    Value::Bool(false) => self.value(otherwise),
                    _ => Err(Failure::NoSuchOverload),
                }
            }
            (operators::NOT_STRICTLY_FALSE, None, [value]) => {
                let holds = !matches!(self.value(value), Ok(Value::Bool(false)));
                Ok(Value::Bool(holds))
            }
            (operators::OPT_SELECT | operators::OPT_INDEX, None, [operand, key]) => {
                let (operand, key) = (self.value(operand)?, self.value(key)?);
                self.charge(1)?;
                optional_index(&operand, &key)
            }
            (operators::INDEX, None, [operand, key]) => {
                let (operand, key) = (self.value(operand)?, self.value(key)?);
                self.charge(1)?;
                index(&operand, &key)
            }
            (operators::ADD, None, [IdedExpr { expr: Expr::Ident(name), .. }, item])
                if name.starts_with('@') =>
            {
                self.accumulate(name, item)
            }
            (name, Some(target), args) => {
                if let Some(outcome) = self.two_step(name, target, args) {
                    return outcome;
                }
                match &target.expr {
                    Expr::Ident(package) if is_package(package) && !self.is_variable(package) => {
                        let arguments = self.values(args)?;
                        self.packaged(package, name, &arguments)
                    }
                    _ => {
                        let mut parameters = vec![self.value(target)?];
                        parameters.extend(self.values(args)?);
                        self.function(name, &parameters, true)
                    }
                }
            }
            (name, None, args) => {
                let arguments = self.values(args)?;
                self.function(name, &arguments, false)
            }
        }
    }

    fn values(&mut self, expressions: &'a [IdedExpr]) -> Result<Vec<Value<'a>>, Failure> {
        expressions.iter().map(|expression| self.value(expression)).collect()
    }

    /// `&&` and `||`: one side alone can decide, even if the other has no value.
    fn either(&mut self, a: &'a IdedExpr, b: &'a IdedExpr, decides: bool) -> Outcome<'a> {
        self.charge(1)?;
        let first = self.value(a);
        match &first {
            Ok(Value::Bool(value)) if *value == decides => return first,
            Err(Failure::TooExpensive) => return first,
            _ => {}
        }
        let second = self.value(b);
        match (&first, &second) {
            (_, Ok(Value::Bool(value))) if *value == decides => second,
            (_, Err(Failure::TooExpensive)) => second,
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            (Err(_), _) => first,
            (Ok(Value::Bool(_)), Err(_)) => second,
            _ => Err(Failure::NoSuchOverload),
        }
    }

    /// Adds to the list or number that a loop builds, without copying what is there.
    fn accumulate(&mut self, name: &'a str, item: &'a IdedExpr) -> Outcome<'a> {
        let added = self.value(item)?;
        self.charge(1)?;
        let slot = self.variables.iter_mut().rev().find(|(known, _)| *known == name);
        let Some((_, slot)) = slot else { return Err(Failure::NoSuchOverload) };
        let so_far = std::mem::replace(slot, Ok(Value::Null))?;
        match (so_far, added) {
            (Value::List(mut items), Value::List(added)) => {
                Arc::make_mut(&mut items).extend(added.iter().cloned());
                Ok(Value::List(items))
            }
            (Value::Int(a), Value::Int(b)) => a.checked_add(b).map(Value::Int).ok_or_else(overflow),
            _ => Err(Failure::NoSuchOverload),
        }
    }

    /// Whether two values are equal, paid for by how much was compared.
    pub(super) fn same(&mut self, a: &Value<'a>, b: &Value<'a>) -> Result<bool, Failure> {
        let mut work = Work { done: 0, limit: self.left().saturating_mul(10) };
        let same = equal(a, b, &mut work);
        self.charge(work.done.div_ceil(10))?;
        Ok(same)
    }

    /// A function or operator whose parameters all have values.
    fn function(&mut self, name: &'a str, parameters: &[Value<'a>], member: bool) -> Outcome<'a> {
        let of_list = parameters.first().is_some_and(|first| first.items().is_some());
        match (name, parameters) {
            (operators::EQUALS, [a, b]) => self.same(a, b).map(Value::Bool),
            (operators::NOT_EQUALS, [a, b]) => self.same(a, b).map(|same| Value::Bool(!same)),
            (operators::IN, [item, collection]) => self.contains(collection, item),
            _ => {
                let extents: Vec<u64> = parameters.iter().map(Value::extent).collect();
                self.charge(functions::cost(name, &extents, of_list))?;
                match operator(name, parameters) {
                    Some(outcome) => {
                        let value = outcome?;
                        // Lists that are put together are copied.
                        if let Value::List(items) = &value {
                            self.charge(items.len() as u64)?;
                        }
                        Ok(value)
                    }
                    None => match self.native(name, parameters) {
                        Some(outcome) => outcome,
                        None => self.call_library(name, parameters, member),
                    },
                }
            }
        }
    }

    fn call_library(&mut self, name: &str, parameters: &[Value<'a>], member: bool) -> Outcome<'a> {
        self.pay_for_copies(parameters)?;
        if let ("format", Some(format)) = (name, parameters.first().and_then(Value::as_str))
            && super::native::asks_for_too_much(format)
        {
            return Err(Failure::Other("precision is too large".into()));
        }
        match parameters.split_first() {
            Some((first, rest)) if member => library::call(Target::Value(first), name, rest),
            _ => library::call(Target::None, name, parameters),
        }
    }

    /// What goes to the library is copied.
    fn pay_for_copies(&mut self, parameters: &[Value<'a>]) -> Result<(), Failure> {
        for parameter in parameters {
            let bulk = parameter.bulk(self.left());
            // Single values are paid for by what is done with them.
            if parameter.items().is_some() || parameter.keys().is_some() || bulk > 1_000 {
                self.charge(bulk.saturating_mul(COPY))?;
            }
        }
        Ok(())
    }

    fn packaged(&mut self, package: &str, name: &str, arguments: &[Value<'a>]) -> Outcome<'a> {
        let of_list = arguments.first().is_some_and(|first| first.items().is_some());
        let extents: Vec<u64> = arguments.iter().map(Value::extent).collect();
        self.charge(functions::cost(if package == "lists" { "" } else { name }, &extents, of_list))?;
        match (package, name, arguments) {
            ("optional", "none", []) => Ok(Value::Optional(None)),
            ("optional", "of", [value]) => Ok(Value::some(value.clone())),
            ("optional", "ofNonZeroValue", [value]) => {
                Ok(if value.is_zero() { Value::Optional(None) } else { Value::some(value.clone()) })
            }
            ("optional", "unwrap", [list]) => super::native::unwrapped(list),
            ("lists", "range", [Value::Int(count)]) => {
                let count = (*count).max(0);
                self.charge(count.unsigned_abs())?;
                Ok(Value::list((0..count).map(Value::Int).collect()))
            }
            // A format that is not known is none, and no failure.
            ("format", "named", _) => match library::call(Target::Package(package), name, arguments) {
                Err(_) | Ok(Value::Null) => Ok(Value::Optional(None)),
                Ok(found @ Value::Optional(_)) => Ok(found),
                Ok(found) => Ok(Value::some(found)),
            },
            _ => {
                self.pay_for_copies(arguments)?;
                library::call(Target::Package(package), name, arguments)
            }
        }
    }

    fn contains(&mut self, collection: &Value<'a>, item: &Value<'a>) -> Outcome<'a> {
        self.charge(1)?;
        if let Some(count) = collection.items() {
            for at in 0..count {
                if let Some(other) = collection.item(at)
                    && self.same(&other, item)?
                {
                    return Ok(Value::Bool(true));
                }
            }
            return Ok(Value::Bool(false));
        }
        match (collection, Key::of(item)) {
            (Value::Entries(object, _), Some(Key::Text(key))) => {
                Ok(Value::Bool(object.contains_key(key.as_ref())))
            }
            (Value::Entries(..), _) => Ok(Value::Bool(false)),
            (Value::Map(map), Some(key)) => Ok(Value::Bool(map.contains_key(&key))),
            _ => Err(Failure::NoSuchOverload),
        }
    }
}

/// What a loop goes through: the items of a list with their places, or the keys of a map with their values.
pub(super) enum Elements<'v, 'a> {
    Items(&'v Value<'a>, std::ops::Range<usize>),
    Keys(&'v Value<'a>, std::vec::IntoIter<Key>),
}

/// A place in a list, or a key of a map.
pub(super) enum Spot {
    At(usize),
    Under(Key),
}

impl<'v, 'a> Elements<'v, 'a> {
    pub(super) fn of(value: &'v Value<'a>) -> Option<Self> {
        match value.items() {
            Some(count) => Some(Self::Items(value, 0..count)),
            None => value.keys().map(|keys| Self::Keys(value, keys.into_iter())),
        }
    }

    /// The next place and what is there.
    pub(super) fn next(&mut self) -> Option<(Value<'a>, Spot)> {
        match self {
            Self::Items(_, places) => {
                places.next().map(|at| (Value::Int(i64::try_from(at).unwrap_or(i64::MAX)), Spot::At(at)))
            }
            Self::Keys(_, keys) => keys.next().map(|key| (key.value(), Spot::Under(key))),
        }
    }

    /// What a loop with one variable sees: an item, or a key.
    pub(super) fn shown(&self, spot: Spot) -> Value<'a> {
        match (self, spot) {
            (Self::Items(list, _), Spot::At(at)) => list.item(at).unwrap_or(Value::Null),
            (_, Spot::Under(key)) => key.value(),
            _ => Value::Null,
        }
    }

    /// What is at a place, for a loop with two variables.
    pub(super) fn found(&self, spot: &Spot) -> Value<'a> {
        match (self, spot) {
            (Self::Items(list, _), Spot::At(at)) => list.item(*at).unwrap_or(Value::Null),
            (Self::Keys(map, _), Spot::Under(key)) => map.entry(key).unwrap_or(Value::Null),
            _ => Value::Null,
        }
    }
}

fn literal_value<'a>(literal: &'a LiteralValue) -> Value<'a> {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(bytes) => Value::Bytes(bytes.inner().into()),
        LiteralValue::Double(value) => Value::Double(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(text) => Value::Text(text.inner()),
        LiteralValue::UInt(value) => Value::Uint(*value.inner()),
    }
}

/// The dotted name that a selection spells.
pub(super) fn qualified(operand: &IdedExpr, field: &str) -> Option<String> {
    match &operand.expr {
        Expr::Ident(name) => Some(format!("{name}.{field}")),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{field}", qualified(&select.operand, &select.field)?))
        }
        _ => None,
    }
}

/// Names that stand for types.
pub(super) fn type_named<'a>(name: &str) -> Option<Value<'a>> {
    const TYPES: [&str; 18] = [
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "optional_type",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "kubernetes.URL",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "net.IP",
        "net.CIDR",
    ];
    TYPES.contains(&name).then(|| Value::Type(name.into()))
}

/// Times are compared and shown in UTC.
pub(super) fn in_utc(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Foreign(Foreign::Timestamp(time)) => {
            Value::Foreign(Foreign::Timestamp(time.to_utc().fixed_offset()))
        }
        other => other,
    }
}
