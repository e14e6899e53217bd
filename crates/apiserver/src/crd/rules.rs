//! What is wrong with the rules (`x-kubernetes-validations`) of a definition: the fields of each rule, whether its
//! expressions can be evaluated, and what they may cost all together.

use bellwether_cel::{ObjectKind, Schema as _};

use crate::cel::{Draft, bound, cardinality, examine, field_path};
use crate::field::FieldError;
use crate::schema::{ListType, Schema, Type};

/// What one rule and all rules of a version may cost at most, by estimate.
const RULE: u64 = 10_000_000;
const VERSION: u64 = 100_000_000;
/// How many rules a version may have: each is parsed when the kind is first used.
const RULES: usize = 2_000;
/// Of rules that cost too much together, so many are named.
const NAMED: usize = 4;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What is wrong with the rules of a schema.
pub(super) fn check(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut checker = Checker { errors: Vec::new(), total: 0, expensive: Vec::new(), rules: 0 };
    checker.schema(
        schema,
        &Scope { path: path.to_owned(), place: ObjectKind::Resource, many: Some(1), unmatched: None },
    );
    checker.finish(path)
}

/// Where a schema is.
struct Scope {
    path: String,
    place: ObjectKind,
    /// How many values of it an object can have; nothing, if that has no bound.
    many: Option<u64>,
    /// The list around it whose items have no past.
    unmatched: Option<String>,
}

struct Checker {
    errors: Vec<FieldError>,
    total: u64,
    expensive: Vec<(u64, String)>,
    rules: usize,
}

impl Checker {
    fn finish(mut self, path: &str) -> Vec<FieldError> {
        if self.rules > RULES {
            let words = format!("a version may have at most {RULES} rules");
            self.errors.push(FieldError::forbidden(path, words));
        }
        if self.total > VERSION {
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            let words =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            let named = self.expensive.iter().take(NAMED);
            self.errors.extend(named.map(|(_, field)| FieldError::forbidden(field, words)));
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(path, exceeds(what, self.total, VERSION)));
        }
        self.errors
    }

    fn schema(&mut self, schema: &Schema, scope: &Scope) {
        let before = self.errors.len();
        let many = scope.many.zip(elements(schema)).map(|(many, each)| many.saturating_mul(each));
        for (step, child) in schema.children() {
            let unmatched = match scope.unmatched.clone() {
                None if step == "items" && schema.extensions.list_type != Some(ListType::Map) => {
                    Some(scope.path.clone())
                }
                other => other,
            };
            let path = format!("{}.{step}", scope.path);
            self.schema(child, &Scope { path, place: child.object_kind(), many, unmatched });
        }
        let drafts: Vec<Draft<'_>> = schema.extensions.validations.iter().map(Draft::read).collect();
        let field = |at: usize, key: &str| format!("{}.x-kubernetes-validations[{at}].{key}", scope.path);
        for (at, draft) in drafts.iter().enumerate() {
            self.fields(draft, schema, |key| field(at, key));
        }
        // Expressions are looked at once the schema that they speak of is right.
        if self.errors.len() > before {
            return;
        }
        for (at, draft) in drafts.iter().enumerate() {
            self.rules += 1;
            if self.rules <= RULES {
                self.expressions(draft, schema, scope, |key| field(at, key));
            }
        }
    }

    fn fields(&mut self, draft: &Draft<'_>, schema: &Schema, field: impl Fn(&str) -> String) {
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let (rule, message) = (draft.rule.trim(), draft.message.trim());
        let errors = &mut self.errors;
        if rule.is_empty() {
            errors.push(FieldError::required(field("rule"), "rule is not specified"));
        } else if !draft.message.is_empty() && message.is_empty() {
            let words = "must be non-empty if specified";
            errors.push(FieldError::invalid(field("message"), draft.message, words));
        } else if breaks(message) {
            let words = "must not contain line breaks";
            errors.push(FieldError::invalid(field("message"), draft.message, words));
        } else if breaks(rule) && message.is_empty() {
            let words = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(field("message"), words));
        }
        if !draft.message_expression.is_empty() && draft.message_expression.trim().is_empty() {
            let words = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(field("messageExpression"), words));
        }
        if let Some(reason) = draft.reason.filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(field("reason"), reason, &REASONS));
        }
        let path = draft.field_path;
        if path.is_empty() {
            return;
        }
        if path.trim().is_empty() {
            errors.push(FieldError::invalid(field("fieldPath"), path, "must be non-empty if specified"));
        }
        if breaks(path) {
            errors.push(FieldError::invalid(field("fieldPath"), path, "must not contain line breaks"));
        }
        if field_path(path, schema).is_none() {
            errors.push(FieldError::invalid(field("fieldPath"), path, "must be a valid path"));
        }
    }

    fn expressions(
        &mut self,
        draft: &Draft<'_>,
        schema: &Schema,
        scope: &Scope,
        field: impl Fn(&str) -> String,
    ) {
        let examined = examine(draft, schema, scope.place);
        match examined.rule {
            Err(why) => self.errors.push(FieldError::invalid(field("rule"), draft.rule, why)),
            Ok(cost) => {
                let many = scope.many.unwrap_or_else(|| cardinality(schema));
                self.cost("estimated rule cost", cost.saturating_mul(many), field("rule"));
            }
        }
        let key = "messageExpression";
        match examined.message_expression {
            None => {}
            Some(Err(why)) => {
                self.errors.push(FieldError::invalid(field(key), draft.message_expression, why));
            }
            Some(Ok(cost)) => self.cost("estimated messageExpression cost", cost, field(key)),
        }
        match (examined.uses_old_self, &scope.unmatched, draft.optional_old_self) {
            (true, Some(list), _) => {
                let words = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors.push(FieldError::invalid(field("rule"), draft.rule, words));
            }
            (false, _, Some(set)) => {
                let words = "may not be set if oldSelf is not used in rule";
                self.errors.push(FieldError::invalid(field("optionalOldSelf"), set, words));
            }
            _ => {}
        }
    }

    fn cost(&mut self, what: &str, cost: u64, field: String) {
        self.total = self.total.saturating_add(cost);
        if cost > RULE {
            self.errors.push(FieldError::forbidden(&field, exceeds(what, cost, RULE)));
        }
        if cost >= VERSION / 100 {
            self.expensive.push((cost, field));
        }
    }
}

/// How many values a value of this schema holds; nothing, if that has no bound.
fn elements(schema: &Schema) -> Option<u64> {
    match schema.kind {
        Some(Type::Array) => bound(schema.rules.max_items),
        Some(Type::Object) if schema.additional.is_some() => bound(schema.rules.max_properties),
        _ => Some(1),
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
