//! Evaluates the tree of a template within limits of output and steps.

use jiff::Timestamp;
use serde_json::{Map, Value as Json};

use super::functions::{self, Function};
use super::parser::{Command, Node, Operand, Pipeline};
use super::value::Value;
use super::{TemplateError, TemplateErrorKind};

/// The longest output.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;
/// The most actions and loop iterations of one rendering.
const MAX_STEPS: usize = 100_000;

pub(super) fn render(nodes: &[Node], variables: &Json, now: Timestamp) -> Result<String, TemplateError> {
    let mut rendering =
        Rendering { root: variables, now, output: String::new(), steps: 0, variables: Vec::new() };
    rendering.nodes(nodes, Dot::Root)?;
    Ok(rendering.output)
}

/// What `.` is: all variables, which are large and not copied, or a value of `range` or `with`.
#[derive(Clone, Copy)]
enum Dot<'d> {
    Root,
    Value(&'d Value),
}

struct Rendering<'v> {
    root: &'v Json,
    now: Timestamp,
    output: String,
    steps: usize,
    variables: Vec<(String, Value)>,
}

impl Rendering<'_> {
    fn step(&mut self) -> Result<(), TemplateError> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            let message = format!("the template takes more than {MAX_STEPS} steps");
            return Err(TemplateError::new(TemplateErrorKind::Limit, 0, message));
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.output.len() + text.len() > MAX_OUTPUT_BYTES {
            let message = format!("the output has more than {MAX_OUTPUT_BYTES} bytes");
            return Err(TemplateError::new(TemplateErrorKind::Limit, 0, message));
        }
        self.output.push_str(text);
        Ok(())
    }

    fn nodes(&mut self, nodes: &[Node], dot: Dot<'_>) -> Result<(), TemplateError> {
        let declared = self.variables.len();
        for node in nodes {
            self.step()?;
            self.node(node, dot)?;
        }
        self.variables.truncate(declared);
        Ok(())
    }

    fn node(&mut self, node: &Node, dot: Dot<'_>) -> Result<(), TemplateError> {
        match node {
            Node::Text(text) => self.write(text),
            Node::Action(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                let text = value.text().ok_or_else(|| null_error(pipeline))?;
                self.write(&text)
            }
            Node::Set { name, declares, pipeline } => {
                let value = self.pipeline(pipeline, dot)?;
                let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
                match known {
                    Some((_, known)) if !declares => *known = value,
                    _ => self.variables.push((name.clone(), value)),
                }
                Ok(())
            }
            Node::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.pipeline(condition, dot)?.is_true() {
                        return self.nodes(body, dot);
                    }
                }
                self.nodes(otherwise, dot)
            }
            Node::With { variable, pipeline, body, otherwise } => {
                let value = self.pipeline(pipeline, dot)?;
                if !value.is_true() {
                    return self.nodes(otherwise, dot);
                }
                let declared = self.variables.len();
                self.variables.extend(variable.iter().map(|name| (name.clone(), value.clone())));
                self.nodes(body, Dot::Value(&value))?;
                self.variables.truncate(declared);
                Ok(())
            }
            Node::Range { key, value, pipeline, body, otherwise } => {
                let items = self.items(pipeline, dot)?;
                if items.is_empty() {
                    return self.nodes(otherwise, dot);
                }
                for (index, item) in items {
                    let declared = self.variables.len();
                    self.variables.extend(key.iter().map(|name| (name.clone(), index.clone())));
                    self.variables.extend(value.iter().map(|name| (name.clone(), item.clone())));
                    self.nodes(body, Dot::Value(&item))?;
                    self.variables.truncate(declared);
                }
                Ok(())
            }
        }
    }

    fn items(&mut self, pipeline: &Pipeline, dot: Dot<'_>) -> Result<Vec<(Value, Value)>, TemplateError> {
        match self.pipeline(pipeline, dot)? {
            Value::Json(Json::Array(items)) => {
                let indexed = items.into_iter().enumerate();
                Ok(indexed.map(|(index, item)| (Value::Json(index.into()), Value::Json(item))).collect())
            }
            Value::Json(Json::Object(entries)) => {
                // Go ranges over maps in the order of their keys.
                let mut entries: Vec<(String, Json)> = entries.into_iter().collect();
                entries.sort_by(|(left, _), (right, _)| left.cmp(right));
                Ok(entries
                    .into_iter()
                    .map(|(key, item)| (Value::Json(key.into()), Value::Json(item)))
                    .collect())
            }
            Value::Json(Json::Null) => Ok(Vec::new()),
            other => {
                let message = format!("range takes a list or a map, and the value is {}", other.type_name());
                Err(TemplateError::value(offset_of(pipeline), message))
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: Dot<'_>) -> Result<Value, TemplateError> {
        let mut piped = None;
        for command in &pipeline.commands {
            self.step()?;
            piped = Some(self.command(command, piped, dot)?);
        }
        Ok(piped.unwrap_or(Value::Json(Json::Null)))
    }

    fn command(
        &mut self,
        command: &Command,
        piped: Option<Value>,
        dot: Dot<'_>,
    ) -> Result<Value, TemplateError> {
        let Some(((first, at), arguments)) = command.operands.split_first() else {
            return Ok(Value::Json(Json::Null));
        };
        let Operand::Function(function) = first else { return self.operand(first, *at, dot) };
        if let Function::And | Function::Or = function {
            return self.short_circuit(*function, arguments, piped, dot);
        }
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for (argument, at) in arguments {
            values.push(self.operand(argument, *at, dot)?);
        }
        values.extend(piped);
        functions::call(*function, &values, self.now).map_err(|message| TemplateError::value(*at, message))
    }

    /// `and` returns the first false argument, `or` the first true one, else the last; later ones are not evaluated.
    fn short_circuit(
        &mut self,
        function: Function,
        arguments: &[(Operand, usize)],
        piped: Option<Value>,
        dot: Dot<'_>,
    ) -> Result<Value, TemplateError> {
        let mut last = Value::Json(Json::Null);
        for (argument, at) in arguments {
            last = self.operand(argument, *at, dot)?;
            if last.is_true() == (function == Function::Or) {
                return Ok(last);
            }
        }
        Ok(piped.unwrap_or(last))
    }

    fn operand(&mut self, operand: &Operand, at: usize, dot: Dot<'_>) -> Result<Value, TemplateError> {
        match operand {
            Operand::Literal(value) => Ok(Value::Json(value.clone())),
            Operand::Function(function) => {
                functions::call(*function, &[], self.now).map_err(|message| TemplateError::value(at, message))
            }
            Operand::Field(names) => match dot {
                Dot::Root => json_field(self.root, names, at),
                Dot::Value(value) => field(value, names, at),
            },
            Operand::Nested(pipeline, names) => {
                let value = self.pipeline(pipeline, dot)?;
                field(&value, names, at)
            }
            Operand::Variable(name, names) if name.is_empty() => json_field(self.root, names, at),
            Operand::Variable(name, names) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) =
                    known.ok_or_else(|| TemplateError::value(at, format!("${name} is not defined")))?;
                field(value, names, at)
            }
        }
    }
}

/// The value below these names. A name that does not exist is an error.
fn field(value: &Value, names: &[String], at: usize) -> Result<Value, TemplateError> {
    match (value, names.first()) {
        (value, None) => Ok(value.clone()),
        (Value::Json(json), Some(_)) => json_field(json, names, at),
        (Value::Time(_), Some(name)) => {
            Err(TemplateError::value(at, format!("a time has no field {name:?}")))
        }
    }
}

fn json_field(json: &Json, names: &[String], at: usize) -> Result<Value, TemplateError> {
    let mut found = json;
    let mut path = String::new();
    for name in names {
        path.push('.');
        path.push_str(name);
        found = match found {
            Json::Object(entries) => entries.get(name).ok_or_else(|| missing(&path, entries, at))?,
            other => {
                let kind = Value::Json(other.clone()).type_name();
                return Err(TemplateError::value(
                    at,
                    format!("{path} cannot be read, because its parent is {kind}"),
                ));
            }
        };
    }
    Ok(Value::Json(found.clone()))
}

fn missing(path: &str, known: &Map<String, Json>, at: usize) -> TemplateError {
    let known: Vec<&str> = known.keys().take(12).map(String::as_str).collect();
    TemplateError::value(at, format!("{path} has no value; known here: {}", known.join(", ")))
}

fn offset_of(pipeline: &Pipeline) -> usize {
    let first = pipeline.commands.first().and_then(|command| command.operands.first());
    first.map_or(0, |(_, at)| *at)
}

fn null_error(pipeline: &Pipeline) -> TemplateError {
    TemplateError::value(
        offset_of(pipeline),
        "the value is null; give a value instead with `| default \"…\"`",
    )
}
