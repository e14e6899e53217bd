//! Logging to stderr, as text or JSON, at the level of RUST_LOG.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// The filter without RUST_LOG. The Kubernetes client logs nothing: its callers get each failed request as an error, and log it
/// with its context.
const DEFAULT_FILTER: &str = "warn,bellwether=info,kube_client=off";

pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colour);
    match format {
        LogFormat::Text => lines.with_target(false).init(),
        LogFormat::Json => lines.json().init(),
    }
}
