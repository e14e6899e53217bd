//! A Kubernetes-compatible API server over an embedded store.
//!
//! It serves kubectl, kube-rs and client-go with no cluster at hand, keeps its data across restarts and crashes,
//! and hosts any number of *logical clusters* in one small process. It is a library: a controller or a test gets a
//! real API in process, without TCP or TLS.
//!
//! ```
//! use bellwether_apiserver::{ApiServer, HUB, Identity};
//! use kube::api::{Api, ListParams};
//! use kube::core::{DynamicObject, ApiResource, GroupVersionKind};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::in_memory().start().await?;
//! let client = server.client(HUB, Identity::admin());
//! let namespaces: Api<DynamicObject> =
//!     Api::all_with(client, &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace")));
//! assert!(namespaces.list(&ListParams::default()).await?.items.len() >= 4);
//! # Ok(())
//! # }
//! ```
//!
//! What it does not do: run anything. There is no kubelet, no scheduler, and no pod ever starts.

mod access;
mod answer;
mod audit;
mod authentication;
mod authors;
mod body;
mod cel;
mod collection;
mod compaction;
mod controllers;
mod crd;
mod decode;
mod discovery;
mod field;
mod health;
mod identity;
mod kinds;
mod limits;
mod managed;
mod meta;
mod metrics;
mod names;
mod negotiate;
mod numbers;
mod object;
mod openapi;
mod options;
pub mod pki;
mod protobuf;
mod quantity;
mod registry;
mod request;
mod schema;
mod selector;
mod serve;
mod server;
mod service;
mod shape;
mod status;
mod strategic;
mod table;
mod times;
mod verbs;
mod version;

pub use authentication::{SigningKey, SigningKeyError};
pub use body::Body;
pub use controllers::{Controller, Controllers};
pub use identity::Identity;
pub use serve::TlsSettings;
pub use server::HUB;
pub use service::{ApiServer, Builder, ClusterNameError, Service, StartError};
pub use status::Refusal;
