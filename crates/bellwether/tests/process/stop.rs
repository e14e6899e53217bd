//! Stopping on request: in time, tidily, and with what was answered on disk.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, WatchParams};
use rustix::process::Signal;

use crate::server::{Server, up};

/// How long a stop may take.
const STOP: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_signal_stops_it_within_five_seconds_although_somebody_watches() {
    for signal in [Signal::TERM, Signal::INT] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let mut server = Server::start(&dir, &mut up(&dir));
        let namespaces: Api<Namespace> = Api::all(server.client("hub").await);
        let mut watch = namespaces.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        assert!(watch.next().await.unwrap().is_ok());
        let endpoints = dir.join("endpoints.json");
        assert!(endpoints.exists());

        let asked = Instant::now();
        let status = server.signal(signal);
        assert!(asked.elapsed() < STOP, "{signal:?} took {:?}", asked.elapsed());
        assert_eq!(status.code(), Some(0), "{signal:?}: {status}");
        assert!(!endpoints.exists(), "{signal:?} left endpoints.json");
    }
}
