//! The `bellwether` binary that is measured: where it is, and how its processes are started.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::process::Process;

/// The path of the `bellwether` binary.
#[derive(Clone, Debug)]
pub(crate) struct Bellwether(PathBuf);

impl Bellwether {
    /// The binary at `path`, by default the one next to this executable: cargo puts both into the same directory.
    pub(crate) fn find(path: Option<PathBuf>) -> anyhow::Result<Self> {
        let path = match path {
            Some(path) => path,
            None => std::env::current_exe()
                .context("cannot find the path of this executable; name the binary to measure with --bellwether PATH")?
                .with_file_name("bellwether"),
        };
        anyhow::ensure!(
            path.is_file(),
            "there is no bellwether binary at {}; build it: cargo build --profile dist; or name it with --bellwether PATH",
            path.display()
        );
        Ok(Self(path))
    }

    /// Starts `bellwether` with these arguments; its output goes to `bellwether.log` in `dir`.
    pub(crate) fn spawn(&self, arguments: &[&str], dir: &Path) -> anyhow::Result<Process> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Process::spawn(&self.0, &arguments, dir)
    }
}
