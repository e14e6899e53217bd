//! Where an add-on goes: one ManagedClusterAddOn for each cluster that a placement has chosen, with the version that the
//! placement asks for. **Nothing is taken away by accident**: what is not known is no reason to remove anything.

mod controller;
pub mod decide;

use bellwether_api::addon::ManagedClusterAddOn;
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

/// Whether a person has set a field: it is there, and was not applied by us.
pub(crate) fn is_set_by_others(object: &ManagedClusterAddOn, field: Field) -> bool {
    let (there, path) = match field {
        Field::InstallVersion => (!object.spec.install_version.is_empty(), "/f:spec/f:installVersion"),
        Field::Configs => (!object.spec.configs.is_empty(), "/f:spec/f:configs"),
    };
    there
        && !object.managed_fields().iter().any(|entry| {
            let ours = entry.manager.as_deref() == Some(FIELD_MANAGER)
                && entry.operation.as_deref() == Some("Apply");
            ours && entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(path).is_some())
        })
}
