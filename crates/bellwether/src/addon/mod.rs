//! `bellwether addon`: shows add-ons and their rollouts, and changes the versions that placements request. It reads from
//! the hub and writes there; the controllers do the rest.

pub(crate) mod arguments;
mod blast_radius;
mod change;
mod hub;
mod pause;
mod rollout;
mod status;
mod table;
mod view;
mod write;

use bellwether_api::addon::{ClusterManagementAddOn, InstallType, PlacementStrategy};
use bellwether_lifecycle::assignment::placement_name;
use kube::ResourceExt as _;

use self::arguments::Action;
use self::pause::PauseAction;
use crate::outcome::Unfinished;
use crate::output::ignore_broken_pipe;

/// The resource of add-ons, as kubectl prints it.
const ADDON_RESOURCE: &str = "clustermanagementaddon.addon.open-cluster-management.io";

pub(crate) fn run(action: Action) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        match action {
            Action::Status(arguments) => status::run(&arguments).await,
            Action::Rollout(arguments) => rollout::run(&arguments).await,
            Action::Upgrade(arguments) => change::upgrade(&arguments).await,
            Action::Rollback(arguments) => change::rollback(&arguments).await,
            Action::Pause(arguments) => pause::run(PauseAction::Pause, &arguments.what).await,
            Action::Resume(arguments) => pause::run(PauseAction::Resume, &arguments.what).await,
        }
    });
    ignore_broken_pipe(result)
}

/// Only an add-on that placements install has rollouts.
fn require_placements(addon: &ClusterManagementAddOn) -> Result<(), Unfinished> {
    let name = addon.name_any();
    let strategy = &addon.spec.install_strategy;
    match strategy.type_ {
        InstallType::Placements if strategy.placements.is_empty() => Err(Unfinished::Rejected(format!(
            "{name} has no placements: add some to spec.installStrategy.placements of its ClusterManagementAddOn"
        ))),
        InstallType::Placements => Ok(()),
        InstallType::Manual | InstallType::Other => Err(Unfinished::Rejected(format!(
            "{name} is not installed by placements (spec.installStrategy.type), so it has no rollout. Set the version of \
             each cluster: kubectl patch managedclusteraddon {name} -n CLUSTER --type merge -p \
             '{{\"spec\":{{\"installVersion\":\"VERSION\"}}}}'"
        ))),
    }
}

/// The indices of the placement with this name, `NAME` or `NAMESPACE/NAME`; by default, of all placements.
fn placement_indices(addon: &ClusterManagementAddOn, name: Option<&str>) -> anyhow::Result<Vec<usize>> {
    let placements = &addon.spec.install_strategy.placements;
    let Some(wanted) = name else { return Ok((0..placements.len()).collect()) };
    let matches = |placement: &PlacementStrategy| match wanted.split_once('/') {
        Some((namespace, name)) => placement.namespace == namespace && placement.name == name,
        None => placement.name == wanted,
    };
    let indexed = placements.iter().enumerate();
    let found: Vec<usize> =
        indexed.filter(|(_, placement)| matches(placement)).map(|(index, _)| index).collect();
    let names: Vec<String> = placements.iter().map(placement_name).collect();
    match found.as_slice() {
        [_] => Ok(found),
        [] => anyhow::bail!("{} has no placement {wanted}; it has: {}", addon.name_any(), names.join(", ")),
        _ => anyhow::bail!(
            "{wanted} is the name of several placements; use NAMESPACE/NAME, one of: {}",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn addon(type_: &str, placements: &[(&str, &str)]) -> ClusterManagementAddOn {
        let placements: Vec<_> = placements
            .iter()
            .map(|(namespace, name)| json!({"namespace": namespace, "name": name}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "hello"},
            "spec": {"installStrategy": {"type": type_, "placements": placements}},
        }))
        .unwrap()
    }

    #[test]
    fn placement_is_found_by_name_or_by_namespace_and_name() {
        let addon = addon("Placements", &[("a", "global"), ("a", "canary"), ("b", "canary")]);
        type Row<'a> = (Option<&'a str>, Result<&'a [usize], &'a str>);
        let rows: [Row<'_>; 6] = [
            (None, Ok(&[0, 1, 2])),
            (Some("global"), Ok(&[0])),
            (Some("b/canary"), Ok(&[2])),
            (
                Some("canary"),
                Err("several placements; use NAMESPACE/NAME, one of: a/global, a/canary, b/canary"),
            ),
            (Some("x"), Err("hello has no placement x; it has: a/global")),
            (Some("c/canary"), Err("no placement c/canary")),
        ];
        for (wanted, expected) in rows {
            match (placement_indices(&addon, wanted), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
                (found, expected) => panic!("{wanted:?}: {found:?} {expected:?}"),
            }
        }
    }

    #[test]
    fn add_on_without_placements_is_rejected_with_the_next_step() {
        for (type_, placements, expected) in [
            ("Manual", &[][..], "kubectl patch managedclusteraddon hello -n CLUSTER"),
            ("Sideways", &[], "not installed by placements"),
            ("Placements", &[], "has no placements"),
        ] {
            let error = require_placements(&addon(type_, placements)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.exit_code(), 4);
        }
        assert!(require_placements(&addon("Placements", &[("a", "p")])).is_ok());
    }
}
