//! Evaluation of expressions within a cost limit. The cost follows Kubernetes' model closely enough that its limits can
//! be used, and bounds the time and memory of an evaluation whatever the expression and its values.

use std::sync::Arc;

use kube_cel::cel::Value as LibraryValue;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};
use serde_json::Value as Json;

use crate::failure::Failure;
use crate::functions::{self, Functions, is_namespace};
use crate::library::{self, Target};
use crate::operators::{index, operator, optional, optional_index, overflow};
use crate::program::Program;
use crate::schema::ListIdentity;
use crate::value::{ComparisonWork, Key, Value, equal};

pub(crate) type Outcome<'a> = Result<Value<'a>, Failure>;

/// The cost of building a list or a map.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
/// How many times more it costs to copy a value for the library than to read it.
const COPY_FACTOR: u64 = 4;

/// One evaluation.
pub(crate) struct Evaluation<'a> {
    pub(crate) program: &'a Program,
    pub(crate) functions: &'a Functions,
    /// The variables, as the functions of the environment see them.
    pub(crate) inputs: &'a [(&'a str, &'a Json)],
    /// Innermost last. A variable can be a failure, which a later element of a loop may override.
    variables: Vec<(&'a str, Outcome<'a>)>,
    pub(crate) cost: u64,
    limit: u64,
    /// The innermost part that failed, while its failure goes up.
    pub(crate) failed_part: Option<u64>,
}

impl<'a> Evaluation<'a> {
    pub(crate) fn new(
        program: &'a Program,
        variables: impl IntoIterator<Item = (&'a str, Value<'a>)>,
        limit: u64,
    ) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name, Ok(value))).collect();
        Self {
            program,
            functions: Functions::NONE,
            inputs: &[],
            variables,
            cost: 0,
            limit,
            failed_part: None,
        }
    }

    /// The value of the whole expression.
    pub(crate) fn run(&mut self) -> Outcome<'a> {
        let program = self.program;
        self.value(&program.expression)
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Failure::CostLimitExceeded) } else { Ok(()) }
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.cost)
    }

    pub(crate) fn value(&mut self, expression: &'a IdedExpr) -> Outcome<'a> {
        let outcome = self.part(expression);
        match &outcome {
            Ok(_) => self.failed_part = None,
            Err(_) => _ = self.failed_part.get_or_insert(expression.id),
        }
        outcome
    }

    fn part(&mut self, expression: &'a IdedExpr) -> Outcome<'a> {
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
        let found = self.variables.iter().rev().find(|(declared, _)| *declared == name);
        match found {
            Some((_, outcome)) => outcome.clone(),
            None => type_named(name).ok_or_else(|| Failure::Other(format!("no such attribute(s): {name}"))),
        }
    }

    fn is_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|(declared, _)| *declared == name)
    }

    /// Evaluates with a variable in scope.
    pub(crate) fn with(&mut self, name: &'a str, value: Value<'a>, body: &'a IdedExpr) -> Outcome<'a> {
        self.scoped(name, value, |evaluation| evaluation.value(body))
    }

    /// Runs a closure with one more variable in scope.
    pub(crate) fn scoped(
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
            Value::Optional(inner) => {
                let found = inner.as_ref().and_then(|inner| inner.field(field));
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

    /// A type with a dotted name, such as `google.protobuf.Timestamp`.
    fn qualified_type(&self, operand: &IdedExpr, field: &str) -> Option<Value<'a>> {
        let name = qualified_name(operand, field)?;
        let root = name.split('.').next().unwrap_or_default();
        if self.is_variable(root) { None } else { type_named(&name) }
    }

    fn list(&mut self, list: &'a ListExpr) -> Outcome<'a> {
        self.charge(LIST_COST)?;
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let value = self.value(element)?;
            match value {
                Value::Optional(inner) if list.optional_indices.contains(&index) => {
                    items.extend(inner.map(|inner| inner.as_ref().clone()));
                }
                value => items.push(value),
            }
        }
        Ok(Value::list(items))
    }

    fn map(&mut self, map: &'a MapExpr) -> Outcome<'a> {
        self.charge(MAP_COST)?;
        let mut entries = std::collections::BTreeMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(Failure::NoSuchOverload) };
            let key = self.value(&entry.key)?;
            let key = Key::of(&key).ok_or_else(|| Failure::Other("unsupported key type".into()))?;
            match self.value(&entry.value)? {
                Value::Optional(inner) if entry.optional => {
                    if let Some(inner) = inner {
                        entries.insert(key, inner.as_ref().clone());
                    }
                }
                value => {
                    if entries.insert(key, value).is_some() {
                        return Err(Failure::Other("Failed with repeated key".into()));
                    }
                }
            }
        }
        Ok(Value::Map(Arc::new(entries)))
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
            // After a condition that fails the loop goes on: a later element may decide.
            if matches!(self.value(&loops.loop_cond), Ok(Value::Bool(false))) {
                break;
            }
            self.variables.push((&loops.iter_var, Ok(elements.single(item))));
            let step = self.value(&loops.loop_step);
            self.variables.truncate(accumulator + 1);
            if matches!(step, Err(Failure::CostLimitExceeded)) {
                self.variables.truncate(accumulator);
                return Err(Failure::CostLimitExceeded);
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
            (operators::LOGICAL_AND, None, [a, b]) => self.logical(a, b, false),
            (operators::LOGICAL_OR, None, [a, b]) => self.logical(a, b, true),
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
                if let Some(outcome) = self.macro_call(name, target, args) {
                    return outcome;
                }
                match &target.expr {
                    Expr::Ident(namespace) if is_namespace(namespace) && !self.is_variable(namespace) => {
                        let arguments = self.values(args)?;
                        self.namespaced(namespace, name, &arguments)
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

    /// `&&` and `||`: one side alone can decide, even if the other fails.
    fn logical(&mut self, a: &'a IdedExpr, b: &'a IdedExpr, decides: bool) -> Outcome<'a> {
        self.charge(1)?;
        let first = self.value(a);
        match &first {
            Ok(Value::Bool(value)) if *value == decides => return first,
            Err(Failure::CostLimitExceeded) => return first,
            _ => {}
        }
        let second = self.value(b);
        match (&first, &second) {
            (_, Ok(Value::Bool(value))) if *value == decides => second,
            (_, Err(Failure::CostLimitExceeded)) => second,
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            (Err(_), _) => first,
            (Ok(Value::Bool(_)), Err(_)) => second,
            _ => Err(Failure::NoSuchOverload),
        }
    }

    /// Adds to the list or number that a loop builds, without copying it.
    fn accumulate(&mut self, name: &'a str, item: &'a IdedExpr) -> Outcome<'a> {
        let added = self.value(item)?;
        self.charge(1)?;
        let slot = self.variables.iter_mut().rev().find(|(declared, _)| *declared == name);
        let Some((_, slot)) = slot else { return Err(Failure::NoSuchOverload) };
        let current = std::mem::replace(slot, Ok(Value::Null))?;
        match (current, added) {
            (Value::List(mut items), Value::List(added)) => {
                Arc::make_mut(&mut items).extend(added.iter().cloned());
                Ok(Value::List(items))
            }
            (Value::Int(a), Value::Int(b)) => a.checked_add(b).map(Value::Int).ok_or_else(overflow),
            _ => Err(Failure::NoSuchOverload),
        }
    }

    /// Whether two values are equal, charged by how much was compared.
    pub(crate) fn equals(&mut self, a: &Value<'a>, b: &Value<'a>) -> Result<bool, Failure> {
        let mut work = ComparisonWork { done: 0, limit: self.remaining().saturating_mul(10) };
        let same = equal(a, b, &mut work);
        self.charge(work.done.div_ceil(10))?;
        Ok(same)
    }

    /// A function or operator whose parameters all have values.
    fn function(&mut self, name: &'a str, parameters: &[Value<'a>], member: bool) -> Outcome<'a> {
        let of_list = parameters.first().is_some_and(|first| first.items().is_some());
        match (name, parameters) {
            (operators::EQUALS, [a, b]) => self.equals(a, b).map(Value::Bool),
            (operators::NOT_EQUALS, [a, b]) => self.equals(a, b).map(|same| Value::Bool(!same)),
            (operators::IN, [item, collection]) => self.contains(collection, item),
            _ => {
                self.charge_identities(name, parameters)?;
                let sizes: Vec<u64> = parameters.iter().map(Value::element_count).collect();
                self.charge(functions::cost(name, &sizes, of_list))?;
                match operator(name, parameters) {
                    Some(outcome) => {
                        let value = outcome?;
                        // Concatenated lists are copied.
                        if let Value::List(items) = &value {
                            self.charge(items.len() as u64)?;
                        }
                        Ok(value)
                    }
                    None if !member && self.functions.custom.contains_key(name) => {
                        self.call_custom(name, parameters)
                    }
                    None => match self.native(name, parameters) {
                        Some(outcome) => outcome,
                        None => self.call_library(name, parameters, member),
                    },
                }
            }
        }
    }

    /// Charges for reading the items that are added to a set or a keyed list. What an expression built can share parts,
    /// so that it is much larger to read than it was to build.
    fn charge_identities(&mut self, name: &str, parameters: &[Value<'a>]) -> Result<(), Failure> {
        match (name, parameters) {
            (operators::ADD, [Value::Items(_, schema), built @ Value::List(_)])
                if schema.list_identity() != ListIdentity::Index =>
            {
                self.charge(built.copy_cost(self.remaining()))
            }
            _ => Ok(()),
        }
    }

    fn call_library(&mut self, name: &str, parameters: &[Value<'a>], member: bool) -> Outcome<'a> {
        self.charge_copies(parameters)?;
        if let ("format", Some(format)) = (name, parameters.first().and_then(Value::as_str))
            && crate::native::has_excessive_precision(format)
        {
            return Err(Failure::Other("precision is too large".into()));
        }
        match parameters.split_first() {
            Some((first, rest)) if member => library::call(Target::Value(first), name, rest),
            _ => library::call(Target::None, name, parameters),
        }
    }

    /// Charges for the copies that a call of the library takes.
    fn charge_copies(&mut self, parameters: &[Value<'a>]) -> Result<(), Failure> {
        for parameter in parameters {
            let bulk = parameter.copy_cost(self.remaining());
            // The call itself charges for small values.
            if parameter.items().is_some() || parameter.keys().is_some() || bulk > 1_000 {
                self.charge(bulk.saturating_mul(COPY_FACTOR))?;
            }
        }
        Ok(())
    }

    fn namespaced(&mut self, namespace: &str, name: &str, arguments: &[Value<'a>]) -> Outcome<'a> {
        let of_list = arguments.first().is_some_and(|first| first.items().is_some());
        let sizes: Vec<u64> = arguments.iter().map(Value::element_count).collect();
        self.charge(functions::cost(if namespace == "lists" { "" } else { name }, &sizes, of_list))?;
        match (namespace, name, arguments) {
            ("optional", "none", []) => Ok(Value::Optional(None)),
            ("optional", "of", [value]) => Ok(Value::some(value.clone())),
            ("optional", "ofNonZeroValue", [value]) => {
                Ok(if value.is_zero() { Value::Optional(None) } else { Value::some(value.clone()) })
            }
            ("optional", "unwrap", [list]) => crate::native::unwrap_optionals(list),
            ("lists", "range", [Value::Int(count)]) => {
                let count = (*count).max(0);
                self.charge(count.unsigned_abs())?;
                Ok(Value::list((0..count).map(Value::Int).collect()))
            }
            // An unknown format is an empty optional, not a failure.
            ("format", "named", _) => match library::call(Target::Namespace(namespace), name, arguments) {
                Err(_) | Ok(Value::Null) => Ok(Value::Optional(None)),
                Ok(found @ Value::Optional(_)) => Ok(found),
                Ok(found) => Ok(Value::some(found)),
            },
            _ => {
                self.charge_copies(arguments)?;
                library::call(Target::Namespace(namespace), name, arguments)
            }
        }
    }

    fn contains(&mut self, collection: &Value<'a>, item: &Value<'a>) -> Outcome<'a> {
        self.charge(1)?;
        if let Some(count) = collection.items() {
            for index in 0..count {
                if let Some(other) = collection.item(index)
                    && self.equals(&other, item)?
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

/// What a loop goes through: the items of a list with their indices, or the keys of a map with their values.
pub(crate) enum Elements<'v, 'a> {
    Items(&'v Value<'a>, std::ops::Range<usize>),
    Keys(&'v Value<'a>, std::vec::IntoIter<Key>),
}

/// An index of a list, or a key of a map.
pub(crate) enum ElementKey {
    Index(usize),
    Key(Key),
}

impl<'v, 'a> Elements<'v, 'a> {
    pub(crate) fn of(value: &'v Value<'a>) -> Option<Self> {
        match value.items() {
            Some(count) => Some(Self::Items(value, 0..count)),
            None => value.keys().map(|keys| Self::Keys(value, keys.into_iter())),
        }
    }

    /// The next index or key.
    pub(crate) fn next(&mut self) -> Option<(Value<'a>, ElementKey)> {
        match self {
            Self::Items(_, indices) => {
                let index = indices.next()?;
                Some((Value::Int(i64::try_from(index).unwrap_or(i64::MAX)), ElementKey::Index(index)))
            }
            Self::Keys(_, keys) => keys.next().map(|key| (key.value(), ElementKey::Key(key))),
        }
    }

    /// What a loop with one variable sees: an item, or a key.
    pub(crate) fn single(&self, element_key: ElementKey) -> Value<'a> {
        match (self, element_key) {
            (Self::Items(list, _), ElementKey::Index(index)) => list.item(index).unwrap_or(Value::Null),
            (_, ElementKey::Key(key)) => key.value(),
            _ => Value::Null,
        }
    }

    /// The second variable of a loop with two: an item, or the value under a key.
    pub(crate) fn value_at(&self, element_key: &ElementKey) -> Value<'a> {
        match (self, element_key) {
            (Self::Items(list, _), ElementKey::Index(index)) => list.item(*index).unwrap_or(Value::Null),
            (Self::Keys(map, _), ElementKey::Key(key)) => map.entry(key).unwrap_or(Value::Null),
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
        LiteralValue::String(text) => Value::Str(text.inner()),
        LiteralValue::UInt(value) => Value::Uint(*value.inner()),
    }
}

/// The dotted name that a chain of selections spells.
pub(crate) fn qualified_name(operand: &IdedExpr, field: &str) -> Option<String> {
    match &operand.expr {
        Expr::Ident(name) => Some(format!("{name}.{field}")),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{field}", qualified_name(&select.operand, &select.field)?))
        }
        _ => None,
    }
}

/// The type of this name.
pub(crate) fn type_named<'a>(name: &str) -> Option<Value<'a>> {
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

/// A timestamp in UTC, in which timestamps are compared and printed.
pub(crate) fn in_utc(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Library(LibraryValue::Timestamp(time)) => {
            Value::Library(LibraryValue::Timestamp(time.to_utc().fixed_offset()))
        }
        other => other,
    }
}
