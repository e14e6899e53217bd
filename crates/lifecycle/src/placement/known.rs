//! What placements have chosen, as watches have shown it: for controllers that keep it in memory.

use std::collections::{BTreeMap, HashMap};

use bellwether_api::cluster::vocabulary::PLACEMENT_LABEL;
use bellwether_api::cluster::{Placement, PlacementDecision};
use bellwether_runtime::ObjectName;
use kube::ResourceExt as _;

use super::{Decided, decided};

/// Placements and their decisions.
#[derive(Default)]
pub(crate) struct KnownPlacements {
    placements: HashMap<ObjectName, Placement>,
    /// By placement, then by name.
    decisions: HashMap<ObjectName, BTreeMap<String, PlacementDecision>>,
}

impl KnownPlacements {
    /// A placement is there, or has changed. Says which it is.
    pub(crate) fn place(&mut self, placement: Placement) -> ObjectName {
        let name = ObjectName::of(&placement);
        self.placements.insert(name.clone(), placement);
        name
    }

    /// A placement is gone.
    pub(crate) fn displace(&mut self, name: &ObjectName) {
        self.placements.remove(name);
    }

    /// A part of a decision is there, or has changed. Says of which placement it is.
    pub(crate) fn decide(&mut self, decision: PlacementDecision) -> ObjectName {
        let placement = decision.labels().get(PLACEMENT_LABEL).cloned().unwrap_or_default();
        let of = ObjectName::new(decision.namespace().unwrap_or_default(), placement);
        self.decisions.entry(of.clone()).or_default().insert(decision.name_any(), decision);
        of
    }

    /// A part of a decision is gone. Says of which placement it was.
    pub(crate) fn undecide(&mut self, decision: &ObjectName) -> Option<ObjectName> {
        let holds = |(of, parts): (&ObjectName, &BTreeMap<String, PlacementDecision>)| {
            (of.namespace == decision.namespace && parts.contains_key(&*decision.name)).then(|| of.clone())
        };
        let of = self.decisions.iter().find_map(holds)?;
        self.decisions.get_mut(&of)?.remove(&*decision.name);
        Some(of)
    }

    /// A placement, if there is one.
    pub(crate) fn get(&self, name: &ObjectName) -> Option<&Placement> {
        self.placements.get(name)
    }

    /// Which clusters a placement has chosen; nothing, if there is no such placement.
    pub(crate) fn decided(&self, name: &ObjectName) -> Option<Decided> {
        let placement = self.placements.get(name)?;
        let parts: Vec<&PlacementDecision> =
            self.decisions.get(name).into_iter().flat_map(BTreeMap::values).collect();
        Some(decided(placement, &parts))
    }
}
