//! A client that creates, patches, replaces and deletes its own objects, and patches its fields of shared objects, until the
//! server is killed. It records every write before it sends it, and its response.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use super::recorder::{Intent, Recorder, SHARED, Version, digest, worker_field};

const OBJECTS: usize = 8;
const MAX_PAYLOAD_BYTES: usize = 6000;

pub(crate) struct Worker {
    name: String,
    random: StdRng,
    sent: usize,
}

/// The server was killed before it responded.
struct NoResponse;

impl Worker {
    pub(crate) fn new(number: usize, seed: u64) -> Self {
        Self { name: format!("worker-{number}"), random: StdRng::seed_from_u64(seed), sent: 0 }
    }

    /// Writes until the server is killed.
    pub(crate) async fn write(mut self, configmaps: Api<ConfigMap>, recorder: Arc<Recorder>) -> Self {
        while self.write_once(&configmaps, &recorder).await.is_ok() {}
        self
    }

    async fn write_once(
        &mut self,
        configmaps: &Api<ConfigMap>,
        recorder: &Recorder,
    ) -> Result<(), NoResponse> {
        let payload = self.payload();
        if self.random.random_ratio(1, 4) {
            let shared = SHARED.choose(&mut self.random).copied().unwrap_or(SHARED[0]);
            return self.patch_shared(configmaps, recorder, shared, payload).await;
        }
        let name = format!("{}-{}", self.name, self.random.random_range(0..OBJECTS));
        let Some(current) = recorder.acknowledged_version(&name) else {
            recorder.intend(&name, Intent::Write(digest(&payload)));
            let object = object(&name, None, payload);
            let written = expect_success(configmaps.create(&PostParams::default(), &object).await)?;
            recorder.acknowledge(&name, Some(Version::of(&written)));
            return Ok(());
        };
        match self.random.random_range(0..10) {
            0..3 => {
                recorder.intend(&name, Intent::Delete);
                expect_success(configmaps.delete(&name, &DeleteParams::default()).await)?;
                recorder.acknowledge(&name, None);
            }
            3..6 => {
                recorder.intend(&name, Intent::Write(digest(&payload)));
                let object = object(&name, Some(&current), payload);
                let written =
                    expect_success(configmaps.replace(&name, &PostParams::default(), &object).await)?;
                recorder.acknowledge(&name, Some(Version::of(&written)));
            }
            _ => {
                recorder.intend(&name, Intent::Write(digest(&payload)));
                let patch = Patch::Merge(json!({"data": {worker_field(): payload}}));
                let written = expect_success(configmaps.patch(&name, &PatchParams::default(), &patch).await)?;
                recorder.acknowledge(&name, Some(Version::of(&written)));
            }
        }
        Ok(())
    }

    async fn patch_shared(
        &self,
        configmaps: &Api<ConfigMap>,
        recorder: &Recorder,
        shared: &'static str,
        payload: String,
    ) -> Result<(), NoResponse> {
        recorder.intend_field(shared, &self.name, digest(&payload));
        let patch = Patch::Merge(json!({"data": {&self.name: payload}}));
        let written = expect_success(configmaps.patch(shared, &PatchParams::default(), &patch).await)?;
        recorder.acknowledge_field(shared, &self.name, &Version::of(&written));
        Ok(())
    }

    /// A payload that was not sent before.
    fn payload(&mut self) -> String {
        self.sent += 1;
        let filler = "x".repeat(self.random.random_range(0..MAX_PAYLOAD_BYTES));
        format!("{} {} {filler}", self.name, self.sent)
    }
}

/// An error response fails the test: no other client writes the objects of this worker.
fn expect_success<T>(outcome: kube::Result<T>) -> Result<T, NoResponse> {
    outcome.map_err(|error| match error {
        kube::Error::Api(status) => panic!("a write failed: {status:?}"),
        _ => NoResponse,
    })
}

fn object(name: &str, replaces: Option<&Version>, payload: String) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            resource_version: replaces.map(|version| version.revision.to_string()),
            ..ObjectMeta::default()
        },
        data: Some([(worker_field(), payload)].into()),
        ..ConfigMap::default()
    }
}
