//! `bellwether crds`: prints the definitions of our kinds, or installs them in a cluster.

mod install;

use std::io::{ErrorKind, Write as _};

use bellwether_api::Definition;

use crate::cli::CrdsArgs;
use crate::outcome::NotDone;
use crate::target::Target;

pub(crate) fn run(arguments: &CrdsArgs) -> anyhow::Result<()> {
    let definitions = bellwether_api::crds();
    if !arguments.install {
        return print(&definitions);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let target = Target::find(&arguments.target).await?;
        let installed = install::all(&target, definitions, arguments.adopt);
        tokio::time::timeout(arguments.timeout, installed).await.unwrap_or_else(|_| {
            let waited = arguments.timeout;
            Err(NotDone::Late(format!("not every definition was established within {waited:?}; give it longer with --timeout, or look at `kubectl describe customresourcedefinitions`")).into())
        })
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
