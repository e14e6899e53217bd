//! A rule before it is kept: whether its expressions can be evaluated on values of the schema, and what that can cost.

use super::check::check;
use super::program::Program;
use super::rules::Draft;
use super::types::{Type, least};
use super::value::Place;
use crate::schema::Schema;

/// What is known of a rule.
pub(crate) struct Examined {
    /// The most that one evaluation costs, or why there can be none.
    pub(crate) rule: Result<u64, String>,
    pub(crate) message_expression: Option<Result<u64, String>>,
    pub(crate) uses_old_self: bool,
}

/// Examines a rule for values of a schema.
pub(crate) fn examine(draft: &Draft<'_>, schema: &Schema, place: Place) -> Examined {
    let Some(kind) = Type::of(schema, place) else {
        let why = "the schema has no type that expressions can see";
        return Examined { rule: Err(why.to_owned()), message_expression: None, uses_old_self: false };
    };
    let old = match draft.optional_old_self {
        Some(true) => Type::Optional(Box::new(kind.clone())),
        _ => kind.clone(),
    };
    let parsed = |text: &str, lead: &str| {
        Program::parse(text).map_err(|why| format!("{lead}compilation failed: {why}"))
    };
    let cost = |program: &Program, lead: &str, wanted: fn(&Type<'_>) -> bool, otherwise: &str| {
        let variables = vec![("self", kind.clone()), ("oldSelf", old.clone())];
        let known = check(program, variables).map_err(|why| format!("{lead}compilation failed: {why}"))?;
        if wanted(&known.kind) { Ok(known.cost) } else { Err(otherwise.to_owned()) }
    };
    let program = parsed(draft.rule, "");
    let uses_old_self = program.as_ref().is_ok_and(|program| program.uses_old_self);
    let is_bool = |kind: &Type<'_>| matches!(kind, Type::Bool | Type::Dyn);
    let rule =
        program.and_then(|program| cost(&program, "", is_bool, "cel expression must evaluate to a bool"));
    let is_text = |kind: &Type<'_>| matches!(kind, Type::Text(_) | Type::Dyn);
    // Of a rule that does not compile, the message is of no interest.
    let wanted = rule.is_ok() && !draft.message_expression.is_empty();
    let message_expression = wanted.then(|| {
        let lead = "messageExpression ";
        let program = parsed(draft.message_expression, lead)?;
        cost(&program, lead, is_text, "messageExpression must evaluate to a string")
    });
    Examined { rule, message_expression, uses_old_self }
}

/// How many values of a schema a request can hold at most.
pub(crate) fn cardinality(schema: &Schema) -> u64 {
    3 * 1024 * 1024 / (least(schema) + 1)
}
