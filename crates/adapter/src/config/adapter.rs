//! The deployment configuration: the name of the adapter, and how it reaches the fleet API, the broker and clusters.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value as Json;

use super::fields::{Fields, Reader};
use super::node::Node;
use super::redact::redact;

const DEFAULT_API_VERSION: &str = "v1";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_ATTEMPTS: u32 = 3;
const DEFAULT_BASE_DELAY: Duration = Duration::from_secs(1);
const DEFAULT_MAX_DELAY: Duration = Duration::from_secs(30);
/// The most attempts of one API call.
pub(super) const MAX_ATTEMPTS: u64 = 10;

/// The deployment configuration of an adapter.
#[derive(Clone, Debug)]
pub struct AdapterConfig {
    /// The name of the adapter, under which it reports.
    pub name: String,
    /// The version of the framework that the configuration is written for.
    pub version: Option<String>,
    /// How to call the fleet API.
    pub api: ApiConfig,
    /// The subscription that events are received from.
    pub subscription_id: Option<String>,
    /// The topic that events are published to.
    pub topic: Option<String>,
    /// The kubeconfig of the transport `kubernetes`; in-cluster credentials if there is none.
    pub kube_config_path: Option<PathBuf>,
    /// The whole file as JSON, with redacted secrets: `config.*` in expressions, and the dump.
    pub redacted: Json,
}

/// How to call the fleet API.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiConfig {
    /// The address, such as `http://127.0.0.1:8000`.
    pub base_url: String,
    /// The version in the path of relative URLs.
    pub version: String,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How often a call is attempted.
    pub retry_attempts: u32,
    /// How the delay between attempts grows.
    pub retry_backoff: RetryBackoff,
    /// The first delay.
    pub base_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
    /// Headers of every call.
    pub default_headers: BTreeMap<String, String>,
    /// The file with the bearer token.
    pub token_path: Option<PathBuf>,
}

/// How the delay between attempts grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryBackoff {
    /// It doubles.
    Exponential,
    /// It grows by the first delay.
    Linear,
    /// It stays.
    Constant,
}

impl FromStr for RetryBackoff {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "exponential" => Ok(Self::Exponential),
            "linear" => Ok(Self::Linear),
            "constant" => Ok(Self::Constant),
            _ => Err(()),
        }
    }
}

impl RetryBackoff {
    /// The delay after this many failed attempts.
    pub fn delay(self, failures: u32, base: Duration, max: Duration) -> Duration {
        let factor = match self {
            Self::Exponential => 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX),
            Self::Linear => failures.max(1),
            Self::Constant => 1,
        };
        base.saturating_mul(factor).min(max)
    }
}

/// Values from flags and the environment that take precedence over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The name of the adapter.
    pub name: Option<String>,
    /// The address of the fleet API.
    pub api_base_url: Option<String>,
    /// The topic.
    pub topic: Option<String>,
    /// The subscription.
    pub subscription_id: Option<String>,
    /// The kubeconfig.
    pub kube_config_path: Option<PathBuf>,
}

pub(super) fn read(node: &Node, overrides: &Overrides, reader: &mut Reader<'_>) -> Option<AdapterConfig> {
    let mut fields = reader.fields("the adapter configuration", node)?;
    let adapter = fields.take("adapter");
    let (name, version) = adapter.map_or((None, None), |node| read_adapter(node, reader));
    let name = overrides.name.clone().or(name);
    if name.as_ref().is_none_or(String::is_empty) {
        reader.error(fields.at, "`adapter.name` is missing; add the name under which the adapter reports");
    }
    if let Some(node) = fields.take("log") {
        read_log(node, reader);
    }
    reader.boolean("`debug_config`", fields.take("debug_config"));
    let clients = fields.take("clients");
    let clients = clients.and_then(|node| read_clients(node, overrides, reader)).unwrap_or_else(|| Clients {
        api: default_api(overrides.api_base_url.clone().unwrap_or_default()),
        ..Clients::default()
    });
    if clients.api.as_ref().is_none_or(|api| api.base_url.is_empty()) {
        reader.error(fields.at, "`clients.hyperfleet_api.base_url` is missing; set it here or with --api");
    }
    fields.finish(reader);
    Some(AdapterConfig {
        name: name?,
        version,
        api: clients.api?,
        subscription_id: overrides.subscription_id.clone().or(clients.subscription_id),
        topic: overrides.topic.clone().or(clients.topic),
        kube_config_path: overrides.kube_config_path.clone().or(clients.kube_config_path),
        redacted: redact(node.to_json()),
    })
}

fn read_adapter(node: &Node, reader: &mut Reader<'_>) -> (Option<String>, Option<String>) {
    let Some(mut fields) = reader.fields("`adapter`", node) else { return (None, None) };
    let name = fields.string("name", reader);
    let version = fields.take("version").and_then(|node| {
        let version = reader.string("`version`", node)?;
        if let Err(message) = check_version(&version, env!("CARGO_PKG_VERSION")) {
            reader.error(node.at, message);
        }
        Some(version)
    });
    fields.finish(reader);
    (name, version)
}

/// A configuration must be written for the major and minor version of the binary; `0.0.0-*` is for any.
pub(super) fn check_version(wanted: &str, binary: &str) -> Result<(), String> {
    let wanted_text = wanted.trim_start_matches('v');
    if wanted_text.starts_with("0.0.0-") {
        return Ok(());
    }
    let major_minor = |text: &str| {
        let mut parts = text.split(['.', '-', '+']).map(str::parse::<u64>);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    match (major_minor(wanted_text), major_minor(binary)) {
        (None, _) => Err(format!("`adapter.version` must be a version such as 0.1.0; found {wanted:?}")),
        (Some(wanted), Some(binary)) if wanted == binary => Ok(()),
        (Some(_), _) => Err(format!(
            "the configuration is written for version {wanted}, and this is {binary}; adapt `adapter.version`, or use 0.0.0-dev to skip the check"
        )),
    }
}

/// The settings of the log are accepted and not used: it is set up before this file is read.
fn read_log(node: &Node, reader: &mut Reader<'_>) {
    let Some(mut fields) = reader.fields("`log`", node) else { return };
    for name in ["level", "format", "output"] {
        fields.string(name, reader);
    }
    fields.finish(reader);
}

#[derive(Default)]
struct Clients {
    api: Option<ApiConfig>,
    subscription_id: Option<String>,
    topic: Option<String>,
    kube_config_path: Option<PathBuf>,
}

fn default_api(base_url: String) -> Option<ApiConfig> {
    Some(ApiConfig {
        base_url,
        version: DEFAULT_API_VERSION.to_owned(),
        timeout: DEFAULT_TIMEOUT,
        retry_attempts: DEFAULT_ATTEMPTS,
        retry_backoff: RetryBackoff::Exponential,
        base_delay: DEFAULT_BASE_DELAY,
        max_delay: DEFAULT_MAX_DELAY,
        default_headers: BTreeMap::new(),
        token_path: None,
    })
}

fn read_clients(node: &Node, overrides: &Overrides, reader: &mut Reader<'_>) -> Option<Clients> {
    let mut fields = reader.fields("`clients`", node)?;
    let mut clients = Clients { api: default_api(String::new()), ..Clients::default() };
    if let Some(node) = fields.take("hyperfleet_api") {
        clients.api = read_api(node, reader);
    }
    if let (Some(api), Some(base_url)) = (&mut clients.api, &overrides.api_base_url) {
        api.base_url.clone_from(base_url);
    }
    if let Some(mut broker) = fields.take("broker").and_then(|node| reader.fields("`clients.broker`", node)) {
        clients.subscription_id = broker.string("subscription_id", reader);
        clients.topic = broker.string("topic", reader);
        broker.finish(reader);
    }
    if let Some(mut kubernetes) =
        fields.take("kubernetes").and_then(|node| reader.fields("`clients.kubernetes`", node))
    {
        kubernetes.string("api_version", reader);
        clients.kube_config_path = kubernetes.string("kube_config_path", reader).map(PathBuf::from);
        kubernetes.take("qps");
        kubernetes.take("burst");
        kubernetes.finish(reader);
    }
    if let Some(maestro) = fields.take("maestro").and_then(|node| reader.fields("`clients.maestro`", node)) {
        read_maestro(maestro, reader);
    }
    fields.finish(reader);
    Some(clients)
}

fn read_api(node: &Node, reader: &mut Reader<'_>) -> Option<ApiConfig> {
    let mut fields = reader.fields("`clients.hyperfleet_api`", node)?;
    let mut api = default_api(fields.string("base_url", reader).unwrap_or_default())?;
    api.version = fields.string("version", reader).unwrap_or(api.version);
    if let Some(timeout) = fields.take("timeout").and_then(|node| reader.duration("`timeout`", node)) {
        api.timeout = timeout;
    }
    if let Some(attempts) = fields.take("retry_attempts") {
        let attempts = reader.integer("`retry_attempts`", attempts, MAX_ATTEMPTS);
        api.retry_attempts =
            attempts.and_then(|attempts| u32::try_from(attempts).ok()).unwrap_or(DEFAULT_ATTEMPTS);
    }
    if let Some(node) = fields.take("retry_backoff") {
        let backoff = reader.word("`retry_backoff`", node, "exponential, linear, constant");
        api.retry_backoff = backoff.unwrap_or(RetryBackoff::Exponential);
    }
    if let Some(delay) = fields.take("base_delay").and_then(|node| reader.duration("`base_delay`", node)) {
        api.base_delay = delay;
    }
    if let Some(delay) = fields.take("max_delay").and_then(|node| reader.duration("`max_delay`", node)) {
        api.max_delay = delay;
    }
    if let Some(node) = fields.take("default_headers") {
        api.default_headers = read_headers(node, reader);
    }
    if let Some(mut auth) = fields.take("auth").and_then(|node| reader.fields("`auth`", node)) {
        api.token_path = auth.string("token_path", reader).map(PathBuf::from);
        auth.take("token_cache_ttl").and_then(|node| reader.duration("`token_cache_ttl`", node));
        auth.finish(reader);
    }
    fields.finish(reader);
    Some(api)
}

fn read_headers(node: &Node, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let super::node::Content::Map(entries) = &node.content else {
        reader.error(node.at, "`default_headers` must be a mapping of names to values");
        return BTreeMap::new();
    };
    let headers = entries.iter().filter_map(|(key, value)| {
        let value = reader.string("a header", value)?;
        Some((key.name.clone(), value))
    });
    headers.collect()
}

/// The settings of a Maestro server are accepted and not used: works are delivered through the hub.
fn read_maestro(mut fields: Fields<'_>, reader: &mut Reader<'_>) {
    for name in [
        "grpc_server_address",
        "http_server_address",
        "source_id",
        "client_id",
        "auth",
        "timeout",
        "server_healthiness_timeout",
        "retry_attempts",
        "keepalive",
        "insecure",
    ] {
        fields.take(name);
    }
    fields.finish(reader);
}
