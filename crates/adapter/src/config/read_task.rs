//! Reads the task configuration from its tree: structure, and what templates and expressions may refer to.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::adapter::MAX_ATTEMPTS;
use super::compile::{Names, Variables};
use super::fields::{Fields, Reader};
use super::node::{Content, Node};
use super::task::{
    ApiCall, Build, Capture, Condition, DeleteRule, DiscoverBy, Discovery, LogMessage, Manifest,
    NestedDiscovery, Param, ParamSource, Payload, Post, PostAction, Precondition, Resource, TaskConfig,
    TransportKind,
};
use crate::decide::Operator;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The most params, preconditions, resources, payloads and actions, each.
const MAX_ENTRIES: usize = 200;

/// Reads a task configuration.
pub(super) fn read(node: &Node, reader: &mut Reader<'_>) -> TaskConfig {
    let mut task = TaskConfig::default();
    let mut variables = Variables::default();
    let Some(mut fields) = reader.fields("the task configuration", node) else { return task };
    for node in entries("`params`", fields.take("params"), reader) {
        if let Some(param) = read_param(node, &mut variables, &mut task.env_names, reader) {
            variables.add(&param.name);
            task.params.push(param);
        }
    }
    for node in entries("`preconditions`", fields.take("preconditions"), reader) {
        task.preconditions.extend(read_precondition(node, &mut variables, reader));
    }
    let mut names = BTreeSet::new();
    for node in entries("`resources`", fields.take("resources"), reader) {
        task.resources.extend(read_resource(node, &variables, &mut names, reader));
    }
    if let Some(post) = fields.take("post") {
        task.post = read_post(post, &variables, reader).unwrap_or_default();
    }
    fields.finish(reader);
    task
}

fn entries<'n>(what: &str, node: Option<&'n Node>, reader: &mut Reader<'_>) -> &'n [Node] {
    let items = reader.list(what, node);
    if let Some(excess) = items.get(MAX_ENTRIES) {
        reader.error(excess.at, format!("{what} must have at most {MAX_ENTRIES} entries"));
    }
    items
}

fn read_param(
    node: &Node,
    variables: &mut Variables,
    env_names: &mut Vec<String>,
    reader: &mut Reader<'_>,
) -> Option<Param> {
    let mut fields = reader.fields("a param", node)?;
    let name = read_name("a param", &mut fields, reader);
    let source = fields.require("source", reader);
    let source = source.and_then(|source| read_param_source(source, variables, env_names, reader));
    let kind = fields.take("type");
    let kind = kind.and_then(|node| reader.word("`type`", node, "string, int, int64, float, float64, bool"));
    let required = reader.boolean("`required`", fields.take("required"));
    let default = fields.take("default").map(Node::to_json);
    fields.string("description", reader);
    fields.finish(reader);
    let name = name?;
    if variables.has(&name) {
        reader.error(
            node.at,
            format!("the param {name:?} is defined twice, or has the name of a built-in variable"),
        );
    }
    // A param that cannot be read is still defined, so that its uses are not reported as errors as well.
    let source = source.unwrap_or(ParamSource::Path(String::new()));
    Some(Param { name, source, kind, required, default })
}

/// The name of a variable: a CEL identifier.
fn read_name(what: &str, fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let node = fields.require("name", reader)?;
    let name = reader.string("`name`", node)?;
    let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_identifier {
        reader.error(
            node.at,
            format!("the name of {what} must be letters, digits and '_', and not begin with a digit; found {name:?}"),
        );
    }
    Some(name)
}

fn read_param_source(
    node: &Node,
    variables: &Variables,
    env_names: &mut Vec<String>,
    reader: &mut Reader<'_>,
) -> Option<ParamSource> {
    if let Content::Scalar(_) = node.content {
        let path = reader.string("`source`", node)?;
        let root = path.split(['.', '[']).next().unwrap_or_default();
        if !variables.has(root) {
            let message =
                format!("the source {path:?} must begin with event., env., config. or an earlier param");
            reader.error(node.at, message);
        }
        if let Some(name) = path.strip_prefix("env.") {
            env_names.push(name.to_owned());
        }
        return Some(ParamSource::Path(path));
    }
    let mut fields = reader.fields("`source`", node)?;
    let source = if let Some(call) = fields.take("api_call") {
        read_api_call(call, variables, reader).map(ParamSource::ApiCall)
    } else if let Some(expression) = fields.take("expression") {
        let expression = reader.expression("`expression`", expression, variables, Names::Known);
        expression.map(ParamSource::Expression)
    } else if let Some(file) = fields.take("file") {
        read_file_source(file, reader)
    } else {
        reader.error(node.at, "`source` must be a path, or have one of `api_call`, `expression` and `file`");
        None
    };
    fields.finish(reader);
    source
}

fn read_file_source(node: &Node, reader: &mut Reader<'_>) -> Option<ParamSource> {
    let mut fields = reader.fields("`file`", node)?;
    let path = fields.require("path", reader);
    let trim = fields.take("trim").is_none_or(|node| reader.boolean("`trim`", Some(node)));
    fields.finish(reader);
    let path_node = path?;
    let path = reader.string("`path`", path_node)?;
    let path = reader.file_path(&path);
    if !path.is_file() {
        reader.error(
            path_node.at,
            format!("{}: the file does not exist; paths are relative to this file", path.display()),
        );
    }
    Some(ParamSource::File { path, trim })
}

fn read_api_call(node: &Node, variables: &Variables, reader: &mut Reader<'_>) -> Option<ApiCall> {
    let mut fields = reader.fields("`api_call`", node)?;
    let method_node = fields.require("method", reader);
    let method = method_node.and_then(|node| {
        let method = reader.string("`method`", node)?.to_uppercase();
        if !METHODS.contains(&method.as_str()) {
            reader
                .error(node.at, format!("`method` must be one of {}; found {method:?}", METHODS.join(", ")));
        }
        Some(method)
    });
    let url = fields.require("url", reader);
    let url = url.and_then(|node| reader.template("`url`", node, variables));
    let timeout = fields.take("timeout").and_then(|node| reader.duration("`timeout`", node));
    let retry_attempts = fields.take("retry_attempts");
    let retry_attempts =
        retry_attempts.and_then(|node| reader.integer("`retry_attempts`", node, MAX_ATTEMPTS));
    let retry_backoff = fields.take("retry_backoff");
    let retry_backoff =
        retry_backoff.and_then(|node| reader.word("`retry_backoff`", node, "exponential, linear, constant"));
    let mut headers = Vec::new();
    for header in reader.list("`headers`", fields.take("headers")) {
        let Some(mut fields) = reader.fields("a header", header) else { continue };
        let name = fields.required_string("name", reader);
        let value = fields.require("value", reader);
        let value = value.and_then(|node| reader.template("`value`", node, variables));
        fields.finish(reader);
        headers.extend(name.zip(value));
    }
    let body = fields.take("body").and_then(|node| reader.template("`body`", node, variables));
    fields.finish(reader);
    let retry_attempts = retry_attempts.and_then(|attempts| u32::try_from(attempts).ok());
    Some(ApiCall { method: method?, url: url?, timeout, retry_attempts, retry_backoff, headers, body })
}

fn read_log(node: Option<&Node>, variables: &Variables, reader: &mut Reader<'_>) -> Option<LogMessage> {
    let mut fields = reader.fields("`log`", node?)?;
    let message = fields.require("message", reader);
    let message = message.and_then(|node| reader.template("`message`", node, variables));
    let level = fields.string("level", reader).unwrap_or_else(|| "info".to_owned());
    fields.finish(reader);
    Some(LogMessage { message: message?, level })
}

fn read_precondition(
    node: &Node,
    variables: &mut Variables,
    reader: &mut Reader<'_>,
) -> Option<Precondition> {
    let mut fields = reader.fields("a precondition", node)?;
    let name = fields.required_string("name", reader);
    let api_call = fields.take("api_call");
    let api_call = api_call.and_then(|node| read_api_call(node, variables, reader));
    let mut captures = Vec::new();
    for node in reader.list("`capture`", fields.take("capture")) {
        let capture_name = match &node.content {
            Content::Map(entries) => {
                entries.iter().find(|(key, _)| key.name == "name").map(|(_, value)| value)
            }
            _ => None,
        };
        let value = reader.value_source("a capture", node, variables, Names::WithResponse);
        let Some(capture_name) = capture_name.and_then(|node| reader.string("`name`", node)) else {
            reader.error(node.at, "a capture must have the field `name`");
            continue;
        };
        captures.extend(value.map(|(value, default)| Capture { name: capture_name.clone(), value, default }));
        variables.add(&capture_name);
    }
    let conditions = reader.list("`conditions`", fields.take("conditions")).iter();
    let conditions: Vec<Condition> =
        conditions.filter_map(|node| read_condition(node, variables, reader)).collect();
    let expression_node = fields.take("expression");
    let expression =
        expression_node.and_then(|node| reader.expression("`expression`", node, variables, Names::Known));
    let log = read_log(fields.take("log"), variables, reader);
    let at = fields.at;
    fields.finish(reader);
    if api_call.is_none() && conditions.is_empty() && expression_node.is_none() {
        reader.error(at, "a precondition must have one of `conditions`, `expression` and `api_call`");
    }
    Some(Precondition { name: name?, api_call, captures, conditions, expression, log })
}

fn read_condition(node: &Node, variables: &Variables, reader: &mut Reader<'_>) -> Option<Condition> {
    let mut fields = reader.fields("a condition", node)?;
    let field_node = fields.require("field", reader);
    let field = field_node.and_then(|node| reader.string("`field`", node));
    if let (Some(field), Some(node)) = (&field, field_node) {
        let root = field.trim_start_matches(['{', '.']).split(['.', '[']).next().unwrap_or_default();
        if !variables.has(root) {
            reader.error(
                node.at,
                format!("the field {field:?} does not begin with a param or captured variable"),
            );
        }
    }
    let operator = fields.require("operator", reader);
    let operator: Option<Operator> =
        operator.and_then(|node| reader.word("`operator`", node, &Operator::names().join(", ")));
    let (value, values) = (fields.take("value"), fields.take("values"));
    if let (Some(_), Some(values)) = (value, values) {
        reader.error(values.at, "a condition has both `value` and `values`; use one of them");
    }
    let value_node = value.or(values);
    let value = value_node.map_or(Json::Null, Node::to_json);
    fields.finish(reader);
    let operator = operator?;
    if let Err(message) = operator.check_value(value_node.map(|_| &value)) {
        reader.error(value_node.map_or(node.at, |node| node.at), message);
    }
    Some(Condition { field: field?, operator, value })
}

fn read_resource(
    node: &Node,
    variables: &Variables,
    names: &mut BTreeSet<String>,
    reader: &mut Reader<'_>,
) -> Option<Resource> {
    let mut fields = reader.fields("a resource", node)?;
    let name = read_name("a resource", &mut fields, reader);
    let transport = fields
        .take("transport")
        .map_or(Some(TransportKind::Kubernetes), |node| read_transport(node, variables, reader));
    let manifest = fields.require("manifest", reader);
    let manifest = manifest.and_then(|node| read_manifest(node, variables, reader));
    let discovery = fields.require("discovery", reader);
    let discovery = discovery.and_then(|node| read_discovery(node, variables, reader));
    let mut nested = Vec::new();
    for node in reader.list("`nested_discoveries`", fields.take("nested_discoveries")) {
        let Some(mut fields) = reader.fields("a nested discovery", node) else { continue };
        let name = read_name("a nested discovery", &mut fields, reader);
        let discovery = fields.require("discovery", reader);
        let discovery = discovery.and_then(|node| read_discovery(node, variables, reader));
        fields.finish(reader);
        if let (Some(name), Some(discovery)) = (name, discovery) {
            nested.push(NestedDiscovery { name, discovery });
        }
    }
    let recreate_on_change = reader.boolean("`recreate_on_change`", fields.take("recreate_on_change"));
    let lifecycle = fields.take("lifecycle");
    let (create_when, delete) =
        lifecycle.map_or((None, None), |node| read_lifecycle(node, variables, reader));
    fields.finish(reader);
    for name in name.iter().chain(nested.iter().map(|nested| &nested.name)) {
        if !names.insert(name.clone()) {
            reader.error(node.at, format!("the resource name {name:?} is used twice"));
        }
    }
    Some(Resource {
        name: name?,
        transport: transport?,
        manifest: manifest?,
        discovery: discovery?,
        nested,
        recreate_on_change,
        create_when,
        delete,
    })
}

fn read_transport(node: &Node, variables: &Variables, reader: &mut Reader<'_>) -> Option<TransportKind> {
    let mut fields = reader.fields("`transport`", node)?;
    let client = fields.require("client", reader);
    let maestro = fields.take("maestro");
    fields.finish(reader);
    let client_node = client?;
    match reader.string("`client`", client_node)?.as_str() {
        "kubernetes" => Some(TransportKind::Kubernetes),
        "maestro" => {
            let Some(maestro) = maestro else {
                reader.error(client_node.at, "the client maestro needs `maestro.target_cluster`");
                return None;
            };
            let mut fields = reader.fields("`maestro`", maestro)?;
            let target = fields.require("target_cluster", reader);
            let target_cluster = target.and_then(|node| reader.template("`target_cluster`", node, variables));
            fields.finish(reader);
            Some(TransportKind::Maestro { target_cluster: target_cluster? })
        }
        other => {
            reader.error(client_node.at, format!("`client` must be kubernetes or maestro; found {other:?}"));
            None
        }
    }
}

fn read_manifest(node: &Node, variables: &Variables, reader: &mut Reader<'_>) -> Option<Manifest> {
    match &node.content {
        Content::Scalar(Json::String(_)) => {
            Some(Manifest::Text(reader.template("`manifest`", node, variables)?))
        }
        Content::Map(entries) => {
            if let [(key, path)] = entries.as_slice()
                && key.name == "ref"
            {
                let source = reader.referenced_file(path)?;
                let template = Reader::text_template(&source, variables);
                return template.map_err(|errors| reader.errors.extend(errors)).ok().map(Manifest::Text);
            }
            for required in ["apiVersion", "kind", "metadata"] {
                if !entries.iter().any(|(key, _)| key.name == required) {
                    reader.error(node.at, format!("the manifest must have the field `{required}`"));
                }
            }
            Some(Manifest::Tree(reader.tree(node, variables)))
        }
        _ => {
            let message = "`manifest` must be an object, a block of YAML text, or {ref: FILE}";
            reader.error(node.at, message);
            None
        }
    }
}

fn read_discovery(node: &Node, variables: &Variables, reader: &mut Reader<'_>) -> Option<Discovery> {
    let mut fields = reader.fields("`discovery`", node)?;
    let namespace = fields.take("namespace");
    let namespace = namespace.and_then(|node| reader.template("`namespace`", node, variables));
    let (by_name, by_selectors) = (fields.take("by_name"), fields.take("by_selectors"));
    fields.finish(reader);
    let by = match (by_name, by_selectors) {
        (Some(name), None) => DiscoverBy::Name(reader.template("`by_name`", name, variables)?),
        (None, Some(selectors)) => {
            let mut fields = reader.fields("`by_selectors`", selectors)?;
            let labels = fields.require("label_selector", reader);
            fields.finish(reader);
            let labels = labels?;
            let Content::Map(entries) = &labels.content else {
                reader.error(labels.at, "`label_selector` must be a mapping of labels to values");
                return None;
            };
            if entries.is_empty() {
                reader.error(labels.at, "`label_selector` must have at least one label");
            }
            let labels = entries.iter().filter_map(|(key, value)| {
                Some((key.name.clone(), reader.template("a label", value, variables)?))
            });
            DiscoverBy::Labels(labels.collect())
        }
        _ => {
            reader.error(node.at, "`discovery` must have exactly one of `by_name` and `by_selectors`");
            return None;
        }
    };
    Some(Discovery { namespace, by })
}

fn read_lifecycle(
    node: &Node,
    variables: &Variables,
    reader: &mut Reader<'_>,
) -> (Option<crate::expression::Expression>, Option<DeleteRule>) {
    let Some(mut fields) = reader.fields("`lifecycle`", node) else { return (None, None) };
    let create = fields.take("create").and_then(|node| {
        let mut fields = reader.fields("`create`", node)?;
        let when = fields.require("when", reader);
        fields.finish(reader);
        reader.when(when, variables)
    });
    let delete = fields.take("delete").and_then(|node| {
        let mut fields = reader.fields("`delete`", node)?;
        let policy = fields.take("propagationPolicy");
        let policy = policy
            .and_then(|node| reader.word("`propagationPolicy`", node, "Background, Foreground, Orphan"));
        let when = fields.require("when", reader);
        fields.finish(reader);
        Some(DeleteRule { propagation: policy.unwrap_or_default(), when: reader.when(when, variables)? })
    });
    if create.is_none() && delete.is_none() && reader.errors.is_empty() {
        reader.error(node.at, "`lifecycle` must have one of `create` and `delete`");
    }
    fields.finish(reader);
    (create, delete)
}

fn read_post(node: &Node, variables: &Variables, reader: &mut Reader<'_>) -> Option<Post> {
    let mut fields = reader.fields("`post`", node)?;
    let mut post = Post::default();
    let mut with_payloads = variables.clone();
    for node in entries("`payloads`", fields.take("payloads"), reader) {
        let Some(payload) = read_payload(node, variables, reader) else { continue };
        with_payloads.add(&payload.name);
        post.payloads.push(payload);
    }
    let names: Vec<String> = post.payloads.iter().map(|payload| payload.name.clone()).collect();
    for node in entries("`post_actions`", fields.take("post_actions"), reader) {
        post.actions.extend(read_post_action(node, &with_payloads, &names, reader));
    }
    fields.finish(reader);
    Some(post)
}

fn read_payload(node: &Node, variables: &Variables, reader: &mut Reader<'_>) -> Option<Payload> {
    let mut fields = reader.fields("a payload", node)?;
    let name = read_name("a payload", &mut fields, reader);
    let when = reader.when(fields.take("when"), variables);
    let (inline, reference) = (fields.take("build"), fields.take("build_ref"));
    fields.finish(reader);
    let build = match (inline, reference) {
        (Some(build), None) => reader.build(build, variables),
        (None, Some(path)) => read_build_file(path, variables, reader)?,
        _ => {
            reader.error(node.at, "a payload must have exactly one of `build` and `build_ref`");
            return None;
        }
    };
    Some(Payload { name: name?, when, build })
}

fn read_build_file(path: &Node, variables: &Variables, reader: &mut Reader<'_>) -> Option<Build> {
    let source = reader.referenced_file(path)?;
    let node = source.parse().map_err(|errors| reader.errors.extend(errors.0)).ok()?;
    let mut file = Reader::new(&source);
    let build = file.build(&node, variables);
    reader.errors.extend(file.errors);
    Some(build)
}

fn read_post_action(
    node: &Node,
    variables: &Variables,
    payloads: &[String],
    reader: &mut Reader<'_>,
) -> Option<PostAction> {
    let mut fields = reader.fields("a post action", node)?;
    let name = fields.required_string("name", reader);
    let when = reader.when(fields.take("when"), variables);
    let log = read_log(fields.take("log"), variables, reader);
    let call = fields.take("api_call");
    let api_call = call.and_then(|node| read_api_call(node, variables, reader));
    if call.is_none() && log.is_none() {
        reader.error(fields.at, "a post action must have one of `api_call` and `log`");
    }
    fields.finish(reader);
    let used = api_call.iter().flat_map(|call| {
        let body = call.body.iter().flat_map(|body| body.variables());
        body.chain(call.url.variables()).map(|(name, _)| name)
    });
    let payloads = used.filter(|name| payloads.contains(name)).collect();
    Some(PostAction { name: name?, when, log, api_call, payloads })
}
