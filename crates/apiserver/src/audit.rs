//! The audit log: who asked for what, when, and what became of it. One JSON document a line, in the form of
//! `audit.k8s.io/v1` at the level Metadata: no body of a request or an answer is ever in it. Written by a thread of its
//! own; the file is rotated.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How large the file may become, and how many older ones are kept beside it.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;
const KEPT: usize = 5;
/// How many failures to be known are written down in a second.
const STRANGERS_IN_A_SECOND: u32 = 10;
/// How many lines may wait to be written; then requests wait as well.
const QUEUE: usize = 4_096;
/// How many lines are written at once.
const BATCH: usize = 512;

/// Where lines go; nowhere, if nobody asked for a log.
#[derive(Default)]
pub(crate) struct AuditLog {
    lines: RwLock<Option<mpsc::Sender<Vec<u8>>>>,
    strangers: Mutex<Strangers>,
}

/// Those who could not say who they are.
#[derive(Default)]
struct Strangers {
    second: i64,
    written: u32,
    unwritten: u64,
}

impl AuditLog {
    /// Opens the log in a file, and starts the thread that writes it.
    pub(crate) fn open(path: &Path) -> std::io::Result<(Self, JoinHandle<()>)> {
        let mut file = Rotating::open(path, FILE_LIMIT)?;
        let (sender, mut lines) = mpsc::channel::<Vec<u8>>(QUEUE);
        let writing = tokio::task::spawn_blocking(move || {
            let mut batch = Vec::with_capacity(BATCH);
            while lines.blocking_recv_many(&mut batch, BATCH) > 0 {
                if let Err(error) = file.write(&batch.concat()) {
                    // A full disk must not stop the server, which says in /readyz that it is full.
                    tracing::error!(%error, lost = batch.len(), "the audit log cannot be written");
                }
                batch.clear();
            }
        });
        Ok((Self { lines: RwLock::new(Some(sender)), ..Self::default() }, writing))
    }

    /// Whether anybody wants to know.
    pub(crate) fn is_kept(&self) -> bool {
        self.lines.read().is_some()
    }

    /// Takes no more, so that the writer ends with what it has.
    pub(crate) fn close(&self) {
        self.lines.write().take();
    }

    /// Hands a document to the writer; waits while it is behind.
    pub(crate) async fn write(&self, event: &Value) {
        let Some(sender) = self.sender() else { return };
        // The writer ends with the server.
        let _ = sender.send(line(event)).await;
    }

    /// Hands a document to the writer where nobody can wait; one that is far behind loses it, and says so.
    pub(crate) fn write_now(&self, event: &Value) {
        let Some(sender) = self.sender() else { return };
        if sender.try_send(line(event)).is_err() {
            tracing::error!("the audit log is behind: a request whose client went away is not in it");
        }
    }

    /// Whether one more failure to be known is written down: there may be no end to them, and old lines would go for
    /// them. Also how many were not since the last one that was.
    pub(crate) fn admits_stranger(&self, second: i64) -> Option<u64> {
        let mut strangers = self.strangers.lock();
        if strangers.second != second {
            (strangers.second, strangers.written) = (second, 0);
        }
        if strangers.written >= STRANGERS_IN_A_SECOND {
            strangers.unwritten += 1;
            return None;
        }
        strangers.written += 1;
        Some(std::mem::take(&mut strangers.unwritten))
    }

    fn sender(&self) -> Option<mpsc::Sender<Vec<u8>>> {
        self.lines.read().clone()
    }
}

fn line(event: &Value) -> Vec<u8> {
    let mut line = event.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A text of a client, no longer than it may be.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    match text.get(..text.floor_char_boundary(limit)) {
        Some(beginning) if beginning.len() < text.len() => format!("{beginning}…"),
        _ => text.to_owned(),
    }
}

/// A file that is put aside when it is large enough.
struct Rotating {
    path: PathBuf,
    limit: u64,
    file: File,
    size: u64,
}

impl Rotating {
    fn open(path: &Path, limit: u64) -> std::io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), limit, file, size })
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.size >= self.limit
            && let Err(error) = self.rotate()
        {
            // What is open goes on; it is tried again when there is a good deal more.
            tracing::warn!(%error, path = %self.path.display(), "the audit log cannot be rotated");
            self.size -= self.limit / 8;
        }
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Nothing is moved before the next file is there.
    fn rotate(&mut self) -> std::io::Result<()> {
        let beside = |suffix: String| {
            let mut name = self.path.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let numbered = |number: usize| beside(format!(".{number}"));
        let new = beside(".new".to_owned());
        let next = OpenOptions::new().append(true).create(true).mode(0o600).open(&new)?;
        next.set_len(0)?;
        if self.path.exists() {
            for number in (1..KEPT).rev() {
                match std::fs::rename(numbered(number), numbered(number + 1)) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            std::fs::rename(&self.path, numbered(1))?;
        }
        std::fs::rename(&new, &self.path)?;
        self.file = next;
        self.size = 0;
        Ok(())
    }
}

/// A user, as the log names one.
pub(crate) fn user(identity: &crate::identity::Identity) -> Value {
    let mut user = json!({"username": identity.user, "groups": identity.groups});
    if !identity.uid.is_empty() {
        crate::object::set(&mut user, "uid", identity.uid.as_str());
    }
    if !identity.extra.is_empty() {
        crate::object::set(&mut user, "extra", json!(identity.extra));
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_that_is_large_enough_is_put_aside_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let mut file = Rotating::open(&path, 10).unwrap();
        for number in 0..20 {
            file.write(format!("line number {number}\n").as_bytes()).unwrap();
        }
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected: Vec<String> = std::iter::once("audit.log".to_owned())
            .chain((1..=KEPT).map(|number| format!("audit.log.{number}")))
            .collect();
        assert_eq!(names, expected);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line number 19\n");
        assert_eq!(std::fs::read_to_string(dir.path().join("audit.log.1")).unwrap(), "line number 18\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_rotation_that_fails_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let mut file = Rotating::open(&path, 10).unwrap();
        file.write(b"the first line\n").unwrap();
        // A directory stands where the next file should be.
        std::fs::create_dir(dir.path().join("audit.log.new")).unwrap();
        for _ in 0..10 {
            file.write(b"another\n").unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 11);
        std::fs::remove_dir(dir.path().join("audit.log.new")).unwrap();
        file.write(b"and the last\n").unwrap();
        file.write(b"and the last\n").unwrap();
        assert!(dir.path().join("audit.log.1").exists());
    }

    #[test]
    fn strangers_are_written_down_but_not_all_of_them() {
        let log = AuditLog::default();
        let written = (0..100).filter(|_| log.admits_stranger(1).is_some()).count();
        assert_eq!(written, STRANGERS_IN_A_SECOND as usize);
        assert_eq!(log.admits_stranger(2), Some(90));
        assert_eq!(log.admits_stranger(2), Some(0));
    }

    #[tokio::test]
    async fn lines_are_in_the_file_once_the_log_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let (log, writing) = AuditLog::open(&path).unwrap();
        for number in 0..1000 {
            log.write(&json!({"number": number})).await;
        }
        log.close();
        writing.await.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1000);
        assert_eq!(text.lines().last(), Some(r#"{"number":999}"#));
    }
}
