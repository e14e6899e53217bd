//! `addons.managed.openshift.io`: the add-ons of a cluster and how they say that they are alive.
//! The wire is that of the upstream operator, so that its clients work unchanged; what the objects mean is decided
//! by the jobs that use them.

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

mod addon;
mod instance;
mod operator;
pub(crate) mod rules;

pub use addon::*;
pub use instance::*;
pub use operator::*;
