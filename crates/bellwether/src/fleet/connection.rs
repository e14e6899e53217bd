//! Connects to the fleet API, and finds resources by name or ID.

use std::path::Path;

use anyhow::Context as _;
use axum::http::{HeaderName, HeaderValue, Method};
use bellwether_fleet::client::{Client, ClientError, ListOf};
use bellwether_fleet::resource::{Id, Resource};
use serde::de::DeserializeOwned;

use super::arguments::ConnectionArgs;
use crate::endpoints::Addresses;

/// The file in which `bellwether up` publishes its addresses.
const ENDPOINTS: &str = ".bellwether/endpoints.json";
/// The number of items of a page.
const PAGE_SIZE: usize = 100;

pub(super) fn connect(arguments: &ConnectionArgs) -> anyhow::Result<Client> {
    let address = match &arguments.api {
        Some(address) => address.clone(),
        None => read_endpoints(Path::new(ENDPOINTS))?,
    };
    let mut client = Client::new(&address, arguments.certificate_authority.as_deref())?;
    if let Some(file) = &arguments.token_file {
        let token = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the token from {}", file.display()))?;
        client = client.bearer(&token);
    }
    for header in &arguments.headers {
        let parsed = header.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        let (name, value) =
            parsed.with_context(|| format!("--header {header:?} is not of the form NAME: VALUE"))?;
        client = client.header(name, value);
    }
    Ok(client)
}

fn read_endpoints(path: &Path) -> anyhow::Result<String> {
    let hint = "no fleet API is known: name one with --api or BELLWETHER_API, or run this where `bellwether up` was started";
    let text = std::fs::read(path).context(hint)?;
    let addresses: Addresses = serde_json::from_slice(&text).with_context(|| {
        format!("{} is not valid; restart `bellwether up` to write it again", path.display())
    })?;
    addresses.http.context("the server of this directory does not serve the fleet API; start `bellwether up` or name one with --api")
}

/// The names of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noun {
    /// In JSON, such as `NodePool`.
    pub(super) kind: &'static str,
    /// In paths, such as `nodepools`.
    pub(super) plural: &'static str,
    /// In commands and messages, such as `nodepool`.
    pub(super) word: &'static str,
}

pub(super) const CLUSTER: Noun = Noun { kind: "Cluster", plural: "clusters", word: "cluster" };
pub(super) const NODE_POOL: Noun = Noun { kind: "NodePool", plural: "nodepools", word: "nodepool" };

/// The resources of a kind, or those of one owner.
pub(super) struct Collection {
    pub(super) client: Client,
    pub(super) noun: Noun,
    pub(super) owner: Option<Resource>,
}

impl Collection {
    /// The path of the collection, below the base path.
    pub(super) fn path(&self) -> String {
        match &self.owner {
            None => format!("/{}", self.noun.plural),
            Some(owner) => format!("/{}/{}/{}", CLUSTER.plural, owner.id, self.noun.plural),
        }
    }

    /// All resources that match, read page by page.
    pub(super) async fn all(&self, search: Option<&str>, order: &str) -> Result<Vec<Resource>, ClientError> {
        let search = search.map(|search| format!("&search={}", encode(search))).unwrap_or_default();
        let query = format!("{}?order={}{search}", self.path(), encode(order));
        pages(&self.client, &query, usize::MAX).await
    }

    /// The resources of a name, the newest first.
    async fn named(&self, name: &str) -> Result<Vec<Resource>, ClientError> {
        let search = format!("name = '{}'", name.replace('\\', "\\\\").replace('\'', "''"));
        self.all(Some(&search), "created_time desc").await
    }

    /// Whether there is a resource of this name or ID.
    pub(super) async fn contains(&self, name: &str) -> Result<bool, ClientError> {
        let Ok(id) = name.parse::<Id>() else { return Ok(!self.named(name).await?.is_empty()) };
        exists(&self.client, &format!("{}/{id}", self.path())).await
    }

    /// Finds a resource by name or ID. Of several with the name, it is the one that is not being deleted, or else the newest.
    pub(super) async fn find(&self, name: &str) -> anyhow::Result<Resource> {
        if let Ok(id) = name.parse::<Id>() {
            return Ok(self.client.call(Method::GET, &format!("{}/{id}", self.path()), None).await?);
        }
        let mut found = self.named(name).await?;
        let active = found.iter().filter(|resource| !resource.is_deleting()).count();
        if active > 1 {
            anyhow::bail!(
                "{active} {}s are named {name}; select one with --cluster or by ID: `bellwether {} get -o wide` shows IDs",
                self.noun.word,
                self.noun.word
            );
        }
        found.sort_by_key(Resource::is_deleting);
        found.into_iter().next().with_context(|| {
            format!("there is no {} {name}; `bellwether {} get` lists all", self.noun.word, self.noun.word)
        })
    }
}

/// Whether there is a resource at a path.
pub(super) async fn exists(client: &Client, path: &str) -> Result<bool, ClientError> {
    match client.call_raw(Method::GET, path, None).await {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_some_and(|status| status.as_u16() == 404) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads the items of a list page by page, up to `most`.
pub(super) async fn pages<T: DeserializeOwned>(
    client: &Client,
    query: &str,
    most: usize,
) -> Result<Vec<T>, ClientError> {
    let mut all = Vec::new();
    let joint = if query.contains('?') { '&' } else { '?' };
    for page in 1.. {
        let list: ListOf<T> =
            client.call(Method::GET, &format!("{query}{joint}page={page}&size={PAGE_SIZE}"), None).await?;
        let last = list.items.len() < PAGE_SIZE;
        all.extend(list.items);
        if last || all.len() >= most {
            break;
        }
    }
    all.truncate(most);
    Ok(all)
}

/// Percent-encodes a value of a query string.
pub(super) fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
