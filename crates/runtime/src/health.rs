//! What a process reports at `/readyz`: each component is ready, or says why not.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::Status;
use kube::runtime::watcher;
use parking_lot::Mutex;

/// Returns why a component is not ready, if it is not.
type Check = Box<dyn Fn() -> Option<String> + Send>;

/// The components of a process and why those that are not ready are not. Clones share the same state.
#[derive(Clone, Default)]
pub struct Health {
    components: Arc<Mutex<BTreeMap<String, Option<String>>>>,
    checks: Arc<Mutex<Vec<(String, Check)>>>,
}

impl Health {
    /// Adds a component, which is not ready until it says so. It is removed when the handle is dropped.
    pub fn component(&self, name: impl Into<String>) -> Component {
        let component = Component { name: name.into(), health: self.clone() };
        component.not_ready("it has not started yet");
        component
    }

    /// Adds a component that is checked each time readiness is requested.
    pub fn add_check(&self, name: impl Into<String>, check: impl Fn() -> Option<String> + Send + 'static) {
        self.checks.lock().push((name.into(), Box::new(check)));
    }

    /// The components that are not ready, each with its reason.
    pub fn not_ready(&self) -> Vec<(String, String)> {
        let checks = self.checks.lock();
        let checked = checks.iter().filter_map(|(name, check)| Some((name.clone(), check()?)));
        let components = self.components.lock();
        let reported = components.iter().filter_map(|(name, reason)| Some((name.clone(), reason.clone()?)));
        checked.chain(reported).collect()
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_map().entries(self.not_ready()).finish()
    }
}

/// One component of a process.
#[derive(Debug)]
pub struct Component {
    name: String,
    health: Health,
}

impl Component {
    /// Reports the component as ready.
    pub fn ready(&self) {
        self.set(None);
    }

    /// Reports the component as not ready, and why.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, reason: Option<String>) {
        self.health.components.lock().insert(self.name.clone(), reason);
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.health.components.lock().remove(&self.name);
    }
}

/// An error response of the API in one line.
pub(crate) fn describe_status(status: &Status) -> String {
    format!("the API answers with {}: {}", status.code, status.message.trim())
}

/// Why a watch failed, in one line; the API's own message where there is one.
pub fn describe_watch_error(error: &watcher::Error) -> String {
    use kube::Error::Api;
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    let status = match error {
        InitialListFailed(Api(status)) | WatchStartFailed(Api(status)) | WatchFailed(Api(status)) => status,
        WatchError(status) => status,
        other => return other.to_string(),
    };
    describe_status(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_counts_from_its_creation_until_it_is_dropped() {
        let health = Health::default();
        assert!(health.not_ready().is_empty());
        let component = health.component("checker");
        assert_eq!(health.not_ready(), [("checker".into(), "it has not started yet".into())]);
        component.ready();
        assert!(health.not_ready().is_empty());
        component.not_ready("no response");
        assert_eq!(health.not_ready(), [("checker".into(), "no response".into())]);
        drop(component);
        assert!(health.not_ready().is_empty());
        health.add_check("store", || Some("the disk is full".into()));
        assert_eq!(health.not_ready(), [("store".into(), "the disk is full".into())]);
    }
}
