//! Computes the status of a ClusterManagementAddOn: its versions, the progress of each placement and what clusters wait for.
//! Pure; writing the status is left to `reconcile`.

use bellwether_api::addon::{
    ClusterManagementAddOnStatus, InstallProgression, ProgressionCounts, UnselectedCluster,
};
use bellwether_conditions::{ConditionType, Desired, Reason, Status, TransitionKey, kubernetes, shorten};
use bellwether_runtime::ObjectName;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::hub::{HubCache, Rollout};
use crate::report::{PlacementProgress, Stage, placement_progress};
use crate::rollout::Counts;
use crate::version::Catalogue;

/// The type of the condition that several AddOnTemplates have the same version.
const VERSION_CONFLICT: &str = "VersionConflict";
/// The maximum number of clusters in `unselected`. Others count in the first group after a restart of the controller.
const MAX_UNSELECTED: usize = 1000;
/// The maximum length of a condition message.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The new status of a ClusterManagementAddOn with the resourceVersion that it was computed from; `None` if it has not
/// changed.
pub(super) fn changed_summary(
    cache: &HubCache,
    addon: &str,
    now: Timestamp,
) -> Option<(Option<String>, Value)> {
    let management = cache.management(addon)?;
    let (object, catalogue) = (&management.object, &management.catalogue);
    let before = object.status.clone().unwrap_or_default();
    let progressions: Vec<InstallProgression> = cache
        .rollouts_of(addon)
        .iter()
        .map(|rollout| {
            let ObjectName { namespace, name } = &rollout.placement;
            let previous = before
                .install_progressions
                .iter()
                .find(|one| *one.namespace == **namespace && *one.name == **name);
            progression(rollout, placement_progress(cache, addon, rollout), previous, now)
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
        if let (Value::Object(status), Value::Object(set)) = (&mut status, json!(after)) {
            status.extend(set);
        }
        (object.resource_version(), status)
    })
}

fn progression(
    rollout: &Rollout,
    progress: PlacementProgress,
    previous: Option<&InstallProgression>,
    now: Timestamp,
) -> InstallProgression {
    let mut conditions = previous.map(|previous| previous.conditions.clone()).unwrap_or_default();
    let (status, reason, message) = progressing_condition(&progress);
    let desired = Desired::new(
        ConditionType::constant("Progressing"),
        status,
        Reason::constant(reason),
        shorten(&message, MAX_MESSAGE_BYTES),
    );
    let before = previous.map(|previous| previous.version.as_str()).unwrap_or_default();
    let key = TransitionKey::StatusReasonAndTarget { before, after: &progress.version };
    let _ = kubernetes::upsert(&mut conditions, desired, key, now);
    let unselected = rollout.unselected.iter().take(MAX_UNSELECTED).map(|one| UnselectedCluster {
        cluster: one.cluster.clone(),
        group_index: u32::try_from(one.group_index).unwrap_or(u32::MAX),
        group_name: one.group_name.clone(),
    });
    InstallProgression {
        namespace: rollout.placement.namespace.to_string(),
        name: rollout.placement.name.to_string(),
        version: progress.version,
        counts: progression_counts(&progress.total),
        waiting: progress.waiting,
        unselected: unselected.collect(),
        conditions,
    }
}

/// Status, reason and message of the condition Progressing of a placement.
fn progressing_condition(progress: &PlacementProgress) -> (Status, &'static str, String) {
    if let Some(why) = &progress.unknown {
        return (Status::Unknown, "PlacementUnknown", format!("the selected clusters are unknown: {why}"));
    }
    let Counts { selected, waiting, changing, done, failed, timed_out, overridden } = progress.total;
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
    if let Some(first) = progress.waiting.first() {
        message.push_str(&format!("; waiting: {}", first.for_));
    }
    message.push('.');
    match progress.stage {
        Stage::Completed | Stage::Empty | Stage::Unknown => (Status::False, "Completed", message),
        Stage::Failed => (Status::False, "Failed", message),
        Stage::Waiting | Stage::Paused | Stage::Blocked => (Status::True, "Waiting", message),
        Stage::Progressing => (Status::True, "Progressing", message),
    }
}

fn progression_counts(counts: &Counts) -> ProgressionCounts {
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

fn conditions(
    before: &[Condition],
    catalogue: &Catalogue,
    progressions: &[InstallProgression],
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = before.to_vec();
    match catalogue.conflicts() {
        [] => kubernetes::remove(&mut conditions, VERSION_CONFLICT),
        conflicts => {
            let descriptions = conflicts.iter().map(|one| {
                format!(
                    "version {} is provided by AddOnTemplate {}; ignored: {}",
                    one.version,
                    one.used,
                    one.ignored.join(", ")
                )
            });
            let message = shorten(&descriptions.collect::<Vec<_>>().join("; "), MAX_MESSAGE_BYTES);
            let type_ = ConditionType::constant(VERSION_CONFLICT);
            let desired = Desired::new(type_, Status::True, Reason::constant("SeveralTemplates"), message);
            let _ = kubernetes::upsert(&mut conditions, desired, TransitionKey::Status, now);
        }
    }
    let messages_with = |status: &str| {
        let all = progressions.iter().filter_map(|one| Some((one, one.conditions.first()?)));
        all.filter(|(_, condition)| condition.status == status)
            .map(|(one, condition)| format!("{}/{}: {}", one.namespace, one.name, condition.message))
            .collect::<Vec<_>>()
    };
    let (in_progress, unknown) = (messages_with("True"), messages_with("Unknown"));
    let failed =
        progressions.iter().any(|one| one.conditions.iter().any(|condition| condition.reason == "Failed"));
    let (status, reason, messages) = match (in_progress.as_slice(), unknown.as_slice()) {
        ([], []) if failed => (Status::False, "Failed", messages_with("False")),
        ([], []) => (Status::False, "Completed", messages_with("False")),
        ([], _) => (Status::Unknown, "PlacementUnknown", unknown),
        _ => (Status::True, "Progressing", in_progress),
    };
    let message = shorten(&messages.join(" "), MAX_MESSAGE_BYTES);
    let desired =
        Desired::new(ConditionType::constant("Progressing"), status, Reason::constant(reason), message);
    let _ = kubernetes::upsert(&mut conditions, desired, TransitionKey::StatusAndReason, now);
    conditions
}
