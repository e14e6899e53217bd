//! Whom an object belongs to. An object that a work made has the work's AppliedManifestWork as an owner, among others:
//! two works may have made it, and it goes with the last.

use serde_json::{Value, json};

use super::manifest::ObjectId;
use super::rules::Fate;

const API_VERSION: &str = "work.open-cluster-management.io/v1";
const GROUP: &str = "work.open-cluster-management.io/";
const KIND: &str = "AppliedManifestWork";

/// The AppliedManifestWork of a work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Owner {
    fn reference(&self) -> Value {
        json!({"apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": self.uid})
    }

    /// Whether an object belongs to it.
    pub(crate) fn owns(&self, object: &Value) -> bool {
        references(object).iter().any(|reference| text(reference, "uid") == self.uid)
    }

    /// Whether an object belongs to another work as well, or only to that.
    pub(crate) fn shares(&self, object: &Value) -> bool {
        references(object).iter().any(|reference| self.is_another(reference))
    }

    /// One of the same name is this one, from before it was made anew.
    fn is_another(&self, reference: &Value) -> bool {
        is_work(reference) && text(reference, "uid") != self.uid && text(reference, "name") != self.name
    }

    /// The owners to apply an object with: those that its manifest names, other works that have it, and this one unless
    /// the object is to outlive its work. Other works are named too, as what one apply leaves out is taken from them.
    pub(crate) fn applied(&self, manifest: &Value, live: Option<&Value>, fate: Fate) -> Vec<Value> {
        let mut owners: Vec<Value> = references(manifest).to_vec();
        let others = live.map(references).unwrap_or_default();
        owners.extend(others.iter().filter(|reference| self.is_another(reference)).cloned());
        owners.retain(|reference| text(reference, "uid") != self.uid);
        if fate == Fate::Goes {
            owners.push(self.reference());
        }
        let mut seen = std::collections::HashSet::new();
        owners.retain(|reference| seen.insert(text(reference, "uid").to_owned()));
        owners
    }

    /// The owners of an object that is otherwise left alone: as they are, with or without this one.
    pub(crate) fn kept(&self, live: &Value, fate: Fate) -> Vec<Value> {
        let mut owners = self.released(live);
        if fate == Fate::Goes {
            owners.push(self.reference());
        }
        owners
    }

    /// The owners of an object without this one.
    pub(crate) fn released(&self, live: &Value) -> Vec<Value> {
        let others = references(live).iter();
        others.filter(|reference| text(reference, "uid") != self.uid).cloned().collect()
    }
}

/// What becomes of an object when its work is deleted, by what is there before it is written. A namespace that no work
/// owns stays: to delete it would be to delete all that others have in it. The owner tells that, as what a work makes has
/// it from its first moment on: a namespace without one was there before, or was let go. Only one that somebody makes
/// between this look and the write, which is the next thing to happen, is taken for ours.
pub(crate) fn fate_of(id: &ObjectId, live: Option<&Value>, asked: Fate) -> Fate {
    let is_namespace = id.group.is_empty() && id.resource == "namespaces";
    let is_foreign = live.is_some_and(|live| !references(live).iter().any(is_work));
    if is_namespace && is_foreign { Fate::Stays } else { asked }
}

fn is_work(reference: &Value) -> bool {
    text(reference, "apiVersion").starts_with(GROUP) && text(reference, "kind") == KIND
}

fn references(object: &Value) -> &[Value] {
    let found = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
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
    fn owners_that_are_applied() {
        let (ours, theirs, old) = (work("hub-us", "us"), work("hub-them", "them"), work("hub-us", "before"));
        let none: [Value; 0] = [];
        type Row<'a> = (&'a str, &'a [Value], Option<&'a [Value]>, Fate, Vec<Value>);
        let rows: [Row<'_>; 8] = [
            ("a new object is ours", &none, None, Fate::Goes, vec![ours.clone()]),
            ("one that stays is nobody's", &none, None, Fate::Stays, vec![]),
            (
                "another work keeps its share",
                &none,
                Some(std::slice::from_ref(&theirs)),
                Fate::Goes,
                vec![theirs.clone(), ours.clone()],
            ),
            (
                "also in one that stays",
                &none,
                Some(&[theirs.clone(), ours.clone()]),
                Fate::Stays,
                vec![theirs.clone()],
            ),
            ("what we were before is gone", &none, Some(&[old]), Fate::Goes, vec![ours.clone()]),
            (
                "owners that are no works are not ours to apply",
                &none,
                Some(&[deployment()]),
                Fate::Goes,
                vec![ours.clone()],
            ),
            (
                "unless the manifest names them",
                &[deployment()],
                Some(&[deployment()]),
                Fate::Goes,
                vec![deployment(), ours.clone()],
            ),
            (
                "nobody twice",
                std::slice::from_ref(&theirs),
                Some(&[theirs.clone(), ours.clone()]),
                Fate::Goes,
                vec![theirs.clone(), ours.clone()],
            ),
        ];
        for (sentence, manifest, live, fate, wanted) in rows {
            let live = live.map(object);
            assert_eq!(us().applied(&object(manifest), live.as_ref(), fate), wanted, "{sentence}");
        }
    }

    #[test]
    fn a_namespace_that_no_work_owns_outlives_the_work() {
        let id = |group: &str, resource: &str| ObjectId {
            group: group.into(),
            resource: resource.into(),
            namespace: String::new(),
            name: "x".into(),
        };
        let (namespace, role) = (id("", "namespaces"), id("rbac.authorization.k8s.io", "clusterroles"));
        let (ours, theirs, old) =
            ([work("hub-us", "us")], [work("hub-them", "them")], [work("hub-us", "before")]);
        type Row<'a> = (&'a str, &'a ObjectId, Option<&'a [Value]>, Fate, Fate);
        let rows: [Row<'_>; 11] = [
            ("one that is missing is made, and ours", &namespace, None, Fate::Goes, Fate::Goes),
            ("one that was there is not, or no longer", &namespace, Some(&[]), Fate::Goes, Fate::Stays),
            ("also where it is owned", &namespace, Some(&[deployment()]), Fate::Goes, Fate::Stays),
            ("one that is ours stays ours", &namespace, Some(&ours), Fate::Goes, Fate::Goes),
            ("one of another work is shared", &namespace, Some(&theirs), Fate::Goes, Fate::Goes),
            ("one of our record before is ours", &namespace, Some(&old), Fate::Goes, Fate::Goes),
            ("ours may be asked to stay", &namespace, Some(&ours), Fate::Stays, Fate::Stays),
            ("also one that is missing", &namespace, None, Fate::Stays, Fate::Stays),
            ("other kinds are taken over", &role, Some(&[]), Fate::Goes, Fate::Goes),
            ("and stay where that is asked for", &role, Some(&[]), Fate::Stays, Fate::Stays),
            (
                "a namespace of another group is another kind",
                &id("example.com", "namespaces"),
                Some(&[]),
                Fate::Goes,
                Fate::Goes,
            ),
        ];
        for (sentence, id, live, asked, wanted) in rows {
            assert_eq!(fate_of(id, live.map(object).as_ref(), asked), wanted, "{sentence}");
        }
    }

    #[test]
    fn an_object_is_shared_when_another_work_has_it() {
        let (ours, theirs) = (work("hub-us", "us"), work("hub-them", "them"));
        let rows: [(&[Value], bool, bool); 5] = [
            (&[], false, false),
            (std::slice::from_ref(&ours), true, false),
            (&[ours.clone(), deployment()], true, false),
            (&[theirs.clone(), ours.clone()], true, true),
            (std::slice::from_ref(&theirs), false, true),
        ];
        for (owners, owns, shares) in rows {
            let object = object(owners);
            assert_eq!((us().owns(&object), us().shares(&object)), (owns, shares), "{owners:?}");
        }
        let both = object(&[ours.clone(), theirs.clone(), deployment()]);
        assert_eq!(us().released(&both), [theirs.clone(), deployment()]);
        assert_eq!(us().kept(&both, Fate::Goes), [theirs, deployment(), ours]);
        assert!(!us().owns(&json!({})));
    }
}
