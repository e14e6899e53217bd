//! The rights in `deploy/hub` are enough: each controller as whom it is in production, and nobody is refused anything.

use bellwether_lifecycle::{addon, install};
use bellwether_testkit::Cluster;
use bellwether_testkit::rights::{Refusals, grant};
use serde_json::json;

use crate::fleet::Fleet;

const RIGHTS: &str = include_str!("../../../../deploy/hub/roles.yaml");
const FIRST: [(&str, &str); 2] = [
    (install::NAME, "/apis/addon.open-cluster-management.io/v1alpha1/managedclusteraddons"),
    (addon::NAME, "/apis/work.open-cluster-management.io/v1/manifestworks"),
];
const DONE: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn each_controller_has_required_permissions(hub: &Cluster) {
    grant(hub, RIGHTS, &FIRST).await;
    let fleet = Fleet::new(hub, 2, &["v1", "v2"]).await;
    let refusals = Refusals::default();
    fleet.start_as(|controller| refusals.client(&hub.client(), controller));
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    for cluster in ["c1", "c2"] {
        fleet.until_said(cluster, &format!("C=v2 L=v1 {DONE}")).await;
    }
    hub.delete(fleet.management_path()).await.expect(200);
    fleet.until_holders(&[]).await;
    assert_eq!(refusals.all(), Vec::<String>::new());
}
