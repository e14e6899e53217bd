//! `bellwether crds`: prints the definitions of our kinds, or installs them in a cluster.

mod install;

use std::io::{ErrorKind, Write as _};

use bellwether_api::Definition;

pub(crate) use self::install::provide;

use self::install::Permission;
use crate::cli::CrdsArgs;
use crate::target::Target;

pub(crate) fn run(arguments: &CrdsArgs) -> anyhow::Result<()> {
    let definitions = bellwether_api::crds();
    if !arguments.install {
        return print(&definitions);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let target = Target::find(&arguments.target).await?;
        let permission = if arguments.adopt { Permission::Adopt } else { Permission::OursOnly };
        install::all(&target, &definitions, permission, arguments.timeout).await
    })
}

/// One stream of documents. Whoever reads it may stop reading.
fn print(definitions: &[Definition]) -> anyhow::Result<()> {
    let stream: String = definitions.iter().map(|definition| format!("---\n{}", definition.yaml())).collect();
    match std::io::stdout().write_all(stream.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
