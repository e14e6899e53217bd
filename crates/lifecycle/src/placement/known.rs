//! What placements have chosen, as watches have shown it: for controllers that keep it in memory.

use std::collections::{BTreeMap, HashMap};

use bellwether_api::cluster::vocabulary::PLACEMENT_LABEL;
use bellwether_api::cluster::{Placement, PlacementDecision};
use kube::ResourceExt as _;

use super::{Decided, decided};
use crate::watching::Named;

/// Placements and their decisions.
#[derive(Default)]
pub(crate) struct KnownPlacements {
    placements: HashMap<Named, Placement>,
    /// By placement, then by name.
    decisions: HashMap<Named, BTreeMap<String, PlacementDecision>>,
}

impl KnownPlacements {
    /// A placement is there, or has changed. Says which it is.
    pub(crate) fn place(&mut self, placement: Placement) -> Named {
        let name = (placement.namespace().unwrap_or_default(), placement.name_any());
        self.placements.insert(name.clone(), placement);
        name
    }

    /// A placement is gone.
    pub(crate) fn displace(&mut self, name: &Named) {
        self.placements.remove(name);
    }

    /// A part of a decision is there, or has changed. Says of which placement it is.
    pub(crate) fn decide(&mut self, decision: PlacementDecision) -> Named {
        let placement = decision.labels().get(PLACEMENT_LABEL).cloned().unwrap_or_default();
        let of = (decision.namespace().unwrap_or_default(), placement);
        self.decisions.entry(of.clone()).or_default().insert(decision.name_any(), decision);
        of
    }

    /// A part of a decision is gone. Says of which placement it was.
    pub(crate) fn undecide(&mut self, (namespace, name): &Named) -> Option<Named> {
        let holds = |(of, parts): (&Named, &BTreeMap<String, PlacementDecision>)| {
            (of.0 == *namespace && parts.contains_key(name)).then(|| of.clone())
        };
        let of = self.decisions.iter().find_map(holds)?;
        self.decisions.get_mut(&of)?.remove(name);
        Some(of)
    }

    /// A placement, if there is one.
    pub(crate) fn get(&self, name: &Named) -> Option<&Placement> {
        self.placements.get(name)
    }

    /// Which clusters a placement has chosen; nothing, if there is no such placement.
    pub(crate) fn decided(&self, name: &Named) -> Option<Decided> {
        let placement = self.placements.get(name)?;
        let parts: Vec<&PlacementDecision> =
            self.decisions.get(name).into_iter().flat_map(BTreeMap::values).collect();
        Some(decided(placement, &parts))
    }
}
