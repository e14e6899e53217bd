//! The status of DaemonSets, which have one pod on every schedulable node.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};

use super::{Inputs, count};
use crate::behaviour::Stage;

pub(crate) fn status(set: &DaemonSet, stage: Stage, inputs: &Inputs) -> DaemonSetStatus {
    let old = set.status.clone().unwrap_or_default();
    let generation = set.metadata.generation;
    if stage == Stage::Begun && old.observed_generation == generation {
        return old;
    }
    let desired = inputs.nodes;
    let (ready, updated) = match stage {
        Stage::Succeeded => (desired, desired),
        Stage::Failed => (0, desired),
        Stage::Begun => match old.number_ready.min(desired) {
            0 => (0, desired),
            kept => (kept, 0),
        },
    };
    DaemonSetStatus {
        observed_generation: generation,
        desired_number_scheduled: desired,
        current_number_scheduled: desired,
        number_misscheduled: 0,
        number_ready: ready,
        number_available: count(ready),
        number_unavailable: count(desired - ready),
        updated_number_scheduled: count(updated),
        ..old
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// A DaemonSet that had `ready` pods in the generation before.
    fn set(generation: i64, ready: i32) -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": "agent", "generation": generation},
            "status": {
                "observedGeneration": generation - 1, "numberReady": ready, "desiredNumberScheduled": ready,
                "currentNumberScheduled": ready, "numberMisscheduled": 0,
            },
        }))
        .unwrap()
    }

    #[rstest]
    #[case::new_set_is_not_ready(set(1, 0), 3, Stage::Begun, (3, 0, 3, 3))]
    #[case::set_becomes_ready(set(1, 0), 3, Stage::Succeeded, (3, 3, 0, 3))]
    #[case::failed_set_is_not_ready(set(1, 0), 3, Stage::Failed, (3, 0, 3, 3))]
    #[case::update_keeps_old_pods_ready(set(2, 3), 3, Stage::Begun, (3, 3, 0, 0))]
    #[case::removed_nodes_are_not_counted(set(2, 3), 2, Stage::Begun, (2, 2, 0, 0))]
    fn daemon_set_has_the_counts_of_its_stage(
        #[case] set: DaemonSet,
        #[case] nodes: i32,
        #[case] stage: Stage,
        #[case] (desired, ready, unavailable, updated): (i32, i32, i32, i32),
    ) {
        let inputs = Inputs { now: Time(Timestamp::UNIX_EPOCH), nodes };
        let found = status(&set, stage, &inputs);
        assert_eq!((found.desired_number_scheduled, found.current_number_scheduled), (desired, desired));
        assert_eq!((found.number_ready, found.number_available.unwrap_or(0)), (ready, ready));
        assert_eq!(found.number_unavailable.unwrap_or(0), unavailable);
        assert_eq!(found.updated_number_scheduled.unwrap_or(0), updated);
        assert_eq!(found.observed_generation, set.metadata.generation);
    }
}
