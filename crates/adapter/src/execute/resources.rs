//! The third phase: discovers, applies and deletes resources in order.
//!
//! **An error in `delete.when` applies and deletes nothing**: whether the object is wanted is unknown.

use serde_json::Value;

use super::apply::{Applied, apply};
use super::render::{Target, TargetBy};
use super::{PhaseError, Run};
use crate::config::{Manifest, Resource, TransportKind, Tree};
use crate::decide::generation_of;
use crate::expression::Expression;
use crate::maestro;
use crate::metrics::AdapterMetrics;
use crate::trace::{Operation, Status, TracedResource};
use crate::transport::{KindName, ObjectKey, Transport};

const APPLY_FAILED: &str = "ResourceApplyFailed";
const DELETE_FAILED: &str = "ResourceDeleteFailed";
const CONDITION_FAILED: &str = "LifecycleConditionFailed";

/// What to do with a resource.
enum Intent {
    Apply,
    Delete,
    Skip(String),
}

impl Run<'_> {
    pub(super) async fn resources(&mut self) -> Result<(), PhaseError> {
        let config = self.executor.config.clone();
        let resources = &config.task.resources;
        if resources.iter().any(|resource| resource.create_when.is_some() || resource.delete.is_some()) {
            for resource in resources {
                let found = self.discover(resource).await;
                found.map_err(|message| error_of(resource, "ResourceDiscoveryFailed", message))?;
            }
            // A deletion condition that fails must not be noticed after other resources were changed.
            for resource in resources {
                self.must_delete(resource).map_err(|message| self.condition_error(resource, message))?;
            }
        }
        let mut delete_errors = Vec::new();
        for resource in resources {
            match self.intent(resource).map_err(|message| self.condition_error(resource, message))? {
                Intent::Skip(reason) => self.record(resource, None, Operation::Skip, Some(reason), None),
                Intent::Delete => {
                    if let Err(message) = self.delete(resource).await {
                        self.scope.add_resource_error(&resource.name, DELETE_FAILED, &message);
                        delete_errors.push(format!("{}: {message}", resource.name));
                    }
                }
                Intent::Apply => {
                    if let Err(message) = self.apply(resource).await {
                        self.scope.add_resource_error(&resource.name, APPLY_FAILED, &message);
                        return Err(error_of(resource, APPLY_FAILED, message));
                    }
                }
            }
        }
        match delete_errors.is_empty() {
            true => Ok(()),
            false => Err(PhaseError {
                step: delete_errors
                    .first()
                    .and_then(|error| error.split(':').next())
                    .unwrap_or_default()
                    .to_owned(),
                reason: DELETE_FAILED,
                message: delete_errors.join("; "),
            }),
        }
    }

    fn intent(&self, resource: &Resource) -> Result<Intent, String> {
        if self.must_delete(resource)? {
            return Ok(Intent::Delete);
        }
        if let Some(when) = &resource.create_when
            && !self.scope.resources().contains_key(&resource.name)
            && !self.lifecycle_condition(when, "lifecycle.create.when")?
        {
            return Ok(Intent::Skip("lifecycle.create.when is false".to_owned()));
        }
        Ok(Intent::Apply)
    }

    fn must_delete(&self, resource: &Resource) -> Result<bool, String> {
        let Some(rule) = &resource.delete else { return Ok(false) };
        self.lifecycle_condition(&rule.when, "lifecycle.delete.when")
    }

    fn lifecycle_condition(&self, expression: &Expression, which: &str) -> Result<bool, String> {
        let outcome = expression.evaluate_bool(self.scope.map(), self.now);
        outcome.map_err(|error| format!("{which}: {error}; nothing was applied or deleted"))
    }

    fn condition_error(&mut self, resource: &Resource, message: String) -> PhaseError {
        self.scope.add_resource_error(&resource.name, CONDITION_FAILED, &message);
        self.record(resource, None, Operation::Skip, None, Some(message.clone()));
        error_of(resource, CONDITION_FAILED, message)
    }

    fn transport(&self, resource: &Resource) -> &dyn Transport {
        match resource.transport {
            TransportKind::Kubernetes => self.executor.clients.kubernetes.as_ref(),
            TransportKind::Maestro { .. } => self.executor.clients.hub.as_ref(),
        }
    }

    async fn apply(&mut self, resource: &Resource) -> Result<(), String> {
        let rendered = self.rendered(resource);
        let (manifest, key) = match rendered {
            Ok(rendered) => rendered,
            Err(error) => {
                self.record(resource, None, Operation::Skip, None, Some(error.clone()));
                return Err(error);
            }
        };
        let applied =
            apply(self.transport(resource), &key, &manifest, resource.recreate_on_change, self.now).await;
        match applied {
            Ok(Applied { operation, reason }) => {
                self.record(resource, Some(&key), operation, Some(reason), None)
            }
            Err(error) => {
                self.record(resource, Some(&key), Operation::Skip, None, Some(error.clone()));
                return Err(error);
            }
        }
        self.discover(resource).await.map(|_| ())
    }

    /// The manifest as it is applied, and its key.
    fn rendered(&self, resource: &Resource) -> Result<(Value, ObjectKey), String> {
        let manifest = self.render_manifest(&resource.manifest)?;
        let manifest = match &resource.transport {
            TransportKind::Kubernetes => manifest,
            TransportKind::Maestro { target_cluster } => {
                maestro::wrap(manifest, &self.render(target_cluster)?).map_err(|error| error.to_string())?
            }
        };
        let key = ObjectKey::of(&manifest)
            .ok_or("the rendered manifest must have apiVersion, kind and metadata.name; fix the manifest")?;
        Ok((manifest, key))
    }

    async fn delete(&mut self, resource: &Resource) -> Result<(), String> {
        let propagation = resource.delete.as_ref().map(|rule| rule.propagation).unwrap_or_default();
        let Some(live) = self.discover(resource).await? else {
            self.record(resource, None, Operation::Skip, Some("the object does not exist".into()), None);
            return Ok(());
        };
        let key = ObjectKey::of(&live);
        let is_deleting = live.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
        if is_deleting {
            let reason = "the object is being deleted";
            self.record(resource, key.as_ref(), Operation::Delete, Some(reason.into()), None);
            return Ok(());
        }
        let _deletion = self.executor.metrics.as_ref().map(AdapterMetrics::start_deletion);
        if let Err(error) = self.transport(resource).delete(&live, propagation).await {
            let error = error.to_string();
            self.record(resource, key.as_ref(), Operation::Delete, None, Some(error.clone()));
            return Err(error);
        }
        let reason = "lifecycle.delete.when is true";
        self.record(resource, key.as_ref(), Operation::Delete, Some(reason.into()), None);
        self.discover(resource).await.map(|_| ())
    }

    /// Finds the object of a resource, and what is inside it, and sets `resources.*`.
    async fn discover(&mut self, resource: &Resource) -> Result<Option<Value>, String> {
        let found = self.find(resource).await?;
        for nested in &resource.nested {
            let target = self.render_discovery(&nested.discovery)?;
            let inner = found.as_ref().and_then(|work| match &target.by {
                TargetBy::Name(name) => maestro::nested_by_name(work, name, target.namespace.as_deref()),
                TargetBy::Labels(labels) => {
                    maestro::nested_by_labels(work, labels, target.namespace.as_deref())
                }
            });
            self.scope.set_resource(&nested.name, inner);
        }
        self.scope.set_resource(&resource.name, found.clone());
        Ok(found)
    }

    async fn find(&self, resource: &Resource) -> Result<Option<Value>, String> {
        let mut target = self.render_discovery(&resource.discovery)?;
        let kind = match &resource.transport {
            TransportKind::Maestro { target_cluster } => {
                target.namespace = Some(self.render(target_cluster)?);
                maestro::manifest_work_kind()
            }
            TransportKind::Kubernetes => self.kind_and_namespace(resource, &mut target)?,
        };
        let is_work = kind == maestro::manifest_work_kind();
        let transport = self.transport(resource);
        let found = match target.by {
            TargetBy::Name(name) => {
                let key = ObjectKey { kind, namespace: target.namespace, name };
                transport.get(&key).await
            }
            TargetBy::Labels(labels) => {
                transport.list(&kind, target.namespace.as_deref(), &labels).await.map(newest)
            }
        };
        let found = found.map_err(|error| error.to_string())?;
        Ok(if is_work { found.map(maestro::without_stale_reports) } else { found })
    }

    /// The kind of the manifest. An object that is found by its name is in the namespace of the manifest, unless the
    /// discovery names another.
    fn kind_and_namespace(&self, resource: &Resource, target: &mut Target) -> Result<KindName, String> {
        let needs_namespace = target.namespace.is_none() && matches!(target.by, TargetBy::Name(_));
        if let Some(kind) = literal_kind(&resource.manifest)
            && !needs_namespace
        {
            return Ok(kind);
        }
        let manifest = self.render_manifest(&resource.manifest)?;
        if needs_namespace {
            let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
            target.namespace = namespace.map(str::to_owned);
        }
        KindName::of(&manifest)
            .ok_or_else(|| "the rendered manifest must have apiVersion and kind".to_owned())
    }

    fn record(
        &mut self,
        resource: &Resource,
        key: Option<&ObjectKey>,
        operation: Operation,
        reason: Option<String>,
        error: Option<String>,
    ) {
        let kind = key.map(|key| key.kind.kind.clone());
        let kind =
            kind.or_else(|| literal_kind(&resource.manifest).map(|kind| kind.kind)).unwrap_or_default();
        self.trace.resources.push(TracedResource {
            name: resource.name.clone(),
            kind,
            namespace: key.and_then(|key| key.namespace.clone()),
            resource_name: key.map(|key| key.name.clone()),
            status: if error.is_some() { Status::Failed } else { Status::Success },
            operation,
            reason,
            error,
        });
    }
}

fn error_of(resource: &Resource, reason: &'static str, message: String) -> PhaseError {
    let message = format!("resource {:?}: {message}", resource.name);
    PhaseError { step: resource.name.clone(), reason, message }
}

/// The kind of a manifest that does not compute it.
fn literal_kind(manifest: &Manifest) -> Option<KindName> {
    let Manifest::Tree(Tree::Map(entries)) = manifest else { return None };
    let literal = |name: &str| {
        let (_, value) = entries.iter().find(|(key, _)| key.text() == name)?;
        match value {
            Tree::Literal(Value::String(text)) => Some(text.clone()),
            _ => None,
        }
    };
    Some(KindName { api_version: literal("apiVersion")?, kind: literal("kind")? })
}

/// Of several objects, the one of the highest generation, and of those the newest.
fn newest(objects: Vec<Value>) -> Option<Value> {
    objects.into_iter().max_by_key(|object| {
        let created =
            object.pointer("/metadata/creationTimestamp").and_then(Value::as_str).unwrap_or_default();
        (generation_of(object).ok().flatten().unwrap_or(0), created.to_owned())
    })
}
