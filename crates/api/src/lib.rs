//! Bellwether's own Kubernetes types, one module for each API group, and the definitions generated from them.
//! A type comes with the job that uses it. What its objects mean is not known here.
//!
//! The definitions are also kept in `deploy/crds`; after changing a type, write them again with
//! `BELLWETHER_WRITE_CRDS=1 cargo test -p bellwether-api`.
#![allow(clippy::duplicated_attributes, reason = "two columns of a table may be of one type")]

/// An object may come without its `spec`; it reads as an empty one, so that one such object does not end a watch.
macro_rules! may_be_missing {
    ($spec:ident) => {
        impl Serialize for $spec {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $spec {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                struct Sent(#[serde(with = "Spec")] $spec);
                type Spec = $spec;
                Ok(Option::<Sent>::deserialize(deserializer)?.map_or_else(Self::default, |Sent(spec)| spec))
            }
        }
    };
}

pub mod addon;
pub mod addons_managed;
pub mod cluster;
mod definition;
mod schemas;
pub mod work;

pub use definition::{Definition, Place, crds};

/// Whether a field says what it would say if it were left out. Go writes such fields; we need not.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
