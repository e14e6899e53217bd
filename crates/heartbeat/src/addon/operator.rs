//! Writes the status of AddonOperators: whether they have an effect, and whether they pause all Addons. Pausing itself is left
//! to the reconcile of each Addon.

use std::sync::Arc;

use bellwether_api::addons_managed::AddonOperator;
use bellwether_clock::{Clock, whole_seconds};
use bellwether_conditions::{ConditionSet, Desired, Status as ConditionStatus, TransitionKey};
use bellwether_runtime::{Context, IndexOf, Next, Reconciler};
use jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;

use super::changes::pauses_all_addons;
use super::controller::{AddonError, api_error, is_outdated};
use super::object::Status;
use crate::lenient::{LenientObject, deserialize_or_default};
use crate::vocabulary::addon::{AVAILABLE, OPERATOR_NAME, PAUSED, reasons};

/// Writes the status of AddonOperators.
pub struct AddonOperatorReconciler {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl AddonOperatorReconciler {
    /// A reconciler for the cluster of a context.
    pub fn new(context: &Context) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone() }
    }
}

impl Reconciler for AddonOperatorReconciler {
    type Object = LenientObject<AddonOperator>;
    type Related = ();
    type Error = AddonError;
    const NAME: &'static str = "addon-operator-controller";
    const CONCURRENCY: usize = 1;

    async fn reconcile(
        &self,
        operator: Arc<LenientObject<AddonOperator>>,
        _: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, AddonError> {
        let current: Status = deserialize_or_default(&operator.status).unwrap_or_default();
        let desired = decide(&operator, &current, self.clock.now());
        if desired == current {
            return Ok(Next::OnChange);
        }
        let name = operator.name_any();
        let desired = operator.with_status(serde_json::to_value(desired)?);
        let api: Api<LenientObject<AddonOperator>> = Api::all(self.client.clone());
        match api.replace_status(&name, &PostParams::default(), &desired).await {
            Ok(_) => Ok(Next::OnChange),
            // The watch delivers the current version, which is reconciled again.
            Err(error) if is_outdated(&error) => Ok(Next::OnChange),
            Err(error) => Err(api_error(format!("cannot write the status of AddonOperator {name}"), error)),
        }
    }
}

fn decide(operator: &LenientObject<AddonOperator>, current: &Status, now: Timestamp) -> Status {
    let generation = operator.metadata.generation;
    let mut conditions = current.conditions.clone();
    let set = |conditions: &mut ConditionSet, desired: Desired| {
        let desired = Desired { observed_generation: generation, ..desired };
        let _ = conditions.upsert(desired, TransitionKey::Status, whole_seconds(now));
    };
    let (available, phase) = if operator.name_any() == OPERATOR_NAME {
        let message = "Addons are reconciled.";
        (Desired::new(AVAILABLE, ConditionStatus::True, reasons::ADDON_OPERATOR_READY, message), "Ready")
    } else {
        let message = format!("Only the AddonOperator named {OPERATOR_NAME:?} has an effect.");
        (Desired::new(AVAILABLE, ConditionStatus::False, reasons::CONFIGURATION_ERROR, message), "Error")
    };
    set(&mut conditions, available);
    if pauses_all_addons(operator) {
        let message = "No Addon is reconciled while .spec.pause is true.";
        set(
            &mut conditions,
            Desired::new(PAUSED, ConditionStatus::True, reasons::ADDON_OPERATOR_PAUSED, message),
        );
    } else {
        conditions.remove(&PAUSED);
    }
    Status {
        observed_generation: generation.or(current.observed_generation),
        conditions,
        phase: Some(phase.to_owned()),
        others: current.others.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_operator_with_the_right_name_has_an_effect() {
        let rows = [
            ("addon-operator", json!({"pause": true}), vec!["Available=True", "Paused=True"], "Ready"),
            ("addon-operator", json!({"pause": false}), vec!["Available=True"], "Ready"),
            ("addon-operator", json!(null), vec!["Available=True"], "Ready"),
            ("addon-operator", json!("odd"), vec!["Available=True"], "Ready"),
            ("another", json!({"pause": true}), vec!["Available=False"], "Error"),
        ];
        for (name, spec, expected, phase) in rows {
            let object = json!({"metadata": {"name": name, "generation": 2}, "spec": spec});
            let operator: LenientObject<AddonOperator> = serde_json::from_value(object).unwrap();
            let empty = Status::default();
            let first = decide(&operator, &empty, Timestamp::UNIX_EPOCH);
            let written: Vec<String> =
                first.conditions.iter().map(|held| format!("{}={}", held.type_, held.status)).collect();
            assert_eq!(
                (written, first.phase.as_deref()),
                (expected.iter().map(ToString::to_string).collect(), Some(phase))
            );
            assert_eq!(
                decide(&operator, &first, Timestamp::MAX),
                first,
                "{name}: a second pass changes nothing"
            );
        }
    }
}
