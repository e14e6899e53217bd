//! Log lines: on stderr, as text or JSON, at the level of RUST_LOG.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// What the client says of a failed request comes back to the one who made it, who knows what it means.
const USUAL: &str = "warn,bellwether=info,kube_client=off";

pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(USUAL));
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colour);
    match format {
        LogFormat::Text => lines.with_target(false).init(),
        LogFormat::Json => lines.json().init(),
    }
}
