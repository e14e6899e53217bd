//! `bellwether addon`: the add-ons of a fleet, for people and for scripts: how they are on their clusters, how far a rollout
//! is, and changes to it. Everything is read from the hub and written there; what follows, the controllers do.

pub(crate) mod arguments;
mod change;
mod hub;
mod pause;
mod progress;
mod radius;
mod reach;
mod rollout;
mod state;
mod status;
mod table;
mod view;
mod write;

use bellwether_api::addon::{ClusterManagementAddOn, InstallType};
use kube::ResourceExt as _;

use self::arguments::Action;
use self::pause::Wish;
use crate::outcome::NotDone;
use crate::output::forgive_broken_pipe;

/// How kubectl names add-ons.
const NAME_OF_ADDON: &str = "clustermanagementaddon.addon.open-cluster-management.io";

pub(crate) fn run(action: Action) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match action {
            Action::Status(arguments) => status::run(&arguments).await,
            Action::Rollout(arguments) => rollout::run(&arguments).await,
            Action::Upgrade(arguments) => change::upgrade(&arguments).await,
            Action::Rollback(arguments) => change::rollback(&arguments).await,
            Action::Pause(arguments) => pause::run(Wish::Pause, &arguments.what).await,
            Action::Resume(arguments) => pause::run(Wish::Resume, &arguments.what).await,
        }
    });
    forgive_broken_pipe(done)
}

/// An add-on that no placement carries has no rollout.
fn refuse_manual(addon: &ClusterManagementAddOn) -> Result<(), NotDone> {
    let name = addon.name_any();
    let strategy = &addon.spec.install_strategy;
    match strategy.type_ {
        InstallType::Placements if strategy.placements.is_empty() => Err(NotDone::Refused(format!(
            "{name} has no placements: name some in spec.installStrategy.placements of its ClusterManagementAddOn"
        ))),
        InstallType::Placements => Ok(()),
        InstallType::Manual | InstallType::Other => Err(NotDone::Refused(format!(
            "{name} is not installed by placements (spec.installStrategy.type), so it has no rollout. Set the version of \
             each cluster: kubectl patch managedclusteraddon {name} -n CLUSTER --type merge -p \
             '{{\"spec\":{{\"installVersion\":\"VERSION\"}}}}'"
        ))),
    }
}

/// The places of the placements that are asked for, by name or by namespace and name; all, if nobody asks.
fn places(addon: &ClusterManagementAddOn, wanted: Option<&str>) -> anyhow::Result<Vec<usize>> {
    let placements = &addon.spec.install_strategy.placements;
    let Some(wanted) = wanted else { return Ok((0..placements.len()).collect()) };
    let is = |placement: &bellwether_api::addon::PlacementStrategy| match wanted.split_once('/') {
        Some((namespace, name)) => placement.namespace == namespace && placement.name == name,
        None => placement.name == wanted,
    };
    let found: Vec<usize> = placements
        .iter()
        .enumerate()
        .filter(|(_, placement)| is(placement))
        .map(|(place, _)| place)
        .collect();
    let names: Vec<String> = placements.iter().map(reach::name).collect();
    match found.as_slice() {
        [_] => Ok(found),
        [] => anyhow::bail!("{} has no placement {wanted}; it has: {}", addon.name_any(), names.join(", ")),
        _ => anyhow::bail!("{wanted} is the name of several placements; say which: {}", names.join(", ")),
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
    fn a_placement_is_found_by_its_name_or_its_full_name() {
        let addon = addon("Placements", &[("a", "global"), ("a", "canary"), ("b", "canary")]);
        type Row<'a> = (Option<&'a str>, Result<&'a [usize], &'a str>);
        let rows: [Row<'_>; 6] = [
            (None, Ok(&[0, 1, 2])),
            (Some("global"), Ok(&[0])),
            (Some("b/canary"), Ok(&[2])),
            (Some("canary"), Err("several placements; say which: a/global, a/canary, b/canary")),
            (Some("x"), Err("hello has no placement x; it has: a/global")),
            (Some("c/canary"), Err("no placement c/canary")),
        ];
        for (wanted, expected) in rows {
            match (places(&addon, wanted), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
                (found, expected) => panic!("{wanted:?}: {found:?} {expected:?}"),
            }
        }
    }

    #[test]
    fn an_add_on_without_placements_has_no_rollout_and_is_told_what_to_do() {
        for (type_, placements, words) in [
            ("Manual", &[][..], "kubectl patch managedclusteraddon hello -n CLUSTER"),
            ("Sideways", &[], "not installed by placements"),
            ("Placements", &[], "has no placements"),
        ] {
            let refused = refuse_manual(&addon(type_, placements)).unwrap_err();
            assert!(refused.to_string().contains(words), "{refused}");
            assert_eq!(refused.exit_code(), 4);
        }
        assert!(refuse_manual(&addon("Placements", &[("a", "p")])).is_ok());
    }
}
