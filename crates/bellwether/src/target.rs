//! The cluster that a command talks to: found by `--kubeconfig` and `--context`, then `KUBECONFIG`, then
//! `./.bellwether/kubeconfig`, then `~/.kube/config`. What is asked of it is the command's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::cli::TargetArgs;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// Where `bellwether up` leaves its kubeconfig, unless told otherwise.
const OURS: &str = ".bellwether/kubeconfig";
/// Where kubectl looks, below the home directory.
const KUBECTLS: &str = ".kube/config";

/// A cluster, and how to name it to a person.
pub(crate) struct Target {
    pub(crate) client: kube::Client,
    address: String,
    source: Source,
}

/// Where a kubeconfig was found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Environment,
    ThisProcess,
}

impl std::fmt::Display for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Environment => formatter.write_str("$KUBECONFIG"),
            Self::ThisProcess => formatter.write_str("this process"),
        }
    }
}

impl Target {
    /// A logical cluster of the server in this process.
    pub(crate) fn in_process(client: kube::Client, cluster: &str) -> Self {
        Self { client, address: cluster.to_owned(), source: Source::ThisProcess }
    }

    /// Finds the cluster. Nothing is sent to it yet.
    pub(crate) async fn find(arguments: &TargetArgs) -> anyhow::Result<Self> {
        let environment = std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty());
        let source = source(arguments.kubeconfig.as_deref(), environment, std::env::home_dir().as_deref(), |path| {
            path.exists()
        })
        .context(
            "no cluster to talk to: there is no .bellwether/kubeconfig here and no ~/.kube/config, and KUBECONFIG is \
             not set. Start one with `bellwether up`, or name one with --kubeconfig FILE",
        )?;
        let kubeconfig = read(&source)?;
        let context = context(&kubeconfig, arguments.context.as_deref(), &source)?;
        let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .with_context(|| format!("the context {context} of {source} cannot be used"))?;
        config.connect_timeout = Some(CONNECT);
        // A person waits for the answer: an error now is worth more than a success after many attempts.
        config.default_retry = false;
        let address = config.cluster_url.to_string();
        let client = kube::Client::try_from(config)
            .with_context(|| format!("the context {context} of {source} cannot be used"))?;
        Ok(Self { client, address, source })
    }

    /// Puts a failed request in words: whether there was an answer at all is what a person needs to know first.
    pub(crate) fn explain(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(status) => anyhow::anyhow!("cannot {attempt}: {}", status.message),
            error => anyhow::Error::new(error)
                .context(format!("cannot {attempt}: no answer from {self}; is the cluster running?")),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} (from {})", self.address.trim_end_matches('/'), self.source)
    }
}

/// The first place in the order that has a kubeconfig. A place that was named is taken even if nothing is there, so
/// that the error is about it.
fn source(
    flag: Option<&Path>,
    environment: bool,
    home: Option<&Path>,
    exists: impl Fn(&Path) -> bool,
) -> Option<Source> {
    if let Some(path) = flag {
        return Some(Source::File(path.to_owned()));
    }
    if environment {
        return Some(Source::Environment);
    }
    let usual = [Some(PathBuf::from(OURS)), home.map(|home| home.join(KUBECTLS))];
    usual.into_iter().flatten().find(|path| exists(path)).map(Source::File)
}

fn read(source: &Source) -> anyhow::Result<Kubeconfig> {
    match source {
        Source::File(path) => Kubeconfig::read_from(path),
        Source::Environment => Kubeconfig::from_env().map(Option::unwrap_or_default),
        Source::ThisProcess => Ok(Kubeconfig::default()),
    }
    .with_context(|| format!("cannot read the kubeconfig {source}"))
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
        let (ours, theirs) = (OURS, "/home/me/.kube/config");
        type Row<'a> = (&'a str, Option<&'a str>, bool, &'a [&'a str], Option<Source>);
        let rows: [Row<'_>; 6] = [
            ("a flag wins over everything", Some("/x"), true, &[ours, theirs], file("/x")),
            ("a flag is taken at its word", Some("/missing"), false, &[ours], file("/missing")),
            ("the environment comes second", None, true, &[ours, theirs], Some(Source::Environment)),
            ("then what `up` left here", None, false, &[ours, theirs], file(ours)),
            ("then what kubectl uses", None, false, &[theirs], file(theirs)),
            ("else there is none", None, false, &[], None),
        ];
        for (sentence, flag, environment, there, wanted) in rows {
            let exists = |path: &Path| there.iter().any(|known| Path::new(known) == path);
            let found = source(flag.map(Path::new), environment, Some(Path::new("/home/me")), exists);
            assert_eq!(found, wanted, "{sentence}");
        }
    }
}
