//! An add-on as a whole: its versions, how far each placement is, and what is waited for. Pure.

use bellwether_api::addon::{
    ClusterManagementAddOnStatus, InstallProgression, ProgressionCounts, WaitingClusters,
};
use bellwether_conditions::{ConditionType, Desired, Reason, Status, TransitionKey, kubernetes, shorten};
use bellwether_runtime::ObjectName;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::hub::{HubCache, Rollout};
use crate::rollout::{Counts, Waiting};
use crate::standing::resolve;
use crate::version::{Catalogue, Version};

/// The condition that several templates have the same version.
const VERSION_CONFLICT: &str = "VersionConflict";
/// How many clusters are named that wait for the same thing.
const NAMED: usize = 10;
/// How many different things are named that are waited for.
const THINGS: usize = 20;
/// How long a message may be.
const LONGEST: usize = 1024;

/// The status of an add-on as a whole as it should be, with the resourceVersion that it is judged by; nothing, where it
/// already is so.
pub(super) fn summary(cache: &HubCache, addon: &str, now: Timestamp) -> Option<(Option<String>, Value)> {
    let management = cache.management(addon)?;
    let (object, catalogue) = (&management.object, &management.catalogue);
    let before = object.status.clone().unwrap_or_default();
    let progressions: Vec<InstallProgression> = cache
        .rollouts_of(addon)
        .iter()
        .map(|rollout| {
            let ObjectName { namespace, name } = &rollout.placement;
            let held = before
                .install_progressions
                .iter()
                .find(|one| *one.namespace == **namespace && *one.name == **name);
            let version =
                resolve(rollout.request.version.as_ref(), catalogue).map(Version::as_str).unwrap_or_default();
            progression(rollout, version, held, now)
        })
        .collect();
    let after = ClusterManagementAddOnStatus {
        supported_versions: catalogue.supported().iter().map(ToString::to_string).collect(),
        default_version: catalogue.default_version().map(ToString::to_string).unwrap_or_default(),
        conditions: conditions(&before.conditions, catalogue, &progressions, now),
        install_progressions: progressions,
    };
    (after != before).then(|| {
        let empty = json!({"supportedVersions": null, "defaultVersion": null, "installProgressions": null, "conditions": null});
        let mut status = empty;
        if let (Value::Object(status), Value::Object(said)) = (&mut status, json!(after)) {
            status.extend(said);
        }
        (object.resource_version(), status)
    })
}

fn progression(
    rollout: &Rollout,
    version: &str,
    held: Option<&InstallProgression>,
    now: Timestamp,
) -> InstallProgression {
    let counts = rollout.plan.counts;
    let mut conditions = held.map(|held| held.conditions.clone()).unwrap_or_default();
    let (status, reason, message) = word(rollout, &counts);
    let desired = Desired::new(
        ConditionType::constant("Progressing"),
        status,
        Reason::constant(reason),
        shorten(&message, LONGEST),
    );
    let before = held.map(|held| held.version.as_str()).unwrap_or_default();
    let key = TransitionKey::StatusReasonAndTarget { before, after: version };
    let _ = kubernetes::upsert(&mut conditions, desired, key, now);
    InstallProgression {
        namespace: rollout.placement.namespace.to_string(),
        name: rollout.placement.name.to_string(),
        version: version.to_owned(),
        counts: counted(&counts),
        waiting: rollout.plan.waiting.iter().take(THINGS).map(waiting).collect(),
        conditions,
    }
}

/// How far a placement is, in one condition.
fn word(rollout: &Rollout, counts: &Counts) -> (Status, &'static str, String) {
    if let Some(why) = &rollout.unknown {
        return (
            Status::Unknown,
            "PlacementUnknown",
            format!("which clusters are chosen is not known: {why}"),
        );
    }
    let Counts { selected, waiting, changing, done, failed, timed_out, overridden } = *counts;
    let total = selected - overridden;
    let mut message = format!("{done} of {total} clusters have it");
    let parts = [
        (changing, "change"),
        (waiting, "wait"),
        (failed, "failed"),
        (timed_out, "took too long"),
        (overridden, "have a version that a user has set"),
    ];
    for (count, verb) in parts.into_iter().filter(|(count, _)| *count > 0) {
        message.push_str(&format!(", {count} {verb}"));
    }
    if let Some(first) = rollout.plan.waiting.first() {
        message.push_str(&format!("; waiting: {}", first));
    }
    message.push('.');
    match (changing + waiting, failed + timed_out) {
        (0, 0) => (Status::False, "Completed", message),
        (0, _) => (Status::False, "Failed", message),
        (_, _) if changing == 0 => (Status::True, "Waiting", message),
        _ => (Status::True, "Progressing", message),
    }
}

fn counted(counts: &Counts) -> ProgressionCounts {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    ProgressionCounts {
        selected: number(counts.selected),
        waiting: number(counts.waiting),
        progressing: number(counts.changing),
        succeeded: number(counts.done),
        failed: number(counts.failed),
        timed_out: number(counts.timed_out),
        overridden: number(counts.overridden),
    }
}

fn waiting(waiting: &Waiting) -> WaitingClusters {
    WaitingClusters {
        reason: waiting.reason.code().to_owned(),
        for_: waiting.to_string(),
        count: u32::try_from(waiting.clusters.len()).unwrap_or(u32::MAX),
        clusters: waiting.clusters.iter().take(NAMED).cloned().collect(),
    }
}

fn conditions(
    before: &[Condition],
    catalogue: &Catalogue,
    progressions: &[InstallProgression],
    now: Timestamp,
) -> Vec<Condition> {
    let mut set = before.to_vec();
    match catalogue.conflicts() {
        [] => kubernetes::remove(&mut set, VERSION_CONFLICT),
        conflicts => {
            let said = conflicts.iter().map(|one| {
                format!("{} is of template {}, and not of {}", one.version, one.used, one.ignored.join(", "))
            });
            let message = shorten(&said.collect::<Vec<_>>().join("; "), LONGEST);
            let type_ = ConditionType::constant(VERSION_CONFLICT);
            let desired = Desired::new(type_, Status::True, Reason::constant("SeveralTemplates"), message);
            let _ = kubernetes::upsert(&mut set, desired, TransitionKey::Status, now);
        }
    }
    let said = |status: &str| {
        let all = progressions.iter().filter_map(|one| Some((one, one.conditions.first()?)));
        all.filter(|(_, said)| said.status == status)
            .map(|(one, said)| format!("{}/{}: {}", one.namespace, one.name, said.message))
            .collect::<Vec<_>>()
    };
    let (moving, unknown) = (said("True"), said("Unknown"));
    let failed = progressions.iter().any(|one| one.conditions.iter().any(|said| said.reason == "Failed"));
    let (status, reason, words) = match (moving.as_slice(), unknown.as_slice()) {
        ([], []) if failed => (Status::False, "Failed", said("False")),
        ([], []) => (Status::False, "Completed", said("False")),
        ([], _) => (Status::Unknown, "PlacementUnknown", unknown),
        _ => (Status::True, "Progressing", moving),
    };
    let message = shorten(&words.join(" "), LONGEST);
    let desired =
        Desired::new(ConditionType::constant("Progressing"), status, Reason::constant(reason), message);
    let _ = kubernetes::upsert(&mut set, desired, TransitionKey::StatusAndReason, now);
    set
}
