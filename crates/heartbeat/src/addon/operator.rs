//! Says on the AddonOperator that it is heeded: whether all Addons are paused. What that does to an Addon is decided with
//! the Addon.

use std::sync::Arc;

use bellwether_api::addons_managed::AddonOperator;
use bellwether_clock::{Clock, whole_seconds};
use bellwether_conditions::{ConditionSet, Desired, Status as Holds, TransitionKey};
use bellwether_runtime::{Context, Next, Reconciler};
use jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};

use super::changes::pauses;
use super::controller::{AddonError, failed, is_outdated};
use super::subject::Status;
use crate::loose::{self, Loose};
use crate::vocabulary::addon::{AVAILABLE, OPERATOR, PAUSED, reasons};

/// Says on AddonOperators whether they are heeded.
pub struct Operators {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Operators {
    /// For the cluster of a context.
    pub fn new(context: &Context) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone() }
    }
}

impl Reconciler for Operators {
    type Object = Loose<AddonOperator>;
    type Error = AddonError;
    const NAME: &'static str = "addon-operator-controller";
    const CONCURRENCY: u16 = 1;

    async fn reconcile(&self, operator: Arc<Loose<AddonOperator>>) -> Result<Next, AddonError> {
        let held: Status = loose::read(&operator.status).unwrap_or_default();
        let wanted = decide(&operator, &held, self.clock.now());
        if wanted == held {
            return Ok(Next::OnChange);
        }
        let name = operator.name_any();
        let wanted = operator.with_status(serde_json::to_value(wanted)?);
        let api: Api<Loose<AddonOperator>> = Api::all(self.client.clone());
        match api.replace_status(&name, &PostParams::default(), &wanted).await {
            Ok(_) => Ok(Next::OnChange),
            // What it is now is on its way.
            Err(error) if is_outdated(&error) => Ok(Next::OnChange),
            Err(error) => Err(failed(format!("writing the status of AddonOperator {name}"), error)),
        }
    }
}

fn decide(operator: &Loose<AddonOperator>, held: &Status, now: Timestamp) -> Status {
    let generation = operator.metadata.generation;
    let mut conditions = held.conditions.clone();
    let set = |conditions: &mut ConditionSet, wish: Desired| {
        let wish = Desired { observed_generation: generation, ..wish };
        let _ = conditions.upsert(wish, TransitionKey::Status, whole_seconds(now));
    };
    let (available, phase) = if operator.name_any() == OPERATOR {
        let message = "Addons are looked after.";
        (Desired::new(AVAILABLE, Holds::True, reasons::ADDON_OPERATOR_READY, message), "Ready")
    } else {
        let message = format!("Only the AddonOperator named {OPERATOR:?} is heeded.");
        (Desired::new(AVAILABLE, Holds::False, reasons::CONFIGURATION_ERROR, message), "Error")
    };
    set(&mut conditions, available);
    if pauses(operator) {
        let message = "All Addons are left as they are while .spec.pause is set.";
        set(&mut conditions, Desired::new(PAUSED, Holds::True, reasons::ADDON_OPERATOR_PAUSED, message));
    } else {
        conditions.remove(&PAUSED);
    }
    Status {
        observed_generation: generation.or(held.observed_generation),
        conditions,
        phase: Some(phase.to_owned()),
        others: held.others.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_operator_says_whether_it_is_heeded_and_once() {
        let rows = [
            ("addon-operator", json!({"pause": true}), vec!["Available=True", "Paused=True"], "Ready"),
            ("addon-operator", json!({"pause": false}), vec!["Available=True"], "Ready"),
            ("addon-operator", json!(null), vec!["Available=True"], "Ready"),
            ("addon-operator", json!("odd"), vec!["Available=True"], "Ready"),
            ("another", json!({"pause": true}), vec!["Available=False"], "Error"),
        ];
        for (name, spec, wanted, phase) in rows {
            let object = json!({"metadata": {"name": name, "generation": 2}, "spec": spec});
            let operator: Loose<AddonOperator> = serde_json::from_value(object).unwrap();
            let held = Status::default();
            let first = decide(&operator, &held, Timestamp::UNIX_EPOCH);
            let said: Vec<String> =
                first.conditions.iter().map(|held| format!("{}={}", held.type_, held.status)).collect();
            assert_eq!(
                (said, first.phase.as_deref()),
                (wanted.iter().map(ToString::to_string).collect(), Some(phase))
            );
            assert_eq!(decide(&operator, &first, Timestamp::MAX), first, "{name}: nothing changes by itself");
        }
    }
}
