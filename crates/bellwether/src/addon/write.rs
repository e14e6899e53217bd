//! Changes to the placements of an add-on, each only as long as nobody else has changed what a person was shown.

use bellwether_api::addon::ClusterManagementAddOn;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::hub::{self, Picture};
use crate::outcome::NotDone;
use crate::target::Target;

/// By which the fields are owned.
const FIELD_MANAGER: &str = "bellwether";
/// How often it is tried against writes that change nothing of what was shown, such as those of the status.
const ATTEMPTS: usize = 10;

/// What became of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// Nothing was written: it is no longer what was shown.
    Outdated,
}

/// Writes the placements of an add-on, if its spec still is what the picture has.
pub(super) async fn write(
    target: &Target,
    picture: &Picture,
    edit: impl Fn(&mut Vec<Value>),
) -> anyhow::Result<Written> {
    let name = picture.addon.name_any();
    let api: Api<DynamicObject> =
        Api::all_with(target.client.clone(), &hub::resource::<ClusterManagementAddOn>());
    let placements = edited(&picture.sent, edit);
    let mut version = picture.sent.resource_version();
    for _ in 0..ATTEMPTS {
        let body = json!({
            "metadata": {"resourceVersion": version},
            "spec": {"installStrategy": {"placements": placements}},
        });
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match api.patch(&name, &parameters, &Patch::Merge(&body)).await {
            Ok(_) => return Ok(Written::Done),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let found = hub::addon(target, &name).await?;
                let same = found.uid() == picture.sent.uid() && spec(&found) == spec(&picture.sent);
                if !same {
                    return Ok(Written::Outdated);
                }
                version = found.resource_version();
            }
            Err(error) => {
                return Err(target.explain(&format!("change the ClusterManagementAddOn {name}"), error));
            }
        }
    }
    Err(NotDone::Refused(format!("{name} is written by others all the time; nothing was changed, try again"))
        .into())
}

fn spec(object: &DynamicObject) -> Option<&Value> {
    object.data.get("spec")
}

/// The placements as they were sent, with changes; what we do not know of stays.
fn edited(sent: &DynamicObject, edit: impl Fn(&mut Vec<Value>)) -> Vec<Value> {
    let placements = sent.data.pointer("/spec/installStrategy/placements").and_then(Value::as_array);
    let mut placements = placements.cloned().unwrap_or_default();
    edit(&mut placements);
    placements
}

/// Lets a placement ask for a version.
pub(super) fn ask_for(placements: &mut [Value], place: usize, version: &str) {
    let Some(Value::Object(placement)) = placements.get_mut(place) else { return };
    let template = placement.entry("addonTemplate").or_insert_with(|| json!({}));
    if !template.is_object() {
        *template = json!({});
    }
    if let Value::Object(template) = template {
        template.insert("installVersion".to_owned(), json!(version));
    }
}

/// Pauses a placement, or lets it go on.
pub(super) fn set_paused(placements: &mut [Value], place: usize, paused: bool) {
    let Some(Value::Object(placement)) = placements.get_mut(place) else { return };
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
    use crate::addon::hub::tests::served;

    #[tokio::test]
    async fn what_a_person_was_shown_is_what_is_changed_or_nothing() {
        let target = served().await;
        let api: Api<ClusterManagementAddOn> = Api::all(target.client.clone());
        let addon = json!({"metadata": {"name": "hello"}, "spec": {"installStrategy": {"type": "Placements",
            "placements": [{"namespace": "default", "name": "p", "addonTemplate": {"installVersion": "v1"}}]}}});
        api.create(&PostParams::default(), &serde_json::from_value(addon).unwrap()).await.unwrap();
        let shown = hub::picture(&target, "hello").await.unwrap();
        let to = |version: &'static str| move |placements: &mut Vec<Value>| ask_for(placements, 0, version);

        let status = json!({"status": {"defaultVersion": "v1"}});
        api.patch_status("hello", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        assert_eq!(
            write(&target, &shown, to("v2")).await.unwrap(),
            Written::Done,
            "a status is no other wish"
        );

        assert_eq!(write(&target, &shown, to("v3")).await.unwrap(), Written::Outdated);
        let found = api.get("hello").await.unwrap();
        let asked = found.spec.install_strategy.placements[0].addon_template.clone().unwrap();
        assert_eq!(asked.install_version, "v2", "nothing was written over it");
    }

    #[test]
    fn only_what_is_asked_for_is_edited() {
        let sent = json!([
            {"namespace": "default", "name": "a", "addonTemplate": {"installVersion": "v1", "configs": [1]}, "later": "kept"},
            {"namespace": "default", "name": "b", "paused": true},
        ]);
        let Value::Array(mut placements) = sent else { panic!() };
        ask_for(&mut placements, 0, "v2");
        ask_for(&mut placements, 1, "v2");
        set_paused(&mut placements, 0, true);
        set_paused(&mut placements, 1, false);
        ask_for(&mut placements, 7, "v2");
        assert_eq!(
            placements,
            [
                json!({"namespace": "default", "name": "a", "addonTemplate": {"installVersion": "v2", "configs": [1]}, "later": "kept", "paused": true}),
                json!({"namespace": "default", "name": "b", "addonTemplate": {"installVersion": "v2"}}),
            ]
        );
    }
}
