//! The operations of the document, from the table of routes: what each takes, and everything it can answer.

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

/// All paths, with what can be done at each.
pub(super) fn paths(kinds: &Kinds, schemas: &Schemas) -> Map<String, Value> {
    let mut paths = about();
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

/// What can be asked of the API itself, without saying who asks.
fn about() -> Map<String, Value> {
    let html = json!({ "text/html": { "schema": { "type": "string" } } });
    let document = json!({ JSON: { "schema": { "type": "object", "additionalProperties": true } } });
    let metadata = json!({ JSON: { "schema": reference("Metadata") } });
    let rows = [
        (METADATA_PATH, "get_metadata", "What this API is", metadata),
        (DOCUMENT_PATH, "get_openapi", "This document", document),
        (PAGE_PATH, "get_openapi_page", "This document, as a page to read", html),
    ];
    let described = rows.map(|(path, operation_id, summary, content)| {
        let ok = json!({ "description": "It.", "headers": headers(&[]), "content": content });
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

/// One operation, to be described.
struct Described<'a> {
    kinds: &'a Kinds,
    schemas: &'a Schemas,
    scope: Scope<'a>,
    place: Place,
    operation: Operation,
}

impl Described<'_> {
    fn json(&self) -> Value {
        let (_, summary, description) = words(self.operation);
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
        let in_path = |name: &str, words: &str| json!({ "name": name, "in": "path", "required": true, "schema": id(), "description": words });
        let mut parameters = Vec::new();
        if let Scope::Nested { parent, .. } = self.scope {
            parameters.push(in_path("parent_id", &format!("The id of the {} it belongs to.", parent.name)));
        }
        if self.has_id() {
            parameters.push(in_path("id", "The id of the resource."));
        }
        match self.operation {
            Operation::List => {
                parameters.extend(paging());
                parameters.extend([order(), search(), fields()]);
                if matches!(self.scope, Scope::Every) {
                    let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name.as_str()).collect();
                    let schema = json!({ "type": "string", "enum": kinds });
                    parameters.push(in_query("kind", &schema, "Only resources of this kind."));
                }
                parameters.extend(watching());
            }
            Operation::Get => parameters.push(fields()),
            Operation::Statuses | Operation::StatusLog => parameters.extend(paging()),
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
        let words = format!(
            "At most {} bytes. No text in it, at whatever depth, has the character U+0000.",
            body::LARGEST
        );
        Some(json!({ "required": true, "content": content, "description": words }))
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

    /// What is answered when all is well.
    fn successes(&self) -> Vec<(String, Value)> {
        let names = self.schemas.names(self.scope.kind());
        let answer = |words: &str, more: &[&str], schema: Value| json!({ "description": words, "headers": headers(more), "content": { JSON: { "schema": schema } } });
        let nothing = |words: &str| json!({ "description": words, "headers": headers(&[]) });
        let rows = match self.operation {
            Operation::List => {
                let words = "A page of the list; or, to one who watches, events as they happen.";
                let mut listed = answer(words, &["Bellwether-Revision"], reference(&names.list));
                if let Some(content) = listed.pointer_mut("/content").and_then(Value::as_object_mut) {
                    let event = json!({ "schema": reference(&names.event) });
                    content.insert("text/event-stream".to_owned(), event);
                }
                vec![(200, listed)]
            }
            Operation::Create if self.needs_parent() => Vec::new(),
            Operation::Create => {
                let mut made = answer("It was made.", &["Location"], reference(&names.resource));
                if let Some(members) = made.as_object_mut() {
                    members.insert("links".to_owned(), Value::Object(self.links()));
                }
                vec![(201, made)]
            }
            Operation::Get => {
                vec![(200, answer("The resource, or what was asked for of it.", &[], whole_or_part(names)))]
            }
            Operation::Patch => {
                vec![(200, answer("The resource as it is now.", &[], reference(&names.resource)))]
            }
            Operation::Delete => {
                let words = "It is being deleted, and stays until every required adapter has cleaned up.";
                vec![(202, answer(words, &[], reference(&names.resource)))]
            }
            Operation::ForceDelete => vec![(204, nothing("It is gone."))],
            Operation::Statuses => {
                vec![(
                    200,
                    answer("The last accepted report of each adapter.", &[], reference("AdapterStatusList")),
                )]
            }
            Operation::Report => vec![
                (
                    201,
                    answer("The report is now the status of its adapter.", &[], reference("AdapterStatus")),
                ),
                (204, nothing("The report changed nothing; the status log says why.")),
            ],
            Operation::StatusLog => {
                vec![(
                    200,
                    answer("Reports and what became of them, the newest first.", &[], reference("StatusLog")),
                )]
            }
        };
        rows.into_iter().map(|(status, answer): (u16, Value)| (status.to_string(), answer)).collect()
    }

    /// Whether this path makes nothing, because what it would make belongs to something.
    fn needs_parent(&self) -> bool {
        matches!(self.scope, Scope::Flat(kind) if kind.parent.is_some())
    }

    /// What is answered when not.
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

    /// Where one goes from a resource that was just made: it is found by every path it has, and so is what belongs to it.
    fn links(&self) -> Map<String, Value> {
        const MADE: &str = "$response.body#/id";
        let by_id = |scope: Scope<'_>, parameters: Value| {
            let with_id = Place::ALL.into_iter().filter(|place| *place != Place::Collection);
            let operations = with_id.flat_map(|place| place.operations());
            operations.map(|&operation| link(scope, operation, &parameters)).collect::<Vec<_>>()
        };
        let mut links = by_id(Scope::Every, json!({ "id": MADE }));
        if let Some(kind) = self.scope.kind() {
            links.extend(by_id(Scope::Flat(kind), json!({ "id": MADE })));
            for child in self.kinds.children_of(&kind.name) {
                let below = Scope::Nested { kind: child, parent: kind };
                let parameters = json!({ "parent_id": MADE });
                let operations = Place::Collection.operations().iter();
                links.extend(operations.map(|&operation| link(below, operation, &parameters)));
            }
        }
        if matches!(self.scope, Scope::Nested { .. }) {
            let parameters = json!({ "parent_id": "$request.path.parent_id", "id": MADE });
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
const fn words(operation: Operation) -> (&'static str, &'static str, &'static str) {
    match operation {
        Operation::List => (
            "list",
            "List or watch resources",
            "Those that are being deleted are among them. With watch=true, tells of every change as it happens.",
        ),
        Operation::Create => ("create", "Make a resource", "Answered once it is on disk."),
        Operation::Get => ("get", "Read a resource", "Also while it is being deleted."),
        Operation::Patch => {
            ("patch", "Change a resource", "Its generation moves if its spec or its labels really change.")
        }
        Operation::Delete => (
            "delete",
            "Delete a resource",
            "Its generation moves the first time. Children are deleted too, or are in the way, as their kind says.",
        ),
        Operation::ForceDelete => (
            "force_delete",
            "Remove a resource that is being deleted",
            "Without waiting for adapters to clean up.",
        ),
        Operation::Statuses => ("list_statuses", "List what adapters say of a resource", "By adapter."),
        Operation::Report => (
            "report_status",
            "Report what an adapter found of a resource",
            "A report of another generation than the current one, older than the last, or with Available=Unknown changes nothing.",
        ),
        Operation::StatusLog => {
            ("list_status_log", "List the latest reports on a resource", "Accepted or not, with the reason.")
        }
    }
}

/// A body that is taken whatever the kind.
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

/// Kinds begin with a capital and have no underscores, so that no two of these are the same.
fn operation_id(scope: Scope<'_>, operation: Operation) -> String {
    let (verb, ..) = words(operation);
    match scope {
        Scope::Every => format!("{verb}_any"),
        Scope::Flat(kind) => format!("{verb}_{}", kind.name),
        Scope::Nested { kind, parent } => format!("{verb}_{}_{}", parent.name, kind.name),
    }
}

fn in_query(name: &str, schema: &Value, words: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": schema, "description": words })
}

fn paging() -> [Value; 2] {
    let Page { number, size } = Page::default();
    let counted = |most: u32, default: u32| json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default });
    [
        in_query("page", &counted(LAST_PAGE, number), "Which page."),
        in_query("size", &counted(LARGEST_PAGE, size), "How many items on a page."),
    ]
}

fn order() -> Value {
    let key = format!(" *(?:{})(?: +(?:asc|desc))? *", Column::ALL.map(Column::name).join("|"));
    let schema =
        json!({ "type": "array", "items": { "type": "string", "pattern": format!("^{key}(?:,{key})*$") } });
    in_query(
        "order",
        &schema,
        "What to order by: `field`, `field asc` or `field desc`; several with commas between them or one after the other. `created_time desc` unless given.",
    )
}

fn search() -> Value {
    let schema = json!({ "type": "string", "maxLength": search::LONGEST });
    in_query("search", &schema, SEARCH)
}

const SEARCH: &str = "Which resources: comparisons with `and`, `or`, `not` and parentheses, such as \
    `name like 'prod-%' and generation >= 2`, `labels.env in ['prod', 'stage']`, `spec.release.version > 9`, \
    `status.conditions.Ready = 'False'`, `deleted_time is null`. Text that is not of the language is answered with 400 and \
    where it goes wrong.";

fn fields() -> Value {
    let schema = json!({ "type": "array", "items": { "type": "string", "minLength": 1 } });
    in_query(
        "fields",
        &schema,
        "Which members of a resource to show: names, with dots for what is below, such as `name` or `status.conditions.type`; several with commas between them or one after the other. `spec.*` is everything below. The id is always shown; a member that there is not is answered with 400.",
    )
}

fn watching() -> [Value; 3] {
    let since = json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX });
    [
        in_query(
            "watch",
            &json!({ "type": "boolean", "default": false }),
            "Whether to be told of changes instead. Goes with `since` and `kind` only.",
        ),
        in_query(
            "since",
            &since,
            "The revision to watch from: the id of an event, or Bellwether-Revision of a list. Only together with watch=true.",
        ),
        json!({
            "name": "Last-Event-ID",
            "in": "header",
            "schema": { "type": "string" },
            "description": "The id of the last event heard; the same as `since`, which goes before it. Means nothing without watch=true.",
        }),
    ]
}

/// The headers of an answer: the one that all have, and these.
fn headers(more: &[&str]) -> Map<String, Value> {
    let mut headers = Map::new();
    let name = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    headers.insert("X-Request-ID".to_owned(), name("X-Request-ID"));
    headers.extend(more.iter().map(|header| ((*header).to_owned(), name(header))));
    headers
}

/// The headers that answers have.
pub(super) fn header_components() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "X-Request-ID": {
            "required": true,
            "schema": { "type": "string", "format": "uuid" },
            "description": "The id of the request, by which the log of the server knows it.",
        },
        "Location": { "required": true, "schema": text, "description": "The path of what was made." },
        "Bellwether-Revision": {
            "schema": { "type": "integer", "minimum": 0 },
            "description": "The revision at which the list was true; to watch from there.",
        },
        "Allow": { "required": true, "schema": text, "description": "The methods that there are." },
        "WWW-Authenticate": { "required": true, "schema": text, "description": "How to say who asks." },
    })
}

/// What is answered to a method that a path does not have: it is no operation, and so stands by itself.
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
