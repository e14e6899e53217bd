//! Which fields of a ManagedClusterAddOn the install controller has set, and which a user has: server-side apply records
//! the field manager of each. What a user has set stays.

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addon::vocabulary::INSTALLED_BY;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt as _;

/// The field manager of the install controller.
pub(crate) const INSTALL_FIELD_MANAGER: &str = "addon-install-controller";

/// A field of a ManagedClusterAddOn that the assigned placement decides, unless a user has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    InstallVersion,
    Configs,
}

impl Field {
    fn is_present(self, object: &ManagedClusterAddOn) -> bool {
        match self {
            Self::InstallVersion => !object.spec.install_version.is_empty(),
            Self::Configs => !object.spec.configs.is_empty(),
        }
    }

    /// The field managers that have written it.
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

/// Whether a user has set a field: it is present, and the install controller has not applied it.
pub(crate) fn is_set_by_others(object: &ManagedClusterAddOn, field: Field) -> bool {
    field.is_present(object)
        && !field.managers(object).any(|entry| {
            entry.manager.as_deref() == Some(INSTALL_FIELD_MANAGER)
                && entry.operation.as_deref() == Some("Apply")
        })
}

/// Whether the install controller and another field manager have both set a field: it cannot be changed without force,
/// and belongs to the other.
pub(crate) fn is_shared(object: &ManagedClusterAddOn, field: Field) -> bool {
    let managers: Vec<_> = field.managers(object).filter_map(|entry| entry.manager.as_deref()).collect();
    managers.contains(&INSTALL_FIELD_MANAGER)
        && managers.iter().any(|manager| *manager != INSTALL_FIELD_MANAGER)
}

/// The placement, `<namespace>/<name>`, that a ManagedClusterAddOn was created for; `None` where a user created it.
pub fn installed_for(object: &ManagedClusterAddOn) -> Option<&str> {
    object.annotations().get(INSTALLED_BY).map(String::as_str)
}

/// Whether a ManagedClusterAddOn was created for a placement.
pub fn is_placed(object: &ManagedClusterAddOn) -> bool {
    installed_for(object).is_some()
}

/// Whether a ManagedClusterAddOn was created for this placement, `<namespace>/<name>`.
pub fn is_installed_for(object: &ManagedClusterAddOn, placement: &str) -> bool {
    installed_for(object) == Some(placement)
}

/// Whether a user has set the version of a ManagedClusterAddOn that was created for a placement: no rollout applies to it.
pub fn is_overridden(object: &ManagedClusterAddOn) -> bool {
    is_placed(object) && is_set_by_others(object, Field::InstallVersion)
}

/// Who has set the version of a ManagedClusterAddOn in place of its placement.
pub fn describe_override(object: &ManagedClusterAddOn) -> String {
    let managers: Vec<&str> =
        Field::InstallVersion.managers(object).filter_map(|entry| entry.manager.as_deref()).collect();
    match managers.as_slice() {
        [] => "its version is not set by its placement".to_owned(),
        managers => format!("its version is set by {}, not by its placement", managers.join(" and ")),
    }
}
