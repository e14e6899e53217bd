//! The controllers and the collector with exactly the permissions of `deploy/`, and of the Roles that the operator creates.

use bellwether_observability::vocabulary::Component::Platform;
use bellwether_observability::vocabulary::ComponentReason::ForwardSuccessful;
use bellwether_observability::{mirror, operator, status};
use bellwether_testkit::eventually;
use bellwether_testkit::rights::{Refusals, grant};
use serde_json::json;

use crate::fixture::Fixture;
use crate::operator::{PLATFORM, USER};

const ON_THE_CLUSTER: &str = include_str!("../../../../deploy/spoke/rbac.yaml");
const OF_THE_HUB: &str = include_str!("../../../../deploy/hub/roles.yaml");
const ON_THE_HUB: &str = include_str!("../../../../deploy/hub/spoke-agent.yaml");

/// The ClusterRole of a controller in a file.
fn role_of(file: &str, controller: &str) -> String {
    let name = format!("  name: bellwether:{controller}\n");
    let mut documents = file.split("\n---\n");
    let found = documents.find(|text| text.contains("\nkind: ClusterRole\n") && text.contains(&name));
    found.unwrap_or_else(|| panic!("there is no ClusterRole bellwether:{controller}")).to_owned()
}

pub(crate) async fn deployed_permissions_are_sufficient(fixture: &Fixture<'_>) {
    let addons = |namespace: &str| {
        format!(
            "/apis/observability.open-cluster-management.io/v1beta1/namespaces/{namespace}/observabilityaddons"
        )
    };
    let roles = [operator::NAME, status::NAME].map(|name| role_of(ON_THE_CLUSTER, name)).join("\n---\n");
    let own = addons(&fixture.namespace);
    grant(fixture.spoke, &roles, &[(operator::NAME, &own), (status::NAME, &own)]).await;
    let all = "/apis/observability.open-cluster-management.io/v1beta1/observabilityaddons";
    grant(fixture.hub, &role_of(OF_THE_HUB, mirror::NAME), &[(mirror::NAME, all)]).await;
    let agent = format!("agent:{}", fixture.hub_namespace);
    fixture.bind_agent(ON_THE_HUB, &format!("bellwether:{agent}")).await;

    let refusals = Refusals::default();
    let on_hub = || refusals.client(&fixture.hub.client(), &agent);
    eventually("the agent can read the add-on of the hub", || async {
        let path = addons(&fixture.hub_namespace);
        let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
        let client = Refusals::default().client(&fixture.hub.client(), &agent);
        (client.send(request).await.unwrap().status() == 200).then_some(())
    })
    .await;
    fixture.create_inputs().await;
    fixture.create_managed_addon().await;
    fixture.create_on_hub().await;
    fixture.start_operator_with(refusals.client(&fixture.spoke.client(), operator::NAME), on_hub());
    fixture.add_status_controller_with(refusals.client(&fixture.spoke.client(), status::NAME), on_hub());
    fixture.add_mirror_with(refusals.client(&fixture.hub.client(), mirror::NAME));

    fixture.wait_for_replicas(PLATFORM, 1).await;
    fixture.wait_for_component("MetricsCollectorStatus", "UpdateSuccesful").await;
    let service_account = format!("system:serviceaccount:{}:metrics-collector", fixture.namespace);
    eventually("the collector can report by its ServiceAccount", || async {
        let client = Refusals::default().client_of(&fixture.spoke.client(), &service_account);
        fixture.report_with(client, Platform, ForwardSuccessful).await.ok().map(drop)
    })
    .await;
    fixture
        .wait_for_columns(&[
            "Available=True/ForwardSuccessful",
            "Degraded=False/ForwardSuccessful",
            "Progressing=False/ForwardSuccessful",
        ])
        .await;
    fixture.set_user_workloads(true).await;
    fixture.wait_for_replicas(USER, 1).await;
    fixture.set_user_workloads(false).await;
    fixture.wait_until_deleted(&fixture.deployment_path(USER)).await;
    fixture.hub.merge(fixture.hub_path(), &json!({"spec": {"enableMetrics": false}})).await.expect(200);
    fixture.wait_for_replicas(PLATFORM, 0).await;
    fixture.hub.delete(fixture.hub_path()).await.expect(200);
    eventually("the add-on of the hub is deleted", || async {
        (fixture.hub.get(fixture.hub_path()).await.status == 404).then_some(())
    })
    .await;
    fixture.wait_for_columns(&[]).await;
    assert_eq!(refusals.all(), Vec::<String>::new());
}
