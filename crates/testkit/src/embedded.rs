//! The embedded API server as a test cluster: in memory, on tokio's clock.

use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use bellwether_apiserver::pki::Pki;
use bellwether_apiserver::{ApiServer, Builder, HUB, Identity, TlsSettings};
use serde_json::json;
use tokio::net::TcpListener;

use crate::cluster::{Cluster, Flavour};
use crate::real::client_from;
use bellwether_clock::SteadyClock;

/// The certificates of all embedded servers of a test process.
static PKI: LazyLock<Pki> =
    LazyLock::new(|| Pki::ephemeral(&[Ipv4Addr::LOCALHOST.into()]).expect("certificates can be made"));

/// The builder of a server that stores its objects in memory and uses tokio's clock.
pub fn builder() -> Builder {
    ApiServer::in_memory().clock(Arc::new(SteadyClock::default())).ca_certificate(&PKI.ca)
}

/// The hub of a new server, called in process.
pub async fn in_process() -> Cluster {
    let server = builder().start().await.expect("the server starts");
    logical_cluster(&server, HUB)
}

/// A logical cluster of a running server, called in process.
pub fn logical_cluster(server: &ApiServer, cluster: &str) -> Cluster {
    let anonymous = kube::Client::new(server.stranger(cluster), "default");
    Cluster::new(
        Flavour::InProcess,
        server.client(cluster, Identity::admin()),
        anonymous,
        Some(server.clone()),
    )
}

/// The hub of a new server, over TLS on a free port.
pub async fn over_tls() -> Cluster {
    let server = builder().start().await.expect("the server starts");
    let url = serve(&server).await;
    logical_cluster_over_tls(&server, &url, HUB).await
}

/// Serves a running server over TLS on a free port, and returns its URL.
pub async fn serve(server: &ApiServer) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("the listener has an address"));
    let settings = TlsSettings::new(&PKI).expect("the certificates are usable");
    let server = server.clone();
    tokio::spawn(async move { server.serve(listener, settings).await });
    url
}

/// A logical cluster of a server that [`serve`] serves at this URL.
pub async fn logical_cluster_over_tls(server: &ApiServer, url: &str, cluster: &str) -> Cluster {
    let path = if cluster == HUB { String::new() } else { format!("/clusters/{cluster}") };
    let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
    let address = json!({
        "server": format!("{url}{path}"),
        "certificate-authority-data": encode(&PKI.ca),
    });
    let client = client_from(
        address.clone(),
        json!({
            "client-certificate-data": encode(&PKI.admin.certificate),
            "client-key-data": encode(&PKI.admin.key),
        }),
    )
    .await;
    let anonymous = client_from(address, json!({})).await;
    Cluster::new(Flavour::Tls, client, anonymous, Some(server.clone()))
}
