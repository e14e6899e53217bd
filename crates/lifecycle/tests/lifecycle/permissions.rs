//! The roles in `deploy/hub` are sufficient: each controller runs as its user of production, and no request
//! is forbidden.

use bellwether_lifecycle::{addon, install};
use bellwether_testkit::Cluster;
use bellwether_testkit::rights::{Refusals, grant};
use serde_json::json;

use crate::fleet::Fleet;

const ROLES: &str = include_str!("../../../../deploy/hub/roles.yaml");
/// A resource that each controller may read once its role is in effect.
const READABLE: [(&str, &str); 2] = [
    (install::NAME, "/apis/addon.open-cluster-management.io/v1alpha1/managedclusteraddons"),
    (addon::NAME, "/apis/work.open-cluster-management.io/v1/manifestworks"),
];
const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn each_controller_has_required_permissions(hub: &Cluster) {
    grant(hub, ROLES, &READABLE).await;
    let fleet = Fleet::new(hub, 2, &["v1", "v2"]).await;
    let forbidden = Refusals::default();
    fleet.start_controllers_with(|controller| forbidden.client(&hub.client(), controller));
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    for cluster in ["c1", "c2"] {
        fleet.wait_for_status(cluster, &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    }
    hub.delete(fleet.management_addon_path()).await.expect(200);
    fleet.wait_for_clusters_with_addon(&[]).await;
    assert_eq!(forbidden.all(), Vec::<String>::new());
}
