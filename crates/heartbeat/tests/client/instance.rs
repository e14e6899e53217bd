//! Sending one heartbeat: what it changes, what it keeps, and which errors it returns.

use bellwether_conditions::{ConditionType, Desired, Reason, Status};
use bellwether_heartbeat::client::{Error, Operation};
use bellwether_heartbeat::vocabulary::instance::{DEGRADED, INSTALLED};
use serde_json::{Value, json};

use crate::faulty_connection::Fault;
use crate::{Fixture, condition, down, health, on_every_cluster, on_paused_cluster, up};

on_every_cluster!(
    heartbeat_sets_whole_seconds_and_the_generation,
    conditions_are_merged_one_per_type,
    conditions_of_other_writers_are_kept_byte_for_byte,
    heartbeat_is_one_get_and_one_put_of_the_status,
    conflict_loses_neither_the_heartbeat_nor_the_other_write,
    not_found_error_names_the_instance,
);

async fn heartbeat_sets_whole_seconds_and_the_generation(fixture: Fixture) {
    fixture.create_instance(json!("10s")).await;
    fixture.patch_spec(json!({"heartbeatUpdatePeriod": "20s"})).await;
    let sent = fixture.client().send_heartbeat().await.unwrap();
    let stored = fixture.read_instance().await;
    let time = stored["status"]["lastHeartbeatTime"].as_str().unwrap();
    assert_eq!(time, sent.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    assert_eq!(stored["status"], json!({"lastHeartbeatTime": time, "observedGeneration": 2}));
    assert_eq!(sent.period.effective().as_secs(), 20);
}

async fn conditions_are_merged_one_per_type(fixture: Fixture) {
    fixture.create_instance(Value::Null).await;
    let instance = fixture.client();
    let installed = Desired::new(INSTALLED, Status::True, Reason::constant("SetupComplete"), "");
    let degraded = Desired::new(DEGRADED, Status::False, Reason::constant("AllComponentsUp"), "");
    instance.set_conditions(&[up(), installed, degraded]).await.unwrap();
    let first = fixture.read_instance().await;
    assert_eq!(health(&first)["reason"], "ComponentsUp");
    assert_eq!(health(&first)["observedGeneration"], 1);

    instance.set_conditions(&[down()]).await.unwrap();
    let second = fixture.read_instance().await;
    assert_eq!(second["status"]["conditions"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&health(&second)["status"], &health(&second)["reason"]),
        (&json!("False"), &json!("ComponentDown"))
    );
    for kept in [INSTALLED, DEGRADED] {
        assert_eq!(condition(&second, kept.as_str()), condition(&first, kept.as_str()));
    }
}

async fn conditions_of_other_writers_are_kept_byte_for_byte(fixture: Fixture) {
    fixture.create_instance(Value::Null).await;
    let conditions = json!([
        {"type": "Foreign", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2024-01-01T01:00:00.123456789+01:00"},
        {"type": "addons.managed.openshift.io/Healthy", "status": "True", "reason": "ComponentsUp", "observedGeneration": 1,
         "message": "Reference Addon is operational.", "lastTransitionTime": "2024-01-01T00:00:00.5Z"},
    ]);
    fixture.patch_status(json!({"conditions": conditions})).await;
    let instance = fixture.client();
    instance.send_heartbeat().await.unwrap();
    instance.set_conditions(&[up()]).await.unwrap();
    assert_eq!(fixture.read_instance().await["status"]["conditions"], conditions);
    // A change that is not a transition keeps even the unusual format of the time.
    let reworded = Desired { message: "Still operational.".into(), ..up() };
    instance.set_conditions(&[reworded]).await.unwrap();
    let stored = fixture.read_instance().await;
    assert_eq!(stored["status"]["conditions"][0], conditions[0]);
    assert_eq!(health(&stored)["message"], "Still operational.");
    assert_eq!(health(&stored)["lastTransitionTime"], "2024-01-01T00:00:00.5Z");
}

async fn heartbeat_is_one_get_and_one_put_of_the_status(fixture: Fixture) {
    fixture.create_instance(Value::Null).await;
    let connection = fixture.faulty_connection();
    fixture.client_over(connection.client()).set_conditions(&[up()]).await.unwrap();
    assert_eq!(
        connection.requests(),
        [format!("GET {}", fixture.path()), format!("PUT {}", fixture.status_path())]
    );
}

async fn conflict_loses_neither_the_heartbeat_nor_the_other_write(fixture: Fixture) {
    fixture.create_instance(Value::Null).await;
    let connection = fixture.faulty_connection();
    let instance = fixture.client_over(connection.client());
    connection.set_fault(Fault::Conflicts(4));
    instance.set_conditions(&[up()]).await.unwrap();
    assert_eq!(connection.requests().len(), 10, "four conflicts and a success");
    let stored = fixture.read_instance().await;
    assert_eq!(health(&stored)["reason"], "ComponentsUp");
    assert_eq!(stored["metadata"]["annotations"]["conflicts-left"], "0");

    connection.set_fault(Fault::Conflicts(5));
    let error = instance.send_heartbeat().await.unwrap_err();
    assert!(matches!(error, Error::Conflict { attempts: 5, .. }), "{error}");
    assert!(error.to_string().contains(&fixture.namespace), "{error}");
}

async fn not_found_error_names_the_instance(fixture: Fixture) {
    let error = fixture.client().send_heartbeat().await.unwrap_err();
    let instance = format!("{}/addon-instance", fixture.namespace);
    assert_eq!(error, Error::NotFound { instance });
    let error = fixture.client().with_name("another").send_heartbeat().await.unwrap_err();
    assert_eq!(error, Error::NotFound { instance: format!("{}/another", fixture.namespace) });
}

mod on_paused_time {
    use super::*;

    on_paused_cluster!(
        rejected_condition_is_reported_with_the_servers_message,
        lost_connection_is_an_error_within_five_seconds,
        missing_crd_error_names_the_install_command,
    );

    async fn rejected_condition_is_reported_with_the_servers_message(fixture: Fixture) {
        fixture.create_instance(Value::Null).await;
        let invalid =
            Desired::new(ConditionType::as_read("not a type"), Status::True, Reason::as_read("R"), "");
        let error = fixture.client().set_conditions(&[invalid]).await.unwrap_err();
        assert!(matches!(error, Error::Rejected { operation: Operation::Write, code: 422, .. }), "{error}");
        assert!(error.to_string().contains("status.conditions[0].type"), "{error}");
    }

    async fn lost_connection_is_an_error_within_five_seconds(fixture: Fixture) {
        fixture.create_instance(Value::Null).await;
        let connection = fixture.faulty_connection();
        let instance = fixture.client_over(connection.client());
        connection.set_fault(Fault::Disconnected);
        let disconnected = instance.send_heartbeat().await.unwrap_err();
        assert!(disconnected.to_string().contains("the connection is lost"), "{disconnected}");
        connection.set_fault(Fault::NoResponse);
        let started = tokio::time::Instant::now();
        let timed_out = instance.send_heartbeat().await.unwrap_err();
        assert!(matches!(timed_out, Error::TimedOut { operation: Operation::Read, .. }), "{timed_out}");
        assert_eq!(started.elapsed().as_secs(), 5);
    }

    async fn missing_crd_error_names_the_install_command(fixture: Fixture) {
        let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/addoninstances.addons.managed.openshift.io";
        fixture.cluster.delete(crd).await.expect(200);
        let error = fixture.client().send_heartbeat().await.unwrap_err();
        assert!(matches!(error, Error::NotServed { .. }), "{error}");
        assert!(error.to_string().contains("bellwether crds --install"), "{error}");
    }
}

/// Permissions are tested on real Kubernetes only: the embedded API server of these tests grants all requests.
#[cfg(feature = "real-kubernetes")]
mod permissions {
    use bellwether_testkit::{Call, eventually, on_real_time, real};

    use super::*;

    async fn grant(fixture: &Fixture, rules: Value) {
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", fixture.namespace);
        let role = json!({"metadata": {"name": "addon"}, "rules": rules});
        let binding = json!({
            "metadata": {"name": "addon"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "addon"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user(fixture)}],
        });
        fixture.cluster.send(Call::put(format!("{rbac}/roles/addon"), &role)).await;
        for (kind, body) in [("roles", role), ("rolebindings", binding)] {
            fixture.cluster.post(format!("{rbac}/{kind}"), &body).await;
        }
    }

    fn user(fixture: &Fixture) -> String {
        format!("addon-of-{}", fixture.namespace)
    }

    fn rule(resource: &str, verb: &str) -> Value {
        json!({"apiGroups": ["addons.managed.openshift.io"], "resources": [resource], "verbs": [verb]})
    }

    #[test]
    fn get_and_update_status_permissions_suffice() {
        on_real_time(async {
            let fixture = Fixture::in_cluster(real::cluster("heartbeat").await).await;
            fixture.create_instance(Value::Null).await;
            let instance =
                fixture.client_over(fixture.faulty_connection().with_user(&user(&fixture)).client());

            let none = instance.send_heartbeat().await.unwrap_err();
            assert!(matches!(none, Error::Forbidden { operation: Operation::Read, .. }), "{none}");
            assert!(none.to_string().contains("`get addoninstances`"), "{none}");

            grant(&fixture, json!([rule("addoninstances", "get")])).await;
            let read_only = eventually("permission to read", || async {
                instance
                    .send_heartbeat()
                    .await
                    .err()
                    .filter(|error| matches!(error, Error::Forbidden { operation: Operation::Write, .. }))
            })
            .await;
            assert!(read_only.to_string().contains("`update addoninstances/status`"), "{read_only}");

            grant(&fixture, json!([rule("addoninstances", "get"), rule("addoninstances/status", "update")]))
                .await;
            eventually("permission to write", || async { instance.set_conditions(&[up()]).await.ok() }).await;
            assert_eq!(health(&fixture.read_instance().await)["reason"], "ComponentsUp");
        });
    }
}
