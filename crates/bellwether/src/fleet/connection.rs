//! Finds the fleet API, and finds resources in it by the names that people use.

use std::path::Path;

use anyhow::Context as _;
use axum::http::{HeaderName, HeaderValue, Method};
use bellwether_fleet::client::{Client, ClientError, ListOf};
use bellwether_fleet::resource::{Id, Resource};
use serde::de::DeserializeOwned;

use super::arguments::ConnectionArgs;
use crate::endpoints::Addresses;

/// Where `bellwether up` says what it has bound.
const ENDPOINTS: &str = ".bellwether/endpoints.json";
/// As many as one page has.
const PAGE: usize = 100;

pub(super) fn connect(arguments: &ConnectionArgs) -> anyhow::Result<Client> {
    let address = match &arguments.api {
        Some(address) => address.clone(),
        None => published(Path::new(ENDPOINTS))?,
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

fn published(path: &Path) -> anyhow::Result<String> {
    let hint =
        "no fleet API is known: name one by --api or BELLWETHER_API, or run this where `bellwether up` runs";
    let text = std::fs::read(path).context(hint)?;
    let addresses: Addresses =
        serde_json::from_slice(&text).with_context(|| format!("{} makes no sense", path.display()))?;
    addresses.http.context("the server that runs here does not serve the fleet API")
}

/// A kind, as the command line knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noun {
    /// On the wire.
    pub(super) kind: &'static str,
    /// In paths.
    pub(super) plural: &'static str,
    /// For people.
    pub(super) word: &'static str,
}

pub(super) const CLUSTER: Noun = Noun { kind: "Cluster", plural: "clusters", word: "cluster" };
pub(super) const NODE_POOL: Noun = Noun { kind: "NodePool", plural: "nodepools", word: "nodepool" };

/// Resources of one kind, perhaps those of one owner.
pub(super) struct Collection {
    pub(super) client: Client,
    pub(super) noun: Noun,
    pub(super) owner: Option<Resource>,
}

impl Collection {
    /// Its path below the base.
    pub(super) fn path(&self) -> String {
        match &self.owner {
            None => format!("/{}", self.noun.plural),
            Some(owner) => format!("/{}/{}/{}", CLUSTER.plural, owner.id, self.noun.plural),
        }
    }

    /// All that match, page by page.
    pub(super) async fn all(&self, search: Option<&str>, order: &str) -> Result<Vec<Resource>, ClientError> {
        let search = search.map(|search| format!("&search={}", encode(search))).unwrap_or_default();
        let query = format!("{}?order={}{search}", self.path(), encode(order));
        pages(&self.client, &query, usize::MAX).await
    }

    /// The one of a name or an id. Of several by one name that which is not being deleted, or else the newest.
    pub(super) async fn find(&self, name: &str) -> anyhow::Result<Resource> {
        if let Ok(id) = name.parse::<Id>() {
            return Ok(self.client.call(Method::GET, &format!("{}/{id}", self.path()), None).await?);
        }
        let search = format!("name = '{}'", name.replace('\\', "\\\\").replace('\'', "''"));
        let mut found = self.all(Some(&search), "created_time desc").await?;
        let active = found.iter().filter(|resource| !resource.is_deleting()).count();
        if active > 1 {
            anyhow::bail!(
                "{active} {}s are called {name}; say which by --cluster, or by id: `bellwether {} get -o wide` shows ids",
                self.noun.word,
                self.noun.word
            );
        }
        found.sort_by_key(Resource::is_deleting);
        found.into_iter().next().with_context(|| {
            format!(
                "there is no {} {name}; `bellwether {} get` shows those there are",
                self.noun.word, self.noun.word
            )
        })
    }
}

/// The items of a list, page by page, up to so many.
pub(super) async fn pages<T: DeserializeOwned>(
    client: &Client,
    query: &str,
    most: usize,
) -> Result<Vec<T>, ClientError> {
    let mut all = Vec::new();
    let joint = if query.contains('?') { '&' } else { '?' };
    for page in 1.. {
        let list: ListOf<T> =
            client.call(Method::GET, &format!("{query}{joint}page={page}&size={PAGE}"), None).await?;
        let last = list.items.len() < PAGE;
        all.extend(list.items);
        if last || all.len() >= most {
            break;
        }
    }
    all.truncate(most);
    Ok(all)
}

/// A value of a query.
pub(super) fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
