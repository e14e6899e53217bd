//! The PostgreSQL database to measure: an existing one, or one on a server that is started for the benchmark.

use anyhow::Context as _;
use bellwether_testkit::postgres::Postgres;

/// The URL of the database. A server that is started here stops with this process, and its directory is removed then.
pub(super) async fn database(url: Option<&str>) -> anyhow::Result<String> {
    if let Some(url) = url {
        return Ok(url.to_owned());
    }
    let started = tokio::task::spawn_blocking(|| Postgres::start().url().to_owned());
    started
        .await
        .context("cannot start PostgreSQL; install the package postgresql, or name an empty database with --postgres URL")
}
