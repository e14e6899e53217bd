//! Writes the placements of a ClusterManagementAddOn, only if its spec is still the one that the user was shown.

use bellwether_api::addon::ClusterManagementAddOn;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::hub::{self, HubSnapshot};
use crate::lists::resource;
use crate::outcome::Unfinished;
use crate::target::Target;

/// The field manager of the writes.
const FIELD_MANAGER: &str = "bellwether";
/// How often the write is retried after others changed something else, such as the status.
const MAX_ATTEMPTS: usize = 10;

/// The result of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriteResult {
    Done,
    /// Nothing was written, because the spec has changed.
    Outdated,
}

/// Writes the placements of an add-on, if its spec is still that of the snapshot.
pub(super) async fn write(
    target: &Target,
    snapshot: &HubSnapshot,
    edit: impl Fn(&mut Vec<Value>),
) -> anyhow::Result<WriteResult> {
    let name = snapshot.name();
    let api: Api<DynamicObject> = Api::all_with(target.client.clone(), &resource::<ClusterManagementAddOn>());
    let placements = edited(&snapshot.received, edit);
    let mut version = snapshot.received.resource_version();
    for _ in 0..MAX_ATTEMPTS {
        let body = json!({
            "metadata": {"resourceVersion": version},
            "spec": {"installStrategy": {"placements": placements}},
        });
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match api.patch(&name, &parameters, &Patch::Merge(&body)).await {
            Ok(_) => return Ok(WriteResult::Done),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let found = hub::addon(target, &name).await?;
                let is_same =
                    found.uid() == snapshot.received.uid() && spec(&found) == spec(&snapshot.received);
                if !is_same {
                    return Ok(WriteResult::Outdated);
                }
                version = found.resource_version();
            }
            Err(error) => {
                return Err(target.explain(&format!("change the ClusterManagementAddOn {name}"), error));
            }
        }
    }
    Err(Unfinished::Rejected(format!(
        "{name} was written by other clients {MAX_ATTEMPTS} times in a row; nothing was changed, try again"
    ))
    .into())
}

fn spec(object: &DynamicObject) -> Option<&Value> {
    object.data.get("spec")
}

/// The placements as they were received, with the edit. Fields that this version does not know stay.
fn edited(received: &DynamicObject, edit: impl Fn(&mut Vec<Value>)) -> Vec<Value> {
    let placements = received.data.pointer("/spec/installStrategy/placements").and_then(Value::as_array);
    let mut placements = placements.cloned().unwrap_or_default();
    edit(&mut placements);
    placements
}

/// Lets a placement request a version.
pub(super) fn request_version(placements: &mut [Value], index: usize, version: &str) {
    let Some(Value::Object(placement)) = placements.get_mut(index) else { return };
    let template = placement.entry("addonTemplate").or_insert_with(|| json!({}));
    if !template.is_object() {
        *template = json!({});
    }
    if let Value::Object(template) = template {
        template.insert("installVersion".to_owned(), json!(version));
    }
}

/// Pauses or resumes a placement.
pub(super) fn set_paused(placements: &mut [Value], index: usize, paused: bool) {
    let Some(Value::Object(placement)) = placements.get_mut(index) else { return };
    if paused {
        placement.insert("paused".to_owned(), json!(true));
    } else {
        placement.remove("paused");
    }
}

#[cfg(test)]
mod tests {
    use kube::api::PostParams;

    use super::*;
    use crate::addon::hub::tests::hub_with_crds;

    #[tokio::test]
    async fn spec_that_changed_since_it_was_shown_is_not_written() {
        let target = hub_with_crds().await;
        let api: Api<ClusterManagementAddOn> = Api::all(target.client.clone());
        let addon = json!({"metadata": {"name": "hello"}, "spec": {"installStrategy": {"type": "Placements",
            "placements": [{"namespace": "default", "name": "p", "addonTemplate": {"installVersion": "v1"}}]}}});
        api.create(&PostParams::default(), &serde_json::from_value(addon).unwrap()).await.unwrap();
        let shown = HubSnapshot::read(&target, "hello").await.unwrap();
        let to = |version: &'static str| {
            move |placements: &mut Vec<Value>| request_version(placements, 0, version)
        };

        let status = json!({"status": {"defaultVersion": "v1"}});
        api.patch_status("hello", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        assert_eq!(
            write(&target, &shown, to("v2")).await.unwrap(),
            WriteResult::Done,
            "a new status does not matter"
        );

        assert_eq!(write(&target, &shown, to("v3")).await.unwrap(), WriteResult::Outdated);
        let found = api.get("hello").await.unwrap();
        let template = found.spec.install_strategy.placements[0].addon_template.clone().unwrap();
        assert_eq!(template.install_version, "v2", "nothing was written over it");
    }

    #[test]
    fn edit_keeps_all_other_fields() {
        let received = json!([
            {"namespace": "default", "name": "a", "addonTemplate": {"installVersion": "v1", "configs": [1]}, "later": "kept"},
            {"namespace": "default", "name": "b", "paused": true},
        ]);
        let Value::Array(mut placements) = received else { panic!() };
        request_version(&mut placements, 0, "v2");
        request_version(&mut placements, 1, "v2");
        set_paused(&mut placements, 0, true);
        set_paused(&mut placements, 1, false);
        request_version(&mut placements, 7, "v2");
        assert_eq!(
            placements,
            [
                json!({"namespace": "default", "name": "a", "addonTemplate": {"installVersion": "v2", "configs": [1]}, "later": "kept", "paused": true}),
                json!({"namespace": "default", "name": "b", "addonTemplate": {"installVersion": "v2"}}),
            ]
        );
    }
}
