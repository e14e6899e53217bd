//! Compiles templates and expressions while a file is read, and checks that they use only variables that exist there.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::fields::Reader;
use super::node::{Content, Node, Source, line_and_column, read_limited};
use super::task::{Build, Tree, ValueSource};
use crate::expression::Expression;
use crate::template::Template;

/// Variables that exist everywhere.
const BUILT_IN: [&str; 5] = ["adapter", "config", "env", "event", "resources"];

/// The variables that exist at one point of the configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    names: Vec<String>,
}

impl Variables {
    pub(super) fn add(&mut self, name: &str) {
        if !self.has(name) {
            self.names.push(name.to_owned());
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        BUILT_IN.contains(&name) || self.names.iter().any(|known| known == name)
    }

    fn all(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).chain(BUILT_IN).collect()
    }

    fn describe(&self) -> String {
        self.all().join(", ")
    }
}

/// Whether the names of an expression must be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Known,
    /// The fields of a response are variables too.
    WithResponse,
}

impl Reader<'_> {
    pub(super) fn template(&mut self, what: &str, node: &Node, variables: &Variables) -> Option<Template> {
        let text = self.string(what, node)?;
        self.compile_template(&text, variables, |source, offset| {
            let (line, column) = line_and_column(&text, offset);
            source.inside(node.at, line, column)
        })
    }

    fn compile_template(
        &mut self,
        text: &str,
        variables: &Variables,
        place: impl Fn(&Source, usize) -> super::node::Place,
    ) -> Option<Template> {
        let template = match Template::compile(text) {
            Ok(template) => template,
            Err(error) => {
                self.error(place(self.source, error.offset), format!("invalid template: {error}"));
                return None;
            }
        };
        for (name, offset) in template.variables() {
            if !variables.has(&name) {
                let message = format!(
                    "undefined variable .{name} in a template; defined here: {}",
                    variables.describe()
                );
                self.error(place(self.source, offset), message);
            }
        }
        Some(template)
    }

    pub(super) fn expression(
        &mut self,
        what: &str,
        node: &Node,
        variables: &Variables,
        names: Names,
    ) -> Option<Expression> {
        let text = self.string(what, node)?;
        let compiled = match names {
            Names::Known => Expression::compile(&text, &variables.all()),
            Names::WithResponse => Expression::compile_open(&text, &variables.all()),
        };
        compiled
            .map_err(|error| {
                let at = match error.position() {
                    Some(position) => self.source.inside(node.at, position.line, position.column),
                    None => node.at,
                };
                // The message begins with the place in the expression, which is in front as the place in the file.
                let message = error.to_string();
                let message = match error.position() {
                    Some(position) => message.trim_start_matches(&format!("{position}: ")).to_owned(),
                    None => message,
                };
                let message =
                    format!("invalid CEL expression: {message}; variables here: {}", variables.describe());
                self.error(at, message);
            })
            .ok()
    }

    /// `when: "<CEL>"` or `when: {expression: "<CEL>"}`.
    pub(super) fn when(&mut self, node: Option<&Node>, variables: &Variables) -> Option<Expression> {
        let node = node?;
        if let Content::Map(_) = node.content {
            let mut fields = self.fields("`when`", node)?;
            let expression = fields.require("expression", self);
            let compiled = expression
                .and_then(|node| self.expression("`when.expression`", node, variables, Names::Known));
            fields.finish(self);
            return compiled;
        }
        self.expression("`when`", node, variables, Names::Known)
    }

    /// A value whose strings are templates.
    pub(super) fn tree(&mut self, node: &Node, variables: &Variables) -> Tree {
        match &node.content {
            Content::Scalar(Json::String(text)) if text.contains("{{") => {
                self.template("a value", node, variables).map_or(Tree::Literal(Json::Null), Tree::Text)
            }
            Content::Scalar(value) => Tree::Literal(value.clone()),
            Content::List(items) => Tree::List(items.iter().map(|item| self.tree(item, variables)).collect()),
            Content::Map(entries) => {
                let mut tree = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let place = |source: &Source, offset: usize| {
                        let (line, column) = line_and_column(&key.name, offset);
                        source.inside(key.at, line, column)
                    };
                    let name = self.compile_template(&key.name, variables, place);
                    let value = self.tree(value, variables);
                    tree.extend(name.map(|name| (name, value)));
                }
                Tree::Map(tree)
            }
        }
    }

    /// The content of a payload: like a tree, where `{expression: …}` and `{field: …}` are computed.
    pub(super) fn build(&mut self, node: &Node, variables: &Variables) -> Build {
        match &node.content {
            Content::Scalar(Json::String(text)) if text.contains("{{") => {
                self.template("a value", node, variables).map_or(Build::Literal(Json::Null), Build::Text)
            }
            Content::Scalar(value) => Build::Literal(value.clone()),
            Content::List(items) => {
                Build::List(items.iter().map(|item| self.build(item, variables)).collect())
            }
            Content::Map(entries) => {
                let has = |name: &str| entries.iter().any(|(key, _)| key.name == name);
                let is_value = |(key, _): &(_, _)| {
                    matches!(name_of(key), "expression" | "field" | "default" | "description")
                };
                if (has("expression") || has("field")) && entries.iter().all(is_value) {
                    let built = self.value_source("a value", node, variables, Names::Known);
                    return built.map_or(Build::Literal(Json::Null), |(source, default)| {
                        Build::Value(source, default)
                    });
                }
                let entries =
                    entries.iter().map(|(key, value)| (key.name.clone(), self.build(value, variables)));
                Build::Map(entries.collect())
            }
        }
    }

    /// `{expression | field, default}`.
    pub(super) fn value_source(
        &mut self,
        what: &'static str,
        node: &Node,
        variables: &Variables,
        names: Names,
    ) -> Option<(ValueSource, Option<Json>)> {
        let mut fields = self.fields(what, node)?;
        let (expression, field) = (fields.take("expression"), fields.take("field"));
        let default = fields.take("default").map(Node::to_json);
        fields.take("description");
        fields.take("name");
        fields.finish(self);
        let source = match (expression, field) {
            (Some(expression), None) => {
                ValueSource::Expression(self.expression("`expression`", expression, variables, names)?)
            }
            (None, Some(field)) => ValueSource::Field(self.string("`field`", field)?),
            _ => {
                self.error(node.at, format!("{what} must have exactly one of `field` and `expression`"));
                return None;
            }
        };
        Some((source, default))
    }

    /// The path of a file that the configuration names. Relative paths refer to the directory of the configuration.
    pub(super) fn file_path(&self, path: &str) -> PathBuf {
        self.source.directory.join(path)
    }

    /// A file that the configuration names, as a source of its own.
    pub(super) fn referenced_file(&mut self, node: &Node) -> Option<Source> {
        let name = self.string("a path", node)?;
        let path = self.file_path(&name);
        match read_limited(&path) {
            Ok(text) => {
                let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
                Some(Source { path: path.display().to_string(), directory, text })
            }
            Err(cause) => {
                self.error(node.at, format!("{}: {cause}; paths are relative to this file", path.display()));
                None
            }
        }
    }

    /// The text of a file as a template.
    pub(super) fn text_template(
        source: &Source,
        variables: &Variables,
    ) -> Result<Template, Vec<super::ConfigError>> {
        let mut reader = Reader::new(source);
        let template = reader.compile_template(&source.text, variables, |source, offset| {
            let (line, column) = line_and_column(&source.text, offset);
            super::node::Place { line: line as u64, column: column as u64 }
        });
        match template {
            Some(template) if reader.errors.is_empty() => Ok(template),
            _ => Err(reader.errors),
        }
    }
}

fn name_of(key: &super::node::Key) -> &str {
    &key.name
}
