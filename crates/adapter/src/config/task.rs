//! The task configuration, compiled: what the adapter does for an event. Templates and expressions are programs here.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value as Json;

use super::adapter::RetryBackoff;
use crate::decide::Operator;
use crate::expression::Expression;
use crate::template::Template;

/// What the adapter does for an event.
#[derive(Clone, Debug, Default)]
pub struct TaskConfig {
    /// Values that are read before everything else, in order.
    pub params: Vec<Param>,
    /// What must hold before resources are touched, in order.
    pub preconditions: Vec<Precondition>,
    /// What is applied or deleted, in order.
    pub resources: Vec<Resource>,
    /// The report.
    pub post: Post,
    /// The environment variables that params name. No others are visible to templates and expressions.
    pub env_names: Vec<String>,
}

/// A named value.
#[derive(Clone, Debug)]
pub struct Param {
    /// The name of the variable.
    pub name: String,
    /// Where the value comes from.
    pub source: ParamSource,
    /// The type it is converted to.
    pub kind: Option<ParamType>,
    /// Whether the event fails without it.
    pub required: bool,
    /// The value if the source has none.
    pub default: Option<Json>,
}

/// Where the value of a param comes from.
#[derive(Clone, Debug)]
pub enum ParamSource {
    /// A path below a variable: `event.id`, `env.X`, `config.a.b` or an earlier param.
    Path(String),
    /// The JSON that an API returns.
    ApiCall(ApiCall),
    /// A CEL expression over earlier params.
    Expression(Expression),
    /// The content of a file, read for each event.
    File {
        /// The file.
        path: PathBuf,
        /// Whether white space around the content is removed.
        trim: bool,
    },
}

/// The type of a param.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// Text.
    String,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// True or false.
    Bool,
}

impl FromStr for ParamType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "string" => Ok(Self::String),
            "int" | "int64" => Ok(Self::Int),
            "float" | "float64" => Ok(Self::Float),
            "bool" => Ok(Self::Bool),
            _ => Err(()),
        }
    }
}

/// A call of an HTTP API.
#[derive(Clone, Debug)]
pub struct ApiCall {
    /// The method.
    pub method: String,
    /// The URL; a relative one is below the base path of the fleet API.
    pub url: Template,
    /// How long one attempt may take, if not as the client is configured.
    pub timeout: Option<Duration>,
    /// How often the call is attempted, if not as the client is configured.
    pub retry_attempts: Option<u32>,
    /// How the delay grows, if not as the client is configured.
    pub retry_backoff: Option<RetryBackoff>,
    /// The headers.
    pub headers: Vec<(String, Template)>,
    /// The body.
    pub body: Option<Template>,
}

/// What must hold before resources are touched.
#[derive(Clone, Debug)]
pub struct Precondition {
    /// The name in reports.
    pub name: String,
    /// An API call whose response the captures read.
    pub api_call: Option<ApiCall>,
    /// Variables that are set from the response.
    pub captures: Vec<Capture>,
    /// Conditions that must all hold.
    pub conditions: Vec<Condition>,
    /// An expression that must be true.
    pub expression: Option<Expression>,
    /// A message for the log.
    pub log: Option<LogMessage>,
}

/// A variable that is set from a response.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The name of the variable.
    pub name: String,
    /// What it is set to.
    pub value: ValueSource,
    /// The value if there is none.
    pub default: Option<Json>,
}

/// How a value is found.
#[derive(Clone, Debug)]
pub enum ValueSource {
    /// At a path such as `status.phase` or `items[0].name`.
    Field(String),
    /// By a CEL expression.
    Expression(Expression),
}

/// A comparison of a variable with a value.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The path of the variable.
    pub field: String,
    /// The comparison.
    pub operator: Operator,
    /// The value to compare with; null for `exists` and `notExists`.
    pub value: Json,
}

/// A message for the log.
#[derive(Clone, Debug)]
pub struct LogMessage {
    /// The text.
    pub message: Template,
    /// The level: debug, info, warning or error.
    pub level: String,
}

/// Something that is applied or deleted.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The name under which expressions see it: `resources.<name>`.
    pub name: String,
    /// How it is delivered.
    pub transport: TransportKind,
    /// The object.
    pub manifest: Manifest,
    /// How it is found.
    pub discovery: Discovery,
    /// Objects inside it that get names of their own.
    pub nested: Vec<NestedDiscovery>,
    /// Whether a new generation deletes and creates the object instead of updating it.
    pub recreate_on_change: bool,
    /// Gates the first creation.
    pub create_when: Option<Expression>,
    /// When the object is deleted.
    pub delete: Option<DeleteRule>,
}

/// How a resource is delivered.
#[derive(Clone, Debug)]
pub enum TransportKind {
    /// Directly to a cluster.
    Kubernetes,
    /// As a ManifestWork to a managed cluster.
    Maestro {
        /// The name of the managed cluster.
        target_cluster: Template,
    },
}

/// The object of a resource.
#[derive(Clone, Debug)]
pub enum Manifest {
    /// A mapping whose strings are templates.
    Tree(Tree),
    /// Text that is rendered and then parsed as YAML.
    Text(Template),
}

/// A value whose strings are templates.
#[derive(Clone, Debug)]
pub enum Tree {
    /// A value without templates.
    Literal(Json),
    /// A string.
    Text(Template),
    /// A list.
    List(Vec<Tree>),
    /// A mapping.
    Map(Vec<(Template, Tree)>),
}

/// How an object is found.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// The namespace; all namespaces or none if it is missing.
    pub namespace: Option<Template>,
    /// By name or labels.
    pub by: DiscoverBy,
}

/// By what an object is found.
#[derive(Clone, Debug)]
pub enum DiscoverBy {
    /// Its name.
    Name(Template),
    /// Its labels, all of which must match.
    Labels(Vec<(String, Template)>),
}

/// An object inside a ManifestWork that gets a name of its own.
#[derive(Clone, Debug)]
pub struct NestedDiscovery {
    /// The name: `resources.<name>`.
    pub name: String,
    /// How it is found.
    pub discovery: Discovery,
}

/// When a resource is deleted, and how.
#[derive(Clone, Debug)]
pub struct DeleteRule {
    /// What happens to dependents.
    pub propagation: Propagation,
    /// Deletes when true. An error is reported, and nothing is applied or deleted.
    pub when: Expression,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted later.
    #[default]
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl FromStr for Propagation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            "Orphan" => Ok(Self::Orphan),
            _ => Err(()),
        }
    }
}

/// The report of an event.
#[derive(Clone, Debug, Default)]
pub struct Post {
    /// Payloads that actions send.
    pub payloads: Vec<Payload>,
    /// What is done on every event, in order.
    pub actions: Vec<PostAction>,
}

/// A JSON document that is built from variables.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The name of the variable that holds its text.
    pub name: String,
    /// The payload is absent unless this is true.
    pub when: Option<Expression>,
    /// Its content.
    pub build: Build,
}

/// The content of a payload.
#[derive(Clone, Debug)]
pub enum Build {
    /// A value.
    Literal(Json),
    /// A string.
    Text(Template),
    /// A computed value, and its default.
    Value(ValueSource, Option<Json>),
    /// A list.
    List(Vec<Build>),
    /// A mapping.
    Map(Vec<(String, Build)>),
}

/// Something that is done after everything else.
#[derive(Clone, Debug)]
pub struct PostAction {
    /// The name in reports.
    pub name: String,
    /// The action is skipped unless this is true.
    pub when: Option<Expression>,
    /// A message for the log.
    pub log: Option<LogMessage>,
    /// The call.
    pub api_call: Option<ApiCall>,
    /// The payloads that the call uses. If one is absent, the action is skipped.
    pub payloads: Vec<String>,
}
