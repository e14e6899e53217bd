//! Where an add-on goes: one ManagedClusterAddOn for each cluster that a placement has chosen, with the version that the
//! placement asks for. **Nothing is taken away by accident**: what is not known is no reason to remove anything.

mod controller;
pub mod decide;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addon::vocabulary::INSTALLED_BY;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt as _;

pub use controller::{NAME, run};

/// By which the fields of ManagedClusterAddOns are owned.
pub(crate) const FIELD_MANAGER: &str = "addon-install-controller";

/// A field of a ManagedClusterAddOn that placements fill in, and people may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    InstallVersion,
    Configs,
}

impl Field {
    fn is_there(self, object: &ManagedClusterAddOn) -> bool {
        match self {
            Self::InstallVersion => !object.spec.install_version.is_empty(),
            Self::Configs => !object.spec.configs.is_empty(),
        }
    }

    /// Who has written it.
    fn managers(self, object: &ManagedClusterAddOn) -> impl Iterator<Item = &ManagedFieldsEntry> {
        let path = match self {
            Self::InstallVersion => "/f:spec/f:installVersion",
            Self::Configs => "/f:spec/f:configs",
        };
        let has = move |entry: &&ManagedFieldsEntry| {
            entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(path).is_some())
        };
        object.managed_fields().iter().filter(has)
    }
}

/// Whether a person has set a field: it is there, and was not applied by us.
pub(crate) fn is_set_by_others(object: &ManagedClusterAddOn, field: Field) -> bool {
    field.is_there(object)
        && !field.managers(object).any(|entry| {
            entry.manager.as_deref() == Some(FIELD_MANAGER) && entry.operation.as_deref() == Some("Apply")
        })
}

/// Whether we have set a field, and somebody else has as well: it cannot be changed without force, and is theirs.
pub(crate) fn is_shared(object: &ManagedClusterAddOn, field: Field) -> bool {
    let managers: Vec<_> = field.managers(object).filter_map(|entry| entry.manager.as_deref()).collect();
    managers.contains(&FIELD_MANAGER) && managers.iter().any(|manager| *manager != FIELD_MANAGER)
}

/// Whether it was made for a placement.
pub fn is_placed(object: &ManagedClusterAddOn) -> bool {
    object.annotations().contains_key(INSTALLED_BY)
}

/// Whether it was made for this placement, `<namespace>/<name>`.
pub(crate) fn is_placed_by(object: &ManagedClusterAddOn, placement: &str) -> bool {
    object.annotations().get(INSTALLED_BY).is_some_and(|made_for| made_for == placement)
}

/// Whether a person has set the version of what was made for a placement: it goes by that alone.
pub fn is_overridden(object: &ManagedClusterAddOn) -> bool {
    is_placed(object) && is_set_by_others(object, Field::InstallVersion)
}

/// The field managers that have written the version that an add-on asks for, to name them to a person.
pub fn version_managers(object: &ManagedClusterAddOn) -> Vec<&str> {
    Field::InstallVersion.managers(object).filter_map(|entry| entry.manager.as_deref()).collect()
}
