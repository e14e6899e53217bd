//! How an object goes that a work has made and no longer wants, and which go first.

use std::collections::BTreeMap;

use bellwether_api::work::AppliedResource;
use serde_json::Value;

use super::order::Rank;
use super::owners::Owner;
use super::rules::Fate;

/// What is done about an object that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Nothing: it is gone.
    Gone,
    /// Nothing: it is not ours.
    Leave,
    /// It stays, and belongs to us no more.
    Release { owners: Vec<Value> },
    /// It is on its way, and something still needs it.
    Wait,
    /// It is deleted, if it is still this one.
    Delete { uid: String, revision: String },
}

/// What is done about an object, by what is there now.
pub(crate) fn removal(live: Option<&Value>, owner: &Owner, fate: Fate) -> Removal {
    let Some(live) = live else { return Removal::Gone };
    if !owner.owns(live) {
        return Removal::Leave;
    }
    if fate == Fate::Stays || owner.shares(live) {
        return Removal::Release { owners: owner.released(live) };
    }
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !text("/metadata/deletionTimestamp").is_empty() {
        return Removal::Wait;
    }
    Removal::Delete { uid: text("/metadata/uid"), revision: text("/metadata/resourceVersion") }
}

/// The objects of a record in the order in which they go: those that were made last first, and those that were made
/// before only when these are gone.
pub(crate) fn stages(record: &[AppliedResource]) -> Vec<Vec<&AppliedResource>> {
    let mut stages: BTreeMap<Rank, Vec<&AppliedResource>> = BTreeMap::new();
    for entry in record {
        stages.entry(Rank::of(&entry.group, &entry.resource)).or_default().push(entry);
    }
    stages.into_values().rev().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_goes_only_if_it_is_ours_alone() {
        let work = |uid: &str| json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork", "name": uid, "uid": uid});
        let live = |owners: &[Value], leaves: Option<&str>| {
            Some(
                json!({"metadata": {"uid": "u", "resourceVersion": "7", "ownerReferences": owners, "deletionTimestamp": leaves}}),
            )
        };
        let now = Some("2024-05-01T10:00:00Z");
        let us = Owner { name: "us".into(), uid: "us".into() };
        let delete = Removal::Delete { uid: "u".into(), revision: "7".into() };
        let release = |owners: &[Value]| Removal::Release { owners: owners.to_vec() };
        let rows = [
            ("it is gone", None, Fate::Goes, Removal::Gone),
            ("it is nobody's", live(&[], None), Fate::Goes, Removal::Leave),
            ("it is another work's", live(&[work("them")], None), Fate::Goes, Removal::Leave),
            ("it is ours", live(&[work("us")], None), Fate::Goes, delete),
            ("it leaves", live(&[work("us")], now), Fate::Goes, Removal::Wait),
            (
                "another work has it too",
                live(&[work("us"), work("them")], None),
                Fate::Goes,
                release(&[work("them")]),
            ),
            ("it is to stay", live(&[work("us")], None), Fate::Stays, release(&[])),
            ("it is to stay and is gone", None, Fate::Stays, Removal::Gone),
        ];
        for (sentence, live, fate, wanted) in rows {
            assert_eq!(removal(live.as_ref(), &us, fate), wanted, "{sentence}");
        }
    }

    #[test]
    fn what_was_made_last_goes_first() {
        let of = |group: &str, resource: &str| AppliedResource {
            group: group.into(),
            resource: resource.into(),
            ..AppliedResource::default()
        };
        let record = [
            of("", "namespaces"),
            of("apps", "deployments"),
            of("", "configmaps"),
            of("x.io", "widgets"),
            of("", "secrets"),
        ];
        let stages: Vec<Vec<&str>> = stages(&record)
            .into_iter()
            .map(|stage| stage.into_iter().map(|entry| entry.resource.as_str()).collect())
            .collect();
        assert_eq!(
            stages,
            [vec!["widgets"], vec!["deployments"], vec!["configmaps", "secrets"], vec!["namespaces"]]
        );
    }
}
