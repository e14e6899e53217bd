//! Tests of the Addon controller: on the embedded API server with paused time, and with the feature `real-kubernetes` also on
//! real Kubernetes.
#![cfg(feature = "controllers")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test panics"
)]

mod deletion;
mod fixture;
mod installation;
mod malformed;
mod namespaces;
mod pause;
mod traffic;
mod validation;

use bellwether_testkit::{Cluster, embedded};

/// A new embedded cluster with our CRDs.
async fn embedded() -> Cluster {
    with_crds(embedded::in_process().await).await
}

async fn with_crds(cluster: Cluster) -> Cluster {
    let crds = bellwether_api::crds().into_iter();
    cluster.install_crds(crds.map(|definition| serde_json::to_value(definition.crd).unwrap())).await;
    cluster
}

/// Waits until the garbage collector deletes AddonInstances of deleted Addons. The garbage collector of Kubernetes discovers
/// new CRDs only periodically.
#[cfg(feature = "real-kubernetes")]
async fn wait_for_garbage_collector(cluster: &Cluster) {
    let case = fixture::Case::create_in(cluster, "default", serde_json::json!({})).await;
    let instances = format!("{}/namespaces/default/addoninstances", fixture::GROUP);
    let owner = serde_json::json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "name": case.name,
        "uid": case.read().await["metadata"]["uid"],
    });
    let instance = serde_json::json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
        "metadata": {"name": "garbage", "ownerReferences": [owner]},
    });
    cluster.post(&instances, &instance).await.expect(201);
    let mut watch =
        cluster.watch(format!("{instances}?watch=true&fieldSelector=metadata.name=garbage")).await;
    watch.expect("ADDED", "garbage").await;
    case.delete().await;
    let event = watch.within(std::time::Duration::from_secs(120)).await;
    assert_eq!(event.unwrap().unwrap().brief(), ("DELETED", "garbage"));
}

/// A real Kubernetes cluster with our CRDs, whose garbage collector knows them.
#[cfg(feature = "real-kubernetes")]
async fn real(_lane: usize) -> Cluster {
    let cluster = with_crds(bellwether_testkit::real::cluster("addon").await).await;
    wait_for_garbage_collector(&cluster).await;
    cluster
}

async fn share_cluster(cluster: &Cluster) -> &Cluster {
    cluster
}

bellwether_testkit::scenarios! {
    environment: Cluster, embedded: embedded, real: real, lanes: 1, fixture: share_cluster;

    installation::new_addon_gets_namespace_and_instance,
    installation::instance_is_created_in_the_target_namespace_of_every_install_type,
    installation::deleted_instance_is_created_again,
    installation::valid_period_is_kept_and_invalid_period_is_replaced,
    installation::instance_without_owner_is_adopted,
    installation::second_addon_with_the_same_target_namespace_gets_configuration_error,
    installation::required_install_acknowledgement_delays_availability,
    installation::addon_without_required_acknowledgement_is_installed_at_once,
    deletion::addon_is_ready_to_be_deleted_after_acknowledgement,
    deletion::addon_without_required_acknowledgement_is_ready_to_be_deleted_at_once,
    deletion::delete_timeout_is_reported_until_cleanup_is_acknowledged,
    deletion::instance_deleted_after_the_announcement_is_created_again_and_marked,
    deletion::revoked_deletion_clears_the_mark_unless_cleanup_is_acknowledged,
    deletion::deleted_addon_reports_terminating_and_its_objects_are_deleted,
    namespaces::namespace_gets_labels_and_annotations,
    namespaces::namespace_that_existed_before_is_kept_after_deletion,
    namespaces::shared_namespace_is_deleted_with_the_last_addon,
    namespaces::deleted_namespace_is_created_again,
    namespaces::addon_waits_for_an_unlisted_target_namespace,
    namespaces::rejected_namespace_is_reported_in_available,
    pause::paused_addon_is_not_reconciled_until_resumed,
    pause::heartbeats_of_a_paused_addon_are_still_checked,
    pause::paused_addon_can_be_deleted,
    pause::addon_operator_pauses_all_addons_across_restarts,
    traffic::heartbeats_cause_no_requests,
    traffic::status_conflict_makes_the_addon_be_read_again,
    traffic::restart_without_changes_writes_nothing,
    traffic::heartbeat_timeout_is_mirrored_only_if_enabled,
    validation::new_addons_are_validated,
    validation::changes_of_addons_are_validated,
}
