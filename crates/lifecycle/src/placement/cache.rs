//! Placements and their decisions in memory, as watches deliver them.

use std::collections::{BTreeMap, HashMap};

use bellwether_api::cluster::vocabulary::PLACEMENT_LABEL;
use bellwether_api::cluster::{Placement, PlacementDecision};
use bellwether_runtime::ObjectName;
use kube::ResourceExt as _;

use super::{Decided, decided};

/// Placements and their decisions.
#[derive(Default)]
pub(crate) struct PlacementCache {
    placements: HashMap<ObjectName, Placement>,
    /// By placement, then by name.
    decisions: HashMap<ObjectName, BTreeMap<String, PlacementDecision>>,
}

impl PlacementCache {
    /// Applies a Placement and returns its name.
    pub(crate) fn apply(&mut self, placement: Placement) -> ObjectName {
        let name = ObjectName::of(&placement);
        self.placements.insert(name.clone(), placement);
        name
    }

    pub(crate) fn delete(&mut self, name: &ObjectName) {
        self.placements.remove(name);
    }

    /// Applies a PlacementDecision and returns the name of its Placement.
    pub(crate) fn apply_decision(&mut self, decision: PlacementDecision) -> ObjectName {
        let placement = placement_of(&decision);
        self.decisions.entry(placement.clone()).or_default().insert(decision.name_any(), decision);
        placement
    }

    /// Deletes a PlacementDecision and returns the name of its Placement.
    pub(crate) fn delete_decision(&mut self, decision: &ObjectName) -> Option<ObjectName> {
        let holds = |(placement, parts): (&ObjectName, &BTreeMap<String, PlacementDecision>)| {
            let is_its = placement.namespace == decision.namespace && parts.contains_key(&*decision.name);
            is_its.then(|| placement.clone())
        };
        let placement = self.decisions.iter().find_map(holds)?;
        self.decisions.get_mut(&placement)?.remove(&*decision.name);
        Some(placement)
    }

    pub(crate) fn get(&self, name: &ObjectName) -> Option<&Placement> {
        self.placements.get(name)
    }

    /// The clusters that a Placement selects; `None` where there is no such Placement.
    pub(crate) fn decided(&self, name: &ObjectName) -> Option<Decided> {
        let placement = self.placements.get(name)?;
        let parts: Vec<&PlacementDecision> =
            self.decisions.get(name).into_iter().flat_map(BTreeMap::values).collect();
        Some(decided(placement, &parts))
    }
}

/// The name of the Placement of a PlacementDecision.
pub(super) fn placement_of(decision: &PlacementDecision) -> ObjectName {
    let placement = decision.labels().get(PLACEMENT_LABEL).map(String::as_str).unwrap_or_default();
    ObjectName::new(decision.namespace().unwrap_or_default(), placement)
}
