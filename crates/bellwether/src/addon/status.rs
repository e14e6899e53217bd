//! `bellwether addon status`: shows add-ons on their clusters.

use std::collections::HashMap;
use std::io::IsTerminal as _;

use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_lifecycle::addon::state::{AddonState, Management};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::arguments::StatusArgs;
use super::hub;
use super::table::{self, Columns};
use crate::lists::{as_list, typed};
use crate::output::{Format, colour, print, yaml};
use crate::target::Target;

/// The resource of add-ons on clusters, as kubectl prints it.
const MANAGED_ADDON_RESOURCE: &str = "managedclusteraddon.addon.open-cluster-management.io";

pub(super) async fn run(arguments: &StatusArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    let (managements, addons) = match &arguments.name {
        None => (hub::addons(&target).await?, hub::managed_addons(&target, None).await?),
        Some(name) => {
            let addons = hub::managed_addons(&target, Some(name)).await?;
            let found = hub::find_addon(&target, name).await?;
            if found.is_none() && addons.is_empty() {
                anyhow::bail!("there is no add-on {name}{}", hub::existing(&all_names(&target).await?));
            }
            (found.into_iter().collect(), addons)
        }
    };
    match arguments.output {
        Format::Json => Ok(print(&serde_json::to_string_pretty(&as_list(addons))?)?),
        Format::Yaml => Ok(print(&yaml(&as_list(addons))?)?),
        Format::Name => addons.iter().try_for_each(|one| Ok(print(&name(one))?)),
        Format::Table | Format::Wide => show(arguments, &managements, &addons),
    }
}

fn show(
    arguments: &StatusArgs,
    managements: &[DynamicObject],
    addons: &[DynamicObject],
) -> anyhow::Result<()> {
    let mut rows = states(managements, addons);
    let columns = Columns { addon: arguments.name.is_none(), wide: arguments.output == Format::Wide };
    let is_installed = |one: &&DynamicObject| rows.iter().any(|row| row.addon == one.name_any());
    let not_installed: Vec<_> = managements.iter().filter(|one| !is_installed(one)).collect();
    if !rows.is_empty() {
        print(&table::lines(&mut rows, columns, Timestamp::now(), colour()).join("\n"))?;
        if rows.len() > 1 && std::io::stdout().is_terminal() {
            eprintln!("{} in all: {}", rows.len(), table::summary(&rows));
        }
    } else if managements.is_empty() {
        eprintln!("There are no add-ons.");
    }
    for addon in not_installed {
        eprintln!(
            "{} is on no cluster; `bellwether addon rollout {0}` shows the clusters that it is placed on.",
            addon.name_any()
        );
    }
    Ok(())
}

fn states(managements: &[DynamicObject], addons: &[DynamicObject]) -> Vec<AddonState> {
    let defaults: HashMap<String, String> = managements
        .iter()
        .map(|object| {
            let addon: Option<ClusterManagementAddOn> = typed(object).ok();
            let default = addon.and_then(|addon| addon.status).map(|status| status.default_version);
            (object.name_any(), default.unwrap_or_default())
        })
        .collect();
    let state = |object: &DynamicObject| match typed::<ManagedClusterAddOn>(object) {
        Ok(addon) => {
            let management = match defaults.get(&object.name_any()) {
                Some(default_version) => Management::Managed { default_version },
                None => Management::Unmanaged,
            };
            AddonState::of(&addon, management)
        }
        Err(why) => {
            let cluster = object.namespace().unwrap_or_default();
            AddonState::unreadable(&object.name_any(), &cluster, &why.to_string())
        }
    };
    addons.iter().map(state).collect()
}

/// The names of all add-ons.
async fn all_names(target: &Target) -> anyhow::Result<Vec<String>> {
    let (managements, addons) = (hub::addons(target).await?, hub::managed_addons(target, None).await?);
    let mut names: Vec<String> = managements.iter().chain(&addons).map(ResourceExt::name_any).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The arguments that select the object in kubectl.
fn name(object: &DynamicObject) -> String {
    format!("{MANAGED_ADDON_RESOURCE}/{} -n {}", object.name_any(), object.namespace().unwrap_or_default())
}
