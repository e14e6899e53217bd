//! A rule before it is kept: whether its expressions can be evaluated on values of the schema, and what that can cost.

use bellwether_cel::{ObjectKind, Program, ResultType, Schema as _, Variable};

use super::rules::Draft;
use crate::schema::Schema;

/// The size limit of a request.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// What is known of a rule.
pub(crate) struct Examined {
    /// The most that one evaluation costs, or why there can be none.
    pub(crate) rule: Result<u64, String>,
    pub(crate) message_expression: Option<Result<u64, String>>,
    pub(crate) uses_old_self: bool,
}

/// Examines a rule for values of a schema.
pub(crate) fn examine(draft: &Draft<'_>, schema: &Schema, kind: ObjectKind) -> Examined {
    let (Some(this), Some(old)) =
        (Variable::new("self", schema, kind), Variable::new("oldSelf", schema, kind))
    else {
        let why = "the schema has no type that expressions can see";
        return Examined { rule: Err(why.to_owned()), message_expression: None, uses_old_self: false };
    };
    let old = if draft.optional_old_self == Some(true) { old.into_optional() } else { old };
    let variables = [this, old];
    let failed = |lead: &str, error: &bellwether_cel::CompileError| {
        format!("{lead}compilation failed: {}", error.kubernetes_report())
    };
    let parse = |text: &str, lead: &str| Program::parse(text).map_err(|error| failed(lead, &error));
    let cost = |program: &Program, lead: &str, expected: ResultType, otherwise: &str| {
        let estimate = program.check(&variables).map_err(|error| failed(lead, &error))?;
        match estimate.result == expected || estimate.result == ResultType::Dynamic {
            true => Ok(estimate.cost),
            false => Err(otherwise.to_owned()),
        }
    };
    let program = parse(draft.rule, "");
    let uses_old_self = program.as_ref().is_ok_and(|program| program.uses("oldSelf"));
    let rule = program
        .and_then(|program| cost(&program, "", ResultType::Bool, "cel expression must evaluate to a bool"));
    // The message of a rule that does not compile is not examined.
    let has_message = rule.is_ok() && !draft.message_expression.is_empty();
    let message_expression = has_message.then(|| {
        let lead = "messageExpression ";
        let program = parse(draft.message_expression, lead)?;
        cost(&program, lead, ResultType::String, "messageExpression must evaluate to a string")
    });
    Examined { rule, message_expression, uses_old_self }
}

/// How many values of a schema a request can hold at most.
pub(crate) fn cardinality(schema: &Schema) -> u64 {
    MAX_REQUEST_BYTES / (schema.min_bytes() + 1)
}
