//! A valid search: every field exists, and every value has the type of its field. It is formatted in a canonical form.

use std::fmt;

use jiff::Timestamp;

use super::decimal::Decimal;
use super::lexer::{Comparison, RAW_QUOTE};
use super::pattern::Case;
use super::{SearchError, parser};
use crate::store::Column;

/// A valid search.
///
/// ```
/// use bellwether_fleet::search::Filter;
///
/// let filter = Filter::parse("NOT name LIKE 'a%' AND (generation>=2 OR labels.env IN ['x'])")?;
/// assert_eq!(filter.to_string(), "name not like 'a%' and (generation >= 2 or labels.env in ['x'])");
///
/// let error = Filter::parse("generation = and name = 'x'").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "failed to parse search query: column 14: expected a value after '=', found 'and'",
/// );
/// # Ok::<(), bellwether_fleet::search::SearchError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Filter(pub(super) Node);

impl Filter {
    /// Parses a search. The error has the cause and the column.
    pub fn parse(text: &str) -> Result<Self, SearchError> {
        parser::parse(text).map(Self)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Constant(bool),
    Not(Box<Node>),
    /// Two or more nodes other than `All`.
    All(Vec<Node>),
    /// Two or more nodes other than `Any`.
    Any(Vec<Node>),
    Field(Subject, Test<Value>),
    Condition(ConditionTest),
}

impl Node {
    pub(super) fn all(nodes: Vec<Self>) -> Self {
        let flat = nodes.into_iter().flat_map(|node| match node {
            Self::All(nodes) => nodes,
            node => vec![node],
        });
        Self::one_or(flat.collect(), Self::All)
    }

    pub(super) fn any(nodes: Vec<Self>) -> Self {
        let flat = nodes.into_iter().flat_map(|node| match node {
            Self::Any(nodes) => nodes,
            node => vec![node],
        });
        Self::one_or(flat.collect(), Self::Any)
    }

    fn one_or(mut nodes: Vec<Self>, several: fn(Vec<Self>) -> Self) -> Self {
        match nodes.pop() {
            Some(only) if nodes.is_empty() => only,
            Some(last) => {
                nodes.push(last);
                several(nodes)
            }
            None => several(nodes),
        }
    }

    pub(super) fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}

/// The field of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Subject {
    Column(Column),
    Label(String),
    /// The keys of a path below `spec`, at least one.
    Spec(Vec<String>),
}

/// A comparison with literals or with checked values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test<V> {
    Null,
    NotNull,
    Compare(Comparison, V),
    In(Vec<V>),
    Between(V, V),
    Like(Case, V),
}

impl<V> Test<V> {
    pub(super) fn try_map<W, E>(self, mut map: impl FnMut(V) -> Result<W, E>) -> Result<Test<W>, E> {
        Ok(match self {
            Self::Null => Test::Null,
            Self::NotNull => Test::NotNull,
            Self::Compare(comparison, value) => Test::Compare(comparison, map(value)?),
            Self::In(values) => Test::In(values.into_iter().map(map).collect::<Result<_, E>>()?),
            Self::Between(low, high) => Test::Between(map(low)?, map(high)?),
            Self::Like(case, pattern) => Test::Like(case, map(pattern)?),
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Number(Decimal),
    Time(Timestamp),
    Boolean(bool),
}

/// A test of a condition of a type.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ConditionTest {
    pub(super) type_: String,
    pub(super) part: ConditionPart,
    pub(super) comparison: Comparison,
    pub(super) value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConditionPart {
    Status,
    LastUpdatedTime,
    LastTransitionTime,
    ObservedGeneration,
}

impl ConditionPart {
    /// The name in a search.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::LastUpdatedTime => "last_updated_time",
            Self::LastTransitionTime => "last_transition_time",
            Self::ObservedGeneration => "observed_generation",
        }
    }
}

impl ConditionPart {
    /// The position in a stored condition.
    pub(super) fn position(self) -> usize {
        match self {
            Self::Status => 1,
            Self::ObservedGeneration => 4,
            Self::LastUpdatedTime => 6,
            Self::LastTransitionTime => 7,
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(true) => formatter.write_str("1 = 1"),
            Self::Constant(false) => formatter.write_str("1 = 0"),
            Self::Not(node) => match node.as_ref() {
                Self::Field(subject, test @ (Test::In(_) | Test::Between(..) | Test::Like(..))) => {
                    write!(formatter, "{subject} not {test}")
                }
                Self::All(_) | Self::Any(_) => write!(formatter, "not ({node})"),
                node => write!(formatter, "not {node}"),
            },
            Self::All(nodes) => write_joined(formatter, nodes, " and ", |formatter, node| match node {
                Self::Any(_) => write!(formatter, "({node})"),
                node => node.fmt(formatter),
            }),
            Self::Any(nodes) => write_joined(formatter, nodes, " or ", |formatter, node| node.fmt(formatter)),
            Self::Field(subject, test) => write!(formatter, "{subject} {test}"),
            Self::Condition(test) => test.fmt(formatter),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => formatter.write_str(column.name()),
            Self::Label(key) => write!(formatter, "labels.{key}"),
            Self::Spec(path) => write!(formatter, "spec.{}", path.join(".")),
        }
    }
}

impl<V: fmt::Display> fmt::Display for Test<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("is null"),
            Self::NotNull => formatter.write_str("is not null"),
            Self::Compare(comparison, value) => write!(formatter, "{} {value}", comparison.symbol()),
            Self::In(values) => {
                formatter.write_str("in [")?;
                write_joined(formatter, values, ", ", |formatter, value| value.fmt(formatter))?;
                formatter.write_str("]")
            }
            Self::Between(low, high) => write!(formatter, "between {low} and {high}"),
            Self::Like(Case::Sensitive, pattern) => write!(formatter, "like {pattern}"),
            Self::Like(Case::Insensitive, pattern) => write!(formatter, "ilike {pattern}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) if text.contains('\\') => {
                write!(formatter, "{RAW_QUOTE}{}{RAW_QUOTE}", text.replace(RAW_QUOTE, "``"))
            }
            Self::Text(text) => write!(formatter, "'{}'", text.replace('\'', "''")),
            Self::Integer(number) => number.fmt(formatter),
            Self::Number(number) => number.fmt(formatter),
            Self::Time(time) => write!(formatter, "'{time}'"),
            Self::Boolean(value) => value.fmt(formatter),
        }
    }
}

impl fmt::Display for ConditionTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_, part, comparison, value } = self;
        write!(formatter, "status.conditions.{type_}")?;
        if *part != ConditionPart::Status {
            write!(formatter, ".{}", part.name())?;
        }
        write!(formatter, " {} {value}", comparison.symbol())
    }
}

fn write_joined<T>(
    formatter: &mut fmt::Formatter<'_>,
    items: &[T],
    between: &str,
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            formatter.write_str(between)?;
        }
        write(formatter, item)?;
    }
    Ok(())
}
