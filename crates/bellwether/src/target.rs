//! The cluster that a command talks to: found by `--kubeconfig` and `--context`, then `KUBECONFIG`, then
//! `./.bellwether/kubeconfig`, then `~/.kube/config`, then the pod that it runs in. What is asked of it is the command's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;

use crate::cli::TargetArgs;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// Where `bellwether up` leaves its kubeconfig, unless told otherwise.
const OURS: &str = ".bellwether/kubeconfig";
/// Where kubectl looks, below the home directory.
const KUBECTLS: &str = ".kube/config";
/// What Kubernetes gives to a pod: the address of the API, and a token to use there.
const POD_HOST: &str = "KUBERNETES_SERVICE_HOST";
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// A cluster, and how to name it to a person.
pub(crate) struct Target {
    pub(crate) client: kube::Client,
    address: String,
    source: String,
}

/// Where a cluster was found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Environment,
    Pod,
}

impl std::fmt::Display for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Environment => formatter.write_str("$KUBECONFIG"),
            Self::Pod => formatter.write_str("the ServiceAccount of this pod"),
        }
    }
}

impl Target {
    /// A logical cluster of the server in this process.
    pub(crate) fn in_process(client: kube::Client, cluster: &str) -> Self {
        Self { client, address: cluster.to_owned(), source: "this process".to_owned() }
    }

    /// Finds the cluster. Nothing is sent to it yet.
    pub(crate) async fn find(arguments: &TargetArgs) -> anyhow::Result<Self> {
        let home = std::env::home_dir();
        let surroundings = Surroundings {
            kubeconfig: is_set("KUBECONFIG"),
            pod_host: is_set(POD_HOST),
            home: home.as_deref(),
        };
        let source = source(arguments.kubeconfig.as_deref(), &surroundings, |path| path.exists()).context(
            "no cluster to talk to: there is no .bellwether/kubeconfig here and no ~/.kube/config, KUBECONFIG is not \
             set, and this is no pod. Start one with `bellwether up`, or name one with --kubeconfig FILE",
        )?;
        let mut config = config(&source, arguments.context.as_deref()).await?;
        config.connect_timeout = Some(CONNECT);
        // A person waits for the answer: an error now is worth more than a success after many attempts.
        config.default_retry = false;
        let address = config.cluster_url.to_string();
        let client = kube::Client::try_from(config).with_context(|| format!("{source} cannot be used"))?;
        Ok(Self { client, address, source: source.to_string() })
    }

    /// The address of its API.
    pub(crate) fn address(&self) -> &str {
        self.address.trim_end_matches('/')
    }

    /// Puts a failed request in words: whether there was an answer at all is what a person needs to know first.
    pub(crate) fn explain(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(status) => anyhow::anyhow!("cannot {attempt}: {}", status.message),
            error => anyhow::Error::new(error)
                .context(format!("cannot {attempt}: no answer from {self}; is the cluster running?")),
        }
    }

    /// As [`Self::explain`], of a request for whatever there is of a kind: what is not found then is the kind.
    pub(crate) fn explain_kind(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(status) if status.code == 404 => anyhow::anyhow!(
                "cannot {attempt}: {self} does not serve them; `bellwether crds --install` installs their definition"
            ),
            error => self.explain(attempt, error),
        }
    }

    /// What a watch says when it fails, in the words of the request that failed.
    pub(crate) fn explain_watch(&self, attempt: &str, error: watcher::Error) -> anyhow::Error {
        match error {
            watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
                self.explain_kind(attempt, error)
            }
            watcher::Error::WatchFailed(error) => self.explain(attempt, error),
            watcher::Error::WatchError(status) => anyhow::anyhow!("cannot {attempt}: {}", status.message),
            error @ watcher::Error::NoResourceVersion => anyhow::Error::new(error),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} (from {})", self.address(), self.source)
    }
}

/// What around the process may name a cluster.
struct Surroundings<'a> {
    kubeconfig: bool,
    pod_host: bool,
    home: Option<&'a Path>,
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// The first place in the order that names a cluster. A place that was named is taken even if nothing is there, so
/// that the error is about it.
fn source(
    flag: Option<&Path>,
    surroundings: &Surroundings<'_>,
    exists: impl Fn(&Path) -> bool,
) -> Option<Source> {
    if let Some(path) = flag {
        return Some(Source::File(path.to_owned()));
    }
    if surroundings.kubeconfig {
        return Some(Source::Environment);
    }
    let usual = [Some(PathBuf::from(OURS)), surroundings.home.map(|home| home.join(KUBECTLS))];
    if let Some(path) = usual.into_iter().flatten().find(|path| exists(path)) {
        return Some(Source::File(path));
    }
    (surroundings.pod_host && exists(Path::new(POD_TOKEN))).then_some(Source::Pod)
}

async fn config(source: &Source, wanted: Option<&str>) -> anyhow::Result<kube::Config> {
    let kubeconfig = match source {
        Source::File(path) => Kubeconfig::read_from(path),
        Source::Environment => Kubeconfig::from_env().map(Option::unwrap_or_default),
        Source::Pod => {
            anyhow::ensure!(
                wanted.is_none(),
                "--context needs a kubeconfig; name one with --kubeconfig FILE"
            );
            return kube::Config::incluster().with_context(|| format!("{source} cannot be used"));
        }
    }
    .with_context(|| format!("cannot read the kubeconfig {source}"))?;
    let context = context(&kubeconfig, wanted, source)?;
    let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| format!("the context {context} of {source} cannot be used"))
}

/// The context to use, which must be there: without this check the words would be about a missing cluster.
fn context(kubeconfig: &Kubeconfig, wanted: Option<&str>, source: &Source) -> anyhow::Result<String> {
    let names: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let Some(name) = wanted.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty()) else {
        anyhow::bail!("{source} has no current context; choose one with --context. It has: {known}");
    };
    anyhow::ensure!(names.contains(&name), "{source} has no context {name:?}. It has: {known}");
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Option<Source> {
        Some(Source::File(path.into()))
    }

    #[test]
    fn the_places_are_tried_in_order() {
        let (ours, theirs, token) = (OURS, "/home/me/.kube/config", POD_TOKEN);
        type Row<'a> = (&'a str, Option<&'a str>, bool, bool, &'a [&'a str], Option<Source>);
        let rows: [Row<'_>; 9] = [
            ("a flag wins over everything", Some("/x"), true, true, &[ours, theirs, token], file("/x")),
            ("a flag is taken at its word", Some("/missing"), false, true, &[ours, token], file("/missing")),
            (
                "the environment comes second",
                None,
                true,
                true,
                &[ours, theirs, token],
                Some(Source::Environment),
            ),
            ("then what `up` left here", None, false, true, &[ours, theirs, token], file(ours)),
            ("then what kubectl uses", None, false, true, &[theirs, token], file(theirs)),
            ("then the pod's own", None, false, true, &[token], Some(Source::Pod)),
            ("a token alone makes no pod", None, false, false, &[token], None),
            ("nor does an address alone", None, false, true, &[], None),
            ("else there is none", None, false, false, &[], None),
        ];
        for (sentence, flag, kubeconfig, pod_host, there, wanted) in rows {
            let exists = |path: &Path| there.iter().any(|known| Path::new(known) == path);
            let surroundings = Surroundings { kubeconfig, pod_host, home: Some(Path::new("/home/me")) };
            assert_eq!(source(flag.map(Path::new), &surroundings, exists), wanted, "{sentence}");
        }
    }
}
