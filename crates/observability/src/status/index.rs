//! The index of the status controller: the add-on of the cluster, and what the hub has of its status. It decides which side is
//! to be written.

use std::fmt;
use std::sync::Arc;

use bellwether_clock::Clock;
use bellwether_runtime::DirtyKeys;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::decide::state::with_state;
use crate::reporter::conditions_of;
use crate::vocabulary::Vocabulary;

/// The object that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Side {
    /// The ObservabilityAddon of the cluster.
    Cluster,
    /// The ObservabilityAddon of the hub.
    Hub,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "cluster",
            Self::Hub => "hub",
        })
    }
}

pub(super) struct Index {
    vocabulary: Vocabulary,
    clock: Arc<dyn Clock>,
    addon: Option<Arc<DynamicObject>>,
    /// The conditions that the hub had when it was last read or written.
    on_hub: Option<Value>,
    /// The last copy failed and is retried after its backoff. A change does not try earlier: each attempt would double the backoff.
    is_hub_failing: bool,
    pub(super) dirty: DirtyKeys<Side>,
}

impl Index {
    pub(super) fn new(vocabulary: Vocabulary, clock: Arc<dyn Clock>) -> Self {
        Self {
            vocabulary,
            clock,
            addon: None,
            on_hub: None,
            is_hub_failing: false,
            dirty: DirtyKeys::default(),
        }
    }

    pub(super) fn addon(&self) -> Option<Arc<DynamicObject>> {
        self.addon.clone()
    }

    /// The add-on was listed or changed, also by this controller.
    pub(super) fn apply(&mut self, addon: DynamicObject) {
        if desired_conditions(&addon, self.vocabulary, &*self.clock).is_some() {
            self.dirty.enqueue(Side::Cluster);
        } else if !self.is_hub_failing && self.on_hub.as_ref() != Some(&conditions_json(&addon)) {
            self.dirty.enqueue(Side::Hub);
        }
        self.addon = Some(Arc::new(addon));
    }

    /// The add-on was deleted. The hub keeps the last status; a new add-on starts with an empty one.
    pub(super) fn delete(&mut self) {
        self.addon = None;
        self.on_hub = None;
        self.is_hub_failing = false;
        self.dirty.forget(Side::Cluster);
        self.dirty.forget(Side::Hub);
    }

    /// The hub has these conditions.
    pub(super) fn set_on_hub(&mut self, conditions: Value) {
        // A change that arrived during a retry was not enqueued.
        let is_current = self.addon.as_ref().is_none_or(|addon| conditions_json(addon) == conditions);
        self.on_hub = Some(conditions);
        self.is_hub_failing = false;
        if !is_current {
            self.dirty.enqueue(Side::Hub);
        }
    }

    /// The copy to the hub failed, and is retried.
    pub(super) fn hub_failed(&mut self) {
        self.is_hub_failing = true;
    }

    /// The copy waits until the status of the cluster is written, and follows that change.
    pub(super) fn hub_waits(&mut self) {
        self.is_hub_failing = false;
    }
}

/// The list of conditions that the add-on should have, if it has another one.
pub(super) fn desired_conditions(
    addon: &DynamicObject,
    vocabulary: Vocabulary,
    clock: &dyn Clock,
) -> Option<Value> {
    let conditions = with_state(&conditions_of(addon), vocabulary, clock.now());
    let desired = serde_json::to_value(conditions).ok()?;
    (desired != conditions_json(addon)).then_some(desired)
}

/// The list of conditions as it is stored; empty if there is none.
pub(super) fn conditions_json(addon: &DynamicObject) -> Value {
    addon
        .data
        .pointer("/status/conditions")
        .filter(|list| list.is_array())
        .cloned()
        .unwrap_or_else(|| Value::Array(Vec::new()))
}

#[cfg(test)]
mod tests {
    use bellwether_clock::SteadyClock;
    use serde_json::json;

    use super::*;

    fn addon(conditions: Value) -> DynamicObject {
        let object =
            json!({"metadata": {"name": "observability-addon"}, "status": {"conditions": conditions}});
        serde_json::from_value(object).unwrap()
    }

    fn condition(type_: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2024-06-13T10:00:00Z"})
    }

    fn dirty(index: &mut Index) -> Vec<Side> {
        index.dirty.take().keys().copied().collect()
    }

    #[tokio::test]
    async fn cluster_is_written_first_and_own_writes_cause_no_reconcile() {
        let mut index = Index::new(Vocabulary::Seed, Arc::new(SteadyClock::default()));
        let component = condition("MetricsCollectorStatus", "ForwardSuccessful", "");
        index.apply(addon(json!([component])));
        assert_eq!(dirty(&mut index), [Side::Cluster]);
        let message = "MetricsCollector: ForwardSuccessful";
        let settled = addon(json!([component, condition("Available", "ForwardSuccessful", message)]));
        index.apply(settled.clone());
        assert_eq!(dirty(&mut index), [Side::Hub]);
        index.set_on_hub(conditions_json(&settled));
        index.apply(settled);
        assert_eq!(dirty(&mut index), []);
    }

    #[tokio::test]
    async fn change_during_a_retry_that_succeeds_is_copied_too() {
        let mut index = Index::new(Vocabulary::Seed, Arc::new(SteadyClock::default()));
        let settled = |reason: &str, type_: &str| {
            let message = format!("MetricsCollector: {reason}");
            addon(json!([
                condition("MetricsCollectorStatus", reason, ""),
                condition(type_, reason, &message)
            ]))
        };
        let before = settled("ForwardSuccessful", "Available");
        index.apply(before.clone());
        index.hub_failed();
        assert_eq!(dirty(&mut index), [Side::Hub]);
        index.apply(settled("ForwardFailure", "Degraded"));
        assert_eq!(dirty(&mut index), [], "a change does not try earlier");
        index.set_on_hub(conditions_json(&before));
        assert_eq!(dirty(&mut index), [Side::Hub]);
    }

    #[tokio::test]
    async fn duplicate_types_are_repaired() {
        let mut index = Index::new(Vocabulary::Seed, Arc::new(SteadyClock::default()));
        let one = condition("MetricsCollectorStatus", "ForwardSuccessful", "");
        let message = "MetricsCollector: ForwardSuccessful";
        index.apply(addon(json!([one, one, condition("Available", "ForwardSuccessful", message)])));
        assert_eq!(dirty(&mut index), [Side::Cluster]);
    }
}
