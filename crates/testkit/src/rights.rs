//! Running controllers with the permissions of production: each controller is a user of its own with the
//! deployed role, and its forbidden requests are recorded.

use std::sync::Arc;

use http::{HeaderValue, Request};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{Call, Cluster, eventually};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The requests of controllers that the API server has forbidden.
#[derive(Clone, Default)]
pub struct Refusals(Arc<Mutex<Vec<String>>>);

impl Refusals {
    /// A client that impersonates the user of a controller and records its forbidden requests.
    pub fn client(&self, client: &kube::Client, controller: &str) -> kube::Client {
        self.client_of(client, &user(controller))
    }

    /// A client that impersonates a user and records its forbidden requests.
    pub fn client_of(&self, client: &kube::Client, user: &str) -> kube::Client {
        let (client, forbidden, user) = (client.clone(), self.clone(), user.to_owned());
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (client, forbidden, user) = (client.clone(), forbidden.clone(), user.clone());
            async move {
                let description = format!("{user}: {} {}", request.method(), request.uri());
                request.headers_mut().insert("impersonate-user", HeaderValue::from_str(&user).unwrap());
                let response = client.send(request).await?;
                if response.status() == 403 {
                    forbidden.0.lock().push(description);
                }
                Ok::<_, kube::Error>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    /// All forbidden requests so far, as `user: METHOD path`.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

fn user(controller: &str) -> String {
    format!("bellwether:{controller}")
}

/// Creates the ClusterRoles of a YAML file and binds each to the user of the same name. Then waits until the
/// roles have an effect: until each controller in `readable` can read the path next to its name.
pub async fn grant(cluster: &Cluster, roles: &str, readable: &[(&str, &str)]) {
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
    for (controller, path) in readable {
        eventually(&format!("{controller} can read {path}"), || async {
            let call = Call::get(*path).header("impersonate-user", &user(controller));
            (cluster.send(call).await.status == 200).then_some(())
        })
        .await;
    }
}
