//! The pages of the documentation that people follow at a terminal, followed.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::page::walk;
use crate::server::{Server, bellwether, up};

#[test]
fn the_page_on_heartbeats_shows_what_happens() {
    follow("docs/heartbeats.md", &["--no-demo", "--spokes", "1"]);
}

#[test]
fn the_page_on_the_demonstration_shows_what_happens() {
    // Long enough to be seen waiting, also on a busy machine.
    follow("docs/demo.md", &["--simulate-delay", "5s", "--spokes", "1"]);
}

#[test]
fn the_page_on_addons_shows_what_happens() {
    follow("docs/addons.md", &["--simulate-delay", "500ms"]);
}

fn follow(page: &str, arguments: &[&str]) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let _server = Server::start(&dir, up(&dir).args(arguments));
    walk(page, &[("KUBECONFIG", dir.join("kubeconfig").to_str().unwrap())]);
}

#[test]
fn the_page_on_the_fleet_api_shows_what_happens() {
    let dir = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/fleet.yaml");
    let arguments =
        ["run", "fleet-api", "--listen", "127.0.0.1:0", "--database", &database, "--config", config];
    let mut api = bellwether(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut words = String::new();
    BufReader::new(api.stdout.take().unwrap()).read_line(&mut words).unwrap();
    let address = words.split(' ').find(|word| word.starts_with("http://")).expect("it says where it is");
    let address = address.split("/api/").next().unwrap().to_owned();
    let walked = std::panic::catch_unwind(|| walk("docs/fleet-api.md", &[("BELLWETHER_API", &address)]));
    api.kill().unwrap();
    api.wait().unwrap();
    walked.unwrap();
}
