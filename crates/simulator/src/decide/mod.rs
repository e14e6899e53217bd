//! Computes the status of an object at a stage of its rollout; pure, one file per kind. If a rollout is in progress and its
//! generation is already observed, the status stays as it is: a workload that was ready before a restart, or before a change of
//! the annotation, stays ready.

pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod job;
pub(crate) mod stateful_set;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The inputs of a decision in addition to the object.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    /// The current time, in whole seconds, as in statuses.
    pub(crate) now: Time,
    /// The number of nodes that a DaemonSet would run on.
    pub(crate) nodes: i32,
}

/// A count as Kubernetes writes it: zero is omitted.
fn count(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}

/// The characters of names that Kubernetes generates.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The name of a ReplicaSet or revision. It changes if and only if the template changes.
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
    fn revision_changes_only_with_the_template() {
        let template = |image: &str| -> PodTemplateSpec {
            serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "image": image}]}})).unwrap()
        };
        let one = revision("web", Some(&template("one")));
        assert!(one.starts_with("web-") && one.len() > 8, "{one}");
        assert_eq!(one, revision("web", Some(&template("one"))));
        assert_ne!(one, revision("web", Some(&template("two"))));
    }
}
