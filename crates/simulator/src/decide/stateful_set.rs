//! The status of StatefulSets. Revisions are distinguished by name, as in Kubernetes; a partition keeps the lower ordinals at the
//! old revision.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};

use super::{count, revision};
use crate::behaviour::Stage;

pub(crate) fn status(set: &StatefulSet, stage: Stage) -> StatefulSetStatus {
    let old = set.status.clone().unwrap_or_default();
    let generation = set.metadata.generation;
    if stage == Stage::Begun && old.observed_generation == generation {
        return old;
    }
    let spec = set.spec.clone().unwrap_or_default();
    let desired = spec.replicas.unwrap_or(1);
    let new = revision(set.metadata.name.as_deref().unwrap_or_default(), Some(&spec.template));
    let current = old.current_revision.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| new.clone());
    let unchanged = current == new;

    let (ready, updated, current) = match stage {
        Stage::Begun => {
            let kept = old.ready_replicas.unwrap_or(0).min(desired);
            (kept, if unchanged { desired } else { 0 }, current)
        }
        Stage::Failed => (0, desired, current),
        Stage::Succeeded => match held_back(&spec, desired) {
            0 => (desired, desired, new.clone()),
            _ if unchanged => (desired, desired, current),
            held => (desired, desired - held, current),
        },
    };
    // A pod has the current or the update revision. If they are the same, every pod counts as both.
    let of_current = if current == new { desired } else { desired - updated };
    StatefulSetStatus {
        observed_generation: generation,
        replicas: desired,
        ready_replicas: count(ready),
        available_replicas: Some(ready),
        current_replicas: count(of_current),
        updated_replicas: count(updated),
        current_revision: Some(current),
        update_revision: Some(new),
        ..old
    }
}

/// How many of the lower ordinals an update does not change.
fn held_back(spec: &StatefulSetSpec, desired: i32) -> i32 {
    let rolling = spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    rolling.and_then(|rolling| rolling.partition).unwrap_or(0).clamp(0, desired)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn set(generation: i64, replicas: i32, image: &str, status: Value) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "generation": generation},
            "spec": {
                "replicas": replicas, "selector": {}, "serviceName": "db",
                "template": {"spec": {"containers": [{"name": "c", "image": image}]}},
            },
            "status": status,
        }))
        .unwrap()
    }

    fn settled(replicas: i32, image: &str) -> Value {
        let fresh = set(1, replicas, image, json!({"replicas": 0}));
        serde_json::to_value(status(&fresh, Stage::Succeeded)).unwrap()
    }

    /// Replicas, ready, current, updated, and whether both revisions are the same.
    fn counts(status: &StatefulSetStatus) -> (i32, i32, i32, i32, bool) {
        assert_eq!(status.available_replicas.unwrap_or(0), status.ready_replicas.unwrap_or(0));
        (
            status.replicas,
            status.ready_replicas.unwrap_or(0),
            status.current_replicas.unwrap_or(0),
            status.updated_replicas.unwrap_or(0),
            status.current_revision == status.update_revision,
        )
    }

    #[rstest]
    #[case::new_set_is_not_ready(set(1, 3, "a", json!({"replicas": 0})), Stage::Begun, (3, 0, 3, 3, true))]
    #[case::set_becomes_ready(set(1, 3, "a", json!({"replicas": 0})), Stage::Succeeded, (3, 3, 3, 3, true))]
    #[case::failed_set_is_not_ready(set(1, 3, "a", json!({"replicas": 0})), Stage::Failed, (3, 0, 3, 3, true))]
    #[case::update_keeps_old_pods_ready(set(2, 3, "b", settled(3, "a")), Stage::Begun, (3, 3, 3, 0, false))]
    #[case::update_ends_with_one_revision(set(2, 3, "b", settled(3, "a")), Stage::Succeeded, (3, 3, 3, 3, true))]
    #[case::scaling_up_keeps_the_revision(set(2, 5, "a", settled(3, "a")), Stage::Begun, (5, 3, 5, 5, true))]
    #[case::scaling_down_is_at_once(set(2, 1, "a", settled(3, "a")), Stage::Begun, (1, 1, 1, 1, true))]
    #[case::scaling_to_zero(set(2, 0, "a", settled(3, "a")), Stage::Succeeded, (0, 0, 0, 0, true))]
    fn stateful_set_has_the_counts_of_its_stage(
        #[case] set: StatefulSet,
        #[case] stage: Stage,
        #[case] expected: (i32, i32, i32, i32, bool),
    ) {
        let found = status(&set, stage);
        assert_eq!(counts(&found), expected);
        assert_eq!(found.observed_generation, set.metadata.generation);
    }

    #[test]
    fn partition_keeps_the_lower_ordinals_at_the_old_revision() {
        let mut set = set(2, 3, "b", settled(3, "a"));
        let spec = set.spec.as_mut().unwrap();
        spec.update_strategy =
            Some(serde_json::from_value(json!({"rollingUpdate": {"partition": 2}})).unwrap());
        assert_eq!(counts(&status(&set, Stage::Succeeded)), (3, 3, 2, 1, false));
    }

    #[test]
    fn ready_stateful_set_stays_ready_after_a_restart() {
        let set = set(1, 3, "a", settled(3, "a"));
        assert_eq!(Some(status(&set, Stage::Begun)), set.status);
    }
}
