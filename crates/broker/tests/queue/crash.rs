//! A process that publishes and consumes is killed again and again. No event whose publication was confirmed is lost.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bellwether_broker::sqlite::Limits;
use bellwether_broker::{Broker, CloudEvent};

use crate::{event, open};

/// The variable that makes [`crashing_process`] run, with its directory.
const DIRECTORY: &str = "BELLWETHER_QUEUE_CRASH_DIRECTORY";
const KILLS: u64 = 30;
const PUBLISHERS: usize = 8;
/// The confirmed publications after which a process is killed, at least.
const CONFIRMATIONS_PER_KILL: u64 = 20;

/// Not a test by itself: the process that is killed. It prints the ID of each event after its publication was confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashing_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let queue = Arc::new(open(Path::new(&directory), Limits::default()));
    // Nobody reads this subscription, so it has all events at the end.
    drop(queue.subscribe("t", "audit").await.unwrap());
    let mut subscriber = queue.subscribe("t", "load").await.unwrap();
    for _ in 0..PUBLISHERS {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move {
            loop {
                let event = event(0);
                queue.publish("t", &event).await.unwrap();
                let mut output = std::io::stdout().lock();
                writeln!(output, "confirmed {}", event.id).and_then(|()| output.flush()).unwrap();
            }
        });
    }
    loop {
        subscriber.next().await.unwrap().ack().await.unwrap();
    }
}

#[test]
fn killed_process_loses_no_confirmed_event() {
    let directory = tempfile::tempdir().unwrap();
    let mut confirmed = HashSet::new();
    for kill in 0..KILLS {
        confirmed.extend(run_until_killed(directory.path(), CONFIRMATIONS_PER_KILL + kill % 7));
    }
    assert!(confirmed.len() as u64 >= KILLS * CONFIRMATIONS_PER_KILL, "{}", confirmed.len());

    let connection = rusqlite::Connection::open(directory.path().join("queue.db")).unwrap();
    let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    let counters = "SELECT (SELECT events FROM totals) = (SELECT count(*) FROM event)
        AND (SELECT bytes FROM totals) = (SELECT sum(bytes) FROM event)
        AND (SELECT depth FROM subscription WHERE name = 'audit') = (SELECT count(*) FROM event)";
    assert!(
        connection.query_row(counters, [], |row| row.get::<_, bool>(0)).unwrap(),
        "the counters are right"
    );
    let mut statement = connection.prepare("SELECT body FROM event").unwrap();
    let bodies = statement.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let stored: HashSet<String> = bodies.map(|body| CloudEvent::parse(&body.unwrap()).unwrap().id).collect();
    let lost: Vec<_> = confirmed.difference(&stored).collect();
    assert!(lost.is_empty(), "{} of {} events are lost: {lost:?}", lost.len(), confirmed.len());
}

/// Runs the process, kills it after a number of confirmations, and returns the IDs of all confirmed events.
fn run_until_killed(directory: &Path, confirmations: u64) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::crashing_process", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut ids = Vec::new();
    let mut is_killed = false;
    for line in output.lines() {
        let Ok(line) = line else { break };
        if let Some((_, id)) = line.split_once("confirmed ") {
            ids.push(id.to_owned());
        }
        if ids.len() as u64 >= confirmations && !is_killed {
            // Moves the kill to another moment of a transaction each time.
            std::thread::sleep(Duration::from_micros(confirmations * 137 % 3_000));
            child.kill().unwrap();
            is_killed = true;
        }
    }
    child.wait().unwrap();
    assert!(is_killed, "the process ended by itself");
    // The last line may have been cut off.
    ids.retain(|id| id.len() == 36);
    ids
}
