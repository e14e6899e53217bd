//! Controllers as whom they are in production: each a user of its own name, with the rights that are deployed, and a note
//! of everything that was refused to it.

use std::sync::Arc;

use http::{HeaderValue, Request};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{Call, Cluster, eventually};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// What was refused to whom.
#[derive(Clone, Default)]
pub struct Refusals(Arc<Mutex<Vec<String>>>);

impl Refusals {
    /// A client of a controller as it is in production, by its name.
    pub fn client(&self, client: &kube::Client, controller: &str) -> kube::Client {
        let (client, refusals, user) = (client.clone(), self.clone(), user(controller));
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (client, refusals, user) = (client.clone(), refusals.clone(), user.clone());
            async move {
                let asked = format!("{user}: {} {}", request.method(), request.uri());
                request.headers_mut().insert("impersonate-user", HeaderValue::from_str(&user).unwrap());
                let answer = client.send(request).await?;
                if answer.status() == 403 {
                    refusals.0.lock().push(asked);
                }
                Ok::<_, kube::Error>(answer)
            }
        });
        kube::Client::new(service, "default")
    }

    /// All of them.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

fn user(controller: &str) -> String {
    format!("bellwether:{controller}")
}

/// Gives the roles in a file to the users of their names, and waits until each can read what it is asked to.
pub async fn grant(cluster: &Cluster, roles: &str, first: &[(&str, &str)]) {
    for role in roles.split("\n---\n") {
        let role: Value = serde_saphyr::from_str(role).unwrap();
        let name = role["metadata"]["name"].clone();
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        });
        cluster.post(format!("{RBAC}/clusterroles"), &role).await.expect(201);
        cluster.post(format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    }
    for (controller, path) in first {
        eventually(&format!("{controller} has its rights"), || async {
            let call = Call::get(*path).header("impersonate-user", &user(controller));
            (cluster.send(call).await.status == 200).then_some(())
        })
        .await;
    }
}
