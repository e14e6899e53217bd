//! The subset of Go's `text/template` that adapter configurations use. A template is compiled once and rendered for each
//! event; output and steps are limited. A missing key is an error, as with Go's option `missingkey=error`.

mod functions;
mod lexer;
mod parser;
mod render;
#[cfg(test)]
mod tests;
mod time_layout;
mod value;

use jiff::Timestamp;
use serde_json::Value;

use parser::{Node, Pipeline};
pub use time_layout::format_time;

/// What is wrong with a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateErrorKind {
    /// The template cannot be parsed.
    Syntax,
    /// The template uses a variable or function that does not exist.
    Undefined,
    /// A value is missing, or has the wrong type.
    Value,
    /// The template exceeds a limit.
    Limit,
}

/// Why a template cannot be compiled or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// What kind of error it is.
    pub kind: TemplateErrorKind,
    /// Where, in bytes from the beginning of the template.
    pub offset: usize,
    /// The error, for people.
    pub message: String,
}

impl TemplateError {
    fn new(kind: TemplateErrorKind, offset: usize, message: impl Into<String>) -> Self {
        Self { kind, offset, message: message.into() }
    }

    fn syntax(offset: usize, message: impl Into<String>) -> Self {
        Self::new(TemplateErrorKind::Syntax, offset, message)
    }

    fn value(offset: usize, message: impl Into<String>) -> Self {
        Self::new(TemplateErrorKind::Value, offset, message)
    }
}

/// The names of all functions.
pub fn function_names() -> Vec<&'static str> {
    functions::Function::names()
}

/// A compiled template.
///
/// ```
/// use bellwether_adapter::template::Template;
/// use serde_json::json;
///
/// let template = Template::compile("mw-{{ .clusterId | lower }}")?;
/// let rendered = template.render(&json!({"clusterId": "ABC"}), jiff::Timestamp::UNIX_EPOCH)?;
/// assert_eq!(rendered, "mw-abc");
/// # Ok::<(), bellwether_adapter::template::TemplateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    text: String,
    nodes: Vec<Node>,
}

impl Template {
    /// Parses a template, and checks that every function exists and gets the right number of arguments.
    pub fn compile(text: &str) -> Result<Self, TemplateError> {
        Ok(Self { text: text.to_owned(), nodes: parser::parse(text)? })
    }

    /// The text of the template.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Renders the template with these variables at this time.
    pub fn render(&self, variables: &Value, now: Timestamp) -> Result<String, TemplateError> {
        render::render(&self.nodes, variables, now)
    }

    /// The names of the variables that the template reads, each with its offset: `.a` and `$.a` where `.` is the set of
    /// all variables.
    pub fn variables(&self) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        collect(&self.nodes, true, &mut found);
        found
    }
}

fn collect(nodes: &[Node], dot_is_root: bool, found: &mut Vec<(String, usize)>) {
    for node in nodes {
        match node {
            Node::Text(_) => {}
            Node::Action(pipeline) | Node::Set { pipeline, .. } => {
                collect_pipeline(pipeline, dot_is_root, found);
            }
            Node::If { branches, otherwise } => {
                for (pipeline, body) in branches {
                    collect_pipeline(pipeline, dot_is_root, found);
                    collect(body, dot_is_root, found);
                }
                collect(otherwise, dot_is_root, found);
            }
            Node::Range { pipeline, body, otherwise, .. } | Node::With { pipeline, body, otherwise, .. } => {
                collect_pipeline(pipeline, dot_is_root, found);
                collect(body, false, found);
                collect(otherwise, dot_is_root, found);
            }
        }
    }
}

fn collect_pipeline(pipeline: &Pipeline, dot_is_root: bool, found: &mut Vec<(String, usize)>) {
    use parser::Operand;
    for command in &pipeline.commands {
        for (operand, at) in &command.operands {
            match operand {
                Operand::Field(names) if dot_is_root => {
                    found.extend(names.first().map(|name| (name.clone(), *at)));
                }
                Operand::Variable(variable, names) if variable.is_empty() => {
                    found.extend(names.first().map(|name| (name.clone(), *at)));
                }
                Operand::Nested(inner, _) => collect_pipeline(inner, dot_is_root, found),
                Operand::Field(_) | Operand::Variable(..) | Operand::Literal(_) | Operand::Function(_) => {}
            }
        }
    }
}
