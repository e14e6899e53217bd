//! The operations of the OpenAPI document, from the table of routes: parameters, bodies and all responses.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schemas::{Schemas, id, reference, whole_or_part};
use super::{DOCUMENT_PATH, METADATA_PATH, PAGE_PATH};
use crate::http::body;
use crate::http::parameters::{LARGEST_PAGE, LAST_PAGE};
use crate::http::problem::{Code, MEDIA_TYPE};
use crate::http::routes::{Operation, Place, Scope};
use crate::kinds::{BASE_PATH, Kinds};
use crate::search;
use crate::store::{Column, Page};

const JSON: &str = "application/json";

/// All paths with their operations.
pub(super) fn paths(kinds: &Kinds, schemas: &Schemas) -> Map<String, Value> {
    let mut paths = about_operations();
    for scope in Scope::all(kinds) {
        for place in Place::ALL {
            let operations = place.operations().iter().map(|&operation| {
                let described = Described { kinds, schemas, scope, place, operation };
                (operation.method().as_str().to_ascii_lowercase(), described.json())
            });
            paths.insert(format!("{BASE_PATH}{}", scope.template(place)), operations.collect());
        }
    }
    paths
}

/// The operations about the API itself, which need no credentials.
fn about_operations() -> Map<String, Value> {
    let html = json!({ "text/html": { "schema": { "type": "string" } } });
    let document = json!({ JSON: { "schema": { "type": "object", "additionalProperties": true } } });
    let metadata = json!({ JSON: { "schema": reference("Metadata") } });
    let rows = [
        (METADATA_PATH, "get_metadata", "Get the version of the API", metadata),
        (DOCUMENT_PATH, "get_openapi", "Get this OpenAPI document", document),
        (PAGE_PATH, "get_openapi_page", "Get this document as an HTML page", html),
    ];
    let described = rows.map(|(path, operation_id, summary, content)| {
        let ok =
            json!({ "description": "The requested document.", "headers": headers(&[]), "content": content });
        let operation = json!({
            "operationId": operation_id,
            "summary": summary,
            "tags": ["About"],
            "security": [],
            "responses": { "200": ok },
        });
        (path.to_owned(), json!({ "get": operation }))
    });
    described.into_iter().collect()
}

/// An operation to describe.
struct Described<'a> {
    kinds: &'a Kinds,
    schemas: &'a Schemas,
    scope: Scope<'a>,
    place: Place,
    operation: Operation,
}

impl Described<'_> {
    fn json(&self) -> Value {
        let (_, summary, description) = texts(self.operation);
        let mut described = json!({
            "operationId": operation_id(self.scope, self.operation),
            "summary": format!("{summary} {}", self.subject()),
            "description": description,
            "tags": [self.scope.kind().map_or("Every kind", |kind| kind.name.as_str())],
            "parameters": self.parameters(),
            "responses": self.responses(),
        });
        if let (Some(body), Some(members)) = (self.request_body(), described.as_object_mut()) {
            members.insert("requestBody".to_owned(), body);
        }
        described
    }

    fn subject(&self) -> String {
        match self.scope {
            Scope::Every => "of any kind".to_owned(),
            Scope::Flat(kind) => format!("of kind {}", kind.name),
            Scope::Nested { kind, parent } => format!("of kind {} in a {}", kind.name, parent.name),
        }
    }

    fn has_id(&self) -> bool {
        self.place != Place::Collection
    }

    fn parameters(&self) -> Vec<Value> {
        let in_path = |name: &str, description: &str| json!({ "name": name, "in": "path", "required": true, "schema": id(), "description": description });
        let mut parameters = Vec::new();
        if let Scope::Nested { parent, .. } = self.scope {
            parameters.push(in_path(
                "parent_id",
                &format!("The ID of the {} that owns the resource.", parent.name),
            ));
        }
        if self.has_id() {
            parameters.push(in_path("id", "The ID of the resource."));
        }
        match self.operation {
            Operation::List => {
                parameters.extend(paging());
                parameters.extend([order(), search(), fields()]);
                if matches!(self.scope, Scope::Every) {
                    let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name.as_str()).collect();
                    let schema = json!({ "type": "string", "enum": kinds });
                    parameters.push(in_query("kind", &schema, "List only resources of this kind."));
                }
                parameters.extend(watching());
            }
            Operation::Get => parameters.push(fields()),
            Operation::Statuses => {
                parameters.extend(paging());
                parameters.push(status_order());
                parameters.push(ignored_search());
            }
            Operation::StatusLog => parameters.extend(paging()),
            _ => {}
        }
        parameters
    }

    fn request_body(&self) -> Option<Value> {
        let names = self.schemas.names(self.scope.kind());
        let schema = match self.operation {
            Operation::Create => reference(&names.create),
            Operation::Patch => reference(&names.patch),
            Operation::ForceDelete => reference("ForceDelete"),
            Operation::Report => reference("AdapterStatusReport"),
            _ => return None,
        };
        let media_types = body::media_types(self.operation);
        let described = match example(self.operation) {
            Some(example) => json!({ "schema": schema, "example": example }),
            None => json!({ "schema": schema }),
        };
        let content: Map<String, Value> =
            media_types.iter().map(|media_type| ((*media_type).to_owned(), described.clone())).collect();
        let description =
            format!("At most {} bytes. Strings must not contain the character U+0000.", body::LARGEST);
        Some(json!({ "required": true, "content": content, "description": description }))
    }

    fn responses(&self) -> Map<String, Value> {
        let mut responses: Map<String, Value> = self.successes().into_iter().collect();
        let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        for code in self.problems() {
            by_status.entry(code.describe().1).or_default().push(code);
        }
        responses.extend(
            by_status.into_iter().map(|(status, codes)| (status.to_string(), problem(status, &codes))),
        );
        responses
    }

    /// The responses of a successful operation.
    fn successes(&self) -> Vec<(String, Value)> {
        let names = self.schemas.names(self.scope.kind());
        let response = |description: &str, more: &[&str], schema: Value| json!({ "description": description, "headers": headers(more), "content": { JSON: { "schema": schema } } });
        let empty = |description: &str| json!({ "description": description, "headers": headers(&[]) });
        let rows = match self.operation {
            Operation::List => {
                let description = "A page of the list, or with watch=true a stream of events.";
                let mut listed = response(description, &["Bellwether-Revision"], reference(&names.list));
                if let Some(content) = listed.pointer_mut("/content").and_then(Value::as_object_mut) {
                    let event = json!({ "schema": reference(&names.event) });
                    content.insert("text/event-stream".to_owned(), event);
                }
                vec![(200, listed)]
            }
            Operation::Create if self.needs_parent() => Vec::new(),
            Operation::Create => {
                let mut created =
                    response("The resource was created.", &["Location"], reference(&names.resource));
                if let Some(members) = created.as_object_mut() {
                    members.insert("links".to_owned(), Value::Object(self.links()));
                }
                vec![(201, created)]
            }
            Operation::Get => {
                vec![(
                    200,
                    response("The resource, or the requested fields of it.", &[], whole_or_part(names)),
                )]
            }
            Operation::Patch => {
                vec![(200, response("The resource after the change.", &[], reference(&names.resource)))]
            }
            Operation::Delete => {
                let description = "The resource is being deleted. It is removed when every required adapter has cleaned up.";
                vec![(202, response(description, &[], reference(&names.resource)))]
            }
            Operation::ForceDelete => vec![(204, empty("The resource was removed."))],
            Operation::Statuses => {
                vec![(
                    200,
                    response(
                        "The last accepted report of each adapter.",
                        &[],
                        reference("AdapterStatusList"),
                    ),
                )]
            }
            Operation::Report => vec![
                (
                    201,
                    response(
                        "The report was accepted as the status of its adapter.",
                        &[],
                        reference("AdapterStatus"),
                    ),
                ),
                (204, empty("The report was discarded; the status log has the cause.")),
            ],
            Operation::StatusLog => {
                vec![(
                    200,
                    response("Reports with their verdicts, newest first.", &[], reference("StatusLog")),
                )]
            }
        };
        rows.into_iter().map(|(status, response): (u16, Value)| (status.to_string(), response)).collect()
    }

    /// Whether the kind has a parent, so that it can be created only below it.
    fn needs_parent(&self) -> bool {
        matches!(self.scope, Scope::Flat(kind) if kind.parent.is_some())
    }

    /// The problems that the operation can respond with.
    fn problems(&self) -> Vec<Code> {
        let mut codes = vec![
            Code::BadRequest,
            Code::NoCredentials,
            Code::InvalidCredentials,
            Code::ExpiredCredentials,
            Code::Forbidden,
            Code::Internal,
            Code::Unavailable,
            Code::TimedOut,
        ];
        if !body::media_types(self.operation).is_empty() {
            codes.extend([Code::Validation, Code::Malformed, Code::TooLarge, Code::MediaType]);
        } else if self.operation != Operation::Delete {
            // Of the parameters `page`, `size`, `fields`, `watch` and `since`.
            codes.push(Code::Validation);
        }
        if self.has_id() || matches!(self.scope, Scope::Nested { .. }) {
            codes.push(Code::NotFound);
        }
        match self.operation {
            Operation::List => codes.push(Code::Gone),
            Operation::Create if self.needs_parent() => codes.push(Code::ChildKind),
            Operation::Create => {
                codes.push(Code::Exists);
                match self.scope {
                    Scope::Nested { .. } => codes.push(Code::State),
                    Scope::Every => codes.push(Code::ChildKind),
                    Scope::Flat(_) => {}
                }
            }
            Operation::Patch | Operation::Delete | Operation::ForceDelete => codes.push(Code::State),
            _ => {}
        }
        codes
    }

    /// Links from a created resource: to the operations of all its paths, and to the collections of its children.
    fn links(&self) -> Map<String, Value> {
        const CREATED_ID: &str = "$response.body#/id";
        let by_id = |scope: Scope<'_>, parameters: Value| {
            let with_id = Place::ALL.into_iter().filter(|place| *place != Place::Collection);
            let operations = with_id.flat_map(|place| place.operations());
            operations.map(|&operation| link(scope, operation, &parameters)).collect::<Vec<_>>()
        };
        let mut links = by_id(Scope::Every, json!({ "id": CREATED_ID }));
        if let Some(kind) = self.scope.kind() {
            links.extend(by_id(Scope::Flat(kind), json!({ "id": CREATED_ID })));
            for child in self.kinds.children_of(&kind.name) {
                let below = Scope::Nested { kind: child, parent: kind };
                let parameters = json!({ "parent_id": CREATED_ID });
                let operations = Place::Collection.operations().iter();
                links.extend(operations.map(|&operation| link(below, operation, &parameters)));
            }
        }
        if matches!(self.scope, Scope::Nested { .. }) {
            let parameters = json!({ "parent_id": "$request.path.parent_id", "id": CREATED_ID });
            links.extend(by_id(self.scope, parameters));
        }
        links.into_iter().collect()
    }
}

fn link(scope: Scope<'_>, operation: Operation, parameters: &Value) -> (String, Value) {
    let operation_id = operation_id(scope, operation);
    (operation_id.clone(), json!({ "operationId": operation_id, "parameters": parameters }))
}

/// The verb, the summary up to its subject, and the description of an operation.
const fn texts(operation: Operation) -> (&'static str, &'static str, &'static str) {
    match operation {
        Operation::List => (
            "list",
            "List or watch resources",
            "The list includes resources that are being deleted. With watch=true, the response is a stream of changes.",
        ),
        Operation::Create => ("create", "Create a resource", "The response is sent after the commit."),
        Operation::Get => ("get", "Get a resource", "A resource that is being deleted can still be read."),
        Operation::Patch => {
            ("patch", "Change a resource", "The generation is incremented if the spec or the labels change.")
        }
        Operation::Delete => (
            "delete",
            "Delete a resource",
            "The first request increments the generation. Depending on their kind, children are deleted, too, or prevent the deletion.",
        ),
        Operation::ForceDelete => (
            "force_delete",
            "Remove a resource that is being deleted",
            "The resource is removed without waiting for adapters to clean up.",
        ),
        Operation::Statuses => {
            ("list_statuses", "List the adapter statuses of a resource", "The list is ordered by adapter.")
        }
        Operation::Report => (
            "report_status",
            "Report the status of an adapter for a resource",
            "A report is discarded if its generation is in the future or older than that of the last accepted report, if it is older than that report, or if it has Available=Unknown.",
        ),
        Operation::StatusLog => (
            "list_status_log",
            "List the latest reports for a resource",
            "The log has accepted and discarded reports, with the cause.",
        ),
    }
}

/// An example of a body that is valid for every kind.
fn example(operation: Operation) -> Option<Value> {
    match operation {
        Operation::Patch => Some(json!({ "labels": { "env": "prod" } })),
        Operation::ForceDelete => Some(json!({ "reason": "the account it was in is closed" })),
        Operation::Report => Some(json!({
            "adapter": "dns",
            "observed_generation": 1,
            "conditions": [
                { "type": "Available", "status": "True", "reason": "RecordsServed" },
                { "type": "Applied", "status": "True" },
                { "type": "Health", "status": "True" },
            ],
            "metadata": { "job_name": "dns-4711", "attempt": 1 },
        })),
        _ => None,
    }
}

/// A unique ID: kinds begin with a capital letter and have no underscores.
fn operation_id(scope: Scope<'_>, operation: Operation) -> String {
    let (verb, ..) = texts(operation);
    match scope {
        Scope::Every => format!("{verb}_any"),
        Scope::Flat(kind) => format!("{verb}_{}", kind.name),
        Scope::Nested { kind, parent } => format!("{verb}_{}_{}", parent.name, kind.name),
    }
}

fn in_query(name: &str, schema: &Value, description: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": schema, "description": description })
}

/// An empty parameter has its default value.
fn empty() -> Value {
    json!({ "type": "string", "maxLength": 0 })
}

fn paging() -> [Value; 2] {
    let Page { number, size } = Page::default();
    let counted = |most: u32, default: u32| {
        let integer = json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default });
        json!({ "anyOf": [integer, empty()] })
    };
    [
        in_query("page", &counted(LAST_PAGE, number), "The number of the page."),
        in_query("size", &counted(LARGEST_PAGE, size), "The number of items per page."),
    ]
}

fn order_of(columns: &str) -> Value {
    let key = format!(" *(?:{columns})(?: +(?:asc|desc))? *");
    json!({ "type": "array", "items": { "type": "string", "pattern": format!("^(?:{key}(?:,{key})*)?$") } })
}

fn status_order() -> Value {
    let schema = order_of(&search::StatusOrder::FIELDS.join("|"));
    let description = "The fields to order by: `field`, `field asc` or `field desc`. Default: `adapter`.";
    in_query("order", &schema, description)
}

fn ignored_search() -> Value {
    in_query("search", &json!({ "type": "string" }), "Ignored: all statuses are returned.")
}

fn order() -> Value {
    let schema = order_of(&Column::ALL.map(Column::name).join("|"));
    in_query(
        "order",
        &schema,
        "The fields to order by: `field`, `field asc` or `field desc`, separated by commas or as repeated parameters. Default: `created_time desc`.",
    )
}

fn search() -> Value {
    let schema = json!({ "type": "string", "maxLength": search::LONGEST });
    in_query("search", &schema, SEARCH)
}

const SEARCH: &str = "The search expression: comparisons with `and`, `or`, `not` and parentheses, such as \
    `name like 'prod-%' and generation >= 2`, `labels.env in ['prod', 'stage']`, `spec.release.version > 9`, \
    `status.conditions.Ready = 'False'`, `deleted_time is null`. An invalid expression is answered with 400 and \
    the position of the error.";

fn fields() -> Value {
    let schema = json!({ "type": "array", "items": { "type": "string" } });
    in_query(
        "fields",
        &schema,
        "The fields of a resource to return, such as `name` or `status.conditions.type`, separated by commas or as repeated parameters. `spec.*` returns all fields below. The ID is always returned; an unknown field is answered with 400.",
    )
}

fn watching() -> [Value; 3] {
    let since = json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX });
    [
        in_query(
            "watch",
            &json!({ "type": "boolean", "default": false }),
            "Whether to watch changes instead of listing. Can be combined only with `since` and `kind`.",
        ),
        in_query(
            "since",
            &since,
            "The revision to watch from: the ID of an event, or the header Bellwether-Revision of a list. Requires watch=true.",
        ),
        json!({
            "name": "Last-Event-ID",
            "in": "header",
            "schema": { "type": "string" },
            "description": "The ID of the last received event. It is used like `since`, which takes precedence, and ignored without watch=true.",
        }),
    ]
}

/// The headers of a response: the one that all have, and these.
fn headers(more: &[&str]) -> Map<String, Value> {
    let mut headers = Map::new();
    let name = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    headers.insert("X-Request-ID".to_owned(), name("X-Request-ID"));
    headers.extend(more.iter().map(|header| ((*header).to_owned(), name(header))));
    headers
}

/// The headers of responses.
pub(super) fn header_components() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "X-Request-ID": {
            "required": true,
            "schema": { "type": "string", "format": "uuid" },
            "description": "The ID of the request, which is also in the log of the server.",
        },
        "Location": { "required": true, "schema": text, "description": "The path of the created resource." },
        "Bellwether-Revision": {
            "schema": { "type": "integer", "minimum": 0 },
            "description": "The revision of the list, from which a watch can continue.",
        },
        "Allow": { "required": true, "schema": text, "description": "The allowed methods." },
        "WWW-Authenticate": { "required": true, "schema": text, "description": "The authentication scheme." },
    })
}

/// The response to a method that a path does not support. It belongs to no operation.
pub(super) fn response_components() -> Value {
    json!({ "MethodNotAllowed": problem_with(405, &[Code::NoMethod], &["Allow"]) })
}

fn problem(status: u16, codes: &[Code]) -> Value {
    let more: &[&str] = if status == 401 { &["WWW-Authenticate"] } else { &[] };
    problem_with(status, codes, more)
}

fn problem_with(status: u16, codes: &[Code], more: &[&str]) -> Value {
    let titles: Vec<&str> = codes.iter().map(|code| code.describe().3).collect();
    let mut names: Vec<&str> = codes.iter().map(|code| code.describe().0).collect();
    names.dedup();
    let schema = json!({
        "allOf": [
            reference("Problem"),
            { "properties": { "status": { "const": status }, "code": { "enum": names } } },
        ],
    });
    json!({
        "description": titles.join(", or "),
        "headers": headers(more),
        "content": { MEDIA_TYPE: { "schema": schema } },
    })
}
