//! Renders API calls, manifests and discoveries with the variables of an execution.

use serde_json::{Map, Value};

use super::Run;
use crate::api::{ApiRequest, request_settings, resolve_url};
use crate::config::{ApiCall, DiscoverBy, Discovery, LogMessage, Manifest, Tree};
use crate::template::Template;

/// A rendered discovery.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) namespace: Option<String>,
    pub(super) by: TargetBy,
}

#[derive(Clone, Debug)]
pub(super) enum TargetBy {
    Name(String),
    Labels(Vec<(String, String)>),
}

impl Run<'_> {
    pub(super) fn render(&self, template: &Template) -> Result<String, String> {
        let rendered = template.render(self.scope.value(), self.now);
        rendered.map_err(|error| {
            format!("the template {:?} cannot be rendered: {error}", shorten(template.text()))
        })
    }

    pub(super) fn render_call(&self, call: &ApiCall) -> Result<ApiRequest, String> {
        let config = &self.adapter().api;
        let mut headers = Vec::with_capacity(call.headers.len());
        for (name, value) in &call.headers {
            headers.push((name.clone(), self.render(value)?));
        }
        let (timeout, attempts, backoff) = request_settings(call, config);
        Ok(ApiRequest {
            method: call.method.clone(),
            url: resolve_url(&self.render(&call.url)?, &config.version),
            headers,
            body: call.body.as_ref().map(|body| self.render(body)).transpose()?,
            timeout,
            attempts,
            backoff,
        })
    }

    pub(super) fn log(&self, log: Option<&LogMessage>) {
        let Some(LogMessage { message, level }) = log else { return };
        let message = self.render(message).unwrap_or_else(|error| error);
        match level.as_str() {
            "debug" => tracing::debug!("{message}"),
            "warning" | "warn" => tracing::warn!("{message}"),
            "error" => tracing::error!("{message}"),
            _ => tracing::info!("{message}"),
        }
    }

    pub(super) fn render_manifest(&self, manifest: &Manifest) -> Result<Value, String> {
        match manifest {
            Manifest::Tree(tree) => self.render_tree(tree),
            Manifest::Text(template) => {
                let text = self.render(template)?;
                let parsed = bellwether_runtime::yaml::parse::<Value>(&text, "the rendered manifest");
                parsed
                    .map_err(|error| error.to_string())?
                    .ok_or_else(|| "the rendered manifest is empty".to_owned())
            }
        }
    }

    fn render_tree(&self, tree: &Tree) -> Result<Value, String> {
        match tree {
            Tree::Literal(value) => Ok(value.clone()),
            Tree::Text(template) => self.render(template).map(Value::String),
            Tree::List(items) => {
                items.iter().map(|item| self.render_tree(item)).collect::<Result<_, _>>().map(Value::Array)
            }
            Tree::Map(entries) => {
                let mut rendered = Map::with_capacity(entries.len());
                for (key, value) in entries {
                    rendered.insert(self.render(key)?, self.render_tree(value)?);
                }
                Ok(Value::Object(rendered))
            }
        }
    }

    pub(super) fn render_discovery(&self, discovery: &Discovery) -> Result<Target, String> {
        let namespace = discovery.namespace.as_ref().map(|namespace| self.render(namespace)).transpose()?;
        let by = match &discovery.by {
            DiscoverBy::Name(name) => TargetBy::Name(self.render(name)?),
            DiscoverBy::Labels(labels) => {
                let rendered = labels.iter().map(|(name, value)| Ok((name.clone(), self.render(value)?)));
                TargetBy::Labels(rendered.collect::<Result<_, String>>()?)
            }
        };
        Ok(Target { namespace: namespace.filter(|namespace| !namespace.is_empty()), by })
    }
}

/// The beginning of a text in one line.
fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_CHARS {
        line
    } else {
        line.chars().take(MAX_CHARS).chain(['…']).collect()
    }
}
