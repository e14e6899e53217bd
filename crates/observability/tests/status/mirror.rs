//! What the ManagedClusterAddOn on the hub shows (B16).

use bellwether_observability::vocabulary::Component::Platform;
use bellwether_observability::vocabulary::ComponentReason::{ForwardFailure, ForwardSuccessful};
use bellwether_testkit::eventually;
use serde_json::{Value, json};

use crate::fixture::{Fixture, brief, condition};

const ADDONS: &str = "/apis/addon.open-cluster-management.io/v1alpha1";

impl Fixture<'_> {
    fn managed_path(&self) -> String {
        format!("{ADDONS}/namespaces/{}/managedclusteraddons/observability-controller", self.hub_namespace)
    }

    pub(crate) async fn create_managed_addon(&self) {
        let addon = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": "observability-controller"}});
        let all = format!("{ADDONS}/namespaces/{}/managedclusteraddons", self.hub_namespace);
        self.hub.post(all, &addon).await.expect(201);
    }

    /// Waits until the ManagedClusterAddOn has exactly these conditions, as `type=status/reason` in alphabetical order.
    pub(crate) async fn wait_for_columns(&self, wanted: &[&str]) -> Value {
        eventually(&format!("the ManagedClusterAddOn has {wanted:?}"), || async {
            let addon = self.hub.get(self.managed_path()).await.expect(200);
            let mut found = brief(&addon);
            found.sort();
            (found == wanted).then_some(addon)
        })
        .await
    }
}

pub(crate) async fn columns_show_one_true_and_explicit_false(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    fixture.create_managed_addon().await;
    fixture.start_status_controller();
    fixture.start_mirror();
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    let wanted = [
        "Available=True/ForwardSuccessful",
        "Degraded=False/ForwardSuccessful",
        "Progressing=False/ForwardSuccessful",
    ];
    fixture.wait_for_columns(&wanted).await;
    fixture.collector_reports(Platform, ForwardFailure).await;
    let wanted = [
        "Available=False/ForwardFailure",
        "Degraded=True/ForwardFailure",
        "Progressing=False/ForwardFailure",
    ];
    let addon = fixture.wait_for_columns(&wanted).await;
    assert_eq!(addon["status"]["conditions"][0]["message"], "MetricsCollector: ForwardFailure");
    fixture.hub.delete(fixture.hub_path()).await.expect(200);
    fixture.wait_for_columns(&[]).await;
}

pub(crate) async fn only_degraded_is_written_for_a_managed_add_on(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    fixture.create_managed_addon().await;
    fixture.start_status_controller();
    fixture.start_mirror();
    fixture.collector_reports(Platform, ForwardFailure).await;
    let all = [
        "Available=False/ForwardFailure",
        "Degraded=True/ForwardFailure",
        "Progressing=False/ForwardFailure",
    ];
    fixture.wait_for_columns(&all).await;
    let manager = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
        "metadata": {"name": "observability-controller"}});
    fixture.hub.post(format!("{ADDONS}/clustermanagementaddons"), &manager).await.expect(201);
    fixture.wait_for_columns(&["Degraded=True/ForwardFailure"]).await;
    fixture
        .hub
        .delete(format!("{ADDONS}/clustermanagementaddons/observability-controller"))
        .await
        .expect(200);
    fixture.wait_for_columns(&all).await;
}

pub(crate) async fn conditions_of_other_writers_are_kept(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    fixture.create_managed_addon().await;
    let other = json!([condition("ManifestApplied", "True", "Applied", "2024-06-13T10:00:00Z")]);
    fixture.write_conditions(fixture.hub, &fixture.managed_path(), other).await;
    fixture.start_status_controller();
    fixture.start_mirror();
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    let wanted = [
        "Available=True/ForwardSuccessful",
        "Degraded=False/ForwardSuccessful",
        "ManifestApplied=True/Applied",
        "Progressing=False/ForwardSuccessful",
    ];
    fixture.wait_for_columns(&wanted).await;
}
