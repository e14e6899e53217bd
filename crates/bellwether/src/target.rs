//! The cluster that a command uses: from `--kubeconfig` and `--context`, then `KUBECONFIG`, then `./.bellwether/kubeconfig`,
//! then `~/.kube/config`, then the ServiceAccount of the pod. It also explains failed requests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use bellwether_runtime::{Loaded, reloading};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;

use crate::cli::TargetArgs;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Where `bellwether up` writes its kubeconfig by default.
const UP_KUBECONFIG: &str = ".bellwether/kubeconfig";
/// Where kubectl reads its kubeconfig, in the home directory.
const KUBECTL_KUBECONFIG: &str = ".kube/config";
/// How Kubernetes gives a pod the address of the API server, and a token for it.
const POD_HOST: &str = "KUBERNETES_SERVICE_HOST";
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// A client of a cluster, with its address and source for messages.
pub(crate) struct Target {
    pub(crate) client: kube::Client,
    address: String,
    source: String,
}

/// Where the address and the credentials of a cluster come from.
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
    /// A logical cluster of the embedded server in this process.
    pub(crate) fn in_process(client: kube::Client, cluster: &str) -> Self {
        Self { client, address: cluster.to_owned(), source: "this process".to_owned() }
    }

    /// Finds the cluster and creates a client. It sends no request.
    pub(crate) async fn find(arguments: &TargetArgs) -> anyhow::Result<Self> {
        let home = std::env::home_dir();
        let environment = Environment {
            kubeconfig: is_set("KUBECONFIG"),
            pod_host: is_set(POD_HOST),
            home: home.as_deref(),
        };
        let source = find_source(arguments.kubeconfig.as_deref(), &environment, |path| path.exists()).context(
            "no cluster found: there is no ./.bellwether/kubeconfig and no ~/.kube/config, KUBECONFIG is not set, and this is \
             not a pod. Start one with `bellwether up`, or name one with --kubeconfig FILE",
        )?;
        let mut config = read_config(&source, arguments.context.as_deref()).await?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // Commands report an error at once instead of retrying, because a person waits for the result.
        config.default_retry = false;
        let address = config.cluster_url.to_string();
        let client = kube::Client::try_from(config).with_context(|| format!("cannot use {source}"))?;
        Ok(Self { client, address, source: source.to_string() })
    }

    /// A client by a kubeconfig that reads it again when it, or a file that it names, changes, or when the API server rejects its
    /// credentials.
    pub(crate) async fn reloading(kubeconfig: PathBuf) -> anyhow::Result<kube::Client> {
        reloading(move || {
            let path = kubeconfig.clone();
            async move {
                let arguments = TargetArgs { kubeconfig: Some(path.clone()), context: None };
                let client = Self::find(&arguments).await?.client;
                Ok::<_, anyhow::Error>(Loaded { client, files: credential_files(path) })
            }
        })
        .await
    }

    /// The address of the API server.
    pub(crate) fn address(&self) -> &str {
        self.address.trim_end_matches('/')
    }

    /// Explains a failed request: with the message of the API server, or that it did not respond.
    pub(crate) fn explain(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(status) => anyhow::anyhow!("cannot {attempt}: {}", status.message),
            error => anyhow::Error::new(error)
                .context(format!("cannot {attempt}: no response from {self}; is the cluster running?")),
        }
    }

    /// As [`Self::explain`], for a list or watch of a kind: 404 means that the CRD is not installed.
    pub(crate) fn explain_kind(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(status) if status.code == 404 => anyhow::anyhow!(
                "cannot {attempt}: {self} does not serve them; `bellwether crds --install` installs the CRDs"
            ),
            error => self.explain(attempt, error),
        }
    }

    /// Explains why a watch failed.
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

/// The parts of the process's environment that decide which cluster is used.
struct Environment<'a> {
    kubeconfig: bool,
    pod_host: bool,
    home: Option<&'a Path>,
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Finds the first source that names a cluster. A file that --kubeconfig or KUBECONFIG names is used even if it does not exist,
/// so that the error is about it.
fn find_source(
    flag: Option<&Path>,
    environment: &Environment<'_>,
    exists: impl Fn(&Path) -> bool,
) -> Option<Source> {
    if let Some(path) = flag {
        return Some(Source::File(path.to_owned()));
    }
    if environment.kubeconfig {
        return Some(Source::Environment);
    }
    let default_files =
        [Some(PathBuf::from(UP_KUBECONFIG)), environment.home.map(|home| home.join(KUBECTL_KUBECONFIG))];
    if let Some(path) = default_files.into_iter().flatten().find(|path| exists(path)) {
        return Some(Source::File(path));
    }
    (environment.pod_host && exists(Path::new(POD_TOKEN))).then_some(Source::Pod)
}

/// A kubeconfig and the files that it names.
fn credential_files(kubeconfig: PathBuf) -> Vec<PathBuf> {
    let config = Kubeconfig::read_from(&kubeconfig).unwrap_or_default();
    let users = config.auth_infos.into_iter().filter_map(|user| user.auth_info);
    let of_users = users.flat_map(|user| [user.client_certificate, user.client_key, user.token_file]);
    let of_clusters =
        config.clusters.into_iter().filter_map(|cluster| cluster.cluster?.certificate_authority);
    let named = of_users.flatten().chain(of_clusters).map(PathBuf::from);
    std::iter::once(kubeconfig).chain(named).collect()
}

async fn read_config(source: &Source, wanted: Option<&str>) -> anyhow::Result<kube::Config> {
    let kubeconfig = match source {
        Source::File(path) => Kubeconfig::read_from(path),
        Source::Environment => Kubeconfig::from_env().map(Option::unwrap_or_default),
        Source::Pod => {
            anyhow::ensure!(
                wanted.is_none(),
                "--context needs a kubeconfig; name one with --kubeconfig FILE"
            );
            return kube::Config::incluster().with_context(|| format!("cannot use {source}"));
        }
    }
    .with_context(|| format!("cannot read the kubeconfig {source}"))?;
    let context = select_context(&kubeconfig, wanted, source)?;
    let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| format!("cannot use the context {context} of {source}"))
}

/// Selects the context, and checks that it exists. Without the check, the client's error would be about a missing cluster.
fn select_context(kubeconfig: &Kubeconfig, wanted: Option<&str>, source: &Source) -> anyhow::Result<String> {
    let names: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let Some(name) = wanted.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty()) else {
        anyhow::bail!("{source} has no current context; select one with --context. It has: {known}");
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
    fn sources_are_tried_in_order() {
        let (ours, theirs, token) = (UP_KUBECONFIG, "/home/me/.kube/config", POD_TOKEN);
        type Row<'a> = (&'a str, Option<&'a str>, bool, bool, &'a [&'a str], Option<Source>);
        let rows: [Row<'_>; 9] = [
            ("a flag wins over everything", Some("/x"), true, true, &[ours, theirs, token], file("/x")),
            (
                "a flag is used even if the file is missing",
                Some("/missing"),
                false,
                true,
                &[ours, token],
                file("/missing"),
            ),
            ("KUBECONFIG comes second", None, true, true, &[ours, theirs, token], Some(Source::Environment)),
            ("then the kubeconfig of `up`", None, false, true, &[ours, theirs, token], file(ours)),
            ("then the kubeconfig of kubectl", None, false, true, &[theirs, token], file(theirs)),
            ("then the ServiceAccount of the pod", None, false, true, &[token], Some(Source::Pod)),
            ("a token without an API address is not a pod", None, false, false, &[token], None),
            ("an API address without a token is not a pod", None, false, true, &[], None),
            ("otherwise there is none", None, false, false, &[], None),
        ];
        for (sentence, flag, kubeconfig, pod_host, existing, wanted) in rows {
            let exists = |path: &Path| existing.iter().any(|known| Path::new(known) == path);
            let environment = Environment { kubeconfig, pod_host, home: Some(Path::new("/home/me")) };
            assert_eq!(find_source(flag.map(Path::new), &environment, exists), wanted, "{sentence}");
        }
    }
}
