//! `bellwether broker`: what an operator sees of the built-in queue, and how dead letters are delivered again.

use std::path::PathBuf;
use std::time::Duration;

use bellwether_broker::{Broker as _, CloudEvent, MAX_ATTEMPTS};
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::pulse_observer::{CLUSTERS, open_queue};
use crate::server::{Ended, bellwether, run};

/// A queue with an event that a subscriber could not handle, and another event that waits.
struct Fixture {
    dir: TempDir,
    queue: PathBuf,
}

impl Fixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let queue = dir.path().join("queue.db");
        let broker = open_queue(&queue);
        let mut subscriber = broker.subscribe(CLUSTERS, "validation").await.unwrap();
        let publish = async |data: Value| {
            let event =
                CloudEvent::new("a-test", "com.redhat.hyperfleet.cluster.reconcile", data, Timestamp::now());
            broker.publish(CLUSTERS, &event).await.unwrap();
        };
        publish(json!({"name": "an event without id"})).await;
        for attempt in 1..=MAX_ATTEMPTS {
            let delivery = subscriber.next().await.unwrap();
            assert_eq!(delivery.attempt, attempt);
            delivery.nack(Duration::ZERO).await.unwrap();
        }
        publish(json!({"id": "01976b1e", "generation": 2})).await;
        Self { dir, queue }
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = bellwether(["broker"].iter().chain(arguments).copied());
        run(command.arg("--queue").arg(&self.queue).current_dir(self.dir.path()))
    }

    /// Runs a command that must succeed, and returns its output.
    fn stdout(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        ended.stdout
    }

    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        serde_json::from_str(&self.stdout(&[arguments, &["-o", "json"]].concat())).unwrap()
    }
}

/// Splits a table into its cells, by the columns in which the cells of the header begin.
fn rows(table: &str) -> Vec<Vec<String>> {
    let lines: Vec<Vec<char>> = table.lines().map(|line| line.chars().collect()).collect();
    let header = &lines[0];
    let begins = |at: usize| header[at] != ' ' && (at == 0 || (at > 1 && header[at - 2..at] == [' ', ' ']));
    let mut starts: Vec<usize> = (0..header.len()).filter(|at| begins(*at)).collect();
    starts.push(usize::MAX);
    let cells = |line: &Vec<char>| {
        let cells = starts.windows(2).map(|column| {
            let text: String = line[column[0]..column[1].min(line.len())].iter().collect();
            assert!(
                !text.starts_with(' ') && !text.trim().is_empty(),
                "a cell is not below its header:\n{table}"
            );
            assert!(
                column[1] >= line.len() || text.ends_with("  "),
                "a cell is not below its header:\n{table}"
            );
            text.trim_end().to_owned()
        });
        cells.collect()
    };
    lines.iter().map(cells).collect()
}

#[tokio::test]
async fn dead_letter_is_shown_with_its_cause_and_delivered_again() {
    let fixture = Fixture::new().await;
    let status = rows(&fixture.stdout(&["status"]));
    assert_eq!(
        status[0],
        ["TOPIC", "SUBSCRIPTION", "WAITING", "IN FLIGHT", "OLDEST", "DEAD LETTERS", "DROPPED"]
    );
    assert_eq!([&status[1][..4], &status[1][5..]].concat(), [CLUSTERS, "validation", "1", "0", "1", "0"]);
    let waiting = rows(&fixture.stdout(&["peek"]));
    assert_eq!(waiting[0], ["TOPIC", "AGE", "SUBSCRIPTIONS", "ATTEMPTS", "DATA"]);
    assert_eq!(waiting[1][2..], ["1", "0", r#"{"generation":2,"id":"01976b1e"}"#]);
    assert_eq!(waiting.len(), 2);

    let letters = rows(&fixture.stdout(&["dead-letters", CLUSTERS, "validation"]));
    assert_eq!(letters[0], ["ID", "TOPIC", "SUBSCRIPTION", "ATTEMPTS", "SINCE", "REASON", "DATA"]);
    let cause = "it was delivered 5 times without being acknowledged";
    let data = r#"{"name":"an event without id"}"#;
    assert_eq!([&letters[1][1..4], &letters[1][5..]].concat(), [CLUSTERS, "validation", "5", cause, data]);
    let letter = &fixture.json(&["dead-letters"])[0];
    let id = letter["id"].as_i64().unwrap().to_string();
    assert_eq!(letters[1][0], id);
    assert_eq!((&letter["attempts"], &letter["reason"]), (&json!(5), &json!(cause)));
    let body: Value = serde_json::from_str(letter["body"].as_str().unwrap()).unwrap();
    assert_eq!(body["data"], json!({"name": "an event without id"}));

    assert_eq!(fixture.stdout(&["requeue", &id]), "1 requeued\n");
    let none = fixture.run(&["dead-letters"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert_eq!(none.stderr, "There are no dead letters.\n");
    assert_eq!(fixture.json(&["dead-letters"]), Vec::<Value>::new());
    let attempts: Vec<Value> =
        fixture.json(&["peek", CLUSTERS]).iter().map(|event| event["attempts"].clone()).collect();
    assert_eq!(attempts, [0, 0], "a requeued event is delivered again 5 times");
    let broker = open_queue(&fixture.queue);
    let mut subscriber = broker.subscribe(CLUSTERS, "validation").await.unwrap();
    for id in [json!("01976b1e"), json!(null)] {
        let delivery = subscriber.next().await.unwrap();
        assert_eq!((&delivery.event.data["id"], delivery.attempt), (&id, 1));
        delivery.ack().await.unwrap();
    }
}

#[tokio::test]
async fn wrong_file_or_id_is_an_error_that_names_it() {
    let fixture = Fixture::new().await;
    std::fs::write(fixture.dir.path().join("notes.txt"), "not a database, but long enough to be read as one")
        .unwrap();
    let path = |name: &str| fixture.dir.path().join(name).display().to_string();
    let (missing, text) = (path("missing.db"), path("notes.txt"));
    let in_place = |arguments: &[&str]| {
        run(bellwether(["broker"].iter().chain(arguments).copied()).current_dir(fixture.dir.path()))
    };
    let hint = "name the file with --queue, or run this where `bellwether up` was started";
    let rows: [(&[&str], i32, &[&str]); 8] = [
        (&["peek"], 1, &["cannot open the queue .bellwether/queue.db", hint]),
        (&["peek", "--queue", &missing], 1, &[&missing, hint]),
        (&["dead-letters", "--queue", &missing], 1, &[&missing, hint]),
        (&["requeue", "1", "--queue", &missing], 1, &[&missing, hint]),
        (&["status", "--queue", &text], 1, &["it is not an SQLite database"]),
        (&["requeue", "--queue", &text], 2, &["  <ID>..."]),
        (&["requeue", "first", "--queue", &text], 2, &["invalid value 'first' for '[ID]...'"]),
        (&["requeue", "--topic", CLUSTERS], 2, &["--subscription <NAME>"]),
    ];
    for (arguments, code, expected) in rows {
        let ended = in_place(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{arguments:?}: {}", ended.stderr);
        for message in expected {
            assert!(
                ended.stderr.contains(message),
                "{arguments:?}: {message:?} is missing in {}",
                ended.stderr
            );
        }
    }
    assert!(!PathBuf::from(missing).exists(), "a command created the missing file");

    let id = fixture.json(&["dead-letters"])[0]["id"].to_string();
    let unknown = fixture.run(&["requeue", "4711"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    let message =
        "0 of 1 dead letters were requeued; the others do not exist: see `bellwether broker dead-letters`";
    assert!(unknown.stderr.contains(message), "{}", unknown.stderr);
    assert_eq!(fixture.run(&["requeue", &id, "4711"]).code, Some(1));
    assert_eq!(fixture.json(&["dead-letters"]), Vec::<Value>::new(), "the one that exists is requeued");
}
