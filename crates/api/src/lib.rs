//! Bellwether's own Kubernetes types, one module for each API group, and the CRDs generated from them.
//! This crate defines the wire format only; what controllers do with the objects is in the crates that use them.
//!
//! Doc comments of spec and status types are the field descriptions of the CRDs (`kubectl explain`). The CRDs are also
//! files in `deploy/crds`; after changing a type, update the files with
//! `BELLWETHER_WRITE_CRDS=1 cargo test -p bellwether-api`.
#![allow(clippy::duplicated_attributes, reason = "several printer columns may have the same type")]

/// Reads a missing or `null` `spec` as an empty one. Otherwise a single object without a `spec` would fail to decode and
/// end the watch of its kind.
macro_rules! empty_if_missing {
    ($spec:ident) => {
        impl Serialize for $spec {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $spec {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                struct Present(#[serde(with = "Spec")] $spec);
                type Spec = $spec;
                Ok(Option::<Present>::deserialize(deserializer)?
                    .map_or_else(Self::default, |Present(spec)| spec))
            }
        }
    };
}

pub mod addon;
pub mod addons_managed;
pub mod cluster;
mod definition;
pub mod observability;
mod schemas;
pub mod work;

pub use definition::{Definition, Place, crds};

/// Whether a field has its default value, so that serialization can omit it.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
