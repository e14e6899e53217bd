//! The pages of the documentation that people follow at a terminal, followed.

use crate::page::walk;
use crate::server::{Server, up};

#[test]
fn the_page_on_heartbeats_shows_what_happens() {
    follow("docs/heartbeats.md", &["--no-demo"]);
}

#[test]
fn the_page_on_the_demonstration_shows_what_happens() {
    // Long enough to be seen waiting, also on a busy machine.
    follow("docs/demo.md", &["--simulate-delay", "5s"]);
}

fn follow(page: &str, arguments: &[&str]) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "1"]).args(arguments));
    walk(page, &dir.join("kubeconfig"));
}
