//! Runs the commands of the documentation pages, and compares their output with the pages.

use std::net::TcpListener;
use std::path::Path;

use crate::console_blocks::{ROOT, Surroundings};
use crate::server::{FleetApi, Server, fleet_api, up};

#[test]
fn heartbeats_page_matches_the_output() {
    run_on_up("docs/heartbeats.md", &["--no-demo", "--spokes", "1"]);
}

#[test]
fn demo_page_matches_the_output() {
    // Long enough that the page's commands see the rollout in progress, also on a busy machine.
    run_on_up("docs/demo.md", &["--simulate-delay", "5s", "--spokes", "1"]);
}

#[test]
fn addons_page_matches_the_output() {
    run_on_up("docs/addons.md", &["--simulate-delay", "500ms"]);
}

#[test]
fn observability_page_matches_the_output() {
    run_on_up("docs/observability.md", &["--simulate-delay", "100ms"]);
}

#[test]
fn adapters_page_matches_the_output() {
    run_on_up("docs/adapters.md", &["--simulate-delay", "100ms"]);
}

#[test]
fn sentinel_page_matches_the_output() {
    run_on_up("docs/sentinel.md", &["--no-demo", "--spokes", "1"]);
}

/// Runs a page where `up` was started: in a directory like the root directory of the repository.
fn run_on_up(page: &str, arguments: &[&str]) {
    let parent = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(Path::new(ROOT).join("deploy"), parent.path().join("deploy")).unwrap();
    let dir = parent.path().join(".bellwether");
    let server = Server::start(&dir, up(&dir).args(arguments));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (kubeconfig, http) = (server.kubeconfig(), server.address("http"));
    let surroundings = Surroundings {
        directory: parent.path(),
        variables: &[("KUBECONFIG", kubeconfig.to_str().unwrap())],
        // Roles that the page starts listen on a free port.
        replaced: &[("http://127.0.0.1:8000", &http), ("127.0.0.1:9003", &free), ("127.0.0.1:9004", &free)],
    };
    surroundings.run_page(page);
}

#[test]
fn fleet_api_page_matches_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
    let config = Path::new(ROOT).join("deploy/examples/fleet.yaml");
    let api = FleetApi::start(&dir.path().join("fleet"), fleet_api(&database).arg("--config").arg(config));
    let variables = [("BELLWETHER_API", api.address())];
    Surroundings { directory: Path::new(ROOT), variables: &variables, replaced: &[] }
        .run_page("docs/fleet-api.md");
}
