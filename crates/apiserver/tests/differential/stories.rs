//! Objects that are really stored: created, read, replaced, patched, and given a status, on both servers.

use bellwether_testkit::{Answer, Cluster};
use serde_json::{Value, json};

use crate::compare::{Both, Tally};
use crate::kinds::Kind;
use crate::objects;
use crate::rng::Rng;

/// How many objects of each kind live a life.
const LIVES: usize = 2;

/// What is done to one object. Values at new paths only: what an update may leave wrong is another matter.
struct Life {
    name: String,
    born: Value,
    replaced: Value,
    status: Value,
}

impl Kind {
    /// Lets some objects of this kind live on both servers.
    pub(crate) async fn live(&self, both: &Both, tally: &mut Tally) {
        let mut rng = Rng::new(self.seed() ^ 0x11FE);
        for at in 0..LIVES {
            let Some(life) = self.life(&mut rng, at) else { return };
            let (theirs, ours) =
                tokio::join!(self.tell(&both.kubernetes, &life), self.tell(&both.ours, &life));
            let about =
                format!("seed {}: {} then {} then {}", self.seed(), life.born, life.replaced, life.status);
            for (theirs, ours) in theirs.iter().zip(&ours) {
                tally.judge("lives", &about, theirs, ours);
            }
        }
    }

    fn life(&self, rng: &mut Rng, at: usize) -> Option<Life> {
        let names: Vec<String> = self.fields().map(|(name, _)| name.clone()).collect();
        let schema = |name: &String| self.fields().find(|field| field.0 == name).map(|field| field.1.clone());
        let [first, second] = [names.get(at * 2)?, names.get(at * 2 + 1)?];
        let value = objects::fitting(rng, &schema(first)?);
        let other = objects::near(rng, &schema(second)?);
        Some(Life {
            name: format!("life-{at}"),
            born: json!({first.as_str(): value}),
            replaced: json!({second.as_str(): other}),
            status: rng.one_of(json!([{"phase": "Up"}, {"phase": "Odd"}, {"count": "x", "more": [1.0]}, {}, {"count": null}])),
        })
    }

    async fn tell(&self, cluster: &Cluster, life: &Life) -> Vec<Answer> {
        let mut object = self.object(life.born.clone());
        object["metadata"]["name"] = life.name.clone().into();
        let path = format!("{}/{}", self.objects_path(), life.name);
        let mut told = vec![cluster.post(self.objects_path(), &object).await, cluster.get(&path).await];
        let stored = told[1].json();
        if told[1].status == 200 {
            let mut replaced = stored.clone();
            replaced["spec"] = life.replaced.clone();
            told.push(cluster.put(&path, &replaced).await);
            told.push(cluster.merge(&path, &json!({"spec": life.replaced})).await);
            let mut seen = cluster.get(&path).await.json();
            seen["status"] = life.status.clone();
            seen["spec"] = json!({});
            told.push(cluster.put(format!("{path}/status"), &seen).await);
            told.push(cluster.merge(format!("{path}/status"), &json!({"status": life.status})).await);
            told.push(cluster.get(&path).await);
        }
        told
    }
}
