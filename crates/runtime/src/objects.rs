//! Caches of whole objects: all of a kind, and the index of a plain controller. An index that needs only a few fields of
//! many objects is written by its controller.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource;

use crate::dirty::DirtyKeys;
use crate::watches::ObjectName;

/// All objects of a kind, as a watch delivers them, without their managedFields.
#[derive(Debug)]
pub struct Objects<K>(HashMap<ObjectName, Arc<K>>);

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Resource> Objects<K> {
    /// Applies an object. Returns it, and the object that it replaces.
    pub fn apply(&mut self, mut object: K) -> (Arc<K>, Option<Arc<K>>) {
        // They may be most of an object.
        object.meta_mut().managed_fields = None;
        let object = Arc::new(object);
        let before = self.0.insert(ObjectName::of(object.as_ref()), object.clone());
        (object, before)
    }

    /// Deletes an object and returns it.
    pub fn delete(&mut self, name: &ObjectName) -> Option<Arc<K>> {
        self.0.remove(name)
    }

    /// An object by its name.
    pub fn get(&self, name: &ObjectName) -> Option<&Arc<K>> {
        self.0.get(name)
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.0.values().cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The index of a [`Reconciler`](crate::Reconciler): the objects of its kind, and what it keeps of other kinds.
#[derive(Debug)]
pub struct ObjectIndex<K, R> {
    /// The objects that are reconciled.
    pub objects: Objects<K>,
    /// What the watches of other kinds have delivered.
    pub related: R,
    pub(crate) dirty: DirtyKeys<ObjectName>,
}

impl<K, R: Default> Default for ObjectIndex<K, R> {
    fn default() -> Self {
        Self { objects: Objects::default(), related: R::default(), dirty: DirtyKeys::default() }
    }
}

impl<K: Resource, R> ObjectIndex<K, R> {
    /// Reconciles an object as soon as possible, if it exists.
    pub fn enqueue(&mut self, name: ObjectName) {
        if self.objects.get(&name).is_some() {
            self.dirty.enqueue(name);
        }
    }

    /// Reconciles the objects that a change affects as soon as possible.
    pub fn enqueue_where(&mut self, is_affected: impl Fn(&K) -> bool) {
        let affected = self.objects.0.iter().filter(|(_, object)| is_affected(object));
        affected.for_each(|(name, _)| self.dirty.enqueue(name.clone()));
    }

    /// Reconciles every object after a delay: several changes together are one reconcile (debounce).
    pub fn enqueue_all_after(&mut self, delay: Duration) {
        self.objects.0.keys().for_each(|name| self.dirty.enqueue_after(name.clone(), delay));
    }

    pub(crate) fn apply(&mut self, object: K) {
        self.dirty.enqueue(ObjectName::of(&object));
        self.objects.apply(object);
    }

    pub(crate) fn delete(&mut self, name: ObjectName) {
        self.objects.delete(&name);
        self.dirty.forget(name);
    }

    pub(crate) fn names(&self) -> Vec<ObjectName> {
        self.objects.0.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn configmap(name: &str, value: &str) -> ConfigMap {
        let metadata = json!({"namespace": "ns", "name": name, "managedFields": [{"manager": "m"}]});
        serde_json::from_value(json!({"metadata": metadata, "data": {"key": value}})).unwrap()
    }

    fn names(index: &mut ObjectIndex<ConfigMap, ()>) -> Vec<String> {
        let mut names: Vec<String> = index.dirty.take().keys().map(|name| name.name.to_string()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn applied_object_is_returned_with_the_one_before_and_without_managed_fields() {
        let mut objects = Objects::default();
        assert_eq!(objects.apply(configmap("a", "1")).1, None);
        let (object, before) = objects.apply(configmap("a", "2"));
        assert_eq!((object.data.clone(), &object.metadata.managed_fields), (configmap("a", "2").data, &None));
        assert_eq!(before.unwrap().data, configmap("a", "1").data);
        assert_eq!((objects.len(), objects.delete(&ObjectName::new("ns", "a"))), (1, Some(object)));
        assert!(objects.is_empty());
    }

    #[test]
    fn only_existing_objects_are_enqueued() {
        let mut index = ObjectIndex::default();
        index.apply(configmap("a", "1"));
        index.apply(configmap("b", "2"));
        assert_eq!(names(&mut index), ["a", "b"]);
        index.enqueue(ObjectName::new("ns", "a"));
        index.enqueue(ObjectName::new("ns", "unknown"));
        assert_eq!(names(&mut index), ["a"]);
        index.enqueue_where(|object| object.data == configmap("", "2").data);
        assert_eq!(names(&mut index), ["b"]);
        index.delete(ObjectName::new("ns", "b"));
        index.enqueue_all_after(Duration::from_secs(1));
        assert_eq!(names(&mut index), ["a"]);
    }
}
