//! `bellwether cluster` and `bellwether nodepool`: commands on the fleet API. Arguments are in `arguments`, formatting is in
//! `show`.

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
use self::connection::{CLUSTER, Collection, NODE_POOL, Noun, connect, exists, pages};
use self::show::{Owners, Width};
use crate::outcome::Unfinished;
use crate::output::{Format, ignore_broken_pipe, print, yaml};

/// How many reports `describe` shows.
const LAST_REPORTS: usize = 5;
/// The error code of the API for a name that already exists.
const ALREADY_EXISTS: &str = "HYPERFLEET-CNF-001";
/// How often `delete --wait` checks whether the resource is removed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

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
            Action::Get(arguments) if arguments.watch => {
                watch::run(&collection, &arguments.names, arguments.output).await
            }
            Action::Get(arguments) => collection.get(&arguments).await,
            Action::Describe(arguments) => collection.describe(&arguments.name).await,
            Action::Create(arguments) => collection.create(&arguments).await,
            Action::Update(arguments) => collection.update(&arguments).await,
            Action::Delete(arguments) => collection.delete(&arguments).await,
            Action::Statuses(arguments) => {
                let statuses: Vec<AdapterStatus> =
                    collection.list_of(&arguments.name, "/statuses", usize::MAX).await?;
                if arguments.output.is_for_people() && statuses.is_empty() {
                    eprintln!("No adapter has reported.");
                    return Ok(());
                }
                let lines = || show::format_statuses(&statuses, Timestamp::now());
                print_list(&statuses, arguments.output, lines, |status| status.adapter.clone())
            }
            Action::Log(arguments) => {
                let entries: Vec<LogEntry> =
                    collection.list_of(&arguments.name, "/statuses/log", arguments.last.into()).await?;
                if arguments.output.is_for_people() && entries.is_empty() {
                    eprintln!("No adapter has reported.");
                    return Ok(());
                }
                print_list(
                    &entries,
                    arguments.output,
                    || show::format_log(&entries),
                    |entry| entry.adapter.clone(),
                )
            }
        }
    });
    ignore_broken_pipe(done)
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
        let lines = || show::format_resources(&items, &owners, width(arguments.output), Timestamp::now());
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
                show::format_resources(items, &owners, width(format), Timestamp::now()).join("\n")
            }
        };
        Ok(print(&line)?)
    }

    fn name_of(&self, item: &Resource) -> String {
        format!("{}/{}", self.noun.word, item.name)
    }

    /// Reads the names of the clusters that own these resources.
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
        let lines = show::format_details(self.noun, &item, owner, &statuses, &log, Timestamp::now());
        Ok(print(&lines.join("\n"))?)
    }

    async fn create(&self, arguments: &CreateArgs) -> anyhow::Result<()> {
        if self.noun.kind == NODE_POOL.kind && self.owner.is_none() {
            anyhow::bail!("a node pool belongs to a cluster: name it with --cluster NAME");
        }
        if let Some(label) = arguments.labels.iter().find(|label| !label.contains('=')) {
            anyhow::bail!("--label {label:?} is not KEY=VALUE");
        }
        let labels = change_labels(BTreeMap::new(), &arguments.labels)?;
        let spec = read_spec(&arguments.spec)?.unwrap_or_default();
        let name = &arguments.name;
        let body = json!({"kind": self.noun.kind, "name": name, "spec": spec, "labels": labels});
        let created = self.client.call(Method::POST, &self.path(), Some(&body)).await;
        if let Err(ClientError::Refused { code, .. }) = &created
            && code == ALREADY_EXISTS
        {
            let word = self.noun.word;
            anyhow::bail!(
                "the {word} {name} already exists; change it with `bellwether {word} update {name}`"
            );
        }
        self.print_result(&created?, "created", arguments.output).await
    }

    async fn update(&self, arguments: &UpdateArgs) -> anyhow::Result<()> {
        let current = self.find(&arguments.name).await?;
        let mut body = Map::new();
        if let Some(spec) = read_spec(&arguments.spec)? {
            body.insert("spec".to_owned(), Value::Object(spec));
        }
        if !arguments.labels.is_empty() {
            body.insert(
                "labels".to_owned(),
                json!(change_labels(current.labels.clone(), &arguments.labels)?),
            );
        }
        if body.is_empty() {
            anyhow::bail!("nothing to change: use --spec, --spec-file or --label");
        }
        let path = format!("/{}/{}", self.noun.plural, current.id);
        let updated: Resource = self.client.call(Method::PATCH, &path, Some(&Value::Object(body))).await?;
        let verb = if updated.generation == current.generation { "unchanged" } else { "updated" };
        self.print_result(&updated, verb, arguments.output).await
    }

    async fn print_result(&self, item: &Resource, verb: &str, format: Format) -> anyhow::Result<()> {
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
            // 404: no adapter had to clean up, so the resource was removed at once.
            let removed =
                forced.as_ref().err().and_then(ClientError::status).is_some_and(|it| it.as_u16() == 404);
            if !removed {
                forced?;
            }
            return Ok(print(&format!("{} force-deleted", self.name_of(&item)))?);
        }
        let begun = std::time::Instant::now();
        while exists(&self.client, &path).await? {
            if !arguments.wait {
                return Ok(print(&format!("{} is being deleted", self.name_of(&item)))?);
            }
            if begun.elapsed() > arguments.timeout {
                let message = format!(
                    "{} was not removed within {:?}; `bellwether {} describe {}` shows which adapters have not cleaned up",
                    self.name_of(&item),
                    arguments.timeout,
                    self.noun.word,
                    item.id
                );
                return Err(Unfinished::TimedOut(message).into());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(print(&format!("{} deleted", self.name_of(&item)))?)
    }

    /// Reads a list of a resource, such as its statuses.
    async fn list_of<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        subpath: &str,
        most: usize,
    ) -> anyhow::Result<Vec<T>> {
        let item = self.find(name).await?;
        Ok(pages(&self.client, &format!("/{}/{}{subpath}", self.noun.plural, item.id), most).await?)
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

/// Reads the spec from the arguments, if they have one.
fn read_spec(arguments: &SpecArgs) -> anyhow::Result<Option<Map<String, Value>>> {
    let (text, source) = match (&arguments.spec, &arguments.spec_file) {
        (Some(text), _) => (text.clone(), "--spec".to_owned()),
        (None, Some(path)) => (read_text(path)?, path.display().to_string()),
        (None, None) => return Ok(None),
    };
    let parsed: Result<Value, _> = serde_saphyr::from_str(&text);
    let value = parsed.map_err(|error| {
        let message = error.without_snippet().to_string();
        anyhow::anyhow!("{source} is neither JSON nor YAML: {}", message.lines().next().unwrap_or_default())
    })?;
    match value {
        Value::Object(spec) => Ok(Some(spec)),
        _ => anyhow::bail!(
            "{source} is not an object; a spec is an object, such as {{\"region\": \"eu-west-1\"}}"
        ),
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Changes labels: `KEY=VALUE` sets a label, `KEY-` removes one.
fn change_labels(
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
