//! The garbage collector: what has lost all its owners is deleted; an owner that is deleted in the foreground waits
//! for the dependents that block it; one that is orphaned lets go of its dependents first.
//!
//! An index from owner to dependents follows the store. Whether an owner is still there is looked up in the store
//! itself, by kind, name and uid, at the moment of the decision: the index only says where to look.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bellwether_store::EventKind;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;

use super::Ground;
use super::follow::{Follower, Seen};
use crate::authors::Author;
use crate::collection::{Collection, Location, Stored, UpdateRequest};
use crate::meta::{FOREGROUND, ORPHAN};
use crate::object::{Meta, Object, Owner, parse};
use crate::options::{DeleteOptions, Preconditions, Propagation};
use crate::registry::Resource;
use crate::status::Answer;

/// A decision that failed is tried again after this.
const RETRY: Duration = Duration::from_millis(500);

/// An object, by where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Node {
    /// The position of its kind among the stored kinds.
    kind: usize,
    path: Arc<str>,
}

/// Who depends on whom.
#[derive(Default)]
struct Dependents(HashMap<Box<str>, BTreeSet<Node>>);

impl Dependents {
    fn insert(&mut self, owners: &[Owner], node: &Node) {
        for owner in owners {
            self.0.entry(owner.uid.clone()).or_default().insert(node.clone());
        }
    }

    fn remove(&mut self, owners: &[Owner], node: &Node) {
        for owner in owners {
            if let Some(nodes) = self.0.get_mut(&owner.uid) {
                nodes.remove(node);
                if nodes.is_empty() {
                    self.0.remove(&owner.uid);
                }
            }
        }
    }

    fn of(&self, uid: &str) -> Vec<Node> {
        self.0.get(uid).map(|nodes| nodes.iter().cloned().collect()).unwrap_or_default()
    }
}

/// Work that waits, each node once.
#[derive(Default)]
struct Queue {
    order: VecDeque<Node>,
    known: HashSet<Node>,
}

impl Queue {
    fn push(&mut self, node: Node) {
        if self.known.insert(node.clone()) {
            self.order.push_back(node);
        }
    }

    fn pop(&mut self) -> Option<Node> {
        let node = self.order.pop_front()?;
        self.known.remove(&node);
        Some(node)
    }
}

/// Waits for what is next of a kind. The follower comes back with it, to be asked again.
async fn follow(kind: usize, mut follower: Follower) -> (usize, Vec<Seen>, Follower) {
    let seen = follower.next().await;
    (kind, seen, follower)
}

struct Collector {
    ground: Ground,
    kinds: Vec<Arc<Resource>>,
    dependents: Dependents,
    queue: Queue,
}

/// Collects until the kinds change that there are, then begins anew with the new ones.
pub(super) async fn run(ground: Ground) {
    let mut changes = ground.cluster.changes.subscribe();
    loop {
        changes.borrow_and_update();
        tokio::select! {
            () = collect(ground.clone()) => {}
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

async fn collect(ground: Ground) {
    let registry = ground.cluster.registry(&ground.server);
    let kinds: Vec<Arc<Resource>> = registry.stored().cloned().collect();
    let mut followers: FuturesUnordered<_> = kinds
        .iter()
        .enumerate()
        .map(|(at, kind)| follow(at, Follower::new(&ground, &kind.storage.space)))
        .collect();
    let mut collector =
        Collector { ground, kinds, dependents: Dependents::default(), queue: Queue::default() };
    let mut failed: Vec<Node> = Vec::new();
    loop {
        tokio::select! {
            Some((kind, seen, follower)) = followers.next() => {
                for seen in seen {
                    collector.observe(kind, &seen);
                }
                followers.push(follow(kind, follower));
            }
            () = tokio::time::sleep(RETRY), if !failed.is_empty() => {}
        }
        for node in failed.drain(..) {
            collector.queue.push(node);
        }
        while let Some(node) = collector.queue.pop() {
            if let Err(refusal) = collector.process(&node).await {
                tracing::debug!(path = %node.path, %refusal, "garbage collection will be tried again");
                failed.push(node);
            }
            // A store in memory never makes us wait; others must get their turn all the same.
            tokio::task::yield_now().await;
        }
    }
}

impl Collector {
    fn observe(&mut self, kind: usize, seen: &Seen) {
        let (stored, previous, gone) = match seen {
            Seen::Present(stored) => (stored, None, false),
            Seen::Changed(event) => (event.entry(), event.previous(), event.kind() == EventKind::Delete),
        };
        // Most objects own nothing and belong to nobody; that is seen without parsing them.
        let alone = !mentions(stored) && !previous.is_some_and(mentions);
        if alone && (!gone || self.dependents.0.is_empty()) {
            return;
        }
        let node = Node { kind, path: stored.path().clone() };
        if let Some(previous) = previous {
            self.dependents.remove(&previous.facts().owners, &node);
        }
        let facts = stored.facts();
        if gone {
            self.dependents.remove(&facts.owners, &node);
            for dependent in self.dependents.of(&facts.uid) {
                self.queue.push(dependent);
            }
            // An owner in the foreground may have waited for just this one.
            self.push_owners(stored);
            return;
        }
        self.dependents.insert(&facts.owners, &node);
        if !facts.owners.is_empty() || facts.deleting {
            self.queue.push(node);
        }
        if previous.is_some() {
            self.push_owners(stored);
        }
    }

    fn push_owners(&mut self, stored: &Stored) {
        for owner in &stored.facts().owners {
            if let Some(node) = self.locate(owner, stored.path()) {
                self.queue.push(node);
            }
        }
    }

    fn collection(&self, kind: usize) -> Option<Collection<'_>> {
        let resource = self.kinds.get(kind)?;
        Some(Collection { server: &self.ground.server, cluster: &self.ground.cluster, resource })
    }

    fn find(&self, node: &Node) -> Option<Stored> {
        let space = self.collection(node.kind)?.space();
        self.ground.server.store.get(&space, &node.path)
    }

    /// Where an owner would be; nothing, when its kind is not served or cannot own this object.
    fn locate(&self, owner: &Owner, dependent: &str) -> Option<Node> {
        let registry = self.ground.cluster.registry(&self.ground.server);
        let resource = registry.find_kind(&owner.api_version, &owner.kind)?;
        let kind = self.kinds.iter().position(|kind| kind.storage.space == resource.storage.space)?;
        let path = if resource.is_namespaced() {
            let (namespace, _) = dependent.split_once('/')?;
            format!("{namespace}/{}", owner.name)
        } else {
            owner.name.to_string()
        };
        Some(Node { kind, path: path.into() })
    }

    async fn process(&mut self, node: &Node) -> Answer<()> {
        let Some(stored) = self.find(node) else { return Ok(()) };
        let object = parse(stored.value());
        if object.is_being_deleted() {
            return self.finish_deletion(node, &object).await;
        }
        self.judge(node, &stored, &object).await
    }

    /// An object that is being deleted, and whose finalizers say what becomes of its dependents.
    async fn finish_deletion(&mut self, node: &Node, object: &Object) -> Answer<()> {
        let dependents = self.dependents.of(object.uid());
        if object.finalizers().contains(&ORPHAN) {
            for dependent in &dependents {
                self.change(dependent, |object, uid| drop_owners(object, &[uid]), object.uid()).await?;
            }
            return self.change(node, |object, _| drop_finalizer(object, ORPHAN), "").await;
        }
        if object.finalizers().contains(&FOREGROUND) {
            let mut blocked = false;
            for dependent in dependents {
                blocked |= self.blocks(&dependent, object.uid());
                // One that is being deleted goes its own way, and its end brings us back here.
                if self.find(&dependent).is_some_and(|stored| !stored.facts().deleting) {
                    self.queue.push(dependent);
                }
            }
            if !blocked {
                return self.change(node, |object, _| drop_finalizer(object, FOREGROUND), "").await;
            }
        }
        Ok(())
    }

    fn blocks(&self, dependent: &Node, owner: &str) -> bool {
        self.find(dependent).is_some_and(|stored| {
            let mut owners = stored.facts().owners.iter();
            owners.any(|reference| &*reference.uid == owner && reference.block_owner_deletion == Some(true))
        })
    }

    /// Decides whether an object with owners stays.
    async fn judge(&mut self, node: &Node, stored: &Stored, object: &Object) -> Answer<()> {
        let owners = &stored.facts().owners;
        if owners.is_empty() {
            return Ok(());
        }
        let (mut solid, mut dangling, mut waiting) = (0, Vec::new(), Vec::new());
        for owner in owners {
            let Some(at) = self.locate(owner, &node.path) else {
                // A kind that is not served cannot be judged: the object stays.
                solid += 1;
                continue;
            };
            match self.find(&at) {
                Some(found) if found.facts().uid == owner.uid => {
                    let foreground =
                        found.facts().deleting && parse(found.value()).finalizers().contains(&FOREGROUND);
                    if foreground && owner.block_owner_deletion == Some(true) {
                        waiting.push(&*owner.uid);
                    } else if foreground {
                        dangling.push(&*owner.uid);
                    } else {
                        solid += 1;
                    }
                }
                _ => dangling.push(&*owner.uid),
            }
        }
        if solid > 0 {
            let lost: Vec<&str> = dangling.into_iter().chain(waiting).collect();
            if lost.is_empty() {
                return Ok(());
            }
            return self.change(node, |object, _| drop_owners(object, &lost), "").await;
        }
        let dependents = self.dependents.of(object.uid());
        if waiting.is_empty() || dependents.is_empty() {
            return self.delete(node, object, None).await;
        }
        // Owners in a circle would wait for each other for ever: this one blocks nobody.
        if dependents.iter().any(|dependent| self.is_foreground(dependent)) {
            self.change(node, |object, _| unblock_owners(object), "").await?;
        }
        self.delete(node, object, Some(Propagation::Foreground)).await
    }

    fn is_foreground(&self, node: &Node) -> bool {
        self.find(node).is_some_and(|stored| {
            stored.facts().deleting && parse(stored.value()).finalizers().contains(&FOREGROUND)
        })
    }

    async fn delete(&self, node: &Node, object: &Object, propagation: Option<Propagation>) -> Answer<()> {
        let Some(collection) = self.collection(node.kind) else { return Ok(()) };
        let options = DeleteOptions {
            propagation,
            preconditions: Preconditions { uid: Some(object.uid().to_owned()), resource_version: None },
            ..DeleteOptions::plain()
        };
        match collection.delete(location(&node.path), &options).await {
            Err(refusal) if matches!(refusal.code(), 404 | 409) => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }

    async fn change(&self, node: &Node, change: impl Fn(&mut Object, &str), uid: &str) -> Answer<()> {
        let Some(collection) = self.collection(node.kind) else { return Ok(()) };
        let request = UpdateRequest::by(Author::CONTROLLERS, None);
        let outcome = collection
            .update(location(&node.path), request, |old| {
                let mut object = old.cloned().unwrap_or_default();
                change(&mut object, uid);
                Ok(object)
            })
            .await;
        match outcome {
            Err(refusal) if refusal.code() == 404 => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }
}

/// Whether an object may have owners or be on its way out.
fn mentions(stored: &Stored) -> bool {
    let finds = |needle: &str| memchr::memmem::find(stored.value(), needle.as_bytes()).is_some();
    finds("\"ownerReferences\":") || finds("\"deletionTimestamp\":")
}

fn location(path: &str) -> Location<'_> {
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    Location { namespace, name }
}

fn drop_owners(object: &mut Object, uids: &[&str]) {
    let meta = object.meta_mut();
    if let Some(Value::Array(owners)) = meta.get_mut("ownerReferences") {
        owners.retain(|owner| !uids.iter().any(|uid| owner["uid"] == **uid));
        if owners.is_empty() {
            meta.remove("ownerReferences");
        }
    }
}

fn unblock_owners(object: &mut Object) {
    if let Some(Value::Array(owners)) = object.meta_mut().get_mut("ownerReferences") {
        for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
            if owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
                owner.insert("blockOwnerDeletion".into(), false.into());
            }
        }
    }
}

fn drop_finalizer(object: &mut Object, finalizer: &str) {
    let kept =
        object.finalizers().into_iter().filter(|other| *other != finalizer).map(str::to_owned).collect();
    object.set_finalizers(kept);
}
