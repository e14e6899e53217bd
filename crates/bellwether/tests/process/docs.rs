//! Runs the commands of the documentation pages, and compares their output with the pages.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::console_blocks::{run_page, run_page_at};
use crate::server::{Server, bellwether, up};

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

fn run_on_up(page: &str, arguments: &[&str]) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(arguments));
    let kubeconfig = server.kubeconfig();
    run_page_at(page, &[("KUBECONFIG", kubeconfig.to_str().unwrap())], &server.address("http"));
}

#[test]
fn fleet_api_page_matches_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/fleet.yaml");
    let arguments =
        ["run", "fleet-api", "--listen", "127.0.0.1:0", "--database", &database, "--config", config];
    let mut api = bellwether(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(api.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split(' ').find(|word| word.starts_with("http://")).expect("it prints its address");
    let address = address.split("/api/").next().unwrap().to_owned();
    let result = std::panic::catch_unwind(|| run_page("docs/fleet-api.md", &[("BELLWETHER_API", &address)]));
    api.kill().unwrap();
    api.wait().unwrap();
    result.unwrap();
}
