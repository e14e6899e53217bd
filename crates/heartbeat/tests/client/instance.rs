//! One beat: what it changes, what it leaves, and what it says when it cannot be sent.

use bellwether_conditions::{ConditionType, Desired, Reason, Status};
use bellwether_heartbeat::client::{Attempt, Error};
use bellwether_heartbeat::vocabulary::instance::{DEGRADED, INSTALLED};
use serde_json::{Value, json};

use crate::line::Trouble;
use crate::{Place, condition, down, health, on_every_cluster, on_paused_cluster, up};

on_every_cluster!(
    a_pulse_stamps_whole_seconds_and_the_generation,
    conditions_are_merged_one_for_each_type,
    what_others_wrote_stays_to_the_byte,
    a_beat_is_one_get_and_one_put_of_the_status,
    a_write_of_somebody_else_in_between_is_not_lost_nor_is_the_beat,
    a_missing_instance_is_named,
);

async fn a_pulse_stamps_whole_seconds_and_the_generation(place: Place) {
    place.install(json!("10s")).await;
    place.patch(json!({"heartbeatUpdatePeriod": "20s"})).await;
    let sent = place.instance().pulse().await.unwrap();
    let stored = place.stored().await;
    let stamp = stored["status"]["lastHeartbeatTime"].as_str().unwrap();
    assert_eq!(stamp, sent.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    assert_eq!(stored["status"], json!({"lastHeartbeatTime": stamp, "observedGeneration": 2}));
    assert_eq!(sent.period.effective().as_secs(), 20);
}

async fn conditions_are_merged_one_for_each_type(place: Place) {
    place.install(Value::Null).await;
    let instance = place.instance();
    let installed = Desired::new(INSTALLED, Status::True, Reason::constant("SetupComplete"), "");
    let degraded = Desired::new(DEGRADED, Status::False, Reason::constant("AllWell"), "");
    instance.set_conditions(&[up(), installed, degraded]).await.unwrap();
    let first = place.stored().await;
    assert_eq!(health(&first)["reason"], "ComponentsUp");
    assert_eq!(health(&first)["observedGeneration"], 1);

    instance.set_conditions(&[down()]).await.unwrap();
    let second = place.stored().await;
    assert_eq!(second["status"]["conditions"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&health(&second)["status"], &health(&second)["reason"]),
        (&json!("False"), &json!("ComponentDown"))
    );
    for kept in [INSTALLED, DEGRADED] {
        assert_eq!(condition(&second, kept.as_str()), condition(&first, kept.as_str()));
    }
}

async fn what_others_wrote_stays_to_the_byte(place: Place) {
    place.install(Value::Null).await;
    let odd = json!([
        {"type": "Foreign", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2024-01-01T01:00:00.123456789+01:00"},
        {"type": "addons.managed.openshift.io/Healthy", "status": "True", "reason": "ComponentsUp", "observedGeneration": 1,
         "message": "Reference Addon is operational.", "lastTransitionTime": "2024-01-01T00:00:00.5Z"},
    ]);
    place.patch_status(json!({"conditions": odd})).await;
    let instance = place.instance();
    instance.pulse().await.unwrap();
    instance.set_conditions(&[up()]).await.unwrap();
    assert_eq!(place.stored().await["status"]["conditions"], odd);
    // A change that is no transition keeps even the odd time.
    let reworded = Desired { message: "Still operational.".into(), ..up() };
    instance.set_conditions(&[reworded]).await.unwrap();
    let stored = place.stored().await;
    assert_eq!(stored["status"]["conditions"][0], odd[0]);
    assert_eq!(health(&stored)["message"], "Still operational.");
    assert_eq!(health(&stored)["lastTransitionTime"], "2024-01-01T00:00:00.5Z");
}

async fn a_beat_is_one_get_and_one_put_of_the_status(place: Place) {
    place.install(Value::Null).await;
    let line = place.line();
    place.instance_over(line.client()).set_conditions(&[up()]).await.unwrap();
    assert_eq!(line.sent(), [format!("GET {}", place.path()), format!("PUT {}", place.status_path())]);
}

async fn a_write_of_somebody_else_in_between_is_not_lost_nor_is_the_beat(place: Place) {
    place.install(Value::Null).await;
    let line = place.line();
    let instance = place.instance_over(line.client());
    line.meets(Trouble::Crossed(4));
    instance.set_conditions(&[up()]).await.unwrap();
    assert_eq!(line.sent().len(), 10, "four conflicts and a success");
    let stored = place.stored().await;
    assert_eq!(health(&stored)["reason"], "ComponentsUp");
    assert_eq!(stored["metadata"]["annotations"]["crossed"], "0");

    line.meets(Trouble::Crossed(5));
    let error = instance.pulse().await.unwrap_err();
    assert!(matches!(error, Error::Contended { tries: 5, .. }), "{error}");
    assert!(error.to_string().contains(&place.namespace), "{error}");
}

async fn a_missing_instance_is_named(place: Place) {
    let error = place.instance().pulse().await.unwrap_err();
    let instance = format!("{}/addon-instance", place.namespace);
    assert_eq!(error, Error::Missing { instance });
    let error = place.instance().named("another").pulse().await.unwrap_err();
    assert_eq!(error, Error::Missing { instance: format!("{}/another", place.namespace) });
}

mod on_paused_time {
    use super::*;

    on_paused_cluster!(
        a_condition_that_the_server_refuses_is_told_in_its_words,
        a_line_that_is_cut_or_silent_is_an_error_in_time,
        a_cluster_without_the_kind_is_told_how_to_get_it,
    );

    async fn a_condition_that_the_server_refuses_is_told_in_its_words(place: Place) {
        place.install(Value::Null).await;
        let bad = Desired::new(ConditionType::as_read("not a type"), Status::True, Reason::as_read("R"), "");
        let error = place.instance().set_conditions(&[bad]).await.unwrap_err();
        assert!(matches!(error, Error::Refused { attempt: Attempt::Write, code: 422, .. }), "{error}");
        assert!(error.to_string().contains("status.conditions[0].type"), "{error}");
    }

    async fn a_line_that_is_cut_or_silent_is_an_error_in_time(place: Place) {
        place.install(Value::Null).await;
        let line = place.line();
        let instance = place.instance_over(line.client());
        line.meets(Trouble::Cut);
        let cut = instance.pulse().await.unwrap_err();
        assert!(cut.to_string().contains("the line is cut"), "{cut}");
        line.meets(Trouble::Silent);
        let begun = tokio::time::Instant::now();
        let silent = instance.pulse().await.unwrap_err();
        assert!(matches!(silent, Error::Late { attempt: Attempt::Read, .. }), "{silent}");
        assert_eq!(begun.elapsed().as_secs(), 5);
    }

    async fn a_cluster_without_the_kind_is_told_how_to_get_it(place: Place) {
        let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/addoninstances.addons.managed.openshift.io";
        place.cluster.delete(definition).await.expect(200);
        let error = place.instance().pulse().await.unwrap_err();
        assert!(matches!(error, Error::NotServed { .. }), "{error}");
        assert!(error.to_string().contains("bellwether crds --install"), "{error}");
    }
}

/// Our own server grants everything for now, so that rights can be tried on real Kubernetes only.
#[cfg(feature = "real-kubernetes")]
mod rights {
    use bellwether_testkit::{Call, eventually, on_real_time, real};

    use super::*;

    async fn grant(place: &Place, rules: Value) {
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", place.namespace);
        let role = json!({"metadata": {"name": "addon"}, "rules": rules});
        let binding = json!({
            "metadata": {"name": "addon"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "addon"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user(place)}],
        });
        place.cluster.send(Call::put(format!("{rbac}/roles/addon"), &role)).await;
        for (kind, body) in [("roles", role), ("rolebindings", binding)] {
            place.cluster.post(format!("{rbac}/{kind}"), &body).await;
        }
    }

    fn user(place: &Place) -> String {
        format!("addon-of-{}", place.namespace)
    }

    fn rule(resource: &str, verb: &str) -> Value {
        json!({"apiGroups": ["addons.managed.openshift.io"], "resources": [resource], "verbs": [verb]})
    }

    #[test]
    fn reading_instances_and_updating_their_status_is_all_that_it_takes() {
        on_real_time(async {
            let place = Place::in_cluster(real::cluster("heartbeat").await).await;
            place.install(Value::Null).await;
            let instance = place.instance_over(place.line().signed_in_as(&user(&place)).client());

            let none = instance.pulse().await.unwrap_err();
            assert!(matches!(none, Error::Forbidden { attempt: Attempt::Read, .. }), "{none}");
            assert!(none.to_string().contains("`get addoninstances`"), "{none}");

            grant(&place, json!([rule("addoninstances", "get")])).await;
            let half = eventually("the right to read", || async {
                instance
                    .pulse()
                    .await
                    .err()
                    .filter(|error| matches!(error, Error::Forbidden { attempt: Attempt::Write, .. }))
            })
            .await;
            assert!(half.to_string().contains("`update addoninstances/status`"), "{half}");

            grant(&place, json!([rule("addoninstances", "get"), rule("addoninstances/status", "update")]))
                .await;
            eventually("the right to write", || async { instance.set_conditions(&[up()]).await.ok() }).await;
            assert_eq!(health(&place.stored().await)["reason"], "ComponentsUp");
        });
    }
}
