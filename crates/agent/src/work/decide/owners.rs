//! Owner references of applied objects. An object that was created for a ManifestWork has the AppliedManifestWork as
//! one of its owners. If two ManifestWorks list the same object, it has two such owners, and it is deleted with the
//! last of them.

use serde_json::{Value, json};

use super::manifest::ObjectId;
use super::object_options::DeletionPolicy;

const API_VERSION: &str = "work.open-cluster-management.io/v1";
const GROUP_PREFIX: &str = "work.open-cluster-management.io/";
const KIND: &str = "AppliedManifestWork";

/// An AppliedManifestWork as owner of objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Owner {
    fn reference(&self) -> Value {
        json!({"apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": self.uid})
    }

    pub(crate) fn is_owner_of(&self, object: &Value) -> bool {
        references(object).iter().any(|reference| string_field(reference, "uid") == self.uid)
    }

    /// Whether an AppliedManifestWork of another ManifestWork owns the object too, or alone.
    pub(crate) fn has_other_work_in(&self, object: &Value) -> bool {
        references(object).iter().any(|reference| self.is_other_work(reference))
    }

    /// Whether an owner reference is to an AppliedManifestWork of another ManifestWork. One of the same name with
    /// another uid is this one, before it was deleted and created again.
    fn is_other_work(&self, reference: &Value) -> bool {
        is_applied_work(reference)
            && string_field(reference, "uid") != self.uid
            && string_field(reference, "name") != self.name
    }

    /// The owner references to apply an object with: those of its manifest, those of other ManifestWorks, and this one
    /// unless the object is orphaned. Those of other ManifestWorks are included, because server-side apply removes what
    /// the same field manager applied before and now omits.
    pub(crate) fn owners_to_apply(
        &self,
        manifest: &Value,
        live: Option<&Value>,
        policy: DeletionPolicy,
    ) -> Vec<Value> {
        let mut owners: Vec<Value> = references(manifest).to_vec();
        let existing = live.map(references).unwrap_or_default();
        owners.extend(existing.iter().filter(|reference| self.is_other_work(reference)).cloned());
        owners.retain(|reference| string_field(reference, "uid") != self.uid);
        if policy == DeletionPolicy::Delete {
            owners.push(self.reference());
        }
        let mut seen = std::collections::HashSet::new();
        owners.retain(|reference| seen.insert(string_field(reference, "uid").to_owned()));
        owners
    }

    /// The owner references of an object that is not applied otherwise: the existing ones, with this one unless the
    /// object is orphaned.
    pub(crate) fn owners_to_set(&self, live: &Value, policy: DeletionPolicy) -> Vec<Value> {
        let mut owners = self.remaining_owners(live);
        if policy == DeletionPolicy::Delete {
            owners.push(self.reference());
        }
        owners
    }

    /// The owner references of an object without this one.
    pub(crate) fn remaining_owners(&self, live: &Value) -> Vec<Value> {
        let others = references(live).iter();
        others.filter(|reference| string_field(reference, "uid") != self.uid).cloned().collect()
    }
}

/// The deletion policy of an object, from its state before it is written.
///
/// A namespace that no AppliedManifestWork owns is kept, because to delete it would delete everything that others have
/// in it. A namespace that the agent creates has its owner from its creation on; one without existed before, or was
/// orphaned. If somebody creates the namespace between this read and the write that follows, it counts as created by
/// the agent.
pub(crate) fn effective_deletion_policy(
    id: &ObjectId,
    live: Option<&Value>,
    requested: DeletionPolicy,
) -> DeletionPolicy {
    let is_namespace = id.group.is_empty() && id.resource == "namespaces";
    let existed_before = live.is_some_and(|live| !references(live).iter().any(is_applied_work));
    if is_namespace && existed_before { DeletionPolicy::Orphan } else { requested }
}

fn is_applied_work(reference: &Value) -> bool {
    string_field(reference, "apiVersion").starts_with(GROUP_PREFIX) && string_field(reference, "kind") == KIND
}

fn references(object: &Value) -> &[Value] {
    let found = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

fn string_field<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(name: &str, uid: &str) -> Value {
        json!({"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": uid})
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d"})
    }

    fn object(owners: &[Value]) -> Value {
        json!({"metadata": {"name": "x", "ownerReferences": owners}})
    }

    fn us() -> Owner {
        Owner { name: "hub-us".into(), uid: "us".into() }
    }

    #[test]
    fn owner_references_to_apply() {
        let (ours, theirs, old) = (work("hub-us", "us"), work("hub-them", "them"), work("hub-us", "before"));
        let none: [Value; 0] = [];
        type Row<'a> = (&'a str, &'a [Value], Option<&'a [Value]>, DeletionPolicy, Vec<Value>);
        let rows: [Row<'_>; 8] = [
            ("a new object gets this owner", &none, None, DeletionPolicy::Delete, vec![ours.clone()]),
            ("an orphaned object gets no owner", &none, None, DeletionPolicy::Orphan, vec![]),
            (
                "the owner of another ManifestWork is kept",
                &none,
                Some(std::slice::from_ref(&theirs)),
                DeletionPolicy::Delete,
                vec![theirs.clone(), ours.clone()],
            ),
            (
                "also if the object is orphaned",
                &none,
                Some(&[theirs.clone(), ours.clone()]),
                DeletionPolicy::Orphan,
                vec![theirs.clone()],
            ),
            (
                "an owner of the same name with an old uid is removed",
                &none,
                Some(&[old]),
                DeletionPolicy::Delete,
                vec![ours.clone()],
            ),
            (
                "owners of other kinds are not applied",
                &none,
                Some(&[deployment()]),
                DeletionPolicy::Delete,
                vec![ours.clone()],
            ),
            (
                "unless the manifest lists them",
                &[deployment()],
                Some(&[deployment()]),
                DeletionPolicy::Delete,
                vec![deployment(), ours.clone()],
            ),
            (
                "no owner is listed twice",
                std::slice::from_ref(&theirs),
                Some(&[theirs.clone(), ours.clone()]),
                DeletionPolicy::Delete,
                vec![theirs.clone(), ours.clone()],
            ),
        ];
        for (case, manifest, live, policy, wanted) in rows {
            let live = live.map(object);
            assert_eq!(us().owners_to_apply(&object(manifest), live.as_ref(), policy), wanted, "{case}");
        }
    }

    #[test]
    fn namespace_that_existed_before_the_work_is_kept() {
        let id = |group: &str, resource: &str| ObjectId {
            group: group.into(),
            resource: resource.into(),
            namespace: String::new(),
            name: "x".into(),
        };
        let (namespace, role) = (id("", "namespaces"), id("rbac.authorization.k8s.io", "clusterroles"));
        let (ours, theirs, old) =
            ([work("hub-us", "us")], [work("hub-them", "them")], [work("hub-us", "before")]);
        type Row<'a> = (&'a str, &'a ObjectId, Option<&'a [Value]>, DeletionPolicy, DeletionPolicy);
        let rows: [Row<'_>; 11] = [
            (
                "a missing namespace is created, and deleted with the ManifestWork",
                &namespace,
                None,
                DeletionPolicy::Delete,
                DeletionPolicy::Delete,
            ),
            (
                "a namespace that existed before is kept",
                &namespace,
                Some(&[]),
                DeletionPolicy::Delete,
                DeletionPolicy::Orphan,
            ),
            (
                "also if an object of another kind owns it",
                &namespace,
                Some(&[deployment()]),
                DeletionPolicy::Delete,
                DeletionPolicy::Orphan,
            ),
            (
                "a namespace that this ManifestWork owns is deleted",
                &namespace,
                Some(&ours),
                DeletionPolicy::Delete,
                DeletionPolicy::Delete,
            ),
            (
                "a namespace of another ManifestWork is shared",
                &namespace,
                Some(&theirs),
                DeletionPolicy::Delete,
                DeletionPolicy::Delete,
            ),
            (
                "a namespace whose owner was created again is deleted",
                &namespace,
                Some(&old),
                DeletionPolicy::Delete,
                DeletionPolicy::Delete,
            ),
            (
                "an owned namespace can be orphaned",
                &namespace,
                Some(&ours),
                DeletionPolicy::Orphan,
                DeletionPolicy::Orphan,
            ),
            ("also a missing one", &namespace, None, DeletionPolicy::Orphan, DeletionPolicy::Orphan),
            (
                "existing objects of other kinds are deleted",
                &role,
                Some(&[]),
                DeletionPolicy::Delete,
                DeletionPolicy::Delete,
            ),
            ("and can be orphaned", &role, Some(&[]), DeletionPolicy::Orphan, DeletionPolicy::Orphan),
            (
                "the kind Namespace of another group is not special",
                &id("example.com", "namespaces"),
                Some(&[]),
                DeletionPolicy::Delete,
                DeletionPolicy::Delete,
            ),
        ];
        for (case, id, live, requested, wanted) in rows {
            assert_eq!(effective_deletion_policy(id, live.map(object).as_ref(), requested), wanted, "{case}");
        }
    }

    #[test]
    fn object_is_shared_if_another_work_owns_it_too() {
        let (ours, theirs) = (work("hub-us", "us"), work("hub-them", "them"));
        let rows: [(&[Value], bool, bool); 5] = [
            (&[], false, false),
            (std::slice::from_ref(&ours), true, false),
            (&[ours.clone(), deployment()], true, false),
            (&[theirs.clone(), ours.clone()], true, true),
            (std::slice::from_ref(&theirs), false, true),
        ];
        for (owners, is_owner, has_other) in rows {
            let object = object(owners);
            assert_eq!(
                (us().is_owner_of(&object), us().has_other_work_in(&object)),
                (is_owner, has_other),
                "{owners:?}"
            );
        }
        let both = object(&[ours.clone(), theirs.clone(), deployment()]);
        assert_eq!(us().remaining_owners(&both), [theirs.clone(), deployment()]);
        assert_eq!(us().owners_to_set(&both, DeletionPolicy::Delete), [theirs, deployment(), ours]);
        assert!(!us().is_owner_of(&json!({})));
    }
}
