//! A signal stops the server in time and cleanly.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, WatchParams};
use rustix::process::Signal;

use crate::server::{Server, up};

const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn signal_stops_the_server_within_five_seconds_although_a_client_watches() {
    for signal in [Signal::TERM, Signal::INT] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let mut server = Server::start(&dir, &mut up(&dir));
        let namespaces: Api<Namespace> = Api::all(server.client("hub").await);
        let mut watch = namespaces.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        assert!(watch.next().await.unwrap().is_ok());
        let endpoints = dir.join("endpoints.json");
        assert!(endpoints.exists());

        let signalled = Instant::now();
        let status = server.signal(signal);
        assert!(signalled.elapsed() < STOP_TIMEOUT, "{signal:?} took {:?}", signalled.elapsed());
        assert_eq!(status.code(), Some(0), "{signal:?}: {status}");
        assert!(!endpoints.exists(), "{signal:?}: endpoints.json was not removed");
    }
}
