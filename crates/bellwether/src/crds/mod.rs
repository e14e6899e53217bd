//! `bellwether crds`: prints our CRDs, or installs them in a cluster.

mod install;

use std::io::{ErrorKind, Write as _};

use bellwether_api::Definition;

pub(crate) use self::install::provide;

use self::install::Permission;
use crate::cli::CrdsArgs;
use crate::target::Target;

pub(crate) fn run(arguments: &CrdsArgs) -> anyhow::Result<()> {
    let crds = bellwether_api::crds();
    if !arguments.install {
        return print(&crds);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let target = Target::find(&arguments.target).await?;
        let permission = if arguments.adopt { Permission::Adopt } else { Permission::OursOnly };
        install::all(&target, &crds, permission, arguments.timeout).await
    })
}

/// Prints one stream of YAML documents. It is not an error if the reader closes the pipe.
fn print(crds: &[Definition]) -> anyhow::Result<()> {
    let stream: String = crds.iter().map(|crd| format!("---\n{}", crd.yaml())).collect();
    match std::io::stdout().write_all(stream.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
