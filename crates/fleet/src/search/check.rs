//! Checks comparisons: whether the field exists, whether it supports the comparison, and whether the values have its type.

use super::filter::{ConditionPart, ConditionTest, Node, Subject, Test, Value};
use super::lexer::{Comparison, Token};
use super::parser::{Literal, LiteralValue, Predicate};
use super::pattern::{Case, Pattern};
use super::{SearchError, literal, quoted};
use crate::store::Column;
use crate::store::query::ColumnKind;

/// The maximum number of keys of a path below `spec`.
const LONGEST_PATH: usize = 64;

/// Evaluates a comparison of two constants.
pub(super) fn constants(
    left: &Literal,
    comparison: Comparison,
    right: &Literal,
) -> Result<bool, SearchError> {
    use LiteralValue::{Boolean, Number, Text, Time};
    let order = match (&left.value, &right.value) {
        (Text(left), Text(right)) => left.cmp(right),
        (Number(left), Number(right)) => left.compare(right),
        (Time(left), Time(right)) => left.cmp(right),
        (Boolean(left), Boolean(right)) => left.cmp(right),
        _ => {
            let problem =
                format!("{} and {} are of different kinds", quoted(&left.source), quoted(&right.source));
            return Err(SearchError::Meaning { column: right.column, problem });
        }
    };
    Ok(comparison.holds(order))
}

/// Checks a comparison of a field.
pub(super) fn predicate(predicate: Predicate) -> Result<Node, SearchError> {
    let name = predicate.field.source.as_str();
    if let Some(rest) = name.strip_prefix("status.conditions.") {
        return condition(rest, &predicate).map(Node::Condition);
    }
    let (subject, expected) = subject(&predicate.field)?;
    let operator = &predicate.operator;
    if let (Test::Like(..), Expected::Integer | Expected::Time) = (&predicate.test, expected) {
        let problem = format!("field {} cannot be compared by {}", quoted(name), quoted(&operator.source));
        return Err(SearchError::Meaning { column: operator.column, problem });
    }
    if let Test::Like(case, pattern) = &predicate.test {
        check_pattern(*case, pattern, name)?;
    }
    if let (Test::Between(low, high), Expected::Spec) = (&predicate.test, expected) {
        check_same_kind(std::slice::from_ref(high), low)?;
    }
    if let (Test::In(values), Expected::Spec) = (&predicate.test, expected)
        && let Some((first, rest)) = values.split_first()
    {
        check_same_kind(rest, first)?;
    }
    let test = predicate.test.try_map(|literal| value(literal, expected, name))?;
    if has_boolean(&test) && !matches!(test, Test::Compare(Comparison::Equal | Comparison::NotEqual, _)) {
        let problem = format!("'true' and 'false' cannot be compared by {}", quoted(&operator.source));
        return Err(SearchError::Meaning { column: operator.column, problem });
    }
    Ok(Node::Field(subject, test))
}

/// The type of the values that a field is compared with.
#[derive(Clone, Copy)]
enum Expected {
    Text,
    Integer,
    Time,
    Spec,
}

fn subject(field: &Token) -> Result<(Subject, Expected), SearchError> {
    let name = field.source.as_str();
    let wrong = |problem| SearchError::Meaning { column: field.column, problem };
    if let Some(key) = name.strip_prefix("labels.") {
        if key.is_empty() {
            return Err(wrong("expected the key of a label after 'labels.'".to_owned()));
        }
        return Ok((Subject::Label(key.to_owned()), Expected::Text));
    }
    if let Some(path) = name.strip_prefix("spec.") {
        let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
        if keys.len() > LONGEST_PATH {
            return Err(wrong(format!("field {} has more than {LONGEST_PATH} keys", quoted(name))));
        }
        if keys.iter().any(|key| key.is_empty() || key.contains('/')) {
            let problem = format!(
                "field {} is not a path: keys of letters, digits, '_' and '-', with dots between them",
                quoted(name)
            );
            return Err(wrong(problem));
        }
        return Ok((Subject::Spec(keys), Expected::Spec));
    }
    let Some(column) = Column::named(name) else {
        let columns = Column::names();
        let problem = format!(
            "unknown field {}; there are {columns}, labels.<key>, spec.<key> and status.conditions.<Type>",
            quoted(name)
        );
        return Err(wrong(problem));
    };
    let expected = match column.kind() {
        ColumnKind::Text => Expected::Text,
        ColumnKind::Integer => Expected::Integer,
        ColumnKind::Time => Expected::Time,
    };
    Ok((Subject::Column(column), expected))
}

fn value(literal: Literal, expected: Expected, field: &str) -> Result<Value, SearchError> {
    let Literal { value, column, source } = literal;
    let wanted = match (expected, value) {
        (Expected::Text | Expected::Spec, LiteralValue::Text(text)) => return Ok(Value::Text(text)),
        (Expected::Spec, LiteralValue::Number(number)) => return Ok(Value::Number(number)),
        (Expected::Spec, LiteralValue::Boolean(value)) => return Ok(Value::Boolean(value)),
        (Expected::Time, LiteralValue::Time(time)) => return Ok(Value::Time(time)),
        (Expected::Integer, LiteralValue::Number(number)) => match number.integer() {
            Some(number) => return Ok(Value::Integer(number)),
            None => "an integer",
        },
        (Expected::Time, LiteralValue::Text(text)) => match literal::time(&text) {
            Some(time) => return Ok(Value::Time(time)),
            None => "a time such as '2026-01-31T12:00:00Z' or '2026-01-31'",
        },
        (Expected::Text, _) => "text in quotes",
        (Expected::Integer, _) => "an integer",
        (Expected::Time, _) => "a time such as '2026-01-31T12:00:00Z' or '2026-01-31'",
        (Expected::Spec, LiteralValue::Time(_)) => "text in quotes, a number, 'true' or 'false'",
    };
    let problem = format!("field {} expects {wanted}, found {}", quoted(field), quoted(&source));
    Err(SearchError::Meaning { column, problem })
}

fn check_pattern(case: Case, pattern: &Literal, field: &str) -> Result<(), SearchError> {
    let problem = match &pattern.value {
        LiteralValue::Text(text) if Pattern::parse(text, case).is_some() => return Ok(()),
        LiteralValue::Text(_) => "a pattern cannot end in a single '\\'".to_owned(),
        _ => {
            format!("field {} expects a pattern in quotes, found {}", quoted(field), quoted(&pattern.source))
        }
    };
    Err(SearchError::Meaning { column: pattern.column, problem })
}

fn check_same_kind(literals: &[Literal], first: &Literal) -> Result<(), SearchError> {
    let is_same =
        |literal: &&Literal| std::mem::discriminant(&literal.value) != std::mem::discriminant(&first.value);
    let Some(other) = literals.iter().find(is_same) else { return Ok(()) };
    let problem = format!("{} and {} are of different kinds", quoted(&first.source), quoted(&other.source));
    Err(SearchError::Meaning { column: other.column, problem })
}

fn has_boolean(test: &Test<Value>) -> bool {
    match test {
        Test::Compare(_, value) | Test::Between(value, _) => matches!(value, Value::Boolean(_)),
        Test::In(values) => values.iter().any(|value| matches!(value, Value::Boolean(_))),
        Test::Null | Test::NotNull | Test::Like(..) => false,
    }
}

fn condition(rest: &str, predicate: &Predicate) -> Result<ConditionTest, SearchError> {
    let Predicate { field, operator, test, negated } = predicate;
    let wrong = |column, problem| Err(SearchError::Meaning { column, problem });
    let name = quoted(&field.source);
    let (type_, part) = match rest.split_once('.') {
        None => (rest, Some(ConditionPart::Status)),
        Some((type_, part)) => (type_, condition_part(part)),
    };
    let is_type = type_.starts_with(|c: char| c.is_ascii_uppercase())
        && type_.bytes().all(|c| c.is_ascii_alphanumeric());
    if !is_type {
        let problem = format!(
            "{} is not the type of a condition: an upper-case letter, then letters and digits",
            quoted(type_)
        );
        return wrong(field.column, problem);
    }
    let Some(part) = part else {
        let parts = "last_updated_time, last_transition_time and observed_generation";
        return wrong(field.column, format!("unknown field {name}; below a condition there are {parts}"));
    };
    if *negated {
        return wrong(field.column, format!("field {name} cannot be negated with 'not'"));
    }
    let Test::Compare(comparison, literal) = test.clone() else {
        return wrong(
            operator.column,
            format!("field {name} cannot be compared by {}", quoted(&operator.source)),
        );
    };
    if part == ConditionPart::Status && comparison != Comparison::Equal {
        let problem = format!("field {name} can only be compared by '=', found {}", quoted(&operator.source));
        return wrong(operator.column, problem);
    }
    let value = match part {
        ConditionPart::Status => condition_status(literal, &name)?,
        ConditionPart::ObservedGeneration => value(literal, Expected::Integer, &field.source)?,
        ConditionPart::LastUpdatedTime | ConditionPart::LastTransitionTime => {
            value(literal, Expected::Time, &field.source)?
        }
    };
    Ok(ConditionTest { type_: type_.to_owned(), part, comparison, value })
}

fn condition_part(name: &str) -> Option<ConditionPart> {
    [ConditionPart::LastUpdatedTime, ConditionPart::LastTransitionTime, ConditionPart::ObservedGeneration]
        .into_iter()
        .find(|part| part.name() == name)
}

fn condition_status(literal: Literal, field: &str) -> Result<Value, SearchError> {
    match literal.value {
        LiteralValue::Text(status) if matches!(status.as_str(), "True" | "False" | "Unknown") => {
            Ok(Value::Text(status))
        }
        _ => {
            let problem = format!(
                "field {field} expects the text 'True', 'False' or 'Unknown', found {}",
                quoted(&literal.source)
            );
            Err(SearchError::Meaning { column: literal.column, problem })
        }
    }
}
