//! The rules of a schema (`x-kubernetes-validations`), and what is wrong with an object by them: which rules apply to
//! which values, what a rule is told of the past, and in what words a failure is told.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bellwether_cel::{Failure, Input, ObjectKind, Output, Program, Schema as _};
use serde_json::{Map, Value as Json};

use crate::field::{FieldError, Wrong};
use crate::schema::{Correlated, KeyedItems, Part, Schema};

/// What one evaluation and all of an object may cost.
const EVALUATION: u64 = 1_000_000;
const OBJECT: u64 = 10_000_000;
/// How long the words that an expression makes may be.
const MESSAGE: usize = 5 * 1024;

/// The rules of one version of a kind, compiled when first used.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    compiled: OnceLock<Option<Ruling>>,
}

impl Rules {
    /// Whether there are any.
    pub(crate) fn any(&self, schema: &Schema) -> bool {
        self.compiled.get_or_init(|| Ruling::of(schema)).is_some()
    }

    /// What is wrong with an object that its schema accepts.
    pub(crate) fn judge(
        &self,
        schema: &Schema,
        object: &Map<String, Json>,
        old: Option<&Map<String, Json>>,
    ) -> Vec<FieldError> {
        let Some(ruling) = self.compiled.get_or_init(|| Ruling::of(schema)) else { return Vec::new() };
        let mut court = Court { errors: Vec::new(), budget: OBJECT };
        let case = Case {
            schema,
            place: ObjectKind::Resource,
            new: Part::Object(object),
            old: old.map(Part::Object),
            past: match old {
                Some(old) => Past::Known(Correlated::root(schema, object, old)),
                None => Past::None,
            },
            path: String::new(),
        };
        // Budget spent is an error already told.
        let _ = court.judge(ruling, &case);
        court.errors
    }
}

/// A rule as it is written.
pub(crate) struct Draft<'d> {
    pub(crate) rule: &'d str,
    pub(crate) message: &'d str,
    pub(crate) message_expression: &'d str,
    pub(crate) reason: Option<&'d str>,
    pub(crate) field_path: &'d str,
    pub(crate) optional_old_self: Option<bool>,
}

impl<'d> Draft<'d> {
    pub(crate) fn read(rule: &'d Json) -> Self {
        let text = |key: &str| rule.get(key).and_then(Json::as_str);
        Self {
            rule: text("rule").unwrap_or_default(),
            message: text("message").unwrap_or_default(),
            message_expression: text("messageExpression").unwrap_or_default(),
            reason: text("reason"),
            field_path: text("fieldPath").unwrap_or_default(),
            optional_old_self: rule.get("optionalOldSelf").and_then(Json::as_bool),
        }
    }

    /// What a failure of the rule is called.
    fn wrong(&self) -> Wrong {
        match self.reason {
            Some("FieldValueRequired") => Wrong::Required,
            Some("FieldValueForbidden") => Wrong::Forbidden,
            Some("FieldValueDuplicate") => Wrong::Duplicate,
            _ => Wrong::Invalid,
        }
    }
}

/// A rule that can be evaluated.
#[derive(Debug)]
struct Rule {
    program: Result<Program, String>,
    /// What the rule says of itself: its message, else its text.
    words: String,
    message: String,
    message_expression: Option<Program>,
    wrong: Wrong,
    field_path: String,
    optional_old_self: bool,
}

impl Rule {
    fn compile(draft: &Draft<'_>, schema: &Schema) -> Self {
        let (message, rule) = (draft.message.trim(), draft.rule.trim());
        let expression = draft.message_expression;
        Self {
            program: Program::parse(draft.rule).map_err(|error| error.kubernetes_report()),
            words: if message.is_empty() { rule } else { message }.to_owned(),
            message: if message.is_empty() { format!("failed rule: {rule}") } else { message.to_owned() },
            message_expression: (!expression.is_empty()).then(|| Program::parse(expression).ok()).flatten(),
            wrong: draft.wrong(),
            field_path: super::paths::normalised(draft.field_path, schema).unwrap_or_default(),
            optional_old_self: draft.optional_old_self.unwrap_or(false),
        }
    }
}

/// The rules of a schema and of all below it.
#[derive(Debug, Default)]
struct Ruling {
    rules: Vec<Rule>,
    all_of: Vec<Ruling>,
    properties: BTreeMap<String, Ruling>,
    additional: Option<Box<Ruling>>,
    items: Option<Box<Ruling>>,
}

impl Ruling {
    fn of(schema: &Schema) -> Option<Self> {
        Self::along(schema, schema)
    }

    /// The rules that `source` has for values of `schema`, which differ only inside of `allOf`.
    fn along(source: &Schema, schema: &Schema) -> Option<Self> {
        let drafts = source.extensions.validations.iter().map(Draft::read);
        let named = source.properties.iter().filter_map(|(name, field)| {
            Some((name.clone(), Self::along(field, schema.properties.get(name)?)?))
        });
        let boxed =
            |source: Option<&Schema>, schema: Option<&Schema>| Self::along(source?, schema?).map(Box::new);
        let ruling = Self {
            rules: drafts.map(|draft| Rule::compile(&draft, schema)).collect(),
            all_of: source.rules.all_of.iter().filter_map(|also| Self::along(also, schema)).collect(),
            properties: named.collect(),
            additional: boxed(
                source.additional.as_ref().and_then(|more| more.schema()),
                schema.additional.as_ref().and_then(|more| more.schema()),
            ),
            items: boxed(source.items.as_deref(), schema.items.as_deref()),
        };
        let empty = ruling.rules.is_empty()
            && ruling.all_of.is_empty()
            && ruling.properties.is_empty()
            && ruling.additional.is_none()
            && ruling.items.is_none();
        (!empty).then_some(ruling)
    }
}

/// What is known of the past of a value, for errors that are none if nothing changed.
#[derive(Clone, Copy)]
enum Past<'a> {
    None,
    Known(Correlated<'a>),
    /// It has no past of its own; this is the nearest around it that has.
    Around(Correlated<'a>),
}

impl<'a> Past<'a> {
    fn unchanged(self) -> bool {
        match self {
            Self::None => false,
            Self::Known(correlated) | Self::Around(correlated) => correlated.unchanged(),
        }
    }

    fn below(self, step: impl FnOnce(Correlated<'a>) -> Option<Correlated<'a>>) -> Self {
        match self {
            Self::Known(correlated) => step(correlated).map_or(Self::Around(correlated), Self::Known),
            other => other,
        }
    }

    fn key(self, name: &str, root: bool) -> Self {
        if root && matches!(name, "apiVersion" | "kind") {
            return Self::None;
        }
        self.below(|correlated| correlated.key(name))
    }
}

/// One value to be judged.
struct Case<'a> {
    schema: &'a Schema,
    place: ObjectKind,
    new: Part<'a>,
    /// The value that transition rules compare with.
    old: Option<Part<'a>>,
    past: Past<'a>,
    path: String,
}

struct Court {
    errors: Vec<FieldError>,
    budget: u64,
}

/// The budget is spent: nothing more is judged.
struct Spent;

impl Court {
    fn judge(&mut self, ruling: &Ruling, case: &Case<'_>) -> Result<(), Spent> {
        if case.new.is_null() {
            return Ok(());
        }
        self.apply(ruling, case)?;
        for also in &ruling.all_of {
            let past = match case.past {
                Past::Known(_) => Past::None,
                other => other,
            };
            self.judge(also, &Case { past, path: case.path.clone(), ..*case })?;
        }
        self.judge_items(ruling, case)?;
        self.judge_fields(ruling, case)
    }

    fn judge_items(&mut self, ruling: &Ruling, case: &Case<'_>) -> Result<(), Spent> {
        let (Some(below), Some(schema), Some(items)) =
            (&ruling.items, case.schema.items.as_deref(), case.new.items())
        else {
            return Ok(());
        };
        let old = KeyedItems::of(case.schema, case.old.and_then(Part::items));
        let correlated = match case.past {
            Past::Known(correlated) => correlated.items(),
            _ => None,
        };
        for (at, item) in items.iter().enumerate() {
            let past = case.past.below(|_| correlated.as_ref().and_then(|items| items.at(at)));
            self.judge(
                below,
                &Case {
                    schema,
                    place: schema.object_kind(),
                    new: item.into(),
                    old: old.like(item).map(Part::from),
                    past,
                    path: format!("{}[{at}]", case.path),
                },
            )?;
        }
        Ok(())
    }

    fn judge_fields(&mut self, ruling: &Ruling, case: &Case<'_>) -> Result<(), Spent> {
        let Some(object) = case.new.object() else { return Ok(()) };
        let root = case.path.is_empty();
        let old = case.old.and_then(Part::object);
        for (name, value) in object {
            let property = case.schema.properties.get(name).map(AsRef::as_ref);
            let named = ruling.properties.get(name).zip(property);
            let like = case.schema.additional.as_ref().and_then(|more| more.schema());
            let (below, schema, path) = match (named, ruling.additional.as_deref().zip(like)) {
                (Some((below, schema)), _) if root => (below, schema, name.clone()),
                (Some((below, schema)), _) => (below, schema, format!("{}.{name}", case.path)),
                (None, Some((below, schema))) => (below, schema, format!("{}[{name}]", case.path)),
                (None, None) => continue,
            };
            self.judge(
                below,
                &Case {
                    schema,
                    place: schema.object_kind(),
                    new: value.into(),
                    old: old.and_then(|old| old.get(name)).filter(|old| !old.is_null()).map(Part::from),
                    past: case.past.key(name, root),
                    path,
                },
            )?;
        }
        Ok(())
    }

    /// Applies the rules of one value.
    fn apply(&mut self, ruling: &Ruling, case: &Case<'_>) -> Result<(), Spent> {
        if ruling.rules.is_empty() {
            return Ok(());
        }
        if self.budget == 0 {
            return self.out_of_budget(case);
        }
        let Some(this) = seen(case.new, case) else { return Ok(()) };
        let before = case.old.and_then(|old| seen(old, case));
        for rule in &ruling.rules {
            let program = match &rule.program {
                Ok(program) => program,
                Err(why) => {
                    self.wrong(case, format!("rule compile error: {why}"));
                    continue;
                }
            };
            if program.uses("oldSelf") && before.is_none() && !rule.optional_old_self {
                continue;
            }
            let mut variables = vec![("self", this.clone())];
            if rule.optional_old_self {
                variables.push(("oldSelf", Input::optional(before.clone())));
            } else if let Some(before) = &before {
                variables.push(("oldSelf", before.clone()));
            }
            match self.evaluate(program, &variables).map(|output| output.as_bool()) {
                Ok(Some(true)) => {}
                Ok(Some(false)) => self.refuse(rule, program, &variables, case)?,
                Ok(None) | Err(Failure::NoSuchOverload) => self.wrong(
                    case,
                    format!(
                        "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: {}",
                        rule.words
                    ),
                ),
                Err(Failure::CostLimitExceeded) if self.budget == 0 => return self.out_of_budget(case),
                Err(failure @ Failure::CostLimitExceeded) => {
                    self.wrong(
                        case,
                        format!(
                            "'{failure}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                            rule.words
                        ),
                    );
                    return Err(Spent);
                }
                Err(failure) => self.wrong(case, format!("{failure} evaluating rule: {}", rule.words)),
            }
        }
        Ok(())
    }

    fn evaluate<'a>(
        &mut self,
        program: &'a Program,
        variables: &[(&'a str, Input<'a>)],
    ) -> Result<Output<'a>, Failure> {
        let evaluated = program.evaluate(variables, EVALUATION.min(self.budget));
        self.budget = self.budget.saturating_sub(evaluated.cost);
        evaluated.outcome
    }

    /// Tells that a rule does not hold, unless nothing changed.
    fn refuse(
        &mut self,
        rule: &Rule,
        program: &Program,
        variables: &[(&str, Input<'_>)],
        case: &Case<'_>,
    ) -> Result<(), Spent> {
        if !program.uses("oldSelf") && case.past.unchanged() {
            return Ok(());
        }
        let message = match &rule.message_expression {
            None => None,
            Some(expression) => match self.evaluate(expression, variables) {
                Ok(value) => {
                    value.as_str().map(str::trim).filter(|text| presentable(text)).map(str::to_owned)
                }
                Err(Failure::CostLimitExceeded) => {
                    let words = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
                    self.wrong(case, words.to_owned());
                    return Err(Spent);
                }
                Err(_) => None,
            },
        };
        let detail = message.unwrap_or_else(|| rule.message.clone());
        let field = match (case.path.as_str(), rule.field_path.as_str()) {
            ("", "") => "<nil>".to_owned(),
            ("", below) => below.to_owned(),
            (path, "") => path.to_owned(),
            (path, below) => format!("{path}.{below}"),
        };
        let value = match case.new {
            Part::Other(value) if !value.is_array() => Some(value.clone()),
            _ => None,
        };
        self.errors.push(match rule.wrong {
            wrong @ (Wrong::Required | Wrong::Forbidden) => FieldError::new(wrong, field, None, detail),
            Wrong::Duplicate => FieldError::new(Wrong::Duplicate, field, value, ""),
            wrong => FieldError::new(wrong, field, value, detail),
        });
        Ok(())
    }

    fn out_of_budget(&mut self, case: &Case<'_>) -> Result<(), Spent> {
        let words =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.wrong(case, words.to_owned());
        Err(Spent)
    }

    /// An error of the rule rather than of the value.
    fn wrong(&mut self, case: &Case<'_>, words: String) {
        let field = if case.path.is_empty() { "<nil>" } else { &case.path };
        let kind = case.schema.kind.map(|kind| kind.name()).unwrap_or_default();
        self.errors.push(FieldError::invalid(field, kind, words));
    }
}

/// A value as rules see it.
fn seen<'a>(part: Part<'a>, case: &Case<'a>) -> Option<Input<'a>> {
    match part {
        Part::Object(object) => Input::object(object, case.schema, case.place),
        Part::Other(value) => Input::new(value, case.schema, case.place),
    }
}

fn presentable(text: &str) -> bool {
    !text.is_empty() && text.len() <= MESSAGE && !text.contains('\n')
}
