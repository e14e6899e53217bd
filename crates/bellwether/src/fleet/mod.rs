//! `bellwether cluster` and `bellwether nodepool`: the fleet API for people and for scripts.

pub(crate) mod arguments;
mod connection;
mod show;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use axum::http::Method;
use bellwether_fleet::client::ClientError;
use bellwether_fleet::resource::{AdapterStatus, Id, LogEntry, Resource};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use self::arguments::{
    Action, ClusterArgs, ConnectionArgs, CreateArgs, DeleteArgs, GetArgs, NodepoolArgs, SpecArgs, UpdateArgs,
};
use self::connection::{CLUSTER, Collection, NODE_POOL, Noun, connect, pages};
use self::show::{Owners, Width};
use crate::outcome::NotDone;
use crate::output::{Format, forgive_broken_pipe, print, yaml};

/// How many reports a description shows.
const LAST_REPORTS: usize = 5;
/// How the API says that a name is taken.
const EXISTS: &str = "HYPERFLEET-CNF-001";
/// How often it is looked whether something is gone.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn run_cluster(arguments: ClusterArgs) -> anyhow::Result<()> {
    run(CLUSTER, None, &arguments.connection, arguments.action)
}

pub(crate) fn run_nodepool(arguments: NodepoolArgs) -> anyhow::Result<()> {
    run(NODE_POOL, arguments.cluster.as_deref(), &arguments.connection, arguments.action)
}

fn run(noun: Noun, cluster: Option<&str>, api: &ConnectionArgs, action: Action) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let client = connect(api)?;
        let clusters = Collection { client: client.clone(), noun: CLUSTER, owner: None };
        let owner = match cluster {
            Some(name) => Some(clusters.find(name).await?),
            None => None,
        };
        let collection = Collection { client, noun, owner };
        match action {
            Action::Get(arguments) if arguments.watch => watch::run(&collection, arguments.output).await,
            Action::Get(arguments) => collection.get(&arguments).await,
            Action::Describe(arguments) => collection.describe(&arguments.name).await,
            Action::Create(arguments) => collection.create(&arguments).await,
            Action::Update(arguments) => collection.update(&arguments).await,
            Action::Delete(arguments) => collection.delete(&arguments).await,
            Action::Statuses(arguments) => {
                let statuses: Vec<AdapterStatus> =
                    collection.below(&arguments.name, "/statuses", usize::MAX).await?;
                if arguments.output.is_for_people() && statuses.is_empty() {
                    eprintln!("No adapter has reported.");
                    return Ok(());
                }
                let lines = || show::statuses(&statuses, Timestamp::now());
                print_list(&statuses, arguments.output, lines, |status| status.adapter.clone())
            }
            Action::Log(arguments) => {
                let entries: Vec<LogEntry> =
                    collection.below(&arguments.name, "/statuses/log", arguments.last.into()).await?;
                if arguments.output.is_for_people() && entries.is_empty() {
                    eprintln!("No report has come in.");
                    return Ok(());
                }
                print_list(&entries, arguments.output, || show::log(&entries), |entry| entry.adapter.clone())
            }
        }
    });
    forgive_broken_pipe(done)
}

impl Collection {
    async fn get(&self, arguments: &GetArgs) -> anyhow::Result<()> {
        if let [name] = arguments.names.as_slice() {
            return self.print_one(&self.find(name).await?, arguments.output).await;
        }
        let items = match arguments.names.as_slice() {
            [] => self.all(arguments.search.as_deref(), &arguments.order).await?,
            names => {
                let mut items = Vec::new();
                for name in names {
                    items.push(self.find(name).await?);
                }
                items
            }
        };
        if items.is_empty() && arguments.output.is_for_people() {
            eprintln!("No {}s found.", self.noun.word);
            return Ok(());
        }
        let owners = self.owners(&items).await?;
        let lines = || show::resources(&items, &owners, width(arguments.output), Timestamp::now());
        print_list(&items, arguments.output, lines, |item| self.name_of(item))
    }

    async fn print_one(&self, item: &Resource, format: Format) -> anyhow::Result<()> {
        let line = match format {
            Format::Json => serde_json::to_string_pretty(item)?,
            Format::Yaml => yaml(item)?,
            Format::Name => self.name_of(item),
            Format::Table | Format::Wide => {
                let items = std::slice::from_ref(item);
                let owners = self.owners(items).await?;
                show::resources(items, &owners, width(format), Timestamp::now()).join("\n")
            }
        };
        Ok(print(&line)?)
    }

    fn name_of(&self, item: &Resource) -> String {
        format!("{}/{}", self.noun.word, item.name)
    }

    /// The names of the clusters that these belong to.
    async fn owners(&self, items: &[Resource]) -> Result<Owners, ClientError> {
        let wanted: BTreeSet<Id> = items.iter().filter_map(Resource::owner).collect();
        let clusters = Collection { client: self.client.clone(), noun: CLUSTER, owner: None };
        let mut owners = Owners::new();
        for chunk in wanted.into_iter().collect::<Vec<_>>().chunks(50) {
            let ids: Vec<String> = chunk.iter().map(|id| format!("'{id}'")).collect();
            let found = clusters.all(Some(&format!("id in [{}]", ids.join(", "))), "name").await?;
            owners.extend(found.into_iter().map(|owner| (owner.id, owner.name)));
        }
        Ok(owners)
    }

    async fn describe(&self, name: &str) -> anyhow::Result<()> {
        let item = self.find(name).await?;
        let path = format!("/{}/{}", self.noun.plural, item.id);
        let statuses: Vec<AdapterStatus> =
            pages(&self.client, &format!("{path}/statuses"), usize::MAX).await?;
        let log: Vec<LogEntry> = pages(&self.client, &format!("{path}/statuses/log"), LAST_REPORTS).await?;
        let owners = self.owners(std::slice::from_ref(&item)).await?;
        let owner = item.owner().and_then(|owner| owners.get(&owner)).map(String::as_str);
        let lines = show::describe(self.noun, &item, owner, &statuses, &log, Timestamp::now());
        Ok(print(&lines.join("\n"))?)
    }

    async fn create(&self, arguments: &CreateArgs) -> anyhow::Result<()> {
        if self.noun.kind == NODE_POOL.kind && self.owner.is_none() {
            anyhow::bail!("a node pool belongs to a cluster: say which by --cluster NAME");
        }
        if let Some(label) = arguments.labels.iter().find(|label| !label.contains('=')) {
            anyhow::bail!("--label {label:?} is not KEY=VALUE");
        }
        let labels = labels(BTreeMap::new(), &arguments.labels)?;
        let spec = spec(&arguments.spec)?.unwrap_or_default();
        let name = &arguments.name;
        let body = json!({"kind": self.noun.kind, "name": name, "spec": spec, "labels": labels});
        let made = self.client.call(Method::POST, &self.path(), Some(&body)).await;
        if let Err(ClientError::Refused { code, .. }) = &made
            && code == EXISTS
        {
            let word = self.noun.word;
            anyhow::bail!("there already is a {word} {name}; `bellwether {word} update {name}` changes it");
        }
        self.print_done(&made?, "created", arguments.output).await
    }

    async fn update(&self, arguments: &UpdateArgs) -> anyhow::Result<()> {
        let current = self.find(&arguments.name).await?;
        let mut body = Map::new();
        if let Some(spec) = spec(&arguments.spec)? {
            body.insert("spec".to_owned(), Value::Object(spec));
        }
        if !arguments.labels.is_empty() {
            body.insert("labels".to_owned(), json!(labels(current.labels.clone(), &arguments.labels)?));
        }
        if body.is_empty() {
            anyhow::bail!("nothing to change: give --spec, --spec-file or --label");
        }
        let path = format!("/{}/{}", self.noun.plural, current.id);
        let updated: Resource = self.client.call(Method::PATCH, &path, Some(&Value::Object(body))).await?;
        let verb = if updated.generation == current.generation { "unchanged" } else { "updated" };
        self.print_done(&updated, verb, arguments.output).await
    }

    async fn print_done(&self, item: &Resource, verb: &str, format: Format) -> anyhow::Result<()> {
        match format {
            Format::Name => {
                Ok(print(&format!("{} {verb} (generation {})", self.name_of(item), item.generation))?)
            }
            format => self.print_one(item, format).await,
        }
    }

    async fn delete(&self, arguments: &DeleteArgs) -> anyhow::Result<()> {
        let item = self.find(&arguments.name).await?;
        let path = format!("/{}/{}", self.noun.plural, item.id);
        self.client.call_raw(Method::DELETE, &path, None).await?;
        if let Some(reason) = &arguments.reason {
            let body = json!({"reason": reason});
            let forced =
                self.client.call_raw(Method::POST, &format!("{path}/force-delete"), Some(&body)).await;
            // Nobody had to clean up after it, so it is gone already.
            let gone =
                forced.as_ref().err().and_then(ClientError::status).is_some_and(|it| it.as_u16() == 404);
            if !gone {
                forced?;
            }
            return Ok(print(&format!("{} removed by force", self.name_of(&item)))?);
        }
        let begun = std::time::Instant::now();
        while !self.is_gone(&path).await? {
            if !arguments.wait {
                return Ok(print(&format!("{} is being deleted", self.name_of(&item)))?);
            }
            if begun.elapsed() > arguments.timeout {
                let words = format!(
                    "{} is not gone after {:?}; `bellwether {} describe {}` says which adapters have not cleaned up",
                    self.name_of(&item),
                    arguments.timeout,
                    self.noun.word,
                    item.id
                );
                return Err(NotDone::Late(words).into());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(print(&format!("{} deleted", self.name_of(&item)))?)
    }

    async fn is_gone(&self, path: &str) -> Result<bool, ClientError> {
        match self.client.call_raw(Method::GET, path, None).await {
            Ok(_) => Ok(false),
            Err(error) if error.status().is_some_and(|status| status.as_u16() == 404) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// A list that belongs to one of these.
    async fn below<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        what: &str,
        most: usize,
    ) -> anyhow::Result<Vec<T>> {
        let item = self.find(name).await?;
        Ok(pages(&self.client, &format!("/{}/{}{what}", self.noun.plural, item.id), most).await?)
    }
}

fn width(format: Format) -> Width {
    if format == Format::Wide { Width::Wide } else { Width::Narrow }
}

fn print_list<T: Serialize>(
    items: &[T],
    format: Format,
    table: impl FnOnce() -> Vec<String>,
    name: impl Fn(&T) -> String,
) -> anyhow::Result<()> {
    let text = match format {
        Format::Table | Format::Wide => table().join("\n"),
        Format::Json => serde_json::to_string_pretty(items)?,
        Format::Yaml => yaml(&items)?,
        Format::Name => items.iter().map(name).collect::<Vec<_>>().join("\n"),
    };
    if text.is_empty() { Ok(()) } else { Ok(print(&text)?) }
}

/// The spec that was given, if one was.
fn spec(arguments: &SpecArgs) -> anyhow::Result<Option<Map<String, Value>>> {
    let (text, from) = match (&arguments.spec, &arguments.spec_file) {
        (Some(text), _) => (text.clone(), "--spec".to_owned()),
        (None, Some(path)) => (read(path)?, path.display().to_string()),
        (None, None) => return Ok(None),
    };
    let read: Result<Value, _> = serde_saphyr::from_str(&text);
    let value = read.map_err(|error| {
        let words = error.without_snippet().to_string();
        anyhow::anyhow!("{from} is neither JSON nor YAML: {}", words.lines().next().unwrap_or_default())
    })?;
    match value {
        Value::Object(spec) => Ok(Some(spec)),
        _ => anyhow::bail!("{from} is not an object: a spec is one, such as {{\"region\": \"eu-west-1\"}}"),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Labels with changes: `KEY=VALUE` sets one, `KEY-` removes one.
fn labels(
    mut labels: BTreeMap<String, String>,
    changes: &[String],
) -> anyhow::Result<BTreeMap<String, String>> {
    for change in changes {
        match (change.split_once('='), change.strip_suffix('-')) {
            (Some((key, value)), _) => {
                labels.insert(key.to_owned(), value.to_owned());
            }
            (None, Some(key)) => {
                labels.remove(key);
            }
            (None, None) => anyhow::bail!("--label {change:?} is neither KEY=VALUE nor KEY-"),
        }
    }
    Ok(labels)
}
