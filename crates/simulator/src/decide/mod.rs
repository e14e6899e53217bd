//! The status that an object should have at a stage of its rollout: pure, one file for each kind. While a rollout has
//! begun and its generation was observed already, everything stays as it is; so what was ready before a restart, or
//! before somebody changed the annotation, stays ready.

pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod job;
pub(crate) mod stateful_set;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What a decision needs to know besides the object.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// The present instant, in whole seconds as statuses have it.
    pub(crate) now: Time,
    /// How many nodes a DaemonSet would run on.
    pub(crate) nodes: i32,
}

/// A count as Kubernetes writes it: zero is left out.
fn count(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}

/// The letters of names that Kubernetes generates.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The name of what belongs to one version of a template, as ReplicaSets and revisions are named: it changes exactly
/// when the template does.
fn revision(name: &str, template: Option<&PodTemplateSpec>) -> String {
    let bytes = template.and_then(|template| serde_json::to_vec(template).ok()).unwrap_or_default();
    // FNV-1a: short, and the same on every machine and in every version.
    let mut hash =
        bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let mut suffix = String::new();
    while hash > 0 {
        let letter = LETTERS.get((hash % 27) as usize).copied().unwrap_or(b'b');
        suffix.push(char::from(letter));
        hash /= 27;
    }
    format!("{name}-{suffix}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_revision_changes_exactly_with_its_template() {
        let template = |image: &str| -> PodTemplateSpec {
            serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "image": image}]}})).unwrap()
        };
        let one = revision("web", Some(&template("one")));
        assert!(one.starts_with("web-") && one.len() > 8, "{one}");
        assert_eq!(one, revision("web", Some(&template("one"))));
        assert_ne!(one, revision("web", Some(&template("two"))));
    }
}
