//! The operations on a resource: what clients look for before they send a patch or a field validation.

use serde_json::{Map, Value, json};

use super::builtin::REF;
use super::kind_of;
use crate::object::set;
use crate::registry::{Resource, Subresource, Typing};

/// The paths of a resource, with the operations of each.
pub(super) fn of(resource: &Resource, schema: &str) -> Map<String, Value> {
    let root = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let plural = &resource.plural;
    let mut paths = Map::new();
    if resource.review.is_some() {
        let scoped = if resource.is_namespaced() { "namespaces/{namespace}/" } else { "" };
        let path = format!("{root}/{scoped}{plural}");
        let mut item =
            json!({"post": operation(resource, "post", Some(schema), Some(object_body(schema)), WRITE)});
        add_path_parameters(&path, resource, &mut item);
        paths.insert(path, item);
        return paths;
    }
    let list = format!("{schema}List");
    let scoped = if resource.is_namespaced() {
        let all = json!({"get": operation(resource, "list", Some(&list), None, LIST)});
        paths.insert(format!("{root}/{plural}"), all);
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{root}/{plural}")
    };
    paths.insert(
        scoped.clone(),
        json!({
            "get": operation(resource, "list", Some(&list), None, LIST),
            "post": operation(resource, "post", Some(schema), Some(object_body(schema)), WRITE),
            "delete": operation(resource, "deletecollection", None, Some(delete_body()), LIST),
        }),
    );
    let item = format!("{scoped}/{{name}}");
    let mut operations = item_operations(resource, schema);
    set(&mut operations, "delete", operation(resource, "delete", None, Some(delete_body()), DELETE));
    paths.insert(item.clone(), operations);
    for subresource in &resource.subresources {
        let path = format!("{item}/{}", subresource.name());
        // Scales and tokens are objects of other groups, whose documents describe them.
        if !matches!(subresource, Subresource::Scale | Subresource::Token) {
            paths.insert(path, item_operations(resource, schema));
        }
    }
    for (path, item) in &mut paths {
        add_path_parameters(path, resource, item);
    }
    paths
}

fn add_path_parameters(path: &str, resource: &Resource, item: &mut Value) {
    let named = [
        ("name", format!("name of the {}", resource.kind)),
        ("namespace", "object name and auth scope, such as for teams and projects".to_owned()),
    ];
    let parameters: Vec<Value> = named
        .into_iter()
        .filter(|(name, _)| path.contains(&format!("{{{name}}}")))
        .map(|(name, words)| {
            let schema = json!({"type": "string", "uniqueItems": true});
            json!({"name": name, "in": "path", "required": true, "description": words, "schema": schema})
        })
        .collect();
    if !parameters.is_empty() {
        set(item, "parameters", parameters);
    }
}

const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];

fn item_operations(resource: &Resource, schema: &str) -> Value {
    json!({
        "get": operation(resource, "get", Some(schema), None, &[]),
        "put": operation(resource, "put", Some(schema), Some(object_body(schema)), WRITE),
        "patch": operation(resource, "patch", Some(schema), Some(patch_body(resource)), PATCH),
    })
}

fn operation(
    resource: &Resource,
    action: &str,
    answer: Option<&str>,
    body: Option<Value>,
    parameters: &[&str],
) -> Value {
    let answer = answer.unwrap_or("io.k8s.apimachinery.pkg.apis.meta.v1.Status");
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|name| {
            let kind = match *name {
                "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
                "watch" | "allowWatchBookmarks" | "sendInitialEvents" | "force" | "orphanDependents" => {
                    "boolean"
                }
                _ => "string",
            };
            json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
        })
        .collect();
    let mut operation = json!({
        "responses": {"200": {
            "description": "OK",
            "content": {"application/json": {"schema": {"$ref": format!("{REF}{answer}")}}},
        }},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind_of(resource),
    });
    if !parameters.is_empty() {
        set(&mut operation, "parameters", parameters);
    }
    if let Some(body) = body {
        set(&mut operation, "requestBody", body);
    }
    operation
}

fn object_body(schema: &str) -> Value {
    let content = json!({"schema": {"$ref": format!("{REF}{schema}")}});
    json!({"required": true, "content": {"application/json": content, "application/yaml": content}})
}

fn delete_body() -> Value {
    let schema = format!("{REF}io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    json!({"content": {"application/json": {"schema": {"$ref": schema}}}})
}

/// The kinds of patch that are taken: clients choose by what is listed here.
fn patch_body(resource: &Resource) -> Value {
    let mut content = Map::new();
    let mut kinds = vec!["application/json-patch+json", "application/merge-patch+json"];
    if matches!(resource.typing, Typing::Builtin(_)) {
        kinds.push("application/strategic-merge-patch+json");
    }
    kinds.push("application/apply-patch+yaml");
    for kind in kinds {
        content.insert(kind.into(), json!({"schema": {"type": "object"}}));
    }
    json!({"required": true, "content": content})
}
