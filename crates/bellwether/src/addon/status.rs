//! `bellwether addon status`: the add-ons of the fleet on their clusters.

use std::collections::HashMap;
use std::io::IsTerminal as _;

use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::arguments::StatusArgs;
use super::hub;
use super::state::{Management, Row, row, unreadable};
use super::table::{self, Columns};
use crate::output::{Format, colour, print, yaml};
use crate::target::Target;

/// How kubectl names them.
const NAME_OF_INSTANCE: &str = "managedclusteraddon.addon.open-cluster-management.io";

pub(super) async fn run(arguments: &StatusArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    let (managements, instances) = match &arguments.name {
        None => (hub::addons(&target).await?, hub::instances(&target, None).await?),
        Some(name) => {
            let instances = hub::instances(&target, Some(name)).await?;
            let found = hub::addon_if_any(&target, name).await?;
            if found.is_none() && instances.is_empty() {
                anyhow::bail!("there is no add-on {name}{}", hub::known(&everything(&target).await?));
            }
            (found.into_iter().collect(), instances)
        }
    };
    match arguments.output {
        Format::Json => Ok(print(&serde_json::to_string_pretty(&list(instances))?)?),
        Format::Yaml => Ok(print(&yaml(&list(instances))?)?),
        Format::Name => instances.iter().try_for_each(|one| Ok(print(&name(one))?)),
        Format::Table | Format::Wide => show(arguments, &managements, &instances),
    }
}

fn show(
    arguments: &StatusArgs,
    managements: &[DynamicObject],
    instances: &[DynamicObject],
) -> anyhow::Result<()> {
    let mut rows = rows(managements, instances);
    let columns = Columns { addon: arguments.name.is_none(), wide: arguments.output == Format::Wide };
    let on = |one: &&DynamicObject| rows.iter().any(|row| row.addon == one.name_any());
    let (_, nowhere): (Vec<_>, Vec<_>) = managements.iter().partition(on);
    if !rows.is_empty() {
        print(&table::lines(&mut rows, columns, Timestamp::now(), colour()).join("\n"))?;
        if rows.len() > 1 && std::io::stdout().is_terminal() {
            eprintln!("{} in all: {}", rows.len(), table::summary(&rows));
        }
    } else if managements.is_empty() {
        eprintln!("There are no add-ons.");
    }
    for addon in nowhere {
        eprintln!(
            "{} is on no cluster; `bellwether addon rollout {0}` says where it goes.",
            addon.name_any()
        );
    }
    Ok(())
}

fn rows(managements: &[DynamicObject], instances: &[DynamicObject]) -> Vec<Row> {
    let defaults: HashMap<String, String> = managements
        .iter()
        .map(|object| {
            let addon: Option<ClusterManagementAddOn> = hub::typed(object).ok();
            let default = addon.and_then(|addon| addon.status).map(|status| status.default_version);
            (object.name_any(), default.unwrap_or_default())
        })
        .collect();
    let row = |object: &DynamicObject| match hub::typed::<ManagedClusterAddOn>(object) {
        Ok(instance) => {
            let management = match defaults.get(&object.name_any()) {
                Some(default_version) => Management::By { default_version },
                None => Management::Nobody,
            };
            row(&instance, management)
        }
        Err(why) => unreadable(&object.name_any(), &object.namespace().unwrap_or_default(), &why.to_string()),
    };
    instances.iter().map(row).collect()
}

/// The names of all add-ons.
async fn everything(target: &Target) -> anyhow::Result<Vec<String>> {
    let (managements, instances) = (hub::addons(target).await?, hub::instances(target, None).await?);
    let mut names: Vec<String> = managements.iter().chain(&instances).map(ResourceExt::name_any).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// As kubectl lists: with kinds, and without the records of who wrote which field.
fn list(instances: Vec<DynamicObject>) -> Value {
    let items: Vec<DynamicObject> = instances
        .into_iter()
        .map(|mut object| {
            object.metadata.managed_fields = None;
            object
        })
        .collect();
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// As kubectl takes it.
fn name(object: &DynamicObject) -> String {
    format!("{NAME_OF_INSTANCE}/{} -n {}", object.name_any(), object.namespace().unwrap_or_default())
}
