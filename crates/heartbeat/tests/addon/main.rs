//! Addons on our server in process, where time is paused, and on real Kubernetes, which checks what is written.
#![cfg(feature = "controllers")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod deletion;
mod fixture;
mod installation;
mod namespaces;
mod pause;
mod strange;
mod traffic;
mod validation;

use bellwether_testkit::{Cluster, embedded};

/// A fresh cluster of our own that knows our kinds.
async fn embedded() -> Cluster {
    prepared(embedded::in_process().await).await
}

async fn prepared(cluster: Cluster) -> Cluster {
    let definitions = bellwether_api::crds().into_iter();
    cluster
        .install_definitions(definitions.map(|definition| serde_json::to_value(definition.crd).unwrap()))
        .await;
    cluster
}

/// Waits until what belongs to a deleted Addon is deleted too: Kubernetes looks only now and then which kinds there
/// are to be collected.
#[cfg(feature = "real-kubernetes")]
async fn collects_garbage(cluster: &Cluster) {
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
    let gone = watch.within(std::time::Duration::from_secs(120)).await;
    assert_eq!(gone.unwrap().unwrap().brief(), ("DELETED", "garbage"));
}

/// A real Kubernetes that knows our kinds, and collects what belongs to them.
#[cfg(feature = "real-kubernetes")]
async fn real(_lane: usize) -> Cluster {
    let cluster = prepared(bellwether_testkit::real::cluster("addon").await).await;
    collects_garbage(&cluster).await;
    cluster
}

async fn itself(cluster: &Cluster) -> &Cluster {
    cluster
}

bellwether_testkit::scenarios! {
    ground: Cluster, embedded: embedded, real: real, lanes: 1, stage: itself;

    installation::a_new_addon_gets_its_namespace_and_its_instance,
    installation::every_type_of_installation_says_where_the_instance_belongs,
    installation::an_instance_deleted_by_hand_is_made_again,
    installation::a_period_that_makes_sense_is_kept_and_another_is_not,
    installation::an_instance_without_an_owner_is_taken_over,
    installation::two_addons_do_not_share_an_instance,
    installation::an_addon_waits_until_its_instance_says_that_it_is_installed,
    installation::an_addon_without_acknowledgement_is_installed_at_once,
    deletion::an_addon_is_ready_to_be_deleted_when_the_add_on_says_so,
    deletion::an_addon_without_acknowledgement_is_ready_to_be_deleted_at_once,
    deletion::an_add_on_that_does_not_clean_up_in_time_is_told_of_until_it_does,
    deletion::an_instance_deleted_during_the_wait_is_made_again_and_marked,
    deletion::an_add_on_need_not_clean_up_when_nobody_asks_any_more,
    deletion::a_deleted_addon_says_so_and_takes_along_what_is_its_own,
    namespaces::a_namespace_gets_labels_and_annotations,
    namespaces::a_namespace_that_was_there_before_is_used_and_stays,
    namespaces::a_namespace_of_two_addons_goes_with_the_last,
    namespaces::a_namespace_deleted_by_hand_is_made_again,
    namespaces::a_namespace_that_nobody_lists_is_waited_for,
    namespaces::a_namespace_that_cannot_be_made_is_told_of,
    pause::a_paused_addon_is_left_alone_until_it_is_resumed,
    pause::a_paused_addon_is_still_judged_by_its_heartbeats,
    pause::a_paused_addon_can_be_deleted,
    pause::all_addons_are_paused_together_and_a_restart_changes_nothing,
    traffic::heartbeats_cause_no_request,
    traffic::an_addon_that_changes_meanwhile_is_read_again,
    traffic::nothing_is_written_when_nothing_changed,
    traffic::a_timeout_is_mirrored_where_that_is_asked_for,
    validation::every_new_addon_is_judged_by_the_rules,
    validation::every_change_of_an_addon_is_judged_by_the_rules,
}
